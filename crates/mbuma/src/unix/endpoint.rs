//! A datagram socket's state: its receive buffer, and its peer.
//!
//! Locks: `peer` (UNIX_PEER), never with another.
//! Source: POSIX.1-2024 connect(), sendto(); unix(7).

use std::sync::Arc;
use std::task::{Poll, Waker};

use kern::prim::{AtomicBool, Ordering};
use kern::{Giant, LockClass, order};

use super::connection::not_ready;
use super::error::UnixError;
use super::lock::Lock;
use super::message::{Message, Sender};
use super::name::Name;
use super::pcb::{Role, Unpcb};
use super::rcvbuf::{Rcvbuf, SendRefusal, Unread};
use super::rights;
use crate::config::Credentials;
use crate::park::{Wait, retry};

static PEER: LockClass = LockClass::new("unix datagram peer", order::UNIX_PEER);

/// A datagram socket's state.
pub(super) struct Endpoint {
    pub(super) rx: Arc<Rcvbuf>,
    pub(super) name: Option<Name>,
    peer: Lock<Option<Target>>,
    /// It sends no more. Relaxed: a concurrent send may succeed or fail.
    silent: AtomicBool,
}

/// Where datagrams go to.
#[derive(Clone)]
pub(super) struct Target {
    rcv: Arc<Rcvbuf>,
    pub(super) name: Option<Name>,
    pub(super) credentials: Credentials,
}

impl Target {
    fn of(pcb: &Unpcb, endpoint: &Endpoint) -> Self {
        Self {
            rcv: Arc::clone(&endpoint.rx),
            name: endpoint.name.clone(),
            credentials: pcb.credentials,
        }
    }

    /// The socket that has `name`, in the stack of `asker`.
    fn find(asker: &Unpcb, name: &[u8]) -> Result<Self, UnixError> {
        let pcb = asker.unix.names.find(name)?;
        match &pcb.role {
            Role::Datagram(endpoint) => Ok(Self::of(&pcb, endpoint)),
            _ => Err(UnixError::WrongType),
        }
    }

    /// Whether a send would not wait; if it would, the change wakes `waiter`.
    pub(super) fn is_writable(&self, waiter: &Waker) -> bool {
        self.rcv.is_writable(Some(waiter))
    }
}

/// Connects two datagram sockets to each other.
pub(super) fn join(a: &Unpcb, b: &Unpcb) {
    if let (Role::Datagram(of_a), Role::Datagram(of_b)) = (&a.role, &b.role) {
        of_a.set_peer(Target::of(b, of_b));
        of_b.set_peer(Target::of(a, of_a));
    }
}

impl Endpoint {
    pub(super) fn new(giant: &Arc<Giant>, rx: Rcvbuf, name: Option<Name>) -> Self {
        Self {
            rx: Arc::new(rx),
            name,
            peer: Lock::new(giant, &PEER, None),
            silent: AtomicBool::new(false),
        }
    }

    pub(super) fn peer(&self) -> Option<Target> {
        self.peer.lock().clone()
    }

    /// From now on, datagrams go to `target`, and the socket takes only those of `target`.
    fn set_peer(&self, target: Target) {
        self.rx.only_from(Some(target.rcv.owner));
        let old = self.peer.lock().replace(target);
        drop(old);
    }

    /// Makes the socket called `name` the peer of `pcb`, whose state this is.
    #[doc(alias = "unp_connect")]
    pub(super) fn connect(&self, pcb: &Unpcb, name: &[u8]) -> Result<(), UnixError> {
        let target = Target::find(pcb, name)?;
        if !target.rcv.takes_from(pcb.id) {
            return Err(UnixError::NotPermitted);
        }
        self.set_peer(target);
        Ok(())
    }

    /// Gives a datagram of `pcb`, whose state this is, to the socket called `to`, or to the peer.
    pub(super) fn send(
        &self,
        pcb: &Unpcb,
        message: Message,
        to: Option<&[u8]>,
        wait: Wait,
    ) -> Result<(), (UnixError, Message)> {
        let target = match self.target(pcb, &message, to) {
            Ok(target) => target,
            Err(e) => return Err((e, message)),
        };
        self.push(pcb, &target.rcv, message, wait)
            .map_err(|(refusal, message)| {
                if refusal == SendRefusal::Gone && to.is_none() {
                    self.forget(&target);
                }
                (error_of(refusal, wait), message)
            })
    }

    /// The receiver of a datagram, if it may be sent at all.
    fn target(
        &self,
        pcb: &Unpcb,
        message: &Message,
        to: Option<&[u8]>,
    ) -> Result<Target, UnixError> {
        rights::check(&pcb.unix, &message.rights)?;
        if message.data.len() > pcb.unix.config.record_max {
            return Err(UnixError::TooBig);
        }
        if self.silent.load(Ordering::Relaxed) {
            return Err(UnixError::BrokenPipe);
        }
        match to {
            Some(name) => Target::find(pcb, name),
            None => self.peer().ok_or(UnixError::NotConnected),
        }
    }

    fn push(
        &self,
        pcb: &Unpcb,
        rcv: &Rcvbuf,
        message: Message,
        wait: Wait,
    ) -> Result<(), (SendRefusal, Message)> {
        let (pool, flight) = (&pcb.unix.pool, &pcb.unix.flight);
        let mut unsent = Some(message);
        let pushed = retry(wait, |waiter| {
            let message = unsent.take().unwrap_or_default();
            let sender = Sender {
                name: self.name.clone(),
                credentials: pcb.credentials,
                id: pcb.id,
            };
            match rcv.push(pool, flight, message, Some(sender), waiter) {
                Err((SendRefusal::Full, message)) => {
                    unsent = Some(message);
                    Poll::Pending
                }
                other => Poll::Ready(other),
            }
        });
        pushed.unwrap_or_else(|| Err((SendRefusal::Full, unsent.unwrap_or_default())))
    }

    /// Removes the peer, which has gone, unless the socket has another peer already.
    fn forget(&self, gone: &Target) {
        let mut peer = self.peer.lock();
        let same = |t: &Target| Arc::ptr_eq(&t.rcv, &gone.rcv);
        let old = peer.as_ref().is_some_and(same).then(|| peer.take());
        drop(peer);
        if old.is_some() {
            self.rx.only_from(None);
        }
    }

    /// It sends no more.
    pub(super) fn silence(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// The socket goes.
    pub(super) fn close(&self) -> Unread {
        let old = self.peer.lock().take();
        drop(old);
        self.rx.close_reader()
    }
}

/// The error that a sender gets.
fn error_of(refusal: SendRefusal, wait: Wait) -> UnixError {
    match refusal {
        SendRefusal::Full => not_ready(wait),
        SendRefusal::Shut => UnixError::BrokenPipe,
        SendRefusal::Gone => UnixError::Refused,
        SendRefusal::Stranger => UnixError::NotPermitted,
    }
}
