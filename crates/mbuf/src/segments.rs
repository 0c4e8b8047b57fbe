//! Walking a chain: its pieces as slices, for checksums and for gathering system calls.

use core::marker::PhantomData;
use core::ptr;
use std::io::IoSlice;

use crate::raw::RawMbuf;

/// The pieces of a chain in order; empty ones are passed over.
#[derive(Debug)]
pub struct Segments<'a> {
    at: *const RawMbuf,
    skip: usize,
    left: usize,
    _chain: PhantomData<&'a RawMbuf>,
}

impl<'a> Segments<'a> {
    /// # Safety
    /// `head` is null or a list that lives, unchanged, for `'a`.
    pub(crate) unsafe fn new(head: *const RawMbuf, skip: usize, len: usize) -> Self {
        Self { at: head, skip, left: len, _chain: PhantomData }
    }

    /// Appends the pieces to `out` as `IoSlice`s for a gathering write.
    pub fn gather(self, out: &mut Vec<IoSlice<'a>>) {
        out.extend(self.map(IoSlice::new));
    }
}

// SAFETY: it only reads mbufs that it borrows.
unsafe impl Send for Segments<'_> {}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.at.is_null() && self.left > 0 {
            // SAFETY: the chain lives unchanged for 'a, and `at` is one of its mbufs.
            let m: &'a RawMbuf = unsafe { &*self.at };
            self.at = m.next;
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
        self.at = ptr::null();
        None
    }
}
