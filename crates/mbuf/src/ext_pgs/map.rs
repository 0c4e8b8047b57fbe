//! Bytes of a list that may hold pages, for code that reads them: bytes in memory are shown, others are read.
//!
//! ```text
//!   Mixed    | bytes |-->| header | pages of a memfd | trailer |-->| header | pages of a file |
//!                |           |            |               |             |            |
//!              shared      copied       shown           copied        copied       read
//!                v           v            v               v             v            v
//!   Mapped   | bytes |-->|header|-->| ext ------> |-->| trailer |-->|header|-->| cluster |
//! ```
//!
//! Invariant: a mapped list is a list of its own; the original stays as it was.

use std::io;

use super::pieces::{PageRun, Piece, Pieces, piece_at};
use crate::chain::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::packet::Packet;
use crate::pool::MbufPool;
use crate::raw::{EXT, PGS};
use crate::storage::Mixed;

/// The error of mapping pages.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// No buffer to show them in, or to read them into.
    #[error("{}", NoBufs)]
    NoBufs,
    /// The pages could not be read: a file that was truncated meanwhile is `UnexpectedEof`.
    #[error("reading pages: {0}")]
    Read(#[source] io::Error),
}

impl From<NoBufs> for MapError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

impl Chain<Mixed> {
    /// The pieces in order.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces::new(self.first(), 0, self.len())
    }

    /// The same bytes in a chain of readable mbufs: bytes in memory are shared, the rest is read
    /// into clusters. On failure there is no new chain; this one is unchanged in any case.
    ///
    /// # Errors
    /// [`MapError`].
    #[doc(alias = "mb_unmapped_to_ext")]
    #[track_caller]
    pub fn map(&mut self, pool: &MbufPool) -> Result<Chain, MapError> {
        map_list(self.first_mut(), pool)
    }

    /// The chain as a type that gives slices, if it holds no pages; else the unchanged chain.
    ///
    /// # Errors
    /// The same as it was: it holds pages.
    pub fn try_into_mapped(self) -> Result<Chain, Self> {
        let unmapped = has_pages(self.first());
        if unmapped { Err(self) } else { Ok(self.cast()) }
    }

    /// Copies bytes from `off` out to `dst`, reading pages that are not in memory.
    ///
    /// # Errors
    /// `InvalidInput` if there are too few bytes; those of the source. The content of `dst` is then
    /// undefined.
    #[doc(alias = "m_unmapped_copydata")]
    pub fn copy_to(&self, off: usize, dst: &mut [u8]) -> io::Result<()> {
        copy_out(self.first(), self.len(), off, dst)
    }
}

impl Packet<Mixed> {
    /// The pieces in order.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces::new(Some(self.first()), 0, self.len())
    }

    /// The same bytes, with the same header and tags, in a packet of readable mbufs: see [`Chain::map`].
    ///
    /// # Errors
    /// [`MapError`].
    #[track_caller]
    pub fn map(&mut self, pool: &MbufPool) -> Result<Packet, MapError> {
        let mut packet = if self.first().is(EXT) {
            Packet::from_chain(pool, map_list(Some(self.first_mut()), pool)?)?
        } else {
            // Bytes that were contiguous at the front stay contiguous, with room before them.
            let mut packet = Packet::new(pool)?;
            let front = self.front();
            packet.prepend(front.len())?.copy_from_slice(front);
            packet.append_chain(map_list(self.first_mut().next_mut(), pool)?);
            packet
        };
        packet.copy_header(self)?;
        Ok(packet)
    }

    /// The packet as a type that gives slices, if it holds no pages; else the unchanged packet.
    ///
    /// # Errors
    /// The same as it was: it holds pages.
    pub fn try_into_mapped(self) -> Result<Packet, Self> {
        let unmapped = has_pages(Some(self.first()));
        if unmapped {
            Err(self)
        } else {
            Ok(Packet::of(self.into_list()))
        }
    }

    /// Copies bytes from `off` out to `dst`, reading pages that are not in memory.
    ///
    /// # Errors
    /// As of [`Chain::copy_to`].
    #[doc(alias = "m_unmapped_copydata")]
    pub fn copy_to(&self, off: usize, dst: &mut [u8]) -> io::Result<()> {
        copy_out(Some(self.first()), self.len(), off, dst)
    }
}

/// Whether an mbuf of the list is a page list.
fn has_pages(list: Option<&Mbuf>) -> bool {
    list.is_some_and(|first| first.iter().any(|m| m.is(PGS)))
}

/// Copies `dst.len()` bytes from `off` on of a list of `len`.
fn copy_out(list: Option<&Mbuf>, len: usize, off: usize, mut dst: &mut [u8]) -> io::Result<()> {
    if off.checked_add(dst.len()).is_none_or(|end| end > len) {
        let text = "the range reaches past the end of the data";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for piece in Pieces::new(list, off, dst.len()) {
        let (here, rest) = dst.split_at_mut(piece.len());
        piece.copy_to(here)?;
        dst = rest;
    }
    Ok(())
}

#[track_caller]
fn map_list(list: Option<&mut Mbuf>, pool: &MbufPool) -> Result<Chain, MapError> {
    let (mut next, mut out) = (list, Chain::new());
    while let Some(m) = next {
        match m.len() {
            0 => {}
            _ if m.is(PGS) => map_record(m, pool, &mut out)?,
            len => out.append(Chain::from_list(m.share(0, len)?)),
        }
        next = m.next_mut();
    }
    Ok(out)
}

/// Appends the bytes that a page list shows.
fn map_record(m: &Mbuf, pool: &MbufPool, out: &mut Chain) -> Result<(), MapError> {
    let mut at = 0;
    while at < m.len() {
        let piece = piece_at(m, at, usize::MAX);
        match piece {
            Piece::Bytes(bytes) => {
                let mut copy = Chain::from_slice(pool, bytes)?;
                // A copy of a secret is a secret too.
                if m.is_secret() && !copy.zeroize() {
                    unreachable!("the copy is ours");
                }
                pool.zones().stats.bytes_copied.add(bytes.len() as u64);
                out.append(copy);
            }
            Piece::Pages(run) => map_run(m, run, pool, out)?,
        }
        at += piece.len();
    }
    Ok(())
}

/// Appends the bytes of a run of pages: shown if the source has them in memory, else read.
fn map_run(m: &Mbuf, run: PageRun<'_>, pool: &MbufPool, out: &mut Chain) -> Result<(), MapError> {
    let mut rest = run;
    while rest.len > 0 {
        let n = match rest.ext.show(rest.page, rest.off, rest.len)? {
            Some((ext, n)) => {
                let mut shown = Mbuf::with_lent(pool.zones(), ext)?;
                shown.advance(rest.off);
                shown.cut(n);
                out.append(Chain::from_list(shown));
                let pages = PageRun { len: n, ..rest }.pages();
                pool.zones().stats.pages_mapped.add(pages as u64);
                n
            }
            None => {
                let n = rest.unshown_len();
                let part = PageRun { len: n, ..rest };
                out.append(read_run(m, part, pool)?);
                n
            }
        };
        rest = rest.behind(n);
    }
    Ok(())
}

/// The bytes of a run, read into storage of the pool.
fn read_run(m: &Mbuf, run: PageRun<'_>, pool: &MbufPool) -> Result<Chain, MapError> {
    let (mut out, mut rest) = (Chain::new(), run);
    while rest.len > 0 {
        let mut into = Mbuf::with_room(pool, rest.len)?;
        let n = into.room().min(rest.len);
        if m.is_secret() && !into.zeroize() {
            unreachable!("the buffer of the read is ours");
        }
        let room = &mut into.room_mut()[..n];
        let read = rest.source().read(rest.page, rest.off, room);
        read.map_err(MapError::Read)?;
        into.grow(n);
        out.append(Chain::from_list(into));
        rest = rest.behind(n);
    }
    pool.zones().stats.pages_read.add(run.pages() as u64);
    Ok(out)
}
