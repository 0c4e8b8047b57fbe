//! Routes that a program adds, deletes and lists, beside those that come with addresses.
//!
//! For programs that set a stack up, and `netstat -r`.
//!
//! Invariants: of two routes that a program adds no two are to the same network; those that came with
//! an interface's addresses can't be deleted; a route through an interface that goes, goes with it,
//! also if it is added at that moment. Locks: the table (ROUTE).
//! Sources: RFC 1812 section 5.2.4.3, BSD's route(8).

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use wire::is_martian_source;

use super::{Entry, Refusal, Routes, insert};
use crate::ifnet::{IfAddr, IfIndex, Ifnet};
use crate::stack::Stack;

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteKind {
    /// To a router on the link of an interface.
    #[doc(alias = "RTF_GATEWAY")]
    Gateway(IfIndex, Ipv4Addr),
    /// To the destination itself, which is on the link of an interface.
    Link(IfIndex),
    /// Nowhere, without a word.
    #[doc(alias = "RTF_BLACKHOLE")]
    Blackhole,
    /// Nowhere, and the sender is told that there is no way.
    #[doc(alias = "RTF_REJECT")]
    Reject,
}

/// A route, as `netstat -r` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteEntry {
    /// The network.
    pub net: IfAddr,
    /// Where it leads.
    pub kind: RouteKind,
    /// The address to send from; unspecified if the interface has none.
    pub src: Ipv4Addr,
    /// It is an address of this stack.
    pub local: bool,
    /// It came with an interface's address.
    pub pinned: bool,
}

/// Why a route can't be added or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteError {
    /// There is a route to this network already.
    Exists,
    /// There is none, or only one that came with an address.
    NotFound,
    /// There is no such interface, or it leads nowhere.
    NoInterface,
    /// More than 32 bits of prefix, or an address with bits behind it.
    BadNetwork,
    /// No router can have this address, or we have it.
    BadGateway,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "there is a route to this network already",
            Self::NotFound => "there is no such route that could be deleted",
            Self::NoInterface => "no such interface",
            Self::BadNetwork => "not a network: bits are set behind the prefix",
            Self::BadGateway => "no router can have this address",
        })
    }
}

impl std::error::Error for RouteError {}

impl Entry {
    fn to_kind(&self) -> RouteKind {
        match (self.refusal, self.gateway) {
            (Some(Refusal::Blackhole), _) => RouteKind::Blackhole,
            (Some(Refusal::Reject), _) => RouteKind::Reject,
            (None, Some(gateway)) => RouteKind::Gateway(self.ifp.index, gateway),
            (None, None) => RouteKind::Link(self.ifp.index),
        }
    }

    /// A program added it, for exactly this network.
    fn is_set_for(&self, net: IfAddr) -> bool {
        !self.pinned && self.net == net
    }
}

impl Routes {
    fn set(&self, entry: Entry) -> Result<(), RouteError> {
        self.change(|entries| {
            if entries.iter().any(|e| e.is_set_for(entry.net)) {
                return Err(RouteError::Exists);
            }
            match entry.net.addr.is_loopback() && entry.ifp.route_localnet {
                // A neighbour's loopback takes the place of ours.
                true => {
                    let len = entry.net.prefix_len;
                    let at = entries.partition_point(|e| e.net.prefix_len > len);
                    entries.insert(at, entry);
                }
                false => insert(entries, entry),
            }
            Ok(())
        })
    }

    fn unset(&self, net: IfAddr) -> Result<(), RouteError> {
        let taken = self.change(|entries| {
            let at = entries.iter().position(|e| e.is_set_for(net))?;
            Some(entries.remove(at))
        });
        // Dropped after the lock: it may be the last to know its interface.
        taken.map(drop).ok_or(RouteError::NotFound)
    }

    fn list(&self) -> Vec<RouteEntry> {
        let entry = |e: &Entry| RouteEntry {
            net: IfAddr {
                addr: e.net.network(),
                ..e.net
            },
            kind: e.to_kind(),
            src: e.src,
            local: e.local,
            pinned: e.pinned,
        };
        self.entries.read().iter().map(entry).collect()
    }
}

impl Stack {
    /// Adds a route. The most precise route wins; one that came with an interface's address goes
    /// before another to the same network.
    ///
    /// # Errors
    /// See [`RouteError`].
    #[doc(alias = "RTM_ADD")]
    pub fn add_route(&self, net: IfAddr, kind: RouteKind) -> Result<(), RouteError> {
        let _giant = self.0.look();
        if net.prefix_len > 32 || net.network() != net.addr {
            return Err(RouteError::BadNetwork);
        }
        let (index, gateway, refusal) = match kind {
            RouteKind::Gateway(index, gateway) => (index, Some(gateway), None),
            RouteKind::Link(index) => (index, None, None),
            RouteKind::Blackhole => (self.0.lo.index, None, Some(Refusal::Blackhole)),
            RouteKind::Reject => (self.0.lo.index, None, Some(Refusal::Reject)),
        };
        let ifp = self.0.interface(index).ok_or(RouteError::NoInterface)?;
        if refusal.is_none() && ifp.is_loopback() {
            return Err(RouteError::NoInterface);
        }
        if gateway.is_some_and(|gateway| !self.may_be_router(gateway, &ifp)) {
            return Err(RouteError::BadGateway);
        }
        self.0.routes.set(Entry {
            net,
            src: ifp.source_for(gateway.unwrap_or(net.addr)),
            ifp: Arc::clone(&ifp),
            gateway,
            local: false,
            refusal,
            pinned: false,
        })?;
        self.forget_if_gone(&ifp);
        Ok(())
    }

    /// Deletes a route that was added for exactly this network.
    ///
    /// # Errors
    /// [`RouteError::NotFound`].
    #[doc(alias = "RTM_DELETE")]
    pub fn delete_route(&self, net: IfAddr) -> Result<(), RouteError> {
        let _giant = self.0.look();
        self.0.routes.unset(net)
    }

    /// Every route, longest prefix first.
    #[doc(alias = "netstat -r")]
    pub fn routes(&self) -> Vec<RouteEntry> {
        let _giant = self.0.look();
        self.0.routes.list()
    }

    /// Sends everything without a more precise route to `gateway`, which is on interface `index`.
    pub fn add_default_route(&self, index: IfIndex, gateway: Ipv4Addr) {
        let _giant = self.0.look();
        if let Some(ifp) = self.0.interface(index) {
            self.0.routes.add_default(&ifp, gateway);
            self.forget_if_gone(&ifp);
        }
    }

    /// An interface may have been detached, and its routes removed, before the last one came.
    fn forget_if_gone(&self, ifp: &Ifnet) {
        if ifp.is_gone() {
            self.0.routes.remove_interface(ifp.index);
        }
    }

    fn may_be_router(&self, gateway: Ipv4Addr, ifp: &Ifnet) -> bool {
        !gateway.is_unspecified()
            && !is_martian_source(gateway)
            && !ifp.is_broadcast(gateway)
            && !self.0.routes.is_local(gateway)
    }
}
