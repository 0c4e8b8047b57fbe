//! The 256 bytes of an mbuf, and the primitive steps on chains of them.
//!
//! ```text
//!   0        8        16       24     28  30       32       40
//!   | next   | nextpkt| data   | len  |fl|  size8  | zones  |
//!   40                                            80
//!   | packet header (PKTHDR), else internal data ..| ext (EXT), else internal data ...  256
//! ```
//!
//! An mbuf with neither bit holds 216 bytes itself; one with a packet header 176. With [`EXT`] the
//! bytes are elsewhere (a cluster, or storage that its owner lent) and the internal area is idle:
//! that is why a plain ext mbuf can become a packet header, and back, in place.
//!
//! Everything here is `unsafe` in the same way: a `*mut RawMbuf` given to a function is the head of
//! a NULL-terminated list of live mbufs that the caller owns. The handle types ([`Packet`],
//! [`Chain`]) are what makes that true.
//!
//! Called by: every other module. Calls: the pool's zones.
//!
//! [`Packet`]: crate::Packet
//! [`Chain`]: crate::Chain

use core::mem::{offset_of, size_of};
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::error::NoBufs;
use crate::ext::ExtOwner;
use crate::pkthdr::PktHdr;
use crate::pool::{ClusterSize, Zones};

/// Bytes of an mbuf.
pub const MSIZE: usize = 256;
/// Internal data of an mbuf without a packet header.
pub const MLEN: usize = MSIZE - offset_of!(RawMbuf, hdr);
/// Internal data of an mbuf with a packet header.
pub const MHLEN: usize = MSIZE - offset_of!(RawMbuf, ext);

/// The mbuf begins a packet: `hdr` is valid.
pub(crate) const PKTHDR: u8 = 1 << 0;
/// The data is outside of the mbuf: `ext` is valid.
pub(crate) const EXT: u8 = 1 << 1;
/// The outside storage must never be written through this mbuf.
pub(crate) const RDONLY: u8 = 1 << 2;

/// A sharer above this count is refused: far below overflow, so that a race of refusals can't wrap.
const REFS_MAX: u32 = u32::MAX / 2;

/// Storage outside of the mbuf.
#[repr(C)]
pub(crate) struct Ext {
    pub(crate) buf: *mut u8,
    pub(crate) size: u32,
    pub(crate) kind: ExtKind,
    /// Counted with the storage: beside the cluster in its zone's side table, or in the owner's
    /// own header. Never null.
    pub(crate) refs: *const AtomicU32,
    /// The lent storage's owner; null for clusters.
    pub(crate) owner: *mut ExtOwner,
}

/// Where outside storage goes when its last reference is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum ExtKind {
    Cluster(ClusterSize),
    Owner,
}

#[repr(C, align(256))]
pub(crate) struct RawMbuf {
    pub(crate) next: *mut RawMbuf,
    pub(crate) nextpkt: *mut RawMbuf,
    pub(crate) data: *mut u8,
    pub(crate) len: u32,
    pub(crate) flags: u8,
    _spare: [u8; 3],
    pub(crate) zones: *const Zones,
    pub(crate) hdr: PktHdr,
    pub(crate) ext: Ext,
    _rest: [u8; MSIZE - 40 - size_of::<PktHdr>() - size_of::<Ext>()],
}

const _: () = assert!(size_of::<RawMbuf>() == MSIZE);
const _: () = assert!(offset_of!(RawMbuf, hdr) == 40);
const _: () = assert!(size_of::<PktHdr>() == 40);
const _: () = assert!(offset_of!(RawMbuf, ext) == 80);
const _: () = assert!(MLEN == 216 && MHLEN == 176);

impl RawMbuf {
    /// First byte of the storage in use, and its size.
    pub(crate) fn storage(&self) -> (*mut u8, usize) {
        let base = ptr::from_ref(self).cast::<u8>().cast_mut();
        if self.flags & EXT != 0 {
            (self.ext.buf, self.ext.size as usize)
        } else if self.flags & PKTHDR != 0 {
            (base.wrapping_add(offset_of!(RawMbuf, ext)), MHLEN)
        } else {
            (base.wrapping_add(offset_of!(RawMbuf, hdr)), MLEN)
        }
    }

    pub(crate) fn leading_space(&self) -> usize {
        (self.data as usize).wrapping_sub(self.storage().0 as usize)
    }

    pub(crate) fn trailing_space(&self) -> usize {
        let (base, size) = self.storage();
        (base as usize + size) - (self.data as usize + self.len as usize)
    }

    /// Bytes of memory that this mbuf keeps from being reused.
    pub(crate) fn pinned(&self) -> usize {
        MSIZE + if self.flags & EXT != 0 { self.ext.size as usize } else { 0 }
    }

    /// True if nobody else can see the storage and it may be written.
    pub(crate) fn writable(&self) -> bool {
        if self.flags & EXT == 0 {
            return true;
        }
        // Acquire pairs with the Release of the sharer that dropped its reference last: what it
        // read, it read before we write.
        self.flags & RDONLY == 0 && self.refs().load(Ordering::Acquire) == 1
    }

    fn refs(&self) -> &AtomicU32 {
        debug_assert!(self.flags & EXT != 0);
        // SAFETY: EXT is set, so `refs` points to the count that lives with the storage, which
        // lives at least as long as this reference to it.
        unsafe { &*self.ext.refs }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `data..data + len` lies in the storage (checked by `is_valid`), initialised, and
        // nobody writes shared storage.
        unsafe { slice::from_raw_parts(self.data, self.len as usize) }
    }

    /// The bytes for writing, if nobody shares them.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.writable() {
            return None;
        }
        // SAFETY: as in `bytes`, and the storage is ours alone while `self` is borrowed.
        Some(unsafe { slice::from_raw_parts_mut(self.data, self.len as usize) })
    }

    /// Whether the fields agree with each other.
    pub(crate) fn is_valid(&self) -> bool {
        let (base, size) = self.storage();
        let start = self.data as usize;
        !self.zones.is_null()
            && start >= base as usize
            && start + self.len as usize <= base as usize + size
            && (self.flags & EXT == 0 || (!self.ext.buf.is_null() && !self.ext.refs.is_null()))
    }
}

/// An empty mbuf of `flags` whose data starts `lead` bytes into the internal area.
pub(crate) fn alloc(zones: &Zones, flags: u8, lead: usize) -> Result<NonNull<RawMbuf>, NoBufs> {
    debug_assert!(flags & EXT == 0);
    let m: NonNull<RawMbuf> = zones.alloc_mbuf()?.cast();
    let p = m.as_ptr();
    // SAFETY: the zone gave us 256 bytes aligned to 256 that nobody else has; writing the fields
    // through raw pointers makes no reference to uninitialised memory.
    unsafe {
        (&raw mut (*p).next).write(ptr::null_mut());
        (&raw mut (*p).nextpkt).write(ptr::null_mut());
        (&raw mut (*p).len).write(0);
        (&raw mut (*p).flags).write(flags);
        (&raw mut (*p).zones).write(zones);
        if flags & PKTHDR != 0 {
            (&raw mut (*p).hdr).write(PktHdr::default());
        }
        let (base, size) = (*p).storage();
        debug_assert!(lead <= size);
        (&raw mut (*p).data).write(base.add(lead));
    }
    Ok(m)
}

/// An empty mbuf with a cluster of `size`, its data at the cluster's start.
pub(crate) fn alloc_cluster(
    zones: &Zones,
    flags: u8,
    size: ClusterSize,
) -> Result<NonNull<RawMbuf>, NoBufs> {
    let m = alloc(zones, flags, 0)?;
    let (buf, refs) = match zones.alloc_cluster(size) {
        Ok(cluster) => cluster,
        Err(e) => {
            // SAFETY: `m` was allocated just above, is alone and owned here.
            unsafe { free_one(m.as_ptr()) };
            return Err(e);
        }
    };
    let ext = Ext {
        buf: buf.as_ptr(),
        size: size.bytes() as u32,
        kind: ExtKind::Cluster(size),
        refs,
        owner: ptr::null_mut(),
    };
    // SAFETY: `m` is ours alone, and `ext` describes a cluster of which we hold the one reference.
    unsafe { attach_ext(m, ext, 0) };
    Ok(m)
}

/// Hands storage, of which the caller passes on one reference, to an mbuf without any.
///
/// # Safety
/// `m` is a live mbuf owned by the caller, without EXT and with no data.
pub(crate) unsafe fn attach_ext(m: NonNull<RawMbuf>, ext: Ext, flags: u8) {
    let p = m.as_ptr();
    // SAFETY: `m` is live and owned by the caller.
    unsafe {
        (*p).data = ext.buf;
        (&raw mut (*p).ext).write(ext);
        (*p).flags |= EXT | flags;
    }
}

/// Drops this mbuf's reference to its outside storage.
///
/// # Safety
/// `p` is live, owned, has EXT, and its data is not looked at afterwards.
unsafe fn release_ext(p: *mut RawMbuf) {
    // SAFETY: the caller owns `p`.
    let m = unsafe { &mut *p };
    // The last holder needs no read-modify-write: nobody can add a reference that nobody has.
    // Acquire: all that former sharers did happened before the storage is used again.
    if m.refs().load(Ordering::Acquire) != 1 {
        if m.refs().fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
    }
    match m.ext.kind {
        // SAFETY: we held the last reference to a cluster that came from this zone.
        ExtKind::Cluster(size) => unsafe {
            (*m.zones).free_cluster(size, NonNull::new_unchecked(m.ext.buf));
        },
        // SAFETY: the count was the owner's own and is now zero: nobody else has the pointer.
        ExtKind::Owner => drop(unsafe { Box::from_raw(m.ext.owner) }),
    }
}

/// Frees one mbuf and drops its hold on outside storage.
///
/// # Safety
/// `p` is live and owned by the caller, who does not use it again.
#[doc(alias = "m_free")]
pub(crate) unsafe fn free_one(p: *mut RawMbuf) {
    // SAFETY: the caller owns `p`, so its fields can be read and its storage released once.
    unsafe {
        if (*p).flags & EXT != 0 {
            release_ext(p);
        }
        (*(*p).zones).free_mbuf(NonNull::new_unchecked(p.cast()));
    }
}

/// Frees a list of mbufs.
///
/// # Safety
/// `head` is null or the head of a list owned by the caller, who does not use it again.
#[doc(alias = "m_freem")]
pub(crate) unsafe fn free_list(mut head: *mut RawMbuf) {
    while !head.is_null() {
        // SAFETY: `head` is a live mbuf of the owned list; its successor is read before it goes.
        unsafe {
            let next = (*head).next;
            free_one(head);
            head = next;
        }
    }
}

/// A new mbuf that shows bytes `off..off + len` of `m`: shared where they are outside of `m`,
/// copied where they are inside.
///
/// # Safety
/// `m` is live; `off + len <= m.len`.
pub(crate) unsafe fn share_one(
    m: *const RawMbuf,
    off: usize,
    len: usize,
) -> Result<NonNull<RawMbuf>, NoBufs> {
    // SAFETY: the caller keeps `m` alive.
    let src = unsafe { &*m };
    debug_assert!(off + len <= src.len as usize);
    // SAFETY: a live mbuf's zones outlive it.
    let zones = unsafe { &*src.zones };
    if src.flags & EXT == 0 && len > MLEN {
        unreachable!("internal data is at most MLEN bytes");
    }
    let n = alloc(zones, 0, 0)?;
    let p = n.as_ptr();
    if src.flags & EXT == 0 {
        // SAFETY: `len <= MLEN` bytes fit the fresh mbuf, and the two mbufs are distinct.
        unsafe { ptr::copy_nonoverlapping(src.data.add(off), (*p).data, len) };
        zones.stats.bytes_copied.add(len as u64);
    } else {
        // Relaxed: the new reference is made from one that exists, so the storage can't go away.
        if src.refs().fetch_add(1, Ordering::Relaxed) > REFS_MAX {
            src.refs().fetch_sub(1, Ordering::Relaxed);
            // SAFETY: `n` is ours, fresh and without EXT.
            unsafe { free_one(p) };
            return Err(NoBufs);
        }
        let ext = Ext {
            buf: src.ext.buf,
            size: src.ext.size,
            kind: src.ext.kind,
            refs: src.ext.refs,
            owner: src.ext.owner,
        };
        // SAFETY: `n` is ours and fresh; the reference taken above goes with `ext`.
        unsafe { attach_ext(n, ext, src.flags & RDONLY) };
        // SAFETY: `off` lies within the storage.
        unsafe { (*p).data = src.data.add(off) };
    }
    // SAFETY: `p` is ours.
    unsafe { (*p).len = len as u32 };
    Ok(n)
}

/// The mbuf that holds byte `off` of the list, and the offset within it. At the very end: the last
/// mbuf with its length, or null for an empty list.
///
/// # Safety
/// `head` is a live list (or null) of at least `off` bytes.
pub(crate) unsafe fn seek(mut head: *mut RawMbuf, mut off: usize) -> (*mut RawMbuf, usize) {
    while !head.is_null() {
        // SAFETY: `head` is a live mbuf of the list.
        let m = unsafe { &*head };
        if off < m.len as usize || m.next.is_null() {
            return (head, off);
        }
        off -= m.len as usize;
        head = m.next;
    }
    (ptr::null_mut(), off)
}

/// Copies `dst.len()` bytes from offset `off` out of the list.
///
/// # Safety
/// `head` is a live list of at least `off + dst.len()` bytes.
pub(crate) unsafe fn copy_out(head: *mut RawMbuf, off: usize, mut dst: &mut [u8]) {
    // SAFETY: as the caller says.
    let (mut m, mut at) = unsafe { seek(head, off) };
    while !dst.is_empty() {
        // SAFETY: the list is long enough, so `m` is a live mbuf.
        let src = unsafe { &(&*m).bytes()[at..] };
        let n = src.len().min(dst.len());
        dst[..n].copy_from_slice(&src[..n]);
        dst = &mut dst[n..];
        at = 0;
        // SAFETY: as above.
        m = unsafe { (*m).next };
    }
}

/// Whether every mbuf that holds a byte of `off..off + len` may be written.
///
/// # Safety
/// `head` is a live list of at least `off + len` bytes.
pub(crate) unsafe fn range_writable(head: *mut RawMbuf, off: usize, len: usize) -> bool {
    // SAFETY: as the caller says.
    let (mut m, at) = unsafe { seek(head, off) };
    let mut left = len + at;
    while left > 0 && !m.is_null() {
        // SAFETY: `m` is a live mbuf of the list.
        let r = unsafe { &*m };
        if !r.writable() {
            return false;
        }
        left = left.saturating_sub(r.len as usize);
        m = r.next;
    }
    true
}

/// Writes `src` over the bytes from `off`.
///
/// # Safety
/// `head` is an owned list of at least `off + src.len()` bytes, all writable.
pub(crate) unsafe fn copy_in(head: *mut RawMbuf, off: usize, mut src: &[u8]) {
    // SAFETY: as the caller says.
    let (mut m, mut at) = unsafe { seek(head, off) };
    while !src.is_empty() {
        // SAFETY: the list is owned and long enough, so `m` is a live mbuf of ours.
        let r = unsafe { &mut *m };
        if let Some(dst) = r.bytes_mut() {
            let n = (dst.len() - at).min(src.len());
            dst[at..at + n].copy_from_slice(&src[..n]);
            src = &src[n..];
        }
        at = 0;
        m = r.next;
    }
}

/// Cuts the list after `off` bytes; the rest is a list of its own (null if there is none).
///
/// Where the cut falls inside an mbuf, the second part shares its cluster (or copies what is
/// internal). On failure nothing has changed.
///
/// # Safety
/// `head` is an owned list of at least `off` bytes, `off > 0` or the first mbuf stays (empty).
pub(crate) unsafe fn split(head: *mut RawMbuf, off: usize) -> Result<*mut RawMbuf, NoBufs> {
    // SAFETY: as the caller says.
    let (m, at) = unsafe { seek_left(head, off) };
    if m.is_null() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: `m` is a live mbuf that the caller owns.
    let r = unsafe { &mut *m };
    let tail = if at == r.len as usize {
        r.next
    } else {
        // SAFETY: `at < len`, so the range is inside of `m`.
        let n = unsafe { share_one(m, at, r.len as usize - at)? };
        // SAFETY: `n` is ours and alone.
        unsafe { (*n.as_ptr()).next = r.next };
        r.len = at as u32;
        n.as_ptr()
    };
    r.next = ptr::null_mut();
    Ok(tail)
}

/// Like [`seek`], but a boundary belongs to the mbuf on its left.
///
/// # Safety
/// As for [`seek`].
unsafe fn seek_left(mut head: *mut RawMbuf, mut off: usize) -> (*mut RawMbuf, usize) {
    while !head.is_null() {
        // SAFETY: `head` is a live mbuf of the list.
        let m = unsafe { &*head };
        if off <= m.len as usize || m.next.is_null() {
            return (head, off);
        }
        off -= m.len as usize;
        head = m.next;
    }
    (ptr::null_mut(), off)
}

/// Drops `n` bytes from the front, freeing emptied mbufs; returns the new head.
///
/// # Safety
/// `head` is an owned list of at least `n` bytes.
pub(crate) unsafe fn trim_front(mut head: *mut RawMbuf, mut n: usize) -> *mut RawMbuf {
    while n > 0 && !head.is_null() {
        // SAFETY: `head` is a live mbuf that the caller owns.
        let m = unsafe { &mut *head };
        if n < m.len as usize {
            m.data = m.data.wrapping_add(n);
            m.len -= n as u32;
            break;
        }
        n -= m.len as usize;
        let next = m.next;
        // SAFETY: nothing of this mbuf is left to show, and it is ours.
        unsafe { free_one(head) };
        head = next;
    }
    head
}

/// Joins two lists and returns nothing: `a` is not empty and ends where `b` begins.
///
/// # Safety
/// `tail` is the last mbuf of an owned list; `b` is null or an owned list.
pub(crate) unsafe fn link(tail: *mut RawMbuf, b: *mut RawMbuf) {
    debug_assert!(!tail.is_null());
    // SAFETY: the caller owns `tail`.
    unsafe { (*tail).next = b };
}

/// The last mbuf of a list.
///
/// # Safety
/// `head` is the live head of a list, not null.
pub(crate) unsafe fn last(mut head: *mut RawMbuf) -> *mut RawMbuf {
    // SAFETY: every mbuf of the list is live.
    unsafe {
        while !(*head).next.is_null() {
            head = (*head).next;
        }
    }
    head
}
