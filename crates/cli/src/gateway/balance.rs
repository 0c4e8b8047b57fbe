//! How many of its busy connections a worker gives to another, so that each of them moves as much.
//!
//! A worker gives its connections equal turns, but two workers may have unequal numbers of busy ones, or unequal
//! shares of the machine's CPUs: 48 connections beside 16 on the other worker would each move a third. So each worker
//! counts, a period at a time, the connections that moved much and their bytes. With N connections and B bytes here,
//! and n and b there, all are equal after k have gone from here to there:
//!
//! ```text
//!     B / (N - k)  =  b / (n + k)        k = (N b - n B) / (B + b)
//! ```
//!
//! Half of k goes at a time, because the other worker's figures are from its last period. Only a worker that seldom
//! sleeps gives: else the hosts or the guest limit its connections.
//!
//! Called by: connections, event_loop. Calls: worker_pool.
//! Locks: none; a worker's own, but for [`BusyLoad`], which is published by its owner. Relaxed: figures that order nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kern::Time;

use super::worker_pool::WorkerPool;

/// How long connections are counted.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes in a period that make a connection busy.
const MUCH: u64 = 16 << 10;
/// The part of its connections that is not worth moving: figures vary from period to period.
const DEADBAND: u64 = 16;

/// The work of a worker's busy connections in its last period, as the other workers read it.
#[derive(Debug, Default)]
pub(super) struct BusyLoad {
    connections: AtomicU64,
    bytes: AtomicU64,
    /// When the period ended, in nanoseconds.
    at: AtomicU64,
}

/// The same, for its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) connections: u64,
    pub(super) bytes: u64,
}

/// The work of one connection in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    period: u64,
    bytes: u64,
}

/// A worker's current period.
#[derive(Debug)]
pub(super) struct Balance {
    since: Time,
    /// The number of the period; a connection's [`Recent`] begins with none.
    period: u64,
    sum: Sum,
    rounds: u32,
    sleeps: u32,
    /// The worker to give connections to, and how many.
    gift: Option<(usize, u64)>,
}

impl BusyLoad {
    fn publish(&self, now: Time, sum: Sum) {
        self.connections.store(sum.connections, Ordering::Relaxed);
        self.bytes.store(sum.bytes, Ordering::Relaxed);
        self.at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The figures, unless they are old.
    pub(super) fn at(&self, now: Time) -> Sum {
        let age = now
            .as_nanos()
            .saturating_sub(self.at.load(Ordering::Relaxed));
        if age > 3 * PERIOD.as_nanos() as u64 {
            return Sum::default();
        }
        Sum {
            connections: self.connections.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Sum {
    /// How many connections are to go from a worker with this load to one with load `to`.
    pub(super) fn surplus(self, to: Sum) -> u64 {
        let (here, there) = (u128::from(self.connections), u128::from(to.connections));
        let (bytes, others) = (u128::from(self.bytes), u128::from(to.bytes));
        let excess = (here * others).saturating_sub(there * bytes);
        let surplus = excess.checked_div(bytes + others).unwrap_or(0) as u64;
        match surplus > self.connections / DEADBAND {
            true => surplus.div_ceil(2),
            false => 0,
        }
    }
}

impl Balance {
    /// The first period begins.
    pub(super) fn new(now: Time) -> Balance {
        Balance {
            since: now,
            period: 1,
            sum: Sum::default(),
            rounds: 0,
            sleeps: 0,
            gift: None,
        }
    }

    /// A connection has moved `bytes` in a turn. Gives the worker that the connection is to go to, if to any.
    pub(super) fn moved(&mut self, recent: &mut Recent, bytes: u64) -> Option<usize> {
        if recent.period != self.period {
            *recent = Recent {
                period: self.period,
                bytes: 0,
            };
        }
        let before = recent.bytes;
        recent.bytes += bytes;
        match (before >= MUCH, recent.bytes >= MUCH) {
            (true, _) => self.sum.bytes += bytes,
            (false, true) => {
                self.sum.connections += 1;
                self.sum.bytes += recent.bytes;
            }
            (false, false) => return None,
        }
        let (to, left) = self.gift?;
        self.gift = (left > 1).then_some((to, left - 1));
        Some(to)
    }

    /// A round of worker `own` begins.
    pub(super) fn round(&mut self, worker_pool: &WorkerPool, own: usize, now: Time, sleeps: bool) {
        self.rounds += 1;
        self.sleeps += u32::from(sleeps);
        let length = now - self.since;
        if worker_pool.len() < 2 || length < PERIOD {
            return;
        }
        // A period that a long sleep was part of says nothing of the worker's power.
        let sum = match length < 2 * PERIOD {
            true => self.sum,
            false => Sum::default(),
        };
        worker_pool.load(own).publish(now, sum);
        let is_full = self.sleeps <= self.rounds / 2;
        let gift = is_full
            .then(|| worker_pool.surplus(own, sum, now))
            .flatten();
        *self = Balance {
            period: self.period + 1,
            gift,
            ..Balance::new(now)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::Sum;

    fn load(connections: u64, bytes: u64) -> Sum {
        Sum { connections, bytes }
    }

    #[test]
    fn connections_go_to_where_each_moves_more() {
        // Breaks when downloads of one worker move a multiple of what those of another do, or when equal workers
        // give connections to and fro.
        assert_eq!(load(48, 1000).surplus(load(16, 1000)), 8);
        assert_eq!(load(16, 1000).surplus(load(48, 1000)), 0);
        assert_eq!(load(4, 340).surplus(load(4, 575)), 1);
        assert_eq!(load(4, 575).surplus(load(4, 340)), 0);
        assert_eq!(load(4, 1000).surplus(load(4, 1100)), 0);
        assert_eq!(load(5, 1000).surplus(load(4, 1000)), 0);
        assert_eq!(load(1, 10).surplus(load(1, 1 << 40)), 0);
        assert_eq!(load(0, 0).surplus(load(0, 0)), 0);
        assert_eq!(load(2, 10).surplus(load(0, 0)), 0);
    }
}
