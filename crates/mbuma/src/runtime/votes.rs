//! The end of a pool's service: how far it is, and whether any worker still has something to wait for.
//!
//! [`Phase`] goes one way. In the phases between the first and the last each worker votes whether it still has work to wait
//! for. The service can end when all workers vote that they have none *and* no ready list has an entry, both read under one
//! lock. A worker retracts its vote, under that lock, before it takes anything in: from its list, its timers, its
//! descriptors. So a worker whose vote stands, and whose list is empty, is not in the middle of anything; and all that it
//! passed to others is on their lists.
//!
//! A peer that never falls silent is never idle: a worker that has waited long enough votes [`Quiescence::TimedOut`] for good.
//!
//! Locks: `votes` (STACK_CONFIG), with nothing called under it.

use std::sync::atomic::{AtomicU8, Ordering};

use kern::{LockClass, Mutex, order};

use super::crew::Crew;

static VOTES: LockClass = LockClass::new("runtime votes", order::STACK_CONFIG);

/// How far the service of a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Workers serve.
    Serve,
    /// The peers have ended, and their data is delivered.
    Linger,
    /// The program was asked to end, and answers under way are sent.
    Drain,
    /// All workers leave.
    End,
}

/// Whether a worker has anything to wait for, in the phases before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiescence {
    /// It has, or is in the middle of something.
    Busy,
    /// It has nothing, until it takes something in.
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
    /// Of `count` workers that begin to serve.
    pub(super) fn new(count: usize) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Serve as u8),
            votes: Mutex::new(&VOTES, vec![Quiescence::Busy; count]),
        }
    }
}

impl Crew {
    /// How far the service is.
    pub(super) fn phase(&self) -> Phase {
        match self.votes.phase.load(Ordering::Acquire) {
            0 => Phase::Serve,
            1 => Phase::Linger,
            2 => Phase::Drain,
            _ => Phase::End,
        }
    }

    /// The service goes on to `phase`, never back: wakes all workers.
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

    /// Worker `index` votes. True if the service can end: then worker 0 is woken, if it is another.
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

#[cfg(test)]
mod tests;
