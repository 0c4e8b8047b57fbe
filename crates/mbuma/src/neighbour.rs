//! The table of the stations on one link: which Ethernet address has an address of IPv4, or of IPv6.
//!
//! Data only: [`arp`](crate::ether::arp) and [`nd`](crate::ether::nd) ask, answer and drop by the results of these
//! functions.
//!
//! An entry's life:
//!
//! | state | operations | caveats |
//! |---|---|---|
//! | `Incomplete` | up to `queue_max` packets wait in it; the stack asks three times, once a second | without an answer the entry and its packets are dropped |
//! | `Known` | packets leave at once | past `until` the next packet starts a probe |
//! | `Probing` | as `Known`, while the stack asks the neighbour itself (RFC 1122 2.3.2.1) | without an answer the entry is dropped |
//!
//! Invariants: at most `max` entries; packets wait only in `Incomplete`, the last one of each entry and
//! [`WAITING_MAX`] more at most, so that a scan of the network does not occupy the storage of all other traffic; only
//! `Incomplete` and `Probing` have deadlines. Locks: `table` (ARP, read-mostly: a packet to a known neighbour writes to
//! no shared line); in an incomplete entry, the packets that wait (IFQUEUE), so that those to an absent host lock out
//! no other sender. Nothing is sent, and no packet freed, while they are held. Sources: RFC 826, RFC 1122 section
//! 2.3.2.

use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kern::prim::RmLock;
use kern::{AtomicDeadline, Counter, LockClass, Time, order};
use mbuf::{Mbufq, Packet};
use wire::MacAddr;

use entries::NeighbourEntries;
use entry::{NeighbourEntry, RETRY, Retry};

mod discovery;
mod entries;
mod entry;

static TABLE: LockClass = LockClass::new("neighbours", order::ARP);

/// The lifetime of an answer, and the time of the first question of a probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) lifetime: Duration,
    /// A probe begins with this delay, in which a protocol above may receive a packet from the neighbour; without it,
    /// with a question.
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
    /// `reachable`: the lifetime of an answer of neighbour discovery.
    pub(crate) fn new(limits: NeighbourLimits, reachable: Duration) -> Self {
        Self {
            v4: Neighbours::new(limits, Timing::ARP),
            v6: Neighbours::new(limits, Timing::discovery(reachable)),
        }
    }
}

/// Answers that come more often than this do not prolong the lifetime, so that senders read the table without
/// interruption.
const RENEWAL_MIN: Duration = Duration::from_secs(1);

/// Entries in a table at most, as `Config` has it.
#[cfg(all(test, not(shuttle)))]
pub(crate) const ENTRIES_MAX: usize = 1024;

/// The bounds of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NeighbourLimits {
    /// Entries at most.
    pub(crate) entries: usize,
    /// Packets that wait for one answer at most.
    pub(crate) waiting: usize,
}

/// Packets that wait in a table at most, but for one in each entry.
const WAITING_MAX: usize = 1024;

/// The neighbours on one link.
#[derive(Debug)]
pub(crate) struct Neighbours<A> {
    table: RmLock<NeighbourEntries<A>>,
    /// Counts changes of addresses, from 1: a sender's kept [`Hop`] is good until the next one.
    generation: AtomicU64,
    /// The earliest deadline of an entry. Written under the table's lock.
    due: AtomicDeadline,
    queue_max: usize,
    /// Entries that were removed to make room.
    pub(crate) evicted: Counter,
    /// Packets that wait in all entries. Relaxed: a limit, which a few may pass at once.
    waiting: AtomicUsize,
    /// The lifetime of an answer, in nanoseconds. Relaxed: an entry that is made meanwhile may have either value.
    lifetime_ns: AtomicU64,
    delay: Option<Duration>,
}

/// A neighbour's address that a sender keeps, so that it need not look it up while nothing changes.
#[doc(alias = "ro_lle")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    /// Never 0, so that an `Option` of it needs no more room.
    generation: NonZeroU64,
    until: Time,
    mac: MacAddr,
}

impl Hop {
    /// Whether a confirmation of reachability saves a question: the neighbour is being probed, or will be soon.
    pub(crate) fn is_doubtful(&self, now: Time) -> bool {
        const SOON: Duration = Duration::from_secs(10);
        self.until == Time::MAX || self.until <= now + SOON
    }
}

/// The result of a packet's lookup of its neighbour.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// The packet goes to this address.
    Known(MacAddr, Packet),
    /// The same; a probe of that station begins.
    Probe(MacAddr, Packet),
    /// The packet waits for an answer.
    Waits,
    /// The packet waits, and the caller must ask all stations. These packets waited in the entry that was evicted for
    /// this one.
    Ask(Mbufq),
    /// The packet waits; too many waited for the same answer, and this one, the oldest, is dropped.
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

/// The actions of a table's timers.
#[derive(Debug)]
pub(crate) struct Overdue<A> {
    /// Addresses to ask for once more: all stations, or the one that has the address so far.
    pub(crate) ask: Vec<(A, Option<MacAddr>)>,
    /// Stations that do not answer, and the packets that waited for each.
    pub(crate) lost: Vec<(A, Mbufq)>,
}

impl<A: Copy + Ord> Neighbours<A> {
    pub(crate) fn new(limits: NeighbourLimits, timing: Timing) -> Self {
        Self {
            table: RmLock::new(&TABLE, NeighbourEntries::new(limits.entries)),
            generation: AtomicU64::new(1),
            due: AtomicDeadline::new(),
            queue_max: limits.waiting,
            evicted: Counter::default(),
            waiting: AtomicUsize::new(0),
            lifetime_ns: AtomicU64::new(timing.lifetime.as_nanos() as u64),
            delay: timing.delay,
        }
    }

    /// The lifetime of an answer.
    fn lifetime(&self) -> Duration {
        Duration::from_nanos(self.lifetime_ns.load(Ordering::Relaxed))
    }

    /// Sets the lifetime of later answers.
    pub(crate) fn set_lifetime(&self, lifetime: Duration) {
        let ns = lifetime.as_nanos() as u64;
        self.lifetime_ns.store(ns, Ordering::Relaxed);
    }

    /// Invalidates the senders' kept hops: an address is changed or removed. Under the table's lock.
    fn changes(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// The entries: each address, and the Ethernet address if it is known.
    pub(crate) fn list(&self) -> Vec<(A, Option<MacAddr>)> {
        let table = self.table.read();
        table
            .iter()
            .map(|(addr, entry)| (addr, entry.mac()))
            .collect()
    }

    /// Changes the table, and updates its deadline.
    fn update<R>(&self, change: impl FnOnce(&mut NeighbourEntries<A>) -> R) -> R {
        let mut table = self.table.write();
        let result = change(&mut table);
        self.due.set(table.deadline());
        result
    }

    /// Makes an entry. Returns the packets of the one that was evicted for it.
    fn add(&self, table: &mut NeighbourEntries<A>, addr: A, entry: NeighbourEntry) -> Mbufq {
        let evicted = table.make_room();
        if evicted.is_some() {
            self.evicted.inc();
        }
        table.insert(addr, entry);
        self.give_up(evicted)
    }

    /// An entry was removed. Returns the packets that waited in it.
    fn give_up(&self, removed: Option<NeighbourEntry>) -> Mbufq {
        if removed.as_ref().is_some_and(|entry| entry.mac().is_some()) {
            self.changes();
        }
        removed.map_or_else(Mbufq::new, |entry| self.waiting_of(entry))
    }

    /// The packets that waited in an entry that is gone, or has an address now.
    fn waiting_of(&self, entry: NeighbourEntry) -> Mbufq {
        let packets = entry.into_waiting();
        if !packets.is_empty() {
            self.waiting.fetch_sub(packets.len(), Ordering::Relaxed);
        }
        packets
    }

    /// The neighbour's address, if it is known and needs no probe: the common case.
    fn known(&self, now: Time, addr: A) -> Option<Hop> {
        let table = self.table.read();
        let (mac, until) = match *table.get(addr)? {
            NeighbourEntry::Known { mac, until } if now < until => (mac, until),
            // Valid until another answer, or the end of the questions.
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
    /// takes the link away takes that lock, to change the table, later, and empties it.
    #[doc(alias = "arpresolve")]
    pub(crate) fn resolve(
        &self,
        now: Time,
        is_gone: impl Fn() -> bool,
        addr: A,
        packet: Packet,
        hop: &mut Option<Hop>,
    ) -> Resolution {
        *hop = self.known(now, addr);
        if let Some(hop) = hop {
            return Resolution::Known(hop.mac, packet);
        }
        if let Some(NeighbourEntry::Incomplete { waiting, .. }) = self.table.read().get(addr) {
            return match is_gone() {
                true => Resolution::Gone(packet),
                false => self.wait_in(&mut waiting.lock(), packet),
            };
        }
        self.update(|table| {
            if is_gone() {
                return Resolution::Gone(packet);
            }
            if table.get(addr).is_none() {
                let entry = NeighbourEntry::first_question(now, packet);
                self.waiting.fetch_add(1, Ordering::Relaxed);
                return Resolution::Ask(self.add(table, addr, entry));
            }
            let resolve = |entry: &mut NeighbourEntry| self.resolve_by(entry, now, packet);
            // It is there.
            table.change(addr, resolve).unwrap_or(Resolution::Waits)
        })
    }

    /// The same, by an existing entry.
    fn resolve_by(&self, entry: &mut NeighbourEntry, now: Time, packet: Packet) -> Resolution {
        match entry {
            NeighbourEntry::Known { mac, until } if now < *until => Resolution::Known(*mac, packet),
            NeighbourEntry::Probing { mac, .. } => Resolution::Known(*mac, packet),
            NeighbourEntry::Known { mac, .. } => {
                let mac = *mac;
                *entry = NeighbourEntry::Probing {
                    mac,
                    tries: u8::from(self.delay.is_none()),
                    next: now + self.delay.unwrap_or(RETRY),
                };
                Resolution::Probe(mac, packet)
            }
            NeighbourEntry::Incomplete { waiting, .. } => self.wait_in(&mut waiting.lock(), packet),
        }
    }

    /// Adds a packet to those that wait for an answer.
    fn wait_in(&self, waiting: &mut Mbufq, packet: Packet) -> Resolution {
        let all = self.waiting.load(Ordering::Relaxed);
        let is_full = waiting.len() >= self.queue_max || all >= WAITING_MAX;
        waiting.enqueue(packet);
        // The oldest packet is dropped (RFC 4861 section 7.2.2, RFC 1122 section 2.3.2.2).
        match is_full.then(|| waiting.dequeue()).flatten() {
            Some(oldest) => Resolution::Full(oldest),
            None => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                Resolution::Waits
            }
        }
    }

    /// Records that a neighbour has an address. `is_new_wanted`: makes an entry if there is none, because the neighbour
    /// sends to us.
    pub(crate) fn learn(&self, now: Time, addr: A, mac: MacAddr, is_new_wanted: bool) -> Learnt {
        let mut learnt = Learnt::default();
        let until = now + self.lifetime();
        let is_fresh =
            |at: &Hop| at.mac == mac && at.until < Time::MAX && at.until + RENEWAL_MIN > until;
        if self.known(now, addr).as_ref().is_some_and(is_fresh) {
            return learnt;
        }
        self.update(|table| {
            let believe = |entry: &mut NeighbourEntry| self.believe(entry, mac, until);
            match table.change(addr, believe) {
                Some(waiting) => learnt.waiting = waiting,
                None if is_new_wanted => {
                    let entry = NeighbourEntry::Known { mac, until };
                    learnt.evicted = self.add(table, addr, entry);
                }
                None => {}
            }
        });
        learnt
    }

    /// The station is at `mac`, which is good until then; returns the packets that waited for that. Kept hops stay
    /// valid if the address is unchanged: they have times of their own.
    fn believe(&self, entry: &mut NeighbourEntry, mac: MacAddr, until: Time) -> Mbufq {
        if !matches!(*entry, NeighbourEntry::Known { mac: before, .. } if before == mac) {
            self.changes();
        }
        self.waiting_of(mem::replace(entry, NeighbourEntry::Known { mac, until }))
    }

    /// Removes all entries. Returns the waiting packets.
    pub(crate) fn flush(&self) -> impl Iterator<Item = Mbufq> {
        let all = self.update(|table| {
            self.changes();
            table.take_all()
        });
        all.map(|entry| self.waiting_of(entry))
    }

    /// The stations to ask again, or to give up.
    #[doc(alias = "arptimer")]
    pub(crate) fn overdue(&self, now: Time) -> Overdue<A> {
        let mut due = Overdue {
            ask: Vec::new(),
            lost: Vec::new(),
        };
        self.update(|table| {
            for addr in table.due(now) {
                match table.change(addr, |entry| entry.retry(now)) {
                    Some(Retry::Ask(mac)) => due.ask.push((addr, mac)),
                    Some(Retry::GiveUp) => {
                        let waiting = self.give_up(table.remove(addr));
                        due.lost.push((addr, waiting));
                    }
                    Some(Retry::NotYet) | None => {}
                }
            }
        });
        due
    }

    /// The next time at which [`Neighbours::overdue`] has work.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.get()
    }
}

/// For tests.
#[cfg(all(test, not(shuttle)))]
impl NeighbourLimits {
    pub(crate) fn waiting(waiting: usize) -> Self {
        let entries = ENTRIES_MAX;
        Self { entries, waiting }
    }
}

#[cfg(all(test, not(shuttle)))]
impl<A: Copy + Ord> Neighbours<A> {
    pub(crate) fn len(&self) -> usize {
        self.table.read().len()
    }

    pub(crate) fn has(&self, addr: A) -> bool {
        self.table.read().get(addr).is_some()
    }
}
