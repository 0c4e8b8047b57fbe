//! One mbuf and those after it: the owned list that [`Packet`] and
//! [`Chain`](crate::Chain) are made of.
//!
//! An [`Mbuf`] owns like a `Box` of a node that owns the next node; dropping it frees the list. Its
//! methods concern one mbuf (see `list.rs` for walks over many) and are safe: they check that
//! `data..data + len` stays inside of the storage. All code that accesses the bytes of an mbuf is
//! in this module: `make.rs` makes mbufs, `bytes.rs` gives access to their data, `free.rs` frees
//! them; this file has the parts of an mbuf.
//!
//! Invariants: the address is that of a live mbuf of its zone, reached through no other owner;
//! `data..data + len` lies in the storage; with [`EXT`] `ext` holds a reference, with [`PKTHDR`]
//! `pkt` is true, with [`PGS`] `pg` and `body` are. A live mbuf keeps its zones (see `pool.rs`).

use core::iter;
use core::mem::{self, offset_of};
use core::ptr::NonNull;

use crate::ext::Ext;
use crate::pkthdr::PktHdr;
use crate::pool::Zones;
use crate::raw::{EXT, Head, MHLEN, MLEN, PGS, PKTHDR, PgBody, PgHdr, Pkt, RawMbuf};
use crate::tag::{self, Tags};

mod bytes;
mod free;
mod make;
mod ptr;

pub use bytes::PINNED_PER_BYTE_MAX;
pub(crate) use ptr::{Borrowed, MbufPtr};

/// An owned mbuf, with its successors.
#[repr(transparent)]
pub(crate) struct Mbuf(NonNull<RawMbuf>);

// SAFETY: it owns its memory; zones and reference counts are thread-safe.
unsafe impl Send for Mbuf {}
// SAFETY: `&Mbuf` only reads, and shares by atomic counts.
unsafe impl Sync for Mbuf {}

impl Mbuf {
    /// The address `offset` bytes into the mbuf.
    #[inline]
    fn at(&self, offset: usize) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().wrapping_add(offset)
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: live by the invariant; `Head` is always valid, and no data lies in it.
        unsafe { &(*self.0.as_ptr()).head }
    }

    #[inline]
    fn head_mut(&mut self) -> &mut Head {
        // SAFETY: as above, and reached through no other owner.
        unsafe { &mut (*self.0.as_ptr()).head }
    }

    #[inline]
    pub(crate) fn ext(&self) -> Option<&Ext> {
        if !self.is(EXT) {
            return None;
        }
        // SAFETY: EXT says that the field is valid; the data is outside, so no code writes over it.
        Some(unsafe { &(*self.0.as_ptr()).ext })
    }

    /// The same, for a caller that makes another reference.
    #[inline]
    fn ext_mut(&mut self) -> Option<&mut Ext> {
        if !self.is(EXT) {
            return None;
        }
        // SAFETY: as above, and reached through no other owner.
        Some(unsafe { &mut (*self.0.as_ptr()).ext })
    }

    /// The head of the page list.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn pg(&self) -> &PgHdr {
        assert!(self.is(PGS));
        // SAFETY: PGS says that it lies there, and that no data does; both types are plain bytes.
        unsafe { &*self.at(offset_of!(RawMbuf, pkt)).cast::<PgHdr>() }
    }

    /// The pages, header and trailer of the page list.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn pg_body(&self) -> &PgBody {
        assert!(self.is(PGS));
        // SAFETY: PGS says that the field is valid, and that no data lies in it.
        unsafe { &(*self.0.as_ptr()).body }
    }

    /// The head of the page list, to change.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn pg_mut(&mut self) -> &mut PgHdr {
        assert!(self.is(PGS));
        // SAFETY: as above, and reached through no other owner.
        unsafe { &mut *self.at(offset_of!(RawMbuf, pkt)).cast::<PgHdr>() }
    }

    /// The pages, header and trailer of the page list, to change.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(crate) fn pg_body_mut(&mut self) -> &mut PgBody {
        assert!(self.is(PGS));
        // SAFETY: as above, and reached through no other owner.
        unsafe { &mut (*self.0.as_ptr()).body }
    }

    /// The offset of the first byte shown in the record of a page list.
    #[inline]
    pub(crate) fn pg_start(&self) -> usize {
        debug_assert!(self.is(PGS));
        self.head().data.addr()
    }

    #[inline]
    fn pkt(&self) -> &Pkt {
        assert!(self.is(PKTHDR));
        // SAFETY: PKTHDR says that the field is valid, and that no data lies in it.
        unsafe { &(*self.0.as_ptr()).pkt }
    }

    #[inline]
    fn pkt_mut(&mut self) -> &mut Pkt {
        assert!(self.is(PKTHDR));
        // SAFETY: as above, and reached through no other owner.
        unsafe { &mut (*self.0.as_ptr()).pkt }
    }

    fn set_pkt(&mut self, pkt: Pkt) {
        assert!(self.is(PKTHDR));
        let place = self.at(offset_of!(RawMbuf, pkt)).cast::<Pkt>();
        // SAFETY: the field is inside of our mbuf, and PKTHDR keeps data out of it. The place held
        // no header, or one that needs no drop.
        unsafe { place.write(pkt) };
    }

    #[inline]
    pub(crate) fn is(&self, flag: u32) -> bool {
        self.head().flags & flag != 0
    }

    /// The zones that the mbuf came from.
    #[inline]
    pub(crate) fn zones(&self) -> &Zones {
        // SAFETY: a live mbuf keeps its zones.
        unsafe { self.head().zones.as_ref() }
    }

    /// The packet's metadata.
    #[inline]
    pub(crate) fn hdr(&self) -> &PktHdr {
        &self.pkt().hdr
    }

    #[inline]
    pub(crate) fn hdr_mut(&mut self) -> &mut PktHdr {
        &mut self.pkt_mut().hdr
    }

    /// Bytes of the whole packet, as its header says.
    #[inline]
    pub(crate) fn pkt_len(&self) -> usize {
        self.pkt().len as usize
    }

    #[inline]
    pub(crate) fn set_pkt_len(&mut self, len: u32) {
        self.pkt_mut().len = len;
    }

    /// Gives the packet header to `heir`, which has one too, and becomes a plain mbuf. Data stays
    /// where it is: a plain mbuf's internal area includes that of one with a header.
    pub(crate) fn pass_header_to(&mut self, heir: &mut Self) {
        let pkt = self.pkt_mut();
        let pkt = Pkt {
            tags: pkt.tags.take(),
            nextpkt: pkt.nextpkt.take(),
            ..*pkt
        };
        heir.set_pkt(pkt);
        self.clear_header();
    }

    /// Takes the packet header off, with its tags.
    pub(crate) fn clear_header(&mut self) {
        self.free_tags();
        self.head_mut().flags &= !PKTHDR;
    }

    /// The packet's tags.
    pub(crate) fn tags(&self) -> Option<&Tags> {
        self.pkt().tags.as_ref()
    }

    /// The same, to change, with the zones that a change needs.
    pub(crate) fn tags_mut(&mut self) -> (&mut Option<Tags>, &Zones) {
        let zones = self.head().zones;
        // SAFETY: a live mbuf keeps its zones, and this one lives while it is borrowed. They are
        // not part of it, so the other borrow does not cover them.
        (&mut self.pkt_mut().tags, unsafe { zones.as_ref() })
    }

    /// Drops the packet's tags.
    #[inline]
    fn free_tags(&mut self) {
        let (tags, zones) = self.tags_mut();
        if tags.is_some() {
            tag::free(tags, zones);
        }
    }

    /// Puts a fresh packet header into an mbuf.
    ///
    /// # Panics
    /// If that can't begin a packet.
    pub(crate) fn set_header(&mut self) {
        assert!(self.can_begin_packet());
        self.head_mut().flags |= PKTHDR;
        self.set_pkt(Pkt::fresh());
    }
}

/// Where the internal area begins.
const INTERNAL: usize = offset_of!(RawMbuf, ext);

/// The size of a packet header's or a plain mbuf's internal area.
const fn internal_len(flags: u32) -> usize {
    match flags & PKTHDR {
        0 => MLEN,
        _ => MHLEN,
    }
}

/// The next mbuf of the list, and the next packet of a queue.
impl Mbuf {
    #[inline]
    pub(crate) fn next(&self) -> Option<&Self> {
        self.head().next.as_ref()
    }

    #[inline]
    pub(crate) fn next_mut(&mut self) -> Option<&mut Self> {
        self.head_mut().next.as_mut()
    }

    /// Cuts the list behind this mbuf.
    #[inline]
    pub(crate) fn take_next(&mut self) -> Option<Self> {
        self.head_mut().next.take()
    }

    /// Puts a list behind this mbuf, which is the last of its own.
    #[inline]
    pub(crate) fn set_next(&mut self, next: Option<Self>) {
        let old = mem::replace(&mut self.head_mut().next, next);
        debug_assert!(old.is_none());
        // No field to drop: joins of lists need no check.
        mem::forget(old);
    }

    /// Whether it begins a packet behind which another one is queued.
    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.is(PKTHDR) && self.pkt().nextpkt.is_some()
    }

    #[inline]
    pub(crate) fn take_nextpkt(&mut self) -> Option<Self> {
        self.pkt_mut().nextpkt.take()
    }

    #[inline]
    pub(crate) fn set_nextpkt(&mut self, next: Self) {
        let old = self.pkt_mut().nextpkt.replace(next);
        debug_assert!(old.is_none());
        // No field to drop, as above.
        mem::forget(old);
    }

    /// Prefetches its first `bytes`, for a caller that is about to read them: the head and what is stored behind it lie
    /// in four lines, and a reader would wait for each.
    #[inline]
    pub(crate) fn prefetch(&self, bytes: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for line in (0..bytes).step_by(64) {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch is a hint, and may have any address; this one is an mbuf's.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.at(line).cast()) };
        }
    }

    /// This mbuf and those after it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |m| m.next())
    }
}

kern::impl_debug!(Mbuf |this| len: this.len(), flags: this.head().flags);
