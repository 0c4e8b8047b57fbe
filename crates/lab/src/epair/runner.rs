//! A thread that runs a taskqueue, and sleeps when the queue is empty.
//!
//! Invariants: it ends with its owner.
//! Locks: none.

use kern::Taskqueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};

/// The thread, and its queue.
pub(crate) struct Runner {
    queue: Arc<Taskqueue>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The thread found the queue empty and is about to sleep, or asleep.
    idle: AtomicBool,
    /// Wakeups by the queue.
    wakeups: AtomicU64,
}

impl Runner {
    pub(crate) fn new() -> Self {
        let shared = Arc::new(Shared::default());
        let (tell, told) = std::sync::mpsc::channel::<Arc<Taskqueue>>();
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            if let Ok(queue) = told.recv() {
                theirs.run(&queue);
            }
        });
        let (sleeper, counts) = (thread.thread().clone(), Arc::clone(&shared));
        let queue = Arc::new(Taskqueue::new(move || counts.wake(&sleeper)));
        // It waits for this, and only for this.
        let _ = tell.send(Arc::clone(&queue));
        Self {
            queue,
            shared,
            thread: Some(thread),
        }
    }

    pub(crate) fn queue(&self) -> &Arc<Taskqueue> {
        &self.queue
    }

    pub(crate) fn wakeups(&self) -> u64 {
        self.shared.wakeups.load(Ordering::Relaxed)
    }

    /// Whether it sleeps without a wakeup: then it will not handle the packets that wait.
    pub(crate) fn sleeps(&self) -> bool {
        self.shared.idle.load(Ordering::SeqCst) && self.queue.is_empty()
    }
}

impl Shared {
    fn run(&self, queue: &Taskqueue) {
        while !self.stop.load(Ordering::Acquire) {
            self.idle.store(false, Ordering::SeqCst);
            if !queue.run(16).more {
                self.idle.store(true, Ordering::SeqCst);
                thread::park();
            }
        }
    }

    fn wake(&self, sleeper: &Thread) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        sleeper.unpark();
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic in it has been printed, and the figures are missing.
            let _ = thread.join();
        }
    }
}
