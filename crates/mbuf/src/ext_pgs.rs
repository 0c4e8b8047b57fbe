//! Page-list mbufs: bytes in up to five pages that need not be mapped, with room for a record's
//! header and trailer, all described inside of the mbuf.
//!
//! ```text
//!   mbuf, 256 B
//!   | next | data: 0 | len | EXT PGS | zones           |      5 + 2 * 4096 + ... bytes shown
//!   | ext: one counted reference ----------------------|--+
//!   | first_off | last_len | npages | type | seqno     |  |   where a packet header would be
//!   | pages: 7 8 9 10 11 | header, 24 | trailer, 64    |  |   where internal data would be
//!                                                         v
//!                                    +--------------------------+
//!   Pages, held by a program ------->| refs | source: a file,   |
//!                                    | a memfd, pages of ours   |
//!                                    +--------------------------+
//!                                       7       8       9      10      11
//!                                    |...#####|#######|#######|#######|##.....|
//!                                        ^first_off                    ^last_len
//! ```
//!
//! A TLS record of 16 KiB is one such mbuf, at any offset in a page; in clusters of 2 KiB it is nine. Sharing, cutting
//! and sending it touches only the 256 bytes of the mbuf, and none of its data. Building it takes one mbuf and one
//! counted reference.
//!
//! It has no slice of its bytes: it exists only in a [`Chain<Mixed>`](Chain) or a [`Packet<Mixed>`](crate::Packet),
//! which have [`pieces`](Chain::pieces) where others have [`segments`](Chain::segments), and code that reads the bytes
//! must [map](Chain::map) it first. It never begins a packet.
//!
//! This file makes them; `ext/source.rs` defines sources of pages, and `file.rs`, `memfd.rs` and `owned.rs` are three;
//! `pieces.rs` walks the pages, `record.rs` treats an mbuf of pages as a record, `map.rs` maps pages to bytes.
//!
//! Invariants: [`PgHdr::is_valid`]; the pages between the first and the last are used whole; the
//! mbuf's reference is to the source that knows the page numbers. Locks: none.
//!
//! Source: seed 001 (the list in the mbuf itself, instead of in a record of its own, which was
//! cold in the cache; `cargo lab extpgs` measures it).

use core::fmt;

use crate::chain::Chain;
use crate::mbuf::Mbuf;
use crate::pool::MbufPool;
use crate::raw::{PAGE_SIZE, PAGES_MAX, PgHdr, RECORD_TRAILER_MAX};
use crate::storage::Mixed;

mod error;
mod file;
mod map;
mod memfd;
mod owned;
mod pieces;
mod record;

pub use crate::ext::{PageSource, Pages};
pub use error::{ExtPgsError, RecordTooLong};
pub use file::FilePages;
pub use map::MapError;
pub use memfd::MemfdPages;
pub use owned::OwnedPages;
pub use pieces::{PageRun, Piece, Pieces};
pub use record::Record;

/// One page-list mbuf being built.
///
/// # Example
/// ```
/// use mbuf::{ExtPgs, Live, MbufPool, OwnedPages, PoolConfig};
///
/// let pool = MbufPool::new(PoolConfig::default())?;
/// // 5000 encrypted bytes, with the header and the trailer of a record.
/// let mut pages = OwnedPages::new(&pool, 2)?;
/// pages.write_at(0, &[7; 5000])?;
/// let mut record = ExtPgs::new(&pool, pages.into(), 0, 5000)?;
/// record.set_header(&[23, 3, 3, 0x13, 0x98])?;
/// record.reserve_trailer(16)?.fill(9);
/// let mut chain = record.into_chain();
/// assert_eq!((chain.mbufs(), chain.len()), (1, 5 + 5000 + 16));
///
/// // Now the bytes are needed: the pages are in memory, so none of them is copied.
/// let seen = chain.map(&pool)?;
/// assert_eq!(seen.to_vec()[..7], [23, 3, 3, 0x13, 0x98, 7, 7]);
/// drop((chain, seen));
/// assert_eq!(pool.live(), Live::NONE);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "m_epg")]
#[doc(alias = "mb_alloc_ext_pgs")]
pub struct ExtPgs(Mbuf);

impl ExtPgs {
    /// Shows `len` bytes from byte `off` on of the pages of a source that numbers them from 0 in order, as files do.
    /// The mbuf takes over the reference.
    ///
    /// # Errors
    /// [`ExtPgsError`]: the bytes are in more than [`PAGES_MAX`] pages, or there is no mbuf.
    #[inline]
    #[track_caller]
    pub fn new(pool: &MbufPool, pages: Pages, off: u64, len: usize) -> Result<Self, ExtPgsError> {
        let first = off / PAGE_SIZE as u64;
        let first_off = (off % PAGE_SIZE as u64) as usize;
        let mut list = [0; PAGES_MAX];
        let list = list.get_mut(..pages_for(first_off, len)?);
        let list = list.ok_or(ExtPgsError::TooManyPages)?;
        for (page, number) in list.iter_mut().zip(first..) {
            *page = number;
        }
        Self::of_list(pool, pages, list, first_off, len)
    }

    /// Shows `len` bytes of pages in any order, from byte `first_off` of the first of `list` on.
    ///
    /// # Errors
    /// [`ExtPgsError`]; `OutOfRange` if these pages do not have the bytes, or some of the pages have none of them.
    #[inline]
    #[track_caller]
    pub fn of_list(
        pool: &MbufPool,
        pages: Pages,
        list: &[u64],
        first_off: usize,
        len: usize,
    ) -> Result<Self, ExtPgsError> {
        if list.len() > PAGES_MAX {
            return Err(ExtPgsError::TooManyPages);
        }
        if first_off >= PAGE_SIZE || pages_for(first_off, len)? != list.len() {
            return Err(ExtPgsError::OutOfRange);
        }
        // One page counts from its first byte used, the last of several from its beginning.
        let last_len = match list.len() {
            0 | 1 => len,
            n => first_off + len - (n - 1) * PAGE_SIZE,
        };
        let pg = PgHdr {
            first_off: first_off as u16,
            last_len: last_len as u16,
            npages: list.len() as u8,
            hdr_len: 0,
            trail_len: 0,
            record_type: 0,
            seqno: 0,
            _spare: [0; 4],
        };
        let ext = pages.into_ext().of_pages(list.len());
        Ok(Self(Mbuf::with_pages(pool.zones(), ext, pg, list)?))
    }

    /// Replaces the bytes before the pages by `bytes`.
    ///
    /// # Errors
    /// [`RecordTooLong`] if they are more than [`RECORD_HEADER_MAX`](crate::RECORD_HEADER_MAX); the record is then
    /// unchanged.
    #[inline]
    pub fn set_header(&mut self, bytes: &[u8]) -> Result<(), RecordTooLong> {
        let place = self.0.pg_body_mut().hdr.get_mut(..bytes.len());
        place.ok_or(RecordTooLong)?.copy_from_slice(bytes);
        self.0.pg_mut().hdr_len = bytes.len() as u8;
        self.0.show_record();
        Ok(())
    }

    /// Replaces the bytes behind the pages by `bytes`.
    ///
    /// # Errors
    /// [`RecordTooLong`] if they are more than [`RECORD_TRAILER_MAX`]; the record is then unchanged.
    #[inline]
    pub fn set_trailer(&mut self, bytes: &[u8]) -> Result<(), RecordTooLong> {
        let place = self.0.pg_body_mut().trail.get_mut(..bytes.len());
        place.ok_or(RecordTooLong)?.copy_from_slice(bytes);
        self.0.pg_mut().trail_len = bytes.len() as u8;
        self.0.show_record();
        Ok(())
    }

    /// Replaces the bytes behind the pages by `len` zeros, and returns them to be
    /// filled: with a tag that is known only when the pages were encrypted.
    ///
    /// # Errors
    /// As of [`ExtPgs::set_trailer`].
    pub fn reserve_trailer(&mut self, len: usize) -> Result<&mut [u8], RecordTooLong> {
        if len > RECORD_TRAILER_MAX {
            return Err(RecordTooLong);
        }
        self.0.pg_mut().trail_len = len as u8;
        self.0.show_record();
        let place = &mut self.0.pg_body_mut().trail[..len];
        place.fill(0);
        Ok(place)
    }

    /// The bytes behind the pages, to change.
    pub fn trailer_mut(&mut self) -> &mut [u8] {
        let len = usize::from(self.0.pg().trail_len);
        &mut self.0.pg_body_mut().trail[..len]
    }

    /// Sets the type of the record, in the numbers of its protocol.
    #[inline]
    pub fn set_record_type(&mut self, record_type: u8) {
        self.0.pg_mut().record_type = record_type;
    }

    /// Sets the record's number.
    #[inline]
    pub fn set_seqno(&mut self, seqno: u64) {
        self.0.pg_mut().seqno = seqno;
    }

    /// The record as it is so far.
    pub fn record(&self) -> Record<'_> {
        match Record::of(&self.0) {
            Some(record) => record,
            None => unreachable!("made as a page list"),
        }
    }

    /// The mbuf as a chain.
    #[inline]
    pub fn into_chain(self) -> Chain<Mixed> {
        Chain::from_list(self.0)
    }
}

/// Pages that hold `len` bytes from `first_off` of the first on.
fn pages_for(first_off: usize, len: usize) -> Result<usize, ExtPgsError> {
    match len {
        0 => Ok(0),
        _ => match first_off.checked_add(len) {
            Some(end) => Ok(end.div_ceil(PAGE_SIZE)),
            None => Err(ExtPgsError::TooManyPages),
        },
    }
}

impl Chain<Mixed> {
    /// Shows `len` bytes from byte `off` on of the pages of a source that numbers them from 0 in
    /// order, in as few mbufs as can be: one for each 20 KiB. On failure the new mbufs are freed.
    ///
    /// # Errors
    /// [`ExtPgsError`]: the range is not one of the source's, or the pool has no mbuf left.
    #[doc(alias = "sendfile")]
    #[doc(alias = "vn_sendfile")]
    #[track_caller]
    pub fn from_pages(
        pool: &MbufPool,
        pages: &Pages,
        off: u64,
        len: usize,
    ) -> Result<Self, ExtPgsError> {
        if off.checked_add(len as u64).is_none() {
            return Err(ExtPgsError::OutOfRange);
        }
        let (mut chain, mut at, mut left) = (Self::default(), off, len);
        while left > 0 {
            let in_page = (at % PAGE_SIZE as u64) as usize;
            let n = left.min(PAGES_MAX * PAGE_SIZE - in_page);
            chain.append(ExtPgs::new(pool, pages.share()?, at, n)?.into_chain());
            (at, left) = (at + n as u64, left - n);
        }
        Ok(chain)
    }

    /// The records of the page lists in the chain, in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let list = self.first().into_iter().flat_map(Mbuf::iter);
        list.filter_map(Record::of)
    }
}

impl fmt::Debug for ExtPgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtPgs").field(&self.record()).finish()
    }
}
