//! ICMPv6 messages that arrive.
//!
//! Locks: none. Sources: RFC 4443 sections 2.3, 3, 4.2, RFC 8201 section 4 (path MTU).

use std::net::Ipv6Addr;

use mbuf::{Csum, Packet, PullupError};
use wire::{
    Icmp6Header, Icmp6Message, IpProto, Ipv6Fragment, Ipv6Header, NdpMessage, SeqNum, mld_type,
    needs_zone, pseudo_header_v6,
};

use super::output;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether::{mld, nd};
use crate::icmp::echo;
use crate::icmp::input::Quoted;
use crate::inet::{Ends, Pair};
use crate::ip::{Addressed, DestScope, IcmpError, Send, Service};
use crate::ip6::output::Send6;
use crate::network;
use crate::protosw;

/// The type of an answer to a ping.
const ECHO_REPLY: u8 = 129;

/// Takes in a packet that begins with its IP headers.
#[doc(alias = "icmp6_input")]
pub(crate) fn run(batch: &mut Batch<'_>, mut packet: Packet, from: &Addressed<'_, Ipv6Addr>) {
    let header = match parse(&mut packet, from) {
        Ok(header) => header,
        Err(reason) => return batch.drop(packet, reason),
    };
    let mut packet = match header.kind() {
        mld_type::QUERY | mld_type::REPORT_V1 => match mld::input(batch, packet, from, &header) {
            Some(packet) => packet,
            None => return,
        },
        _ => packet,
    };
    packet.trim_front(from.ip.header_len + Icmp6Header::LEN);
    match header.message() {
        Icmp6Message::EchoRequest { id, seq } => echo_request(batch, packet, from, id, seq),
        Icmp6Message::Other { kind, .. } if NdpMessage::is_kind(kind) => {
            if let Some(packet) = nd::input(batch, packet, from, &header) {
                to_program(batch, packet, from, &header);
            }
        }
        message => match IcmpError::from_message6(message) {
            Some(kind) => about_us(batch, packet, from, kind),
            None => to_program(batch, packet, from, &header),
        },
    }
}

fn parse(packet: &mut Packet, from: &Addressed<'_, Ipv6Addr>) -> Result<Icmp6Header, DropReason> {
    let at = from.ip.header_len;
    packet.pullup(at + Icmp6Header::LEN).map_err(|e| match e {
        PullupError::TooShort => DropReason::IcmpTruncated,
        PullupError::NoBufs => DropReason::NoBufs,
    })?;
    let bytes = packet.front().get(at..).unwrap_or(&[]);
    let (&header, _) = Icmp6Header::parse(bytes).map_err(|_| DropReason::IcmpTruncated)?;
    if packet.header().csum.contains(Csum::L4_VALID) {
        return Ok(header);
    }
    let len = packet.len().saturating_sub(at);
    let pseudo = pseudo_header_v6(from.src, from.dst, IpProto::ICMPV6, len as u32);
    match header.checksum_ok(pseudo, packet.segments_from(at + Icmp6Header::LEN)) {
        true => Ok(header),
        false => Err(DropReason::IcmpBadChecksum),
    }
}

/// A ping to us, to a group that we are in, to an anycast address of ours, or to a foreign address that a socket here
/// answers for.
fn echo_request(
    batch: &mut Batch<'_>,
    packet: Packet,
    from: &Addressed<'_, Ipv6Addr>,
    id: u16,
    seq: u16,
) {
    let src = match from.ip.scope {
        DestScope::Local => Some(from.dst),
        DestScope::Broadcast | DestScope::Group | DestScope::Anycast => {
            from.ip.ifp.source_for6(from.src)
        }
        DestScope::Foreign => return echo::to_interceptor(batch, packet, from, (id, seq)),
    };
    let answered = src.filter(|_| batch.stack.icmp.echo_replies);
    let Some(src) = answered else {
        return batch.drop(packet, DropReason::IcmpUnhandled);
    };
    batch.delivered();
    let to = Send6 {
        send: Send {
            src,
            dst: from.src,
            service: Service {
                tos: from.ip.tos,
                ..Service::of(IpProto::ICMPV6)
            },
        },
        zone: zone(from),
        flow_label: 0,
    };
    let len = Icmp6Header::LEN + packet.len();
    let sent = &batch.stack.ip6.sent_long;
    sent.note(
        from.src,
        IpProto::ICMPV6,
        u32::from(id) << 16 | u32::from(seq),
        len,
    );
    let reply = Icmp6Message::EchoReply { id, seq };
    output::send(batch, reply, packet.into_chain(), &to);
}

/// A message that the stack does not use goes to a program, if one asked for its type.
fn to_program(
    batch: &mut Batch<'_>,
    packet: Packet,
    from: &Addressed<'_, Ipv6Addr>,
    header: &Icmp6Header,
) {
    let sockets = &batch.stack.icmp6.sockets;
    match sockets.find(from.ip.ifp.index, header.kind()) {
        Some(pcb) => pcb.deliver(batch, packet, from, header),
        None => batch.drop(packet, DropReason::IcmpUnhandled),
    }
}

/// The zone of the sender's address: its interface if the address is link-local.
fn zone(from: &Addressed<'_, Ipv6Addr>) -> u32 {
    match needs_zone(from.src) {
        true => from.ip.ifp.index.0,
        false => 0,
    }
}

/// An error about a packet that we sent; it quotes that packet.
fn about_us(
    batch: &mut Batch<'_>,
    mut quote: Packet,
    from: &Addressed<'_, Ipv6Addr>,
    kind: IcmpError,
) {
    let quoted = parse_quote(&mut quote, from.ip.ifp.index.0);
    let told = quoted.is_some_and(|quoted| protosw::control(batch, kind, &quoted));
    if !told {
        return batch.drop(quote, DropReason::IcmpUnhandled);
    }
    batch.delivered();
}

/// An error about an ICMPv6 message of ours: a ping's answer that is too large for the path. It changes only the path's
/// MTU.
pub(crate) fn control(batch: &mut Batch<'_>, kind: IcmpError, quoted: &Quoted) -> bool {
    let (IcmpError::FragNeeded { mtu }, Ends::V6(pair, _)) = (kind, &quoted.ends) else {
        return false;
    };
    let is_ours = network::is_local(batch.stack, pair.local.into());
    // ICMPv6 has its type and code where other protocols have their ports.
    let is_reply = pair.local_port == u16::from(ECHO_REPLY) << 8;
    let sent = &batch.stack.ip6.sent_long;
    let is_sent = sent.has(pair.peer, IpProto::ICMPV6, quoted.seq.0);
    let is_believed = is_ours && is_reply && is_sent && quoted.total_len > mtu;
    if is_believed {
        network::path_mtu_reported(batch, IpProto::ICMPV6, &quoted.ends, mtu);
    }
    is_believed
}

/// The packet that it quotes. The only extension header that this stack sends is that of fragments, of which only the
/// first has ports.
fn parse_quote(quote: &mut Packet, iface: u32) -> Option<Quoted> {
    let next = Ipv6Header::parse(quote.pullup(Ipv6Header::LEN).ok()?)
        .ok()?
        .next();
    let is_fragment = next == IpProto::FRAGMENT;
    let upper_at = Ipv6Header::LEN + if is_fragment { Ipv6Fragment::LEN } else { 0 };
    let bytes = quote.pullup(upper_at + 8).ok()?;
    let header = Ipv6Header::parse(bytes).ok()?;
    let mut proto = header.next();
    if is_fragment {
        let fragment = Ipv6Fragment::parse(bytes.get(Ipv6Header::LEN..)?).ok()?;
        if fragment.offset != 0 {
            return None;
        }
        proto = fragment.next;
    }
    let &[s1, s0, d1, d0, q3, q2, q1, q0] = bytes.get(upper_at..)?.first_chunk::<8>()?;
    let pair = Pair {
        local: header.src(),
        peer: header.dst(),
        local_port: u16::from_be_bytes([s1, s0]),
        peer_port: u16::from_be_bytes([d1, d0]),
    };
    let zone = if needs_zone(pair.local) || needs_zone(pair.peer) {
        iface
    } else {
        0
    };
    let total_len = Ipv6Header::LEN + header.payload_len();
    Some(Quoted {
        proto,
        ends: Ends::V6(pair, zone),
        seq: SeqNum(u32::from_be_bytes([q3, q2, q1, q0])),
        total_len: u16::try_from(total_len).unwrap_or(u16::MAX),
    })
}
