//! The time until which no timer is due, found once and kept, for a program that asks after each of its turns.
//!
//! The next of many deadlines is the least of a dozen words in as many places. Mostly none of them changes between two
//! questions, and then the kept answer is one load.
//!
//! ```text
//!            find                     its end
//!   Unknown ------> Finding --------------------------> Known(time)
//!      ^               |  end                              |
//!      |               v                                   |
//!      +----------- Changed                                |
//!      +---------------------------------------------------+  end, or find once the time has come
//! ```
//!
//! A thread that stores an earlier deadline calls [`QuietUntil::end`] after that. A deadline that becomes later needs
//! no call: the kept time is then too early, and is found again when it has come.
//!
//! Invariant: a kept time is not after any deadline whose storing thread has called `end`. Only the thread that began
//! to find leaves Finding and Changed, so that what it found can't replace a newer answer. A thread that stores a
//! deadline executes a SeqCst fence and reads the word; one that finds writes the word, executes one too, and reads the
//! deadlines. So one of them sees what the other wrote. A word that need not change is not written, because each CPU
//! sets timers.
//!
//! Locks: none. `tests/models/quiet_until.rs` runs it in every order.

use crate::Time;
use crate::prim::{AtomicU64, Ordering, fence};

const UNKNOWN: u64 = 0;
const FINDING: u64 = 1;
const CHANGED: u64 = 2;

/// The time until which nothing is due, if it is known.
///
/// ```
/// use kern::{QuietUntil, Time};
///
/// let quiet = QuietUntil::new();
/// let (now, next) = (Time::from_secs(1), Some(Time::from_secs(3)));
/// assert_eq!(quiet.get(now), None);
/// assert_eq!(quiet.find(|| next), next);
/// assert_eq!(quiet.get(now), next);
/// quiet.end();
/// assert_eq!(quiet.get(now), None, "an earlier deadline was set");
/// ```
#[derive(Debug)]
#[repr(align(128))] // on lines of its own: each CPU reads it, and its neighbours are not to follow its changes
pub struct QuietUntil(AtomicU64);

impl QuietUntil {
    /// Not known.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(UNKNOWN))
    }

    /// The time until which nothing is due, if it is known and after `now`; [`Time::MAX`] if nothing ever is. Relaxed:
    /// an answer that has just become wrong counts as given before.
    #[inline]
    #[must_use]
    pub fn get(&self, now: Time) -> Option<Time> {
        let kept = self.0.load(Ordering::Relaxed);
        (kept > now.as_nanos().max(CHANGED)).then_some(Time::from_nanos(kept))
    }

    /// A deadline was stored that may be earlier than all others.
    pub fn end(&self) {
        fence(Ordering::SeqCst);
        if matches!(self.0.load(Ordering::Relaxed), UNKNOWN | CHANGED) {
            return;
        }
        self.step(|was| match was {
            FINDING | CHANGED => Some(CHANGED),
            _ => Some(UNKNOWN),
        });
    }

    /// Returns the next deadline, which `next` finds, and keeps it unless an earlier one is stored meanwhile.
    pub fn find(&self, next: impl FnOnce() -> Option<Time>) -> Option<Time> {
        if !self.step(|was| (was != FINDING && was != CHANGED).then_some(FINDING)) {
            // Another thread is finding.
            return next();
        }
        fence(Ordering::SeqCst);
        let found = next();
        let known = found.unwrap_or(Time::MAX).as_nanos();
        self.step(|was| match was {
            FINDING if known > CHANGED => Some(known),
            _ => Some(UNKNOWN),
        });
        found
    }

    fn step(&self, next: impl FnMut(u64) -> Option<u64>) -> bool {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.0.fetch_update(set, fetch, next).is_ok()
    }
}

impl Default for QuietUntil {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Breaks if a kept time is used once it has come, or if a deadline that is stored during the search is missed.
    #[test]
    fn a_time_is_kept_until_it_comes_or_an_earlier_one_is_set() {
        let at = |secs| Time::from_secs(secs);
        let quiet = QuietUntil::new();
        assert_eq!(quiet.find(|| Some(at(5))), Some(at(5)));
        assert_eq!(quiet.get(at(4)), Some(at(5)));
        assert_eq!(quiet.get(at(5)), None);
        let found = quiet.find(|| {
            quiet.end();
            Some(at(9))
        });
        assert_eq!((found, quiet.get(at(5))), (Some(at(9)), None));
        assert_eq!(quiet.find(|| None), None);
        assert_eq!(quiet.get(at(5)), Some(Time::MAX));
        let inner = quiet.find(|| quiet.find(|| Some(at(7))));
        assert_eq!((inner, quiet.get(at(5))), (Some(at(7)), Some(at(7))));
    }
}
