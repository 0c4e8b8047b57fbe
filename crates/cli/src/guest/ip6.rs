//! The guest's IPv6 addresses: usable as soon as COMMAND begins.
//!
//! By default the kernel probes each address for duplicates and waits for a router, some three seconds in all. Here
//! only mbuma and the guest are on the link, and both addresses are known.
//!
//! Locks: none.
//! Sources: RFC 4862 section 5.4 (duplicate address detection); ip-sysctl.rst of the kernel.

use std::fs;
use std::io;
use std::net::Ipv6Addr;

use crate::addressing::Addressing6;
use crate::sys::netdev::NetdevSocket;

/// The metric that routers' own routes have; the guest may add a better one.
const METRIC: u32 = 1024;
/// The length of the link's own prefix.
const LINK_PREFIX_LEN: u8 = 64;

/// Lets the kernel make no addresses by itself. The interface is not up yet.
///
/// Each setting saves time or a needless packet, and none is required: /proc/sys may be read-only.
pub(super) fn prepare(control: &NetdevSocket, ifname: &str) {
    for (name, value) in [
        ("disable_ipv6", "0"),
        ("accept_dad", "0"),
        ("accept_ra", "0"),
        ("autoconf", "0"),
    ] {
        let _ = set(ifname, name, value);
    }
    let _ = control.no_link_local_of_its_own(ifname);
}

/// Switches IPv6 off, because a guest that used it would wait for answers. Without IPv6, or with a read-only /proc/sys,
/// nothing is done, and the guest's solicitations stay unanswered.
pub(super) fn disable(ifname: &str) {
    let _ = set(ifname, "disable_ipv6", "1");
}

/// Gives the interface, which is on, its addresses, and the default route if the stack is a gateway.
pub(super) fn set_up(
    control: &NetdevSocket,
    ifname: &str,
    network: &Addressing6,
    is_gateway: bool,
) -> io::Result<()> {
    control.add_addr6(ifname, network.link_guest, LINK_PREFIX_LEN)?;
    control.add_addr6(ifname, network.guest, network.link_prefix_len())?;
    if !is_gateway {
        return Ok(());
    }
    let anywhere = (Ipv6Addr::UNSPECIFIED.into(), 0);
    let gateway = network.next_hop();
    if !gateway.is_unicast_link_local() {
        control.add_route(ifname, (gateway.into(), 128), None, METRIC)?;
    }
    control.add_route(ifname, anywhere, Some(gateway.into()), METRIC)
}

fn set(ifname: &str, name: &str, value: &str) -> io::Result<()> {
    fs::write(format!("/proc/sys/net/ipv6/conf/{ifname}/{name}"), value)
}
