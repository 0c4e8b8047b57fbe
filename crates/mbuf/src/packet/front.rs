//! A packet's front: making headers contiguous, prepending and removing them.
//!
//! The common cases access only the first mbuf.

use core::mem;

use super::Packet;
use crate::error::{NoBufs, PullupError};
use crate::list;
use crate::mbuf::Mbuf;
use crate::storage::Storage;

impl Packet {
    /// Makes the first `n` bytes contiguous and returns them. On failure the packet is as it was.
    ///
    /// # Errors
    /// [`PullupError::NoBufs`] also where `n` is more than the largest cluster holds.
    #[doc(alias = "m_pullup")]
    #[inline]
    pub fn pullup(&mut self, n: usize) -> Result<&[u8], PullupError> {
        if self.0.len() < n {
            self.pullup_slow(n)?;
        }
        Ok(&self.0.bytes()[..n])
    }

    #[cold]
    pub(super) fn pullup_slow(&mut self, n: usize) -> Result<(), PullupError> {
        if n > self.len() {
            return Err(PullupError::TooShort);
        }
        if self.0.room() < n - self.0.len() {
            // A fresh first mbuf takes the packet header, and all n bytes.
            self.put_first(Mbuf::with_end(self.0.zones(), n)?);
        }
        let more = n - self.0.len();
        list::pull(&mut self.0, more);
        self.0.zones().stats.pullups_copied.inc();
        self.check();
        Ok(())
    }
}

impl<S: Storage> Packet<S> {
    /// Makes `n` bytes of room at the front and returns them, to be filled by the caller.
    ///
    /// # Errors
    /// [`NoBufs`] also where `n` is more than the largest cluster holds.
    #[doc(alias = "m_prepend")]
    #[inline]
    #[track_caller]
    pub fn prepend(&mut self, n: usize) -> Result<&mut [u8], NoBufs> {
        let len = self.grown(n).ok_or(NoBufs)?;
        if self.0.front_room() < n {
            self.prepend_mbuf(n)?;
        }
        Ok(self.0.grow_front(n, len))
    }

    /// Puts an empty mbuf with at least `n` bytes of leading space before the first.
    #[cold]
    fn prepend_mbuf(&mut self, n: usize) -> Result<(), NoBufs> {
        let mut first = Mbuf::with_end(self.0.zones(), n)?;
        first.skip_room(n);
        self.put_first(first);
        Ok(())
    }

    /// Puts an mbuf before the first, whose packet header it takes over.
    pub(super) fn put_first(&mut self, mut first: Mbuf) {
        self.0.pass_header_to(&mut first);
        let old = mem::replace(&mut self.0, first);
        self.0.set_next(Some(old));
    }

    /// Drops the first `n` bytes (all if there are fewer).
    #[doc(alias = "m_adj")]
    pub fn trim_front(&mut self, n: usize) {
        let n = n.min(self.len());
        let here = n.min(self.0.len());
        self.0.set_pkt_len((self.len() - n) as u32);
        self.0.advance(here);
        let mut gone = None;
        if n > here {
            let mut rest = self.0.take_next();
            gone = list::cut_front(&mut rest, n - here);
            self.0.set_next(rest);
        }
        self.check();
        drop(gone);
    }
}
