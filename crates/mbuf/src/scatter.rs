//! Scattering reads: clusters that lie ready for `readv`, so that bytes from a device or a socket
//! land where they stay.
//!
//! A [`Scatter`] keeps a row of empty clusters, a small one first. A read of `n` bytes uses up the
//! first few; [`Scatter::take`] hands those over as a chain and the rest wait for the next read. A
//! short frame costs one 2 KiB cluster, a long one a few of 16 KiB.
//!
//! Invariant: the row is the rest of the plan, its end.

use std::collections::VecDeque;
use std::io::IoSliceMut;

use crate::chain::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::pool::{ClusterSize, MbufPool};

/// A row of empty clusters to read into.
#[derive(Debug)]
pub struct Scatter {
    /// One single-mbuf, empty chain a place of the plan, each over a cluster of its own. Dropped
    /// before the pool: a pool that goes with mbufs outstanding leaks.
    row: VecDeque<Chain>,
    plan: Vec<ClusterSize>,
    pool: MbufPool,
}

impl Scatter {
    /// A row after `plan`: the sizes of its clusters in order.
    pub fn new(pool: &MbufPool, plan: &[ClusterSize]) -> Self {
        Self {
            pool: pool.clone(),
            plan: plan.to_vec(),
            row: VecDeque::new(),
        }
    }

    /// One 2 KiB cluster, then enough of 16 KiB that `len` bytes fit.
    pub fn for_len(pool: &MbufPool, len: usize) -> Self {
        let big = len
            .saturating_sub(ClusterSize::K2.bytes())
            .div_ceil(ClusterSize::K16.bytes());
        let mut plan = vec![ClusterSize::K2];
        plan.resize(1 + big, ClusterSize::K16);
        Self::new(pool, &plan)
    }

    /// Bytes that a full row takes.
    pub fn capacity(&self) -> usize {
        self.plan.iter().map(|s| s.bytes()).sum()
    }

    /// Completes the row. On failure the mbufs that are there stay; there may be none.
    #[track_caller]
    pub fn refill(&mut self) -> Result<(), NoBufs> {
        // The row is the end of the plan, so the missing mbufs are its front.
        while self.row.len() < self.plan.len() {
            let size = self.plan[self.plan.len() - self.row.len() - 1];
            let m = Mbuf::with_cluster(&self.pool, 0, size, 0)?;
            self.row.push_front(Chain::from_list(m));
        }
        Ok(())
    }

    /// The row as buffers for a scattering read, at most `max` bytes of it.
    pub fn io_slices<'a>(&'a mut self, mut max: usize, out: &mut Vec<IoSliceMut<'a>>) {
        for chain in &mut self.row {
            if max == 0 {
                return;
            }
            let room = chain.room_mut();
            let n = room.len().min(max);
            max -= n;
            out.push(IoSliceMut::new(&mut room[..n]));
        }
    }

    /// The first `n` bytes that a read put into the row, as a chain.
    ///
    /// `n` must not exceed the room that [`Scatter::io_slices`] offered.
    pub fn take(&mut self, mut n: usize) -> Chain {
        let mut out = Chain::new();
        while n > 0 {
            let Some(mut chain) = self.row.pop_front() else {
                break;
            };
            let here = n.min(chain.room_mut().len());
            chain.grow(here);
            n -= here;
            out.append(chain);
        }
        out
    }

    /// Gives the empty clusters back until the next refill.
    pub fn clear(&mut self) {
        self.row.clear();
    }
}
