//! Sockets as futures, for any runtime.
//!
//! Any number of tasks may wait for one socket. A future that is dropped has accepted no connection, received no
//! datagram, and leaves no waker behind.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::attempt::until_ready;
use super::endpoint::IntoEndpoint;
use super::{Datagram, Incoming, Interceptor, RecvError, TcpListener, TcpStream, UdpSocket};
use crate::error::SocketError;
use crate::inet::ANY;
use crate::stack::Stack;
use crate::waiters::{FutureId, PollingTask, WaitBy};

/// Tries at each poll, and removes its waker from the socket when it is dropped.
struct Attempts<A, F>
where
    F: FnMut(FutureId),
{
    attempt: A,
    forget: F,
    /// Its address identifies the future. Allocated by the first poll that has to wait.
    id: Option<Box<u8>>,
}

impl<A, F: FnMut(FutureId)> Attempts<A, F> {
    fn new(attempt: A, forget: F) -> Self {
        let id = None;
        Self {
            attempt,
            forget,
            id,
        }
    }

    fn id(&self) -> Option<FutureId> {
        let id = self.id.as_deref().map(std::ptr::from_ref::<u8>);
        id.map(|id| FutureId(id.addr()))
    }
}

impl<T, A, F> Future for Attempts<A, F>
where
    A: FnMut(Option<(FutureId, &PollingTask<'_>)>) -> Poll<T> + Unpin,
    F: FnMut(FutureId) + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let me = self.get_mut();
        if me.id.is_none() {
            // Mostly the socket is ready, and no identity is needed.
            if let Poll::Ready(done) = (me.attempt)(None) {
                return Poll::Ready(done);
            }
            me.id = Some(Box::new(0));
        }
        let task = PollingTask::new(cx);
        let waits = me.id().map(|id| (id, &task));
        let polled = (me.attempt)(waits);
        if let (Poll::Ready(_), Some(id)) = (&polled, me.id()) {
            // The event may have come before the waker was registered.
            (me.forget)(id);
            me.id = None;
        }
        polled
    }
}

impl<A, F: FnMut(FutureId)> Drop for Attempts<A, F> {
    fn drop(&mut self) {
        if let Some(id) = self.id() {
            (self.forget)(id);
        }
    }
}

type Waits<'a, 't> = Option<(FutureId, &'a PollingTask<'t>)>;

fn wait_by<'a>(waits: Waits<'a, 'a>) -> Option<WaitBy<'a>> {
    waits.map(|(id, task)| WaitBy::Future(id, task))
}

impl TcpListener {
    /// The next established connection.
    ///
    /// # Errors
    /// [`SocketError::AddrNotAvailable`], as [`accept`](TcpListener::accept).
    pub fn accept_async(&self) -> impl Future<Output = Result<TcpStream, SocketError>> + '_ {
        Attempts::new(
            |waits: Waits<'_, '_>| until_ready(Some(&self.stack), self.attempt(wait_by(waits))),
            |id| self.forget(id),
        )
    }
}

impl Interceptor {
    /// The next client that asks for a connection.
    ///
    /// # Errors
    /// As [`poll_accept`](Interceptor::poll_accept).
    pub fn accept_async(&self) -> impl Future<Output = Result<Incoming, SocketError>> + '_ {
        Attempts::new(
            |waits: Waits<'_, '_>| until_ready(Some(&self.stack), self.attempt(wait_by(waits))),
            |id| self.forget(id),
        )
    }
}

impl UdpSocket {
    /// The oldest datagram.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`], except [`RecvError::WouldBlock`].
    #[doc(alias = "recvfrom")]
    pub fn recv_async(&self) -> impl Future<Output = Result<Datagram, RecvError>> + '_ {
        Attempts::new(
            |waits: Waits<'_, '_>| self.attempt(wait_by(waits), wait_by(waits)),
            |id| self.forget(id),
        )
    }
}

impl Stack {
    /// Connects to `peer`. Dropping the future gives up the attempt.
    ///
    /// # Errors
    /// Why there is no connection.
    #[doc(alias = "connect_async")]
    pub async fn tcp_connect_async(
        &self,
        peer: impl IntoEndpoint,
    ) -> Result<TcpStream, SocketError> {
        let stream = self.tcp_connect(ANY, peer)?;
        std::future::poll_fn(|cx| stream.poll_connected(cx)).await?;
        Ok(stream)
    }
}
