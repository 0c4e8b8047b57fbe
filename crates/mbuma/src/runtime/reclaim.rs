//! Giving memory of the stacks' pools back to the system, on worker 0.
//!
//! Called by: worker. Calls: [`uma::LoopReclaimer`].
//! Invariants: one worker reclaims; it is not woken while no stack is used.
//! Locks: none of its own.

use std::sync::Arc;
use std::time::Duration;

use kern::{Clock, MonotonicClock};
use uma::{LoopReclaimer, Pace};

use super::crew::{Crew, Roster};
use super::poller::{Interest, Readiness};
use super::sleeper::{PRESSURE, Sleeper};

/// The reclaimers of worker 0.
pub(super) struct Reclaim {
    zones: LoopReclaimer,
    clock: MonotonicClock,
    sleeper: Arc<Sleeper>,
    /// The roster whose pools are watched.
    roster: u64,
}

impl Reclaim {
    /// Nothing to reclaim yet.
    pub(super) fn new(sleeper: &Arc<Sleeper>) -> Self {
        let mut zones = LoopReclaimer::new(Pace::default());
        let lost = zones.event().is_some_and(|fd| {
            sleeper
                .poller()
                .add(fd, PRESSURE, Interest::PriorityEdge)
                .is_err()
        });
        if lost {
            zones.lose_event();
        }
        Self {
            zones,
            clock: MonotonicClock::new(),
            sleeper: Arc::clone(sleeper),
            roster: 0,
        }
    }

    /// A round of worker 0, after its work. `pressure`: the news of the kernel's trigger.
    pub(super) fn round(&mut self, crew: &Crew, roster: &Roster, pressure: Option<Readiness>) {
        let now = self.clock.now();
        if roster.number != self.roster {
            self.roster = roster.number;
            let pools = roster.stacks.iter().map(|stack| stack.pool());
            pools.for_each(|pool| pool.watch_with(self.zones.set_mut()));
            self.zones.resume(now);
        }
        if crew.is_used() {
            self.zones.resume(now);
        }
        match pressure {
            Some(readiness) if readiness.failed() => self.zones.lose_event(),
            Some(_) => self.zones.press(now),
            None => {}
        }
        if self.zones.deadline().is_some_and(|at| at <= now) && self.zones.tick(now) {
            crew.expect_use();
        }
    }

    /// How long until a tick is due.
    pub(super) fn time_left(&self) -> Option<Duration> {
        Some(self.zones.deadline()? - self.clock.now())
    }
}

impl Drop for Reclaim {
    fn drop(&mut self) {
        if let Some(fd) = self.zones.event() {
            // It fails only if it was never watched.
            let _ = self.sleeper.poller().remove(fd);
        }
    }
}
