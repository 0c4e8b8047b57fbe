//! Connections as tokio's streams: TCP and TLS. Streams of UNIX sockets use the same macros.
//!
//! An operation that makes progress takes one unit of the task's budget, as one on tokio's own sockets does. A read
//! appends the received segments to the caller's buffer, which is not zeroed before. A vectored write takes as many
//! bytes as there is room for.
//!
//! Source: tokio's `TcpStream`, whose behaviour programs rely on.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use mbuf::Chain;
use tokio::io::ReadBuf;
use tokio::task::coop::poll_proceed;

use super::{TcpReadHalf, TcpStream, TcpWriteHalf, TlsStream};

/// The calls of a stream that tokio's traits are made from.
pub(crate) trait PolledStream {
    /// A caller should offer its pieces at once. Not so for TLS, where each piece would be a record.
    const VECTORED: bool;
    fn poll_chain(&self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Chain>>;
    fn poll_bytes(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
    /// The number of bytes taken without waiting.
    fn try_bytes(&self, bytes: &[u8]) -> usize;
    fn end(&self);
}

macro_rules! polled_stream {
    ($Stream:ident, $vectored:literal) => {
        impl $crate::socket::tokio_io::PolledStream for $Stream {
            const VECTORED: bool = $vectored;

            fn poll_chain(
                &self,
                cx: &mut std::task::Context<'_>,
                max: usize,
            ) -> std::task::Poll<std::io::Result<mbuf::Chain>> {
                self.poll_read_chain(cx, max).map_err(std::io::Error::from)
            }

            fn poll_bytes(
                &self,
                cx: &mut std::task::Context<'_>,
                bytes: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.poll_write(cx, bytes).map_err(std::io::Error::from)
            }

            fn try_bytes(&self, bytes: &[u8]) -> usize {
                self.send(bytes).unwrap_or(0)
            }

            fn end(&self) {
                self.shutdown(std::net::Shutdown::Write);
            }
        }
    };
}

pub(crate) use polled_stream;

polled_stream!(TcpStream, true);
polled_stream!(TlsStream, false);

pub(crate) fn read(
    stream: &impl PolledStream,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    if buf.remaining() == 0 {
        return Poll::Ready(Ok(()));
    }
    let budget = ready!(poll_proceed(cx));
    let data = ready!(stream.poll_chain(cx, buf.remaining()));
    budget.made_progress();
    data?.segments().for_each(|segment| buf.put_slice(segment));
    Poll::Ready(Ok(()))
}

pub(crate) fn write(
    stream: &impl PolledStream,
    cx: &mut Context<'_>,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    let budget = ready!(poll_proceed(cx));
    let sent = ready!(stream.poll_bytes(cx, bytes));
    budget.made_progress();
    Poll::Ready(sent)
}

pub(crate) fn write_vectored(
    stream: &impl PolledStream,
    cx: &mut Context<'_>,
    slices: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let mut slices = slices.iter().filter(|slice| !slice.is_empty());
    let Some(first) = slices.next() else {
        return Poll::Ready(Ok(0));
    };
    let mut sent = ready!(write(stream, cx, first))?;
    let mut len = first.len();
    // The caller offers data that does not fit again, and then waits.
    while sent == len
        && let Some(next) = slices.next()
    {
        sent += stream.try_bytes(next);
        len += next.len();
    }
    Poll::Ready(Ok(sent))
}

macro_rules! reads {
    ($Type:ident, $Stream:ident) => {
        impl tokio::io::AsyncRead for $Type {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buf: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                $crate::socket::tokio_io::read(AsRef::<$Stream>::as_ref(self.get_mut()), cx, buf)
            }
        }
    };
}

pub(crate) use reads;

macro_rules! writes {
    ($Type:ident, $Stream:ident) => {
        impl tokio::io::AsyncWrite for $Type {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bytes: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                $crate::socket::tokio_io::write(AsRef::<$Stream>::as_ref(self.get_mut()), cx, bytes)
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                slices: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                $crate::socket::tokio_io::write_vectored(
                    AsRef::<$Stream>::as_ref(self.get_mut()),
                    cx,
                    slices,
                )
            }

            fn is_write_vectored(&self) -> bool {
                <$Stream as $crate::socket::tokio_io::PolledStream>::VECTORED
            }

            /// The stack sends the content of the send buffer by itself.
            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(()))
            }

            /// Ends the direction after the content of the send buffer: by a FIN, with TLS by close_notify and a FIN.
            /// Further calls have no effect.
            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                let stream = AsRef::<$Stream>::as_ref(self.get_mut());
                $crate::socket::tokio_io::PolledStream::end(stream);
                std::task::Poll::Ready(Ok(()))
            }
        }
    };
}

pub(crate) use writes;

reads!(TcpStream, TcpStream);
reads!(TcpReadHalf, TcpStream);
reads!(TlsStream, TlsStream);
writes!(TcpStream, TcpStream);
writes!(TcpWriteHalf, TcpStream);
writes!(TlsStream, TlsStream);
