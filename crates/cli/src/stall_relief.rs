//! Resets connections whose peer takes nothing, when buffers run short.
//!
//! A host that does not read keeps 128 to 256 KiB of the guest's data in buffers, a guest as much of the host's, and a
//! client of `mbuma relay` up to 512 KiB of the server's. Each may have thousands of such connections, until all
//! buffers are in use and no other connection makes progress. So when little storage is left, the connections whose
//! peer has taken nothing for long are reset, the longest stalled first: otherwise the peer could keep the data for
//! ever.
//!
//! Invariants: with enough storage no connection is reset here, however long it stalls.
//! Locks: none.

use std::time::Duration;

use kern::Time;
use mbuf::Headroom;

/// The part of the storage below which stalled connections are reset. Reading from hosts stops at an eighth.
const SHORT_SHARE: usize = 4;
/// The time for which a peer must have taken nothing.
const STALLED_MIN: Duration = Duration::from_secs(10);
/// Connections that are reset in a check at most: they may free 32 MiB or more.
const RESETS_MAX: usize = 256;
/// The time between two checks.
const PERIOD: Duration = Duration::from_secs(1);

/// Decides when a thread checks for stalled connections.
#[derive(Debug, Default)]
pub(crate) struct StallRelief {
    checked_at: Time,
}

impl StallRelief {
    /// Whether it is time for a check, and `headroom` says that storage is short.
    pub(crate) fn is_due(&mut self, now: Time, headroom: impl FnOnce() -> Headroom) -> bool {
        if now - self.checked_at < PERIOD {
            return false;
        }
        self.checked_at = now;
        let Headroom { left, max } = headroom();
        left < max / SHORT_SHARE
    }
}

/// The progress of a direction of a connection, as of the last look at it.
#[derive(Clone, Copy)]
pub(crate) struct DirectionProgress {
    /// A number that changes with each acknowledgement of the side that receives; none while no data wait for it.
    taken: Option<u64>,
    /// When that was first seen.
    since: Time,
}

impl DirectionProgress {
    /// Of one that begins.
    pub(crate) fn begin(now: Time) -> DirectionProgress {
        DirectionProgress {
            taken: None,
            since: now,
        }
    }

    /// The time since which nothing was taken, after these bytes in all; none if nothing waits.
    pub(crate) fn look(&mut self, taken: u64, waiting: u64, now: Time) -> Option<Time> {
        // A side for which nothing waited may have been idle for long: its time begins with the next data.
        let taken = (waiting > 0).then_some(taken);
        if taken != self.taken {
            *self = DirectionProgress { taken, since: now };
        }
        taken.map(|_| self.since)
    }
}

/// The connections to reset, of those that are stalled, each with the time since which it is.
pub(crate) fn victims<T>(mut stalled: Vec<(Time, T)>, now: Time) -> impl Iterator<Item = T> {
    stalled.retain(|(since, _)| now - *since >= STALLED_MIN);
    stalled.sort_unstable_by_key(|(since, _)| *since);
    stalled.into_iter().take(RESETS_MAX).map(|(_, token)| token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 512 << 20;

    #[test]
    fn a_stall_begins_with_the_data_that_wait() {
        // Breaks when a client that got nothing for long is taken for a stalled one as soon as data come for it.
        let second = Time::from_secs;
        let mut direction = DirectionProgress::begin(second(0));
        assert_eq!(direction.look(0, 0, second(30)), None);
        assert_eq!(direction.look(0, 100, second(60)), Some(second(60)));
        assert_eq!(direction.look(0, 150, second(69)), Some(second(60)));
        assert_eq!(direction.look(1, 149, second(70)), Some(second(70)));
        assert_eq!(direction.look(150, 0, second(71)), None);
        assert_eq!(direction.look(150, 1, second(99)), Some(second(99)));
    }

    #[test]
    fn only_the_longest_stalled_end_and_only_when_storage_is_short() {
        // Breaks when clients that read nothing keep all buffers for themselves; when one that pauses is reset although
        // there is room; or when all are reset where a few would do.
        let second = |n| Time::ZERO + Duration::from_secs(n);
        let mut relief = StallRelief::default();
        let with = |left| move || Headroom { left, max: MAX };
        assert!(!relief.is_due(second(100), with(MAX / 4)));
        assert!(
            !relief.is_due(second(100), with(0)),
            "a check was made just now"
        );
        assert!(relief.is_due(second(101), with(MAX / 4 - 1)));

        let stalled = |n: u64| (second(100 - n), n);
        let few: Vec<_> = victims((0..20).map(stalled).collect(), second(100)).collect();
        assert_eq!(few, (10..20).rev().collect::<Vec<_>>());
        let many = victims((0..1000).map(|n| (second(0), n)).collect(), second(100));
        assert_eq!(many.count(), RESETS_MAX);
    }
}
