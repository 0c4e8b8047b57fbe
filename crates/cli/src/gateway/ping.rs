//! The host's socket for pings, of the kind that this process may have.
//!
//! | kind | needs | identifier |
//! |---|---|---|
//! | ping socket | a group in `net.ipv4.ping_group_range` | chosen by the kernel, which filters by it |
//! | raw socket | CAP_NET_RAW | chosen here, and filtered here |
//!
//! Called by: echo. Calls: sys::socket.
//! Invariants: an answer from [`PingSocket::recv`] is for a request with our identifier.
//! Locks: none. Sources: RFC 792, icmp(7), raw(7).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use mbuf::Chain;
use wire::{IcmpHeader, IcmpMessage, IpProto, Ipv4Header};

use crate::sys::socket::{self, Kind, SocketSendError};

/// The largest IPv4 packet, which a raw socket may give.
const PACKET_MAX: usize = 65_535;

/// The socket.
pub(super) struct PingSocket {
    fd: OwnedFd,
    /// The identifier of a raw socket's pings; a ping socket's is the kernel's business.
    raw_id: Option<u16>,
    /// The options of the last ping; most pings want the same.
    ttl: u8,
    /// Where packets are received to.
    buffer: Vec<u8>,
}

/// The answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    /// The host that answered.
    pub(super) from: Ipv4Addr,
    /// To which of our pings.
    pub(super) seq: u16,
    /// An answer.
    pub(super) payload: &'a [u8],
}

impl PingSocket {
    /// Opens the kind that is allowed. A raw one sends pings under `raw_id`.
    ///
    /// # Errors
    /// Neither is.
    pub(super) fn open(raw_id: u16) -> io::Result<PingSocket> {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let (fd, raw_id) = match socket::open(Kind::Ping, any) {
            Ok(fd) => (fd, None),
            Err(_) => {
                let fd = socket::open(Kind::RawIcmp, any)?;
                socket::only_echo_replies(fd.as_fd())?;
                (fd, Some(raw_id))
            }
        };
        socket::keep_errors(fd.as_fd())?;
        Ok(PingSocket {
            fd,
            raw_id,
            ttl: 0,
            buffer: vec![0; PACKET_MAX],
        })
    }

    /// Sends a ping with our identifier.
    pub(super) fn send(
        &mut self,
        dst: Ipv4Addr,
        seq: u16,
        ttl: u8,
        payload: &Chain,
    ) -> io::Result<()> {
        if ttl != self.ttl {
            socket::set_ttl(self.fd.as_fd(), ttl)?;
            self.ttl = ttl;
        }
        let id = self.raw_id.unwrap_or(0);
        let message = IcmpMessage::EchoRequest { id, seq };
        let mut header = [0; IcmpHeader::LEN];
        message.emit(&mut header, payload.segments());
        let mut pieces = vec![IoSlice::new(&header)];
        payload.segments().gather(&mut pieces);
        let dst = SocketAddrV4::new(dst, 0).into();
        socket::send(self.fd.as_fd(), &pieces, Some(dst)).map(|_| ())
    }

    /// The next answer; `None` if the packet answers none of ours.
    pub(super) fn recv(&mut self) -> io::Result<Option<Answer<'_>>> {
        let mut pieces = [IoSliceMut::new(&mut self.buffer)];
        let (n, sender) = socket::recv_from(self.fd.as_fd(), &mut pieces)?;
        let IpAddr::V4(from) = sender.ip() else {
            return Ok(None);
        };
        let packet = self.buffer.get(..n).unwrap_or_default();
        Ok(match self.raw_id {
            None => answer(packet, from, None),
            Some(id) => without_ip_header(packet).and_then(|icmp| answer(icmp, from, Some(id))),
        })
    }

    /// The next error about a ping: which ping, and the error. `None` in it if the error is
    /// about none of ours.
    pub(super) fn take_error(&mut self) -> io::Result<Option<(u16, SocketSendError)>> {
        let mut quoted = [0; IcmpHeader::LEN];
        let (n, error) = socket::take_error(self.fd.as_fd(), &mut quoted)?;
        let quoted = quoted.get(..n).unwrap_or_default();
        Ok(asked(quoted, self.raw_id).zip(error))
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

/// Reads an echo reply; `id` must match if there is one.
fn answer(icmp: &[u8], from: Ipv4Addr, id: Option<u16>) -> Option<Answer<'_>> {
    let (header, payload) = IcmpHeader::parse(icmp).ok()?;
    match header.message() {
        IcmpMessage::EchoReply { id: its, seq } if id.is_none_or(|id| id == its) => {
            Some(Answer { from, seq, payload })
        }
        _ => None,
    }
}

/// Which ping a quoted header was.
fn asked(icmp: &[u8], id: Option<u16>) -> Option<u16> {
    let (header, _) = IcmpHeader::parse(icmp).ok()?;
    match header.message() {
        IcmpMessage::EchoRequest { id: its, seq } if id.is_none_or(|id| id == its) => Some(seq),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
