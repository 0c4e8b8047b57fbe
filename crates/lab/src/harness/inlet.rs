//! Where packets from another of our stacks come in that no other thread takes in.
//!
//! Invariants: the mark is set after the packets are there, and cleared before they are looked for. Locks: none here.

use mbuma::RxQueue;
use mbuma::device::Budget;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// One receive queue, taken in by the thread that owns this.
pub(crate) struct Inlet {
    queue: RxQueue,
    mark: Arc<ArrivalMark>,
    /// The last look said that there may be more.
    more: bool,
}

/// Packets arrived.
#[derive(Default)]
pub(crate) struct ArrivalMark(AtomicBool);

impl ArrivalMark {
    /// The waker that a device calls when packets arrive.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for ArrivalMark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    // Release, to the Acquire of the thread that clears it: the packets are there.
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Inlet {
    /// Takes in the packets of `queue` if `mark` is set.
    pub(crate) fn new(queue: RxQueue, mark: Arc<ArrivalMark>) -> Self {
        let more = false;
        Self { queue, mark, more }
    }

    /// Takes in all that arrived.
    pub(crate) fn run(&mut self) {
        // A read first: the line stays in Shared state while no packet comes.
        let marked = self.mark.0.load(Ordering::Relaxed);
        if self.more || (marked && self.mark.0.swap(false, Ordering::Acquire)) {
            self.more = self.queue.poll(ALL).unwrap_or(false);
        }
    }
}

/// All packets that wait.
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};
