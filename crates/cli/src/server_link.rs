//! The link of a server that is no gateway, as its stack sees it: next hops, and groups of IPv6.
//!
//! Locks: none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mbuma::{Autoconf, IfAddr, IfIndex, RouteKind, Stack};

use crate::errors::Error;

/// Adds the route to all networks of `gateway`'s version of IP.
pub(crate) fn add_default_route(
    stack: &Stack,
    index: IfIndex,
    gateway: IpAddr,
) -> Result<(), Error> {
    let anywhere = match gateway {
        IpAddr::V4(_) => IfAddr::new(Ipv4Addr::UNSPECIFIED, 0),
        IpAddr::V6(_) => IfAddr::new(Ipv6Addr::UNSPECIFIED, 0),
    };
    let added = stack.add_route(anywhere, RouteKind::Gateway(index, gateway));
    added.map_err(|e| Error::stack("adding a default route", e))
}

/// The settings of IPv6 for a TAP that is there already, which may be in a bridge: the stack reports its groups,
/// because a bridge may send solicitations only where the group was reported (RFC 4541). It uses the configured
/// addresses at once, without probes for duplicates, as those of IPv4.
pub(crate) fn on_owners_link() -> Autoconf {
    Autoconf {
        dad_transmits: 0,
        accept_routers: false,
        ..Autoconf::default()
    }
}
