//! The bytes that an mbuf shows, and the room around them.
//!
//! ```text
//!   storage  |  leading space  | data .. data + len |  trailing space  |
//!                  grow_front <-|-> advance     cut <-|-> grow, push
//! ```
//!
//! Room is space that may be written: shared storage has none.

use core::{ptr, slice};

use super::{INTERNAL, Mbuf, internal_len};
use crate::ext::Ext;
use crate::raw::{MHLEN, MSIZE, PACK, PGS, PKTHDR, ZERO};

/// Bytes of storage for each byte shown, at most, after [`Chain::condense`](crate::Chain::condense).
///
/// The sizes of clusters require 4: any amount of data from a quarter of the smallest cluster on
/// fills a cluster to at least a quarter. A larger factor would pin more memory, a smaller one would
/// copy data that no copy can pack better. Socket buffers charge data by this: a quarter of the
/// memory that it pins.
pub const PINNED_PER_BYTE_MAX: usize = 4;

impl Mbuf {
    /// Bytes shown.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.head().len as usize
    }

    /// The bytes. A page list has none; the type of its list prevents such a call.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        let head = self.head();
        if head.flags & PGS != 0 {
            debug_assert!(false, "pages that may not be mapped have no bytes to show");
            return &[];
        }
        // SAFETY: the bytes lie in the storage, initialised, and are not written while `self` is
        // borrowed: writing takes a `&mut` to the only mbuf over them.
        unsafe { slice::from_raw_parts(head.data, head.len as usize) }
    }

    /// The bytes for writing, if no other mbuf shares them.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.is_writable() {
            return None;
        }
        let head = self.head();
        // SAFETY: as in `bytes`; no other reference sees the storage while `self` is borrowed.
        Some(unsafe { slice::from_raw_parts_mut(head.data, head.len as usize) })
    }

    /// True if this mbuf has the only reference to the storage and may write it.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.ext().is_none_or(Ext::is_writable)
    }

    /// First byte of the storage in use, and its size.
    fn storage(&self) -> (*mut u8, usize) {
        match self.ext() {
            Some(_) if self.is(PGS) => (ptr::null_mut(), self.pg().record_len()),
            Some(ext) => (ext.buf(), ext.size()),
            None => {
                let size = internal_len(self.head().flags);
                (self.at(INTERNAL), size)
            }
        }
    }

    /// Room before the first byte, used or not.
    pub(super) fn leading_space(&self) -> usize {
        self.head().data.addr() - self.storage().0.addr()
    }

    /// Room behind the last byte, used or not.
    fn trailing_space(&self) -> usize {
        self.storage().1 - self.leading_space() - self.len()
    }

    /// Bytes that can be put before the first.
    #[inline]
    pub(crate) fn front_room(&self) -> usize {
        if self.is_writable() {
            self.leading_space()
        } else {
            0
        }
    }

    /// Bytes that can be put behind the last.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        let limit = match self.ext() {
            None => self.internal_end(),
            Some(ext) if ext.is_writable() => ext.buf().wrapping_add(ext.size()),
            Some(_) => return 0,
        };
        limit.addr() - self.end().addr()
    }

    /// Where the internal area ends.
    #[inline]
    fn internal_end(&self) -> *mut u8 {
        self.at(INTERNAL + internal_len(self.head().flags))
    }

    /// Where the last byte ends.
    #[inline]
    fn end(&self) -> *mut u8 {
        self.head().data.wrapping_add(self.len())
    }

    /// Whether a packet header can be put in: the data is outside, or leaves its place free.
    pub(crate) fn can_begin_packet(&self) -> bool {
        match self.ext() {
            Some(_) => !self.is(PGS),
            None => self.end() <= self.at(INTERNAL + MHLEN),
        }
    }

    /// The room behind the last byte.
    #[inline]
    pub(crate) fn room_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        let limit = match self.ext() {
            None => self.internal_end(),
            Some(ext) if ext.is_writable() => ext.buf().wrapping_add(ext.size()),
            // Of a page list, `data` is no address.
            Some(_) => return &mut [],
        };
        // SAFETY: the room is in the storage, which no other reference sees while `self` is borrowed, and
        // initialised: zones hand out initialised pages.
        unsafe { slice::from_raw_parts_mut(end, limit.addr() - end.addr()) }
    }

    /// Shows `n` bytes of the room behind the last.
    ///
    /// # Panics
    /// If there is less.
    pub(crate) fn grow(&mut self, n: usize) {
        assert!(n <= self.room());
        self.head_mut().len += n as u32;
    }

    /// Writes `bytes` behind the last.
    ///
    /// # Panics
    /// If there is not that much room.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.room_mut()[..bytes.len()].copy_from_slice(bytes);
        self.head_mut().len += bytes.len() as u32;
    }

    /// Writes a copy of bytes `off..off + len` of `from` behind the last. A secret's copy is a secret.
    ///
    /// # Panics
    /// If `from` has no such bytes, or there is not that much room.
    pub(crate) fn push_of(&mut self, from: &Self, off: usize, len: usize) {
        self.push(&from.bytes()[off..][..len]);
        if from.is_secret() {
            // The storage may be written, so it is not lent, and this mbuf must wipe it.
            self.zeroize();
        }
        self.zones().stats.bytes_copied.add(len as u64);
    }

    /// Shows `n` bytes of the room before the first, and returns them; the packet then has `pkt_len` bytes.
    ///
    /// # Panics
    /// If there is less room, or no packet header.
    #[inline]
    pub(crate) fn grow_front(&mut self, n: usize, pkt_len: u32) -> &mut [u8] {
        assert!(n <= self.front_room());
        self.set_pkt_len(pkt_len);
        let head = self.head_mut();
        head.data = head.data.wrapping_sub(n);
        head.len += n as u32;
        // SAFETY: the room is in the storage, which no other reference sees while `self` is borrowed, and
        // initialised: zones hand out initialised pages.
        unsafe { slice::from_raw_parts_mut(head.data, n) }
    }

    /// Moves an empty mbuf's start by `n` bytes into its room.
    ///
    /// # Panics
    /// If there are bytes, or less room.
    pub(crate) fn skip_room(&mut self, n: usize) {
        assert!(self.len() == 0 && n <= self.trailing_space());
        let head = self.head_mut();
        head.data = head.data.wrapping_add(n);
    }

    /// Shows the bytes of `next` too, if they follow its own in the same storage: then `next` is needed no more.
    ///
    /// No mbuf can write the storage meanwhile, because both have a reference to it.
    #[inline]
    pub(crate) fn show_also(&mut self, next: &Self) -> bool {
        let is_same = match (self.ext(), next.ext()) {
            (Some(own), Some(its)) => own.is_same(its) && !self.is(PGS) && !next.is(PGS),
            _ => false,
        };
        let follows = is_same && self.end() == next.head().data;
        if follows {
            // Both lie in storage whose size has 32 bits.
            self.head_mut().len += next.head().len;
        }
        follows
    }

    /// Drops the first `n` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        assert!(n <= self.len());
        let head = self.head_mut();
        head.data = head.data.wrapping_add(n);
        head.len -= n as u32;
    }

    /// Drops the bytes behind the first `len`.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn cut(&mut self, len: usize) {
        assert!(len <= self.len());
        self.head_mut().len = len as u32;
    }

    /// Orders that the bytes that the mbuf shows are overwritten with zeros when the last reference is dropped. False
    /// if this mbuf may not write them.
    pub(crate) fn zeroize(&mut self) -> bool {
        self.head_mut().flags |= ZERO;
        self.ext().is_none_or(Ext::zeroize)
    }

    /// Whether the last free must overwrite its bytes, and those of copies.
    pub(crate) fn is_secret(&self) -> bool {
        self.is(ZERO) || self.ext().is_some_and(Ext::is_secret)
    }

    /// Bytes of memory that this mbuf keeps from being reused.
    pub(crate) fn pinned(&self) -> usize {
        MSIZE + self.ext().map_or(0, Ext::size)
    }

    /// Whether its storage is too large for the bytes that it shows.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.ext()
            .is_some_and(|ext| ext.size() > PINNED_PER_BYTE_MAX * self.len())
    }

    /// Whether the fields agree with each other.
    pub(crate) fn is_valid(&self) -> bool {
        let (base, size) = self.storage();
        let start = self.head().data.addr();
        start >= base.addr()
            && start + self.len() <= base.addr() + size
            && !self.is_queued()
            && (!self.is(PGS) || self.is_valid_list())
    }

    /// Whether a page list is one.
    fn is_valid_list(&self) -> bool {
        let pg = self.pg();
        let has_source = self.ext().is_some_and(|ext| ext.source().is_some());
        has_source && !self.is(PKTHDR | PACK) && pg.is_valid()
    }
}
