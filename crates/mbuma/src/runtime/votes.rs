//! The end of a pool's service: its phase, and whether any worker still waits for something.
//!
//! [`Phase`] only advances. In the phases between the first and the last, each worker votes whether it still waits for
//! work. The service can end when all workers vote that they wait for none *and* no ready list has an entry; both are
//! read under one lock. A worker retracts its vote, under that lock, before it takes anything in from its list, its
//! timers or its descriptors. So a worker with a standing vote and an empty list is not in the middle of any work, and
//! everything that it passed to other workers is on their lists.
//!
//! A worker whose peers never stop sending would never be idle: after a bounded time it votes [`Quiescence::TimedOut`],
//! which stays.
//!
//! Locks: `votes` (STACK_CONFIG), with nothing called under it.

use std::sync::atomic::{AtomicU8, Ordering};

use kern::{LockClass, Mutex, order};

use super::worker_set::WorkerSet;

static VOTES: LockClass = LockClass::new("runtime votes", order::STACK_CONFIG);

/// The phase of a pool's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Workers serve.
    Serve,
    /// The peers have ended, and their data is delivered.
    Linger,
    /// The program was asked to end, and is sending its last answers.
    Drain,
    /// All workers leave.
    End,
}

/// Whether a worker still waits for something, in the phases before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiescence {
    /// It does, or is in the middle of some work.
    Busy,
    /// It waits for nothing, until it takes something in.
    Idle,
    /// It has waited for the longest time, and will not wait for anything more.
    TimedOut,
}

/// The phase, and a vote for each worker.
pub(super) struct Votes {
    /// A [`Phase`]. Release and Acquire, though each worker is also woken after it changed.
    phase: AtomicU8,
    votes: Mutex<Vec<Quiescence>>,
}

impl Votes {
    /// The votes of `count` workers that begin to serve.
    pub(super) fn new(count: usize) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Serve as u8),
            votes: Mutex::new(&VOTES, vec![Quiescence::Busy; count]),
        }
    }
}

impl WorkerSet {
    /// How far the service is.
    pub(super) fn phase(&self) -> Phase {
        match self.votes.phase.load(Ordering::Acquire) {
            0 => Phase::Serve,
            1 => Phase::Linger,
            2 => Phase::Drain,
            _ => Phase::End,
        }
    }

    /// Advances the service to `phase`, never back, and wakes all workers.
    pub(super) fn advance(&self, phase: Phase) {
        self.votes.phase.fetch_max(phase as u8, Ordering::Release);
        self.wake_all();
    }

    /// Worker `index` is about to take something in.
    pub(super) fn retract_vote(&self, index: usize) {
        let vote = &mut self.votes.votes.lock()[index];
        if *vote == Quiescence::Idle {
            *vote = Quiescence::Busy;
        }
    }

    /// Worker `index` votes. True if the service can end; then worker 0 is woken, unless it is the caller.
    pub(super) fn vote(&self, index: usize, vote: Quiescence) -> bool {
        let mut votes = self.votes.votes.lock();
        votes[index] = vote;
        let done = |(worker, vote): (usize, &Quiescence)| {
            self.has_lost(worker)
                || match vote {
                    Quiescence::Busy => false,
                    Quiescence::Idle => self.ready(worker).is_empty(),
                    Quiescence::TimedOut => true,
                }
        };
        let all = votes.iter().enumerate().all(done);
        drop(votes);
        if all && index != 0 {
            self.wake(0);
        }
        all
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
