//! The operations of an address of either version that the routing table needs.
//!
//! Locks: those that [`RouteAddr::source_for`] takes (IFADDR).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::ifnet::addrs::LocalAddr;
use crate::ifnet::{IfAddr, Ifnet};

/// An address type, with the operations that the table needs.
pub(crate) trait RouteAddr: LocalAddr + Ord {
    /// No address, or any.
    const UNSPECIFIED: Self;
    /// The network itself: the address without the bits behind the prefix.
    fn network_of(net: &IfAddr<Self>) -> Self;
    /// Whether it belongs to this host independent of the table.
    fn is_own_anyway(self) -> bool;
    /// The address of an interface to send from to `dst`.
    fn source_for(ifp: &Ifnet, dst: Self) -> Self;
}

impl RouteAddr for Ipv4Addr {
    const UNSPECIFIED: Self = Self::UNSPECIFIED;

    #[inline]
    fn network_of(net: &IfAddr) -> Self {
        net.network()
    }

    #[inline]
    fn is_own_anyway(self) -> bool {
        self.is_loopback()
    }

    fn source_for(ifp: &Ifnet, dst: Self) -> Self {
        ifp.source_for(dst)
    }
}

impl RouteAddr for Ipv6Addr {
    const UNSPECIFIED: Self = Self::UNSPECIFIED;

    #[inline]
    fn network_of(net: &IfAddr<Self>) -> Self {
        net.network()
    }

    #[inline]
    fn is_own_anyway(self) -> bool {
        self.is_loopback()
    }

    fn source_for(ifp: &Ifnet, dst: Self) -> Self {
        ifp.source_for6(dst).unwrap_or(Self::UNSPECIFIED)
    }
}
