//! A chain: bytes without a packet header, as socket buffers hold them.
//!
//! Knows what it shows ([`Chain::len`]) and what it keeps from being reused ([`Chain::pinned`]).
//! Appending and taking from the front are O(1) an mbuf; [`Chain::share`] remembers where it was,
//! so that TCP, which sends one range after the other, never walks the whole buffer.
//!
//! Invariants ([`Chain::is_valid`]): `len` and `pinned` are the sums over the list; `tail` is the
//! last mbuf; no mbuf has a packet header.

use core::fmt;
use core::ptr;

use crate::error::{NoBufs, WriteError};
use crate::ext::ExtOwner;
use crate::packet::Packet;
use crate::pool::{ClusterSize, MbufPool};
use crate::raw::{self, Ext, ExtKind, MLEN, PKTHDR, RDONLY, RawMbuf};
use crate::segments::Segments;

/// An owned list of mbufs; dropping it frees them.
#[doc(alias = "mchain")]
pub struct Chain {
    head: *mut RawMbuf,
    tail: *mut RawMbuf,
    len: usize,
    pinned: usize,
    hint: Hint,
}

/// Where the last share ended: an mbuf of this chain and the offset of its first byte.
#[derive(Clone, Copy)]
struct Hint {
    at: *mut RawMbuf,
    base: usize,
}

const NO_HINT: Hint = Hint { at: ptr::null_mut(), base: 0 };

// SAFETY: a chain owns its mbufs; zones and counts are thread-safe.
unsafe impl Send for Chain {}
// SAFETY: `&Chain` only reads, and shares by atomic counts.
unsafe impl Sync for Chain {}

impl Chain {
    /// An empty chain.
    pub const fn new() -> Self {
        Self { head: ptr::null_mut(), tail: ptr::null_mut(), len: 0, pinned: 0, hint: NO_HINT }
    }

    /// Takes over a list.
    ///
    /// # Safety
    /// `head` is null or an owned list without packet headers, passed on to the chain.
    pub(crate) unsafe fn from_list(head: *mut RawMbuf) -> Self {
        let mut chain = Self::new();
        chain.head = head;
        let mut m = head;
        while !m.is_null() {
            // SAFETY: `m` is a live mbuf of the list.
            let r = unsafe { &*m };
            debug_assert!(r.flags & PKTHDR == 0);
            chain.len += r.len as usize;
            chain.pinned += r.pinned();
            chain.tail = m;
            m = r.next;
        }
        chain
    }

    /// Gives the list away.
    pub(crate) fn into_list(self) -> *mut RawMbuf {
        let head = self.head;
        core::mem::forget(self);
        head
    }

    /// A copy of `bytes` in fresh mbufs.
    #[doc(alias = "m_devget")]
    pub fn from_slice(pool: &MbufPool, bytes: &[u8]) -> Result<Self, NoBufs> {
        let mut chain = Self::new();
        chain.extend_from_slice(pool, bytes)?;
        Ok(chain)
    }

    /// Shows the bytes that `owner` holds, without a copy; `owner` is dropped with the last
    /// reference. They are never written.
    #[doc(alias = "m_extadd")]
    pub fn from_owner<T>(pool: &MbufPool, owner: T) -> Result<Self, NoBufs>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        let m = raw::alloc(pool.zones(), 0, 0)?;
        let (owner, buf, len) = ExtOwner::new(owner);
        let Ok(size) = u32::try_from(len) else {
            // SAFETY: both were made just above and nobody else has them.
            unsafe {
                drop(Box::from_raw(owner));
                raw::free_one(m.as_ptr());
            }
            return Err(NoBufs);
        };
        let ext = Ext {
            buf,
            size,
            kind: ExtKind::Owner,
            // SAFETY: `owner` is a live box; its field's address is stable.
            refs: unsafe { &raw const (*owner).refs },
            owner,
        };
        // SAFETY: `m` is ours and fresh; the box's single reference goes with `ext`.
        unsafe {
            raw::attach_ext(m, ext, RDONLY);
            (*m.as_ptr()).len = size;
            Ok(Self::from_list(m.as_ptr()))
        }
    }

    /// Bytes shown.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No bytes at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that the chain keeps from being reused: mbufs and whole clusters.
    #[doc(alias = "m_memcnt")]
    #[inline]
    pub fn pinned(&self) -> usize {
        self.pinned
    }

    /// Mbufs in the list.
    pub fn mbufs(&self) -> usize {
        let (mut n, mut m) = (0, self.head);
        while !m.is_null() {
            n += 1;
            // SAFETY: `m` is a live mbuf of this chain.
            m = unsafe { (*m).next };
        }
        n
    }

    /// The pieces in order.
    pub fn segments(&self) -> Segments<'_> {
        // SAFETY: the list lives unchanged while `self` is borrowed.
        unsafe { Segments::new(self.head, 0, self.len) }
    }

    /// Joins `other` to the end, moving its mbufs.
    #[doc(alias = "m_cat")]
    pub fn append(&mut self, other: Chain) {
        if other.head.is_null() {
            return;
        }
        let (len, pinned, tail) = (other.len, other.pinned, other.tail);
        let head = other.into_list();
        if self.head.is_null() {
            self.head = head;
        } else {
            // SAFETY: `tail` is the last mbuf of this chain, and `head` a list we own.
            unsafe { raw::link(self.tail, head) };
        }
        self.tail = tail;
        self.len += len;
        self.pinned += pinned;
        self.check();
    }

    /// Joins `other` to the end, copying it where that frees more memory than it costs: little data
    /// in large storage goes into the room after the last byte.
    #[doc(alias = "sbcompress")]
    pub fn append_compact(&mut self, pool: &MbufPool, other: Chain) {
        let wasteful = other.len <= MLEN && other.pinned > 4 * (other.len + MLEN);
        if wasteful && (self.room() >= other.len || other.pinned > 2 * raw::MSIZE) {
            let mut small = [0; MLEN];
            let bytes = &mut small[..other.len];
            let whole = other.copy_to(0, bytes);
            if whole && self.extend_from_slice(pool, bytes).is_ok() {
                pool.zones().stats.bytes_copied.add(other.len as u64);
                return;
            }
        }
        self.append(other);
    }

    /// Writable room behind the last byte, in the last mbuf.
    fn room(&self) -> usize {
        // SAFETY: a non-null tail is a live mbuf of this chain.
        match unsafe { self.tail.as_ref() } {
            Some(t) if t.writable() => t.trailing_space(),
            _ => 0,
        }
    }

    /// Copies `bytes` to the end: into the room that is there, then into fresh mbufs. On failure
    /// nothing has changed.
    #[doc(alias = "m_append")]
    pub fn extend_from_slice(&mut self, pool: &MbufPool, bytes: &[u8]) -> Result<(), NoBufs> {
        let (first, mut rest) = bytes.split_at(self.room().min(bytes.len()));
        let mut more = Chain::new();
        while !rest.is_empty() {
            let m = if rest.len() <= MLEN {
                raw::alloc(pool.zones(), 0, 0)?
            } else {
                raw::alloc_cluster(pool.zones(), 0, ClusterSize::fitting(rest.len()))?
            };
            // SAFETY: `m` is a fresh mbuf, ours alone.
            more.append(unsafe { Self::from_list(m.as_ptr()) });
            let n = more.room().min(rest.len());
            more.fill_room(&rest[..n]);
            rest = &rest[n..];
        }
        if !first.is_empty() {
            self.fill_room(first);
        }
        self.append(more);
        Ok(())
    }

    /// Writes `bytes` behind the last byte; the room is there.
    fn fill_room(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.room());
        // SAFETY: `tail` is a live mbuf of ours with that much writable room behind its data.
        unsafe {
            let t = &mut *self.tail;
            ptr::copy_nonoverlapping(bytes.as_ptr(), t.data.add(t.len as usize), bytes.len());
            t.len += bytes.len() as u32;
        }
        self.len += bytes.len();
    }

    /// Where the room behind the last byte begins, and its size (0 for an empty list).
    pub(crate) fn tail_room(&mut self) -> (*mut u8, usize) {
        let room = self.room();
        // SAFETY: a non-null tail is a live mbuf of this chain.
        match unsafe { self.tail.as_ref() } {
            Some(t) => (t.data.wrapping_add(t.len as usize), room),
            None => (ptr::null_mut(), 0),
        }
    }

    /// Shows `n` bytes more of the room behind the last byte, which somebody has filled.
    pub(crate) fn grow(&mut self, n: usize) {
        assert!(n <= self.room());
        // SAFETY: the room is there, so `tail` is a live mbuf of ours.
        unsafe { (*self.tail).len += n as u32 };
        self.len += n;
    }

    /// Drops the first `n` bytes (all of them if there are fewer).
    #[doc(alias = "sbdrop")]
    pub fn trim_front(&mut self, n: usize) {
        let n = n.min(self.len);
        self.len -= n;
        self.forget_before(n);
        if self.len == 0 {
            // Dropping the old value frees the list.
            *self = Self::new();
            return;
        }
        let mut left = n;
        while left > 0 {
            // SAFETY: bytes remain, so `head` is a live mbuf of ours.
            let m = unsafe { &mut *self.head };
            if left < m.len as usize {
                m.data = m.data.wrapping_add(left);
                m.len -= left as u32;
                break;
            }
            left -= m.len as usize;
            self.pop_head();
        }
        self.check();
    }

    fn pop_head(&mut self) {
        let head = self.head;
        // SAFETY: `head` is a live mbuf of ours; nothing refers to it once it is off the list.
        unsafe {
            self.pinned -= (*head).pinned();
            self.head = (*head).next;
            raw::free_one(head);
        }
    }

    /// Keeps the hint true when `n` bytes leave the front.
    fn forget_before(&mut self, n: usize) {
        if self.hint.base < n {
            self.hint = NO_HINT;
        } else {
            self.hint.base -= n;
        }
    }

    /// Drops what comes after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            // SAFETY: the chain owns the list, which has more than `len` bytes.
            let (m, at) = unsafe { raw::seek(self.head, len) };
            // SAFETY: `m` is live; it shows `at` bytes of what stays, and what follows is freed.
            unsafe {
                raw::free_list((*m).next);
                (*m).next = ptr::null_mut();
                (*m).len = at as u32;
            }
            let head = core::mem::replace(&mut self.head, ptr::null_mut());
            // SAFETY: the list is ours; the old bookkeeping is replaced by a fresh count.
            let fresh = unsafe { Self::from_list(head) };
            core::mem::forget(core::mem::replace(self, fresh));
        }
        self.check();
    }

    /// Takes the first `n` bytes (all if there are fewer) as a chain of their own, moving mbufs and
    /// sharing at most one cluster. On failure nothing has changed.
    #[doc(alias = "m_split")]
    pub fn take_front(&mut self, n: usize) -> Result<Chain, NoBufs> {
        if n >= self.len {
            return Ok(core::mem::take(self));
        }
        if n == 0 {
            return Ok(Chain::new());
        }
        // SAFETY: the chain owns the list, which has more than `n` bytes; both parts are taken over
        // again below.
        let rest = unsafe { raw::split(self.head, n)? };
        let head = core::mem::replace(&mut self.head, ptr::null_mut());
        // SAFETY: `split` cut our list in two, each owned by us.
        let (front, rest) = unsafe { (Self::from_list(head), Self::from_list(rest)) };
        core::mem::forget(core::mem::replace(self, rest));
        Ok(front)
    }

    /// Shows bytes `off..off + len` in a new chain, sharing clusters. The range must be there.
    #[doc(alias = "m_copym")]
    pub fn share(&mut self, off: usize, len: usize) -> Result<Chain, NoBufs> {
        debug_assert!(off + len <= self.len);
        let len = len.min(self.len.saturating_sub(off));
        let mut out = Chain::new();
        if len == 0 {
            return Ok(out);
        }
        let (from, base) = if self.hint.at.is_null() || self.hint.base > off {
            (self.head, 0)
        } else {
            (self.hint.at, self.hint.base)
        };
        // SAFETY: `from` is an mbuf of ours that starts at `base <= off`, and bytes follow.
        let (mut m, mut at) = unsafe { raw::seek(from, off - base) };
        let mut left = len;
        loop {
            // SAFETY: bytes are left, so `m` is a live mbuf of ours.
            let r = unsafe { &*m };
            let n = left.min(r.len as usize - at);
            if n > 0 {
                // SAFETY: `at + n <= len` of a live mbuf; the new mbuf is ours to add.
                out.append(unsafe { Self::from_list(raw::share_one(m, at, n)?.as_ptr()) });
            }
            left -= n;
            if left == 0 {
                self.hint = Hint { at: m, base: off + len - n - at };
                // SAFETY: a live mbuf's zones outlive it.
                unsafe { &*r.zones }.stats.shares.inc();
                return Ok(out);
            }
            at = 0;
            m = r.next;
        }
    }

    /// Copies bytes from `off` out to `dst`; false (and nothing copied) if there are too few.
    #[doc(alias = "m_copydata")]
    pub fn copy_to(&self, off: usize, dst: &mut [u8]) -> bool {
        let fits = off.checked_add(dst.len()).is_some_and(|end| end <= self.len);
        if fits {
            // SAFETY: the list has that many bytes.
            unsafe { raw::copy_out(self.head, off, dst) };
        }
        fits
    }

    /// Writes `src` over the bytes from `off`, if nobody shares them.
    #[doc(alias = "m_copyback")]
    pub fn write_at(&mut self, off: usize, src: &[u8]) -> Result<(), WriteError> {
        if off.checked_add(src.len()).is_none_or(|end| end > self.len) {
            return Err(WriteError::OutOfRange);
        }
        // SAFETY: the list is ours and has that many bytes; writability is checked first.
        unsafe {
            if !raw::range_writable(self.head, off, src.len()) {
                return Err(WriteError::Shared);
            }
            raw::copy_in(self.head, off, src);
        }
        Ok(())
    }

    /// The bytes in a vector of their own.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.segments().for_each(|s| out.extend_from_slice(s));
        out
    }

    /// Puts a packet header before the chain: in place if its first mbuf has outside storage, in a
    /// fresh mbuf otherwise. The chain is lost (freed) if there is no mbuf to be had.
    pub fn into_packet(self, pool: &MbufPool) -> Result<Packet, NoBufs> {
        Packet::from_chain(pool, self)
    }

    /// Whether the bookkeeping is true of the list.
    pub fn is_valid(&self) -> bool {
        let (mut len, mut pinned, mut last, mut m) = (0, 0, ptr::null_mut(), self.head);
        let mut hint_seen = self.hint.at.is_null();
        while !m.is_null() {
            // SAFETY: `m` is a live mbuf of this chain.
            let r = unsafe { &*m };
            if !r.is_valid() || r.flags & PKTHDR != 0 {
                return false;
            }
            hint_seen |= ptr::eq(m, self.hint.at) && self.hint.base == len;
            len += r.len as usize;
            pinned += r.pinned();
            (last, m) = (m, r.next);
        }
        len == self.len && pinned == self.pinned && ptr::eq(last, self.tail) && hint_seen
    }

    /// Debug builds look at short chains at every edge; long ones would make tests quadratic.
    fn check(&self) {
        debug_assert!(self.len > 4096 || self.is_valid());
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // SAFETY: the chain owns the list, and is gone after this.
        unsafe { raw::free_list(self.head) }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("len", &self.len)
            .field("pinned", &self.pinned)
            .field("mbufs", &self.mbufs())
            .finish()
    }
}
