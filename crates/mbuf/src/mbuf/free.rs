//! How an mbuf goes: its successors one after the other, its reference, then itself.
//!
//! Called by: whoever drops an mbuf. Calls: `ext.rs`, the pool's zones.

use core::mem::offset_of;
use core::ptr;

use super::{Mbuf, internal};
use crate::ext::{Ext, wipe};
use crate::raw::{EXT, PACK, PGS, PKTHDR, RawMbuf, ZERO};

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // One after the other: a drop that calls itself for the next would need a stack as deep as
        // the list is long.
        let mut rest = self.take_next();
        while let Some(mut m) = rest {
            rest = m.take_next();
        }
        if self.is(PKTHDR) {
            self.free_tags();
        }
        if self.is(PACK) {
            return self.free_packet();
        }
        if self.is(ZERO) {
            self.wipe_internal();
        }
        if self.is(EXT) {
            self.drop_ext();
        }
        // SAFETY: a live mbuf keeps its zones. The zone's address is copied out, because nothing
        // keeps them from the moment that the last mbuf is free.
        let zone = unsafe { self.head().zones.as_ref() }.mbufs();
        // SAFETY: our mbuf came from this zone, and its owner goes here.
        unsafe { zone.free(self.0.cast()) };
    }
}

impl Mbuf {
    /// Back to the packet zone, with the cluster if nobody else shows it.
    #[inline]
    fn free_packet(&mut self) {
        if !self.ext().is_some_and(Ext::is_plain) {
            self.leave_cluster();
        }
        // SAFETY: a live mbuf keeps its zones; copied out as in `drop`.
        let zone = unsafe { self.head().zones.as_ref() }.packets();
        // SAFETY: PACK says that our mbuf came from this zone; its owner goes here.
        unsafe { zone.free(self.0.cast()) };
    }

    /// Leaves the cluster to those who still show it (or wipes and frees it): the mbuf goes back
    /// without one, and gets one when it is taken next.
    #[cold]
    fn leave_cluster(&mut self) {
        self.drop_ext();
        let place = self.at(offset_of!(RawMbuf, ext)).cast::<Ext>();
        // SAFETY: the field is inside of our mbuf; what was there was dropped just now.
        unsafe { Ext::set_gone(place) };
        // SAFETY: a live mbuf keeps its zones.
        unsafe { self.head().zones.as_ref() }.packet_left_cluster();
    }

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
