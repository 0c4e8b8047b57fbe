//! Threads that wait for disks, so that no worker does.
//!
//! A worker reads only what is in memory ([`SendFile::set_resident_only`]); the rest is a task for a thread of this
//! pool. A file system that answers slowly, or not at all, gets [`DEVICE_MAX`] threads at most, so the others are free
//! for the files of other file systems.
//!
//! Threads start when there is work, and never end: an idle one takes a few KiB.
//!
//! Invariants: a task runs once, or not at all if its caller cancels it before. Callers bound how many wait: one for
//! each connection, which cancels it when it ends.
//! Locks: `state` (TASKQUEUE), with nothing called under it.
//!
//! [`SendFile::set_resident_only`]: mbuma::socket::SendFile::set_resident_only

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;

use kern::{Condvar, LockClass, Mutex, order};

static STATE: LockClass = LockClass::new("file readers", order::TASKQUEUE);

/// Threads at most.
const THREADS_MAX: usize = 12;
/// Threads that read from one file system at most.
const DEVICE_MAX: usize = 4;

/// One or more reads.
type ReadTask = Box<dyn FnOnce() + Send>;

/// A task that was given to the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadId(u64);

/// The threads: clone the handle freely.
#[derive(Clone, Default)]
pub(crate) struct FileReaders(Arc<ReaderPool>);

struct ReaderPool {
    state: Mutex<ReaderState>,
    /// Notified when there may be a task for an idle thread.
    changed: Condvar,
}

#[derive(Default)]
struct ReaderState {
    waiting: VecDeque<WaitingRead>,
    /// The number of the next task.
    next_id: u64,
    /// Threads that read from each device.
    busy: HashMap<u64, usize>,
    threads: usize,
    idle: usize,
}

struct WaitingRead {
    id: ReadId,
    device: u64,
    task: ReadTask,
}

impl Default for ReaderPool {
    fn default() -> ReaderPool {
        ReaderPool {
            state: Mutex::new(&STATE, ReaderState::default()),
            changed: Condvar::new(),
        }
    }
}

impl FileReaders {
    /// Has a thread run `task`, which reads from the file system with this number. If there can be no thread, the
    /// caller runs it.
    pub(crate) fn run(&self, device: u64, task: impl FnOnce() + Send + 'static) -> ReadId {
        let task = Box::new(task);
        let mut state = self.0.state.lock();
        let id = ReadId(state.next_id);
        state.next_id += 1;
        state.waiting.push_back(WaitingRead { id, device, task });
        // A thread that was woken and has not run yet counts as idle: it takes one of the tasks.
        let starts = state.waiting.len() > state.idle && state.threads < THREADS_MAX;
        if starts {
            state.threads += 1;
        }
        drop(state);
        self.0.changed.notify_one();
        if starts && self.start().is_err() {
            self.do_without();
        }
        id
    }

    /// Drops a task that no thread has begun, with all that it holds.
    pub(crate) fn cancel(&self, id: ReadId) {
        let mut state = self.0.state.lock();
        let at = state.waiting.iter().position(|read| read.id == id);
        let cancelled = at.and_then(|at| state.waiting.remove(at));
        drop(state);
        drop(cancelled);
    }

    fn start(&self) -> std::io::Result<()> {
        let pool = Arc::clone(&self.0);
        let thread = thread::Builder::new().name("mbuma-reader".to_owned());
        thread.spawn(move || pool.serve()).map(drop)
    }

    /// A thread could not be started: without any, the caller does the work.
    fn do_without(&self) {
        let mut state = self.0.state.lock();
        state.threads -= 1;
        let tasks = match state.threads {
            0 => std::mem::take(&mut state.waiting),
            _ => VecDeque::new(),
        };
        drop(state);
        tasks.into_iter().for_each(|read| (read.task)());
    }
}

impl ReaderPool {
    /// The life of a thread.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            let Some(WaitingRead { device, task, .. }) = state.take() else {
                state.idle += 1;
                state = self.changed.wait(state, None);
                state.idle -= 1;
                continue;
            };
            drop(state);
            task();
            state = self.state.lock();
            state.release(device);
            // A task of this device may have waited for it.
            self.changed.notify_one();
        }
    }
}

impl ReaderState {
    /// The first task of a device that has not all its threads.
    fn take(&mut self) -> Option<WaitingRead> {
        let busy = |device| self.busy.get(device).is_some_and(|&n| n >= DEVICE_MAX);
        let at = self.waiting.iter().position(|read| !busy(&read.device))?;
        let read = self.waiting.remove(at)?;
        *self.busy.entry(read.device).or_default() += 1;
        Some(read)
    }

    fn release(&mut self, device: u64) {
        if let Some(n) = self.busy.get_mut(&device) {
            *n -= 1;
            if *n == 0 {
                self.busy.remove(&device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_device_that_does_not_answer_keeps_no_other_one_waiting() {
        // Breaks when the tasks of a slow file system take all threads.
        let readers = FileReaders::default();
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let (done, finished) = mpsc::channel();
        for _ in 0..3 * THREADS_MAX {
            let (wait, done) = (Arc::clone(&wait), done.clone());
            readers.run(1, move || {
                let _ = wait.lock().map(|wait| wait.recv());
                let _ = done.send(1);
            });
        }
        for n in 0..100 {
            let done = done.clone();
            readers.run(2 + n % 3, move || {
                let _ = done.send(2);
            });
        }
        for _ in 0..100 {
            assert_eq!(finished.recv(), Ok(2));
        }
        drop(release);
        for _ in 0..3 * THREADS_MAX {
            assert_eq!(finished.recv(), Ok(1));
        }
    }

    #[test]
    fn a_cancelled_task_frees_what_it_holds() {
        // Breaks when connections that ended leave their files open behind a file system that does not answer, or the
        // end of one takes another's task.
        let readers = FileReaders::default();
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let (begun, begins) = mpsc::channel();
        for _ in 0..DEVICE_MAX {
            let (wait, begun) = (Arc::clone(&wait), begun.clone());
            readers.run(1, move || {
                let _ = begun.send(());
                let _ = wait.lock().map(|wait| wait.recv());
            });
        }
        (0..DEVICE_MAX).for_each(|_| assert_eq!(begins.recv(), Ok(())));
        let held = Arc::new(());
        let (done, finished) = mpsc::channel();
        let task = |n: usize| {
            let (held, done) = (Arc::clone(&held), done.clone());
            readers.run(1, move || {
                drop(held);
                let _ = done.send(n);
            })
        };
        let ids: Vec<_> = (0..1000).map(task).collect();
        ids[..999].iter().for_each(|&id| readers.cancel(id));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(release);
        assert_eq!(finished.recv(), Ok(999));
        // One that ran is no longer there to be cancelled.
        readers.cancel(ids[999]);
    }

    #[test]
    fn each_task_runs_once() {
        // Breaks when a thread sleeps over a task, or two take the same.
        let readers = FileReaders::default();
        let (done, finished) = mpsc::channel();
        for n in 0..1000_u64 {
            let done = done.clone();
            readers.run(n % 5, move || {
                let _ = done.send(n);
            });
        }
        drop(done);
        let mut all: Vec<_> = finished.iter().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1000));
    }
}
