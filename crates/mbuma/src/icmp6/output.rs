//! ICMPv6 messages that leave: errors to the sender of a packet, and answers to pings.
//!
//! Invariants: an error is never sent about an ICMPv6 error or redirect, nor to a source that is not one host, nor
//! about a packet to a group, but where RFC 4443 section 2.4 e.3 asks for it; so no two hosts can keep each other busy.
//! Locks: none. Sources: RFC 4443 section 2.4.

use std::net::Ipv6Addr;

use mbuf::{Chain, NoBufs, Packet};
use wire::{
    Icmp6Header, Icmp6Message, IpProto, Ipv6ExtHeaders, Ipv6Header, TimeExceeded, Unreachable6,
    is_martian_source6, needs_zone, pseudo_header_v6,
};

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ip::{IcmpError, Send, Service};
use crate::ip6::output::{Send6, route_to};
use crate::route::Route;

/// Bytes of the offending packet that an error quotes: the whole message fits the smallest MTU.
const QUOTE_MAX: usize = Ipv6Header::MTU_MIN as usize - Ipv6Header::LEN - Icmp6Header::LEN;
/// Bytes of a packet in which the protocol is looked for behind extension headers: more than an input accepts.
const LOOK_MAX: usize = 2304;

/// Sends an error to the sender of `original`, which begins with its IP header.
#[doc(alias = "icmp6_error")]
pub(crate) fn error(batch: &mut Batch<'_>, original: Packet, kind: IcmpError) {
    tell(batch, original, kind.to_message6(), false);
}

/// Sends `message` to the sender of `original`; `to_many`: also if that was sent to a group.
pub(crate) fn tell(
    batch: &mut Batch<'_>,
    mut original: Packet,
    message: Icmp6Message,
    to_many: bool,
) {
    let Some((of, route)) = may_tell(batch, &mut original, message, to_many) else {
        return;
    };
    // If the packet was sent to an address of ours, or to a foreign one for which this stack answers, the error comes
    // from that address.
    let own = batch.stack.routes6.is_local(of.dst) || route.ifp.owns6(of.dst);
    let to_one = !of.dst.is_multicast() && !batch.stack.has_anycast6(&route.ifp, of.dst);
    let for_host = route.ifp.accept_any && is_of_the_host(message) && to_one;
    let src = if own || for_host { of.dst } else { route.src };
    let limits = &batch.stack.icmp6;
    if !limits.admit_error(of.src, route.ifp.index, batch.now) {
        return batch.stack.drops.count(DropReason::IcmpRateLimited);
    }
    original.truncate(QUOTE_MAX);
    let to = Send6 {
        send: Send {
            src,
            dst: of.src,
            service: Service::of(IpProto::ICMPV6),
        },
        zone: of.zone,
        flow_label: 0,
    };
    send(batch, message, original.into_chain(), &to);
}

/// Whether the error comes from the destination itself and not from a router.
fn is_of_the_host(message: Icmp6Message) -> bool {
    matches!(
        message,
        Icmp6Message::DestUnreachable(Unreachable6::Port) | Icmp6Message::ParamProblem { .. }
    )
}

/// The addresses of the packet.
struct Offender {
    src: Ipv6Addr,
    dst: Ipv6Addr,
    /// The zone of `src`: its interface, or 0 if the address needs none.
    zone: u32,
}

/// Whether an error about this packet is allowed, and the route to its sender.
fn may_tell(
    batch: &Batch<'_>,
    original: &mut Packet,
    message: Icmp6Message,
    to_many: bool,
) -> Option<(Offender, Route<Ipv6Addr>)> {
    let iface = original.header().iface;
    let mut bytes = [0; LOOK_MAX];
    let (bytes, _) = bytes.split_at_mut(original.len().min(LOOK_MAX));
    original.copy_to(0, bytes);
    let header = Ipv6Header::parse(bytes).ok()?;
    // If this error reports a truncated chain of headers, the protocol behind the chain is unknown.
    let is_cut = matches!(message, Icmp6Message::ParamProblem { code: 3, .. });
    if !is_cut && is_error(bytes, header.next()) {
        return None;
    }
    let (src, dst) = (header.src(), header.dst());
    // Input takes packets from the loopback address only if they are our own.
    let one_host = !src.is_unspecified() && (src.is_loopback() || !is_martian_source6(src));
    if !one_host || (dst.is_multicast() && !to_many) {
        return None;
    }
    let zone = if needs_zone(src) { iface } else { 0 };
    let route = route_to(batch.stack, src, zone)?;
    if batch.stack.has_anycast6(&route.ifp, src) {
        return None;
    }
    Some((Offender { src, dst, zone }, route))
}

/// Whether a packet is itself an ICMPv6 error or a redirect; one that can't be parsed counts as an error.
fn is_error(bytes: &[u8], first: IpProto) -> bool {
    let named_at = Ipv6Header::NEXT_OFFSET;
    let mut chain = Ipv6ExtHeaders::new(bytes, first, Ipv6Header::LEN, named_at);
    if chain.any(|header| header.is_err()) {
        return true;
    }
    if chain.upper() != IpProto::ICMPV6 {
        return false;
    }
    let message = bytes.get(chain.upper_at()..).unwrap_or(&[]);
    Icmp6Header::parse(message).map_or(true, |(header, _)| header.message().is_error())
}

/// Sends a message. The result is counted; no caller needs it.
#[doc(alias = "icmp6_reflect")]
pub(crate) fn send(batch: &mut Batch<'_>, message: Icmp6Message, payload: Chain, to: &Send6) {
    match build(batch, message, payload, to) {
        Ok(packet) => {
            let _counted: Result<(), DropReason> = crate::ip6::output::run(batch, packet, to, None);
        }
        Err(NoBufs) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}

fn build(
    batch: &Batch<'_>,
    message: Icmp6Message,
    payload: Chain,
    to: &Send6,
) -> Result<Packet, NoBufs> {
    let len = Icmp6Header::LEN + payload.len();
    let pseudo = pseudo_header_v6(to.send.src, to.send.dst, IpProto::ICMPV6, len as u32);
    let header = Icmp6Header::new(message, pseudo, payload.segments());
    let mut packet = Packet::before_chain(&batch.stack.pool, payload)?;
    header.emit(packet.prepend(Icmp6Header::LEN)?);
    Ok(packet)
}

impl IcmpError {
    /// The ICMPv6 message for this error.
    fn to_message6(self) -> Icmp6Message {
        Icmp6Message::DestUnreachable(match self {
            Self::Net => Unreachable6::NoRoute,
            Self::Host => Unreachable6::Address,
            Self::Port => Unreachable6::Port,
            Self::AdminProhibited => Unreachable6::AdminProhibited,
            Self::BeyondScope => Unreachable6::BeyondScope,
            Self::SourcePolicy => Unreachable6::SourcePolicy,
            Self::RejectRoute => Unreachable6::Reject,
            Self::Protocol => {
                return Icmp6Message::ParamProblem {
                    code: 1,
                    pointer: Ipv6Header::NEXT_OFFSET as u32,
                };
            }
            Self::FragNeeded { mtu } => {
                return Icmp6Message::PacketTooBig {
                    mtu: u32::from(mtu.max(Ipv6Header::MTU_MIN)),
                };
            }
            Self::TimeExceeded => return Icmp6Message::TimeExceeded(TimeExceeded::Transit),
            Self::Parameter => {
                return Icmp6Message::ParamProblem {
                    code: 0,
                    pointer: 0,
                };
            }
        })
    }

    /// The error that a message reports about a packet of ours; `None` if the message is no such error, or has an MTU
    /// that no link has (RFC 8201 section 4).
    pub(super) fn from_message6(message: Icmp6Message) -> Option<Self> {
        match message {
            Icmp6Message::DestUnreachable(why) => Some(match why {
                Unreachable6::NoRoute => Self::Net,
                Unreachable6::AdminProhibited => Self::AdminProhibited,
                Unreachable6::SourcePolicy => Self::SourcePolicy,
                Unreachable6::Reject => Self::RejectRoute,
                Unreachable6::Port => Self::Port,
                Unreachable6::BeyondScope => Self::BeyondScope,
                Unreachable6::Address | Unreachable6::Other(_) => Self::Host,
            }),
            Icmp6Message::PacketTooBig { mtu } => {
                (mtu >= u32::from(Ipv6Header::MTU_MIN)).then(|| Self::FragNeeded {
                    mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
                })
            }
            Icmp6Message::TimeExceeded(_) => Some(Self::TimeExceeded),
            Icmp6Message::ParamProblem { code: 1, .. } => Some(Self::Protocol),
            Icmp6Message::ParamProblem { .. } => Some(Self::Parameter),
            _ => None,
        }
    }
}
