//! The decisions of a host, which are carried out when no lock is held.
//!
//! Locks: none.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::ifnet::IfAddr;

/// The next thing to do for an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostAction {
    /// Ask whether another station has the address.
    Probe(Ipv6Addr, [u8; 6]),
    /// The address is the interface's.
    Add(IfAddr<Ipv6Addr>),
    /// It is not any more.
    Remove(Ipv6Addr),
    /// Packets to all other networks go to this router, or no more.
    AddRouter(Ipv6Addr),
    RemoveRouter(Ipv6Addr),
    /// A network is on the link, or no more.
    AddPrefix(IfAddr<Ipv6Addr>),
    RemovePrefix(IfAddr<Ipv6Addr>),
    /// Packets to this destination have no first hop of their own any more.
    RemoveRedirect(Ipv6Addr),
    /// Ask for routers.
    Solicit,
    /// Neighbours count as reachable for this long in the mean.
    Reachable(Duration),
}
