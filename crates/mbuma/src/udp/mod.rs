//! UDP.
//!
//! ```text
//!   input    header, checksum, which socket?  ->  its queue  ->  UdpSocket::recv
//!   output   header, checksum left to a device  <-  UdpSocket::send_to
//!     send_options  how far, in which class; to groups: by which interface
//! ```
//!
//! Locks: the table (UDP_TABLE); each socket has a queue (UDP).
//! Sources: RFC 768, RFC 1122 section 4.1, RFC 6056 (ports).

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use kern::Random;
use mbuf::{Chain, NoBufs};

use crate::config::Config;
use crate::ifnet::IfIndex;
use crate::inet::Ends;
use crate::ip::IcmpError;
use crate::sockbuf::{Ancillary, QueuedRecord};

pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod pcb;
pub(crate) mod send_options;

pub use pcb::UdpSocketInfo;

/// A datagram that arrived (RFC 768), or several of one sender.
#[derive(Debug)]
#[non_exhaustive]
pub struct Datagram {
    /// The sender.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
    /// The interface by which it came; if this stack sent it, the one that has the address.
    #[doc(alias = "IP_PKTINFO")]
    #[doc(alias = "IP_RECVIF")]
    pub interface: IfIndex,
    /// Its payload.
    pub payload: Chain,
    /// Its remaining hops.
    pub ttl: u8,
    /// Its traffic class; the lower two bits are ECN's (RFC 3168). If it came in fragments: that of one of them.
    #[doc(alias = "IP_RECVTOS")]
    pub traffic_class: u8,
    /// Bytes of each datagram in `payload`, of which the last one may be shorter; at least 1. It is the length of the
    /// payload, which is one datagram, unless the socket asked for [several](crate::UdpSocket::set_recv_segmented).
    #[doc(alias = "UDP_GRO")]
    pub segment_size: usize,
}

impl Datagram {
    /// Takes the first of several datagrams out; none if it is one.
    ///
    /// # Errors
    /// There are no buffers.
    pub fn take_first(&mut self) -> Result<Option<Datagram>, NoBufs> {
        let segment_size = self.segment_size.max(1);
        if self.payload.len() <= segment_size {
            return Ok(None);
        }
        let payload = self.payload.take_front(segment_size)?;
        self.segment_size = segment_size.min(self.payload.len());
        Ok(Some(Datagram {
            payload,
            segment_size,
            ..*self
        }))
    }

    /// Copies the payload to `buf`, as far as it fits; the number of bytes, and the sender.
    pub(crate) fn copy_to(&self, buf: &mut [u8]) -> (usize, SocketAddr) {
        (copy(&self.payload, buf), self.src)
    }
}

fn copy(payload: &Chain, buf: &mut [u8]) -> usize {
    let n = payload.len().min(buf.len());
    payload.copy_to(0, &mut buf[..n]);
    n
}

/// The fields of a datagram while it waits, beside its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    ends: Ends,
    interface: IfIndex,
    ttl: u8,
    traffic_class: u8,
    /// Bytes of each datagram, if there are several.
    segsz: Option<NonZeroU16>,
}

impl Arrived {
    pub(crate) fn new(ends: &Ends, interface: IfIndex, ttl: u8, traffic_class: u8) -> Self {
        Self {
            ends: *ends,
            interface,
            ttl,
            traffic_class,
            segsz: None,
        }
    }
}

impl Ancillary for Arrived {
    fn source(&self) -> Option<IpAddr> {
        Some(self.ends.peer().ip())
    }
}

impl QueuedRecord<Arrived> {
    /// As [`Datagram::copy_to`].
    pub(crate) fn copy_to(&self, buf: &mut [u8]) -> (usize, SocketAddr) {
        (copy(&self.data, buf), self.with.ends.peer())
    }
}

impl From<QueuedRecord<Arrived>> for Datagram {
    fn from(record: QueuedRecord<Arrived>) -> Self {
        let Arrived {
            ends,
            interface,
            ttl,
            traffic_class,
            segsz,
        } = record.with;
        let len = record.data.len();
        Self {
            src: ends.peer(),
            dst: ends.local(),
            interface,
            payload: record.data,
            ttl,
            traffic_class,
            segment_size: segsz.map_or(len.max(1), |each| each.get().into()),
        }
    }
}

/// An ICMP error about a datagram that was sent (RFC 1122 section 4.1.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpError {
    /// The address that it was sent from.
    pub src: SocketAddr,
    /// The address that it did not reach.
    pub dst: SocketAddr,
    /// Why.
    pub kind: IcmpError,
}

impl Ancillary for UdpError {}

impl From<UdpError> for QueuedRecord<UdpError> {
    fn from(with: UdpError) -> Self {
        let data = Chain::new();
        Self { data, with }
    }
}

/// UDP's part of a stack.
#[derive(Debug)]
pub(crate) struct UdpState {
    pub(crate) table: pcb::UdpTable,
    queue_max: usize,
}

impl UdpState {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        Self {
            table: pcb::UdpTable::new(random),
            queue_max: config.udp_queue_max,
        }
    }

    /// A socket's state, not bound yet.
    pub(crate) fn new_pcb(&self, local: SocketAddr, any: Option<IfIndex>) -> pcb::UdpPcb {
        pcb::UdpPcb::new(local, any, self.queue_max)
    }
}
