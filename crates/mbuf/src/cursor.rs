//! Reading across the boundaries of mbufs, as if the bytes were contiguous.
//!
//! A [`Cursor`] is a place in a list that moves: parsers read fields at it with [`bytes::Buf`] or
//! [`std::io::Read`], across the borders of mbufs, and copy only the fields. It does not
//! start from the front again, as offsets would.
//!
//! Invariant: `pos` is the offset of byte `at` of `m`; at the end `m` is the last mbuf, if any.

use std::io::{self, BufRead, IoSlice, Read, Seek, SeekFrom};

use bytes::Buf;

use crate::chain::Chain;
use crate::list;
use crate::mbuf::Mbuf;
use crate::packet::Packet;
use crate::segments::Segments;

/// A place in a packet or chain, to read from.
///
/// ```
/// use bytes::Buf;
/// # use mbuf::{Chain, MbufPool, PoolConfig};
/// # let pool = MbufPool::new(PoolConfig::default())?;
/// let mut chain = Chain::from_slice(&pool, &[0, 80])?;
/// chain.append(Chain::from_slice(&pool, &[1, 187, 7])?); // in another mbuf
/// let mut at = chain.cursor();
/// assert_eq!((at.get_u8(), at.get_u16(), at.remaining()), (0, 80 << 8 | 1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    head: Option<&'a Mbuf>,
    m: Option<&'a Mbuf>,
    at: usize,
    pos: usize,
    len: usize,
}

impl Chain {
    /// A cursor at the first byte.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self.first(), self.len())
    }
}

impl Packet {
    /// A cursor at the first byte.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(Some(self.first()), self.len())
    }
}

impl<'a> Cursor<'a> {
    fn new(head: Option<&'a Mbuf>, len: usize) -> Self {
        Self {
            head,
            m: head,
            at: 0,
            pos: 0,
            len,
        }
    }

    /// Bytes before the cursor.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Moves to `pos`. Returns false, without a move, if that is behind the end.
    pub fn set_position(&mut self, pos: usize) -> bool {
        if pos > self.len {
            return false;
        }
        if pos < self.pos {
            (self.m, self.at, self.pos) = (self.head, 0, 0);
        }
        self.forward(pos - self.pos);
        true
    }

    /// Moves over bytes that are there.
    fn forward(&mut self, n: usize) {
        if let Some(m) = self.m {
            let (m, at) = list::seek(m, self.at + n);
            (self.m, self.at) = (Some(m), at);
        }
        self.pos += n;
    }

    /// Copies the next bytes to `dst` without a move. Returns false, without a copy, if there are too few.
    pub fn peek(&self, dst: &mut [u8]) -> bool {
        if dst.len() > self.len - self.pos {
            return false;
        }
        if let Some(m) = self.m {
            list::copy_out(m, self.at, dst);
        }
        true
    }

    /// The pieces from here on.
    pub fn segments(&self) -> Segments<'a> {
        Segments::new(self.m, self.at, self.len - self.pos)
    }
}

impl Buf for Cursor<'_> {
    fn remaining(&self) -> usize {
        self.len - self.pos
    }

    fn chunk(&self) -> &[u8] {
        self.segments().next().unwrap_or_default()
    }

    fn advance(&mut self, n: usize) {
        assert!(n <= self.remaining(), "there are fewer bytes");
        self.forward(n);
    }

    fn chunks_vectored<'s>(&'s self, out: &mut [IoSlice<'s>]) -> usize {
        fill(self.segments(), out)
    }
}

/// Fills slots with pieces, and returns how many.
pub(crate) fn fill<'s>(pieces: Segments<'s>, out: &mut [IoSlice<'s>]) -> usize {
    let filled = out.iter_mut().zip(pieces);
    filled
        .map(|(place, piece)| *place = IoSlice::new(piece))
        .count()
}

impl Read for Cursor<'_> {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let n = dst.len().min(self.remaining());
        self.peek(&mut dst[..n]);
        self.forward(n);
        Ok(n)
    }
}

impl BufRead for Cursor<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(Buf::chunk(&*self))
    }

    fn consume(&mut self, n: usize) {
        self.advance(n);
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let pos = match to {
            SeekFrom::Start(pos) => Some(pos),
            SeekFrom::End(n) => (self.len as u64).checked_add_signed(n),
            SeekFrom::Current(n) => (self.pos as u64).checked_add_signed(n),
        };
        let moved = pos
            .and_then(|pos| usize::try_from(pos).ok())
            .is_some_and(|pos| self.set_position(pos));
        if !moved {
            let what = "there is no byte at that offset of the packet";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(self.pos as u64)
    }
}
