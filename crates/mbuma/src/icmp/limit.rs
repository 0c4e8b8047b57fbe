//! How many error messages go out (RFC 1812 4.3.2.8): a flood of bad packets must not become a flood
//! of answers.
//!
//! Called by: icmp/output. Calls: nothing.
//!
//! One number says everything: the time at which a sender at exactly the allowed rate would be due
//! next (the generic cell rate algorithm). Each message moves it on by one interval; a message
//! is refused while it is more than a burst ahead of now.
//!
//! Locks: none.

use std::sync::atomic::{AtomicU64, Ordering};

use kern::Time;

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
        let now = now.as_nanos();
        let next = |due: u64| {
            let due = due.max(now);
            let early = due - now;
            (self.interval_ns != 0 && early < self.burst_ns)
                .then(|| due.saturating_add(self.interval_ns))
        };
        self.due_ns
            .try_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

#[cfg(test)]
mod tests;
