//! One UDP flow: its ends, its way out, and the answer that it waits for.
//!
//! Locks: none.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use kern::{CalloutId, Time};
use mbuf::MbufPool;
use mbuma::socket::Datagram;

use super::question::{ANSWER_WAIT, Question};
use super::quote;
use super::table::Token;
use crate::sys::pktinfo::DatagramClient;

/// How long a flow that is not a published port's may be idle: the least that RFC 4787 section 4.3 allows.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// How long a flow of a published port may be idle, as RFC 4787 section 4.3 recommends.
const INLET_IDLE_MAX: Duration = Duration::from_secs(300);
/// How long a flow lives on after a name server's answer: there may be a second question.
const ANSWERED_IDLE_MAX: Duration = Duration::from_secs(10);

/// The two ends of a flow, as the guest sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlowEnds {
    pub(super) guest: SocketAddr,
    pub(super) remote: SocketAddr,
}

/// One flow.
pub(super) struct Flow {
    pub(super) ends: FlowEnds,
    pub(super) outlet: Outlet,
    pub(super) last_used: Time,
    /// Its timer, and when that comes.
    pub(super) timer: Option<(Time, CalloutId)>,
    /// The last datagram that was sent, until an answer comes: an error would be about it.
    pub(super) unanswered: Option<Datagram>,
}

/// How a flow's datagrams leave.
pub(super) enum Outlet {
    /// To `peer`, by a socket of [`SharedSockets`](super::shared_sockets::SharedSockets).
    Shared { socket: Token, peer: SocketAddr },
    /// To a name server, by a socket that is connected to it.
    Resolver(Question),
    /// The same, to the host's loopback, for a client of this outward port, which hears the answers by the port's
    /// socket.
    Loopback {
        socket: OwnedFd,
        index: usize,
        client: SocketAddr,
    },
    /// By the socket of a published port.
    Inlet {
        index: usize,
        client: DatagramClient,
    },
}

impl Flow {
    /// A flow that is used for the first time now.
    pub(super) fn new(ends: FlowEnds, outlet: Outlet, now: Time) -> Flow {
        Flow {
            ends,
            outlet,
            last_used: now,
            timer: None,
            unanswered: None,
        }
    }

    /// Keeps a datagram that was sent, or its head, for an error to be about. A published port's socket hears of none.
    pub(super) fn remember(&mut self, pool: &MbufPool, mut datagram: Datagram) {
        if self.outlet.client().is_some() {
            return;
        }
        quote::shorten(pool, &mut datagram.payload);
        let earlier = self.unanswered.replace(datagram);
        if let (Outlet::Resolver(question), Some(earlier)) = (&mut self.outlet, earlier) {
            question.remember(earlier);
        }
    }

    /// The datagrams without an answer: of a query to a name server several, of other flows the last one.
    pub(super) fn take_unanswered(&mut self) -> Vec<Datagram> {
        let mut all = match &mut self.outlet {
            Outlet::Resolver(question) => std::mem::take(&mut question.earlier),
            _ => Vec::new(),
        };
        all.extend(self.unanswered.take());
        all
    }

    /// When to look at it again: it is too old, or its question went unanswered.
    pub(super) fn deadline(&self) -> Time {
        match &self.outlet {
            Outlet::Resolver(Question {
                asked: Some(at), ..
            }) => *at + ANSWER_WAIT,
            Outlet::Resolver(_) => self.last_used + ANSWERED_IDLE_MAX,
            Outlet::Shared { .. } | Outlet::Loopback { .. } => self.last_used + IDLE_MAX,
            Outlet::Inlet { .. } => self.last_used + INLET_IDLE_MAX,
        }
    }

    /// An answer came.
    pub(super) fn answered(&mut self) {
        self.unanswered = None;
        if let Outlet::Resolver(question) = &mut self.outlet {
            question.asked = None;
            question.earlier.clear();
        }
    }
}

impl Outlet {
    /// The published or outward port, and which of its clients it leads to.
    pub(super) fn client(&self) -> Option<(usize, DatagramClient)> {
        match self {
            Outlet::Inlet { index, client } => Some((*index, *client)),
            Outlet::Loopback { index, client, .. } => {
                let (addr, local) = (*client, None);
                Some((*index, DatagramClient { addr, local }))
            }
            Outlet::Shared { .. } | Outlet::Resolver(_) => None,
        }
    }

    /// A socket of the flow's own.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Outlet::Loopback { socket, .. } => Some(socket.as_fd()),
            Outlet::Resolver(question) => Some(question.socket.as_fd()),
            Outlet::Shared { .. } | Outlet::Inlet { .. } => None,
        }
    }
}

/// The same address with another port.
pub(super) fn at_port(mut addr: SocketAddr, port: u16) -> SocketAddr {
    addr.set_port(port);
    addr
}

#[cfg(test)]
mod tests;
