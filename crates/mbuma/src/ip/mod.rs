//! What IP and the protocols above it tell each other: how a packet came, how one is to be sent, and what ICMP says of it.
//!
//! Plain data, for each version of IP.

use std::net::Ipv4Addr;
use std::sync::Arc;

use wire::IpProto;

use crate::ifnet::Ifnet;

mod icmp_error;

pub use icmp_error::IcmpError;
pub(crate) use icmp_error::QUOTE_MAX;

/// What the destination of a received packet is to this stack. IP's input decides it, once a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DestScope {
    /// An address of this stack.
    Local,
    /// All stations on a link.
    Broadcast,
    /// A group that the stack is in.
    Group,
    /// An address of another host, for which the interface answers (`accept_any`).
    Foreign,
}

/// What the IP header of a received packet says to the protocol above. The packet still begins with
/// that header, `header_len` bytes of it contiguous, and ends where the header says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received<'a> {
    /// Where it came in.
    pub(crate) ifp: &'a Arc<Ifnet>,
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    /// What `dst` is here.
    pub(crate) scope: DestScope,
    pub(crate) header_len: usize,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
}

/// How a packet is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Send {
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    pub(crate) proto: IpProto,
    pub(crate) tos: u8,
    /// Hops it may pass; 0 for the default.
    pub(crate) ttl: u8,
    /// Must not be fragmented.
    pub(crate) df: bool,
}
