//! Frees an mbuf: its successors one after the other, its reference to storage, then itself.

use core::mem::{ManuallyDrop, offset_of};
use core::ptr;

use super::{INTERNAL, Mbuf, internal_len};
use crate::ext::{Ext, wipe};
use crate::faults::{MbufFault, planted};
use crate::raw::{EXT, PACK, PGS, PKTHDR, RawMbuf, ZERO};
use crate::refs::Release;

impl Drop for Mbuf {
    /// The usual packet is one mbuf of the packet zone with a cluster of its own; all other cases are out of line, so
    /// that this path stays as small as a free of the zone's.
    #[inline(always)]
    fn drop(&mut self) {
        let kind = self.head().flags & KINDS;
        if kind == WHOLE && self.next().is_none() && self.is_whole() {
            self.free_packet();
        } else {
            Self(self.0).free_other();
        }
    }
}

/// The flags that decide how an mbuf is freed.
const KINDS: u32 = PKTHDR | PACK | EXT | ZERO;

/// The flags of a packet of the packet zone that needs no zeros.
const WHOLE: u32 = PKTHDR | PACK | EXT;

/// Frees the mbuf after its storage, even if the drop of the storage's owner panics.
struct FreeAtEnd<'a>(&'a mut Mbuf);

impl Drop for FreeAtEnd<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.free_mbuf();
    }
}

impl Mbuf {
    /// Whether a packet has no tags, and its cluster no other reference.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        debug_assert!(self.head().flags & WHOLE == WHOLE);
        // SAFETY: PKTHDR says that the field is valid.
        let tags = unsafe { &(*self.0.as_ptr()).pkt.tags };
        // SAFETY: EXT says that the field is valid.
        let ext = unsafe { &(*self.0.as_ptr()).ext };
        tags.is_none() && ext.is_plain()
    }

    /// The second most frequent case: one mbuf that shows shared storage, or holds a few bytes itself.
    ///
    /// Takes the mbuf by value and not by reference: otherwise its handle, and the chain or packet that the handle is
    /// part of, would have to lie in memory.
    #[inline(never)]
    fn free_other(self) {
        let mut m = ManuallyDrop::new(self);
        let alone = m.next().is_none();
        match m.head().flags & KINDS {
            EXT if alone => m.free_ext(),
            0 if alone => m.free_mbuf(),
            _ => Self::free_list(m),
        }
    }

    /// One after the other: a recursive drop would need stack in proportion to the length of the list.
    #[inline(never)]
    fn free_list(mut m: ManuallyDrop<Self>) {
        loop {
            let next = m.take_next();
            match m.head().flags & KINDS {
                EXT => m.free_ext(),
                0 => m.free_mbuf(),
                _ => m.free_odd(),
            }
            match next {
                Some(next) => m = ManuallyDrop::new(next),
                None => return,
            }
        }
    }

    /// An mbuf with outside storage.
    #[inline(always)]
    fn free_ext(&mut self) {
        match self.release_ext() {
            Release::Shared => self.free_mbuf(),
            Release::Last { zero } => self.free_last(zero),
        }
    }

    /// As `free_ext`, where its reference was the last.
    #[inline(never)]
    fn free_last(&mut self, zero: bool) {
        let this = FreeAtEnd(self);
        // SAFETY: EXT says that the field is valid.
        unsafe { (*this.0.0.as_ptr()).ext.free_storage(zero) };
    }

    /// An mbuf that begins a packet, is of the packet zone, or held a secret.
    #[inline(never)]
    fn free_odd(&mut self) {
        if self.is(PKTHDR) {
            self.free_tags();
        }
        if self.is(ZERO) {
            self.wipe_internal();
        }
        if self.is(PACK) {
            let alone = self.ext().is_some_and(Ext::is_plain);
            if !alone && !planted(MbufFault::GreedyPacket) {
                self.leave_cluster();
            }
            return self.free_packet();
        }
        let this = FreeAtEnd(self);
        if this.0.is(EXT) {
            this.0.drop_ext();
        }
    }

    /// Frees the mbuf to the mbuf zone.
    #[inline(always)]
    fn free_mbuf(&mut self) {
        // SAFETY: a live mbuf keeps its zones. The zone's address is copied out, because the zones
        // may end as soon as the last mbuf is free.
        let zone = unsafe { self.head().zones.as_ref() }.mbufs();
        // SAFETY: our mbuf came from this zone, and its owner goes here.
        unsafe { zone.free(self.0.cast()) };
    }

    /// Frees the mbuf to the packet zone, in the state that the next allocation expects.
    #[inline(always)]
    fn free_packet(&mut self) {
        // The next allocation finds the state that this free leaves.
        debug_assert!(self.next().is_none() && !self.is_queued());
        // SAFETY: a live mbuf keeps its zones; copied out as in `free_mbuf`.
        let zone = unsafe { self.head().zones.as_ref() }.packets();
        // SAFETY: PACK says that our mbuf came from this zone; its owner goes here.
        unsafe { zone.free(self.0.cast()) };
    }

    /// Drops the reference to the cluster (which may wipe and free it): the mbuf goes back without a cluster, and its
    /// next allocation adds one.
    #[cold]
    fn leave_cluster(&mut self) {
        self.drop_ext();
        if planted(MbufFault::Silent) {
            return;
        }
        let place = self.at(offset_of!(RawMbuf, ext)).cast::<Ext>();
        // SAFETY: the field is inside of our mbuf; its former content was dropped just now.
        unsafe { Ext::set_gone(place) };
        // SAFETY: a live mbuf keeps its zones.
        unsafe { self.head().zones.as_ref() }.packet_left_cluster();
    }

    /// Releases the reference. After that only the thread that must free the storage uses it.
    #[inline(always)]
    fn release_ext(&mut self) -> Release {
        // SAFETY: EXT says that the field is valid.
        unsafe { (*self.0.as_ptr()).ext.refs() }.release()
    }

    fn drop_ext(&mut self) {
        // SAFETY: EXT says that the field holds a reference; it is not looked at again.
        unsafe { ptr::drop_in_place(self.at(offset_of!(RawMbuf, ext)).cast::<Ext>()) };
    }

    /// Overwrites the mbuf's own bytes: its data, or a record's header and trailer.
    #[cold]
    fn wipe_internal(&mut self) {
        let (from, len) = match self.is(EXT) {
            true if self.is(PGS) => (offset_of!(RawMbuf, body), size_of::<crate::raw::PgBody>()),
            true => return,
            false => (INTERNAL, internal_len(self.head().flags)),
        };
        // SAFETY: inside of our mbuf, behind the part still in use.
        let at = unsafe { self.0.cast::<u8>().add(from) };
        // SAFETY: as above, and no thread reads data of an mbuf that is being freed.
        unsafe { wipe(at, len) };
    }
}
