//! The waker of a relayed connection.
//!
//! Locks: those of the standard library's channel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::task::Wake;

/// Queues the number of a connection for the thread, once until the thread has taken it.
pub(super) struct Nudge {
    number: u64,
    /// The number is queued, and the thread has not taken it. AcqRel on both sides: the check that follows sees all
    /// changes before the wakeup.
    named: AtomicBool,
    to: Sender<u64>,
}

impl Nudge {
    pub(super) fn new(number: u64, to: &Sender<u64>) -> Arc<Nudge> {
        Arc::new(Nudge {
            number,
            named: AtomicBool::new(false),
            to: to.clone(),
        })
    }

    /// The thread takes the number: the next wakeup queues it again.
    pub(super) fn take(&self) {
        self.named.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.named.swap(true, Ordering::AcqRel) {
            // It fails if the thread has ended.
            let _ = self.to.send(self.number);
        }
    }
}
