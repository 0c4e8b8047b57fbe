//! TCP connections as tokio's streams.
//!
//! An operation that makes progress costs the task one of its budget, as one on tokio's own sockets does. A read
//! appends the received segments to the caller's buffer, which is not zeroed before. A vectored write takes as many
//! bytes as there is room for.
//!
//! Source: tokio's `TcpStream`, whose behaviour programs rely on.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

use super::{TcpReadHalf, TcpStream, TcpWriteHalf};

fn read(stream: &TcpStream, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    if buf.remaining() == 0 {
        return Poll::Ready(Ok(()));
    }
    let budget = ready!(poll_proceed(cx));
    let data = ready!(stream.poll_read_chain(cx, buf.remaining()));
    budget.made_progress();
    data?.segments().for_each(|segment| buf.put_slice(segment));
    Poll::Ready(Ok(()))
}

fn write(stream: &TcpStream, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    let budget = ready!(poll_proceed(cx));
    let sent = ready!(stream.poll_write(cx, bytes));
    budget.made_progress();
    Poll::Ready(Ok(sent?))
}

fn write_vectored(
    stream: &TcpStream,
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
        sent += stream.send(next).unwrap_or(0);
        len += next.len();
    }
    Poll::Ready(Ok(sent))
}

macro_rules! reads {
    ($Type:ident) => {
        impl AsyncRead for $Type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                read(self.get_mut().as_ref(), cx, buf)
            }
        }
    };
}

macro_rules! writes {
    ($Type:ident) => {
        impl AsyncWrite for $Type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                write(self.get_mut().as_ref(), cx, bytes)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                write_vectored(self.get_mut().as_ref(), cx, slices)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            /// The stack sends the content of the send buffer by itself.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            /// Ends the direction: a FIN follows the content of the send buffer. Further calls have no effect.
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let me = self.get_mut();
                AsRef::<TcpStream>::as_ref(me).shutdown(Shutdown::Write);
                Poll::Ready(Ok(()))
            }
        }
    };
}

reads!(TcpStream);
reads!(TcpReadHalf);
writes!(TcpStream);
writes!(TcpWriteHalf);
