//! A file whose pages can't change, so that they may be lent.
//!
//! Locks: none.

use std::io;

use mbuf::{MemfdPages, PageSource, Pages};

/// A file whose pages may be lent (memfd_create(2)): a memfd with seals that prevent changes.
#[derive(Debug)]
pub struct SealedFile {
    pub(super) pages: Pages,
    pub(super) len: u64,
}

impl SealedFile {
    /// A memfd whose seals [`MemfdPages::new`] has checked.
    pub fn new(pages: MemfdPages) -> Self {
        Self::with_guard(pages, ())
    }

    /// A memfd with a `guard`, which is dropped with the last reference to the pages, those of unacknowledged segments
    /// included. So a program can count the memory.
    pub fn with_guard(pages: MemfdPages, guard: impl Send + Sync + 'static) -> Self {
        Self {
            len: pages.len() as u64,
            pages: Pages::new(GuardedPages {
                pages,
                _guard: guard,
            }),
        }
    }

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Pages with a value that is dropped after them.
struct GuardedPages<T> {
    pages: MemfdPages,
    _guard: T,
}

impl<T: Send + Sync + 'static> PageSource for GuardedPages<T> {
    fn read(&self, page: u64, off: usize, dst: &mut [u8]) -> io::Result<()> {
        self.pages.read(page, off, dst)
    }

    fn bytes(&self, page: u64) -> Option<&[u8]> {
        self.pages.bytes(page)
    }
}
