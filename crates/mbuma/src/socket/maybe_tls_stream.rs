//! A connection that may have TLS: one type for programs that serve or relay both kinds.

use std::net::{Shutdown, SocketAddr};
use std::task::Waker;
use std::time::Duration;

use mbuf::Chain;

use super::splice::{SpliceEndpoint, SpliceError, StreamRelay, relay};
use super::{SendFile, SendFileError, SendRoom, SocketError, TcpStream, TlsStream};
use crate::tls::TlsError;

/// A connection with or without TLS. Its calls are those of [`TcpStream`] and [`TlsStream`].
#[derive(Debug)]
pub enum MaybeTlsStream {
    /// Its bytes are those of the program.
    Tcp(TcpStream),
    /// The stack opens and seals its records.
    Tls(TlsStream),
}

/// Calls the same method of either.
macro_rules! either {
    ($either:ident, $stream:ident => $call:expr) => {
        match $either {
            MaybeTlsStream::Tcp($stream) => $call,
            MaybeTlsStream::Tls($stream) => $call,
        }
    };
}

impl MaybeTlsStream {
    /// See [`TlsStream::recv_chain`].
    ///
    /// # Errors
    /// As there.
    pub fn recv_chain(&self, max: usize) -> Result<Chain, TlsError> {
        either!(self, stream => Ok(stream.recv_chain(max)?))
    }

    /// See [`TlsStream::send_chain`].
    ///
    /// # Errors
    /// As there.
    pub fn send_chain(&self, data: Chain) -> Result<(), (TlsError, Chain)> {
        match self {
            Self::Tcp(tcp) => tcp.send_chain(data).map_err(|(e, left)| (e.into(), left)),
            Self::Tls(tls) => tls.send_chain(data),
        }
    }

    /// See [`TcpStream::send_file`].
    ///
    /// # Errors
    /// As there.
    pub fn send_file(&self, job: &mut SendFile) -> Result<u64, SendFileError> {
        either!(self, stream => stream.send_file(job))
    }

    /// Bytes that the send buffer has room for.
    pub fn send_space(&self) -> usize {
        either!(self, stream => stream.send_space())
    }

    /// See [`TcpStream::send_room`]. With TLS, bytes are those of records.
    pub fn send_room(&self) -> SendRoom {
        either!(self, stream => stream.send_room())
    }

    /// See [`TlsStream::shutdown`].
    pub fn shutdown(&self, how: Shutdown) {
        either!(self, stream => stream.shutdown(how));
    }

    /// Ends the connection at once: the peer gets a reset, buffers are dropped.
    pub fn abort(&self) {
        either!(self, stream => stream.abort());
    }

    /// Why it ended before its time, if it did.
    pub fn error(&self) -> Option<SocketError> {
        either!(self, stream => stream.error())
    }

    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        either!(self, stream => stream.peer_addr())
    }

    /// See [`TcpStream::set_buffers`].
    pub fn set_buffers(&self, send: usize, receive: usize) {
        either!(self, stream => stream.set_buffers(send, receive));
    }

    /// Sets the waker for any change.
    pub fn set_waker(&self, waker: Option<Waker>) {
        either!(self, stream => stream.set_waker(waker));
    }

    /// Relays between this connection and `other`: see [`relay`](super::relay()).
    ///
    /// # Errors
    /// See [`SpliceError`]; both connections are closed.
    pub fn relay(
        self,
        other: Self,
        idle: Option<Duration>,
    ) -> Result<StreamRelay<Self>, SpliceError> {
        relay(self, other, idle)
    }
}

impl<'a> From<&'a MaybeTlsStream> for SpliceEndpoint<'a> {
    fn from(stream: &'a MaybeTlsStream) -> Self {
        either!(stream, stream => stream.into())
    }
}
