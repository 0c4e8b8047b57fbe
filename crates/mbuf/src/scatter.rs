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
    /// Storage for the list of buffers of a read, empty between reads.
    slices: Vec<IoSliceMut<'static>>,
    pool: MbufPool,
}

impl Scatter {
    /// Clusters of the sizes in `plan`, in that order.
    pub fn new(pool: &MbufPool, plan: &[ClusterSize]) -> Self {
        Self {
            pool: pool.clone(),
            plan: plan.to_vec(),
            ready: VecDeque::new(),
            slices: Vec::new(),
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

    /// Calls `read` with buffers for a scattering read: `header`, unless it is empty, and then at most `max` bytes of
    /// the clusters.
    ///
    /// ```
    /// use std::io::Read;
    /// use mbuf::{MbufPool, PoolConfig, Scatter};
    ///
    /// let pool = MbufPool::new(PoolConfig::default())?;
    /// let mut scatter = Scatter::for_len(&pool, 1500);
    /// scatter.refill()?;
    /// let (mut from, mut header) = (&b"headerdata"[..], [0; 6]);
    /// let n = scatter.read(&mut header, 1500, |buffers| from.read_vectored(buffers))?;
    /// assert_eq!(scatter.take(n - header.len()).to_vec(), b"data");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read<R>(
        &mut self,
        header: &mut [u8],
        mut max: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> R,
    ) -> R {
        let mut slices: Vec<IoSliceMut<'_>> = std::mem::take(&mut self.slices);
        if !header.is_empty() {
            slices.push(IoSliceMut::new(header));
        }
        for chain in &mut self.ready {
            if max == 0 {
                break;
            }
            let room = chain.room_mut();
            let n = room.len().min(max);
            max -= n;
            slices.push(IoSliceMut::new(&mut room[..n]));
        }
        let result = read(&mut slices);
        self.slices = recycle(slices);
        result
    }

    /// The first `n` bytes that a read put into the clusters, as a chain.
    ///
    /// `n` must not exceed the room that [`Scatter::read`] offered.
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

/// Empties the list and keeps its storage. No element is left that could outlive its borrows, and elements of the same
/// layout are collected in place.
fn recycle(mut slices: Vec<IoSliceMut<'_>>) -> Vec<IoSliceMut<'static>> {
    slices.clear();
    slices
        .into_iter()
        .map(|_| IoSliceMut::new(&mut []))
        .collect()
}
