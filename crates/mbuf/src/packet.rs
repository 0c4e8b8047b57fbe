//! A packet: a chain whose first mbuf has a packet header.
//!
//! The handle owns the whole chain; dropping it frees every mbuf, so an early return can't leak
//! one. A packet and a plain [`Chain`] are different types: neither can be freed, queued or split
//! as if it were the other.

use core::fmt;
use core::mem;
use core::ptr::{self, NonNull};
use core::slice;

use crate::chain::Chain;
use crate::error::{NoBufs, PullupError, WriteError};
use crate::pkthdr::PktHdr;
use crate::pool::{ClusterSize, MbufPool, Zones};
use crate::raw::{self, EXT, MHLEN, PKTHDR, RawMbuf};
use crate::segments::Segments;

/// An owned packet.
#[doc(alias = "mbuf")]
pub struct Packet(NonNull<RawMbuf>);

// SAFETY: a packet owns its mbufs; zones and counts are thread-safe.
unsafe impl Send for Packet {}
// SAFETY: `&Packet` only reads, and shares by atomic counts.
unsafe impl Sync for Packet {}

impl Packet {
    /// An empty packet, its data at the end of the internal area: [`MHLEN`] bytes can be prepended.
    #[doc(alias = "m_gethdr")]
    pub fn new(pool: &MbufPool) -> Result<Self, NoBufs> {
        Ok(Self(raw::alloc(pool.zones(), PKTHDR, MHLEN)?))
    }

    /// An empty packet over a cluster, its data `lead` bytes into it.
    #[doc(alias = "m_getcl")]
    pub fn with_cluster(pool: &MbufPool, size: ClusterSize, lead: usize) -> Result<Self, NoBufs> {
        let m = raw::alloc_cluster(pool.zones(), PKTHDR, size)?;
        let mut p = Self(m);
        let r = p.raw_mut();
        r.data = r.data.wrapping_add(lead.min(size.bytes()));
        Ok(p)
    }

    /// A copy of `bytes`, with `lead` bytes of room before them.
    #[doc(alias = "m_devget")]
    pub fn from_slice(pool: &MbufPool, bytes: &[u8], lead: usize) -> Result<Self, NoBufs> {
        let mut p = if lead + bytes.len() <= MHLEN {
            Self(raw::alloc(pool.zones(), PKTHDR, lead)?)
        } else {
            Self::with_cluster(pool, ClusterSize::fitting(lead + bytes.len()), lead)?
        };
        p.append(pool, bytes)?;
        Ok(p)
    }

    /// Puts a packet header before `chain`: in its first mbuf where that has outside storage, else in
    /// a fresh one with [`MHLEN`] bytes of room. The chain is freed on failure.
    pub fn from_chain(pool: &MbufPool, chain: Chain) -> Result<Self, NoBufs> {
        let len = chain.len();
        let list = chain.into_list();
        // SAFETY: a non-null list head is a live mbuf, which we own.
        let mut p = match unsafe { list.as_mut() } {
            Some(m) if m.flags & EXT != 0 => {
                m.flags |= PKTHDR;
                m.hdr = PktHdr::default();
                Self(NonNull::from(m))
            }
            _ => {
                let rest = ListGuard(list);
                let p = Self::new(pool)?;
                // SAFETY: `p` is fresh and alone; it takes the list over from the guard.
                unsafe { raw::link(p.0.as_ptr(), rest.release()) };
                p
            }
        };
        p.raw_mut().hdr.len = len as u32;
        Ok(p)
    }

    /// A fresh packet whose header area is free for prepending, followed by `chain`: what TCP sends.
    pub fn before_chain(pool: &MbufPool, chain: Chain) -> Result<Self, NoBufs> {
        let mut p = Self::new(pool)?;
        p.append_chain(chain);
        Ok(p)
    }

    /// Takes over a list.
    ///
    /// # Safety
    /// `m` is the head of an owned list, with a true packet header in the first mbuf only.
    pub(crate) unsafe fn from_raw(m: NonNull<RawMbuf>) -> Self {
        Self(m)
    }

    /// Gives the list away.
    pub(crate) fn into_raw(self) -> NonNull<RawMbuf> {
        let m = self.0;
        mem::forget(self);
        m
    }

    fn raw(&self) -> &RawMbuf {
        // SAFETY: the handle owns a live mbuf.
        unsafe { self.0.as_ref() }
    }

    fn raw_mut(&mut self) -> &mut RawMbuf {
        // SAFETY: the handle owns a live mbuf.
        unsafe { self.0.as_mut() }
    }

    fn zones(&self) -> &Zones {
        // SAFETY: a live mbuf's zones outlive it.
        unsafe { &*self.raw().zones }
    }

    /// The packet's metadata.
    #[inline]
    pub fn header(&self) -> &PktHdr {
        &self.raw().hdr
    }

    /// The packet's metadata, to change.
    #[inline]
    pub fn header_mut(&mut self) -> &mut PktHdr {
        &mut self.raw_mut().hdr
    }

    /// Bytes in the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.raw().hdr.len as usize
    }

    /// No bytes at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that are contiguous at the front: what [`Packet::pullup`] made so.
    #[inline]
    pub fn front(&self) -> &[u8] {
        self.raw().bytes()
    }

    /// The same for writing, if nobody shares them.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut [u8]> {
        self.raw_mut().bytes_mut()
    }

    /// The pieces in order.
    pub fn segments(&self) -> Segments<'_> {
        self.segments_from(0)
    }

    /// The pieces from offset `off` on.
    pub fn segments_from(&self, off: usize) -> Segments<'_> {
        // SAFETY: the list lives unchanged while `self` is borrowed.
        unsafe { Segments::new(self.0.as_ptr(), off, self.len().saturating_sub(off)) }
    }

    /// Makes the first `n` bytes contiguous and returns them. On failure the packet is as it was.
    #[doc(alias = "m_pullup")]
    #[inline]
    pub fn pullup(&mut self, n: usize) -> Result<&[u8], PullupError> {
        if self.raw().len as usize >= n {
            return Ok(&self.raw().bytes()[..n]);
        }
        self.pullup_slow(n)?;
        Ok(&self.raw().bytes()[..n])
    }

    #[cold]
    fn pullup_slow(&mut self, n: usize) -> Result<(), PullupError> {
        if n > self.len() {
            return Err(PullupError::TooShort);
        }
        self.zones().stats.pullups.inc();
        self.zones().stats.pullups_copied.add(n as u64);
        let have = self.raw().len as usize;
        if self.raw().writable() && self.raw().trailing_space() >= n - have {
            self.pull_into_first(n - have);
            return Ok(());
        }
        // A fresh first mbuf takes the n bytes and the packet header.
        let zones = self.raw().zones;
        // SAFETY: a live mbuf's zones outlive it.
        let zones = unsafe { &*zones };
        let mut first = if n <= MHLEN {
            Self(raw::alloc(zones, PKTHDR, MHLEN - n)?)
        } else if n <= ClusterSize::K16.bytes() {
            Self(raw::alloc_cluster(zones, PKTHDR, ClusterSize::fitting(n))?)
        } else {
            return Err(PullupError::NoBufs);
        };
        let hdr = self.raw().hdr;
        let r = first.raw_mut();
        r.hdr = hdr;
        r.len = n as u32;
        if let Some(dst) = r.bytes_mut() {
            // SAFETY: this packet has at least `n` bytes, and `dst` is in another mbuf.
            unsafe { raw::copy_out(self.0.as_ptr(), 0, dst) };
        }
        let old = mem::replace(self, first);
        let mut rest = old.into_chain();
        rest.trim_front(n);
        // SAFETY: `self` is one fresh mbuf; it takes the rest of the list over.
        unsafe { raw::link(self.0.as_ptr(), rest.into_list()) };
        self.check();
        Ok(())
    }

    /// Copies `more` bytes from the following mbufs to behind the first one's, where there is room.
    fn pull_into_first(&mut self, more: usize) {
        let p = self.0.as_ptr();
        // SAFETY: the first mbuf is ours and has room for `more` bytes, which the following mbufs
        // hold; they are copied before those are trimmed.
        unsafe {
            let end = (*p).data.add((*p).len as usize);
            raw::copy_out((*p).next, 0, slice::from_raw_parts_mut(end, more));
            (*p).next = raw::trim_front((*p).next, more);
            (*p).len += more as u32;
        }
        self.check();
    }

    /// Makes `n` bytes of room at the front and returns them, to be filled by the caller.
    #[doc(alias = "m_prepend")]
    pub fn prepend(&mut self, n: usize) -> Result<&mut [u8], NoBufs> {
        let r = self.raw();
        if !(r.writable() && r.leading_space() >= n) {
            self.prepend_mbuf(n)?;
        }
        let r = self.raw_mut();
        r.data = r.data.wrapping_sub(n);
        r.len += n as u32;
        r.hdr.len += n as u32;
        // SAFETY: the n bytes before the old data are in our own storage; they hold some bytes
        // (zones hand out initialised pages), which the caller overwrites.
        Ok(unsafe { slice::from_raw_parts_mut(r.data, n) })
    }

    /// Puts an empty mbuf with at least `n` bytes of leading space before the first.
    #[cold]
    fn prepend_mbuf(&mut self, n: usize) -> Result<(), NoBufs> {
        if n > MHLEN {
            return Err(NoBufs);
        }
        let zones = self.raw().zones;
        // SAFETY: a live mbuf's zones outlive it.
        let mut first = Self(raw::alloc(unsafe { &*zones }, PKTHDR, MHLEN)?);
        *first.header_mut() = *self.header();
        let old = mem::replace(self, first);
        // SAFETY: `self` is one fresh mbuf, and the old list has no packet header any more.
        unsafe { raw::link(self.0.as_ptr(), old.into_chain().into_list()) };
        Ok(())
    }

    /// Drops the first `n` bytes (all if there are fewer).
    #[doc(alias = "m_adj")]
    pub fn trim_front(&mut self, n: usize) {
        let n = n.min(self.len());
        let r = self.raw_mut();
        let here = n.min(r.len as usize);
        r.data = r.data.wrapping_add(here);
        r.len -= here as u32;
        r.hdr.len -= n as u32;
        // SAFETY: the list after the first mbuf is ours and has the remaining bytes.
        r.next = unsafe { raw::trim_front(r.next, n - here) };
        self.check();
    }

    /// Drops what comes after the first `len` bytes.
    #[doc(alias = "m_adj")]
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        // SAFETY: the packet owns its list, which has more than `len` bytes; what follows `m` is
        // freed.
        unsafe {
            let (m, at) = raw::seek(self.0.as_ptr(), len);
            raw::free_list((*m).next);
            (*m).next = ptr::null_mut();
            (*m).len = at as u32;
        }
        self.raw_mut().hdr.len = len as u32;
        self.check();
    }

    /// Copies `bytes` to the end. On failure nothing has changed.
    #[doc(alias = "m_append")]
    pub fn append(&mut self, pool: &MbufPool, bytes: &[u8]) -> Result<(), NoBufs> {
        let last = self.last();
        // SAFETY: `last` is a live mbuf of this packet.
        let room = unsafe { if (*last).writable() { (*last).trailing_space() } else { 0 } };
        let (here, rest) = bytes.split_at(room.min(bytes.len()));
        let rest = Chain::from_slice(pool, rest)?;
        // SAFETY: `last` has that much room behind its data, in storage of ours alone.
        unsafe {
            let end = (*last).data.add((*last).len as usize);
            ptr::copy_nonoverlapping(here.as_ptr(), end, here.len());
            (*last).len += here.len() as u32;
        }
        self.raw_mut().hdr.len += here.len() as u32;
        self.append_chain(rest);
        Ok(())
    }

    /// Joins `chain` to the end, moving its mbufs.
    #[doc(alias = "m_cat")]
    pub fn append_chain(&mut self, chain: Chain) {
        self.raw_mut().hdr.len += chain.len() as u32;
        // SAFETY: the last mbuf is ours, and the list passes to us.
        unsafe { raw::link(self.last(), chain.into_list()) };
        self.check();
    }

    fn last(&self) -> *mut RawMbuf {
        // SAFETY: the packet has at least its first mbuf.
        unsafe { raw::last(self.0.as_ptr()) }
    }

    /// Cuts the packet after `at` bytes; the rest becomes a plain chain. On failure nothing changed.
    #[doc(alias = "m_split")]
    pub fn split_off(&mut self, at: usize) -> Result<Chain, NoBufs> {
        if at >= self.len() {
            return Ok(Chain::new());
        }
        // SAFETY: the packet owns its list, which has more than `at` bytes.
        let rest = unsafe { Chain::from_list(raw::split(self.0.as_ptr(), at)?) };
        self.raw_mut().hdr.len = at as u32;
        self.check();
        Ok(rest)
    }

    /// Shows bytes `off..off + len` in a new chain, sharing clusters and copying what is internal.
    /// A range that reaches past the end is cut there.
    #[doc(alias = "m_copym")]
    pub fn share(&self, off: usize, len: usize) -> Result<Chain, NoBufs> {
        let mut left = len.min(self.len().saturating_sub(off));
        let mut out = Chain::new();
        if left == 0 {
            return Ok(out);
        }
        // SAFETY: the packet has more than `off` bytes.
        let (mut m, mut at) = unsafe { raw::seek(self.0.as_ptr(), off) };
        while left > 0 {
            // SAFETY: bytes are left, so `m` is a live mbuf of ours.
            let r = unsafe { &*m };
            let n = left.min(r.len as usize - at);
            if n > 0 {
                // SAFETY: `at + n <= len` of a live mbuf; the new mbuf is ours to add.
                out.append(unsafe { Chain::from_list(raw::share_one(m, at, n)?.as_ptr()) });
            }
            left -= n;
            at = 0;
            m = r.next;
        }
        self.zones().stats.shares.inc();
        Ok(out)
    }

    /// Copies bytes from `off` out to `dst`; false (and nothing copied) if there are too few.
    #[doc(alias = "m_copydata")]
    pub fn copy_to(&self, off: usize, dst: &mut [u8]) -> bool {
        let fits = off.checked_add(dst.len()).is_some_and(|end| end <= self.len());
        if fits {
            // SAFETY: the list has that many bytes.
            unsafe { raw::copy_out(self.0.as_ptr(), off, dst) };
        }
        fits
    }

    /// Writes `src` over the bytes from `off`, if nobody shares them.
    #[doc(alias = "m_copyback")]
    pub fn write_at(&mut self, off: usize, src: &[u8]) -> Result<(), WriteError> {
        if off.checked_add(src.len()).is_none_or(|end| end > self.len()) {
            return Err(WriteError::OutOfRange);
        }
        // SAFETY: the list is ours and has that many bytes; writability is checked first.
        unsafe {
            if !raw::range_writable(self.0.as_ptr(), off, src.len()) {
                return Err(WriteError::Shared);
            }
            raw::copy_in(self.0.as_ptr(), off, src);
        }
        Ok(())
    }

    /// Takes the packet header off. Nothing is copied.
    pub fn into_chain(self) -> Chain {
        let m = self.into_raw().as_ptr();
        // SAFETY: `m` heads a list that we own; without the bit it is a plain one. The data pointer
        // stays inside of the storage, since a plain mbuf's internal area includes a packet's.
        unsafe {
            (*m).flags &= !PKTHDR;
            Chain::from_list(m)
        }
    }

    /// A packet of its own with the same bytes and header, sharing nothing.
    #[doc(alias = "m_dup")]
    pub fn dup(&self, pool: &MbufPool) -> Result<Self, NoBufs> {
        let mut out = Self::new(pool)?;
        for s in self.segments() {
            out.append(pool, s)?;
        }
        let len = out.raw().hdr.len;
        *out.header_mut() = *self.header();
        out.raw_mut().hdr.len = len;
        self.zones().stats.bytes_copied.add(u64::from(len));
        Ok(out)
    }

    /// Bytes of memory that the packet keeps from being reused.
    pub fn pinned(&self) -> usize {
        let (mut sum, mut m) = (0, self.0.as_ptr());
        while !m.is_null() {
            // SAFETY: `m` is a live mbuf of this packet.
            let r = unsafe { &*m };
            sum += r.pinned();
            m = r.next;
        }
        sum
    }

    /// The bytes in a vector of their own.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.segments().for_each(|s| out.extend_from_slice(s));
        out
    }

    /// Whether the header and the list agree.
    #[doc(alias = "m_sanity")]
    pub fn is_valid(&self) -> bool {
        let (mut len, mut m, mut first) = (0, self.0.as_ptr(), true);
        while !m.is_null() {
            // SAFETY: `m` is a live mbuf of this packet.
            let r = unsafe { &*m };
            if !r.is_valid() || (r.flags & PKTHDR != 0) != first {
                return false;
            }
            first = false;
            len += r.len as usize;
            m = r.next;
        }
        len == self.len()
    }

    fn check(&self) {
        debug_assert!(self.is_valid());
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: the packet owns its list, and is gone after this.
        unsafe { raw::free_list(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("header", self.header()).finish()
    }
}

/// Frees a list unless it is released: for the steps between taking a chain apart and building a
/// packet, where an allocation can fail.
struct ListGuard(*mut RawMbuf);

impl ListGuard {
    fn release(self) -> *mut RawMbuf {
        let head = self.0;
        mem::forget(self);
        head
    }
}

impl Drop for ListGuard {
    fn drop(&mut self) {
        // SAFETY: the guard owns the list.
        unsafe { raw::free_list(self.0) }
    }
}
