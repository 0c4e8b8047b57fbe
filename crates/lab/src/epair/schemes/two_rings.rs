//! Two rings and an index that tells which of them transmitters use; a transmitter that finds the ring empty
//! schedules the task.
//!
//! The task turns the index and drains the ring that was in use, so that transmitters fill one while it empties the
//! other. This is the scheme as it first was, before the fix that seed 003 names.
//!
//! The mistake: a transmitter reads the index and finds the ring not empty; the task turns the index, drains
//! that ring to its end and looks at the other one; then the transmitter adds to the first. The task is not scheduled
//! for that packet until another one comes.
//!
//! Source: seed 003, of the commit "if_epair: rework".

use super::ring::Ring;
use crate::epair::scheme::{Scheme, Sent};
use kern::prim::{AtomicUsize, Ordering};

/// Two rings, scheduled when empty.
pub(crate) struct TwoRings<T> {
    rings: [Ring<T>; 2],
    /// Which ring transmitters use: 0 or 1.
    index: AtomicUsize,
}

impl<T: Send + 'static> Scheme<T> for TwoRings<T> {
    const NAME: &'static str = "two-rings";

    fn new(size: usize) -> Self {
        Self {
            rings: [Ring::new(size), Ring::new(size)],
            index: AtomicUsize::new(0),
        }
    }

    fn send(&self, item: T) -> Sent<T> {
        let ring = &self.rings[self.index.load(Ordering::Acquire)];
        let first = ring.is_empty();
        match ring.push(item) {
            Err(item) => Sent::Full(item),
            Ok(()) if first => Sent::Schedule,
            Ok(()) => Sent::Queued,
        }
    }

    fn run(&self, input: &mut dyn FnMut(T)) -> bool {
        let used = self.index.fetch_xor(1, Ordering::AcqRel);
        while let Some(item) = self.rings[used].pop() {
            input(item);
        }
        !self.rings[1 - used].is_empty()
    }
}
