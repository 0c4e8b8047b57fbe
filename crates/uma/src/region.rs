//! A range of address space: reserved whole, made accessible in steps, its pages given back.
//!
//! A reservation costs no memory: it is `PROT_NONE` and `MAP_NORESERVE`, so neither the commit
//! limit nor the resident size sees it. Pages come with the first touch after [`Region::open`], or
//! with [`Region::populate`], and go with [`Region::give_back`]; the range stays open, so the next
//! touch needs no system call of ours and the kernel keeps one mapping.
//!
//! Under Miri, which knows no such mappings, a region is a zeroed allocation. Under a schedule checker reserved ranges
//! are kept from run to run (`spare.rs`).

use core::ops::Range;
use core::ptr::NonNull;

pub use give_back::Purged;
#[cfg(all(test, not(any(loom, shuttle, miri))))]
pub(crate) use give_back::VECTORS_WORK;
pub(crate) use give_back::give_back_runs;

mod give_back;

/// A range of addresses that belongs to this value alone.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
    #[cfg(miri)]
    align: usize,
    /// It may have pages.
    #[cfg(all(any(loom, shuttle), not(miri)))]
    opened: core::sync::atomic::AtomicBool,
}

// SAFETY: a region is the right to an address range, which does not depend on a thread.
unsafe impl Send for Region {}
// SAFETY: the methods that take `&self` are system calls on the range, which the kernel orders; they return only raw
// pointers, and each use of those has its own argument.
unsafe impl Sync for Region {}

/// The kind of pages of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageSize {
    /// The smallest pages. One live item would pin a huge page of 2 MiB, and the resident size would depend on chance.
    Small,
    /// Huge pages where the system has some.
    Huge,
}

impl Region {
    /// The first address.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes reserved.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// The size of a page.
#[cfg(not(miri))]
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf reads a number and has no preconditions.
    let answer = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(answer).unwrap_or(4096)
}

/// The address space that this process may still take, if it is limited.
#[cfg(not(miri))]
pub(crate) fn address_space_left() -> Option<usize> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit to write into.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    if answer != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let limit = usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX);
    Some(limit.saturating_sub(address_space_taken().unwrap_or(limit / 2)))
}

/// The address space that this process has taken: the first number of statm, in pages.
#[cfg(not(miri))]
fn address_space_taken() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_whitespace().next()?.parse().ok()?;
    pages.checked_mul(page_bytes())
}

#[cfg(not(miri))]
impl Region {
    /// Reserves `len` bytes at a multiple of `align`, a power of two; `None` when there is no such
    /// hole. Its memory must not be accessed yet.
    pub(crate) fn reserve(len: usize, align: usize, pages: PageSize) -> Option<Self> {
        let page = page_bytes();
        let len = len.checked_next_multiple_of(page)?;
        #[cfg(any(loom, shuttle))]
        if let Some(base) = spare::take(len, align) {
            return Some(Self::new(base, len));
        }
        let slack = if align > page { align } else { 0 };
        let wide = map(len.checked_add(slack)?)?;
        let head = wide.as_ptr().align_offset(align.max(page));
        unmap(wide, head);
        // SAFETY: head is below slack, so the sum stays within the mapping just made.
        let base = unsafe { wide.add(head) };
        // SAFETY: as above: head + len is at most the length of that mapping.
        let tail = unsafe { base.add(len) };
        unmap(tail, slack - head);
        let region = Self::new(base, len);
        let advice = match pages {
            PageSize::Small => libc::MADV_NOHUGEPAGE,
            PageSize::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: advice on our own mapping; a kernel that does not know it returns an error and changes nothing.
        unsafe { libc::madvise(region.base.as_ptr().cast(), region.len, advice) };
        Some(region)
    }

    fn new(base: NonNull<u8>, len: usize) -> Self {
        Self {
            base,
            len,
            #[cfg(any(loom, shuttle))]
            opened: false.into(),
        }
    }

    /// Makes the pages of these bytes accessible. Returns whether that succeeded.
    pub(crate) fn open(&self, range: Range<usize>) -> bool {
        #[cfg(any(loom, shuttle))]
        self.opened
            .store(true, core::sync::atomic::Ordering::Relaxed);
        let Some((first, len)) = self.outer_pages(range) else {
            return true;
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range is part of this region's mapping; no code relies on a page without access.
        unsafe { libc::mprotect(first.as_ptr().cast(), len, access) == 0 }
    }

    /// Makes pages resident now instead of at the first access. Returns whether there was memory.
    ///
    /// # Safety
    /// The range is open. Its contents are not needed, and no thread touches it during the call.
    pub(crate) unsafe fn populate(&self, range: Range<usize>) -> bool {
        let Some((first, len)) = self.outer_pages(range) else {
            return true;
        };
        // SAFETY: whole pages of our own open mapping; their content, if any, stays.
        let answer =
            unsafe { libc::madvise(first.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
        let unknown = || std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        if answer == 0 || !unknown() {
            return answer == 0;
        }
        for offset in (0..len).step_by(page_bytes()) {
            // SAFETY: below `len`, which is within the reservation.
            let byte = unsafe { first.add(offset) };
            // SAFETY: the page is open, and the caller promises that no other thread touches it.
            unsafe { byte.write_volatile(0) };
        }
        true
    }

    /// Gives the pages wholly within the range back; the bytes there read zero afterwards, if
    /// the range was open. Says how many bytes the system took.
    ///
    /// # Safety
    /// The contents of the range are not needed, and no thread touches it during the call.
    pub(crate) unsafe fn give_back(&self, range: Range<usize>) -> usize {
        let Some((first, len)) = self.inner_pages(range) else {
            return 0;
        };
        // SAFETY: whole pages of our own private mapping, whose content the caller gave up. If
        // it fails (pages locked into memory), they stay, and only memory is lost.
        let answer = unsafe { libc::madvise(first.as_ptr().cast(), len, libc::MADV_DONTNEED) };
        if answer == 0 { len } else { 0 }
    }

    /// Gives many ranges back with one call. Returns how many bytes the system took, from the first range on, or `None`
    /// if it has no such call.
    ///
    /// # Safety
    /// As for [`give_back`](Self::give_back), for each of the ranges.
    pub(crate) unsafe fn give_back_all(
        &self,
        process: &Process,
        ranges: &[Range<usize>],
    ) -> Option<usize> {
        let pages = ranges
            .iter()
            .filter_map(|range| self.inner_pages(range.clone()));
        let mut vectors = [NO_PAGES; VECTORS_MAX];
        let mut used = 0;
        for (vector, (first, len)) in vectors.iter_mut().zip(pages) {
            vector.iov_base = first.as_ptr().cast();
            vector.iov_len = len;
            used += 1;
        }
        // SAFETY: the vectors are `used` ranges of whole pages of our own private mapping, whose
        // content the caller gave up, and the descriptor is that of this process.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process.0.as_raw_fd(),
                vectors.as_ptr(),
                used,
                libc::MADV_DONTNEED,
                0,
            )
        };
        usize::try_from(answer).ok()
    }

    /// The pages wholly within a range.
    fn inner_pages(&self, range: Range<usize>) -> Option<(NonNull<u8>, usize)> {
        let page = page_bytes();
        let start = range.start.next_multiple_of(page);
        let end = range.end.min(self.len) & !(page - 1);
        self.part(start, end)
    }

    /// The pages that a range touches.
    fn outer_pages(&self, range: Range<usize>) -> Option<(NonNull<u8>, usize)> {
        let page = page_bytes();
        let end = range.end.next_multiple_of(page).min(self.len);
        self.part(range.start & !(page - 1), end)
    }

    fn part(&self, start: usize, end: usize) -> Option<(NonNull<u8>, usize)> {
        if start >= end {
            return None;
        }
        // SAFETY: start is below end, which is within the reservation.
        Some((unsafe { self.base.add(start) }, end - start))
    }
}

#[cfg(not(miri))]
impl Drop for Region {
    fn drop(&mut self) {
        #[cfg(any(loom, shuttle))]
        if spare::keep(self.base, self.len, *self.opened.get_mut()) {
            return;
        }
        unmap(self.base, self.len);
    }
}

/// The most ranges that [`Region::give_back_all`] takes.
pub(crate) const VECTORS_MAX: usize = 512;

#[cfg(not(miri))]
const NO_PAGES: libc::iovec = libc::iovec {
    iov_base: core::ptr::null_mut(),
    iov_len: 0,
};

/// A pidfd of this process. It is closed soon, because a forked child would inherit a descriptor of its parent.
#[cfg(not(miri))]
#[derive(Debug)]
pub(crate) struct Process(std::os::fd::OwnedFd);

#[cfg(not(miri))]
use std::os::fd::{AsRawFd, FromRawFd};

#[cfg(not(miri))]
impl Process {
    /// Opens it, where the system has such descriptors.
    pub(crate) fn open() -> Option<Self> {
        // SAFETY: reads a number and has no preconditions.
        let pid = unsafe { libc::getpid() };
        // SAFETY: makes a new descriptor (closed on exec) and changes no existing state.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: a descriptor that was made just now and that no other value owns.
        Some(Self(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) }))
    }
}

/// Reserves `len` bytes anywhere.
#[cfg(not(miri))]
fn map(len: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new private anonymous mapping at an address of the kernel's choice overlaps no
    // other mapping.
    let address = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            len,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        None
    } else {
        NonNull::new(address.cast())
    }
}

/// Gives a part of one of our own mappings up.
#[cfg(not(miri))]
fn unmap(base: NonNull<u8>, len: usize) {
    if len > 0 {
        // SAFETY: called only on parts of mappings made by `map` that no pointer leads into:
        // the unused ends of a new one, or all of it when the region goes.
        unsafe { libc::munmap(base.as_ptr().cast(), len) };
    }
}

#[cfg(miri)]
mod miri;
#[cfg(all(any(loom, shuttle), not(miri)))]
mod spare;
#[cfg(miri)]
pub(crate) use miri::{Process, address_space_left, page_bytes};
