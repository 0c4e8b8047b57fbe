//! The rate limit of error messages (RFC 1812 4.3.2.8): a flood of bad packets must not become a flood of answers.
//!
//! The state is one number: the time at which a sender at exactly the allowed rate would send next (the generic cell
//! rate algorithm). Each message moves that time on by one interval; a message is refused while the time is more than a
//! burst ahead of now.
//!
//! Locks: none.

use std::sync::atomic::{AtomicU64, Ordering};

use kern::{KeyedHash, Random, Time};

/// The fraction of a second's messages that may go out at once.
const BURST_PART: u64 = 10;

/// The limiter.
#[derive(Debug)]
pub(super) struct Limiter {
    /// When the next message is due, in nanoseconds. Relaxed: the number orders nothing else, and each
    /// update is one exchange.
    due_ns: AtomicU64,
    /// 0: nothing goes out.
    interval_ns: u64,
    burst_ns: u64,
}

impl Limiter {
    pub(super) fn new(per_s: u32) -> Self {
        let interval_ns = 1_000_000_000_u64
            .checked_div(u64::from(per_s))
            .map_or(0, |ns| ns.max(1));
        let burst_ns = interval_ns.max(1_000_000_000 / BURST_PART);
        Self {
            due_ns: AtomicU64::new(0),
            interval_ns,
            burst_ns,
        }
    }

    /// Whether one more message may go out now.
    pub(super) fn admit(&self, now: Time) -> bool {
        self.admit_at(now, self.interval_ns)
    }

    /// The same for a message that costs `cost_ns`.
    fn admit_at(&self, now: Time, cost_ns: u64) -> bool {
        let now = now.as_nanos();
        let next = |due: u64| {
            let due = due.max(now);
            let early = due - now;
            (self.interval_ns != 0 && early < self.burst_ns).then(|| due.saturating_add(cost_ns))
        };
        self.due_ns
            .try_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

/// A limit for each of many keys; keys with the same hash share one. So a host that forges many sources does not use up
/// the limit of all others. The cost of a message is random, with a mean of one interval, so that a host that counts
/// its answers learns nothing of the answers to another host (RFC 4443 section 2.4 f; the side channel of SADDNS).
#[derive(Debug)]
pub(crate) struct KeyedLimits {
    hash: KeyedHash,
    limiters: Box<[Limiter]>,
}

impl KeyedLimits {
    /// `count` limits, of `each` messages a second.
    pub(crate) fn new(each: u32, count: usize, random: &mut Random) -> Self {
        Self {
            hash: KeyedHash::new(random),
            limiters: (0..count).map(|_| Limiter::new(each)).collect(),
        }
    }

    /// Whether one more message with this key may go out now.
    pub(crate) fn admit(&self, key: &[u8], now: Time) -> bool {
        let place = self.hash.hash(key);
        let limiter = &self.limiters[place as usize % self.limiters.len()];
        let interval = limiter.interval_ns;
        let draw = self.hash.hash(&(place ^ now.as_nanos()).to_be_bytes());
        let more = draw.checked_rem(interval).unwrap_or(0);
        limiter.admit_at(now, interval / 2 + more)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
