//! The table of the stations on one link: which Ethernet address has an address of IPv4, or of IPv6.
//!
//! Data only: [`arp`](crate::ether::arp) and [`nd`](crate::ether::nd) ask, answer and drop as these functions tell them.
//!
//! An entry's life:
//!
//! | state | operations | caveats |
//! |---|---|---|
//! | `Incomplete` | up to `queue_max` packets wait in it; the stack asks three times, once a second | without an answer the entry and its packets are dropped |
//! | `Known` | packets leave at once | past `until` the next packet starts a probe |
//! | `Probing` | as `Known`, while the stack asks the neighbour itself (RFC 1122 2.3.2.1) | without an answer the entry is dropped |
//!
//! Invariants: at most [`ENTRIES_MAX`] entries; packets wait only in `Incomplete`; only `Incomplete` and
//! `Probing` have deadlines.
//! Locks: `table` (ARP, read-mostly: a packet to a known neighbour writes to no shared line); nothing is sent, and no
//! packet freed, while it is held.
//! Sources: RFC 826, RFC 1122 section 2.3.2.

use std::collections::BTreeMap;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kern::prim::RmLock;
use kern::{LockClass, Time, order};
use mbuf::{Mbufq, Packet};
use wire::MacAddr;

use entry::{NeighbourEntry, RETRY, Retry};

mod discovery;
mod entry;

static TABLE: LockClass = LockClass::new("neighbours", order::ARP);

/// How long an answer is believed, and when the first question of a probe goes out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) lifetime: Duration,
    /// A probe begins with this delay, in which a protocol above may hear from the neighbour; without one, with a question.
    delay: Option<Duration>,
}

impl Timing {
    /// ARP's: RFC 1122 2.3.2.1 leaves the lifetime open; BSD's 20 minutes.
    const ARP: Self = Self {
        lifetime: Duration::from_secs(20 * 60),
        delay: None,
    };

    /// Neighbour discovery's (RFC 4861 section 10: DELAY_FIRST_PROBE_TIME).
    pub(crate) const fn discovery(lifetime: Duration) -> Self {
        Self {
            lifetime,
            delay: Some(Duration::from_secs(5)),
        }
    }
}

/// An interface's two tables.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) v4: Neighbours<Ipv4Addr>,
    pub(crate) v6: Neighbours<Ipv6Addr>,
}

impl Tables {
    /// `queue_max`: packets that wait for one answer; `reachable`: how long an answer of neighbour discovery is believed.
    pub(crate) fn new(queue_max: usize, reachable: Duration) -> Self {
        Self {
            v4: Neighbours::new(queue_max, Timing::ARP),
            v6: Neighbours::new(queue_max, Timing::discovery(reachable)),
        }
    }
}

/// Entries in a table at most.
pub(crate) const ENTRIES_MAX: usize = 1024;

/// No deadline, and no generation.
const NEVER: u64 = u64::MAX;

/// The neighbours on one link.
#[derive(Debug)]
pub(crate) struct Neighbours<A> {
    /// Ordered by address, so that a run can be repeated exactly.
    table: RmLock<BTreeMap<A, NeighbourEntry>>,
    /// Counts changes, from 1: a sender's kept [`Hop`] is good until the next one.
    generation: AtomicU64,
    /// The earliest deadline of an entry, in nanoseconds, as of the generation `due_of`: until the next change the thread
    /// that runs timers takes no lock.
    due: AtomicU64,
    due_of: AtomicU64,
    queue_max: usize,
    /// How long an answer is believed, in nanoseconds. Relaxed: an entry made meanwhile may have either.
    lifetime_ns: AtomicU64,
    delay: Option<Duration>,
}

/// A neighbour's address that a sender keeps, to look it up no more while nothing changes.
#[doc(alias = "ro_lle")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    /// Never 0, so that a kept route without one needs no room to say so.
    generation: NonZeroU64,
    until: Time,
    mac: MacAddr,
}

impl Hop {
    /// Whether a sign that the neighbour is reachable saves a question: it is being probed, or will be soon.
    pub(crate) fn is_doubtful(&self, now: Time) -> bool {
        const SOON: Duration = Duration::from_secs(10);
        self.until == Time::MAX || self.until <= now + SOON
    }
}

/// The outcome of a packet's look for its neighbour.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// The packet goes to this address.
    Known(MacAddr, Packet),
    /// The same; a probe of that station begins.
    Probe(MacAddr, Packet),
    /// The packet waits for an answer.
    Waits,
    /// The same; the caller asks all stations. These packets waited in the entry that was evicted for this one.
    Ask(Mbufq),
    /// The same; too many wait for the same answer, and this one, the oldest, is given up.
    Full(Packet),
    /// The link is gone.
    Gone(Packet),
}

/// The packets that a learnt address frees.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    /// These waited for the address.
    pub(crate) waiting: Mbufq,
    /// These waited in an entry that was evicted.
    pub(crate) evicted: Mbufq,
}

/// The actions that a table's timers ask for.
#[derive(Debug)]
pub(crate) struct Overdue<A> {
    /// Addresses to ask for once more: all stations, or the one that has the address so far.
    pub(crate) ask: Vec<(A, Option<MacAddr>)>,
    /// Stations that do not answer, and the packets that waited for each.
    pub(crate) lost: Vec<(A, Mbufq)>,
}

impl<A: Copy + Ord> Neighbours<A> {
    pub(crate) fn new(queue_max: usize, timing: Timing) -> Self {
        Self {
            table: RmLock::new(&TABLE, BTreeMap::new()),
            generation: AtomicU64::new(1),
            due: AtomicU64::new(NEVER),
            due_of: AtomicU64::new(1),
            queue_max,
            lifetime_ns: AtomicU64::new(timing.lifetime.as_nanos() as u64),
            delay: timing.delay,
        }
    }

    /// How long an answer is believed.
    fn lifetime(&self) -> Duration {
        Duration::from_nanos(self.lifetime_ns.load(Ordering::Relaxed))
    }

    /// Answers that come from now on are believed for this long.
    pub(crate) fn set_lifetime(&self, lifetime: Duration) {
        let ns = lifetime.as_nanos() as u64;
        self.lifetime_ns.store(ns, Ordering::Relaxed);
    }

    /// Voids the senders' kept hops. Under the table's lock, before it is changed.
    fn changes(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// The neighbour's address, if it is known and needs no probe: the common case.
    fn known(&self, now: Time, addr: A) -> Option<Hop> {
        let table = self.table.read();
        let (mac, until) = match *table.get(&addr)? {
            NeighbourEntry::Known { mac, until } if now < until => (mac, until),
            // Until an answer says otherwise, or the questions end.
            NeighbourEntry::Probing { mac, .. } => (mac, Time::MAX),
            NeighbourEntry::Known { .. } | NeighbourEntry::Incomplete { .. } => return None,
        };
        // Relaxed: it changes under the lock only.
        let generation = NonZeroU64::new(self.generation.load(Ordering::Relaxed))?;
        Some(Hop {
            generation,
            until,
            mac,
        })
    }

    /// The address of a neighbour that is known to be there.
    pub(crate) fn known_mac(&self, now: Time, addr: A) -> Option<MacAddr> {
        self.known(now, addr).map(|hop| hop.mac)
    }

    /// The address that a sender kept, if it is still valid.
    pub(crate) fn kept(&self, now: Time, hop: &Option<Hop>) -> Option<MacAddr> {
        // Relaxed: a sender that sees a change late sent before it.
        let generation = self.generation.load(Ordering::Relaxed);
        let fresh = |hop: &Hop| hop.generation.get() == generation && now < hop.until;
        hop.filter(fresh).map(|hop| hop.mac)
    }

    /// Finds the Ethernet address for packets to `addr`, for the sender to keep, or keeps the packet until a station
    /// answers. `is_gone` says whether the link is gone. The sender calls it under the table's lock; the thread that
    /// takes the link away takes that lock later, to empty the table.
    #[doc(alias = "arpresolve")]
    pub(crate) fn resolve(
        &self,
        now: Time,
        is_gone: impl FnOnce() -> bool,
        addr: A,
        packet: Packet,
        hop: &mut Option<Hop>,
    ) -> Resolution {
        *hop = self.known(now, addr);
        if let Some(hop) = hop {
            return Resolution::Known(hop.mac, packet);
        }
        let mut table = self.table.write();
        self.changes();
        if is_gone() {
            return Resolution::Gone(packet);
        }
        match table.get_mut(&addr) {
            Some(NeighbourEntry::Known { mac, until }) if now < *until => {
                Resolution::Known(*mac, packet)
            }
            Some(NeighbourEntry::Probing { mac, .. }) => Resolution::Known(*mac, packet),
            Some(entry @ NeighbourEntry::Known { .. }) => {
                let mac = entry.mac().unwrap_or(MacAddr::BROADCAST);
                *entry = NeighbourEntry::Probing {
                    mac,
                    tries: u8::from(self.delay.is_none()),
                    next: now + self.delay.unwrap_or(RETRY),
                };
                Resolution::Probe(mac, packet)
            }
            Some(NeighbourEntry::Incomplete { waiting, .. }) => {
                let is_full = waiting.len() >= self.queue_max;
                waiting.enqueue(packet);
                // The oldest is worth the least (RFC 4861 section 7.2.2, RFC 1122 section 2.3.2.2).
                match is_full.then(|| waiting.dequeue()).flatten() {
                    Some(oldest) => Resolution::Full(oldest),
                    None => Resolution::Waits,
                }
            }
            None => Resolution::Ask(start(&mut table, addr, packet, now)),
        }
    }

    /// Notes that a neighbour has an address. `is_new_wanted`: it speaks to us, so it is worth an entry.
    pub(crate) fn learn(&self, now: Time, addr: A, mac: MacAddr, is_new_wanted: bool) -> Learnt {
        let known = NeighbourEntry::Known {
            mac,
            until: now + self.lifetime(),
        };
        let mut learnt = Learnt::default();
        let mut table = self.table.write();
        self.changes();
        if let Some(entry) = table.get_mut(&addr) {
            learnt.waiting = mem::replace(entry, known).into_waiting();
        } else if is_new_wanted {
            learnt.evicted = make_room(&mut table);
            table.insert(addr, known);
        }
        learnt
    }

    /// Forgets everything; returns the waiting packets.
    pub(crate) fn flush(&self) -> impl Iterator<Item = Mbufq> {
        let table = {
            let mut table = self.table.write();
            self.changes();
            mem::take(&mut *table)
        };
        table.into_values().map(NeighbourEntry::into_waiting)
    }

    /// The stations to ask again, or to give up.
    #[doc(alias = "arptimer")]
    pub(crate) fn overdue(&self, now: Time) -> Overdue<A> {
        let mut due = Overdue {
            ask: Vec::new(),
            lost: Vec::new(),
        };
        let mut silent = Vec::new();
        let mut table = self.table.write();
        for (&addr, entry) in table.iter_mut() {
            match entry.retry(now) {
                Retry::NotYet => {}
                Retry::Ask(mac) => due.ask.push((addr, mac)),
                Retry::GiveUp => silent.push(addr),
            }
        }
        if !silent.is_empty() {
            self.changes();
        }
        // Entries that are asked again have another deadline, and are otherwise as they were.
        self.due_of.store(NEVER, Ordering::Relaxed);
        for addr in silent {
            let entry = table.remove(&addr);
            let waiting = entry.map_or_else(Mbufq::new, NeighbourEntry::into_waiting);
            due.lost.push((addr, waiting));
        }
        due
    }

    /// When [`Neighbours::overdue`] has something to do next.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        // Relaxed: the thread that changes an entry wakes the thread that runs timers later, and that thread then sees it.
        let generation = self.generation.load(Ordering::Relaxed);
        // Acquire: what is due in a generation was stored before that.
        let due = match self.due_of.load(Ordering::Acquire) == generation {
            true => self.due.load(Ordering::Relaxed),
            false => self.find_deadline(),
        };
        (due != NEVER).then_some(Time::from_nanos(due))
    }

    #[cold]
    fn find_deadline(&self) -> u64 {
        let table = self.table.read();
        let earliest = table.values().filter_map(NeighbourEntry::deadline).min();
        let due = earliest.map_or(NEVER, Time::as_nanos);
        self.due.store(due, Ordering::Relaxed);
        // It changes under the lock only.
        let generation = self.generation.load(Ordering::Relaxed);
        self.due_of.store(generation, Ordering::Release);
        due
    }
}

/// Makes an entry in which `packet` waits. Returns the packets of the entry that was evicted for it.
fn start<A: Copy + Ord>(
    table: &mut BTreeMap<A, NeighbourEntry>,
    addr: A,
    packet: Packet,
    now: Time,
) -> Mbufq {
    let evicted = make_room(table);
    let mut waiting = Mbufq::new();
    waiting.enqueue(packet);
    table.insert(
        addr,
        NeighbourEntry::Incomplete {
            tries: 1,
            next: now + RETRY,
            waiting,
        },
    );
    evicted
}

/// Evicts the oldest entry of a full table: an incomplete one if these are more than half, else one that has an address.
/// So a host that looks for thousands of absent stations evicts no neighbour, and stations that only announce themselves
/// evict no question. Returns the packets that waited in it.
fn make_room<A: Copy + Ord>(table: &mut BTreeMap<A, NeighbourEntry>) -> Mbufq {
    if table.len() < ENTRIES_MAX {
        return Mbufq::new();
    }
    let is_incomplete = |entry: &NeighbourEntry| matches!(entry, NeighbourEntry::Incomplete { .. });
    let incomplete = table.values().filter(|entry| is_incomplete(entry)).count();
    let is_crowded = incomplete > ENTRIES_MAX / 2;
    let age = |entry: &NeighbourEntry| match *entry {
        NeighbourEntry::Known { until, .. } => (0, until),
        NeighbourEntry::Probing { next, .. } | NeighbourEntry::Incomplete { next, .. } => (1, next),
    };
    let oldest = table
        .iter()
        .filter(|(_, entry)| is_incomplete(entry) == is_crowded)
        .min_by_key(|(_, entry)| age(entry))
        .map(|(&addr, _)| addr);
    let entry = oldest.and_then(|addr| table.remove(&addr));
    entry.map_or_else(Mbufq::new, NeighbourEntry::into_waiting)
}

/// For tests.
#[cfg(test)]
impl<A: Copy + Ord> Neighbours<A> {
    pub(crate) fn len(&self) -> usize {
        self.table.read().len()
    }

    pub(crate) fn has(&self, addr: A) -> bool {
        self.table.read().contains_key(&addr)
    }
}
