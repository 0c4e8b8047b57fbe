//! The stack's interface to the guest: its device, addresses and routes.
//!
//! Locks: none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use kern::{Clock, Random};
use mbuma::device::Device;
use mbuma::device::impair::Impaired;
use mbuma::{IfAddr, IfConfig, IfIndex, RouteKind, Stack};
use wire::MacAddr;

use crate::addressing::{Addressing, Addressing6};
use crate::args::{Impairment, NetOpts};
use crate::errors::Error;
use crate::gateway::devices::GuestDevices;
use crate::gateway::figures::{Fixed, ImpairedLink};
use crate::guest::GuestEnd;
use crate::server_link;

/// Gives the stack its interface.
pub(super) fn attach(
    stack: &Stack,
    ends: &GuestEnd,
    devices: GuestDevices,
    opts: &NetOpts,
    clock: &Arc<dyn Clock>,
    is_owners: bool,
) -> Result<(IfIndex, Option<Arc<ImpairedLink>>), Error> {
    let config = interface(ends, opts, is_owners);
    let mut queues = devices.queues(&config.name, opts.pcap.as_deref(), clock)?;
    let link = opts
        .impair
        .map(|wanted| impaired(queues.remove(0), wanted, stack, clock));
    queues.extend(link.iter().map(|link| Arc::clone(link) as _));
    let index = stack.attach_queues(queues, config);
    let index = index.map_err(|e| Error::stack("attaching the guest's interface", e))?;
    Ok((index, link))
}

/// The stack's side of the guest's network.
fn interface(ends: &GuestEnd, opts: &NetOpts, is_owners: bool) -> IfConfig {
    let alone = opts.serve.alone.as_ref();
    let mac = match (alone, &ends.v4) {
        (Some(_), Some(v4)) => mac_of(v4.gateway),
        (Some(_), None) => ends.v6.map_or(opts.stack_mac(), |v6| mac_of6(v6.gateway)),
        _ => opts.stack_mac(),
    };
    let v4 = ends.v4.iter().flat_map(own_addrs);
    let v6 = ends.v6.iter().flat_map(own_addrs6);
    let joins = alone.is_some() && is_owners && ends.v6.is_some();
    IfConfig {
        mac: Some(mac),
        autoconf: joins.then(server_link::on_owners_link),
        addrs: v4.chain(v6).collect(),
        accept_any: alone.is_none(),
        route_localnet: alone.is_none(),
        ..IfConfig::new(ends.ifname.clone())
    }
}

/// The Ethernet address of a server, which may have others beside it in a bridge: each has an address of its own.
fn mac_of(addr: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = addr.octets();
    MacAddr([0x02, b'm', a, b, c, d])
}

/// The same: another letter, and all bits of the address.
fn mac_of6(addr: Ipv6Addr) -> MacAddr {
    let [a, b, c, d] = addr
        .to_bits()
        .to_be_bytes()
        .chunks(4)
        .fold([0; 4], |sum, part| [0, 1, 2, 3].map(|n| sum[n] ^ part[n]));
    MacAddr([0x02, b'6', a, b, c, d])
}

/// The stack's addresses of IPv4: one, if the gateway answers for names as well.
fn own_addrs(v4: &Addressing) -> Vec<IfAddr> {
    let mut addrs = vec![v4.gateway, v4.dns];
    addrs.dedup();
    let prefix_len = v4.link_prefix_len();
    // An address for names may be outside of the network.
    let inside = |addr| wire::is_same_subnet(addr, v4.gateway, prefix_len);
    let own = |addr| IfAddr::new(addr, if inside(addr) { prefix_len } else { 32 });
    addrs.into_iter().map(own).collect()
}

/// The stack's addresses of IPv6, the one of the link among them.
fn own_addrs6(v6: &Addressing6) -> Vec<IfAddr> {
    let all = [Some(v6.link_gateway), Some(v6.gateway), v6.dns];
    let mut addrs: Vec<_> = all.into_iter().flatten().collect();
    addrs.dedup();
    let on_link = |addr| v6.contains(addr) || addr == v6.link_gateway;
    let own = |addr| IfAddr::new(addr, if on_link(addr) { v6.prefix_len } else { 128 });
    addrs.into_iter().map(own).collect()
}

/// Puts a bad link before a device.
fn impaired(
    device: Arc<dyn Device>,
    wanted: Impairment,
    stack: &Stack,
    clock: &Arc<dyn Clock>,
) -> Arc<ImpairedLink> {
    let Impairment { up, down, seed } = wanted;
    let random = seed.map_or_else(Random::from_os, Random::from_seed);
    let clock = Arc::clone(clock);
    let link = Impaired::new(device, [up, down], stack.pool(), clock, random);
    Arc::new(link)
}

/// Adds the routes to all that is not on the link of the guest's networks.
pub(super) fn add_routes(
    stack: &Stack,
    index: IfIndex,
    fixed: &Fixed,
    opts: &NetOpts,
    is_owners: bool,
) -> Result<(), Error> {
    if let Some(v4) = &fixed.guest.v4 {
        add_routes4(stack, index, v4, fixed.loopback)?;
    }
    for gateway in outside(&fixed.guest, opts, is_owners) {
        server_link::add_default_route(stack, index, gateway)?;
    }
    if let Some(v6) = fixed.guest.v6.filter(|v6| v6.routed) {
        let guest = IfAddr::new(v6.guest, 128);
        let added = stack.add_route(guest, RouteKind::Link(index));
        added.map_err(|e| Error::stack("adding a route to the guest", e))?;
    }
    Ok(())
}

/// Adds the routes to all that is not on the link of the guest's IPv4 network.
fn add_routes4(
    stack: &Stack,
    index: IfIndex,
    v4: &Addressing,
    loopback: bool,
) -> Result<(), Error> {
    if v4.routed {
        let guest = IfAddr::new(v4.guest, 32);
        let added = stack.add_route(guest, RouteKind::Link(index));
        added.map_err(|e| Error::stack("adding a route to the guest", e))?;
    }
    match loopback {
        true => reach_loopback(stack, index, v4),
        false => Ok(()),
    }
}

/// The next hops to clients of other networks, for a server that is no gateway: the host's end of the interface, if
/// mbuma configured that.
fn outside(ends: &GuestEnd, opts: &NetOpts, is_owners: bool) -> Vec<IpAddr> {
    let Some(alone) = opts.serve.alone else {
        return Vec::new();
    };
    let hops = alone.next_hops;
    let v4 = ends.v4.filter(|_| !is_owners).map(|v4| v4.guest);
    let v6 = ends.v6.filter(|_| !is_owners).map(|v6| v6.guest);
    let v4 = hops.v4.or(v4).map(IpAddr::from);
    v4.into_iter()
        .chain(hops.v6.or(v6).map(IpAddr::from))
        .collect()
}

/// Adds the route to the guest's 127.0.0.1 by the guest's address.
fn reach_loopback(stack: &Stack, index: IfIndex, v4: &Addressing) -> Result<(), Error> {
    let loopback = IfAddr::new(Ipv4Addr::LOCALHOST, 32);
    let via = RouteKind::Gateway(index, v4.guest.into());
    let added = stack.add_route(loopback, via);
    added.map_err(|e| Error::stack("adding a route to the guest's loopback", e))
}
