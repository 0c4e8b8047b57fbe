//! ARP: which Ethernet address has an IPv4 address on this link.
//!
//! Called by: ether/output ([`Neighbours::resolve`], [`Neighbours::kept`]), netisr ([`input`]), the stack (timers,
//! detach, [`announce`]).
//! Calls: ether/output.
//!
//! An entry's life:
//!
//! | state | operations | caveats |
//! |---|---|---|
//! | `Asking` | packets wait in it, up to `queue_max`; asked again each second, three times | then it and its packets are dropped |
//! | `Known` | packets go straight out | past `until` the next packet starts a check |
//! | `Checking` | as `Known`, while the neighbour is asked directly (RFC 1122 2.3.2.1) | without an answer it is forgotten |
//!
//! What is learned: answers to what we asked, and the sender of a request to us. Anything else only
//! corrects an entry that is there, so that a link full of strangers can't fill the table.
//!
//! Invariants: at most [`ENTRIES_MAX`] entries; packets wait only in `Asking`; only `Asking` and
//! `Checking` have deadlines.
//! Locks: `table` (ARP, read-mostly: a packet to a known neighbour writes to no shared line); nothing is sent, and no
//! packet freed, while it is held.
//! Sources: RFC 826, RFC 1122 section 2.3.2, RFC 5227 (probes and announcements).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kern::prim::RmLock;
use kern::{LockClass, Time, order};
use mbuf::{Mbufq, Packet, PullupError};
use wire::{ArpOp, ArpPacket, EtherType, MacAddr, is_martian_source};

use super::output;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::state::SHARED_TIMERS_CPU;
use entry::{Entry, RETRY, Retry};

mod entry;

static TABLE: LockClass = LockClass::new("neighbours", order::ARP);

/// How long an answer is believed (RFC 1122 2.3.2.1 leaves it open; BSD's 20 minutes).
const LIFETIME: Duration = Duration::from_secs(20 * 60);
/// Entries in a table at most.
const ENTRIES_MAX: usize = 1024;

/// The neighbours on one link.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// Ordered by address, so that a run can be repeated exactly.
    table: RmLock<BTreeMap<Ipv4Addr, Entry>>,
    /// Counts changes: what a sender kept ([`Hop`]) is good until the next one.
    generation: AtomicU64,
    queue_max: usize,
}

/// A neighbour's address that a sender keeps, to look it up no more while nothing changes.
#[doc(alias = "ro_lle")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    generation: u64,
    until: Time,
    mac: MacAddr,
}

/// What became of a packet that was to be resolved.
#[derive(Debug)]
pub(crate) enum Resolution {
    /// It goes to this address.
    Known(MacAddr, Packet),
    /// It waits for an answer, or was dropped because too many do.
    Waits,
}

impl Neighbours {
    pub(crate) fn new(queue_max: usize) -> Self {
        Self {
            table: RmLock::new(&TABLE, BTreeMap::new()),
            generation: AtomicU64::new(0),
            queue_max,
        }
    }

    /// What was kept of the table is void. Under its lock, before it is changed.
    fn changes(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// The neighbour's address, if nothing is to be done to find it: nearly always.
    fn known(&self, now: Time, addr: Ipv4Addr) -> Option<Hop> {
        let table = self.table.read();
        let (mac, until) = match *table.get(&addr)? {
            Entry::Known { mac, until } if now < until => (mac, until),
            // Until an answer says otherwise, or the questions end.
            Entry::Checking { mac, .. } => (mac, Time::MAX),
            Entry::Known { .. } | Entry::Asking { .. } => return None,
        };
        // Relaxed: it changes under the lock only.
        let generation = self.generation.load(Ordering::Relaxed);
        Some(Hop {
            generation,
            until,
            mac,
        })
    }

    /// What a sender kept, if it is still so.
    pub(crate) fn kept(&self, now: Time, hop: &Option<Hop>) -> Option<MacAddr> {
        // Relaxed: a sender that sees a change late sent before it.
        let generation = self.generation.load(Ordering::Relaxed);
        let fresh = |hop: &Hop| hop.generation == generation && now < hop.until;
        hop.filter(fresh).map(|hop| hop.mac)
    }

    /// Finds out where a packet for `addr` goes, for the sender to keep, or keeps the packet until that is known.
    #[doc(alias = "arpresolve")]
    pub(crate) fn resolve(
        &self,
        batch: &mut Batch<'_>,
        ifp: &Arc<Ifnet>,
        addr: Ipv4Addr,
        packet: Packet,
        hop: &mut Option<Hop>,
    ) -> Resolution {
        *hop = self.known(batch.now, addr);
        if let Some(hop) = hop {
            return Resolution::Known(hop.mac, packet);
        }
        let mut table = self.table.write();
        self.changes();
        if ifp.is_gone() {
            // The thread that detached it has emptied the table or is about to: no packet may wait here.
            drop(table);
            batch.drop(packet, DropReason::InterfaceGone);
            return Resolution::Waits;
        }
        match table.get_mut(&addr) {
            Some(Entry::Known { mac, until }) if batch.now < *until => {
                Resolution::Known(*mac, packet)
            }
            Some(Entry::Checking { mac, .. }) => Resolution::Known(*mac, packet),
            Some(entry @ Entry::Known { .. }) => {
                let mac = entry.mac().unwrap_or(MacAddr::BROADCAST);
                *entry = Entry::Checking {
                    mac,
                    tries: 1,
                    next: batch.now + RETRY,
                };
                drop(table);
                batch.kick(SHARED_TIMERS_CPU);
                ask(batch, ifp, addr, Some(mac));
                Resolution::Known(mac, packet)
            }
            Some(Entry::Asking { waiting, .. }) => {
                let full = wait(waiting, packet, self.queue_max);
                drop(table);
                if let Some(packet) = full {
                    batch.drop(packet, DropReason::ArpQueueFull);
                }
                Resolution::Waits
            }
            None => {
                let evicted = start(&mut table, addr, packet, batch.now);
                drop(table);
                drop_waiting(batch, evicted, DropReason::ArpQueueFull);
                batch.kick(SHARED_TIMERS_CPU);
                ask(batch, ifp, addr, None);
                Resolution::Waits
            }
        }
    }

    /// Takes in what a neighbour says of itself. `learn`: it speaks to us, so it is worth an entry.
    fn heard(&self, batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, who: &ArpPacket, learn: bool) {
        let mac = who.sender_mac;
        let known = Entry::Known {
            mac,
            until: batch.now + LIFETIME,
        };
        let mut table = self.table.write();
        self.changes();
        let (old, evicted) = if let Some(entry) = table.get_mut(&who.sender_ip) {
            (Some(std::mem::replace(entry, known)), None)
        } else if learn {
            let evicted = make_room(&mut table);
            table.insert(who.sender_ip, known);
            (None, evicted)
        } else {
            return;
        };
        drop(table);
        drop_waiting(batch, evicted, DropReason::ArpQueueFull);
        if let Some(Entry::Asking { waiting, .. }) = old {
            waiting.for_each(|packet| output::frame(batch, ifp, packet, mac, EtherType::IPV4));
        }
    }

    /// Forgets everything; what waited is dropped.
    pub(crate) fn flush(&self, batch: &mut Batch<'_>) {
        let table = {
            let mut table = self.table.write();
            self.changes();
            std::mem::take(&mut *table)
        };
        for entry in table.into_values() {
            drop_waiting(batch, Some(entry), DropReason::InterfaceGone);
        }
    }

    /// Asks again, or gives up.
    #[doc(alias = "arptimer")]
    pub(crate) fn run_timers(&self, batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
        let (mut again, mut lost) = (Vec::new(), Vec::new());
        let mut table = self.table.write();
        for (&addr, entry) in table.iter_mut() {
            match entry.retry(batch.now) {
                Retry::NotYet => {}
                Retry::Ask(mac) => again.push((addr, mac)),
                Retry::GiveUp => lost.push(addr),
            }
        }
        if !lost.is_empty() {
            self.changes();
        }
        let lost: Vec<_> = lost.iter().filter_map(|addr| table.remove(addr)).collect();
        drop(table);
        again
            .into_iter()
            .for_each(|(addr, mac)| ask(batch, ifp, addr, mac));
        for entry in lost {
            drop_waiting(batch, Some(entry), DropReason::ArpNoAnswer);
        }
    }

    /// When [`Neighbours::run_timers`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.table.read().values().filter_map(Entry::deadline).min()
    }
}

/// Adds a packet to those that wait; gives it back if they are too many.
fn wait(waiting: &mut Mbufq, packet: Packet, queue_max: usize) -> Option<Packet> {
    if waiting.len() >= queue_max {
        return Some(packet);
    }
    waiting.enqueue(packet);
    None
}

/// A new entry in which `packet` waits. Returns the one that had to make room.
fn start(
    table: &mut BTreeMap<Ipv4Addr, Entry>,
    addr: Ipv4Addr,
    packet: Packet,
    now: Time,
) -> Option<Entry> {
    let evicted = make_room(table);
    let mut waiting = Mbufq::new();
    waiting.enqueue(packet);
    table.insert(
        addr,
        Entry::Asking {
            tries: 1,
            next: now + RETRY,
            waiting,
        },
    );
    evicted
}

/// Evicts the oldest entry of a full table: of those that ask, if they are more than half, else of those that know.
/// A host that looks for thousands of absent stations evicts such questions and no neighbour;
/// and stations that only announce themselves evict no question.
fn make_room(table: &mut BTreeMap<Ipv4Addr, Entry>) -> Option<Entry> {
    if table.len() < ENTRIES_MAX {
        return None;
    }
    let asks = |entry: &Entry| matches!(entry, Entry::Asking { .. });
    let too_many_ask = table.values().filter(|entry| asks(entry)).count() > ENTRIES_MAX / 2;
    let age = |entry: &Entry| match *entry {
        Entry::Known { until, .. } => (0, until),
        Entry::Checking { next, .. } | Entry::Asking { next, .. } => (1, next),
    };
    let oldest = table
        .iter()
        .filter(|(_, entry)| asks(entry) == too_many_ask)
        .min_by_key(|(_, entry)| age(entry))
        .map(|(&addr, _)| addr)?;
    table.remove(&oldest)
}

fn drop_waiting(batch: &Batch<'_>, entry: Option<Entry>, reason: DropReason) {
    if let Some(Entry::Asking { waiting, .. }) = entry {
        waiting.for_each(|packet| batch.drop(packet, reason));
    }
}

/// Asks for the station that has `addr`: all stations, or the one that had it.
#[doc(alias = "arprequest")]
fn ask(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv4Addr, of: Option<MacAddr>) {
    let request = ArpPacket::request(ifp.mac, ifp.source_for(addr), addr);
    send(batch, ifp, &request, of.unwrap_or(MacAddr::BROADCAST));
}

/// Announces the addresses here to all stations on the link: a station that knew them elsewhere learns of it. Once,
/// not twice as RFC 5227 2.3 has it: if it is lost, the next question makes up for it.
#[doc(alias = "arp_ifinit")]
pub(crate) fn announce(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    for addr in &ifp.addrs {
        let arp = ArpPacket::gratuitous(ifp.mac, addr.addr);
        send(batch, ifp, &arp, MacAddr::BROADCAST);
    }
}

fn send(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, arp: &ArpPacket, to: MacAddr) {
    let mut bytes = [0; ArpPacket::LEN];
    arp.emit(&mut bytes);
    // Room for the Ethernet header, and the data stays aligned.
    match Packet::from_slice(&batch.stack.pool, &bytes, 16) {
        Ok(packet) => output::frame(batch, ifp, packet, to, EtherType::ARP),
        Err(_) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}

/// Takes in an ARP packet.
#[doc(alias = "in_arpinput")]
pub(crate) fn input(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, mut packet: Packet) {
    let arp = match parse(&mut packet) {
        Ok(arp) => arp,
        Err(reason) => return batch.drop(packet, reason),
    };
    // A station that claims an address of ours is wrong, or lies. It is only counted, for the administrator
    // of the stack; our own announcement may come back over a bridge (RFC 5227 2.4).
    if ifp.owns(arp.sender_ip) && arp.sender_mac != ifp.mac {
        return batch.drop(packet, DropReason::ArpDuplicateAddress);
    }
    if ifp.owns(arp.sender_ip) || !is_plausible(ifp, &arp) {
        return batch.drop(packet, DropReason::BadArp);
    }
    drop(packet);
    batch.delivered();
    let for_us = ifp.owns(arp.target_ip);
    // A probe (RFC 5227) comes from a station without an address: nothing to learn from it.
    if !arp.sender_ip.is_unspecified() {
        ifp.neighbours
            .heard(batch, ifp, &arp, for_us && arp.op == ArpOp::Request);
    }
    if for_us && arp.op == ArpOp::Request {
        let answer = ArpPacket::reply(ifp.mac, arp.target_ip, arp.sender_mac, arp.sender_ip);
        send(batch, ifp, &answer, arp.sender_mac);
    }
}

fn parse(packet: &mut Packet) -> Result<ArpPacket, DropReason> {
    let bytes = packet.pullup(ArpPacket::LEN).map_err(|e| match e {
        PullupError::TooShort => DropReason::FrameTruncated,
        PullupError::NoBufs => DropReason::NoBufs,
    })?;
    ArpPacket::parse(bytes).map_err(|_| DropReason::BadArp)
}

/// Whether the sender can be a station with that address. Broadcast and groups can't (RFC 1812 3.3.2).
fn is_plausible(ifp: &Ifnet, arp: &ArpPacket) -> bool {
    let ip = arp.sender_ip;
    arp.sender_mac.is_unicast() && !is_martian_source(ip) && !ifp.is_broadcast(ip)
}

#[cfg(test)]
mod tests;
