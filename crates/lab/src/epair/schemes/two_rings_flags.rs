//! Two rings and an index, with a pair of flags that say whether a packet was queued and whether the task was
//! scheduled: the scheme after its first fix.
//!
//! The mistake: a transmitter marks that it queues and reads the index; the task turns the index and drains that ring;
//! the transmitter adds to it, and does not schedule the task, which is marked as scheduled; the task sees that a
//! packet was queued and runs again: it turns the index back and drains the other ring. The added packet waits for
//! another packet.
//!
//! Source: seed 003, of the commit "if_epair: fix race condition on multi-core systems".

use super::ring::Ring;
use crate::epair::scheme::{Scheme, Sent};
use kern::prim::{AtomicUsize, Ordering};

/// The task was scheduled and has not finished.
const TASK_QUEUED: usize = 1;
/// A transmitter has queued a packet, or is about to.
const ITEM_QUEUED: usize = 2;

/// Two rings, scheduled by flags.
pub(crate) struct TwoRingsFlags<T> {
    rings: [Ring<T>; 2],
    /// Which ring transmitters use: 0 or 1.
    index: AtomicUsize,
    /// Bits as above. Changed by read-modify-write only, AcqRel.
    flags: AtomicUsize,
}

impl<T: Send + 'static> Scheme<T> for TwoRingsFlags<T> {
    const NAME: &'static str = "two-rings-flags";

    fn new(size: usize) -> Self {
        Self {
            rings: [Ring::new(size), Ring::new(size)],
            index: AtomicUsize::new(0),
            flags: AtomicUsize::new(0),
        }
    }

    fn send(&self, item: T) -> Sent<T> {
        self.flags.fetch_or(ITEM_QUEUED, Ordering::AcqRel);
        let index = self.index.load(Ordering::Acquire);
        if let Err(item) = self.rings[index].push(item) {
            return Sent::Full(item);
        }
        match self.flags.fetch_or(TASK_QUEUED, Ordering::AcqRel) & TASK_QUEUED {
            0 => Sent::Schedule,
            _ => Sent::Queued,
        }
    }

    fn run(&self, input: &mut dyn FnMut(T)) -> bool {
        let used = self.index.fetch_xor(1, Ordering::AcqRel);
        while let Some(item) = self.rings[used].pop() {
            input(item);
        }
        self.flags.fetch_and(!TASK_QUEUED, Ordering::AcqRel);
        self.flags.fetch_and(!ITEM_QUEUED, Ordering::AcqRel) & ITEM_QUEUED != 0
    }
}
