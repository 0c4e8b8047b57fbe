//! Connections in the shape of std's: `Read` and `Write`, an iterator of incoming connections, owned halves.
//!
//! Each call blocks the calling thread without a time limit, so another thread must drive the stack
//! ([`Runtime`](crate::runtime::Runtime)).

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use super::{TcpListener, TcpStream, TlsStream};
use crate::error::SocketError;

/// `Read` and `Write` of a connection, and of a reference to one.
macro_rules! std_stream {
    ($Stream:ident) => {
        impl std::io::Read for &$Stream {
            /// Waits for data and copies it to `buf`; 0 is the peer's end of its stream.
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                if buf.is_empty() {
                    return Ok(0);
                }
                Ok(self.recv_blocking(buf, None)?)
            }
        }

        impl std::io::Write for &$Stream {
            /// Waits for room and copies all of `buf` into the send buffer. It takes fewer bytes only if the connection
            /// ends meanwhile.
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                Ok(self.send_blocking(buf, None)?)
            }

            /// Does nothing: the stack sends the content of the send buffer by itself.
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl AsRef<Self> for $Stream {
            fn as_ref(&self) -> &Self {
                self
            }
        }

        impl std::io::Read for $Stream {
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                std::io::Read::read(&mut &*self, buf)
            }
        }

        impl std::io::Write for $Stream {
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                std::io::Write::write(&mut &*self, buf)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}

pub(crate) use std_stream;

std_stream!(TcpStream);
std_stream!(TlsStream);

/// The reading half of a connection. Dropping it changes nothing for the peer.
#[derive(Debug)]
pub struct TcpReadHalf(Arc<TcpStream>);

/// The writing half of a connection. Dropping it ends this direction: the stack sends a FIN after the content of the
/// send buffer.
#[derive(Debug)]
pub struct TcpWriteHalf(Arc<TcpStream>);

impl TcpStream {
    /// Splits the connection into halves that two threads may own. It is closed once both are dropped.
    #[doc(alias = "try_clone")]
    #[doc(alias = "into_split")]
    pub fn split(self) -> (TcpReadHalf, TcpWriteHalf) {
        let stream = Arc::new(self);
        (TcpReadHalf(Arc::clone(&stream)), TcpWriteHalf(stream))
    }
}

impl AsRef<TcpStream> for TcpReadHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl AsRef<TcpStream> for TcpWriteHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl Read for TcpReadHalf {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buf)
    }
}

impl Write for TcpWriteHalf {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        (&*self.0).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TcpWriteHalf {
    fn drop(&mut self) {
        self.0.shutdown(Shutdown::Write);
    }
}

/// Waits for one connection after the other. It ends after an error that is permanent: the runtime or the listener's
/// interface is gone.
#[derive(Debug)]
pub struct AcceptIter<'a>(Option<&'a TcpListener>);

impl TcpListener {
    /// An iterator of established connections, which waits for each.
    #[doc(alias = "accept")]
    pub fn incoming(&self) -> AcceptIter<'_> {
        AcceptIter(Some(self))
    }
}

impl Iterator for AcceptIter<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        let accepted = self.0?.accept_blocking(None);
        let (undriven, cut_off) = (SocketError::NotDriven, SocketError::AddrNotAvailable);
        if accepted
            .as_ref()
            .is_err_and(|e| [undriven, cut_off].contains(e))
        {
            self.0 = None;
        }
        Some(accepted.map_err(io::Error::from))
    }
}
