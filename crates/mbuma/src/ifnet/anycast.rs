//! Advertisements of an interface's anycast addresses that wait for their times: several routers may have such an
//! address, and must not all answer a solicitation at once.
//!
//! Invariants: at most [`WAITING_MAX`] wait, one for each target and destination. A solicitation beyond that gets no
//! answer, and its sender repeats it.
//! Locks: `waiting` (IFADDR). Sources: RFC 4861 section 7.2.7.

use std::mem;
use std::net::Ipv6Addr;

use kern::{AtomicDeadline, LockClass, Mutex, Time, order};
use wire::MacAddr;

static WAITING: LockClass = LockClass::new("delayed advertisements", order::IFADDR);

/// Advertisements that wait at most.
const WAITING_MAX: usize = 64;

/// An advertisement of `target` that leaves at `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DelayedAdvert {
    pub(crate) at: Time,
    pub(crate) target: Ipv6Addr,
    /// The station that asked, or the group of all stations.
    pub(crate) to: Ipv6Addr,
    /// Its Ethernet address, if the solicitation had it.
    pub(crate) mac: Option<MacAddr>,
}

/// Those of an interface.
#[derive(Debug)]
pub(crate) struct DelayedAdverts {
    waiting: Mutex<Vec<DelayedAdvert>>,
    /// The earliest time. Written under the lock.
    due: AtomicDeadline,
}

impl DelayedAdverts {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(&WAITING, Vec::new()),
            due: AtomicDeadline::new(),
        }
    }

    /// Adds one, unless the same station waits for the same address, or too many wait.
    pub(crate) fn add(&self, advert: DelayedAdvert) {
        let is_same =
            |other: &DelayedAdvert| (other.target, other.to) == (advert.target, advert.to);
        self.change(|waiting| {
            if waiting.len() < WAITING_MAX && !waiting.iter().any(is_same) {
                waiting.push(advert);
            }
        });
    }

    /// Takes those that are due.
    pub(crate) fn take_due(&self, now: Time) -> Vec<DelayedAdvert> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.change(|waiting| {
            let (due, later) = mem::take(waiting)
                .into_iter()
                .partition(|one| one.at <= now);
            *waiting = later;
            due
        })
    }

    /// When [`DelayedAdverts::take_due`] has something to do next.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.get()
    }

    fn change<R>(&self, f: impl FnOnce(&mut Vec<DelayedAdvert>) -> R) -> R {
        let mut waiting = self.waiting.lock();
        let result = f(&mut waiting);
        self.due.set(waiting.iter().map(|one| one.at).min());
        result
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waiting_advertisements_are_few_and_leave_at_their_times() {
        // Breaks if a station that repeats its question gets several answers, a scan makes the list grow without end,
        // or an answer leaves early, twice, or never.
        let adverts = DelayedAdverts::new();
        let begin = Time::from_secs(1);
        let advert = |n: u16| DelayedAdvert {
            at: begin + Duration::from_millis(u64::from(n)),
            target: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0),
            to: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, n),
            mac: None,
        };
        assert_eq!(adverts.deadline(), None);
        (0..2000).rev().for_each(|n| adverts.add(advert(n % 1000)));
        assert_eq!(adverts.deadline(), Some(advert(936).at));
        assert!(adverts.take_due(begin).is_empty());
        let mut due = adverts.take_due(advert(937).at);
        due.sort_by_key(|one| one.at);
        assert_eq!(due, [advert(936), advert(937)]);
        assert_eq!(adverts.deadline(), Some(advert(938).at));
        assert_eq!(adverts.take_due(begin + Duration::from_secs(9)).len(), 62);
        assert_eq!(adverts.deadline(), None);
    }
}
