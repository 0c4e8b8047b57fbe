//! The state of one neighbour, and its timers.
//!
//! Locks: its table's; the packets that wait (IFQUEUE), so that a further packet needs the table only for reading.
//! Sources: RFC 1122 section 2.3.2.1.

use std::mem;
use std::time::Duration;

use kern::prim::Mutex;
use kern::{LockClass, Time, order};
use mbuf::{Mbufq, Packet};
use wire::MacAddr;

use crate::faults::{StackFault, planted};

static WAITING: LockClass = LockClass::new("neighbour queue", order::IFQUEUE);

/// Between two requests for one address: RFC 1122 2.3.2.1 allows one a second.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Requests without an answer before the stack gives up.
pub(super) const TRIES_MAX: u8 = 3;

/// The state of one neighbour; its life is in the table of [`neighbour`](super).
#[derive(Debug)]
pub(super) enum NeighbourEntry {
    Incomplete {
        tries: u8,
        next: Time,
        waiting: Mutex<Mbufq>,
    },
    Known {
        mac: MacAddr,
        until: Time,
    },
    Probing {
        mac: MacAddr,
        tries: u8,
        next: Time,
    },
}

impl NeighbourEntry {
    /// One in which `packet` waits for the answer to a first question.
    pub(super) fn first_question(now: Time, packet: Packet) -> Self {
        let mut waiting = Mbufq::new();
        waiting.enqueue(packet);
        Self::incomplete(1, now + RETRY, waiting)
    }

    /// One in which packets wait, after this number of questions.
    pub(super) fn incomplete(tries: u8, next: Time, waiting: Mbufq) -> Self {
        Self::Incomplete {
            tries,
            next,
            waiting: Mutex::new(&WAITING, waiting),
        }
    }

    /// Its Ethernet address, if it is known.
    pub(super) fn mac(&self) -> Option<MacAddr> {
        match *self {
            Self::Incomplete { .. } => None,
            Self::Known { mac, .. } | Self::Probing { mac, .. } => Some(mac),
        }
    }

    /// The packets that wait in it.
    pub(super) fn into_waiting(self) -> Mbufq {
        match self {
            Self::Incomplete { waiting, .. } => mem::take(&mut *waiting.lock()),
            Self::Known { .. } | Self::Probing { .. } => Mbufq::new(),
        }
    }

    /// One more request if one is due and allowed.
    pub(super) fn retry(&mut self, now: Time) -> Retry {
        let mac = self.mac();
        match self {
            Self::Incomplete { tries, next, .. } | Self::Probing { tries, next, .. }
                if *next <= now =>
            {
                if *tries >= TRIES_MAX {
                    if planted(StackFault::EndlessCheck) && mac.is_some() {
                        *next = now + RETRY;
                        return Retry::Ask(mac);
                    }
                    return Retry::GiveUp;
                }
                if planted(StackFault::LostQuestion) && mac.is_none() {
                    *next = now + RETRY * 1000;
                    return Retry::NotYet;
                }
                *tries += 1;
                *next = now + RETRY;
                Retry::Ask(mac)
            }
            _ => Retry::NotYet,
        }
    }
}

/// The action of an entry's timer.
pub(super) enum Retry {
    NotYet,
    /// Ask all stations, or the one that had the address so far.
    Ask(Option<MacAddr>),
    GiveUp,
}
