//! Routes that a program adds, deletes and lists, beside those that come with addresses.
//!
//! For programs that set a stack up, and `netstat -r`.
//!
//! Invariants: a program adds at most one route to a network, and that comes before the routes that routers advertised.
//! Routes of an interface's addresses can't be deleted. A route is removed with its interface, also if it is added at
//! that moment. Locks: the table (ROUTE). Sources: RFC 1812 section 5.2.4.3, BSD's route(8).

use std::io;
use std::net::IpAddr;

use super::{Entry, RouteAddr, RouteRefusal, Routes, insert, places_of};
use crate::error::into_error;
use crate::ifnet::{Cidr, IfAddr, IfIndex};

/// Where a route leads (route(8), RFC 1812 section 5.2.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteKind {
    /// To a router on the link of an interface.
    #[doc(alias = "RTF_GATEWAY")]
    Gateway(IfIndex, IpAddr),
    /// To the destination itself, which is on the link of an interface.
    Link(IfIndex),
    /// Nowhere, without a word.
    #[doc(alias = "RTF_BLACKHOLE")]
    Blackhole,
    /// Rejects packets, and their senders get an error: "host unreachable" (RFC 792), or "reject route" (RFC 4443
    /// section 3.1, code 6).
    #[doc(alias = "RTF_REJECT")]
    Reject,
    /// Rejects packets, and their senders get the error "administratively prohibited" (RFC 1812 section 5.2.7.1, RFC
    /// 4443 section 3.1, code 1).
    #[doc(alias = "RTN_PROHIBIT")]
    Prohibit,
}

/// A route, as `netstat -r` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteEntry {
    /// The network.
    pub net: IfAddr,
    /// Where it leads.
    pub kind: RouteKind,
    /// The address to send from; unspecified if the interface has none.
    pub src: IpAddr,
    /// It is an address of this stack.
    pub local: bool,
    /// It came with an interface's address.
    pub pinned: bool,
}

/// Why a route can't be added or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There is a route to this network already.
    #[error("there is a route to this network already")]
    Exists,
    /// There is no such route, or only one that belongs to an address.
    #[error("there is no such route that could be deleted")]
    NotFound,
    /// There is no such interface, or no route may lead through it.
    #[error("no such interface, or no route may lead through it")]
    NoInterface,
    /// The prefix is longer than an address, the address has bits set after the prefix, or the network exists on each
    /// link.
    #[error(
        "no route can lead there: the prefix is too long, bits are set behind it, or each link has the network"
    )]
    BadNetwork,
    /// No router can have this address, or we have it, or the network is of the other version of IP.
    #[error("no router can have this address, or the network is of the other version of IP")]
    BadGateway,
}

impl From<RouteError> for io::Error {
    fn from(e: RouteError) -> Self {
        let kind = match e {
            RouteError::Exists => io::ErrorKind::AlreadyExists,
            RouteError::NotFound | RouteError::NoInterface => io::ErrorKind::NotFound,
            RouteError::BadNetwork | RouteError::BadGateway => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, e)
    }
}

into_error!(RouteError);

impl<A: RouteAddr> Entry<A> {
    fn to_kind(&self) -> RouteKind {
        match (self.refusal, self.gateway) {
            (Some(RouteRefusal::Blackhole), _) => RouteKind::Blackhole,
            (Some(RouteRefusal::Reject), _) => RouteKind::Reject,
            (Some(RouteRefusal::Prohibit), _) => RouteKind::Prohibit,
            (None, Some(gateway)) => RouteKind::Gateway(self.ifp.index, gateway.into()),
            (None, None) => RouteKind::Link(self.ifp.index),
        }
    }

    /// A program added it, for exactly this network.
    fn is_set_for(&self, net: Cidr<A>) -> bool {
        !self.pinned && self.net == net
    }
}

impl<A: RouteAddr> Routes<A> {
    /// Adds a route. `replaces`: the first one of its kind to the same network gives its place to it.
    pub(crate) fn set(&self, entry: Entry<A>, replaces: bool) -> Result<(), RouteError> {
        let mut replaced = None;
        let result = self.change(|entries| {
            let mut places = places_of(entries, &entry.net);
            let start = places.start;
            let is_same = |e: &Entry<A>| e.is_set_for(entry.net) && e.learnt == entry.learnt;
            if let Some(at) = places.find(|&at| is_same(&entries[at])) {
                if !replaces {
                    return Err(RouteError::Exists);
                }
                replaced = Some(std::mem::replace(&mut entries[at], entry));
                return Ok(());
            }
            match entry.net.addr.is_own_anyway() && entry.ifp.route_localnet {
                // A neighbour's loopback takes the place of ours.
                true => entries.insert(start, entry),
                false => insert(entries, entry),
            }
            Ok(())
        });
        // Dropped after the lock is released, as in `unset`.
        drop(replaced);
        result
    }

    pub(crate) fn unset(&self, net: Cidr<A>) -> Result<(), RouteError> {
        let taken = self.change(|entries| {
            let at = places_of(entries, &net).find(|&at| entries[at].is_set_for(net))?;
            Some(entries.remove(at))
        });
        // Dropped after the lock is released: it may hold the last reference to its interface.
        taken.map(drop).ok_or(RouteError::NotFound)
    }

    /// Removes the routes to this network that routers advertised on an interface.
    pub(crate) fn unset_learnt(&self, index: IfIndex, net: Cidr<A>) {
        let its = |e: &Entry<A>| e.learnt && e.net == net && e.ifp.index == index;
        self.change(|entries| entries.retain(|e| !its(e)));
    }

    pub(crate) fn list(&self) -> Vec<RouteEntry> {
        let entry = |e: &Entry<A>| RouteEntry {
            net: IfAddr::new(A::network_of(&e.net), e.net.prefix_len),
            kind: e.to_kind(),
            src: e.src.into(),
            local: e.local,
            pinned: e.pinned,
        };
        self.entries.read().iter().map(entry).collect()
    }
}
