//! How many references there are to a piece of outside storage, and the wish that goes with it.
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
//! - A count of 1, loaded with Acquire, says that no other reference exists; none can appear,
//!   since only a holder makes one. So the holder may write ([`Refs::is_unique`]), end the storage, and (if
//!   no other thread can use its reference meanwhile, [`Refs::share_sole`]) make the second one without an
//!   atomic read-modify-write. Acquire pairs with the Release of those that gave theirs back.
//! - The holder of a reference may ask for zeros on the last free ([`Refs::wish_zeros`]). The wish is
//!   a bit of the count's own word and is never cleared: the release of the last reference reads
//!   it in the operation that tells that it is the last, so no wish is missed (seed 000 kept it as a flag in
//!   a neighbour's mbuf).
//!
//! The tests in `refs/loom_tests.rs` check this code in every order of two and three threads and
//! with every value that the orderings allow, and once more with each of the mistakes that could
//! be made, which they must find. `schedules.rs` does the same to whole packets.
//!
//! Invariant: the count is the number of references.
//! Locks: none.
//! Sources: seed 000 (shared clusters), seed 004 section 5.4 (counts beside clusters).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::error::NoBufs;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, loom))]
mod modelled;
mod word;

use word::CountWord;

/// The storage is overwritten with zeros on its last free: a bit beside the count.
const ZERO_ON_FREE: u32 = 1 << 31;
/// The count's part of the word.
const COUNT: u32 = ZERO_ON_FREE - 1;
/// A sharer above this count is refused: far below overflow, so that a race of refusals can't wrap.
pub(crate) const REFS_MAX: u32 = COUNT / 2;

/// The number of references to one piece of storage.
///
/// Over std's atomic, which lies in a zone's side table; in the models over the checker's.
#[repr(C)]
pub(crate) struct Refs<W = AtomicU32> {
    count: W,
    /// In which CPU's caches the storage is: none yet ([`NO_CPU`]), one CPU's (its number plus 1), or another CPU's
    /// than that which took it ([`OTHERS`]). A hint (see `copy.rs`) on the count's own line, apart from the protocol.
    used_by: AtomicU32,
}

/// The first reference to fresh storage.
pub(crate) struct First {
    pub(crate) refs: NonNull<Refs>,
    /// The storage is in another CPU's caches. A hint.
    pub(crate) elsewhere: bool,
}

const NO_CPU: u32 = 0;
const OTHERS: u32 = u32::MAX;

/// This CPU, as [`Refs::used_by`] has it.
#[inline]
fn here() -> u32 {
    kern::cpu::current() as u32 + 1
}

/// The result of giving a reference back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the last one ends the storage"]
pub(crate) enum Release {
    /// Others have references: the storage is theirs.
    Shared,
    /// That was the last one: the storage is the caller's to end, overwritten first if `zero`.
    Last { zero: bool },
}

impl Refs {
    /// One reference, counted in the words that lie with fresh storage, and whether the storage is in another CPU's
    /// caches. No other thread reads these words.
    #[inline]
    pub(crate) fn begin(words: &[AtomicU32; 2]) -> First {
        let [count, used_by] = words;
        // Relaxed, all three: a thread gets a reference through something that synchronises.
        count.store(1, Ordering::Relaxed);
        let (before, here) = (used_by.load(Ordering::Relaxed), here());
        used_by.store(here, Ordering::Relaxed);
        First {
            refs: NonNull::from(words).cast(),
            elsewhere: before != NO_CPU && before != here,
        }
    }

    /// Notes that this CPU reads the storage. Says whether another has had it, or may have.
    #[inline]
    pub(crate) fn note_reader(&self) -> bool {
        // Relaxed: a hint. Of two that write at once, both write the same.
        let elsewhere = self.used_by.load(Ordering::Relaxed) != here();
        if elsewhere {
            self.used_by.store(OTHERS, Ordering::Relaxed);
        }
        elsewhere
    }
}

impl<W: CountWord> Refs<W> {
    /// One reference.
    pub(crate) fn one() -> Self {
        Self {
            count: W::new(1),
            used_by: AtomicU32::new(NO_CPU),
        }
    }

    /// Counts one more. Refused above [`REFS_MAX`].
    #[inline]
    pub(crate) fn share(&self) -> Result<(), NoBufs> {
        // Relaxed: we have a reference, so the storage can't go away meanwhile.
        if self.count.fetch_add(1, Ordering::Relaxed) & COUNT > REFS_MAX {
            // Relaxed: the surplus is gone before any thread has acted on it, and it can't
            // have been the last reference, since the caller has one.
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(NoBufs);
        }
        Ok(())
    }

    /// Counts one more, without an atomic read-modify-write if the caller's is the only one. No other thread
    /// may use the caller's reference meanwhile, not even to read.
    #[inline(always)]
    pub(crate) fn share_sole(&self) -> Result<(), NoBufs> {
        if !self.is_plain() {
            return self.share();
        }
        // Relaxed: a thread gets the new reference through something that synchronises.
        self.count.store(2, Ordering::Relaxed);
        Ok(())
    }

    /// Gives a reference back.
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

    /// True if the caller's is the only reference: all accesses through the others have ended.
    #[inline]
    pub(crate) fn is_unique(&self) -> bool {
        self.count.load(Ordering::Acquire) & COUNT == 1
    }

    /// True if the caller's is the only reference and nothing was wished for.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.count.load(Ordering::Acquire) == 1
    }

    /// Has the storage overwritten with zeros when its last reference goes, whosever that is.
    pub(crate) fn wish_zeros(&self) {
        // Relaxed: the release of the last reference reads this bit in the word that says so.
        self.count.fetch_or(ZERO_ON_FREE, Ordering::Relaxed);
    }

    /// Whether a holder wished for zeros. A copy must ask for the same.
    pub(crate) fn wants_zeros(&self) -> bool {
        // Relaxed: a wish made during a copy comes too late for that copy.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Breaks if the CPU that filled or read storage is forgotten, or fresh storage passes for read.
    #[test]
    fn a_reader_elsewhere_is_known_to_the_next_owner() {
        let words = [AtomicU32::new(0), AtomicU32::new(NO_CPU)];
        let First { refs, elsewhere } = Refs::begin(&words);
        assert!(!elsewhere, "nobody had it");
        // SAFETY: the words are there.
        let refs = unsafe { refs.as_ref() };
        // As if it had been taken on a CPU that there is none of.
        words[1].store(OTHERS - 1, Ordering::Relaxed);
        assert!(refs.note_reader());
        assert_eq!(words[1].load(Ordering::Relaxed), OTHERS);
        assert!(Refs::begin(&words).elsewhere);
        assert_ne!(words[1].load(Ordering::Relaxed), OTHERS);
    }
}
