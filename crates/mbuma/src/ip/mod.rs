//! The types that IP and the protocols above it share: received packets, options for sending, and ICMP errors.
//!
//! Plain data, for each version of IP.

use std::fmt::Debug;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use mbuf::Packet;
use wire::{Checksum, IpProto, MacAddr, needs_zone, pseudo_header_v4, pseudo_header_v6};

use crate::drops::DropReason;
use crate::ifnet::{IfIndex, Ifnet};
use crate::inet::{Ends, Pair};

pub(crate) mod datagram;
pub(crate) mod forward;
mod icmp_error;
pub(crate) mod path_mtu;
pub(crate) mod reassemble;

pub use icmp_error::IcmpError;
pub(crate) use icmp_error::QUOTE_MAX;

/// The relation of a received packet's destination to this stack. IP's input decides it, once a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DestScope {
    /// An address of this stack.
    Local,
    /// All stations on a link.
    Broadcast,
    /// A group that the stack is in.
    Group,
    /// An address that several routers have, this stack among them: it is never the source of an answer.
    Anycast,
    /// An address of another host, for which the interface answers (`accept_any`).
    Foreign,
}

/// The metadata of a received packet, for both versions of IP.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received<'a> {
    /// Where it came in.
    pub(crate) ifp: &'a Arc<Ifnet>,
    /// The relation of its destination to this stack.
    pub(crate) scope: DestScope,
    /// Bytes of IP's headers. The packet still begins with them, and they are contiguous.
    pub(crate) header_len: usize,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
}

/// A packet that ends where its IP header says, with its addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addressed<'a, A> {
    pub(crate) ip: Received<'a>,
    pub(crate) src: A,
    pub(crate) dst: A,
}

/// An address type of one version of IP, and the rules that differ between the versions for the protocols above.
pub(crate) trait Address: Copy + Debug {
    /// Whether a UDP datagram may have no checksum.
    const SUM_OPTIONAL: bool;

    /// The ends of the flow of this packet.
    fn ends(packet: &Addressed<'_, Self>, src_port: u16, dst_port: u16) -> Ends;

    /// The pseudo-header's part of a checksum.
    fn pseudo_header(src: Self, dst: Self, proto: IpProto, len: u32) -> Checksum;
}

impl Address for Ipv4Addr {
    const SUM_OPTIONAL: bool = true;

    #[inline]
    fn ends(packet: &Addressed<'_, Self>, src_port: u16, dst_port: u16) -> Ends {
        Ends::V4(Pair {
            local: packet.dst,
            peer: packet.src,
            local_port: dst_port,
            peer_port: src_port,
        })
    }

    #[inline]
    fn pseudo_header(src: Self, dst: Self, proto: IpProto, len: u32) -> Checksum {
        pseudo_header_v4(src, dst, proto, len)
    }
}

impl Address for Ipv6Addr {
    /// RFC 8200 section 8.1: only this checksum protects the addresses.
    const SUM_OPTIONAL: bool = false;

    #[inline]
    fn ends(packet: &Addressed<'_, Self>, src_port: u16, dst_port: u16) -> Ends {
        let pair = Pair {
            local: packet.dst,
            peer: packet.src,
            local_port: dst_port,
            peer_port: src_port,
        };
        let zoned = needs_zone(packet.dst) || needs_zone(packet.src);
        Ends::V6(pair, if zoned { packet.ip.ifp.index.0 } else { 0 })
    }

    #[inline]
    fn pseudo_header(src: Self, dst: Self, proto: IpProto, len: u32) -> Checksum {
        pseudo_header_v6(src, dst, proto, len)
    }
}

/// The pseudo-header's part of the checksum of packets from our end to the peer's.
#[inline]
pub(crate) fn pseudo_header(ends: &Ends, proto: IpProto, len: usize) -> Checksum {
    match ends {
        Ends::V4(pair) => pseudo_header_v4(pair.local, pair.peer, proto, len as u32),
        Ends::V6(pair, _) => pseudo_header_v6(pair.local, pair.peer, proto, len as u32),
    }
}

/// Whether a packet is too long for the length field of its header, which is then 0 (BIG TCP). `len` is the number of
/// bytes that this field counts. The packet is cut before a device that does not take it.
///
/// # Errors
/// The packet is too long, and can't be cut or is for this host: no device would cut it.
pub(crate) fn is_oversize(packet: &Packet, len: usize, local: bool) -> Result<bool, DropReason> {
    let oversize = len > usize::from(u16::MAX);
    match oversize && (local || packet.header().tso_segsz == 0) {
        true => Err(DropReason::IpTooBig),
        false => Ok(oversize),
    }
}

/// The options of a packet to be sent, beside its route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service {
    pub(crate) proto: IpProto,
    pub(crate) tos: u8,
    /// Its TTL or hop limit; 0 for the default.
    pub(crate) ttl: u8,
    /// Must not be fragmented.
    pub(crate) df: bool,
}

impl Service {
    /// The default options.
    pub(crate) const fn of(proto: IpProto) -> Self {
        Self {
            proto,
            tos: 0,
            ttl: 0,
            df: false,
        }
    }
}

/// How a packet is to be sent to a group, beside its [`Service`], whose TTL then means what it says: 0 keeps the packet
/// in this stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToGroup {
    /// The interface to send by, if the sender chose one.
    pub(crate) link: Option<IfIndex>,
    /// The members in this stack get the packet too (RFC 1112 section 6.1).
    pub(crate) loops: bool,
}

/// How a packet is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Send<A> {
    pub(crate) src: A,
    pub(crate) dst: A,
    pub(crate) service: Service,
}

/// The way of a packet that leaves in one piece, if its sender keeps the route and the station's address: nothing is
/// looked up, and all headers are written into one piece of room.
#[derive(Debug)]
pub(crate) struct KeptWay<'a> {
    pub(crate) ifp: &'a Arc<Ifnet>,
    pub(crate) station: MacAddr,
    /// Bytes behind the IP header; 0 if its length field can't say how many.
    pub(crate) payload_len: u16,
}

impl<A: Copy> Send<A> {
    /// From our end of a flow to the peer's.
    pub(crate) fn of_flow(pair: &Pair<A>, service: Service) -> Self {
        Self {
            src: pair.local,
            dst: pair.peer,
            service,
        }
    }
}
