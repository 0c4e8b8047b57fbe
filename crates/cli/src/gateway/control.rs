//! The control socket, where `mbuma netstat` asks.
//!
//! ```text
//!   connect --> accept --> read a line --> answer --> write it all --> close
//!                             '-- 5 s for all of that, else: close --'
//! ```
//!
//! The kernel lets this user and root connect, and no other: connect(2) needs write permission for the socket's file,
//! which is 0600 in a directory that is 0700. The peer's user id would say less: root of the host has none in a user
//! namespace that mbuma itself may be in.
//!
//! A client that comes when there are [`ASKERS_MAX`] takes the place of the one that has been silent longest.
//!
//! Nothing here waits: a read or write that is not possible now goes on with the next event. An mbuma that can't
//! have a socket runs without. The monitor makes the socket, and its file goes with the monitor.
//!
//! Invariants: at most [`ASKERS_MAX`] clients, each with one request of bounded length and one answer, which
//! [`report`](super::report) bounds.
//! Locks: none.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use kern::{CalloutId, Time};
use mbuma::runtime::{Interest, TaskWaker};

use super::report::{self, View};
use super::retry::{ACCEPT_WAIT, RetryTimer};
use super::shared::Shared;
use super::table::{SourceKind, Table, Token};
use crate::netstat::request::{self, REQUEST_MAX, Request};

/// Clients at once.
const ASKERS_MAX: usize = 16;
/// Connections that are taken in a turn at most.
const ACCEPT_MAX: usize = 16;
/// How long one may take to ask, and to take the answer.
const ASKER_WAIT: Duration = Duration::from_secs(5);

/// The socket, and its clients.
pub(super) struct Control {
    listener: Option<UnixListener>,
    wake: Arc<TaskWaker>,
    /// For the next attempt to accept.
    retry: RetryTimer,
    askers: Table<Asker>,
}

/// A client.
struct Asker {
    stream: UnixStream,
    /// The end of its time, and the timer that ends it.
    deadline: Option<(Time, CalloutId)>,
    /// Received, and not a whole request yet.
    received: Vec<u8>,
    /// The answer, once there is one, and how much of it was taken.
    answer: Option<(Vec<u8>, usize)>,
}

/// The next step of a client.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Wait,
    Close,
}

impl Control {
    /// Serves the clients of `listener`, if there is one.
    pub(super) fn new(shared: &Shared, listener: Option<UnixListener>) -> Control {
        let token = Token::only(SourceKind::Control);
        // By edge: connections that can't be taken now, for lack of descriptors, are no reason to spin.
        let watched = |listener: &UnixListener| {
            shared
                .poller()
                .add(listener, token, Interest::ReadEdge)
                .is_ok()
        };
        Control {
            listener: listener.filter(watched),
            wake: shared.wake_for(token),
            retry: RetryTimer::default(),
            askers: Table::new(SourceKind::Asker),
        }
    }

    /// A client connects.
    pub(super) fn wake(&self) {
        self.wake.wake();
    }

    /// Accepts clients.
    pub(super) fn accept(&mut self, shared: &mut Shared) {
        for _ in 0..ACCEPT_MAX {
            let Some(listener) = &self.listener else {
                return;
            };
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // No event will tell when there is a descriptor again.
                Err(_) => {
                    let token = Token::only(SourceKind::Control);
                    return self.retry.set(shared, token, ACCEPT_WAIT);
                }
            };
            if !self.make_room(shared) || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut asker = Asker::new(stream);
            let token = self.askers.next_token();
            // Data that it has sent already is reported as well.
            let interest = Interest::StreamEdge;
            if shared.poller().add(&asker.stream, token, interest).is_ok() {
                let timer = shared.after(ASKER_WAIT, token);
                asker.deadline = Some((shared.now() + ASKER_WAIT, timer));
                self.askers.insert(asker);
            }
        }
        self.wake.wake();
    }

    /// Ends the silent client that came first if all places are taken. False if each client waits for an answer's rest.
    fn make_room(&mut self, shared: &mut Shared) -> bool {
        if self.askers.len() < ASKERS_MAX {
            return true;
        }
        let silent = self.askers.iter().filter(|(_, a)| a.answer.is_none());
        let first = silent.min_by_key(|(_, asker)| asker.deadline.map(|(at, _)| at));
        let first = first.map(|(token, _)| token);
        let Some(asker) = first.and_then(|token| self.askers.remove(token)) else {
            return false;
        };
        if let Some((_, timer)) = asker.deadline {
            shared.context.cancel(timer);
        }
        true
    }

    /// Something can be read or written.
    pub(super) fn turn(&mut self, token: Token, view: &View<'_>) {
        let Some(asker) = self.askers.find(token) else {
            return;
        };
        match asker.turn(|request| report::answer(view, request)) {
            Ok(Next::Wait) => {}
            Ok(Next::Close) | Err(_) => drop(self.askers.remove(token)),
        }
    }

    /// One's time is over.
    pub(super) fn timer(&mut self, token: Token) {
        self.askers.remove(token);
    }

    /// Ends it: there is nothing to ask any more.
    pub(super) fn close(&mut self) {
        self.listener = None;
        self.askers.drain().for_each(drop);
    }
}

impl Asker {
    fn new(stream: UnixStream) -> Asker {
        Asker {
            stream,
            deadline: None,
            received: Vec::new(),
            answer: None,
        }
    }

    /// Goes on as far as it goes without waiting.
    fn turn(&mut self, say: impl FnOnce(&Request) -> String) -> io::Result<Next> {
        if self.answer.is_none() {
            self.receive()?;
            self.answer = match Request::parse(&self.received) {
                Ok(None) => return Ok(Next::Wait),
                Ok(Some(request)) => Some((request::answer(&Ok(say(&request))), 0)),
                Err(refusal) => Some((request::answer(&Err(refusal.text().to_owned())), 0)),
            };
        }
        self.flush()
    }

    /// Reads as much as a request may have.
    fn receive(&mut self) -> io::Result<()> {
        let mut bytes = [0; REQUEST_MAX];
        while self.received.len() < REQUEST_MAX {
            match self.stream.read(&mut bytes) {
                // A client that ends without a request gets no answer.
                Ok(0) if Request::parse(&self.received) == Ok(None) => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(0) => return Ok(()),
                Ok(n) => self.received.extend(bytes.iter().take(n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes the rest of the answer, until all is taken or no more of it is.
    fn flush(&mut self) -> io::Result<Next> {
        let Some((answer, sent)) = &mut self.answer else {
            return Ok(Next::Wait);
        };
        while let Some(rest @ [_, ..]) = answer.get(*sent..) {
            match self.stream.write(rest) {
                Ok(n) => *sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Next::Wait),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Next::Close)
    }
}

#[cfg(test)]
mod tests;
