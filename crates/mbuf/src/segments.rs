//! Walking a chain: its pieces as slices, for checksums and for gathering system calls.

use std::io::IoSlice;

use crate::mbuf::{Borrowed, Mbuf};

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

    /// Appends the pieces to `out` as `IoSlice`s for a gathering write.
    pub fn gather(self, out: &mut Vec<IoSlice<'a>>) {
        out.extend(self.io_slices());
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
