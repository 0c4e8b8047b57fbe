//! The routing table: for a destination, its next hop, the interface, and the source address.
//!
//! A list sorted by prefix length, longest first, and then by network, so that the first match is the right one (RFC
//! 1812 5.2.4.3). A look-up is a binary search for each prefix length in the table: few steps for an embedded stack's
//! handful of routes, and some dozens for a router's thousands. The list is read far more often than written.
//!
//! Invariants: the order ([`rank`]); an interface's own addresses, and the whole loopback network, have routes marked
//! `local`, so that one look-up shows whether a packet is for ourselves. Each change of the table is a new
//! *generation*, by which senders that keep a route ([`RouteCache`]) find out of date what they keep.
//! `own_bits` has a bit for each of our own addresses, so that one load shows for most packets that their source is not
//! ours.
//!
//! Locks: the table (ROUTE), which is below every protocol's: output asks while a connection is locked.
//! Sources: RFC 1122 section 3.3.1, RFC 1812 section 5.2.4.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{LockClass, RmLock, order};

use crate::ifnet::{Cidr, IfIndex, Ifnet};
use crate::neighbour::Hop;
pub(crate) use addr::RouteAddr;
pub(crate) use cache::RouteCache;
pub use control::{RouteEntry, RouteError, RouteKind};

mod addr;
mod cache;
mod control;

static ROUTES: LockClass = LockClass::new("routes", order::ROUTE);

/// The table.
#[derive(Debug)]
pub(crate) struct Routes<A> {
    entries: RmLock<Vec<Entry<A>>>,
    /// How often the table was changed. Incremented while the table is locked for the change.
    #[doc(alias = "rt_gen")]
    generation: AtomicU64,
    /// The bits of our own addresses. The source of each packet is compared with them, and mostly is not one of them.
    own_bits: AtomicU64,
}

/// The result of a look-up.
#[derive(Debug, Clone)]
pub(crate) struct Route<A> {
    /// The interface to send by; for an address of ours the interface that has it.
    pub(crate) ifp: Arc<Ifnet>,
    /// The station on that link that gets the packet.
    pub(crate) next_hop: A,
    /// The address to send from unless the sender chose one; unspecified if the interface has none.
    pub(crate) src: A,
    /// The destination is an address of this stack.
    #[doc(alias = "RTF_LOCAL")]
    pub(crate) local: bool,
    /// The next hop's address on the link, kept with the route.
    pub(crate) hop: Option<Hop>,
}

#[derive(Debug)]
pub(crate) struct Entry<A> {
    pub(crate) net: Cidr<A>,
    pub(crate) ifp: Arc<Ifnet>,
    /// None: the destination itself is on the link.
    pub(crate) gateway: Option<A>,
    pub(crate) src: A,
    pub(crate) local: bool,
    pub(crate) refusal: Option<RouteRefusal>,
    /// It belongs to an interface's address and is removed with it.
    #[doc(alias = "RTF_PINNED")]
    pub(crate) pinned: bool,
    /// A router advertised it: it ends with the advertised lifetime, and comes after the program's routes.
    #[doc(alias = "RTF_DYNAMIC")]
    pub(crate) learnt: bool,
}

/// A route that rejects packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteRefusal {
    /// Packets vanish.
    #[doc(alias = "RTF_BLACKHOLE")]
    Blackhole,
    /// Their senders get an error.
    #[doc(alias = "RTF_REJECT")]
    Reject,
    /// Their senders learn that an administrator forbids it.
    Prohibit,
}

impl<A: RouteAddr> Entry<A> {
    fn route_to(&self, dst: A) -> Route<A> {
        Route {
            ifp: Arc::clone(&self.ifp),
            next_hop: self.gateway.unwrap_or(dst),
            src: self.src,
            local: self.local,
            hop: None,
        }
    }
}

impl<A: RouteAddr> Routes<A> {
    pub(crate) fn new() -> Self {
        Self {
            entries: RmLock::new(&ROUTES, Vec::new()),
            generation: AtomicU64::new(0),
            own_bits: AtomicU64::new(0),
        }
    }

    /// The number of the last change. Acquire: a thread that reads a change's number finds the change when it looks up.
    /// It must read the number before the look-up: then a change in between makes the kept route out of date and is not
    /// missed.
    #[inline]
    fn now(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Adds the interface's own addresses and their networks.
    pub(crate) fn add_connected(&self, ifp: &Arc<Ifnet>, addrs: &[Cidr<A>]) {
        for &addr in addrs {
            self.add(Entry {
                net: host(addr.addr),
                ifp: Arc::clone(ifp),
                gateway: None,
                src: addr.addr,
                local: true,
                refusal: None,
                pinned: true,
                learnt: false,
            });
            if addr.prefix_len < A::BITS {
                let ifp = Arc::clone(ifp);
                self.add(Entry {
                    net: addr,
                    gateway: None,
                    src: addr.addr,
                    local: ifp.is_loopback(),
                    ifp,
                    refusal: None,
                    pinned: true,
                    learnt: false,
                });
            }
        }
    }

    /// Adds a default route by `gateway`, which is on the link of `ifp`; `learnt`: the gateway advertised itself.
    pub(crate) fn add_default(&self, ifp: &Arc<Ifnet>, gateway: A, learnt: bool) {
        let net = Cidr {
            addr: A::UNSPECIFIED,
            prefix_len: 0,
        };
        let src = A::source_for(ifp, gateway);
        let gateway = Some(gateway);
        self.add(Entry {
            net,
            ifp: Arc::clone(ifp),
            gateway,
            src,
            local: false,
            refusal: None,
            pinned: false,
            learnt,
        });
    }

    /// Puts the entry after those of its network: the first of two equal ones wins.
    fn add(&self, entry: Entry<A>) {
        self.change(|entries| insert(entries, entry));
    }

    /// Updates the routes after a change of an interface's addresses. The routes of a removed address are removed, and
    /// other routes through the interface get another source. After an addition, routes without a source get one.
    pub(crate) fn address_changed(&self, index: IfIndex, gone: Option<A>) {
        let old = gone.unwrap_or(A::UNSPECIFIED);
        self.change(|entries| {
            let its = |e: &Entry<A>| e.ifp.index == index && e.src == old;
            entries.retain(|e| !(e.pinned && its(e)));
            for entry in entries.iter_mut().filter(|e| its(e)) {
                let towards = entry.gateway.unwrap_or(entry.net.addr);
                entry.src = A::source_for(&entry.ifp, towards);
            }
        });
    }

    /// Removes the default route by this router, if the router itself advertised it.
    pub(crate) fn remove_gateway(&self, index: IfIndex, gateway: A) {
        let its = |e: &Entry<A>| {
            let is_default = e.net.prefix_len == 0 && e.learnt;
            is_default && e.ifp.index == index && e.gateway == Some(gateway)
        };
        self.change(|entries| entries.retain(|e| !its(e)));
    }

    /// A neighbour does not answer. Among the routes that routers advertised, a default route by this neighbour moves
    /// behind the others, and a redirect to it is removed, so that its destination uses a default route again (RFC 4861
    /// sections 6.3.6 and 7.3.3).
    pub(crate) fn neighbour_lost(&self, index: IfIndex, addr: A) {
        let is_by = |e: &Entry<A>| {
            let is_hop = e.gateway.unwrap_or(e.net.addr) == addr;
            e.learnt && e.ifp.index == index && is_hop
        };
        if !self.entries.read().iter().any(is_by) {
            return;
        }
        self.change(|entries| {
            let lost: Vec<_> = entries.extract_if(.., |e| is_by(e)).collect();
            let defaults = lost.into_iter().filter(|e| e.net.prefix_len == 0);
            defaults.for_each(|entry| insert(entries, entry));
        });
    }

    /// Forgets every route through the interface.
    pub(crate) fn remove_interface(&self, index: IfIndex) {
        self.change(|entries| entries.retain(|e| e.ifp.index != index));
    }

    /// Has senders look their kept routes up again.
    pub(crate) fn void_kept(&self) {
        self.change(|_| ());
    }

    fn change<R>(&self, f: impl FnOnce(&mut Vec<Entry<A>>) -> R) -> R {
        let mut entries = self.entries.write();
        let result = f(&mut entries);
        // Relaxed: a packet that misses a new address counts as one that came before it.
        self.own_bits.store(own_bits(&entries), Ordering::Relaxed);
        // Release, and before the lock is released: a look-up under the new number finds the new table.
        self.generation.fetch_add(1, Ordering::Release);
        result
    }

    /// The most specific route to `dst`.
    #[doc(alias = "fib4_lookup")]
    pub(crate) fn lookup(&self, dst: A) -> Option<Route<A>> {
        self.find(dst).ok()
    }

    /// The same; without a route, the result says whether an entry rejects the packet.
    pub(crate) fn find(&self, dst: A) -> Result<Route<A>, Option<RouteRefusal>> {
        self.with_entry(dst, |e| match e.refusal {
            None => Ok(e.route_to(dst)),
            Some(why) => Err(Some(why)),
        })
        .unwrap_or(Err(None))
    }

    /// The source address for packets to `dst`, if a route leads there.
    pub(crate) fn source_to(&self, dst: A) -> Option<A> {
        self.with_entry(dst, |e| e.refusal.is_none().then_some(e.src))?
    }

    /// Whether the route to `dst` leads through this interface.
    pub(crate) fn leads_through(&self, index: IfIndex, dst: A) -> bool {
        self.with_entry(dst, |e| e.refusal.is_none() && e.ifp.index == index)
            .unwrap_or(false)
    }

    /// Applies `f` to the most specific entry for `dst`.
    fn with_entry<R>(&self, dst: A, f: impl FnOnce(&Entry<A>) -> R) -> Option<R> {
        let entries = self.entries.read();
        most_specific(&entries, dst).map(f)
    }

    /// The route to a group or to the limited broadcast, which exist on every link: on the link of `src`, or on that of
    /// the default route.
    pub(crate) fn lookup_group(&self, src: A, dst: A) -> Option<Route<A>> {
        let entries = self.entries.read();
        let own = routes_to(&entries, &host(src)).iter().find(|e| e.local);
        let any = Cidr {
            addr: A::UNSPECIFIED,
            prefix_len: 0,
        };
        let mut defaults = routes_to(&entries, &any).iter();
        let entry = own.or_else(|| defaults.find(|e| e.refusal.is_none()))?;
        Some(Route {
            next_hop: dst,
            local: false,
            ..entry.route_to(dst)
        })
    }

    /// The interface of this number, if it has addresses.
    pub(crate) fn link(&self, index: IfIndex) -> Option<Arc<Ifnet>> {
        let entries = self.entries.read();
        let its = |e: &&Entry<A>| e.pinned && e.ifp.index == index;
        entries.iter().find(its).map(|e| Arc::clone(&e.ifp))
    }

    /// Whether `addr` is an address of this stack.
    pub(crate) fn is_local(&self, addr: A) -> bool {
        // As on Linux, all of 127/8 is ours (RFC 1122 3.2.1.3 g leaves no other place for it).
        if addr.is_own_anyway() {
            return true;
        }
        if self.own_bits.load(Ordering::Relaxed) & addr.bit() == 0 {
            return false;
        }
        let entries = self.entries.read();
        routes_to(&entries, &host(addr)).iter().any(|e| e.local)
    }
}

/// This stack's addresses: those of the host routes to itself, which come first.
fn own<A: RouteAddr>(entries: &[Entry<A>]) -> impl Iterator<Item = A> {
    let hosts = entries.iter().take_while(|e| e.net.prefix_len == A::BITS);
    hosts.filter(|e| e.local).map(|e| e.net.addr)
}

/// The bits of those that are not known to be ours without the table. Loopback's would be that of each address that
/// ends in 1, as those of many routers do.
fn own_bits<A: RouteAddr>(entries: &[Entry<A>]) -> u64 {
    let own = own(entries).filter(|addr| !addr.is_own_anyway());
    own.fold(0, |bits, addr| bits | addr.bit())
}

/// The order of the table: longer prefixes first, and within a length by network.
fn rank<A: RouteAddr>(net: &Cidr<A>) -> (Reverse<u8>, A) {
    (Reverse(net.prefix_len), A::network_of(net))
}

/// The places of the routes to exactly this network.
fn places_of<A: RouteAddr>(entries: &[Entry<A>], net: &Cidr<A>) -> Range<usize> {
    let rank_of_net = rank(net);
    let start = entries.partition_point(|e| rank(&e.net) < rank_of_net);
    let equal = entries[start..].iter();
    start..start + equal.take_while(|e| rank(&e.net) == rank_of_net).count()
}

fn routes_to<'a, A: RouteAddr>(entries: &'a [Entry<A>], net: &Cidr<A>) -> &'a [Entry<A>] {
    &entries[places_of(entries, net)]
}

/// The network of this address alone.
fn host<A: RouteAddr>(addr: A) -> Cidr<A> {
    Cidr {
        addr,
        prefix_len: A::BITS,
    }
}

/// The first entry of the longest prefix that `dst` has.
fn most_specific<A: RouteAddr>(entries: &[Entry<A>], dst: A) -> Option<&Entry<A>> {
    let mut rest = entries;
    while let Some(&Entry {
        net: Cidr { prefix_len, .. },
        ..
    }) = rest.first()
    {
        let end = rest.partition_point(|e| e.net.prefix_len == prefix_len);
        let (of_length, shorter) = rest.split_at(end);
        let network = A::network_of(&Cidr {
            addr: dst,
            prefix_len,
        });
        let at = of_length.partition_point(|e| A::network_of(&e.net) < network);
        match of_length.get(at) {
            Some(entry) if A::network_of(&entry.net) == network => return Some(entry),
            _ => rest = shorter,
        }
    }
    None
}

/// Puts the entry after those of its network. But routes that routers advertised are the last.
fn insert<A: RouteAddr>(entries: &mut Vec<Entry<A>>, entry: Entry<A>) {
    let key = |e: &Entry<A>| (rank(&e.net), e.learnt);
    let at = entries.partition_point(|e| key(e) <= key(&entry));
    entries.insert(at, entry);
}

#[cfg(all(test, not(shuttle)))]
mod tests;
