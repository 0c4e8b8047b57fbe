//! A query to a name server, and to another one if that does not answer.
//!
//! Locks: none. Sources: RFC 1035 section 4.2.1 (when to ask another server).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kern::Time;
use mbuma::IcmpError;
use mbuma::runtime::Interest;
use mbuma::socket::Datagram;

use super::policy;
use super::shared::Shared;
use super::table::Token;
use crate::sys::socket;

/// The time after which another name server is asked. The C library repeats a query after five seconds.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(3);
/// Queries without an answer that are kept beside the last one, to be sent to another server.
const EARLIER_MAX: usize = 3;
/// A question that is repeated after this long was not answered.
const REPEAT_MIN: Duration = Duration::from_millis(900);

/// A question to a name server.
pub(super) struct Question {
    pub(super) socket: OwnedFd,
    pub(super) resolver: SocketAddr,
    /// The time at which it was sent; none if it was answered, or given up.
    pub(super) asked: Option<Time>,
    /// Other resolvers to ask at once if this one refuses.
    pub(super) others: usize,
    /// Queries without an answer before the last one: programs ask for the addresses of both families at once.
    pub(super) earlier: Vec<Datagram>,
}

impl Question {
    /// A socket to the first name server that is not down; or the error for the guest, if there is one.
    pub(super) fn begin(shared: &mut Shared, others: usize) -> Result<Question, Option<IcmpError>> {
        let first = shared.resolvers.first(shared.now());
        Question::to(shared, first, others)
    }

    /// A socket to `resolver`, or to one after it: servers to which the host has no route are skipped.
    fn to(
        shared: &mut Shared,
        mut resolver: Option<SocketAddr>,
        others: usize,
    ) -> Result<Question, Option<IcmpError>> {
        let now = shared.now();
        for others in (0..=others).rev() {
            let addr = resolver.ok_or(Some(IcmpError::Port))?;
            match connected(shared, addr) {
                Ok(socket) => {
                    return Ok(Question {
                        socket,
                        resolver: addr,
                        asked: None,
                        others,
                        earlier: Vec::new(),
                    });
                }
                Err(e) if policy::is_out_of_descriptors(&e) => return Err(failure(shared, &e)),
                Err(_) => shared.resolvers.refused(addr, now),
            }
            resolver = shared.resolvers.next_after(addr, now);
        }
        Err(Some(IcmpError::Host))
    }

    /// The guest sends a query. If it repeats one, the server did not answer: the query goes to the next one.
    pub(super) fn ask(&mut self, shared: &mut Shared, now: Time, token: Token) {
        let wanted = match self.asked {
            Some(at) if now - at >= REPEAT_MIN => {
                self.give_up(shared);
                shared.resolvers.next_after(self.resolver, now)
            }
            // The wait is counted from the first query, so a guest that repeats its query often does not prolong it.
            Some(_) => return,
            None => shared.resolvers.first(now),
        };
        if wanted != Some(self.resolver) {
            self.reopen(shared, wanted, self.others, token);
        }
        self.asked = Some(now);
    }

    /// Keeps a query that has another one behind it now.
    pub(super) fn remember(&mut self, query: Datagram) {
        if self.earlier.len() == EARLIER_MAX {
            self.earlier.remove(0);
        }
        self.earlier.push(query);
    }

    /// This server refused: sends the query to the next one. Returns false if none is left.
    pub(super) fn ask_another(&mut self, shared: &mut Shared, token: Token) -> bool {
        self.asked = None;
        let now = shared.now();
        shared.resolvers.refused(self.resolver, now);
        let next = shared.resolvers.next_after(self.resolver, now);
        self.others > 0 && self.reopen(shared, next, self.others - 1, token)
    }

    fn reopen(
        &mut self,
        shared: &mut Shared,
        resolver: Option<SocketAddr>,
        others: usize,
        token: Token,
    ) -> bool {
        let reopened = Question::to(shared, resolver, others).ok().filter(|q| {
            shared
                .poller()
                .add(&q.socket, token, Interest::Read)
                .is_ok()
        });
        match reopened {
            Some(question) => {
                *self = question;
                true
            }
            None => false,
        }
    }

    /// No answer came in time.
    pub(super) fn give_up(&mut self, shared: &mut Shared) {
        let now = shared.now();
        if let Some(asked) = self.asked.take() {
            shared.resolvers.silent(self.resolver, asked, now);
        }
    }
}

/// A new socket for datagrams to such peers, which keeps errors about them.
pub(super) fn opened(shared: &Shared, peer: SocketAddr) -> io::Result<OwnedFd> {
    let local = shared.policy.local_end_for(peer);
    let fd = socket::open_from(socket::Kind::Udp, peer, local)?;
    socket::keep_errors(fd.as_fd(), peer)?;
    Ok(fd)
}

/// The same, connected to `peer`.
pub(super) fn connected(shared: &Shared, peer: SocketAddr) -> io::Result<OwnedFd> {
    let fd = opened(shared, peer)?;
    socket::connect(fd.as_fd(), peer)?;
    Ok(fd)
}

/// The error for the guest when there is no socket. `None` if no descriptor was left: the datagram is lost as in a full
/// queue, and the guest's program asks again; after a refusal it would give up.
pub(super) fn failure(shared: &mut Shared, error: &io::Error) -> Option<IcmpError> {
    if policy::is_out_of_descriptors(error) {
        shared.out_of_descriptors();
        return None;
    }
    Some(policy::unreach(error).unwrap_or(IcmpError::Host))
}
