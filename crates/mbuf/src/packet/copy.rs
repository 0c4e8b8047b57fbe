//! Copies of a packet: of a range or of the whole, sharing its storage or not.

use super::Packet;
use crate::chain::Chain;
use crate::error::NoBufs;
use crate::list;
use crate::mbuf::Mbuf;
use crate::pool::MbufPool;
use crate::raw::{EXT, MHLEN, PKTHDR};
use crate::storage::Storage;

impl Packet {
    /// A packet with a copy of bytes `off..off + len` of `chain` in its own area, and `lead` bytes or more of room
    /// before them: if they lie inside of one mbuf, where a share would copy them too, and into one mbuf more. `None`
    /// if they lie elsewhere, or are too many.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[track_caller]
    pub fn of_inside(
        pool: &MbufPool,
        chain: &mut Chain,
        off: usize,
        len: usize,
        lead: usize,
    ) -> Result<Option<Self>, NoBufs> {
        if len == 0 || len.saturating_add(lead) > MHLEN {
            return Ok(None);
        }
        match chain.near(off) {
            Some((from, at)) if !from.is(EXT) && len <= from.len() - at => {
                let mut m = Mbuf::alloc(pool.zones(), PKTHDR, MHLEN - len)?;
                m.push_of(from, at, len);
                m.set_pkt_len(len as u32);
                Ok(Some(Self::of(m)))
            }
            _ => Ok(None),
        }
    }
}

impl<S: Storage> Packet<S> {
    /// Shows bytes `off..off + len` in a new chain, sharing clusters and copying internal bytes.
    /// A range that reaches past the end is cut there.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_copym")]
    #[track_caller]
    pub fn share(&mut self, off: usize, len: usize) -> Result<Chain<S>, NoBufs> {
        let len = len.min(self.len().saturating_sub(off));
        if len == 0 {
            return Ok(Chain::default());
        }
        let (m, at) = list::seek_mut(&mut self.0, off);
        let list = list::share(m, at, len)?.head;
        Ok(list.map_or_else(Chain::default, Chain::from_list))
    }

    /// A packet with the same header and tags that shows the same bytes: clusters are shared,
    /// internal bytes are copied. Writing to shared storage is refused on both sides from then on.
    ///
    /// # Errors
    /// [`NoBufs`]; the packet is as it was.
    #[doc(alias = "m_copypacket")]
    #[doc(alias = "m_dup")]
    #[track_caller]
    pub fn copy_packet(&mut self) -> Result<Self, NoBufs> {
        let mut first = self.0.share_first()?;
        let behind = self.len() - self.0.len();
        if let Some(next) = self.0.next_mut().filter(|_| behind > 0) {
            let rest = list::share(next, 0, behind)?;
            first.set_next(rest.head);
        }
        let mut copy = Self::of(first);
        copy.copy_header(self)?;
        copy.check();
        Ok(copy)
    }
}
