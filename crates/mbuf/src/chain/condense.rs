//! Small data copied out of large storage, so that the memory that a chain pins stays in proportion
//! to its bytes.
//!
//! ```text
//!   before   | 1 of 2048 | 1 of 2048 | 1400 of 2048 | 90 of 16384 |     pinned 23,552, shown 1492
//!   after    | 2 of 216 | 1400 and 90 of 2048 |                         pinned  2,560
//! ```
//!
//! The rule is about one mbuf: its storage has at most [`PINNED_PER_BYTE_MAX`] bytes for each that it shows. Data that
//! breaks the rule is copied, into the room behind the byte before it, or into fresh storage: mbufs for less than a
//! quarter of the smallest cluster, a cluster for more. Mbufs that show neighbouring parts of one storage become one
//! first.
//!
//! Source: sbcompress and m_compress of the BSDs, which look at free room only.

use super::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::mbuf::PINNED_PER_BYTE_MAX;
use crate::pool::{ClusterSize, MbufPool};
use crate::raw::EXT;

/// From this many bytes on, a cluster satisfies the rule.
const CLUSTER_MIN: usize = ClusterSize::K2.bytes() / PINNED_PER_BYTE_MAX;

impl Chain {
    /// Copies small data out of large storage, and returns by how many bytes
    /// [`pinned`](Chain::pinned) fell.
    ///
    /// Afterwards `pinned() <= PINNED_PER_BYTE_MAX * len() + MSIZE * mbufs()`, for any chain; if buffers are short,
    /// some data stays where it is. The chain never pins more than before. Shared and lent storage counts as if this
    /// chain were its only user, so after a copy it may still be in use elsewhere.
    #[doc(alias = "m_compress")]
    #[doc(alias = "sbcompress")]
    pub fn condense(&mut self, pool: &MbufPool) -> usize {
        let before = self.pinned;
        let all = std::mem::take(self);
        self.append_compact(pool, all);
        before - self.pinned
    }

    /// Joins `other` to the end as [`Chain::condense`] would leave it: mbufs that keep the rule are moved,
    /// others are copied. Of mbufs that show neighbouring parts of one storage, as TCP's segments do that crossed a
    /// link in memory, one is left.
    #[doc(alias = "sbcompress")]
    #[doc(alias = "sbappend")]
    pub fn append_compact(&mut self, pool: &MbufPool, other: Chain) {
        let mut rest = other.into_list();
        while let Some(mut m) = rest {
            rest = m.take_next();
            while let Some(mut next) = rest.take_if(|next| next.len() == 0 || m.show_also(next)) {
                rest = next.take_next();
            }
            self.absorb(pool, m);
        }
    }

    /// Moves or copies one mbuf to the end. Empty ones are freed, and so are those whose bytes fit
    /// into the mbuf before: their own costs more than the copy.
    fn absorb(&mut self, pool: &MbufPool, m: Mbuf) {
        if self.tail_mut().is_some_and(|tail| tail.show_also(&m)) {
            self.len += m.len();
            return;
        }
        let copy = m.is_sparse() || !m.is(EXT) && m.len() <= self.room();
        if m.len() > 0 && !(copy && self.copy_to_end(pool, &m).is_ok()) {
            self.append(Self::from_list(m));
        }
    }

    /// Copies an mbuf's bytes to the end, into storage that keeps the rule. On failure the chain is
    /// unchanged.
    fn copy_to_end(&mut self, pool: &MbufPool, m: &Mbuf) -> Result<(), NoBufs> {
        let here = self.room().min(m.len());
        let mut more = Self::new();
        while here + more.len() < m.len() {
            let at = here + more.len();
            let left = m.len() - at;
            let mut fresh = if left < CLUSTER_MIN {
                Mbuf::alloc(pool.zones(), 0, 0)?
            } else {
                Mbuf::with_cluster(pool, 0, ClusterSize::fitting(left), 0)?
            };
            let n = left.min(fresh.room());
            fresh.push_of(m, at, n);
            more.append(Self::from_list(fresh));
        }
        if let Some(tail) = self.tail_mut() {
            tail.push_of(m, 0, here);
        }
        self.len += here;
        self.append(more);
        Ok(())
    }
}
