//! Walking a list that may hold pages: its pieces as bytes, or as the pages that have them.
//!
//! ```text
//!   mbuf        mbuf, 3 pages: 7 8 12                        mbuf
//!   | bytes |   | header | ..7777|88888888|12121.. | trailer |   | bytes |
//!     Bytes       Bytes    Pages(7, 8)      Pages(12)  Bytes       Bytes
//! ```

use std::io;

use crate::ext::Ext;
use crate::ext::PageSource;
use crate::mbuf::Mbuf;
use crate::raw::{MSIZE, PAGE_SIZE, PGS};

/// A piece of a list.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// Bytes in memory: of a mapped mbuf, or of a record's header or trailer.
    Bytes(&'a [u8]),
    /// Bytes in pages, which the caller must map or read.
    Pages(PageRun<'a>),
}

impl Piece<'_> {
    /// Bytes in the piece; never 0.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Pages(run) => run.len,
        }
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the piece out.
    ///
    /// # Errors
    /// Those of the source.
    ///
    /// # Panics
    /// If `dst` is of another length.
    pub fn copy_to(&self, dst: &mut [u8]) -> io::Result<()> {
        assert!(dst.len() == self.len());
        match self {
            Self::Bytes(bytes) => {
                dst.copy_from_slice(bytes);
                Ok(())
            }
            Self::Pages(run) => run.source().read(run.page, run.off, dst),
        }
    }
}

/// Bytes in pages that follow each other by number.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PageRun<'a> {
    pub(super) ext: &'a Ext,
    /// The first page.
    pub page: u64,
    /// Where in it the bytes begin.
    pub off: usize,
    /// Bytes, which may go on into the pages that follow.
    pub len: usize,
}

impl<'a> PageRun<'a> {
    /// The source of the pages.
    pub fn source(&self) -> &'a dyn PageSource {
        match self.ext.source() {
            Some(source) => source,
            None => unreachable!("a page list has a source"),
        }
    }

    /// Pages that hold a byte of it.
    pub fn pages(&self) -> usize {
        (self.off + self.len).div_ceil(PAGE_SIZE)
    }

    /// The rest of the run behind its first `n` bytes.
    pub(super) fn behind(self, n: usize) -> Self {
        let at = self.off + n;
        Self {
            // If no byte is left, there is no page, and there may be no page number.
            page: self.page.saturating_add((at / PAGE_SIZE) as u64),
            off: at % PAGE_SIZE,
            len: self.len - n,
            ..self
        }
    }

    /// Bytes before the first page that the source shows in memory.
    pub(super) fn unshown_len(&self) -> usize {
        let source = self.source();
        let pages = 1..self.pages();
        let shown = |&n: &usize| source.bytes(self.page + n as u64).is_some();
        match pages.into_iter().find(shown) {
            Some(n) => n * PAGE_SIZE - self.off,
            None => self.len,
        }
    }
}

kern::impl_debug!(PageRun<'_> |this| page: this.page, off: this.off, len: this.len);

/// The pieces of a list in order; empty mbufs are passed over.
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    at: Option<&'a Mbuf>,
    /// Bytes of that mbuf that are before the range, or were returned already.
    skip: usize,
    left: usize,
}

impl<'a> Pieces<'a> {
    /// The pieces of `len` bytes behind the first `skip`.
    pub(crate) fn new(head: Option<&'a Mbuf>, skip: usize, len: usize) -> Self {
        Self {
            at: head,
            skip,
            left: len,
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        while self.left > 0 {
            let m = self.at?;
            if self.skip >= m.len() {
                self.skip -= m.len();
                self.at = m.next();
                continue;
            }
            if self.skip == 0
                && m.is(PGS)
                && let Some(next) = m.next()
            {
                next.prefetch(MSIZE);
            }
            let piece = piece_at(m, self.skip, self.left);
            self.skip += piece.len();
            self.left -= piece.len();
            return Some(piece);
        }
        None
    }
}

/// The piece that begins `at` bytes into the mbuf's data, at most `max` bytes. There is at least one
/// byte.
#[inline]
pub(super) fn piece_at(m: &Mbuf, at: usize, max: usize) -> Piece<'_> {
    let max = max.min(m.len() - at);
    match m.is(PGS) {
        true => record_piece(m, m.pg_start() + at, max),
        false => Piece::Bytes(&m.bytes()[at..at + max]),
    }
}

/// As `piece_at`, by the offset in a page list's record.
#[inline]
pub(super) fn record_piece(m: &Mbuf, at: usize, max: usize) -> Piece<'_> {
    let (pg, body) = (m.pg(), m.pg_body());
    let header = usize::from(pg.hdr_len);
    if at < header {
        return Piece::Bytes(prefix(&body.hdr[at..header], max));
    }
    let (at, in_pages) = (at - header, pg.pages_len());
    if at >= in_pages {
        let trailer = usize::from(pg.trail_len);
        return Piece::Bytes(prefix(&body.trail[at - in_pages..trailer], max));
    }
    let Some(ext) = m.ext() else {
        unreachable!("a page list has a source")
    };
    let pos = usize::from(pg.first_off) + at;
    let (index, off) = (pos / PAGE_SIZE, pos % PAGE_SIZE);
    let (page, left) = (body.pages[index], max.min(in_pages - at));
    let mut run = PAGE_SIZE - off;
    for (next, after) in body.pages[index + 1..].iter().zip(1..) {
        if run >= left || page.checked_add(after) != Some(*next) {
            break;
        }
        run += PAGE_SIZE;
    }
    let len = run.min(left);
    Piece::Pages(PageRun {
        ext,
        page,
        off,
        len,
    })
}

#[inline]
fn prefix(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}
