//! A [`Region`] for Miri: a zeroed allocation whose pages never go.

use super::{PageSize, Region};
use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

/// A page like those of most machines.
pub(crate) fn page_bytes() -> usize {
    4096
}

pub(crate) fn address_space_left() -> Option<usize> {
    None
}

/// There is none to open.
#[derive(Debug)]
pub(crate) enum Process {}

impl Process {
    pub(crate) fn open() -> Option<Self> {
        None
    }
}

impl Region {
    pub(crate) fn reserve(len: usize, align: usize, _pages: PageSize) -> Option<Self> {
        let align = align.max(page_bytes());
        let len = len.checked_next_multiple_of(page_bytes())?;
        let layout = Layout::from_size_align(len, align).ok()?;
        // SAFETY: callers reserve at least one slab or table entry, so the size is not zero.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { base, len, align })
    }

    pub(crate) fn open(&self, range: Range<usize>) -> bool {
        range.start <= self.len
    }

    /// # Safety
    /// As for the real one; here the pages are there always.
    pub(crate) unsafe fn populate(&self, _range: Range<usize>) -> bool {
        true
    }

    /// # Safety
    /// As for the real one; here the bytes are zeroed and stay.
    pub(crate) unsafe fn give_back(&self, range: Range<usize>) -> usize {
        let start = range.start.next_multiple_of(page_bytes());
        let end = range.end.min(self.len) & !(page_bytes() - 1);
        if start >= end {
            return 0;
        }
        // SAFETY: start is within the allocation.
        let first = unsafe { self.base.add(start) };
        // SAFETY: end is within the allocation, and the caller gave the content up.
        unsafe { first.write_bytes(0, end - start) };
        end - start
    }

    /// # Safety
    /// None: it cannot be called without a [`Process`].
    pub(crate) unsafe fn give_back_all(
        &self,
        process: &Process,
        _ranges: &[Range<usize>],
    ) -> Option<usize> {
        match *process {}
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let layout = Layout::from_size_align(self.len, self.align)
            .expect("it was good enough to allocate with");
        // SAFETY: allocated in `reserve` with the same layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
    }
}
