//! The decisions of a host, which are carried out when no lock is held.
//!
//! Locks: none.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::ifnet::Cidr;

/// An action for an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostAction {
    /// Ask whether another station has the address.
    Probe(Ipv6Addr, [u8; 6]),
    /// The address is the interface's.
    Add(Cidr<Ipv6Addr>),
    /// The address is the interface's no more.
    Remove(Ipv6Addr),
    /// Adds or removes the default route by this router.
    AddRouter(Ipv6Addr),
    RemoveRouter(Ipv6Addr),
    /// Adds or removes the route to a network on the link.
    AddPrefix(Cidr<Ipv6Addr>),
    RemovePrefix(Cidr<Ipv6Addr>),
    /// Removes the redirect of this destination.
    RemoveRedirect(Ipv6Addr),
    /// Ask for routers.
    Solicit,
    /// Sets the mean time for which neighbours count as reachable.
    Reachable(Duration),
}
