//! Neighbour discovery: asks for the Ethernet address of an IPv6 address on a link, and answers such solicitations.
//!
//! The table of [`neighbour`](crate::neighbour) keeps the answers for a time. `icmp6` has checked the checksum and
//! hands the messages in.
//!
//! Invariants: a message is accepted only from the link itself (hop limit 255), and only if all its options are valid.
//! The stack answers for its own addresses only, and [later](super::anycast) for those that other routers may have too.
//! Locks: none held here.
//! Sources: RFC 4861 sections 7.1 (checks), 7.2 (resolution), 7.3 (unreachability).

use std::net::Ipv6Addr;
use std::sync::Arc;

use mbuf::{Mbufq, Packet};
use wire::{
    ALL_NODES, ALL_ROUTERS, AdvertFlags, EtherType, Icmp6Header, MacAddr, NdpMessage, NdpOptions,
    NeighborMessage, is_link_local6, solicited_node,
};

use super::link_message::LinkMessage;
use super::output;
use super::{anycast, autoconf};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::ip::{Addressed, IcmpError};
use crate::neighbour::{Hop, Resolution};
use crate::protosw;
use crate::state::SHARED_TIMERS_CPU;

/// The hop limit of each message: it shows that no router forwarded the message (RFC 4861 section 3.1).
const HOP_LIMIT: u8 = 255;
/// The longest body of a message that is parsed: an advertisement with many options.
const BODY_MAX: usize = 1280;

/// Finds the Ethernet address for a packet to `addr`, which the sender keeps in `hop`. Without one, the packet waits
/// for an answer, or is dropped.
pub(super) fn resolve(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    addr: Ipv6Addr,
    packet: Packet,
    hop: &mut Option<Hop>,
) -> Option<(MacAddr, Packet)> {
    let is_gone = || ifp.is_gone();
    let table = &ifp.neighbours6;
    match table.resolve(batch.now, is_gone, addr, packet, hop) {
        Resolution::Known(mac, packet) => return Some((mac, packet)),
        Resolution::Probe(mac, packet) => {
            // The first check is delayed: if TCP hears an answer meanwhile, it is not needed.
            batch.wake_for_timer(SHARED_TIMERS_CPU);
            return Some((mac, packet));
        }
        Resolution::Waits => {}
        Resolution::Ask(evicted) => {
            drop_all(batch, evicted, DropReason::NdQueueFull);
            batch.wake_for_timer(SHARED_TIMERS_CPU);
            solicit(batch, ifp, addr, None);
        }
        Resolution::Full(packet) => batch.drop(packet, DropReason::NdQueueFull),
        Resolution::Gone(packet) => batch.drop(packet, DropReason::InterfaceGone),
    }
    None
}

/// Handles a message whose ICMP header was `header`; `packet` begins behind it. Returns a valid message that is for a
/// router or a program.
#[doc(alias = "nd6_ns_input")]
pub(crate) fn input(
    batch: &mut Batch<'_>,
    packet: Packet,
    from: &Addressed<'_, Ipv6Addr>,
    header: &Icmp6Header,
) -> Option<Packet> {
    let mut body = [0; BODY_MAX];
    let (body, _) = body.split_at_mut(packet.len().min(BODY_MAX));
    packet.copy_to(0, body);
    let whole = packet.len() <= BODY_MAX && from.ip.ttl == HOP_LIMIT && header.code() == 0;
    let message = NdpMessage::parse(header.kind(), header.rest(), body);
    let Some(message) = message.ok().filter(|_| whole) else {
        batch.drop(packet, DropReason::BadNd);
        return None;
    };
    let taken = match message {
        NdpMessage::NeighborSolicit { target, options } => solicited(batch, from, target, options),
        NdpMessage::NeighborAdvert {
            flags,
            target,
            options,
        } => advertised(batch, from, target, flags, options),
        NdpMessage::RouterSolicit { options } => {
            router_solicited(batch, from, options);
            return Some(packet);
        }
        // An interface with a fixed configuration ignores routers.
        NdpMessage::RouterAdvert(advert, options) => {
            match autoconf::advertised(batch, from, &advert, options) {
                Ok(false) => return Some(packet),
                taken => taken.map(|_| ()),
            }
        }
        NdpMessage::Redirect {
            target,
            dst,
            options,
        } => match autoconf::redirected(batch, from, (target, dst), options) {
            Ok(false) => return Some(packet),
            taken => taken.map(|_| ()),
        },
    };
    match taken {
        Ok(()) => {
            drop(packet);
            batch.delivered();
        }
        Err(reason) => batch.drop(packet, reason),
    }
    None
}

/// Handles a solicitation: another station asks for `target`.
fn solicited(
    batch: &mut Batch<'_>,
    from: &Addressed<'_, Ipv6Addr>,
    target: Ipv6Addr,
    options: NdpOptions<'_>,
) -> Result<(), DropReason> {
    let (ifp, source) = (from.ip.ifp, options.source());
    let probe = from.src.is_unspecified();
    // A station that probes for a duplicate has no address yet: it asks the group, and the answer can't go to it
    // directly.
    let bad_probe = probe && (source.is_some() || from.dst != solicited_node(target));
    if target.is_multicast() || bad_probe {
        return Err(DropReason::BadNd);
    }
    let host = ifp.host6.as_ref();
    let is_optimistic = is_optimistic(ifp, target);
    if host.is_some_and(|host| host.is_tentative(target)) && (probe || !is_optimistic) {
        // A solicitation for a tentative address claims nothing, and we must not answer it yet (RFC 4862 section
        // 5.4.3).
        if probe {
            autoconf::claimed(batch, ifp, target, options.nonce());
        }
        return Ok(());
    }
    let is_anycast = !ifp.owns6(target);
    if is_anycast && !batch.stack.has_anycast6(ifp, target) {
        return Err(DropReason::IcmpUnhandled);
    }
    // An answer to one station must not reach all of them.
    let source = source.filter(|mac| mac.is_unicast());
    learn(batch, ifp, from.src, source);
    let to = if probe { ALL_NODES } else { from.src };
    let mac = source.filter(|_| !probe);
    if is_anycast {
        anycast::answer_later(batch, ifp, target, to, mac);
        return Ok(());
    }
    // Without the override flag, the others keep their entry if another station has the address too (RFC 4429
    // section 3.3).
    answer(batch, ifp, (target, to), target, !is_optimistic, mac);
    Ok(())
}

/// Answers a solicitation for `target`. To all stations, it is the answer to a probe for a duplicate.
pub(super) fn answer(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    (src, to): (Ipv6Addr, Ipv6Addr),
    target: Ipv6Addr,
    overrides: bool,
    mac: Option<MacAddr>,
) {
    let flags = AdvertFlags {
        router: batch.stack.tells_of_router(ifp),
        solicited: to != ALL_NODES,
        overrides,
    };
    let message = NeighborMessage::advert(target, ifp.mac, flags);
    send(batch, ifp, (src, to), &message, mac);
}

/// A host asks for routers: a router remembers the host's address (RFC 4861 section 6.2.6).
fn router_solicited(
    batch: &mut Batch<'_>,
    from: &Addressed<'_, Ipv6Addr>,
    options: NdpOptions<'_>,
) {
    let ifp = from.ip.ifp;
    if !from.src.is_unspecified() && batch.stack.tells_of_router(ifp) {
        learn(batch, ifp, from.src, options.source());
    }
}

/// Records the Ethernet address that a message contains. That says nothing about whether the station hears us.
pub(super) fn learn(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv6Addr, mac: Option<MacAddr>) {
    if let Some(mac) = mac.filter(|mac| mac.is_unicast()) {
        let learnt = ifp.neighbours6.solicited_by(batch.now, addr, mac);
        drop_all(batch, learnt.evicted, DropReason::NdQueueFull);
        send_all(batch, ifp, learnt.waiting, mac);
    }
}

/// Handles an advertisement: the Ethernet address of `target`.
fn advertised(
    batch: &mut Batch<'_>,
    from: &Addressed<'_, Ipv6Addr>,
    target: Ipv6Addr,
    flags: AdvertFlags,
    options: NdpOptions<'_>,
) -> Result<(), DropReason> {
    let ifp = from.ip.ifp;
    if target.is_multicast() || (from.dst.is_multicast() && flags.solicited) {
        return Err(DropReason::BadNd);
    }
    if autoconf::claimed(batch, ifp, target, None) || ifp.owns6(target) {
        return Err(DropReason::NdDuplicateAddress);
    }
    let mac = options.target().filter(|mac| mac.is_unicast());
    let we_route = batch.stack.tells_of_router(ifp);
    let neighbours = &ifp.neighbours6;
    let told = neighbours.advertised(batch.now, target, mac, flags, we_route);
    if let Some((mac, waiting)) = told {
        send_all(batch, ifp, waiting, mac);
        if !flags.router {
            autoconf::router_left(batch, ifp, target);
        }
    }
    Ok(())
}

/// Announces an address of ours to all stations on the link, so that they correct old entries for it (RFC 4861 section
/// 7.2.6). Sent once: a station that misses it finds out by its next probe.
pub(crate) fn announce(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv6Addr) {
    let flags = AdvertFlags {
        router: batch.stack.tells_of_router(ifp),
        solicited: false,
        overrides: !is_optimistic(ifp, addr),
    };
    let message = NeighborMessage::advert(addr, ifp.mac, flags);
    send(batch, ifp, (addr, ALL_NODES), &message, None);
}

/// Tells the routers of the link a new address of ours, so that the first packet to it need not wait for a question
/// (RFC 9131 section 6.1.2). It overrides nothing: a router that has an entry for the address keeps it. Sent once: a
/// router that misses it asks.
pub(super) fn tell_routers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv6Addr) {
    if is_link_local6(addr) || batch.stack.is_router_on(ifp) {
        return;
    }
    let message = NeighborMessage::advert(addr, ifp.mac, AdvertFlags::default());
    send(batch, ifp, (addr, ALL_ROUTERS), &message, None);
}

/// Forgets all neighbours; packets that waited for them are dropped.
pub(crate) fn flush(batch: &Batch<'_>, ifp: &Ifnet) {
    let waiting = ifp.neighbours6.flush();
    waiting.for_each(|packets| drop_all(batch, packets, DropReason::InterfaceGone));
}

/// Asks again, or gives up and tells the senders (RFC 4861 section 7.2.2).
#[doc(alias = "nd6_llinfo_timer")]
pub(crate) fn run_timers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    let due = ifp.neighbours6.overdue(batch.now);
    for (addr, mac) in due.ask {
        solicit(batch, ifp, addr, mac);
    }
    for (addr, waiting) in due.lost {
        batch.stack.routes6.neighbour_lost(ifp.index, addr);
        for packet in waiting {
            batch.stack.drops.count(DropReason::NdNoAnswer);
            protosw::icmp_error(batch, packet, IcmpError::Host);
        }
    }
}

/// Sends a solicitation for `addr`: to the stations in its group, or to the one that had the address last.
#[doc(alias = "nd6_ns_output")]
fn solicit(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv6Addr, of: Option<MacAddr>) {
    // An optimistic address must not solicit: the packets wait until the probes are over (RFC 4429 section 3.3).
    let Some(src) = ifp
        .source_for6(addr)
        .filter(|src| !is_optimistic(ifp, *src))
    else {
        return;
    };
    let message = NeighborMessage::solicit(addr, Some(ifp.mac), None);
    let dst = if of.is_some() {
        addr
    } else {
        solicited_node(addr)
    };
    send(batch, ifp, (src, dst), &message, of);
}

fn is_optimistic(ifp: &Ifnet, addr: Ipv6Addr) -> bool {
    let host = ifp.host6.as_ref();
    host.is_some_and(|host| host.is_optimistic(addr))
}

/// Asks the routers of a group, or one, to advertise themselves.
#[doc(alias = "rs_send")]
pub(super) fn solicit_routers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, dst: Ipv6Addr) {
    let src = ifp.source_for6(dst);
    let said = src.filter(|src| !is_optimistic(ifp, *src));
    let message = NeighborMessage::router_solicit(said.map(|_| ifp.mac));
    let src = src.unwrap_or(Ipv6Addr::UNSPECIFIED);
    send(batch, ifp, (src, dst), &message, None);
}

/// Sends a message from and to these addresses; `mac` is the Ethernet address of the second, if it is known.
pub(super) fn send(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    message: &NeighborMessage,
    mac: Option<MacAddr>,
) {
    let message = LinkMessage {
        src,
        dst,
        hop_limit: HOP_LIMIT,
        hop_by_hop: &[],
        message: message.message,
        body: message.body(),
    };
    let Ok(packet) = message.packet(&batch.stack.pool) else {
        return batch.stack.drops.count(DropReason::TxNoBufs);
    };
    match mac {
        Some(mac) => output::frame(batch, ifp, packet, mac, EtherType::IPV6),
        None => output::run6(batch, ifp, packet, dst, &mut None),
    }
}

fn send_all(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, packets: Mbufq, mac: MacAddr) {
    packets.for_each(|packet| output::frame(batch, ifp, packet, mac, EtherType::IPV6));
}

fn drop_all(batch: &Batch<'_>, packets: Mbufq, reason: DropReason) {
    packets.for_each(|packet| batch.drop(packet, reason));
}
