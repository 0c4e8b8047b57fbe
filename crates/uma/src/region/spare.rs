//! Regions of a model's last run, kept for its next one.
//!
//! A model makes and drops the zones of a whole stack in each of 100,000 runs. Without this a third of its time went
//! into mapping, and more if two models in a process waited for each other's mappings. Built for the schedule checkers
//! only.
//!
//! Invariant: a spare region has no owner and no pages: a region that is taken reads zero, as a new one does. Some of
//! its pages may be accessible already, which in a new region must be made accessible first.
//! Locks: none; each thread, and so each model, has its own.

use core::cell::RefCell;
use core::ptr::NonNull;

/// More than the zones of a few stacks have.
const SPARE_MAX: usize = 64;

std::thread_local! {
    static SPARE: RefCell<Vec<(NonNull<u8>, usize)>> = const { RefCell::new(Vec::new()) };
}

/// One of this length at a multiple of `align`.
pub(super) fn take(len: usize, align: usize) -> Option<NonNull<u8>> {
    let fits = |(base, of): &(NonNull<u8>, usize)| *of == len && base.addr().get() % align == 0;
    let mut found = None;
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        found = spare
            .iter()
            .rposition(fits)
            .map(|at| spare.swap_remove(at).0);
    });
    found
}

/// Keeps a range whose user is gone, without pages if it may have some; says whether there was room.
pub(super) fn keep(base: NonNull<u8>, len: usize, opened: bool) -> bool {
    let kept = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        // SAFETY: a whole mapping of `Region`'s that no pointer leads into any more.
        let emptied = || unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTNEED) };
        let room = spare.len() < SPARE_MAX && (!opened || emptied() == 0);
        if room {
            spare.push((base, len));
        }
        room
    });
    kept.unwrap_or(false)
}
