//! The DHCPv6 server of the guest's network.
//!
//! As [`dhcp4`](super::dhcp4), it leases the guest's one address to each client that asks, and remembers nothing. Clients
//! ask a group (RFC 9915 section 7.1), of which the stack's interface is therefore a member.
//!
//! Invariants: a question costs one reply at most; [`TURN_MAX`] questions are answered in a turn.
//! Locks: none.
//! Sources: RFC 9915.

mod reply;

use std::error::Error;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use mbuf::Chain;
use mbuma::runtime::TaskWaker;
use mbuma::socket::Datagram;
use mbuma::{IfIndex, Membership, UdpSocket};

use super::shared::Shared;
use super::table::{SourceKind, Token};
pub(super) use reply::Dhcp6Terms;

/// Ports of servers and of clients (section 7.2).
const SERVER_PORT: u16 = 547;
const CLIENT_PORT: u16 = 546;
/// All_DHCP_Relay_Agents_and_Servers (section 7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// Questions that are answered in a turn at most.
const TURN_MAX: usize = 16;
/// The longest question: that of a link whose MTU is 1500 and more than any client sends.
const QUESTION_MAX: usize = 1452;

/// The server.
pub(super) struct Dhcp6Server {
    socket: UdpSocket,
    _servers: Membership,
    wake: Arc<TaskWaker>,
    terms: Dhcp6Terms,
}

impl Dhcp6Server {
    /// Leases an address on these terms to clients that ask on `index`.
    pub(super) fn new(
        shared: &Shared,
        index: IfIndex,
        terms: Dhcp6Terms,
    ) -> Result<Dhcp6Server, Box<dyn Error + Send + Sync>> {
        let stack = &shared.stack;
        let socket = stack.udp_bind((Ipv6Addr::UNSPECIFIED, SERVER_PORT))?;
        let wake = shared.wake_for(Token::only(SourceKind::Dhcp6));
        socket.set_waker(wake.waker());
        Ok(Dhcp6Server {
            socket,
            _servers: stack.join_group(index, SERVERS)?,
            wake,
            terms,
        })
    }

    /// Answers questions that came.
    pub(super) fn answer(&self, shared: &mut Shared) {
        // The client of an error has no use for a second answer; the error must be taken nevertheless.
        while self.socket.take_error().is_some() {}
        for _ in 0..TURN_MAX {
            let Ok(question) = self.socket.recv() else {
                return;
            };
            if self.reply_to(shared, &question).is_some() {
                shared.counters.dhcp6_replies += 1;
            }
        }
        self.wake.wake();
    }

    /// Replies; nothing if the question asks for none, was not sent to all servers, or there is no buffer.
    fn reply_to(&self, shared: &Shared, question: &Datagram) -> Option<()> {
        let SocketAddr::V6(client) = question.src else {
            return None;
        };
        if question.dst.ip() != IpAddr::V6(SERVERS) {
            return None;
        }
        let len = question.payload.len();
        let mut bytes = [0; QUESTION_MAX];
        let bytes = bytes.get_mut(..len)?;
        question.payload.copy_to(0, bytes);
        let reply = self.terms.reply_to(bytes)?;
        let payload = Chain::from_slice(shared.stack.pool(), &reply).ok()?;
        let zone = client.scope_id();
        let from = SocketAddrV6::new(self.terms.server, SERVER_PORT, 0, zone);
        let to = SocketAddrV6::new(*client.ip(), CLIENT_PORT, 0, zone);
        self.socket.send(payload, from, to).ok()
    }
}
