//! Walking a chain: its pieces as slices, for checksums and for gathering system calls.

use std::io::IoSlice;

use crate::mbuf::{Borrowed, Mbuf};

/// Pieces of most chains at most.
const FEW: usize = 8;

/// The pieces of a chain in order; empty ones are passed over.
#[derive(Debug, Clone)]
pub struct Segments<'a> {
    at: Option<Borrowed<'a>>,
    skip: usize,
    left: usize,
}

impl<'a> Segments<'a> {
    /// The pieces of `len` bytes behind the first `skip`.
    pub(crate) fn new(head: Option<&'a Mbuf>, skip: usize, len: usize) -> Self {
        Self {
            at: head.map(Borrowed::of),
            skip,
            left: len,
        }
    }

    /// The pieces as `IoSlice`s for a gathering write.
    pub fn io_slices(self) -> impl Iterator<Item = IoSlice<'a>> {
        self.map(IoSlice::new)
    }

    /// Calls `write` with all pieces, for a gathering write. Allocates memory if they are more than eight.
    ///
    /// ```
    /// use std::io::Write;
    /// use mbuf::{Chain, MbufPool, PoolConfig};
    ///
    /// let pool = MbufPool::new(PoolConfig::default())?;
    /// let (chain, mut out) = (Chain::from_slice(&pool, b"data")?, Vec::new());
    /// assert_eq!(chain.segments().gather(|pieces| out.write_vectored(pieces))?, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gather<R>(self, write: impl FnOnce(&[IoSlice<'a>]) -> R) -> R {
        let mut few = [IoSlice::new(&[]); FEW];
        let (mut count, mut pieces) = (0, self.clone());
        for (slot, piece) in few.iter_mut().zip(&mut pieces) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        match pieces.next() {
            None => write(&few[..count]),
            Some(_) => write(&self.io_slices().collect::<Vec<_>>()),
        }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while self.left > 0 {
            let m = self.at?;
            self.at = m.next();
            let bytes = m.bytes();
            let from = self.skip.min(bytes.len());
            self.skip -= from;
            let piece = &bytes[from..];
            let piece = &piece[..piece.len().min(self.left)];
            self.left -= piece.len();
            if !piece.is_empty() {
                return Some(piece);
            }
        }
        None
    }
}
