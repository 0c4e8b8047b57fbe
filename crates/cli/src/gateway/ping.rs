//! The host's socket for pings, of the kind that this process may have.
//!
//! | kind | needs | identifier |
//! |---|---|---|
//! | ping socket | a group in `net.ipv4.ping_group_range`, for both versions of IP | chosen by the kernel, which filters by it |
//! | raw socket | CAP_NET_RAW | chosen here, and filtered here |
//!
//! Invariants: an answer from [`PingSocket::recv`] is for a request with our identifier.
//! Locks: none.
//! Sources: RFC 792, RFC 4443, icmp(7), raw(7).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use mbuf::Chain;
use wire::{Checksum, Icmp6Header, Icmp6Message, IcmpHeader, IcmpMessage, IpProto, Ipv4Header};

use crate::sys::socket::{self, Family, Kind, SocketSendError};

/// The largest IP packet without its header of IPv6, or with that of IPv4, which a raw socket may give.
const PACKET_MAX: usize = 65_535;
/// Of an echo request and its answer, in both versions.
const HEADER_LEN: usize = IcmpHeader::LEN;
const _: () = assert!(IcmpHeader::LEN == Icmp6Header::LEN);

/// The socket.
pub(super) struct PingSocket {
    fd: OwnedFd,
    family: Family,
    /// The identifier of a raw socket's pings; the kernel chooses that of a ping socket.
    raw_id: Option<u16>,
    /// The options of the last ping; most pings have the same.
    ttl: u8,
    /// The buffer for received packets.
    buffer: Vec<u8>,
}

/// The answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    /// The host that answered.
    pub(super) from: IpAddr,
    /// The sequence number of the ping.
    pub(super) seq: u16,
    /// An answer.
    pub(super) payload: &'a [u8],
}

impl PingSocket {
    /// Opens the kind that is allowed. A raw one sends pings under `raw_id`.
    ///
    /// # Errors
    /// Neither is.
    pub(super) fn open(family: Family, raw_id: u16) -> io::Result<PingSocket> {
        let any: IpAddr = match family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let any = SocketAddr::from((any, 0));
        let (fd, raw_id) = match socket::open(Kind::Ping, any) {
            Ok(fd) => (fd, None),
            Err(_) => {
                let fd = socket::open(Kind::RawIcmp, any)?;
                socket::only_echo_replies(fd.as_fd(), family)?;
                (fd, Some(raw_id))
            }
        };
        socket::keep_errors(fd.as_fd(), any)?;
        Ok(PingSocket {
            fd,
            family,
            raw_id,
            ttl: 0,
            buffer: vec![0; PACKET_MAX],
        })
    }

    /// Sends a ping with our identifier.
    pub(super) fn send(
        &mut self,
        dst: IpAddr,
        seq: u16,
        ttl: u8,
        payload: &Chain,
    ) -> io::Result<()> {
        if ttl != self.ttl {
            socket::set_ttl(self.fd.as_fd(), self.family, ttl)?;
            self.ttl = ttl;
        }
        let id = self.raw_id.unwrap_or(0);
        let header = request(self.family, id, seq, payload);
        let mut pieces = vec![IoSlice::new(&header)];
        pieces.extend(payload.segments().io_slices());
        let dst = SocketAddr::new(dst, 0);
        socket::send(self.fd.as_fd(), &pieces, Some(dst)).map(|_| ())
    }

    /// The next answer; `None` if the packet answers none of our pings.
    pub(super) fn recv(&mut self) -> io::Result<Option<Answer<'_>>> {
        let mut pieces = [IoSliceMut::new(&mut self.buffer)];
        let (n, sender) = socket::recv_from(self.fd.as_fd(), &mut pieces)?;
        let packet = self.buffer.get(..n).unwrap_or_default();
        let message = match (self.family, self.raw_id) {
            (Family::V4, Some(_)) => without_ip_header(packet),
            _ => Some(packet),
        };
        Ok(message.and_then(|icmp| answer(icmp, sender.ip(), self.raw_id)))
    }

    /// The next error about a ping: the ping, and the error. The inner `None` is an error about none of our pings.
    pub(super) fn take_error(&mut self) -> io::Result<Option<(u16, SocketSendError)>> {
        let mut quoted = [0; HEADER_LEN];
        let (n, error) = socket::take_error(self.fd.as_fd(), &mut quoted)?;
        let quoted = quoted.get(..n).unwrap_or_default();
        Ok(asked(self.family, quoted, self.raw_id).zip(error))
    }
}

impl AsFd for PingSocket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The ICMP message behind the IP header of a packet.
fn without_ip_header(packet: &[u8]) -> Option<&[u8]> {
    let view = Ipv4Header::parse(packet).ok()?;
    if view.protocol() != IpProto::ICMP {
        return None;
    }
    packet.get(view.header_len()..)
}

/// The header of a ping. The kernel sums those of IPv6, whose sum covers the source address.
fn request(family: Family, id: u16, seq: u16, payload: &Chain) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    match family {
        Family::V4 => {
            let message = IcmpMessage::EchoRequest { id, seq };
            message.emit(&mut header, payload.segments());
        }
        Family::V6 => {
            let message = Icmp6Message::EchoRequest { id, seq };
            let none: [&[u8]; 0] = [];
            Icmp6Header::new(message, Checksum::default(), none).emit(&mut header);
        }
    }
    header
}

/// Reads an echo reply; `id` must match if there is one.
fn answer(icmp: &[u8], from: IpAddr, id: Option<u16>) -> Option<Answer<'_>> {
    let (its, seq, payload) = match from {
        IpAddr::V4(_) => {
            let (header, payload) = IcmpHeader::parse(icmp).ok()?;
            match header.message() {
                IcmpMessage::EchoReply { id, seq } => (id, seq, payload),
                _ => return None,
            }
        }
        IpAddr::V6(_) => {
            let (header, payload) = Icmp6Header::parse(icmp).ok()?;
            match header.message() {
                Icmp6Message::EchoReply { id, seq } => (id, seq, payload),
                _ => return None,
            }
        }
    };
    id.is_none_or(|id| id == its)
        .then_some(Answer { from, seq, payload })
}

/// The ping of a quoted header.
fn asked(family: Family, icmp: &[u8], id: Option<u16>) -> Option<u16> {
    let (its, seq) = match family {
        Family::V4 => match IcmpHeader::parse(icmp).ok()?.0.message() {
            IcmpMessage::EchoRequest { id, seq } => (id, seq),
            _ => return None,
        },
        Family::V6 => match Icmp6Header::parse(icmp).ok()?.0.message() {
            Icmp6Message::EchoRequest { id, seq } => (id, seq),
            _ => return None,
        },
    };
    id.is_none_or(|id| id == its).then_some(seq)
}

#[cfg(test)]
mod tests;
