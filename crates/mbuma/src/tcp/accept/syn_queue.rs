//! The half-open connections of one listener: the stack has answered their SYN, and the peer has not acknowledged the
//! answer.
//!
//! An attacker that forges source addresses can begin any number of them, and each stays for a minute. So they do not
//! count against the backlog and have a bound of their own, beyond which the oldest is evicted. A genuine peer answers
//! within a round trip, and loses its place only if the bound is exceeded within that time.
//!
//! Locks: none; the queue's guards it.
//! Sources: RFC 4987 3.3 and 3.4; J. Lemon, *Resisting SYN flood DoS attacks with a SYN cache* (2002).

use std::collections::BTreeMap;

use crate::inet::Ends;

/// The number of a half-open connection of its listener; later ones have greater numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Half-open connections, by age.
#[doc(alias = "syncache")]
#[derive(Debug, Default)]
pub(super) struct SynQueue {
    by_age: BTreeMap<Ticket, Ends>,
    next: u64,
}

impl SynQueue {
    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }

    pub(super) fn add(&mut self, ends: Ends) -> Ticket {
        let ticket = Ticket(self.next);
        // 2^64 of them never come.
        self.next += 1;
        self.by_age.insert(ticket, ends);
        ticket
    }

    /// Removes the oldest if there are more than `max`.
    pub(super) fn evict_oldest(&mut self, max: usize) -> Option<(Ticket, Ends)> {
        match self.len() > max {
            true => self.by_age.pop_first(),
            false => None,
        }
    }

    /// A connection that was evicted before needs nothing.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.by_age.remove(&ticket);
    }
}
