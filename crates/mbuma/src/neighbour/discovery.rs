//! The effects of neighbour discovery on a table: the rules of RFC 4861 appendix C, on the states that ARP has too.
//!
//! | RFC 4861 | here |
//! |---|---|
//! | INCOMPLETE | `Incomplete` |
//! | REACHABLE | `Known`, before `until` |
//! | STALE | `Known`, past `until` |
//! | DELAY, PROBE | `Probing`, before and after its first question |
//!
//! Invariants: an unsolicited advertisement evicts no entry, and such advertisements fill at most half of the table.
//! Locks: the table's. Sources: RFC 4861 sections 7.2.3, 7.2.5, 7.3.1, appendix C; RFC 9131 section 6.1.1.

use std::net::Ipv6Addr;

use kern::Time;
use mbuf::Mbufq;
use wire::{AdvertFlags, MacAddr};

use super::entry::NeighbourEntry;
use super::{Learnt, Neighbours};

impl Neighbours<Ipv6Addr> {
    /// A station at `mac` asked for us: it can be answered, but it is not known whether it receives our packets.
    pub(crate) fn solicited_by(&self, now: Time, addr: Ipv6Addr, mac: MacAddr) -> Learnt {
        let mut learnt = Learnt::default();
        let is_there = |entry: &NeighbourEntry| entry.mac() == Some(mac);
        if self.table.read().get(addr).is_some_and(is_there) {
            return learnt;
        }
        self.update(|table| {
            let believe = |entry: &mut NeighbourEntry| match is_there(entry) {
                true => Mbufq::new(),
                false => self.believe(entry, mac, now),
            };
            match table.change(addr, believe) {
                Some(waiting) => learnt.waiting = waiting,
                None => {
                    let stale = NeighbourEntry::Known { mac, until: now };
                    learnt.evicted = self.add(table, addr, stale);
                }
            }
        });
        learnt
    }

    /// A station advertises that `addr` is at `mac` or, without a `mac`, that the address is unchanged. Returns the
    /// packets that waited for that, and their address; `None` if it does not count. A host makes no entry for a
    /// station that is not in its table. A router does: packets for the station may come soon.
    pub(crate) fn advertised(
        &self,
        now: Time,
        addr: Ipv6Addr,
        mac: Option<MacAddr>,
        flags: AdvertFlags,
        we_route: bool,
    ) -> Option<(MacAddr, Mbufq)> {
        let hear = |entry: &mut NeighbourEntry| self.hear(entry, now, mac, flags);
        self.update(|table| match table.change(addr, hear) {
            Some(heard) => heard,
            None => {
                // A table that is half full takes no station from an unsolicited advertisement.
                let mac = mac.filter(|_| we_route && table.len() < table.max() / 2)?;
                // STALE: it is not known whether the station receives our packets.
                table.insert(addr, NeighbourEntry::Known { mac, until: now });
                Some((mac, Mbufq::new()))
            }
        })
    }

    /// The same, for the station's entry.
    fn hear(
        &self,
        entry: &mut NeighbourEntry,
        now: Time,
        mac: Option<MacAddr>,
        flags: AdvertFlags,
    ) -> Option<(MacAddr, Mbufq)> {
        let before = entry.mac();
        let mac = mac.or(before)?;
        let until = match (before, flags.solicited) {
            // Another address than the known one, which it must not override.
            (Some(known), _) if known != mac && !flags.overrides => {
                self.doubt(entry, now);
                return None;
            }
            (_, true) => now + self.lifetime(),
            (Some(known), false) if known == mac => return Some((mac, Mbufq::new())),
            (_, false) => now,
        };
        Some((mac, self.believe(entry, mac, until)))
    }

    /// A known address may be wrong: the next packet starts a probe.
    fn doubt(&self, entry: &mut NeighbourEntry, now: Time) {
        if let NeighbourEntry::Known { until, .. } = entry
            && now < *until
        {
            *until = now;
            self.changes();
        }
    }

    /// A protocol above received an answer to packets that went by this neighbour: it is reachable.
    pub(crate) fn confirm(&self, now: Time, addr: Ipv6Addr) {
        let confirm = |entry: &mut NeighbourEntry| {
            if let Some(mac) = entry.mac() {
                // Senders use the new time at once.
                self.changes();
                let until = now + self.lifetime();
                *entry = NeighbourEntry::Known { mac, until };
            }
        };
        self.update(|table| table.change(addr, confirm));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
