//! A packet's end: appending bytes and chains, and cutting.

use super::Packet;
use crate::chain::Chain;
use crate::error::NoBufs;
use crate::list;
use crate::pool::MbufPool;
use crate::storage::Storage;

impl<S: Storage> Packet<S> {
    /// Drops the first `front` bytes and the last `back`; all if there are fewer.
    #[doc(alias = "m_adj")]
    pub fn adjust(&mut self, front: usize, back: usize) {
        self.truncate(self.len().saturating_sub(back));
        self.trim_front(front);
    }

    /// Drops all bytes after the first `len`.
    #[doc(alias = "m_adj")]
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        let (m, at) = list::seek_left(&mut self.0, len);
        m.cut(at);
        let gone = m.take_next();
        self.0.set_pkt_len(len as u32);
        self.check();
        drop(gone);
    }

    /// Copies `bytes` to the end. On failure the packet is unchanged.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_append")]
    #[track_caller]
    pub fn append(&mut self, pool: &MbufPool, bytes: &[u8]) -> Result<(), NoBufs> {
        let len = self.grown(bytes.len()).ok_or(NoBufs)?;
        let room = list::last(&self.0).room();
        let (here, rest) = bytes.split_at(room.min(bytes.len()));
        let mut more = Chain::<S>::default();
        more.extend_from_slice(pool, rest)?;
        let last = list::last_mut(&mut self.0);
        last.push(here);
        last.set_next(more.into_list());
        self.0.set_pkt_len(len);
        self.check();
        Ok(())
    }

    /// Joins `chain` to the end, moving its mbufs.
    ///
    /// # Panics
    /// If the packet would then have 4 GiB or more.
    #[doc(alias = "m_cat")]
    pub fn append_chain(&mut self, chain: Chain<S>) {
        let len = self
            .grown(chain.len())
            .expect("a packet is shorter than 4 GiB");
        list::last_mut(&mut self.0).set_next(chain.into_list());
        self.0.set_pkt_len(len);
        self.check();
    }

    /// Cuts the packet after `at` bytes; the rest becomes a plain chain. On failure the packet is unchanged.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_split")]
    #[track_caller]
    pub fn split_off(&mut self, at: usize) -> Result<Chain<S>, NoBufs> {
        if at >= self.len() {
            return Ok(Chain::default());
        }
        let (m, in_m) = list::seek_left(&mut self.0, at);
        let rest = list::split(m, in_m)?;
        self.0.set_pkt_len(at as u32);
        self.check();
        Ok(rest.map_or_else(Chain::default, Chain::from_list))
    }
}
