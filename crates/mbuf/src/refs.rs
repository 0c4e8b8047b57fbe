//! The number of references to a piece of outside storage, and the request to wipe it.
//!
//! ```text
//!   31     30 ............................ 0
//!   | zero | references                    |     one word, which lies with the storage
//! ```
//!
//! # The protocol
//!
//! - The holder of a reference may make another ([`Refs::share`], Relaxed: its own reference keeps the
//!   storage) and release its own ([`Refs::release`], Release: its reads are complete by then).
//! - A holder that loads a count of 1 with Acquire has the only reference; no other can appear, since only a holder
//!   makes one. The Acquire pairs with the Release of each former holder's `release`, so all accesses of former
//!   holders happened before. So the holder may write ([`Refs::is_unique`]), end the storage, and (if no other thread
//!   can use its reference meanwhile, [`Refs::share_sole`]) make the second reference without an atomic
//!   read-modify-write.
//! - The holder of a reference may request zeros on the last free ([`Refs::request_zeros`], Relaxed). The request is a
//!   bit of the count's own word and is never cleared: the last release reads it in the same operation that shows that
//!   it is the last, so it misses no request (seed 000 kept it as a flag in another mbuf).
//!
//! The tests in `models/refs.rs` check this code in every order of two and three threads and
//! with every value that the orderings allow, and then with each planted mistake, which they must
//! find. `models/` does the same to whole packets.
//!
//! Invariant: the count is the number of references.
//! Locks: none.
//! Sources: seed 000 (shared clusters), seed 004 section 5.4 (counts beside clusters).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::error::NoBufs;

pub(crate) mod word;

use word::CountWord;

/// The storage is overwritten with zeros on its last free: a bit beside the count.
pub(crate) const ZERO_ON_FREE: u32 = 1 << 31;
/// The count's part of the word.
pub(crate) const COUNT: u32 = ZERO_ON_FREE - 1;
/// A sharer above this count is refused: far below overflow, so that a race of refusals can't wrap.
pub(crate) const REFS_MAX: u32 = COUNT / 2;

/// The number of references to one piece of storage.
///
/// `W` is std's atomic, which lies in a zone's side table; in the models it is loom's.
#[repr(transparent)]
pub(crate) struct Refs<W = AtomicU32> {
    count: W,
}

/// The result of giving a reference back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the last one ends the storage"]
pub(crate) enum Release {
    /// Other references exist: their holders keep the storage.
    Shared,
    /// That was the last reference: the caller must end the storage, and overwrite it first if `zero`.
    Last { zero: bool },
}

impl Refs {
    /// One reference, counted in the word that lies beside fresh storage. No other thread reads the word.
    #[inline]
    pub(crate) fn begin(count: &AtomicU32) -> NonNull<Self> {
        // Relaxed: no other thread has a reference yet, and the hand-over of one synchronises.
        count.store(1, Ordering::Relaxed);
        NonNull::from(count).cast()
    }
}

impl<W: CountWord> Refs<W> {
    /// One reference.
    pub(crate) fn one() -> Self {
        Self { count: W::new(1) }
    }

    /// Counts one more reference. Refused above [`REFS_MAX`].
    #[inline]
    pub(crate) fn share(&self) -> Result<(), NoBufs> {
        // Relaxed: the caller's own reference keeps the storage meanwhile.
        if self.count.fetch_add(1, Ordering::Relaxed) & COUNT > REFS_MAX {
            // Relaxed: no thread acts on the surplus count, and this subtraction can't be the last
            // release, since the caller has a reference.
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(NoBufs);
        }
        Ok(())
    }

    /// Counts one more reference, without an atomic read-modify-write if the caller's is the only one. No other thread
    /// may use the caller's reference meanwhile, not even to read.
    #[inline(always)]
    pub(crate) fn share_sole(&self) -> Result<(), NoBufs> {
        if !self.is_plain() {
            return self.share();
        }
        // Relaxed: the hand-over of the new reference to another thread synchronises.
        self.count.store(2, Ordering::Relaxed);
        Ok(())
    }

    /// Releases a reference. A sole holder needs no read-modify-write: its Acquire load of 1 is also the last release.
    /// Else the subtraction is Release, and the last one adds an Acquire fence, so that the accesses of all former
    /// holders happen before the end of the storage.
    #[inline(always)]
    pub(crate) fn release(&self) -> Release {
        let word = self.count.load(Ordering::Acquire);
        let zero = if word & COUNT == 1 {
            word & ZERO_ON_FREE != 0
        } else {
            let before = self.count.fetch_sub(1, Ordering::Release);
            if before & COUNT != 1 {
                return Release::Shared;
            }
            self.count.fence(Ordering::Acquire);
            before & ZERO_ON_FREE != 0
        };
        Release::Last { zero }
    }

    /// True if the caller's is the only reference: all accesses through former references happened before.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.count.load(Ordering::Acquire) & COUNT == 1
    }

    /// True if the caller's is the only reference and zeros were not requested.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.count.load(Ordering::Acquire) == 1
    }

    /// Requests that the last release, by whichever holder, overwrites the storage with zeros.
    pub(crate) fn request_zeros(&self) {
        // Relaxed: this change and the caller's later release are in the modification order of one word, so the last
        // release reads the bit.
        self.count.fetch_or(ZERO_ON_FREE, Ordering::Relaxed);
    }

    /// Whether a holder requested zeros. A copy must request the same.
    pub(crate) fn wants_zeros(&self) -> bool {
        // Relaxed: a request during a copy comes too late for that copy.
        self.count.load(Ordering::Relaxed) & ZERO_ON_FREE != 0
    }

    /// Sets the count, for a test of its limits.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn set(&self, count: u32) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// The count, for a test of its limits.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn get(&self) -> u32 {
        self.count.load(Ordering::Relaxed) & COUNT
    }
}
