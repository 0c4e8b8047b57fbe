//! The DHCPv6 server of the guest's network.
//!
//! As [`dhcp4`](super::dhcp4), it leases the guest's one address to each client that asks, and remembers nothing.
//! Clients ask a group (RFC 9915 section 7.1), of which the stack's interface is therefore a member.
//!
//! Locks: none.
//! Sources: RFC 9915.

mod reply;

use std::error::Error;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use mbuma::socket::Datagram;
use mbuma::{IfIndex, Membership};

use super::dhcp_socket::{DhcpReply, DhcpSocket};
use super::shared::Shared;
use super::table::SourceKind;
pub(super) use reply::Dhcp6Terms;

/// Ports of servers and of clients (section 7.2).
const SERVER_PORT: u16 = 547;
const CLIENT_PORT: u16 = 546;
/// All_DHCP_Relay_Agents_and_Servers (section 7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// The server.
pub(super) struct Dhcp6Server {
    socket: DhcpSocket,
    _servers: Membership,
    terms: Dhcp6Terms,
}

impl Dhcp6Server {
    /// Leases an address on these terms to clients that ask on `index`.
    pub(super) fn new(
        shared: &Shared,
        index: IfIndex,
        terms: Dhcp6Terms,
    ) -> Result<Dhcp6Server, Box<dyn Error + Send + Sync>> {
        let at = (Ipv6Addr::UNSPECIFIED, SERVER_PORT).into();
        Ok(Dhcp6Server {
            socket: DhcpSocket::bind(shared, at, SourceKind::Dhcp6)?,
            _servers: shared.stack.join_group(index, SERVERS)?,
            terms,
        })
    }

    /// Answers questions that came.
    pub(super) fn answer(&self, shared: &mut Shared) {
        let reply = |question: &Datagram, bytes: &[u8]| self.reply_to(question, bytes);
        let replies = self.socket.answer(shared, reply);
        shared.counters.dhcp6_replies += replies;
    }

    /// Replies to a question that was sent to all servers.
    fn reply_to(&self, question: &Datagram, bytes: &[u8]) -> Option<DhcpReply> {
        let SocketAddr::V6(client) = question.src else {
            return None;
        };
        if question.dst.ip() != IpAddr::V6(SERVERS) {
            return None;
        }
        let message = self.terms.reply_to(bytes)?;
        let at = |addr, port| SocketAddrV6::new(addr, port, 0, client.scope_id()).into();
        Some(DhcpReply {
            message,
            from: at(self.terms.server, SERVER_PORT),
            to: at(*client.ip(), CLIENT_PORT),
        })
    }
}
