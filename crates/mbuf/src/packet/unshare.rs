//! A packet made writable: only shared or lent storage is copied.

use core::mem;

use super::Packet;
use crate::chain::Chain;
use crate::error::NoBufs;
use crate::list::{self, MbufCopies};
use crate::mbuf::Mbuf;
use crate::pool::{ClusterSize, MbufPool};

impl Packet {
    /// Makes the whole packet writable: [`Packet::make_writable`] of all of it.
    ///
    /// # Errors
    /// [`NoBufs`]; the packet is as it was.
    #[doc(alias = "m_unshare")]
    #[track_caller]
    pub fn unshare(&mut self, pool: &MbufPool) -> Result<(), NoBufs> {
        self.make_writable(pool, 0, self.len())
    }

    /// Makes bytes `off..off + len` writable, as far as they exist: [`Packet::write_at`] finds no shared storage there
    /// afterwards. Mbufs whose storage is shared or [lent](Chain::from_owner) are replaced by copies; the other mbufs
    /// stay as they are, and so does storage that other packets show.
    ///
    /// # Errors
    /// [`NoBufs`]; the packet is as it was.
    #[doc(alias = "m_makewritable")]
    #[track_caller]
    pub fn make_writable(&mut self, pool: &MbufPool, off: usize, len: usize) -> Result<(), NoBufs> {
        let here = self.0.len();
        let mut rest = MbufCopies::default();
        if let Some(next) = self.0.next() {
            // The part of the range behind the first mbuf.
            let in_first = here.saturating_sub(off).min(len);
            rest = MbufCopies::of(pool, next, off.saturating_sub(here), len - in_first)?;
        }
        if off < here && len > 0 && !self.0.is_writable() {
            let first = self.copy_first(pool)?;
            self.replace_first(first);
        }
        if !rest.is_empty() {
            let shared = self.0.take_next();
            self.0.set_next(rest.put_into(shared).into_list());
        }
        self.check();
        Ok(())
    }

    /// The first mbuf's bytes in fresh ones, with a packet header and room before them.
    #[track_caller]
    fn copy_first(&self, pool: &MbufPool) -> Result<Mbuf, NoBufs> {
        let len = self.0.len();
        let here = len.min(ClusterSize::K16.bytes());
        let mut first = Mbuf::with_end(self.0.zones(), here)?;
        list::gather(&mut first, &self.0, 0, here);
        let mut more = Chain::from_slice(pool, &self.0.bytes()[here..])?;
        if first.is_secret() && !more.zeroize() {
            unreachable!("the copy is ours to write");
        }
        first.set_next(more.into_list());
        Ok(first)
    }

    /// Puts `first`, and those behind it, in the place of the first mbuf.
    fn replace_first(&mut self, mut first: Mbuf) {
        self.0.pass_header_to(&mut first);
        let rest = self.0.take_next();
        // Dropping the old first mbuf gives its share back.
        drop(mem::replace(&mut self.0, first));
        list::last_mut(&mut self.0).set_next(rest);
    }
}
