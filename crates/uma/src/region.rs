//! A range of address space: reserved whole, made accessible in steps, its pages given back.
//!
//! Called by: `arena.rs`. Calls: mmap, mprotect, madvise, munmap.
//!
//! A reservation costs no memory: it is `PROT_NONE` and `MAP_NORESERVE`, so neither the commit
//! limit nor the resident size sees it. Pages come with the first touch after [`Region::open`]
//! and go with [`Region::give_back`]; the range stays open, so coming back costs no system call
//! and the kernel keeps one mapping however often pages come and go.
//!
//! Under Miri, which knows no such mappings, a region is a zeroed allocation.

use core::ptr::NonNull;

/// A range of addresses that belongs to nobody else.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
    #[cfg(miri)]
    align: usize,
}

// SAFETY: a region is the right to an address range; nothing in it is tied to a thread.
unsafe impl Send for Region {}
// SAFETY: the methods that take `&self` are system calls on the range, which the kernel orders;
// who may touch the bytes is for the caller to say, who gets only raw pointers.
unsafe impl Sync for Region {}

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
    /// Reserves `len` bytes at a multiple of `align`, a power of two; `None` when there is no
    /// such hole. Nothing in it may be touched yet.
    pub(crate) fn reserve(len: usize, align: usize) -> Option<Self> {
        let page = page_bytes();
        let len = len.checked_next_multiple_of(page)?;
        let slack = if align > page { align } else { 0 };
        let wide = map(len.checked_add(slack)?)?;
        let head = wide.as_ptr().align_offset(align.max(page));
        unmap(wide, head);
        // SAFETY: head is below slack, so the sum stays within the mapping just made.
        let base = unsafe { wide.add(head) };
        // SAFETY: as above: head + len is at most the length of that mapping.
        let tail = unsafe { base.add(len) };
        unmap(tail, slack - head);
        let region = Self { base, len };
        region.keep_pages_small();
        Some(region)
    }

    /// Makes the first `len` bytes accessible; says whether the system agreed.
    pub(crate) fn open(&self, len: usize) -> bool {
        let len = len.next_multiple_of(page_bytes()).min(self.len);
        // SAFETY: the range is part of our own mapping; giving access breaks nobody's belief.
        let answer = unsafe {
            libc::mprotect(
                self.base.as_ptr().cast(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        answer == 0
    }

    /// Gives the pages wholly within the range back; the bytes there read zero afterwards, if
    /// the range was open.
    ///
    /// # Safety
    /// Nobody needs what is in the range, and nobody touches it during the call.
    pub(crate) unsafe fn give_back(&self, start: usize, end: usize) {
        let page = page_bytes();
        let start = start.next_multiple_of(page);
        let end = end.min(self.len) & !(page - 1);
        if start >= end {
            return;
        }
        // SAFETY: start is below end, which is within the reservation.
        let first = unsafe { self.base.add(start) };
        // SAFETY: whole pages of our own private mapping, whose content the caller gave up. If
        // it fails, the pages stay, and only memory is lost.
        unsafe { libc::madvise(first.as_ptr().cast(), end - start, libc::MADV_DONTNEED) };
    }

    /// A huge page under a slab would be pinned by one live item in 2 MiB, and would make the
    /// resident size a matter of luck.
    fn keep_pages_small(&self) {
        // SAFETY: advice on our own mapping; where it is not known it fails and nothing changes.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.len, libc::MADV_NOHUGEPAGE) };
    }
}

#[cfg(not(miri))]
impl Drop for Region {
    fn drop(&mut self) {
        unmap(self.base, self.len);
    }
}

/// Reserves `len` bytes anywhere.
#[cfg(not(miri))]
fn map(len: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches
    // nothing that exists.
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
pub(crate) fn address_space_left() -> Option<usize> {
    None
}

#[cfg(miri)]
impl Region {
    pub(crate) fn reserve(len: usize, align: usize) -> Option<Self> {
        let layout = core::alloc::Layout::from_size_align(len, align).ok()?;
        // SAFETY: callers reserve at least one slab or table entry, so the size is not zero.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { base, len, align })
    }

    pub(crate) fn open(&self, len: usize) -> bool {
        len <= self.len
    }

    /// # Safety
    /// As for the real one; here the bytes are zeroed and stay.
    pub(crate) unsafe fn give_back(&self, start: usize, end: usize) {
        let end = end.min(self.len);
        if start < end {
            // SAFETY: start is within the allocation.
            let first = unsafe { self.base.add(start) };
            // SAFETY: end is within the allocation, and the caller gave the content up.
            unsafe { first.write_bytes(0, end - start) };
        }
    }
}

#[cfg(miri)]
impl Drop for Region {
    fn drop(&mut self) {
        let layout = core::alloc::Layout::from_size_align(self.len, self.align)
            .expect("it was good enough to allocate with");
        // SAFETY: allocated in `reserve` with the same layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
    }
}
