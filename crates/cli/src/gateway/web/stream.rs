//! The stream of an HTTP connection: plain, or TLS.
//!
//! | error | the connection |
//! |---|---|
//! | [`TlsError::Socket`] | is over, or ends with a reset |
//! | the peer breaks TLS, or sends an alert | ends by the stack's alert, then the FIN |
//!
//! A client's end without close_notify is a normal end, because a request has its length.
//!
//! Locks: none.

use std::net::{IpAddr, Shutdown};

use mbuf::Chain;
use mbuma::TcpStream;
use mbuma::socket::{SendFile, SendFileError, TlsStream};
use mbuma::tls::TlsError;

/// A stream.
pub(super) enum WebStream {
    Plain(TcpStream),
    Tls(TlsStream),
}

impl WebStream {
    /// Takes up to `max` received bytes; none at the end.
    pub(super) fn recv_chain(&self, max: usize) -> Result<Chain, TlsError> {
        match self {
            WebStream::Plain(tcp) => Ok(tcp.recv_chain(max)?),
            WebStream::Tls(tls) => match tls.recv_chain(max) {
                Err(TlsError::Truncated) => Ok(Chain::new()),
                other => other,
            },
        }
    }

    /// Bytes that the send buffer has room for.
    pub(super) fn send_space(&self) -> usize {
        match self {
            WebStream::Plain(tcp) => tcp.send_space(),
            WebStream::Tls(tls) => tls.send_space(),
        }
    }

    /// Moves `data` into the send buffer. After an error the bytes that were not taken are left in `data`: TLS may take
    /// a part before buffers run out.
    pub(super) fn send_chain(&self, data: &mut Chain) -> Result<(), TlsError> {
        let all = std::mem::take(data);
        let sent = match self {
            WebStream::Plain(tcp) => tcp.send_chain(all).map_err(|(e, left)| (e.into(), left)),
            WebStream::Tls(tls) => tls.send_chain(all),
        };
        sent.map_err(|(e, left)| {
            *data = left;
            e
        })
    }

    /// Moves as much of a file into the send buffer as it takes.
    pub(super) fn send_file(&self, job: &mut SendFile) -> Result<u64, SendFileError> {
        match self {
            WebStream::Plain(tcp) => tcp.send_file(job),
            WebStream::Tls(tls) => tls.send_file(job),
        }
    }

    /// Ends our bytes.
    pub(super) fn end(&self) {
        match self {
            WebStream::Plain(tcp) => tcp.shutdown(Shutdown::Write),
            WebStream::Tls(tls) => tls.shutdown(Shutdown::Write),
        }
    }

    /// Ends both directions with a reset.
    pub(super) fn abort(&self) {
        match self {
            WebStream::Plain(tcp) => tcp.abort(),
            WebStream::Tls(tls) => tls.abort(),
        }
    }

    /// Why nothing more can be sent, if that is so.
    pub(super) fn error(&self) -> Option<TlsError> {
        let error = match self {
            WebStream::Plain(tcp) => tcp.error(),
            WebStream::Tls(tls) => tls.error(),
        };
        error.map(TlsError::Socket)
    }

    /// Bytes that the client has not acknowledged.
    pub(super) fn send_queue(&self) -> usize {
        match self {
            WebStream::Plain(tcp) => tcp.send_room().buffered,
            WebStream::Tls(tls) => tls.send_room().buffered,
        }
    }

    /// The client.
    pub(super) fn client(&self) -> IpAddr {
        match self {
            WebStream::Plain(tcp) => tcp.peer_addr().ip(),
            WebStream::Tls(tls) => tls.peer_addr().ip(),
        }
    }

    /// Gives its buffers their sizes.
    pub(super) fn set_buffers(&self, send: usize, receive: usize) {
        match self {
            WebStream::Plain(tcp) => tcp.set_buffers(send, receive),
            WebStream::Tls(tls) => tls.set_buffers(send, receive),
        }
    }

    /// Sets the waker for any change.
    pub(super) fn set_waker(&self, waker: std::task::Waker) {
        match self {
            WebStream::Plain(tcp) => tcp.set_waker(Some(waker)),
            WebStream::Tls(tls) => tls.set_waker(Some(waker)),
        }
    }
}
