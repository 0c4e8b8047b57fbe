//! A question to a name server, and to another one if that does not answer.
//!
//! Called by: udp. Calls: resolvers, sys::socket.
//! Locks: none. Sources: RFC 1035 section 4.2.1 (when to ask another server).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kern::Time;
use mbuma::Unreach;

use super::policy;
use super::shared::Shared;
use super::table::Token;
use crate::sys::socket;

/// How long a name server may take before another is asked. The C library repeats after five seconds.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(3);
/// A question that is repeated after this long was not answered.
const REPEAT_MIN: Duration = Duration::from_millis(900);

/// A question to a name server.
pub(super) struct Question {
    pub(super) socket: OwnedFd,
    pub(super) resolver: SocketAddr,
    /// When it was asked; none when it was answered, or given up.
    pub(super) asked: Option<Time>,
    /// Other resolvers that may be asked at once when this one refuses.
    pub(super) others: usize,
}

impl Question {
    /// A socket to the resolver whose turn it is; one that cannot even be tried is passed over.
    pub(super) fn begin(shared: &mut Shared, others: usize) -> Result<Question, Unreach> {
        for others in (0..=others).rev() {
            let resolver = shared.resolvers.current().ok_or(Unreach::Port)?;
            match connected(resolver) {
                Ok(socket) => {
                    return Ok(Question {
                        socket,
                        resolver,
                        asked: None,
                        others,
                    });
                }
                Err(e) if policy::is_out_of_descriptors(&e) => return Err(failure(shared, &e)),
                Err(_) => shared.resolvers.failed(resolver),
            }
        }
        Err(Unreach::Host)
    }

    /// The guest asks, or asks again: whom it asked before did not answer then.
    pub(super) fn ask(&mut self, shared: &mut Shared, now: Time, token: Token) {
        if self.asked.is_some_and(|at| now - at >= REPEAT_MIN) {
            self.give_up(shared);
        }
        if shared.resolvers.current() != Some(self.resolver) {
            self.reopen(shared, self.others, token);
        }
        self.asked = Some(now);
    }

    /// Turns to another resolver because this one refused; false when there is none left.
    pub(super) fn ask_another(&mut self, shared: &mut Shared, token: Token) -> bool {
        self.give_up(shared);
        self.others > 0 && self.reopen(shared, self.others - 1, token)
    }

    pub(super) fn reopen(&mut self, shared: &mut Shared, others: usize, token: Token) -> bool {
        let reopened = Question::begin(shared, others)
            .ok()
            .filter(|q| shared.poller.add_reader(&q.socket, token).is_ok());
        match reopened {
            Some(question) => {
                *self = question;
                true
            }
            None => false,
        }
    }

    /// Nothing came: whoever asks next is sent to another.
    pub(super) fn give_up(&mut self, shared: &mut Shared) {
        self.asked = None;
        shared.resolvers.failed(self.resolver);
    }
}

/// A new socket that is connected to `peer`.
pub(super) fn connected(peer: SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket::open(socket::Kind::Udp, peer)?;
    socket::connect(fd.as_fd(), peer)?;
    Ok(fd)
}

/// What to tell the guest when a socket could not be had.
pub(super) fn failure(shared: &mut Shared, error: &io::Error) -> Unreach {
    if policy::is_out_of_descriptors(error) {
        shared.out_of_descriptors();
    }
    policy::unreach(error).unwrap_or(Unreach::Host)
}
