//! Pages of many ranges given back to the system, with as few system calls as it allows.

use super::{Process, Region, VECTORS_MAX, page_bytes};
use core::ops::{AddAssign, Range};
use core::sync::atomic::{AtomicBool, Ordering};

/// With fewer ranges than this, a call for each is cheaper than to open a descriptor.
const SCATTERED_MIN: usize = 4;

/// The pages that the system took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Pages of the ranges given back; some may not have been resident.
    pub pages: usize,
    /// System calls.
    pub calls: usize,
}

impl AddAssign for Purged {
    fn add_assign(&mut self, other: Self) {
        self.pages += other.pages;
        self.calls += other.calls;
    }
}

/// Gives ranges of a region back, many to a call where the system allows.
///
/// # Safety
/// As for [`Region::give_back`], for each of the ranges.
pub(crate) unsafe fn give_back_runs(region: &Region, ranges: &[Range<usize>]) -> Purged {
    let process = match ranges.len() >= SCATTERED_MIN && VECTORS_WORK.load(Ordering::Relaxed) {
        true => Process::open(),
        false => None,
    };
    let mut purged = Purged::default();
    for chunk in ranges.chunks(VECTORS_MAX) {
        if let Some(process) = &process {
            // SAFETY: so says the caller.
            let bytes = unsafe { region.give_back_all(process, chunk) };
            purged.calls += 1;
            if bytes == Some(chunk.iter().map(Range::len).sum()) {
                purged.pages += bytes.unwrap_or(0) / page_bytes();
                continue;
            }
            // Relaxed: a hint that spares calls; no correctness depends on it.
            VECTORS_WORK.store(bytes.is_some(), Ordering::Relaxed);
        }
        for range in chunk {
            // SAFETY: so says the caller; that it may be the second time makes no difference.
            purged.pages += unsafe { region.give_back(range.clone()) } / page_bytes();
            purged.calls += 1;
        }
    }
    purged
}

/// False once process_madvise has refused to give pages of the own process back, as Linux before 6.13 does, and some
/// filters of system calls.
pub(crate) static VECTORS_WORK: AtomicBool = AtomicBool::new(true);
