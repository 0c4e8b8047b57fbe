//! The pages that the BSD designs carve items from: one reserved range, handed out page by page.
//!
//! It stands for the kernel's submap of network buffers (`mb_map`): an address in it is turned into a page number by
//! arithmetic, and its size is the limit that NMBCLUSTERS was. Invariant: a page is handed out once until it is given
//! back. Locks: none, two words; pages are taken and given with the design's lock held, or rarely.

use crate::alloc::design::Absent;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::lock;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Bytes of the range: more than any case needs.
const RANGE: usize = 4 << 30;

/// The range.
pub(crate) struct Pages {
    base: NonNull<u8>,
    /// Pages from here on were never handed out.
    fresh: AtomicUsize,
    /// Pages that were handed out and given back.
    back: Mutex<Vec<u32>>,
    /// How many are in `back`, to leave its lock alone while there are none.
    back_len: AtomicUsize,
}

// SAFETY: the base is an address; the memory there belongs to the thread that took the page.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Reserves a range.
    pub(crate) fn reserve() -> Result<Self, Absent> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping overlaps no other mapping.
        let base = unsafe { libc::mmap(ptr::null_mut(), RANGE, prot, flags, -1, 0) };
        let base = if base == libc::MAP_FAILED {
            None
        } else {
            NonNull::new(base.cast())
        };
        Ok(Self {
            base: base.ok_or_else(|| Absent("there is no address space (ulimit -v)".to_owned()))?,
            fresh: AtomicUsize::new(0),
            back: Mutex::new(Vec::new()),
            back_len: AtomicUsize::new(0),
        })
    }

    /// Pages that the range has.
    pub(crate) fn count() -> usize {
        RANGE / PAGE
    }

    /// Hands out a page: its number. `None` when the range is used up.
    pub(crate) fn take(&self) -> Option<usize> {
        if self.back_len.load(Ordering::Relaxed) > 0 {
            let mut back = lock(&self.back);
            if let Some(page) = back.pop() {
                self.back_len.store(back.len(), Ordering::Relaxed);
                return Some(page as usize);
            }
        }
        let page = self.fresh.fetch_add(1, Ordering::Relaxed);
        (page < Self::count()).then_some(page)
    }

    /// Takes pages back and returns their memory to the system. Neighbours go in one call, which is cheaper than in
    /// the old kernel: one unmapping, with its TLB shootdown, for each.
    ///
    /// # Safety
    /// The pages were taken, and are not used any more.
    pub(crate) unsafe fn give(&self, mut pages: Vec<u32>) {
        pages.sort_unstable();
        for run in pages.chunk_by(|a, b| a + 1 == *b) {
            let start = self.address(run[0] as usize);
            // SAFETY: the run is within the mapping, and its contents are not used any more.
            unsafe { libc::madvise(start.as_ptr().cast(), run.len() * PAGE, libc::MADV_DONTNEED) };
        }
        let mut back = lock(&self.back);
        back.extend(pages.into_iter().rev());
        self.back_len.store(back.len(), Ordering::Relaxed);
    }

    /// Where a page is.
    #[inline]
    pub(crate) fn address(&self, page: usize) -> NonNull<u8> {
        debug_assert!(page < Self::count());
        // SAFETY: the page is in the range, so the sum stays within the mapping.
        unsafe { self.base.add(page * PAGE) }
    }

    /// In which page an item is.
    #[inline]
    pub(crate) fn number(&self, item: NonNull<u8>) -> usize {
        (item.as_ptr().addr() - self.base.as_ptr().addr()) / PAGE
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the design that used it is gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), RANGE) };
    }
}
