//! A TCP connection as its user sees it.
//!
//! Data is handed over as chains: [`TcpStream::recv_chain`] moves mbufs out of the receive buffer,
//! [`TcpStream::send_chain`] moves them into the send buffer. Nothing is copied unless the caller
//! wants slices ([`TcpStream::recv`], [`TcpStream::send`]).

use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mbuf::MbufPool;

use super::SocketError;
use super::attempt::blocking;
use super::splice::{self, TcpSide};
use crate::state::StackState;
use crate::tcp::orphans;
use crate::tcp::pcb::{Inpcb, Tcb};
use crate::tcp::reset::EndReset;
use crate::tcp::visit;
use crate::tcp::{State, TcpInfo};
use crate::tcp::{reset, urgent};
use crate::waiters::{WaitBy, Want};

mod claim;
mod options;
mod readiness;
mod receive;
mod rules;
mod send;
mod send_room;
mod urgent_data;

pub use claim::SendClaim;
pub(super) use claim::fail;
pub(super) use rules::{
    close_send, is_source, may_send, may_write, take_head, take_received, wait_for,
};
pub(super) use send::send_all;
pub use send_room::SendRoom;

/// A TCP connection. Dropping it closes it: data in the send buffer is still delivered
/// ([`linger`](crate::TcpSocketOptions::linger) changes that).
///
/// [`send`](Self::send) and [`recv`](Self::recv) never wait; `.._blocking` wait, `poll_..` and `.._async` are for
/// tasks. `Read` and `Write` are for std's functions, and wait.
///
/// ```
/// use mbuma::{Config, SocketError, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let listener = stack.tcp_listen("127.0.0.1:80", 128)?;
/// let client = stack.tcp_connect_blocking("127.0.0.1:80", None)?;
/// let server = listener.accept()?;
/// let mut buf = [0; 16];
/// assert_eq!(server.recv(&mut buf), Err(SocketError::WouldBlock));
/// assert_eq!(client.send(b"hello")?, 5); // bytes taken: fewer if the send buffer is full
/// assert_eq!(server.recv_blocking(&mut buf, None)?, 5);
/// drop(client);
/// assert_eq!(server.recv_blocking(&mut buf, None)?, 0); // the end: the peer's FIN
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TcpStream {
    pub(super) stack: Arc<StackState>,
    pcb: Arc<Inpcb>,
}

impl TcpStream {
    pub(crate) fn from_pcb(stack: Arc<StackState>, pcb: Arc<Inpcb>) -> Self {
        Self { stack, pcb }
    }

    /// The part of it that a splice keeps.
    pub(in crate::socket) fn side(&self) -> TcpSide {
        TcpSide {
            stack: Arc::clone(&self.stack),
            pcb: Arc::clone(&self.pcb),
        }
    }

    /// The pool of its buffers.
    pub(super) fn pool(&self) -> &MbufPool {
        &self.stack.pool
    }

    /// Our end.
    pub fn local_addr(&self) -> SocketAddr {
        self.pcb.ends().local()
    }

    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.pcb.ends().peer()
    }

    /// The connection's state now.
    pub fn state(&self) -> State {
        self.pcb.lock(self.stack.giant()).conn.state
    }

    /// Figures about the connection.
    pub fn info(&self) -> TcpInfo {
        let t = self.pcb.lock(self.stack.giant());
        TcpInfo::of(&t, &self.stack.tcp.config, self.stack.clock.now())
    }

    /// The error that ended the connection, if one did.
    pub fn error(&self) -> Option<SocketError> {
        self.pcb.lock(self.stack.giant()).conn.error
    }

    /// The connection's state, or the error that ended it.
    ///
    /// # Errors
    /// That of [`error`](Self::error).
    pub fn state_or_error(&self) -> Result<State, SocketError> {
        let t = self.pcb.lock(self.stack.giant());
        t.conn.error.map_or(Ok(t.conn.state), Err)
    }

    /// Runs `f` on the connection, then gives it a turn to send: at once, since nothing else comes in this batch, and
    /// the connection is locked already.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Tcb) -> R) -> R {
        self.stack.enter(|batch| {
            let mut t = visit::begin(&self.pcb);
            let result = f(&mut t);
            visit::end(batch, &self.pcb, t);
            result
        })
    }

    /// The timeout of calls that give none.
    pub(super) fn call_timeout(&self, want: Want) -> Option<Duration> {
        let asked = self.options();
        match want {
            Want::Read => asked.recv_timeout,
            Want::Write => asked.send_timeout,
        }
    }

    /// Calls `attempt` until the socket is ready.
    fn blocking<T>(
        &self,
        want: Want,
        timeout: Option<Duration>,
        attempt: impl FnMut(Option<WaitBy<'_>>) -> Result<T, SocketError>,
    ) -> Result<T, SocketError> {
        let timeout = || timeout.or_else(|| self.call_timeout(want));
        blocking(Some(&self.stack), timeout, attempt)
    }

    /// Runs `f` on the connection; that causes nothing to send.
    pub(super) fn peek_at<R>(&self, f: impl FnOnce(&mut Tcb) -> R) -> R {
        f(&mut visit::begin_outside(self.stack.giant(), &self.pcb))
    }

    /// Gives the connection a turn to send.
    pub(super) fn schedule(&self) {
        self.stack.enter(|batch| visit::schedule(batch, &self.pcb));
    }

    /// Waits until the connection is established.
    ///
    /// # Errors
    /// The error of the attempt; [`SocketError::TimedOut`] when the time is over.
    #[doc(alias = "connect")]
    pub fn connected_blocking(&self, timeout: Option<Duration>) -> Result<(), SocketError> {
        self.blocking(Want::Write, timeout, |waiting| self.established(waiting))
    }

    fn established(&self, waiting: Option<WaitBy<'_>>) -> Result<(), SocketError> {
        let mut t = visit::begin_outside(self.stack.giant(), &self.pcb);
        let verdict = match t.conn.state {
            State::SynSent | State::SynReceived | State::SynHeld => Err(SocketError::WouldBlock),
            State::Closed => Err(t.conn.error.unwrap_or(SocketError::Closed)),
            _ => Ok(()),
        };
        verdict.inspect_err(|e| wait_for(&mut t, Want::Write, *e, waiting))
    }

    /// Ends one direction or both.
    ///
    /// | | |
    /// |---|---|
    /// | `Write` | The stack sends a FIN after the content of the send buffer. |
    /// | `Read` | The stack drops received data, now and later. The peer gets no notice, and may go on sending. A read returns the end of file. |
    ///
    /// This is std's call, and has its name. A program that has tokio's `AsyncWriteExt` in scope calls that one by its
    /// path: `AsyncWriteExt::shutdown(&mut stream).await`.
    #[doc(alias = "SHUT_WR")]
    #[doc(alias = "SHUT_RD")]
    #[doc(alias = "SS_CANTRCVMORE")]
    pub fn shutdown(&self, how: Shutdown) {
        let unread = self.with(|t| {
            let mut unread = None;
            if how != Shutdown::Write {
                t.recv.read_closed = true;
                unread = Some(t.recv.buf.flush());
                urgent::read_closed(t);
                t.notify();
            }
            if how != Shutdown::Read {
                close_send(t, None);
            }
            unread
        });
        drop(unread);
    }

    /// Ends the connection at once: the peer gets a reset, buffers are dropped.
    #[doc(alias = "SO_LINGER")]
    pub fn abort(&self) {
        self.stack.enter(|batch| abort(batch, &self.pcb));
    }
}

/// Resets a connection, from any state.
pub(crate) fn abort(batch: &mut crate::batch::Batch<'_>, pcb: &Arc<Inpcb>) {
    let mut t = visit::begin(pcb);
    let tell = !matches!(
        t.conn.state,
        State::Closed | State::SynSent | State::TimeWait
    );
    let reset = EndReset::of(&t, batch.now);
    t.conn.become_orphan();
    t.close(Some(SocketError::Closed));
    visit::end_later(batch, pcb, t);
    if tell {
        reset::send(batch, pcb.ends(), reset);
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        splice::side_dropped(&self.side());
        let wakers = self.stack.enter(|batch| {
            let mut t = visit::begin(&self.pcb);
            let asked = t.conn.asked();
            let deadline = batch.now + asked.orphan_timeout(&self.stack.config.tcp);
            let wakers = t.conn.waiters.clear();
            // Otherwise the peer would believe that we have read the data (RFC 2525 2.17).
            let has_unread = !t.recv.buf.is_empty() && t.conn.state != State::Closed;
            let is_over = matches!(t.conn.state, State::Closed | State::TimeWait);
            if has_unread || (asked.linger == Some(Duration::ZERO) && !is_over) {
                drop(t);
                abort(batch, &self.pcb);
            } else {
                t.conn.become_orphan();
                drop(t.recv.buf.flush());
                close_send(&mut t, Some(deadline));
                let tcp = &batch.stack.tcp;
                let added = tcp.orphans.add(batch, &self.pcb, &mut t);
                visit::end_later(batch, &self.pcb, t);
                if let Some(added) = added {
                    orphans::make_room(batch, added);
                }
            }
            wakers
        });
        drop(wakers);
    }
}

kern::impl_debug!(TcpStream |this|
    local: this.local_addr(), peer: this.peer_addr(), state: this.state(),
);

#[cfg(all(test, not(shuttle)))]
mod tests;
