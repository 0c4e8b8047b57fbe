//! The guest's pings that wait for an answer, each under its own sequence number of the gateway.
//!
//! The host's socket sends the pings of all programs of the guest, so the guest's own numbers are not unique there. The
//! gateway's numbers wrap: a ping without an answer may still wait when its number comes again, so numbers in use are
//! skipped.
//!
//! Invariants: at most [`PINGS_MAX`] wait, for which older ones give way ([`WaitingList`]); each holds at most
//! [`quote::KEPT_WHOLE_MAX`] bytes of buffers.
//! Locks: none.

use std::collections::HashMap;
use std::net::IpAddr;

use kern::CalloutId;
use mbuf::MbufPool;
use mbuma::socket::Echo;

use super::quote;
use super::waiting::{WaitingList, WaitingPlace};

/// Pings that wait at most.
const PINGS_MAX: usize = 4096;

/// The pings that wait.
#[derive(Debug)]
pub(super) struct PendingPings {
    by_seq: HashMap<u16, Pending>,
    waiting: WaitingList<u16>,
    /// The number that is tried first for the next ping.
    seq_next: u16,
}

#[derive(Debug)]
struct Pending {
    echo: Echo,
    /// The host to which it was sent: another one than the guest's address, if that is mapped.
    host: IpAddr,
    timer: CalloutId,
    place: WaitingPlace,
}

impl PendingPings {
    /// None yet; `by_guest`: there are several guests.
    pub(super) fn new(by_guest: bool) -> PendingPings {
        PendingPings {
            by_seq: HashMap::new(),
            waiting: WaitingList::new(PINGS_MAX, by_guest),
            seq_next: 0,
        }
    }

    /// The number for the next ping.
    pub(super) fn free_seq(&mut self) -> u16 {
        while self.by_seq.contains_key(&self.seq_next) {
            self.seq_next = self.seq_next.wrapping_add(1);
        }
        self.seq_next
    }

    /// Adds a ping that was sent to `host` under `seq`, a free number. Returns the timer of one that gave way.
    pub(super) fn insert(
        &mut self,
        pool: &MbufPool,
        seq: u16,
        (mut echo, host): (Echo, IpAddr),
        timer: CalloutId,
    ) -> Option<CalloutId> {
        let oldest = self.waiting.in_the_way();
        let gone = oldest.and_then(|seq| self.remove(seq));
        quote::shorten(pool, &mut echo.payload);
        let place = self.waiting.add(echo.src, seq);
        let pending = Pending {
            echo,
            host,
            timer,
            place,
        };
        self.by_seq.insert(seq, pending);
        self.seq_next = seq.wrapping_add(1);
        gone.map(|(_, timer)| timer)
    }

    /// The host to which the waiting ping `seq` was sent.
    pub(super) fn host(&self, seq: u16) -> Option<IpAddr> {
        self.by_seq.get(&seq).map(|pending| pending.host)
    }

    /// Removes it, with its timer.
    pub(super) fn remove(&mut self, seq: u16) -> Option<(Echo, CalloutId)> {
        let pending = self.by_seq.remove(&seq)?;
        self.waiting.remove(&pending.place);
        Some((pending.echo, pending.timer))
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.by_seq.clear();
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests;
