//! A chain: bytes without a packet header, as socket buffers hold them.
//!
//! A chain stores its length ([`Chain::len`]) and the amount of memory that it pins ([`Chain::pinned`]). Appending and
//! taking from the front are O(1) for each mbuf. [`Chain::share`] stores where it ended, so that TCP, which sends one
//! range after the other, never walks the whole buffer.
//!
//! This file has the type and its views. Joining and filling are in `append.rs`, dropping and cutting in `cut.rs`, the
//! copy that unpins storage in `condense.rs`, copies of shared storage in `unshare.rs`; `read.rs` and `bytes.rs`
//! implement the traits of other crates for bytes.
//!
//! Invariants ([`Chain::is_valid`]): `len` and `pinned` are the sums over the list; `tail` is the
//! last mbuf; the hint is an mbuf of the list and the offset of its first byte; no mbuf has a
//! packet header.

use core::fmt;
use core::marker::PhantomData;

use crate::error::{NoBufs, WriteError};
use crate::ext::Ext;
use crate::list::{self, SharedRange};
use crate::mbuf::{Mbuf, MbufPtr};
use crate::packet::Packet;
use crate::pool::MbufPool;
use crate::raw::PKTHDR;
use crate::segments::Segments;
use crate::storage::{Mapped, Mixed, Storage};

mod append;
mod bytes;
mod condense;
mod cut;
mod read;
mod unshare;

/// An owned list of mbufs; dropping it frees them.
///
/// `S` restricts the mbufs: [`Mapped`] by default, so that every byte can be read;
/// [`Mixed`](crate::Mixed) where some are pages that need not be mapped.
#[doc(alias = "m_freem")]
#[doc(alias = "mchain")]
pub struct Chain<S: Storage = Mapped> {
    head: Option<Mbuf>,
    tail: Option<MbufPtr>,
    len: usize,
    pinned: usize,
    /// Where the last share ended.
    hint: Option<Hint>,
    storage: PhantomData<S>,
}

/// An mbuf of the chain and the offset of its first byte.
#[derive(Clone, Copy)]
struct Hint {
    at: MbufPtr,
    base: usize,
}

impl Chain {
    /// An empty chain.
    pub const fn new() -> Self {
        Self {
            head: None,
            tail: None,
            len: 0,
            pinned: 0,
            hint: None,
            storage: PhantomData,
        }
    }

    /// A copy of `bytes` in fresh mbufs.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_devget")]
    #[track_caller]
    pub fn from_slice(pool: &MbufPool, bytes: &[u8]) -> Result<Self, NoBufs> {
        let mut chain = Self::new();
        chain.extend_from_slice(pool, bytes)?;
        Ok(chain)
    }

    /// Shows the bytes that `owner` holds, without a copy; they are never written. `owner` is dropped with the last
    /// reference, or on failure; 4 GiB of bytes are a failure.
    ///
    /// The last reference may be dropped in any thread, with locks of a stack held: when the peer acknowledges the
    /// bytes, the connection is locked. So the drop of `owner` must not wait, and must not call the stack; it may wake
    /// a task that does.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf left, or there are 4 GiB of bytes.
    #[doc(alias = "m_extadd")]
    #[track_caller]
    pub fn from_owner<T>(pool: &MbufPool, owner: T) -> Result<Self, NoBufs>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        let lent = Ext::lent(owner)?;
        Ok(Self::from_list(Mbuf::with_lent(pool.zones(), lent)?))
    }

    /// The pieces in order.
    #[doc(alias = "m_apply")]
    pub fn segments(&self) -> Segments<'_> {
        Segments::new(self.head.as_ref(), 0, self.len)
    }

    /// Copies bytes from `off` to `dst`. Returns false, without a copy, if there are too few.
    #[doc(alias = "m_copydata")]
    pub fn copy_to(&self, off: usize, dst: &mut [u8]) -> bool {
        let fits = off
            .checked_add(dst.len())
            .is_some_and(|end| end <= self.len);
        if let Some(head) = self.head.as_ref().filter(|_| fits) {
            list::copy_out(head, off, dst);
        }
        fits
    }

    /// Writes `src` over the bytes from `off`, if no other mbuf shares them.
    ///
    /// # Errors
    /// [`WriteError`]: a part of the range is shared, or is not there. Then nothing is written.
    #[doc(alias = "m_copyback")]
    pub fn write_at(&mut self, off: usize, src: &[u8]) -> Result<(), WriteError> {
        if off.checked_add(src.len()).is_none_or(|end| end > self.len) {
            return Err(WriteError::OutOfRange);
        }
        self.head
            .as_mut()
            .map_or(Ok(()), |head| list::write(head, off, src))
    }

    /// A copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.segments().for_each(|s| out.extend_from_slice(s));
        out
    }
}

/// Operations that do not read the bytes.
impl<S: Storage> Chain<S> {
    /// Makes a chain of a list that has no packet header, and no mbuf that `S` excludes.
    #[inline]
    pub(crate) fn from_list(head: Mbuf) -> Self {
        let mut chain = Self::default();
        for m in head.iter() {
            debug_assert!(!m.is(PKTHDR));
            chain.len += m.len();
            chain.pinned += m.pinned();
            chain.tail = Some(MbufPtr::of(m));
        }
        chain.head = Some(head);
        chain
    }

    /// Makes a chain of one mbuf, as [`Chain::from_list`] does.
    #[inline]
    fn of_one(m: Mbuf) -> Self {
        Self {
            tail: Some(MbufPtr::of(&m)),
            len: m.len(),
            pinned: m.pinned(),
            head: Some(m),
            hint: None,
            storage: PhantomData,
        }
    }

    /// The first mbuf.
    pub(crate) fn first(&self) -> Option<&Mbuf> {
        self.head.as_ref()
    }

    /// The first mbuf, to change bytes, not lengths.
    pub(crate) fn first_mut(&mut self) -> Option<&mut Mbuf> {
        self.head.as_mut()
    }

    /// Gives the list away.
    pub(crate) fn into_list(self) -> Option<Mbuf> {
        self.head
    }

    /// The same list with another type of content. The caller must ensure that the content is of that type.
    pub(crate) fn cast<T: Storage>(self) -> Chain<T> {
        Chain {
            head: self.head,
            tail: self.tail,
            len: self.len,
            pinned: self.pinned,
            hint: self.hint,
            storage: PhantomData,
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
        self.iter().count()
    }

    fn iter(&self) -> impl Iterator<Item = &Mbuf> {
        self.head.iter().flat_map(Mbuf::iter)
    }

    /// The last mbuf.
    fn tail(&self) -> Option<&Mbuf> {
        // SAFETY: the tail is in our list, which is not changed while `self` is borrowed.
        self.tail.as_ref().map(|t| unsafe { t.get() })
    }

    /// The last mbuf.
    fn tail_mut(&mut self) -> Option<&mut Mbuf> {
        // SAFETY: as above, and the borrow of `self` covers the other way to it, through `head`.
        self.tail.as_mut().map(|t| unsafe { t.get_mut() })
    }

    /// Shows bytes `off..off + len` in a new chain, sharing clusters. The range must be there, which debug builds
    /// assert.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    // The usual range lies in one mbuf, and each sent segment needs it: inlined, so that the
    // resulting chain is not written to memory and read back.
    #[doc(alias = "m_extref")]
    #[doc(alias = "MCLADDREFERENCE")]
    #[doc(alias = "m_copym")]
    #[inline(always)]
    #[track_caller]
    pub fn share(&mut self, off: usize, len: usize) -> Result<Self, NoBufs> {
        debug_assert!(off.checked_add(len).is_some_and(|end| end <= self.len));
        if let Some((m, at)) = self.near(off)
            && len <= m.len() - at
            && len > 0
        {
            return Ok(Self::of_one(m.share(at, len)?));
        }
        // Returns a bare list for the same reason: a call that is not inlined returns a chain in memory.
        let list = self.share_walking(off, len)?;
        Ok(list.map_or_else(Self::default, Self::from_list))
    }

    /// Shows all of the bytes in a new chain, sharing clusters.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "M_COPYALL")]
    #[inline(always)]
    #[track_caller]
    pub fn share_all(&mut self) -> Result<Self, NoBufs> {
        if let Some(m) = &mut self.head
            && m.next().is_none()
            && m.len() > 0
        {
            return Ok(Self::of_one(m.share(0, m.len())?));
        }
        let list = self.share_walking(0, self.len)?;
        Ok(list.map_or_else(Self::default, Self::from_list))
    }

    /// The mbuf that holds byte `off`, if that is the one where the last share ended, or the first.
    #[inline(always)]
    pub(crate) fn near(&mut self, off: usize) -> Option<(&mut Mbuf, usize)> {
        let (m, base) = match &mut self.hint {
            // SAFETY: the hint is in our list, which is reached only through `self`, here borrowed.
            Some(h) => (unsafe { h.at.get_mut() }, h.base),
            None => (self.head.as_mut()?, 0),
        };
        let at = off.wrapping_sub(base);
        (at < m.len()).then_some((m, at))
    }

    /// As `near`, for any range: searches from the end of the last share, or from the front.
    #[inline(never)]
    #[track_caller]
    fn share_walking(&mut self, off: usize, len: usize) -> Result<Option<Mbuf>, NoBufs> {
        let len = len.min(self.len.saturating_sub(off));
        let Some(head) = self.head.as_mut().filter(|_| len > 0) else {
            return Ok(None);
        };
        let (from, base) = match self.hint.as_mut().filter(|h| h.base <= off) {
            // SAFETY: as in `near`.
            Some(h) => (unsafe { h.at.get_mut() }, h.base),
            None => (head, 0),
        };
        let (m, at) = list::seek_mut(from, off - base);
        let SharedRange { head, last, end } = list::share(m, at, len)?;
        let base = off + len - end;
        self.hint = Some(Hint { at: last, base });
        Ok(head)
    }

    /// Orders that the memory of these bytes is overwritten with zeros when its last reference is dropped: for keys
    /// and for plain text. Other references can read shared storage until then. Clusters are overwritten whole.
    ///
    /// Returns false if some of the bytes are [lent](Chain::from_owner): their owner must clear those.
    #[doc(alias = "m_zero")]
    #[must_use = "lent storage is not overwritten"]
    pub fn zeroize(&mut self) -> bool {
        list::zeroize(self.head.as_mut())
    }

    /// Puts a packet header before the chain: in place if its first mbuf has outside storage, in a
    /// fresh mbuf otherwise. The chain is freed if the pool has no mbuf.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[track_caller]
    pub fn into_packet(self, pool: &MbufPool) -> Result<Packet<S>, NoBufs> {
        Packet::from_chain(pool, self)
    }

    /// Whether the chain's figures agree with the list.
    #[doc(alias = "m_sanity")]
    pub fn is_valid(&self) -> bool {
        let (mut len, mut pinned, mut last) = (0, 0, None);
        let mut hint_seen = self.hint.is_none();
        for m in self.iter() {
            if !m.is_valid() || m.is(PKTHDR) {
                return false;
            }
            last = Some(MbufPtr::of(m));
            hint_seen |= self
                .hint
                .is_some_and(|h| Some(h.at) == last && h.base == len);
            len += m.len();
            pinned += m.pinned();
        }
        len == self.len && pinned == self.pinned && last == self.tail && hint_seen
    }

    /// Debug builds check short chains at every operation; with checks of long ones, tests would take quadratic time.
    fn check(&self) {
        kern::invariant!(self.pinned > 128 << 10 || self.is_valid());
    }
}

impl<S: Storage> Default for Chain<S> {
    fn default() -> Self {
        Chain::new().cast()
    }
}

/// A chain of mapped bytes is also a chain that may hold unmapped ones.
impl From<Chain> for Chain<Mixed> {
    fn from(chain: Chain) -> Self {
        chain.cast()
    }
}

impl<S: Storage> fmt::Debug for Chain<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("len", &self.len)
            .field("pinned", &self.pinned)
            .field("mbufs", &self.mbufs())
            .finish()
    }
}
