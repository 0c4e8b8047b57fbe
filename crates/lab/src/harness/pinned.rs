//! Threads that are pinned, each to its CPU, and how long they took together.

use super::rounds::Took;
use super::sys;
use std::hint;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Does `work` on a thread that is pinned to `cpu`. A thread of its own, so that a design's per-thread state is set up
/// and taken down as in a program.
pub(crate) fn run<T: Send>(cpu: usize, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| joined(scope.spawn(|| pinned(cpu, work))))
}

/// Does each work on a thread of its own, pinned to its CPU, all at once. The results are in the order of the threads.
pub(crate) fn all<T: Send, W: FnOnce() -> T + Send>(
    works: impl IntoIterator<Item = (usize, W)>,
) -> Vec<T> {
    thread::scope(|scope| {
        let start = |(cpu, work)| scope.spawn(move || pinned(cpu, work));
        let running: Vec<_> = works.into_iter().map(start).collect();
        running.into_iter().map(joined).collect()
    })
}

fn pinned<T>(cpu: usize, work: impl FnOnce() -> T) -> T {
    // Without the right to pin threads, the measurement runs on any CPU.
    let _ = sys::pin(&[cpu]);
    work()
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Where threads wait for each other, awake: a thread that sleeps until the others are there begins when it is woken,
/// which on a busy CPU may be when they are done.
pub(crate) struct Meeting {
    missing: AtomicUsize,
}

impl Meeting {
    /// Of this many threads, each of which comes once.
    pub(crate) fn of(threads: usize) -> Self {
        Self {
            missing: AtomicUsize::new(threads),
        }
    }

    fn wait(&self) {
        // Relaxed: it says only when to start; the spawn of the threads published their data.
        self.missing.fetch_sub(1, Ordering::Relaxed);
        let mut spins = 0u32;
        while self.missing.load(Ordering::Relaxed) > 0 {
            spins += 1;
            if spins.is_multiple_of(1 << 14) {
                thread::yield_now();
            }
            hint::spin_loop();
        }
    }
}

/// The run of one of several threads: its begin and end, and how long it waited for its CPU.
pub(crate) struct Span {
    start: Instant,
    end: Instant,
    waited: Duration,
}

impl Span {
    /// Does `work` on this thread when all are there. Waiting for the CPU at the start counts as well.
    pub(crate) fn of(meeting: &Meeting, work: impl FnOnce()) -> Self {
        let thread = sys::thread_id();
        let waited = sys::waited(thread);
        meeting.wait();
        let start = Instant::now();
        work();
        let end = Instant::now();
        let waited = sys::waited(thread) - waited;
        Self { start, end, waited }
    }

    /// From the first start to the last end. A thread that lost its CPU for long disturbs the run: the others waited
    /// without need, or did not have to share.
    pub(crate) fn together(spans: &[Self]) -> Took {
        let start = spans.iter().map(|span| span.start).min();
        let end = spans.iter().map(|span| span.end).max();
        let waited = spans.iter().map(|span| span.waited).max();
        match (start, end, waited) {
            (Some(start), Some(end), Some(waited)) => Took::with_wait(end - start, waited),
            _ => Took::default(),
        }
    }
}
