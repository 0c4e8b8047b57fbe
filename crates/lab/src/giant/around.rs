//! The counts of locks and the scheduler while a program ran.
//!
//! Locks are counted for the process, so no other part of it may run meanwhile. Acquisitions without a wait are not
//! counted here: the count would cost more than they do. Locks: none.

use crate::harness::sys;
use kern::lock_stats;
use kern::show::LockStats;
use std::time::Duration;

/// The state of the counts at a moment.
pub(crate) struct Around {
    locks: LockStats,
    switches: u64,
}

/// The counts in between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    /// Times that a thread lost its CPU, or gave it up.
    pub(crate) switches: u64,
    /// Classes that were waited for.
    pub(crate) classes: Vec<Waits>,
}

/// How a class of locks was waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) class: &'static str,
    pub(crate) times: u64,
    pub(crate) waited: Duration,
}

impl Around {
    pub(crate) fn begin() -> Self {
        Self {
            locks: lock_stats(),
            switches: sys::switches(),
        }
    }

    pub(crate) fn end(&self) -> Cost {
        let switches = sys::switches() - self.switches;
        let now = lock_stats();
        let classes = now.classes.iter().map(|class| {
            // A class that was first used meanwhile began at 0.
            let before = self.locks.class(class.name);
            let (times, waited) = before.map_or_else(Default::default, |b| (b.contended, b.waited));
            Waits {
                class: class.name,
                times: class.contended.wrapping_sub(times),
                waited: class.waited.saturating_sub(waited),
            }
        });
        Cost {
            switches,
            classes: classes.filter(|class| class.times > 0).collect(),
        }
    }
}

impl Cost {
    /// How often any lock was waited for.
    pub(crate) fn times(&self) -> u64 {
        self.classes.iter().map(|class| class.times).sum()
    }

    /// How long all threads together waited for locks.
    pub(crate) fn waited(&self) -> Duration {
        self.classes.iter().map(|class| class.waited).sum()
    }

    /// The same of another run added.
    pub(crate) fn add(&mut self, other: &Self) {
        self.switches += other.switches;
        for theirs in &other.classes {
            match self.classes.iter_mut().find(|c| c.class == theirs.class) {
                Some(ours) => {
                    ours.times += theirs.times;
                    ours.waited += theirs.waited;
                }
                None => self.classes.push(*theirs),
            }
        }
    }

    /// The lock with the longest waiting, with its part of all waiting: `giant 93 %, unix receive buffer 6 %`.
    pub(crate) fn longest(&self) -> String {
        let all = self.waited().as_secs_f64();
        let mut classes = self.classes.clone();
        classes.sort_by_key(|class| std::cmp::Reverse(class.waited));
        let parts = classes.iter().map(|class| {
            let percent = class.waited.as_secs_f64() / all * 100.0;
            (percent, format!("{} {percent:.0} %", class.class))
        });
        let shown = parts.filter(|(percent, _)| *percent >= 5.0).take(2);
        shown.map(|(_, text)| text).collect::<Vec<_>>().join(", ")
    }
}
