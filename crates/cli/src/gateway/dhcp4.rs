//! The DHCP server of the guest's network.
//!
//! It leases the guest's one address, always the same, to each client that asks: there is one guest on the wire. So it
//! remembers nothing, and no client can exhaust it. Replies to a client without an address are broadcast, which RFC 2131
//! section 4.1 leaves to the server: the stack finds neighbours by ARP, and such a client does not answer.
//!
//! Invariants: a question costs one reply at most; [`TURN_MAX`] questions are answered in a turn.
//! Locks: none.
//! Sources: RFC 2131.

mod reply;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use mbuf::Chain;
use mbuma::UdpSocket;
use mbuma::runtime::TaskWaker;
use mbuma::socket::{BindError, Datagram};

use super::shared::Shared;
use super::table::{SourceKind, Token};
pub(super) use reply::LeaseTerms;

/// Ports of servers and of clients.
const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
/// Questions that are answered in a turn at most.
const TURN_MAX: usize = 16;
/// The longest question: that of a link whose MTU is 1500 and more than any client sends.
const QUESTION_MAX: usize = 1472;

/// The server.
pub(super) struct Dhcp4Server {
    socket: UdpSocket,
    wake: Arc<TaskWaker>,
    terms: LeaseTerms,
}

impl Dhcp4Server {
    /// Leases an address on these terms to clients that ask.
    pub(super) fn new(shared: &Shared, terms: LeaseTerms) -> Result<Dhcp4Server, BindError> {
        let socket = shared
            .stack
            .udp_bind((Ipv4Addr::UNSPECIFIED, SERVER_PORT))?;
        let wake = shared.wake_for(Token::only(SourceKind::Dhcp4));
        socket.set_waker(wake.waker());
        Ok(Dhcp4Server {
            socket,
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
                shared.counters.dhcp_replies += 1;
            }
        }
        self.wake.wake();
    }

    /// Replies; nothing if the question asks for none, or there is no buffer.
    fn reply_to(&self, shared: &Shared, question: &Datagram) -> Option<()> {
        let len = question.payload.len();
        let mut bytes = [0; QUESTION_MAX];
        let bytes = bytes.get_mut(..len)?;
        question.payload.copy_to(0, bytes);
        let reply = self.terms.reply_to(bytes)?;
        let payload = Chain::from_slice(shared.stack.pool(), &reply.message).ok()?;
        let from = SocketAddrV4::new(self.terms.server, SERVER_PORT);
        let to = SocketAddr::from((reply.to, CLIENT_PORT));
        self.socket.send(payload, from, to).ok()
    }
}
