//! Makes mbufs: empty ones, with room at a given place, or ones over existing storage.

use core::mem::offset_of;
use core::ptr::{self, NonNull};

use super::{INTERNAL, Mbuf, internal_len};
use crate::error::NoBufs;
use crate::ext::Ext;
use crate::pool::{ClusterSize, MbufPool, Zones};
use crate::raw::{EXT, Head, MHLEN, MLEN, PACK, PGS, PKTHDR, PgHdr, Pkt, RawMbuf, ZERO};

impl Mbuf {
    /// An empty mbuf, whose data starts `lead` bytes into the internal area.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn alloc(zones: &Zones, flags: u32, lead: usize) -> Result<Self, NoBufs> {
        assert!(flags & EXT == 0 && lead <= internal_len(flags));
        let item = zones.alloc_mbuf()?;
        // SAFETY: the zone has just given it, and `lead` is in the internal area.
        Ok(unsafe { Self::empty(item, zones, flags, lead) })
    }

    /// An empty packet header at the end of the internal area, of an mbuf from the reserve if there is no other.
    #[inline]
    #[track_caller]
    pub(crate) fn with_reserve(pool: &MbufPool) -> Result<Self, NoBufs> {
        let item = pool.alloc_urgent()?;
        // SAFETY: the zone has just given it, and the internal area of a packet header ends at MHLEN.
        Ok(unsafe { Self::empty(item, pool.zones(), PKTHDR, MHLEN) })
    }

    /// Makes an empty mbuf of an item of the mbuf zone, whose data starts `lead` bytes into the internal area.
    ///
    /// # Safety
    /// `item` has 256 bytes, aligned to 256, from that zone, and no other owner. The internal area has `lead` bytes.
    #[inline(always)]
    unsafe fn empty(item: NonNull<u8>, zones: &Zones, flags: u32, lead: usize) -> Self {
        let data = item.as_ptr().wrapping_add(INTERNAL + lead);
        // SAFETY: the caller promises it; internal data begins at the given offset.
        unsafe { Self::begin(item, zones, flags, data, 0) }
    }

    /// Makes an mbuf of an item of one of the mbuf zones, which shows `len` bytes from `data`.
    ///
    /// # Safety
    /// `item` has 256 bytes, aligned to 256, from the zone that `flags` say, and no other owner.
    /// The bytes are in the storage that `flags` say, and with [`EXT`] `ext` is in its place, or is
    /// put there before anything else is done.
    #[inline(always)]
    unsafe fn begin(item: NonNull<u8>, zones: &Zones, flags: u32, data: *mut u8, len: u32) -> Self {
        let head = Head {
            next: None,
            data,
            len,
            flags,
            zones: NonNull::from(zones),
        };
        // SAFETY: the item begins with it, as the caller says.
        unsafe { item.cast().write(head) };
        if flags & PKTHDR != 0 {
            let pkt = item.as_ptr().wrapping_add(offset_of!(RawMbuf, pkt));
            // SAFETY: inside of the item.
            unsafe { pkt.cast::<Pkt>().write(Pkt::fresh()) };
        }
        Self(item.cast())
    }

    /// An empty mbuf over a fresh cluster, its data `lead` bytes into it.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn with_cluster(
        pool: &MbufPool,
        flags: u32,
        size: ClusterSize,
        lead: usize,
    ) -> Result<Self, NoBufs> {
        assert!(lead <= size.bytes());
        if size != ClusterSize::K2 {
            return Self::with_own_cluster(pool.zones(), flags, size, lead);
        }
        let Ok(item) = pool.alloc_packet() else {
            // A cluster that the packet zone can't pair may be available alone.
            return Self::with_own_cluster(pool.zones(), flags, size, lead);
        };
        let place = item.as_ptr().wrapping_add(offset_of!(RawMbuf, ext)).cast();
        // SAFETY: the packet zone's items have a reference there, or a mark that it is gone.
        if unsafe { Ext::is_gone(place) } {
            // SAFETY: the item is ours, and bare.
            unsafe { Self::dress(pool.zones(), item)? };
        }
        // SAFETY: there is a reference now.
        let data = unsafe { &*place }.buf().wrapping_add(lead);
        // SAFETY: the item is ours, of the packet zone, with its cluster.
        Ok(unsafe { Self::resume(item, flags | EXT | PACK, data) })
    }

    /// Makes an empty mbuf of an item of the packet zone. The item still has the fields that do not change from one
    /// allocation to the next: its zones, and no neighbours.
    ///
    /// # Safety
    /// As for [`Mbuf::begin`]; [`Mbuf::prepare`] was called when the item came from its slab, and
    /// it was freed without neighbours since.
    #[inline(always)]
    unsafe fn resume(item: NonNull<u8>, flags: u32, data: *mut u8) -> Self {
        let head = item.as_ptr().cast::<Head>();
        // SAFETY: the item begins with it.
        unsafe { (*head).data = data };
        // SAFETY: as above.
        unsafe { (*head).len = 0 };
        // SAFETY: as above.
        unsafe { (*head).flags = flags };
        if flags & PKTHDR != 0 {
            let pkt = item.as_ptr().wrapping_add(offset_of!(RawMbuf, pkt));
            // SAFETY: inside of the item.
            unsafe { pkt.cast::<Pkt>().write(Pkt::fresh()) };
        }
        Self(item.cast())
    }

    /// Writes the fields of a packet zone's item that do not change from one allocation to the next.
    ///
    /// # Safety
    /// The item has 256 bytes, aligned to 256, and no other owner.
    pub(crate) unsafe fn prepare(item: NonNull<u8>, zones: &Zones) {
        let head = Head {
            next: None,
            data: ptr::null_mut(),
            len: 0,
            flags: 0,
            zones: NonNull::from(zones),
        };
        // SAFETY: the item begins with it, as the caller says.
        unsafe { item.cast().write(head) };
    }

    /// Gives a bare packet a cluster, or gives it back.
    ///
    /// # Safety
    /// The item is the caller's, of the packet zone, and has no cluster.
    #[cold]
    #[inline(never)]
    #[track_caller]
    unsafe fn dress(zones: &Zones, item: NonNull<u8>) -> Result<(), NoBufs> {
        match Ext::cluster(zones, ClusterSize::K2) {
            Ok(ext) => {
                let place = item.as_ptr().wrapping_add(offset_of!(RawMbuf, ext)).cast();
                // SAFETY: inside of the item; its former content was dropped.
                unsafe { ptr::write(place, ext) };
                zones.bare_packet_ends();
                Ok(())
            }
            Err(error) => {
                // SAFETY: from that zone, as bare as it came.
                unsafe { zones.packets().free(item) };
                Err(error)
            }
        }
    }

    /// As `with_cluster`, with an mbuf and a cluster from their own zones: for a caller without a handle of the pool,
    /// and for the larger sizes.
    #[inline(never)]
    #[track_caller]
    fn with_own_cluster(
        zones: &Zones,
        flags: u32,
        size: ClusterSize,
        lead: usize,
    ) -> Result<Self, NoBufs> {
        let ext = Ext::cluster(zones, size)?;
        // SAFETY: the data is in the cluster: `lead` is no more than it holds.
        unsafe { Self::over(zones, flags, ext, lead, 0) }
    }

    /// An mbuf that shows `len` bytes of outside storage, from byte `off` on.
    ///
    /// # Safety
    /// The storage has them.
    #[inline(always)]
    #[track_caller]
    unsafe fn over(
        zones: &Zones,
        flags: u32,
        ext: Ext,
        off: usize,
        len: u32,
    ) -> Result<Self, NoBufs> {
        let item = zones.alloc_mbuf()?;
        let data = ext.buf().wrapping_add(off);
        let place = item.as_ptr().wrapping_add(offset_of!(RawMbuf, ext));
        // SAFETY: inside of the item, which is ours; no field is there yet.
        unsafe { place.cast::<Ext>().write(ext) };
        // SAFETY: the item is ours, of the mbuf zone, and the caller says the rest.
        Ok(unsafe { Self::begin(item, zones, flags | EXT, data, len) })
    }

    /// An empty plain mbuf over as much storage as suits `len` bytes.
    #[track_caller]
    pub(crate) fn with_room(pool: &MbufPool, len: usize) -> Result<Self, NoBufs> {
        match len {
            0..=MLEN => Self::alloc(pool.zones(), 0, 0),
            _ => Self::with_cluster(pool, 0, ClusterSize::fitting(len), 0),
        }
    }

    /// An empty packet header whose data starts `n` bytes before the end of the storage: the part
    /// before it is left for headers. Refused if no storage is that large.
    #[track_caller]
    pub(crate) fn with_end(zones: &Zones, n: usize) -> Result<Self, NoBufs> {
        if n <= MHLEN {
            return Self::alloc(zones, PKTHDR, MHLEN - n);
        }
        let size = ClusterSize::fitting(n);
        let lead = size.bytes().checked_sub(n).ok_or(NoBufs)?;
        Self::with_own_cluster(zones, PKTHDR, size, lead)
    }

    /// A plain mbuf that shows lent bytes.
    #[track_caller]
    pub(crate) fn with_lent(zones: &Zones, ext: Ext) -> Result<Self, NoBufs> {
        let len = ext.size() as u32;
        // SAFETY: all that the storage has.
        unsafe { Self::over(zones, 0, ext, 0, len) }
    }

    /// A plain mbuf that shows the range `pg` of the pages of `ext`; `pages` has their numbers. It
    /// has neither header nor trailer yet.
    #[inline]
    #[track_caller]
    pub(crate) fn with_pages(
        zones: &Zones,
        ext: Ext,
        pg: PgHdr,
        pages: &[u64],
    ) -> Result<Self, NoBufs> {
        debug_assert!(pg.is_valid() && pages.len() == usize::from(pg.npages));
        debug_assert!(ext.source().is_some());
        let mut m = Self::alloc(zones, 0, 0)?;
        m.attach(ext);
        let head = m.head_mut();
        head.flags |= PGS;
        head.data = ptr::null_mut();
        head.len = pg.record_len() as u32;
        // The fields of the list that are not set here keep their old values: they are not read.
        *m.pg_mut() = pg;
        m.pg_body_mut().pages[..pages.len()].copy_from_slice(pages);
        Ok(m)
    }

    /// Shows all of a page list's record, of which the header or the trailer has grown.
    #[inline]
    pub(crate) fn show_record(&mut self) {
        let len = self.pg().record_len();
        let head = self.head_mut();
        head.data = ptr::null_mut();
        head.len = len as u32;
    }

    /// A new plain mbuf that shows bytes `off..off + len` of this one: shared where they are
    /// outside, copied where they are inside.
    ///
    /// # Panics
    /// If this one has no such bytes.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn share(&mut self, off: usize, len: usize) -> Result<Self, NoBufs> {
        assert!(off <= self.len() && len <= self.len() - off);
        if self.head().flags & (EXT | PGS) != EXT {
            return self.share_slow(off, len);
        }
        let (data, zones) = (self.head().data.wrapping_add(off), self.head().zones);
        let Some(ext) = self.ext_mut() else {
            unreachable!("seen above")
        };
        // SAFETY: a live mbuf keeps its zones.
        let zones = unsafe { zones.as_ref() };
        let item = zones.alloc_mbuf()?;
        let place = item.as_ptr().wrapping_add(offset_of!(RawMbuf, ext)).cast();
        // SAFETY: inside of the item, which is ours.
        if let Err(error) = unsafe { ext.share_to(place) } {
            // SAFETY: as it came from that zone.
            unsafe { zones.mbufs().free(item) };
            return Err(error);
        }
        // SAFETY: the item is ours, of the mbuf zone, and shows bytes that this one shows.
        Ok(unsafe { Self::begin(item, zones, EXT, data, len as u32) })
    }

    /// As `share`, of pages, and of bytes inside.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn share_slow(&mut self, off: usize, len: usize) -> Result<Self, NoBufs> {
        let mut m = Self::alloc(self.zones(), 0, 0)?;
        let data = self.head().data.wrapping_add(off);
        if let Some(ext) = self.ext_mut() {
            m.attach(ext.share_mut()?);
            m.copy_pages_of(self);
            let head = m.head_mut();
            head.data = data;
            head.len = len as u32;
        } else {
            m.push(&self.bytes()[off..off + len]);
            // A secret's copy is a secret.
            m.head_mut().flags |= self.head().flags & ZERO;
            self.zones().stats.bytes_copied.add(len as u64);
        }
        Ok(m)
    }

    /// A new packet header of the same length, which shows the same bytes: shared where they are
    /// outside, copied to the same place where they are inside.
    #[track_caller]
    pub(crate) fn share_first(&mut self) -> Result<Self, NoBufs> {
        let mut m = if self.is(EXT) {
            let mut m = self.share(0, self.len())?;
            m.set_header();
            m
        } else {
            let mut m = Self::alloc(self.zones(), PKTHDR, self.leading_space())?;
            m.push(self.bytes());
            m.head_mut().flags |= self.head().flags & ZERO;
            self.zones().stats.bytes_copied.add(self.len() as u64);
            m
        };
        m.set_pkt_len(self.pkt_len() as u32);
        Ok(m)
    }

    /// Takes over another mbuf's page list, of which this one has a reference already.
    fn copy_pages_of(&mut self, other: &Self) {
        self.head_mut().flags |= PGS | (other.head().flags & ZERO);
        (*self.pg_mut(), *self.pg_body_mut()) = (*other.pg(), *other.pg_body());
    }

    /// Gives an empty mbuf outside storage.
    fn attach(&mut self, ext: Ext) {
        assert!(self.len() == 0 && !self.is(EXT));
        let data = ext.buf();
        // SAFETY: the field is inside of our mbuf; without EXT it has no value that needs a drop.
        unsafe { self.at(offset_of!(RawMbuf, ext)).cast::<Ext>().write(ext) };
        let head = self.head_mut();
        head.data = data;
        head.flags |= EXT;
    }
}
