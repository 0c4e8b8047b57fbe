//! An interface that configures itself as an IPv6 host: it probes for duplicates of its addresses, solicits routers,
//! and applies their advertisements.
//!
//! Locks: none held here. Sources: RFC 4861 sections 6.3 and 8.3, RFC 4862 section 5.4.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use kern::Random;
use wire::{
    ALL_ROUTERS, NdpOption, NdpOptions, NeighborMessage, RouterAdvert, is_link_local6,
    solicited_node,
};

use super::{groups, mld, nd};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::host6::{Host6, HostAction};
use crate::ifnet::{Cidr, Ifnet};
use crate::ip::Addressed;
use crate::route::Entry;
use crate::state::SHARED_TIMERS_CPU;

/// Gives the interface these addresses, or begins to probe for them.
pub(crate) fn begin(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addrs: &[Cidr<Ipv6Addr>]) {
    if let Some(host) = &ifp.host6 {
        let mut random = batch.stack.random(Random::fork);
        let actions = host.begin(batch.now, addrs, &mut random);
        // The reports of its groups go before its probes.
        run(batch, ifp, actions);
        groups::changed(batch, ifp);
    }
}

/// Sends the probes and solicitations, and handles the ends of lifetimes, that are due.
#[doc(alias = "nd6_timer")]
pub(crate) fn run_timers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    if let Some(host) = &ifp.host6 {
        let random = || batch.stack.random(Random::fork);
        let actions = host.run_timers(batch.now, random);
        run(batch, ifp, actions);
    }
}

/// The interface's state, if it listens to routers.
fn listening(batch: &Batch<'_>, ifp: &Ifnet) -> bool {
    let accepts = |host: &Host6| host.autoconf.accept_routers;
    ifp.host6.as_ref().is_some_and(accepts) && !batch.stack.is_router_on(ifp)
}

/// Applies a router advertisement; false if this interface does not listen to routers.
#[doc(alias = "nd6_ra_input")]
pub(super) fn advertised(
    batch: &mut Batch<'_>,
    from: &Addressed<'_, Ipv6Addr>,
    advert: &RouterAdvert,
    options: NdpOptions<'_>,
) -> Result<bool, DropReason> {
    let ifp = from.ip.ifp;
    let Some(host) = ifp.host6.as_ref().filter(|_| listening(batch, ifp)) else {
        return Ok(false);
    };
    if !is_link_local6(from.src) {
        return Err(DropReason::BadNd);
    }
    nd::learn(batch, ifp, from.src, options.source());
    let prefixes = options.iter().filter_map(|option| match option {
        NdpOption::Prefix(prefix) => Some(prefix),
        _ => None,
    });
    host.link_advertised(advert.hop_limit, options.mtu(), ifp.mtu());
    let mut random = batch.stack.random(Random::fork);
    let actions = host.advertised(batch.now, from.src, advert, prefixes, &mut random);
    run(batch, ifp, actions);
    batch.wake_for_timer(SHARED_TIMERS_CPU);
    Ok(true)
}

/// Another station probes for an address or, if there is no nonce, has it. Returns whether we were probing for it. If
/// it is our link-local address, IPv6 is off on the interface from now on (RFC 4862 section 5.4.5).
pub(super) fn claimed(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    addr: Ipv6Addr,
    nonce: Option<&[u8]>,
) -> bool {
    let Some(host) = ifp.host6.as_ref().filter(|host| host.is_tentative(addr)) else {
        return false;
    };
    let mut random = batch.stack.random(Random::fork);
    let actions = host.claimed(batch.now, addr, nonce, &mut random);
    run(batch, ifp, actions);
    groups::changed(batch, ifp);
    if !host.is_on() {
        let own = ifp.addrs6.list().into_iter();
        run(
            batch,
            ifp,
            own.map(|own| HostAction::Remove(own.addr)).collect(),
        );
        nd::flush(batch, ifp);
    }
    true
}

/// Applies a redirect to a better first hop; false if this interface does not listen to routers. Accepted only from the
/// present first hop to `dst` (RFC 4861 section 8.1).
#[doc(alias = "icmp6_redirect_input")]
pub(super) fn redirected(
    batch: &mut Batch<'_>,
    from: &Addressed<'_, Ipv6Addr>,
    (target, dst): (Ipv6Addr, Ipv6Addr),
    options: NdpOptions<'_>,
) -> Result<bool, DropReason> {
    let ifp = from.ip.ifp;
    let Some(host) = ifp.host6.as_ref().filter(|_| listening(batch, ifp)) else {
        return Ok(false);
    };
    let now = batch.stack.routes6.lookup(dst);
    let is_first_hop = now.is_some_and(|route| {
        route.next_hop == from.src && route.ifp.index == ifp.index && !route.local
    });
    let is_possible = target == dst || is_link_local6(target);
    if !is_link_local6(from.src) || dst.is_multicast() || !is_first_hop || !is_possible {
        return Err(DropReason::BadNd);
    }
    nd::learn(batch, ifp, target, options.target());
    let room = host.redirected(dst);
    run(batch, ifp, room.into_iter().collect());
    let net = Cidr {
        addr: dst,
        prefix_len: 128,
    };
    let gateway = (target != dst).then_some(target);
    add_route(batch, ifp, net, gateway);
    Ok(true)
}

/// A station advertises that it is no router: if it was one, no route leads through it any more (RFC 4861 section
/// 7.2.5).
pub(super) fn router_left(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv6Addr) {
    let host = ifp.host6.as_ref().filter(|_| listening(batch, ifp));
    let actions = host.map(|host| host.router_left(batch.now, addr));
    if let Some(actions) = actions.filter(|actions| !actions.is_empty()) {
        run(batch, ifp, actions);
        batch.stack.routes6.neighbour_lost(ifp.index, addr);
    }
}

fn add_route(batch: &Batch<'_>, ifp: &Arc<Ifnet>, net: Cidr<Ipv6Addr>, gateway: Option<Ipv6Addr>) {
    let src = ifp.source_for6(gateway.unwrap_or(net.addr));
    let entry = Entry {
        net,
        src: src.unwrap_or(Ipv6Addr::UNSPECIFIED),
        ifp: Arc::clone(ifp),
        gateway,
        local: false,
        refusal: None,
        pinned: false,
        learnt: true,
    };
    // A route that the program added to the same network stays.
    let _there = batch.stack.routes6.set(entry, false);
}

/// Carries out the actions in their order.
fn run(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, actions: Vec<HostAction>) {
    let stack = batch.stack;
    let routes = &stack.routes6;
    for action in actions {
        match action {
            HostAction::Probe(addr, nonce) => {
                let message = NeighborMessage::solicit(addr, None, Some(nonce));
                let ends = (Ipv6Addr::UNSPECIFIED, solicited_node(addr));
                nd::send(batch, ifp, ends, &message, None);
            }
            HostAction::Add(addr) => {
                if ifp.addrs6.add(addr) {
                    routes.add_connected(ifp, &[addr]);
                    routes.address_changed(ifp.index, None);
                    nd::tell_routers(batch, ifp, addr.addr);
                }
                if is_link_local6(addr.addr) {
                    mld::begin_anew(batch, ifp);
                }
                groups::changed(batch, ifp);
            }
            HostAction::Remove(addr) => {
                if ifp.addrs6.remove(addr) {
                    routes.address_changed(ifp.index, Some(addr));
                }
                groups::changed(batch, ifp);
            }
            HostAction::AddRouter(router) => routes.add_default(ifp, router, true),
            HostAction::RemoveRouter(router) => routes.remove_gateway(ifp.index, router),
            HostAction::AddPrefix(net) => add_route(batch, ifp, net, None),
            HostAction::RemovePrefix(net) => routes.unset_learnt(ifp.index, net),
            HostAction::RemoveRedirect(dst) => {
                let net = Cidr {
                    addr: dst,
                    prefix_len: 128,
                };
                routes.unset_learnt(ifp.index, net);
            }
            HostAction::Solicit => nd::solicit_routers(batch, ifp, ALL_ROUTERS),
            HostAction::Reachable(mean) => {
                let ms = mean.as_millis() as u64;
                let part = stack.random(|random| random.below(ms));
                let lifetime = mean / 2 + Duration::from_millis(part);
                ifp.neighbours6.set_lifetime(lifetime);
            }
        }
    }
    // The interface may have been detached, and its routes removed, before these routes were added.
    if ifp.is_gone() {
        routes.remove_interface(ifp.index);
    }
}
