//! The buffer of a byte stream.
//!
//! ```text
//!      mapped           tail (only while something is not mapped or not ready)
//!   |----------|  |------------|-----------|-----------|----------|-----------|
//!      chain        page lists    records     unread      bytes     page lists
//!   |<-------------- ready -------------->|
//!   |<-------------------------------- claimed ------------------------------>|
//! ```
//!
//! | bytes | what may be done with them |
//! |---|---|
//! | mapped | shared with a segment, copied, read |
//! | ready, not mapped | [`StreamBuf::map_ready`] maps pages, and seals records |
//! | claimed, not ready | nothing: their place is reserved, [`StreamBuf::fill`] brings their contents |
//!
//! A claim has its place in the stream and uses room as soon as it is made: data that is appended later follows it, and
//! so does a FIN. Claims may be filled in any order.
//!
//! Invariants (`StreamBuf::is_valid`): there is no tail, or its first part is not mapped bytes. `ready <= claimed`.
//! Locks: the owner's. Source: M_NOTREADY and M_EXTPG of FreeBSD.

use mbuf::{Chain, MbufPool, Mixed, NoBufs, Packet};

use super::{PlainRecord, SealError, Sealer, charge};
use tail::Tail;

mod tail;
#[cfg(all(test, not(shuttle)))]
mod tests;

/// Bytes in order, with their limit.
#[doc(alias = "sockbuf")]
#[derive(Debug)]
pub(crate) struct StreamBuf {
    mapped: Chain,
    /// None while all bytes are mapped, so an operation on such a stream pays only for one test.
    tail: Option<Box<Tail>>,
    hiwat: u32,
    /// The number of the last claim. It may wrap, because an identifier is valid only while its claim is in the buffer.
    last_claim: u32,
}

/// The largest limit of a buffer, and a bound on one addition. A full buffer with one more addition thus has fewer than
/// the 2^31 bytes that sequence numbers can order.
pub(crate) const BYTES_MAX: usize = 1 << 30;

/// Names a claim, which can be filled once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what is behind the claim is not ready until the claim is filled"]
pub(crate) struct ClaimId(u32);

/// Why a claim is not filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FillError {
    /// The buffer was emptied since.
    Gone,
    /// The data and the claim differ in length.
    WrongLength,
}

/// The content of a buffer, to be dropped when no lock is held.
#[derive(Debug, Default)]
#[must_use = "it is to be dropped without a lock"]
pub(crate) struct Flushed {
    _mapped: Chain,
    _tail: Option<Box<Tail>>,
}

impl StreamBuf {
    /// An empty buffer of `hiwat` bytes.
    pub(crate) fn new(hiwat: usize) -> Self {
        let mut new = Self {
            mapped: Chain::new(),
            tail: None,
            hiwat: 0,
            last_claim: 0,
        };
        new.set_hiwat(hiwat);
        new
    }

    /// Bytes that it may hold.
    #[doc(alias = "sb_hiwat")]
    #[inline]
    pub(crate) fn hiwat(&self) -> usize {
        self.hiwat as usize
    }

    /// Sets its limit, at most [`BYTES_MAX`]. Its content stays.
    #[doc(alias = "sbreserve")]
    pub(crate) fn set_hiwat(&mut self, hiwat: usize) {
        self.hiwat = hiwat.min(BYTES_MAX) as u32;
    }

    /// Bytes at the front that may be sent or read.
    #[doc(alias = "sb_acc")]
    #[inline]
    pub(crate) fn ready(&self) -> usize {
        self.mapped.len() + self.tail.as_ref().map_or(0, |tail| tail.ready())
    }

    /// All bytes, claims included.
    #[doc(alias = "sb_ccc")]
    #[inline]
    pub(crate) fn claimed(&self) -> usize {
        self.mapped.len() + self.tail.as_ref().map_or(0, |tail| tail.claimed())
    }

    /// Whether there is no byte and no claim.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.mapped.is_empty() && self.tail.is_none()
    }

    /// Bytes of memory that it keeps from being reused.
    #[inline]
    pub(crate) fn pinned(&self) -> usize {
        self.mapped.pinned() + self.tail.as_ref().map_or(0, |tail| tail.pinned())
    }

    /// Bytes of room: see [`charge`].
    #[doc(alias = "sbspace")]
    #[inline]
    pub(crate) fn space(&self) -> usize {
        let used = charge(self.claimed(), self.pinned());
        self.hiwat().saturating_sub(used)
    }

    /// Appends data. Data that pins much more memory than it has bytes is copied.
    #[doc(alias = "sbappendstream")]
    #[inline]
    pub(crate) fn append(&mut self, pool: &MbufPool, data: Chain) {
        match &mut self.tail {
            None => self.mapped.append_compact(pool, data),
            Some(tail) => tail.append(pool, data),
        }
    }

    /// Appends a copy of `bytes`.
    ///
    /// # Errors
    /// No buffers; then nothing has changed.
    pub(crate) fn extend_from_slice(
        &mut self,
        pool: &MbufPool,
        bytes: &[u8],
    ) -> Result<(), NoBufs> {
        if self.tail.is_none() {
            return self.mapped.extend_from_slice(pool, bytes);
        }
        let copy = Chain::from_slice(pool, bytes)?;
        self.append(pool, copy);
        Ok(())
    }

    /// Copies mapped bytes from `off` on to `to`; false if there are too few.
    #[inline]
    pub(crate) fn copy_to(&self, off: usize, to: &mut [u8]) -> bool {
        self.mapped.copy_to(off, to)
    }

    /// References to `len` mapped bytes from `off` on.
    ///
    /// # Errors
    /// No buffers.
    #[doc(alias = "sbsndptr")]
    #[inline(always)]
    pub(crate) fn share(&mut self, off: usize, len: usize) -> Result<Chain, NoBufs> {
        self.mapped.share(off, len)
    }

    /// A packet with a copy of these bytes, if they fit into its first mbuf after `room` bytes for headers.
    ///
    /// # Errors
    /// No buffers.
    #[inline(always)]
    pub(crate) fn small_packet(
        &mut self,
        pool: &MbufPool,
        off: usize,
        len: usize,
        room: usize,
    ) -> Result<Option<Packet>, NoBufs> {
        Packet::of_inside(pool, &mut self.mapped, off, len, room)
    }

    /// Drops the first `n` bytes, all of which are ready.
    #[doc(alias = "sbdrop")]
    #[inline]
    pub(crate) fn trim_front(&mut self, n: usize) {
        let here = self.mapped.len().min(n);
        self.mapped.trim_front(here);
        if let Some(tail) = self.tail.as_mut().filter(|_| here < n) {
            tail.trim_front(n - here);
            self.settle();
        }
    }

    /// Takes the first `n` mapped bytes, or all of them if there are fewer.
    ///
    /// # Errors
    /// No buffers; then nothing has changed.
    #[inline]
    pub(crate) fn take_front(&mut self, n: usize) -> Result<Chain, NoBufs> {
        self.mapped.take_front(n)
    }

    /// Empties it, also of claims that were not filled.
    #[doc(alias = "sbflush")]
    pub(crate) fn flush(&mut self) -> Flushed {
        Flushed {
            _mapped: std::mem::take(&mut self.mapped),
            _tail: self.tail.take(),
        }
    }

    /// Moves mapped, ready bytes from the front of the tail to the mapped part.
    fn settle(&mut self) {
        let Some(tail) = &mut self.tail else { return };
        while let Some(bytes) = tail.pop_bytes() {
            self.mapped.append(bytes);
        }
        if tail.is_empty() {
            self.tail = None;
        }
    }
}

// Methods for pages, records, and jobs that fill a buffer later.
impl StreamBuf {
    /// Appends data that may lie in pages, and is ready. [`StreamBuf::map_ready`] maps it.
    pub(crate) fn append_mixed(&mut self, pool: &MbufPool, data: Chain<Mixed>) {
        match data.try_into_mapped() {
            Ok(data) => self.append(pool, data),
            Err(data) => self.tail.get_or_insert_default().append_pages(data),
        }
    }

    /// Appends a record, which is ready; [`StreamBuf::map_ready`] seals it.
    pub(crate) fn append_record(&mut self, record: PlainRecord) {
        self.tail.get_or_insert_default().append_record(record);
    }

    /// Whether a byte before `upto` is ready and not mapped.
    #[inline]
    pub(crate) fn is_to_map(&self, upto: usize) -> bool {
        self.tail.is_some() && self.mapped.len() < upto
    }

    /// Bytes at the front that are mapped.
    pub(crate) fn mapped(&self) -> usize {
        self.mapped.len()
    }

    /// Reserves the place of `len` bytes whose contents come later.
    pub(crate) fn claim(&mut self, len: u32) -> ClaimId {
        self.last_claim = self.last_claim.wrapping_add(1);
        let tail = self.tail.get_or_insert_default();
        tail.append_unread(self.last_claim, len as usize);
        ClaimId(self.last_claim)
    }

    /// Puts contents in the place of a claim; claims may be filled in any order. Data may become ready by it.
    ///
    /// # Errors
    /// See [`FillError`]; the data is dropped, and a claim of another length stays unfilled.
    pub(crate) fn fill(&mut self, id: &ClaimId, data: Chain<Mixed>) -> Result<(), FillError> {
        let tail = self.tail.as_mut().ok_or(FillError::Gone)?;
        tail.fill(id.0, data)?;
        self.settle();
        Ok(())
    }

    /// Maps the ready part of the first `upto` bytes, by whole mbufs and records, as far as that succeeds. It reads
    /// pages that are not in memory, and seals records with `sealer`.
    ///
    /// # Errors
    /// See [`SealError`]. Pages that were mapped before the error stay mapped.
    pub(crate) fn map_ready(
        &mut self,
        pool: &MbufPool,
        upto: usize,
        mut sealer: Option<&mut dyn Sealer>,
    ) -> Result<(), SealError> {
        while self.mapped.len() < upto
            && let Some(tail) = &mut self.tail
        {
            let sealer = sealer
                .as_mut()
                .map(|sealer| &mut **sealer as &mut dyn Sealer);
            let Some(mapped) = tail.map_first(pool, sealer)? else {
                break;
            };
            self.mapped.append(mapped);
            self.settle();
        }
        Ok(())
    }

    /// Whether the counts agree with the content.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn is_valid(&self) -> bool {
        self.mapped.is_valid() && self.tail.as_ref().is_none_or(|tail| tail.is_valid())
    }
}
