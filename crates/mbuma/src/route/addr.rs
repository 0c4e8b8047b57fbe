//! The operations of an address of either version that the routing table needs.
//!
//! Locks: those that [`RouteAddr::source_for`] takes (IFADDR).

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{is_link_local6, is_martian_source, is_martian_source6};

use crate::ifnet::addrs::LocalAddr;
use crate::ifnet::{Cidr, Ifnet};

/// An address type, with the operations that the table needs.
pub(crate) trait RouteAddr: LocalAddr + Ord {
    /// No address, or any.
    const UNSPECIFIED: Self;
    /// The network itself: the address without the bits behind the prefix.
    fn network_of(net: &Cidr<Self>) -> Self;
    /// Whether it belongs to this host independent of the table.
    fn is_own_anyway(self) -> bool;
    /// Whether the network exists on each link, so that no route leads there: a zone distinguishes them.
    fn is_on_each_link(self) -> bool;
    /// Whether a router on the link of `ifp` may have it.
    fn may_be_router(self, ifp: &Ifnet) -> bool;
    /// The address of an interface to send from to `dst`.
    fn source_for(ifp: &Ifnet, dst: Self) -> Self;
}

impl RouteAddr for Ipv4Addr {
    const UNSPECIFIED: Self = Self::UNSPECIFIED;

    #[inline]
    fn network_of(net: &Cidr<Self>) -> Self {
        net.network()
    }

    #[inline]
    fn is_own_anyway(self) -> bool {
        self.is_loopback()
    }

    fn is_on_each_link(self) -> bool {
        false
    }

    fn may_be_router(self, ifp: &Ifnet) -> bool {
        !(self.is_unspecified() || is_martian_source(self) || ifp.is_broadcast(self))
    }

    fn source_for(ifp: &Ifnet, dst: Self) -> Self {
        ifp.source_for(dst)
    }
}

impl RouteAddr for Ipv6Addr {
    const UNSPECIFIED: Self = Self::UNSPECIFIED;

    #[inline]
    fn network_of(net: &Cidr<Self>) -> Self {
        net.network()
    }

    #[inline]
    fn is_own_anyway(self) -> bool {
        self.is_loopback()
    }

    fn is_on_each_link(self) -> bool {
        is_link_local6(self) || self.is_multicast()
    }

    fn may_be_router(self, ifp: &Ifnet) -> bool {
        !(self.is_unspecified() || is_martian_source6(self) || ifp.owns6(self))
    }

    fn source_for(ifp: &Ifnet, dst: Self) -> Self {
        ifp.source_for6(dst).unwrap_or(Self::UNSPECIFIED)
    }
}
