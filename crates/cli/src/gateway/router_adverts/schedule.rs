//! The times of unsolicited router advertisements.
//!
//! Invariants: nothing before the first question; from then on there is always a next time; two advertisements to all
//! are [`PAUSE`] apart at least.
//! Locks: none.
//! Sources: RFC 4861 sections 6.2.1, 6.2.4, 6.2.6 and 10.

use std::time::Duration;

use kern::{Random, Time};

/// Between two advertisements to all: at random between these (MinRtrAdvInterval, MaxRtrAdvInterval).
const INTERVAL_MIN: Duration = Duration::from_secs(200);
pub(super) const INTERVAL_MAX: Duration = Duration::from_secs(600);
/// The first of them come sooner (MAX_INITIAL_RTR_ADVERTISEMENTS, MAX_INITIAL_RTR_ADVERT_INTERVAL).
const FIRST_COUNT: u8 = 3;
const FIRST_INTERVAL: Duration = Duration::from_secs(16);
/// Between two at least (MIN_DELAY_BETWEEN_RAS).
const PAUSE: Duration = Duration::from_secs(3);

/// The times.
#[derive(Debug)]
pub(super) struct AdvertSchedule {
    random: Random,
    last: Option<Time>,
    next: Option<Time>,
    sent_first: u8,
}

impl AdvertSchedule {
    /// Nothing is to be sent yet.
    pub(super) fn new(random: Random) -> AdvertSchedule {
        AdvertSchedule {
            random,
            last: None,
            next: None,
            sent_first: 0,
        }
    }

    /// A station solicited; `to_all`: the answer goes to all, as soon as it may be sent.
    pub(super) fn solicited(&mut self, now: Time, to_all: bool) {
        let wanted = match to_all {
            true => self.last.map_or(now, |last| now.max(last + PAUSE)),
            false => now + FIRST_INTERVAL,
        };
        match self.next {
            Some(next) if !to_all || next <= wanted => {}
            _ => self.next = Some(wanted),
        }
    }

    /// Whether an advertisement is due now; it then counts as sent.
    pub(super) fn take_due(&mut self, now: Time) -> bool {
        let is_due = self.next.is_some_and(|at| at <= now);
        if is_due {
            self.last = Some(now);
            self.sent_first = self.sent_first.saturating_add(1);
            self.next = Some(now + self.interval());
        }
        is_due
    }

    fn interval(&mut self) -> Duration {
        if self.sent_first < FIRST_COUNT {
            return FIRST_INTERVAL;
        }
        let span = (INTERVAL_MAX - INTERVAL_MIN).as_millis() as u64;
        INTERVAL_MIN + Duration::from_millis(self.random.below(span))
    }

    /// The time of the next advertisement; `None` before the first solicitation.
    pub(super) fn next(&self) -> Option<Time> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r7_advertisements_begin_with_the_first_question_and_become_rare() {
        // Breaks if a router speaks before it is asked, stays silent afterwards, or keeps its first pace.
        let mut schedule = AdvertSchedule::new(Random::from_seed(1));
        let mut now = Time::ZERO;
        assert!(!schedule.take_due(now) && schedule.next().is_none());
        schedule.solicited(now, false);
        let mut pauses = Vec::new();
        for _ in 0..20 {
            let next = schedule.next().expect("it was asked");
            assert!(!schedule.take_due(now));
            pauses.push(next - now);
            now = next;
            assert!(schedule.take_due(now));
        }
        assert_eq!(pauses[..3], [FIRST_INTERVAL; 3]);
        let usual = INTERVAL_MIN..=INTERVAL_MAX;
        assert!(
            pauses[3..].iter().all(|pause| usual.contains(pause)),
            "{pauses:?}"
        );
        assert_ne!(pauses[4], pauses[5]);
    }

    #[test]
    fn r8_answers_to_all_are_three_seconds_apart() {
        // Breaks if a flood of questions from stations without an address floods all others, or one waits for long.
        let mut schedule = AdvertSchedule::new(Random::from_seed(1));
        let mut now = Time::ZERO;
        let mut sent = Vec::new();
        for _ in 0..100 {
            schedule.solicited(now, true);
            if schedule.take_due(now) {
                sent.push(now);
            }
            now += Duration::from_millis(100);
        }
        assert_eq!(sent[0], Time::ZERO);
        assert_eq!(sent.len(), 4);
        assert!(
            sent.windows(2).all(|two| two[1] - two[0] == PAUSE),
            "{sent:?}"
        );
    }
}
