//! Connections in a TLS handshake, which ends with a reset if it takes too long or others need its place.
//!
//! Locks: none.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::{RelayState, Relayed};

/// The time that a handshake may take.
pub(super) const HANDSHAKE_MAX_TIME: Duration = Duration::from_secs(10);

/// Those in a handshake with the client, or those in one with the server.
pub(super) struct HandshakeList {
    is_in: fn(&RelayState) -> bool,
    /// In the order in which they began, with the time at which they end. Some have ended their handshake.
    due: VecDeque<(u64, Instant)>,
}

impl HandshakeList {
    /// An empty one of connections for whose state `is_in` is true.
    pub(super) fn new(is_in: fn(&RelayState) -> bool) -> HandshakeList {
        let due = VecDeque::new();
        HandshakeList { is_in, due }
    }

    /// A connection begins its handshake.
    pub(super) fn begin(&mut self, number: u64) {
        let until = Instant::now() + HANDSHAKE_MAX_TIME;
        self.due.push_back((number, until));
    }

    /// Whether there are `max`. Only if so, those that have ended their handshake are searched for and removed.
    pub(super) fn is_full(&mut self, max: usize, table: &HashMap<u64, Relayed>) -> bool {
        if self.due.len() >= max {
            let is_in = self.is_in;
            self.due
                .retain(|(number, _)| table.get(number).is_some_and(|one| is_in(&one.state)));
        }
        self.due.len() >= max
    }

    /// Ends the oldest; if it has ended its handshake, this has no effect.
    pub(super) fn end_oldest(&mut self, table: &mut HashMap<u64, Relayed>) {
        if let Some((number, _)) = self.due.pop_front()
            && table
                .get(&number)
                .is_some_and(|one| (self.is_in)(&one.state))
            && let Some(one) = table.remove(&number)
        {
            one.state.abort();
        }
    }

    /// Ends those that have taken too long; whether there were any.
    pub(super) fn end_late(&mut self, now: Instant, table: &mut HashMap<u64, Relayed>) -> bool {
        let mut any = false;
        while self.due.front().is_some_and(|(_, until)| *until <= now) {
            self.end_oldest(table);
            any = true;
        }
        any
    }
}
