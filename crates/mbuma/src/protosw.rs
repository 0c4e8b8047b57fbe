//! The protocol switch: one function for each kind of call from a lower layer up to a protocol.
//!
//! Lower layers use this module although it uses higher ones; the only other such module is the list of fields in
//! [`state`](crate::state). BSD keeps function pointers in such a table; a match costs no indirect call and lets the
//! compiler inline.
//!
//! | call | from | to |
//! |---|---|---|
//! | [`link_input`] | a frame's payload, at once or from a queue | ip4, ip6, arp |
//! | [`deliver4`], [`deliver6`] | a datagram to this stack | tcp, udp, icmp, igmp or icmp6 |
//! | [`control`] | an ICMP error about a packet that this stack sent | tcp, udp |
//! | [`icmp_error`] | a packet that can't be delivered | icmp or icmp6, which tells its sender |
//! | [`param_problem4`], [`param_problem6`] | a packet with a wrong header | the same |
//! | [`reassembly_timeout`] | a datagram whose fragments did not all come | the same |
//! | [`redirect6`] | a forwarded packet for which another router is nearer | icmp6 |

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use mbuf::Packet;
use wire::{Icmp6Message, IpProto, TimeExceeded};

use crate::batch::Batch;
use crate::config::Protocol;
use crate::ether::{arp, igmp};
use crate::icmp::{self, input::Quoted};
use crate::ifnet::Ifnet;
use crate::ip::{Addressed, IcmpError};
use crate::netisr::Arrival;
use crate::route::Route;
use crate::{icmp6, ip4, ip6, tcp, udp};

/// Called once for each packet that was not dropped before, and once more for a datagram that came in fragments. The
/// caller holds no lock but, at most, Giant. Unlike in netisr(9), packets of a protocol that needs Giant are not
/// queued.
#[doc(alias = "netisr_proto")]
#[inline]
pub(crate) fn link_input(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    to: Protocol,
    packet: Packet,
    by: Arrival,
) {
    let _giant = batch.stack.enter_protocol(to);
    match to {
        Protocol::Ip4 => ip4::input::run(batch, ifp, packet, by),
        Protocol::Ip6 => ip6::input::run(batch, ifp, packet, by),
        Protocol::Loopback if is_ip6(&packet) => ip6::input::run(batch, ifp, packet, by),
        Protocol::Loopback => ip4::input::run(batch, ifp, packet, by),
        Protocol::Arp => arp::input(batch, ifp, packet),
    }
}

/// Hands a whole IPv4 datagram to the protocol above; returns it if the stack has no protocol of that number.
#[doc(alias = "pr_input")]
#[inline]
pub(crate) fn deliver4(
    batch: &mut Batch<'_>,
    packet: Packet,
    proto: IpProto,
    from: &Addressed<'_, Ipv4Addr>,
) -> Result<(), Packet> {
    match proto {
        IpProto::TCP => tcp::input::run(batch, packet, from),
        IpProto::UDP => udp::input::run(batch, packet, from),
        IpProto::ICMP => icmp::input::run(batch, packet, from),
        IpProto::IGMP => igmp::input(batch, packet, from),
        _ => return Err(packet),
    }
    Ok(())
}

/// Hands a whole IPv6 datagram to the protocol above; returns it if the stack has no protocol of that number.
#[doc(alias = "ip6_protox")]
#[inline]
pub(crate) fn deliver6(
    batch: &mut Batch<'_>,
    packet: Packet,
    proto: IpProto,
    from: &Addressed<'_, Ipv6Addr>,
) -> Result<(), Packet> {
    match proto {
        IpProto::TCP => tcp::input::run(batch, packet, from),
        IpProto::UDP => udp::input::run(batch, packet, from),
        IpProto::ICMPV6 => icmp6::input::run(batch, packet, from),
        _ => return Err(packet),
    }
    Ok(())
}

/// The version of IP of the packet's first header.
fn is_ip6(packet: &Packet) -> bool {
    packet.front().first().is_some_and(|first| first >> 4 == 6)
}

/// Reports an error about `quoted` to the protocol that sent it; false if the stack has no protocol of that number.
#[doc(alias = "pr_ctlinput")]
pub(crate) fn control(batch: &mut Batch<'_>, error: IcmpError, quoted: &Quoted) -> bool {
    match quoted.proto {
        IpProto::TCP => tcp::input::control(batch, error, quoted),
        IpProto::UDP => udp::input::control(batch, error, quoted),
        IpProto::ICMPV6 => return icmp6::input::control(batch, error, quoted),
        _ => return false,
    }
    true
}

/// Sends an error to the sender of `original`, which begins with its IP header.
pub(crate) fn icmp_error(batch: &mut Batch<'_>, original: Packet, error: IcmpError) {
    match is_ip6(&original) {
        true => icmp6::output::error(batch, original, error),
        false => icmp::output::error(batch, original, error),
    }
}

/// Reports to the sender of `original`, which begins with its IPv4 header, which of its bytes is wrong.
pub(crate) fn param_problem4(batch: &mut Batch<'_>, original: Packet, pointer: u8) {
    icmp::output::param_problem(batch, original, pointer);
}

/// Reports to the sender of `original`, which begins with its IPv6 header, which of its bytes is wrong; `to_many`: also
/// if it was sent to a group.
pub(crate) fn param_problem6(
    batch: &mut Batch<'_>,
    original: Packet,
    problem: Icmp6Message,
    to_many: bool,
) {
    icmp6::output::tell(batch, original, problem, to_many);
}

/// Sends a redirect to the sender of a packet that is forwarded by `route`, if there is a better first hop.
pub(crate) fn redirect6(
    batch: &mut Batch<'_>,
    packet: &Packet,
    ends: (Ipv6Addr, Ipv6Addr),
    route: &Route<Ipv6Addr>,
) {
    icmp6::redirect::tell(batch, packet, ends, route);
}

/// Reports to the sender of `original` that the other fragments of its datagram did not come in time.
pub(crate) fn reassembly_timeout(batch: &mut Batch<'_>, original: Packet) {
    let kind = TimeExceeded::Reassembly;
    match is_ip6(&original) {
        true => icmp6::output::tell(batch, original, Icmp6Message::TimeExceeded(kind), false),
        false => icmp::output::time_exceeded(batch, original, kind),
    }
}
