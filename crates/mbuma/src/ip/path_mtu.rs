//! The path MTUs that routers report, for new connections and for datagrams over IPv6, which are fragmented to fit.
//!
//! A report counts only for packets of the protocol that found it credible. A host that sees none of our packets can
//! make us send a packet whose bytes it knows (by a ping from a forged source, or a request to a service over UDP), and
//! report that packet as too large; a report about TCP must quote a sequence number in flight. RFC 8201 section 5.2
//! would share the result among protocols: then such a host could make the segments of TCP, and all datagrams, small.
//!
//! Invariants: at most [`PATHS_MAX`] paths of a protocol, of which the oldest is evicted; no MTU is below the minimum
//! of its version of IP.
//! A report is valid for [`LIFETIME`], then larger packets are tried again; a later report may lower the path's MTU and
//! never raises it. Locks: the table (ROUTE, read-mostly); while it is empty a sender takes no lock. Sources: RFC 8201
//! sections 4 and 5.2, 5.3, RFC 1191 section 6.3, RFC 5927 section 7.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kern::{LockClass, RmLock, Time, order};
use wire::{IpProto, Ipv6Header, needs_zone};

static PATHS: LockClass = LockClass::new("path MTUs", order::ROUTE);

/// Paths of a protocol in the table at most.
const PATHS_MAX: usize = 1024;
/// The smallest MTU of a link that carries IPv4 (RFC 791 3.2).
const MTU4_MIN: u16 = 68;
/// How long a report is valid (RFC 8201 section 4).
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The protocol of the packets, and their destination: an address, and its zone or 0.
type PathEnd = (u8, IpAddr, u32);

/// The paths with an MTU smaller than that of their first link.
#[derive(Debug)]
pub(crate) struct PathMtus {
    table: RmLock<BTreeMap<PathEnd, PathReport>>,
    /// Relaxed: a packet that misses a report counts as one that was sent before it.
    is_empty: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct PathReport {
    mtu: u16,
    until: Time,
}

impl PathMtus {
    pub(crate) fn new() -> Self {
        Self {
            table: RmLock::new(&PATHS, BTreeMap::new()),
            is_empty: AtomicBool::new(true),
        }
    }

    /// The MTU of the path to `dst` for packets of `proto`, if it is known to be smaller than its first link's.
    #[doc(alias = "tcp_hc_getmtu")]
    pub(crate) fn get(&self, proto: IpProto, dst: IpAddr, zone: u32, now: Time) -> Option<u16> {
        if self.is_empty.load(Ordering::Relaxed) {
            return None;
        }
        let table = self.table.read();
        let path = table.get(&path_end(proto, dst, zone))?;
        (now < path.until).then_some(path.mtu)
    }

    /// Records a report about a packet of `proto` to `dst`, which has found it credible.
    #[doc(alias = "tcp_hc_updatemtu")]
    pub(crate) fn reported(&self, proto: IpProto, dst: IpAddr, zone: u32, mtu: u16, now: Time) {
        let mtu = mtu.max(match dst {
            IpAddr::V4(_) => MTU4_MIN,
            IpAddr::V6(_) => Ipv6Header::MTU_MIN,
        });
        let end = path_end(proto, dst, zone);
        let until = now + LIFETIME;
        let mut table = self.table.write();
        let known = table.get(&end).filter(|path| now < path.until);
        let mtu = known.map_or(mtu, |path| path.mtu.min(mtu));
        make_room(&mut table, end);
        table.insert(end, PathReport { mtu, until });
        self.is_empty.store(false, Ordering::Relaxed);
    }
}

/// Only addresses that need a zone keep it.
fn path_end(proto: IpProto, dst: IpAddr, zone: u32) -> PathEnd {
    let has_zone = matches!(dst, IpAddr::V6(dst) if needs_zone(dst));
    (proto.0, dst, if has_zone { zone } else { 0 })
}

/// Evicts the oldest path of the protocol of `end`, if it has as many as it may and `end` is not one of them.
fn make_room(table: &mut BTreeMap<PathEnd, PathReport>, end: PathEnd) {
    let same = || table.iter().filter(|(known, _)| known.0 == end.0);
    if table.contains_key(&end) || same().count() < PATHS_MAX {
        return;
    }
    let oldest = same().min_by_key(|(_, path)| path.until);
    if let Some(oldest) = oldest.map(|(end, _)| *end) {
        table.remove(&oldest);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
