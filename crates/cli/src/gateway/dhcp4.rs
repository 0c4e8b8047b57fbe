//! The DHCP server of the guest's network.
//!
//! It leases the guest's one address, always the same, to each client that asks: there is one guest on the wire. So it
//! remembers nothing, and no client can exhaust it. Replies to a client without an address are broadcast, which RFC
//! 2131 section 4.1 leaves to the server: the stack finds neighbours by ARP, and such a client does not answer.
//!
//! Locks: none.
//! Sources: RFC 2131.

mod reply;

use std::net::{Ipv4Addr, SocketAddr};

use mbuma::socket::BindError;

use super::dhcp_socket::{DhcpReply, DhcpSocket};
use super::shared::Shared;
use super::table::SourceKind;
pub(super) use reply::LeaseTerms;

/// Ports of servers and of clients.
const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;

/// The server.
pub(super) struct Dhcp4Server {
    socket: DhcpSocket,
    terms: LeaseTerms,
}

impl Dhcp4Server {
    /// Leases an address on these terms to clients that ask.
    pub(super) fn new(shared: &Shared, terms: LeaseTerms) -> Result<Dhcp4Server, BindError> {
        let at = (Ipv4Addr::UNSPECIFIED, SERVER_PORT).into();
        let socket = DhcpSocket::bind(shared, at, SourceKind::Dhcp4)?;
        Ok(Dhcp4Server { socket, terms })
    }

    /// Answers questions that came.
    pub(super) fn answer(&self, shared: &mut Shared) {
        let replies = self
            .socket
            .answer(shared, |_, question| self.reply_to(question));
        shared.counters.dhcp_replies += replies;
    }

    fn reply_to(&self, question: &[u8]) -> Option<DhcpReply> {
        let reply = self.terms.reply_to(question)?;
        Some(DhcpReply {
            message: reply.message,
            from: SocketAddr::from((self.terms.server, SERVER_PORT)),
            to: SocketAddr::from((reply.to, CLIENT_PORT)),
        })
    }
}
