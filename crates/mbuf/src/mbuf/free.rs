//! How an mbuf goes: its successors one after the other, its reference, then itself.
//!
//! Called by: whoever drops an mbuf. Calls: `ext.rs`, the pool's zones.

use core::mem::{ManuallyDrop, offset_of};
use core::ptr;

use super::{Mbuf, internal};
use crate::ext::{Ext, wipe};
use crate::planted::{Bug, planted};
use crate::raw::{EXT, PACK, PGS, PKTHDR, RawMbuf, ZERO};

impl Drop for Mbuf {
    /// A packet that is one mbuf of the packet zone and has its cluster to itself is the usual one,
    /// one mbuf that shows shared storage the next; everything else is out of line, so that these
    /// stay as small as a free of the zone's.
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

/// What decides how an mbuf is freed.
const KINDS: u32 = PKTHDR | PACK | EXT | ZERO;

/// What a packet of the packet zone is that nobody wants wiped.
const WHOLE: u32 = PKTHDR | PACK | EXT;

impl Mbuf {
    /// Whether nothing was noted about a packet, and nobody else shows its cluster.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        debug_assert!(self.head().flags & WHOLE == WHOLE);
        // SAFETY: PKTHDR says that the field is valid.
        let tags = unsafe { &(*self.0.as_ptr()).pkt.tags };
        // SAFETY: EXT says that the field is valid.
        let ext = unsafe { &(*self.0.as_ptr()).ext };
        tags.is_none() && ext.is_plain()
    }

    /// The next in frequency: one mbuf that shows shared storage, or holds a few bytes itself.
    ///
    /// Takes the mbuf itself, not where its handle is: a handle whose address is given away has to
    /// lie in memory, and with it the chain or packet that it is part of.
    #[inline(never)]
    fn free_other(self) {
        let mut m = ManuallyDrop::new(self);
        let alone = m.next().is_none();
        match m.head().flags & KINDS {
            EXT if alone => {
                m.drop_ext();
                m.free_mbuf();
            }
            0 if alone => m.free_mbuf(),
            _ => Self::free_list(m),
        }
    }

    #[inline(never)]
    fn free_list(mut m: ManuallyDrop<Self>) {
        // One after the other: a drop that calls itself for the next would need a stack as deep as
        // the list is long.
        let mut rest = m.take_next();
        while let Some(mut next) = rest {
            rest = next.take_next();
        }
        if m.is(PKTHDR) {
            m.free_tags();
        }
        if m.is(ZERO) {
            m.wipe_internal();
        }
        if m.is(PACK) {
            let alone = m.ext().is_some_and(Ext::is_plain);
            if !alone && !planted(Bug::GreedyPacket) {
                m.leave_cluster();
            }
            return m.free_packet();
        }
        if m.is(EXT) {
            m.drop_ext();
        }
        m.free_mbuf();
    }

    /// Back to the mbuf zone.
    #[inline(always)]
    fn free_mbuf(&mut self) {
        // SAFETY: a live mbuf keeps its zones. The zone's address is copied out, because nothing
        // keeps them from the moment that the last mbuf is free.
        let zone = unsafe { self.head().zones.as_ref() }.mbufs();
        // SAFETY: our mbuf came from this zone, and its owner goes here.
        unsafe { zone.free(self.0.cast()) };
    }

    /// Back to the packet zone, as the next one is to find it.
    #[inline(always)]
    fn free_packet(&mut self) {
        // The next life begins with what this one leaves.
        debug_assert!(self.head().next.is_none() && self.head().nextpkt.is_none());
        // SAFETY: a live mbuf keeps its zones; copied out as in `free_mbuf`.
        let zone = unsafe { self.head().zones.as_ref() }.packets();
        // SAFETY: PACK says that our mbuf came from this zone; its owner goes here.
        unsafe { zone.free(self.0.cast()) };
    }

    /// Leaves the cluster to those who still show it (or wipes and frees it): the mbuf goes back
    /// without one, and gets one when it is taken next.
    #[cold]
    fn leave_cluster(&mut self) {
        self.drop_ext();
        if planted(Bug::Silent) {
            return;
        }
        let place = self.at(offset_of!(RawMbuf, ext)).cast::<Ext>();
        // SAFETY: the field is inside of our mbuf; what was there was dropped just now.
        unsafe { Ext::set_gone(place) };
        // SAFETY: a live mbuf keeps its zones.
        unsafe { self.head().zones.as_ref() }.packet_left_cluster();
    }

    #[inline(always)]
    fn drop_ext(&mut self) {
        // SAFETY: EXT says that the field holds a reference; it is not looked at again.
        unsafe { ptr::drop_in_place(self.at(offset_of!(RawMbuf, ext)).cast::<Ext>()) };
    }

    /// Overwrites what the mbuf itself held: its data, or a record's header and trailer.
    #[cold]
    fn wipe_internal(&mut self) {
        let (from, len) = match self.is(EXT) {
            true if self.is(PGS) => (offset_of!(RawMbuf, body), size_of::<crate::raw::PgBody>()),
            true => return,
            false => internal(self.head().flags),
        };
        // SAFETY: inside of our mbuf, behind what is still used.
        let at = unsafe { self.0.cast::<u8>().add(from) };
        // SAFETY: as above, and nobody reads data of an mbuf that is being freed.
        unsafe { wipe(at, len) };
    }
}
