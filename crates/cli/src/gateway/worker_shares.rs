//! The traffic of each worker so far, for the worker that reports the traffic of all.
//!
//! Locks: a worker's share (STATS).

use std::sync::Arc;

use kern::{LockClass, Mutex, order};

use super::figures::Share;

static SHARE: LockClass = LockClass::new("gateway share", order::STATS);

/// The share of each worker, as the worker last published it.
pub(super) struct WorkerShares(Vec<Mutex<Share>>);

impl WorkerShares {
    /// The shares of this many workers, all zero.
    pub(super) fn new(workers: usize) -> Arc<Self> {
        let none = |_| Mutex::new(&SHARE, Share::default());
        Arc::new(Self((0..workers).map(none).collect()))
    }

    /// How many workers there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Worker `index` has moved this much.
    pub(super) fn publish(&self, index: usize, share: Share) {
        *self.0[index].lock() = share;
    }

    /// The last published share of each worker.
    pub(super) fn all(&self) -> Vec<Share> {
        self.0.iter().map(|share| *share.lock()).collect()
    }
}
