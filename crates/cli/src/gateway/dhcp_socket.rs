//! The socket of a DHCP server, of either version: a datagram is a question, and gets one reply at most.
//!
//! Invariants: [`TURN_MAX`] questions are answered in a turn.
//! Locks: none.

use std::net::SocketAddr;
use std::sync::Arc;

use mbuf::Chain;
use mbuma::UdpSocket;
use mbuma::runtime::TaskWaker;
use mbuma::socket::{BindError, Datagram};

use super::shared::Shared;
use super::table::{SourceKind, Token};

/// Questions that are answered in a turn at most.
const TURN_MAX: usize = 16;
/// The longest question: that of a link whose MTU is 1500 and more than any client sends.
const QUESTION_MAX: usize = 1472;

/// A server's socket.
pub(super) struct DhcpSocket {
    socket: UdpSocket,
    wake: Arc<TaskWaker>,
}

/// A reply, with the addresses that it goes from and to.
pub(super) struct DhcpReply {
    pub(super) message: Vec<u8>,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

impl DhcpSocket {
    /// Takes the questions to the port `at`. The server that `kind` names has a turn when one came.
    pub(super) fn bind(
        shared: &Shared,
        at: SocketAddr,
        kind: SourceKind,
    ) -> Result<DhcpSocket, BindError> {
        let socket = shared.stack.udp_bind(at)?;
        let wake = shared.wake_for(Token::only(kind));
        socket.set_waker(Some(wake.waker()));
        Ok(DhcpSocket { socket, wake })
    }

    /// Answers the questions that have arrived: `reply` makes a reply of a datagram and its bytes. Returns the number
    /// of replies sent.
    pub(super) fn answer(
        &self,
        shared: &Shared,
        reply: impl Fn(&Datagram, &[u8]) -> Option<DhcpReply>,
    ) -> u64 {
        let mut replies = 0;
        for _ in 0..TURN_MAX {
            let Ok(question) = self.socket.recv() else {
                return replies;
            };
            replies += u64::from(self.reply_to(shared, &question, &reply).is_some());
        }
        self.wake.wake();
        replies
    }

    /// Replies. Returns `None` if the question has no reply, or there is no buffer for one.
    fn reply_to(
        &self,
        shared: &Shared,
        question: &Datagram,
        reply: impl Fn(&Datagram, &[u8]) -> Option<DhcpReply>,
    ) -> Option<()> {
        let mut bytes = [0; QUESTION_MAX];
        let bytes = bytes.get_mut(..question.payload.len())?;
        question.payload.copy_to(0, bytes);
        let DhcpReply { message, from, to } = reply(question, bytes)?;
        let payload = Chain::from_slice(shared.stack.pool(), &message).ok()?;
        self.socket.send_from(payload, from, to).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::test_gateway;

    #[test]
    fn more_questions_than_a_turn_answers_get_another_turn() {
        // Breaks when the last of many guests that ask at once has no answer until another one asks.
        let (shared, _) = test_gateway::start();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let server = DhcpSocket::bind(&shared, at(67), SourceKind::Dhcp4).expect("a free port");
        server.socket.set_waker(None);
        let guest = shared.stack.udp_bind(at(68)).expect("a free port");
        for _ in 0..=TURN_MAX {
            guest.send_to(b"who am I?", at(67)).expect("a route");
        }
        assert!(shared.context.ready().is_empty());
        let reply = |_: &Datagram, _: &[u8]| {
            Some(DhcpReply {
                message: vec![1],
                from: at(67),
                to: at(68),
            })
        };
        assert_eq!(server.answer(&shared, reply), TURN_MAX as u64);
        assert!(!shared.context.ready().is_empty());
    }
}
