//! How many error messages go out (RFC 1812 4.3.2.8): a flood of bad packets must not become a flood
//! of answers.
//!
//! One number says everything: the time at which a sender at exactly the allowed rate would be due
//! next (the generic cell rate algorithm). Each message moves it on by one interval; a message
//! is refused while it is more than a burst ahead of now.
//!
//! Locks: none.

use std::sync::atomic::{AtomicU64, Ordering};

use kern::{KeyedHash, Random, Time};

/// The part of a second's messages that may go out at once.
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

    /// Whether one more may go out now.
    pub(super) fn admit(&self, now: Time) -> bool {
        self.admit_at(now, self.interval_ns)
    }

    /// The same for one that counts as `cost_ns` of the time.
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

/// Limits for each of many, of which those with the same hash share one: a host that asks in the name of many others
/// uses up its own limit and not theirs. The cost of a message is random, one interval in the mean, so that no host can find
/// out by counting answers how many another got (RFC 4443 section 2.4 f; the side channel of SADDNS).
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

    /// Whether one more may go out now, of those with this key.
    pub(crate) fn admit(&self, key: &[u8], now: Time) -> bool {
        let place = self.hash.hash(key);
        let limiter = &self.limiters[place as usize % self.limiters.len()];
        let interval = limiter.interval_ns;
        let draw = self.hash.hash(&(place ^ now.as_nanos()).to_be_bytes());
        let more = draw.checked_rem(interval).unwrap_or(0);
        limiter.admit_at(now, interval / 2 + more)
    }
}

#[cfg(test)]
mod tests;
