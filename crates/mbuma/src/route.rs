//! The routing table: where a destination is, through which interface, and from which address.
//!
//! Called by: ip4 (output, input), icmp, the sockets, the stack (attach, detach). Calls: nothing.
//!
//! A list sorted by prefix length, longest first, so that the first match is the right one (RFC 1812
//! 5.2.4.3). An embedded stack has a handful of routes; the list is read far more often than written.
//!
//! Invariants: the order; an interface's own addresses have host routes marked `local`, so that one
//! look-up says whether a packet is for ourselves; so has the whole loopback network.
//! A sender that keeps its route ([`RouteCache`]) looks nothing up until the table changes: each change is a new
//! *generation*, whose number is read and not written on the way of a packet. The thread that takes an interface away
//! also clears the caches that still name it, so that an idle connection keeps nothing of it.
//! `own_bits` has the bit of each of our own addresses, so that most packets' sources are known not to be ours by
//! one load.
//!
//! Locks: the table (ROUTE), which is below every protocol's: output asks while a connection is locked.
//! Sources: RFC 1122 section 3.3.1, RFC 1812 section 5.2.4.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{LockClass, RmLock, order};

use crate::ifnet::{IfAddr, IfIndex, Ifnet};
use crate::neighbour::Hop;
pub use control::{RouteEntry, RouteError, RouteKind};

mod control;

static ROUTES: LockClass = LockClass::new("routes", order::ROUTE);

/// The table.
#[derive(Debug)]
pub(crate) struct Routes {
    entries: RmLock<Vec<Entry>>,
    /// How often the table was changed; it changes while that is being done.
    #[doc(alias = "rt_gen")]
    generation: AtomicU64,
    /// The bits of our own addresses: each packet's source is looked for among them, and has none mostly.
    own_bits: AtomicU64,
}

/// What a look-up found.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// The interface that leads there; for our own addresses the one that has the address.
    pub(crate) ifp: Arc<Ifnet>,
    /// The station on that link that gets the packet.
    pub(crate) next_hop: Ipv4Addr,
    /// The address to send from unless the sender chose one; unspecified if the interface has none.
    pub(crate) src: Ipv4Addr,
    /// The destination is an address of this stack.
    #[doc(alias = "RTF_LOCAL")]
    pub(crate) local: bool,
    /// The next hop's address on that link, for a sender that keeps the route.
    pub(crate) hop: Option<Hop>,
}

/// A route that its owner uses again, for one destination.
#[doc(alias = "inp_route")]
#[derive(Debug, Default)]
pub(crate) struct RouteCache(Option<(u64, Route)>);

impl RouteCache {
    /// The route that was kept, while the table is what it was; else what `find` finds now.
    pub(crate) fn route(
        &mut self,
        routes: &Routes,
        find: impl FnOnce() -> Option<Route>,
    ) -> Option<&mut Route> {
        // Acquire: a thread that sees a change's number finds the change when it looks up. Before the look-up: a
        // change that comes in between makes the result old, not new.
        let now = routes.generation.load(Ordering::Acquire);
        if self.0.as_ref().is_none_or(|(then, _)| *then != now) {
            self.0 = find().map(|route| (now, route));
        }
        self.0.as_mut().map(|(_, route)| route)
    }

    /// Forgets it.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Forgets it if it leads through the interface.
    pub(crate) fn forget(&mut self, index: IfIndex) {
        self.0.take_if(|(_, route)| route.ifp.index == index);
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) net: IfAddr,
    pub(crate) ifp: Arc<Ifnet>,
    /// None: the destination itself is on the link.
    pub(crate) gateway: Option<Ipv4Addr>,
    pub(crate) src: Ipv4Addr,
    pub(crate) local: bool,
    pub(crate) refusal: Option<Refusal>,
    /// It came with an interface's address, and goes with it.
    #[doc(alias = "RTF_PINNED")]
    pub(crate) pinned: bool,
}

/// A route that leads nowhere, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Packets vanish.
    #[doc(alias = "RTF_BLACKHOLE")]
    Blackhole,
    /// Their senders are told.
    #[doc(alias = "RTF_REJECT")]
    Reject,
}

impl Entry {
    fn route_to(&self, dst: Ipv4Addr) -> Route {
        Route {
            ifp: Arc::clone(&self.ifp),
            next_hop: self.gateway.unwrap_or(dst),
            src: self.src,
            local: self.local,
            hop: None,
        }
    }
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self {
            entries: RmLock::new(&ROUTES, Vec::new()),
            generation: AtomicU64::new(0),
            own_bits: AtomicU64::new(0),
        }
    }

    /// Adds the interface's own addresses and the networks they are in.
    pub(crate) fn add_connected(&self, ifp: &Arc<Ifnet>) {
        for &addr in &ifp.addrs {
            let host = IfAddr {
                addr: addr.addr,
                prefix_len: 32,
            };
            self.add(Entry {
                net: host,
                ifp: Arc::clone(ifp),
                gateway: None,
                src: addr.addr,
                local: true,
                refusal: None,
                pinned: true,
            });
            if addr.prefix_len < 32 {
                let ifp = Arc::clone(ifp);
                self.add(Entry {
                    net: addr,
                    gateway: None,
                    src: addr.addr,
                    local: ifp.is_loopback(),
                    ifp,
                    refusal: None,
                    pinned: true,
                });
            }
        }
    }

    /// Sends everything else to `gateway`, which is on the link of `ifp`.
    pub(crate) fn add_default(&self, ifp: &Arc<Ifnet>, gateway: Ipv4Addr) {
        let net = IfAddr {
            addr: Ipv4Addr::UNSPECIFIED,
            prefix_len: 0,
        };
        let src = ifp.source_for(gateway);
        let gateway = Some(gateway);
        self.add(Entry {
            net,
            ifp: Arc::clone(ifp),
            gateway,
            src,
            local: false,
            refusal: None,
            pinned: false,
        });
    }

    /// Puts the entry behind those of its prefix length: the first of two equal ones wins.
    fn add(&self, entry: Entry) {
        self.change(|entries| insert(entries, entry));
    }

    /// Forgets every route through the interface.
    pub(crate) fn remove_interface(&self, index: IfIndex) {
        self.change(|entries| entries.retain(|e| e.ifp.index != index));
    }

    fn change<R>(&self, f: impl FnOnce(&mut Vec<Entry>) -> R) -> R {
        let mut entries = self.entries.write();
        let result = f(&mut entries);
        // Relaxed: a packet that is late to see a new address came before it.
        self.own_bits.store(own_bits(&entries), Ordering::Relaxed);
        // Release, and before the lock is released: a look-up under the new number finds the new table.
        self.generation.fetch_add(1, Ordering::Release);
        result
    }

    /// The most precise route to `dst`.
    #[doc(alias = "fib4_lookup")]
    pub(crate) fn lookup(&self, dst: Ipv4Addr) -> Option<Route> {
        self.find(dst).ok()
    }

    /// The same; where there is none, whether that is on purpose.
    pub(crate) fn find(&self, dst: Ipv4Addr) -> Result<Route, Option<Refusal>> {
        self.look(dst, |e| match e.refusal {
            None => Ok(e.route_to(dst)),
            Some(why) => Err(Some(why)),
        })
        .unwrap_or(Err(None))
    }

    /// The address to send from to `dst`, if there is a way.
    pub(crate) fn source_to(&self, dst: Ipv4Addr) -> Option<Ipv4Addr> {
        self.look(dst, |e| e.refusal.is_none().then_some(e.src))?
    }

    /// Whether the way to `dst` leads through this interface.
    pub(crate) fn leads_through(&self, index: IfIndex, dst: Ipv4Addr) -> bool {
        self.look(dst, |e| e.refusal.is_none() && e.ifp.index == index)
            .unwrap_or(false)
    }

    /// What `f` says of the most precise entry for `dst`.
    fn look<R>(&self, dst: Ipv4Addr, f: impl FnOnce(&Entry) -> R) -> Option<R> {
        let entries = self.entries.read();
        entries.iter().find(|e| e.net.contains(dst)).map(f)
    }

    /// The way to a group or to the limited broadcast, which is on every link: the link of `src`, or
    /// the default route's.
    pub(crate) fn lookup_group(&self, src: Ipv4Addr, dst: Ipv4Addr) -> Option<Route> {
        let entries = self.entries.read();
        let own = entries.iter().find(|e| e.local && e.net.addr == src);
        let default = |e: &&Entry| e.net.prefix_len == 0 && e.refusal.is_none();
        let entry = own.or_else(|| entries.iter().find(default))?;
        Some(Route {
            next_hop: dst,
            local: false,
            ..entry.route_to(dst)
        })
    }

    /// Whether `addr` is an address of this stack.
    pub(crate) fn is_local(&self, addr: Ipv4Addr) -> bool {
        // As on Linux, all of 127/8 is ours (RFC 1122 3.2.1.3 g leaves no other place for it).
        if addr.is_loopback() {
            return true;
        }
        if self.own_bits.load(Ordering::Relaxed) & bit(addr) == 0 {
            return false;
        }
        own(&self.entries.read()).any(|own| own == addr)
    }
}

/// This stack's addresses: those of the host routes to itself, which come first.
fn own(entries: &[Entry]) -> impl Iterator<Item = Ipv4Addr> {
    let hosts = entries.iter().take_while(|e| e.net.prefix_len == 32);
    hosts.filter(|e| e.local).map(|e| e.net.addr)
}

/// All their bits.
fn own_bits(entries: &[Entry]) -> u64 {
    own(entries).fold(0, |bits, addr| bits | bit(addr))
}

/// An address's bit of 64. The last bits of neighbours differ, so that each has another.
fn bit(addr: Ipv4Addr) -> u64 {
    1 << (addr.to_bits() % 64)
}

fn insert(entries: &mut Vec<Entry>, entry: Entry) {
    let at = entries.partition_point(|e| e.net.prefix_len >= entry.net.prefix_len);
    entries.insert(at, entry);
}

#[cfg(test)]
mod tests;
