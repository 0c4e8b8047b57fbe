//! ICMP messages that arrived.
//!
//! Invariants: each message ends delivered or dropped. An error goes to the protocol of the packet that it quotes; that
//! protocol decides whether it is credible (RFC 5927). Locks: none held over a call. Sources: RFC 792, RFC 1122 section
//! 3.2.2.

use std::net::Ipv4Addr;

use mbuf::{Packet, PullupError};
use wire::{IcmpHeader, IcmpMessage, IpProto, Ipv4Header, SeqNum};

use super::{echo, output};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::inet::{Ends, Pair};
use crate::ip::{self, Addressed, DestScope, IcmpError, Service};
use crate::protosw;

/// Takes in a packet that begins with its IP header.
#[doc(alias = "icmp_input")]
pub(crate) fn run(batch: &mut Batch<'_>, mut packet: Packet, from: &Addressed<'_, Ipv4Addr>) {
    let ip = &from.ip;
    let message = match parse(&mut packet, ip.header_len) {
        Ok(message) => message,
        Err(reason) => return batch.drop(packet, reason),
    };
    packet.trim_front(ip.header_len + IcmpHeader::LEN);
    match message {
        IcmpMessage::EchoRequest { id, seq } => echo_request(batch, packet, from, id, seq),
        _ => match IcmpError::from_message(message) {
            Some(kind) => about_us(batch, packet, kind),
            None => batch.drop(packet, DropReason::IcmpUnhandled),
        },
    }
}

fn parse(packet: &mut Packet, header_len: usize) -> Result<IcmpMessage, DropReason> {
    packet
        .pullup(header_len + IcmpHeader::LEN)
        .map_err(|e| match e {
            PullupError::TooShort => DropReason::IcmpTruncated,
            PullupError::NoBufs => DropReason::NoBufs,
        })?;
    let bytes = packet.front().get(header_len..).unwrap_or(&[]);
    let (header, _) = IcmpHeader::parse(bytes).map_err(|_| DropReason::IcmpTruncated)?;
    if !header.checksum_ok(packet.segments_from(header_len + IcmpHeader::LEN)) {
        return Err(DropReason::IcmpBadChecksum);
    }
    Ok(header.message())
}

/// A ping: to us, or to a foreign address that a socket here answers for. A ping to a broadcast or group gets no answer
/// (RFC 1122 3.2.2.6 leaves it open, and an answer would help an attacker).
fn echo_request(
    batch: &mut Batch<'_>,
    packet: Packet,
    from: &Addressed<'_, Ipv4Addr>,
    id: u16,
    seq: u16,
) {
    let ip = &from.ip;
    match ip.scope {
        DestScope::Local if batch.stack.icmp.echo_replies => {
            batch.delivered();
            let reply = IcmpMessage::EchoReply { id, seq };
            output::send(batch, reply, packet.into_chain(), &answer_to(from));
        }
        DestScope::Foreign => echo::to_interceptor(batch, packet, from, (id, seq)),
        DestScope::Local | DestScope::Broadcast | DestScope::Group | DestScope::Anycast => {
            batch.drop(packet, DropReason::IcmpUnhandled);
        }
    }
}

/// The answer goes back to the sender, with the type of service of the request (RFC 1122 3.2.2.6).
fn answer_to(from: &Addressed<'_, Ipv4Addr>) -> ip::Send<Ipv4Addr> {
    ip::Send {
        src: from.dst,
        dst: from.src,
        service: Service {
            tos: from.ip.tos,
            ..Service::of(IpProto::ICMP)
        },
    }
}

/// An error about a packet that we sent. It quotes that packet's header and at least 8 bytes after it.
fn about_us(batch: &mut Batch<'_>, mut quote: Packet, kind: IcmpError) {
    let Some(quoted) = parse_quote(&mut quote) else {
        return batch.drop(quote, DropReason::IcmpUnhandled);
    };
    if !protosw::control(batch, kind, &quoted) {
        return batch.drop(quote, DropReason::IcmpUnhandled);
    }
    batch.delivered();
}

/// The part of a packet of ours that an error quotes.
pub(crate) struct Quoted {
    pub(crate) proto: IpProto,
    /// The ends of its flow, of which we are the sender.
    pub(crate) ends: Ends,
    /// The sequence number, if it is TCP.
    pub(crate) seq: SeqNum,
    /// Bytes of the whole packet, its IP header included.
    pub(crate) total_len: u16,
}

fn parse_quote(quote: &mut Packet) -> Option<Quoted> {
    let fixed = quote.pullup(Ipv4Header::LEN).ok()?;
    let header_len = fixed.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
    let bytes = quote.pullup(header_len.checked_add(8)?).ok()?;
    let view = Ipv4Header::parse(bytes).ok()?;
    let &[s1, s0, d1, d0, q3, q2, q1, q0] = bytes.get(header_len..)?.first_chunk::<8>()?;
    // Of a datagram's fragments only the first has ports.
    (view.frag_offset() == 0).then_some(Quoted {
        proto: view.protocol(),
        ends: Ends::V4(Pair {
            local: view.src(),
            peer: view.dst(),
            local_port: u16::from_be_bytes([s1, s0]),
            peer_port: u16::from_be_bytes([d1, d0]),
        }),
        seq: SeqNum(u32::from_be_bytes([q3, q2, q1, q0])),
        total_len: u16::try_from(view.total_len()).unwrap_or(u16::MAX),
    })
}
