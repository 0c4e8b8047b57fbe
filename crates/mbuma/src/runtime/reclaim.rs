//! Gives memory of the stacks' pools back to the system, on worker 0.
//!
//! While the pools are not used there are no ticks, so that an idle program is not woken. The first worker that uses
//! them then wakes worker 0.
//!
//! Invariants: only one worker reclaims, and while no stack is used it is not woken for that. Locks: none of its own.

use std::sync::Arc;

use kern::Time;
use uma::{LoopReclaimer, Pace};

use super::poller::{Interest, Readiness};
use super::sleeper::{PRESSURE, Sleeper};
use super::worker_set::{StackList, WorkerSet};

/// The reclaimer of worker 0.
pub(super) struct Reclaim {
    zones: LoopReclaimer,
    sleeper: Arc<Sleeper>,
}

impl Reclaim {
    /// Nothing to reclaim yet. If the kernel offers no pressure trigger, the ticks check the pressure themselves.
    pub(super) fn new(sleeper: &Arc<Sleeper>) -> Self {
        let mut zones = LoopReclaimer::new(Pace::default());
        let watch = |fd| sleeper.poller().add(fd, PRESSURE, Interest::PriorityEdge);
        let lost = zones.event().is_some_and(|fd| watch(fd).is_err());
        if lost {
            zones.lose_event();
        }
        Self {
            zones,
            sleeper: Arc::clone(sleeper),
        }
    }

    /// The reclaimer, for its figures.
    pub(super) fn zones(&self) -> &LoopReclaimer {
        &self.zones
    }

    /// Reclaims the pools of the list's stacks too.
    pub(super) fn watch(&mut self, stack_list: &StackList, now: Time) {
        let pools = stack_list.stacks.iter().map(|stack| stack.pool());
        pools.for_each(|pool| pool.watch_with(self.zones.set_mut()));
        self.zones.resume(now);
    }

    /// The kernel's pressure trigger has fired.
    pub(super) fn press(&mut self, readiness: Readiness, now: Time) {
        match readiness.failed() {
            true => self.zones.lose_event(),
            false => self.zones.press(now),
        }
    }

    /// When a tick is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.zones.deadline()
    }

    /// Called at the end of each round of worker 0. After a tick it returns whether that was the last one until the
    /// pools are used.
    pub(super) fn round(&mut self, worker_set: &WorkerSet, now: Time) -> Option<bool> {
        if worker_set.is_used() {
            self.zones.resume(now);
        }
        if self.zones.deadline()? > now {
            return None;
        }
        let is_last = self.zones.tick(now);
        if is_last {
            worker_set.expect_use();
        }
        Some(is_last)
    }
}

impl Drop for Reclaim {
    fn drop(&mut self) {
        if let Some(fd) = self.zones.event() {
            // It fails only if the descriptor was never watched.
            let _ = self.sleeper.poller().remove(fd);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::runtime::test_worker_set::worker_set;

    #[test]
    fn the_ticks_end_until_the_stacks_are_used_again() {
        // Breaks when an idle program is woken for ticks for ever, or when none follow a later use.
        let worker_set = worker_set(1);
        let mut reclaim = Reclaim::new(&worker_set.sleeper(0));
        let mut now = Time::from_secs(1);
        for use_number in 0..2 {
            worker_set.note_use();
            let _: Option<bool> = reclaim.round(&worker_set, now);
            let mut ticks = 0;
            while let Some(at) = reclaim.deadline() {
                (now, ticks) = (now.max(at), ticks + 1);
                let _: Option<bool> = reclaim.round(&worker_set, now);
                assert!(ticks < 1000, "use {use_number}");
            }
            assert!(ticks > 0, "use {use_number}");
            assert_eq!(reclaim.round(&worker_set, now), None);
            assert_eq!(reclaim.deadline(), None, "it is not used");
        }
    }
}
