//! Scattering reads: clusters that lie ready for `readv`, so that bytes from a device or a socket
//! land where they stay.
//!
//! A [`Scatter`] keeps empty clusters in order, a small one first. A read of `n` bytes uses up the
//! first few; [`Scatter::take`] hands those over as a chain and the rest wait for the next read. A
//! short frame costs one 2 KiB cluster, a long one a few of 16 KiB.
//!
//! Invariant: the clusters that are ready are the last ones of the plan.

use std::collections::VecDeque;
use std::io::IoSliceMut;

use crate::chain::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::pool::{ClusterSize, MbufPool};

/// Empty clusters to read into, in order.
#[derive(Debug)]
pub struct Scatter {
    /// An empty chain of one mbuf, over a cluster of its own, for each size in the plan. Dropped before the pool: a
    /// pool that is dropped while mbufs are live counts as leaked.
    ready: VecDeque<Chain>,
    plan: Vec<ClusterSize>,
    pool: MbufPool,
}

impl Scatter {
    /// Clusters of the sizes in `plan`, in that order.
    pub fn new(pool: &MbufPool, plan: &[ClusterSize]) -> Self {
        Self {
            pool: pool.clone(),
            plan: plan.to_vec(),
            ready: VecDeque::new(),
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

    /// Bytes that all clusters of the plan take.
    pub fn capacity(&self) -> usize {
        self.plan.iter().map(|s| s.bytes()).sum()
    }

    /// Allocates the missing clusters. On failure the mbufs that are there stay; there may be none.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[track_caller]
    pub fn refill(&mut self) -> Result<(), NoBufs> {
        // The ready clusters are the end of the plan, so the missing mbufs are its front.
        while self.ready.len() < self.plan.len() {
            let size = self.plan[self.plan.len() - self.ready.len() - 1];
            let m = Mbuf::with_cluster(&self.pool, 0, size, 0)?;
            self.ready.push_front(Chain::from_list(m));
        }
        Ok(())
    }

    /// The clusters as buffers for a scattering read, at most `max` bytes of it.
    pub fn io_slices<'a>(&'a mut self, mut max: usize, out: &mut Vec<IoSliceMut<'a>>) {
        for chain in &mut self.ready {
            if max == 0 {
                return;
            }
            let room = chain.room_mut();
            let n = room.len().min(max);
            max -= n;
            out.push(IoSliceMut::new(&mut room[..n]));
        }
    }

    /// The first `n` bytes that a read put into the clusters, as a chain.
    ///
    /// `n` must not exceed the room that [`Scatter::io_slices`] offered.
    pub fn take(&mut self, mut n: usize) -> Chain {
        let mut out = Chain::new();
        while n > 0 {
            let Some(mut chain) = self.ready.pop_front() else {
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
        self.ready.clear();
    }
}
