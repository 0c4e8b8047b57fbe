//! A packet: a chain whose first mbuf has a packet header.
//!
//! The handle owns the whole chain; dropping it frees every mbuf, so an early return can't leak one. A packet and a
//! plain [`Chain`] are different types: neither can be freed, queued or split as if it were the other. This file has
//! its parts and views. Operations at its front are in `front.rs`, at its end in `back.rs`; `collapse.rs` and
//! `defrag.rs` reduce the number of mbufs; `copy.rs` copies, `unshare.rs` copies in place.
//!
//! Invariants ([`Packet::is_valid`]): the first mbuf has a packet header and no other has; the
//! header's length is the sum over the list, and below 4 GiB.

use core::fmt;
use core::marker::PhantomData;

use crate::chain::Chain;
use crate::error::{NoBufs, WriteError};
use crate::list;
use crate::mbuf::Mbuf;
use crate::pkthdr::PktHdr;
use crate::pool::{ClusterSize, MbufPool};
use crate::raw::{EXT, MHLEN, PGS, PKTHDR};
use crate::segments::Segments;
use crate::storage::{Mapped, Mixed, Storage};

mod back;
mod collapse;
mod copy;
mod defrag;
mod front;
mod space;
mod tags;
mod unshare;

/// An owned packet.
///
/// `S` is the kind of its mbufs, as for a [`Chain`]. The first is never pages: headers are written
/// and read there.
#[doc(alias = "m_freem")]
#[doc(alias = "m_extfree")]
#[doc(alias = "mbuf")]
pub struct Packet<S: Storage = Mapped>(Mbuf, PhantomData<S>);

impl Packet {
    /// An empty packet, its data at the end of the internal area:
    /// [`MHLEN`] bytes can be prepended.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_gethdr")]
    #[inline]
    #[track_caller]
    pub fn new(pool: &MbufPool) -> Result<Self, NoBufs> {
        Ok(Self::of(Mbuf::alloc(pool.zones(), PKTHDR, MHLEN)?))
    }

    /// As [`new`](Self::new), and may take from the pool's reserve ([`MBUFS_RESERVED`](crate::MBUFS_RESERVED)): for a
    /// packet that is sent at once and lets peers free memory (an acknowledgement, a reset).
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "M_USE_RESERVE")]
    #[inline]
    #[track_caller]
    pub fn with_reserve(pool: &MbufPool) -> Result<Self, NoBufs> {
        Ok(Self::of(Mbuf::with_reserve(pool)?))
    }

    /// An empty packet over a cluster, its data `lead` bytes into it.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_getcl")]
    #[inline(always)]
    #[track_caller]
    pub fn with_cluster(pool: &MbufPool, size: ClusterSize, lead: usize) -> Result<Self, NoBufs> {
        let lead = lead.min(size.bytes());
        Ok(Self::of(Mbuf::with_cluster(pool, PKTHDR, size, lead)?))
    }

    /// The room behind the last byte, in the last mbuf, to be filled; none where it is shared.
    #[doc(alias = "M_TRAILINGSPACE")]
    #[inline]
    pub fn room_mut(&mut self) -> &mut [u8] {
        match self.0.next() {
            None => self.0.room_mut(),
            Some(_) => list::last_mut(&mut self.0).room_mut(),
        }
    }

    /// Adds the next `n` bytes: those that the caller has put into [`Packet::room_mut`].
    ///
    /// # Panics
    /// If there is less room, or the packet would then have 4 GiB or more.
    #[inline]
    pub fn grow(&mut self, n: usize) {
        let len = self.grown(n).expect("a packet is shorter than 4 GiB");
        list::last_mut(&mut self.0).grow(n);
        self.0.set_pkt_len(len);
    }

    /// A copy of `bytes`, with `lead` bytes of room before them (16 KiB at most).
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_uiotombuf")]
    #[doc(alias = "m_devget")]
    #[track_caller]
    pub fn from_slice(pool: &MbufPool, bytes: &[u8], lead: usize) -> Result<Self, NoBufs> {
        let need = lead.saturating_add(bytes.len());
        let mut p = if need <= MHLEN {
            Self::of(Mbuf::alloc(pool.zones(), PKTHDR, lead)?)
        } else {
            Self::with_cluster(pool, ClusterSize::fitting(need), lead)?
        };
        p.append(pool, bytes)?;
        Ok(p)
    }

    /// The pieces in order.
    pub fn segments(&self) -> Segments<'_> {
        self.segments_from(0)
    }

    /// The pieces from offset `off` on.
    pub fn segments_from(&self, off: usize) -> Segments<'_> {
        Segments::new(Some(&self.0), off, self.len().saturating_sub(off))
    }

    /// Copies bytes from `off` to `dst`. Returns false, without a copy, if there are too few.
    #[doc(alias = "m_copydata")]
    pub fn copy_to(&self, off: usize, dst: &mut [u8]) -> bool {
        let fits = off
            .checked_add(dst.len())
            .is_some_and(|end| end <= self.len());
        if fits {
            list::copy_out(&self.0, off, dst);
        }
        fits
    }

    /// Writes `src` over the bytes from `off`, if no other mbuf shares them.
    ///
    /// # Errors
    /// [`WriteError`]: a part of the range is shared, or is not there. Then nothing is written.
    #[doc(alias = "m_copyback")]
    pub fn write_at(&mut self, off: usize, src: &[u8]) -> Result<(), WriteError> {
        if off
            .checked_add(src.len())
            .is_none_or(|end| end > self.len())
        {
            return Err(WriteError::OutOfRange);
        }
        list::write(&mut self.0, off, src)
    }

    /// A copy of the bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.segments().for_each(|s| out.extend_from_slice(s));
        out
    }
}

/// Operations that do not read the bytes behind the first mbuf.
impl<S: Storage> Packet<S> {
    /// Takes over a list, whose first mbuf has a packet header.
    pub(crate) fn of(first: Mbuf) -> Self {
        Self(first, PhantomData)
    }

    /// Gives the list away.
    pub(crate) fn into_list(self) -> Mbuf {
        self.0
    }

    /// Puts a packet header before `chain`: in its first mbuf where that has outside storage, else in a fresh one with
    /// [`MHLEN`] bytes of room. The chain is freed on failure; 4 GiB of bytes are a failure.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf left, or there are 4 GiB of bytes.
    #[track_caller]
    pub fn from_chain(pool: &MbufPool, chain: Chain<S>) -> Result<Self, NoBufs> {
        let is_outside = |m: &Mbuf| m.is(EXT) && !m.is(PGS);
        if !chain.first().is_some_and(is_outside) {
            return Self::before_chain(pool, chain);
        }
        Self::headed(chain)
    }

    /// Puts a packet header into the first mbuf of `chain`, which must be able to begin a packet.
    fn headed(chain: Chain<S>) -> Result<Self, NoBufs> {
        let len = u32::try_from(chain.len()).map_err(|_| NoBufs)?;
        let mut first = chain.into_list().ok_or(NoBufs)?;
        first.set_header();
        first.set_pkt_len(len);
        Ok(Self::of(first))
    }

    /// A fresh packet whose header area is free for prepending, followed by `chain`: TCP sends its data so. The chain
    /// is freed on failure; 4 GiB of bytes are a failure.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf left, or there are 4 GiB of bytes.
    #[track_caller]
    pub fn before_chain(pool: &MbufPool, chain: Chain<S>) -> Result<Self, NoBufs> {
        let mut p = Self::of(Packet::new(pool)?.into_list());
        p.grown(chain.len()).ok_or(NoBufs)?;
        p.append_chain(chain);
        Ok(p)
    }

    /// A packet of `chain` with `room` bytes of room before it for headers: in the chain's first mbuf, if that has the
    /// room and can begin a packet, else in a fresh one, as [`before_chain`](Self::before_chain). The chain is freed on
    /// failure; 4 GiB of bytes are a failure.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf left, or there are 4 GiB of bytes.
    #[track_caller]
    pub fn under_headers(pool: &MbufPool, chain: Chain<S>, room: usize) -> Result<Self, NoBufs> {
        let has_room = |m: &Mbuf| m.can_begin_packet() && m.front_room() >= room;
        if !chain.first().is_some_and(has_room) {
            return Self::before_chain(pool, chain);
        }
        Self::headed(chain)
    }

    /// The first mbuf, for queues.
    pub(crate) fn first(&self) -> &Mbuf {
        &self.0
    }

    /// The first mbuf, for queues.
    pub(crate) fn first_mut(&mut self) -> &mut Mbuf {
        &mut self.0
    }

    /// The packet's metadata.
    #[inline]
    pub fn header(&self) -> &PktHdr {
        self.0.hdr()
    }

    /// The packet's metadata, to change.
    #[inline]
    pub fn header_mut(&mut self) -> &mut PktHdr {
        self.0.hdr_mut()
    }

    /// Bytes in the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.pkt_len()
    }

    /// No bytes at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length after `n` bytes more, if a packet may have that length.
    #[inline]
    fn grown(&self, n: usize) -> Option<u32> {
        u32::try_from(self.len().checked_add(n)?).ok()
    }

    /// The bytes that are contiguous at the front, for example after [`Packet::pullup`].
    #[inline]
    pub fn front(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The bytes that are contiguous at the front, for writing; `None` if another mbuf shares them.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut [u8]> {
        self.0.bytes_mut()
    }

    /// Takes the packet header off, with its tags. No byte is copied.
    pub fn into_chain(self) -> Chain<S> {
        let mut first = self.0;
        first.clear_header();
        Chain::from_list(first)
    }

    /// Orders that the memory of these bytes is overwritten with zeros when its last reference is dropped: for keys
    /// and for plain text. Other references can read shared storage until then. Clusters are overwritten whole.
    ///
    /// Returns false if some of the bytes are [lent](Chain::from_owner): their owner must clear those.
    #[doc(alias = "m_zero")]
    #[must_use = "lent storage is not overwritten"]
    pub fn zeroize(&mut self) -> bool {
        list::zeroize(Some(&mut self.0))
    }

    /// Bytes of memory that the packet keeps from being reused.
    pub fn pinned(&self) -> usize {
        self.0.iter().map(Mbuf::pinned).sum()
    }

    /// Whether the header and the list agree.
    #[doc(alias = "m_sanity")]
    pub fn is_valid(&self) -> bool {
        let headers = self.0.iter().filter(|m| m.is(PKTHDR)).count();
        self.0.is(PKTHDR)
            && !self.0.is(PGS)
            && headers == 1
            && self.0.iter().all(Mbuf::is_valid)
            && self.0.iter().map(Mbuf::len).sum::<usize>() == self.len()
    }

    fn check(&self) {
        kern::invariant!(self.is_valid());
    }
}

/// A packet of mapped bytes is also a packet that may hold unmapped ones.
impl From<Packet> for Packet<Mixed> {
    fn from(packet: Packet) -> Self {
        Self::of(packet.0)
    }
}

impl<S: Storage> fmt::Debug for Packet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("len", &self.len())
            .field("header", self.header())
            .finish()
    }
}
