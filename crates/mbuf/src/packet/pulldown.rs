//! Bytes in the middle of a packet made contiguous, without moving the bytes before them.
//!
//! ```text
//!   before   | ip  | ext hdr | tc|p   | data |       pulldown(60, 20)
//!   after    | ip  | ext hdr | |tcp | | data |       one mbuf more, or none where there was room
//! ```
//!
//! Source: KAME's m_pulldown (Hagino, "Mbuf issues in 4.4BSD IPv6 support", 2000): pulling up all bytes before it too
//! costs a copy of them, and fails beyond one cluster.

use super::Packet;
use crate::error::PullupError;
use crate::list;
use crate::mbuf::Mbuf;

impl Packet {
    /// Makes bytes `off..off + len` contiguous, wherever in the packet they are, and returns them.
    /// The bytes before them stay where they are. On failure the packet is as it was.
    ///
    /// Nearly always they are contiguous already, which is found without touching them.
    ///
    /// # Errors
    /// [`PullupError::NoBufs`] also where `len` is more than the largest cluster holds.
    #[doc(alias = "m_pulldown")]
    #[inline]
    #[track_caller]
    pub fn pulldown(&mut self, off: usize, len: usize) -> Result<&[u8], PullupError> {
        let end = off.checked_add(len).ok_or(PullupError::TooShort)?;
        if end > self.0.len() {
            self.pulldown_slow(off, len)?;
        }
        let (m, at) = list::seek(&self.0, off);
        Ok(&m.bytes()[at..at + len])
    }

    #[cold]
    #[track_caller]
    fn pulldown_slow(&mut self, off: usize, len: usize) -> Result<(), PullupError> {
        if off + len > self.len() {
            return Err(PullupError::TooShort);
        }
        let (m, at) = list::seek_mut(&mut self.0, off);
        let here = m.len() - at;
        if here >= len {
            return Ok(());
        }
        if m.room() >= len - here {
            list::pull(m, len - here);
        } else if off == 0 {
            return self.pullup_slow(len);
        } else {
            self.pull_into_fresh(off, len)?;
        }
        self.0.zones().stats.pullups_copied.inc();
        self.check();
        Ok(())
    }

    /// Moves the range into an mbuf of its own.
    #[track_caller]
    fn pull_into_fresh(&mut self, off: usize, len: usize) -> Result<(), PullupError> {
        let mut fresh = Mbuf::with_len(self.0.zones(), len)?;
        list::gather(&mut fresh, &self.0, off, len);
        // The range begins inside of this mbuf, or right behind it.
        let (left, at) = list::seek_left(&mut self.0, off);
        let in_left = left.len() - at;
        left.cut(at);
        let mut rest = left.take_next();
        let gone = list::cut_front(&mut rest, len - in_left);
        fresh.set_next(rest);
        left.set_next(Some(fresh));
        drop(gone);
        Ok(())
    }
}
