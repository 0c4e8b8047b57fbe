//! The system's own sockets, beside ours.
//!
//! Locks: the system's.

use super::load::{PATIENCE, Pair, Talk};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;

macro_rules! stream_talks {
    ($($stream:ty)*) => {$(
        impl Talk for $stream {
            fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
                self.write_all(bytes)
            }

            fn recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.read(buf)
            }

            fn finish(&mut self) -> io::Result<()> {
                self.shutdown(Shutdown::Write)
            }
        }
    )*};
}

stream_talks!(UnixStream TcpStream);

impl Talk for UdpSocket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        UdpSocket::send(self, bytes).map(drop)
    }

    fn recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        UdpSocket::recv(self, buf)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Two UNIX-domain sockets, connected.
pub(crate) fn unix() -> io::Result<Pair> {
    let (a, b) = UnixStream::pair()?;
    for end in [&a, &b] {
        end.set_read_timeout(Some(PATIENCE))?;
        end.set_write_timeout(Some(PATIENCE))?;
    }
    Ok((Box::new(a), Box::new(b)))
}

/// A TCP connection over loopback.
pub(crate) fn tcp() -> io::Result<Pair> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let a = TcpStream::connect(listener.local_addr()?)?;
    let (b, _) = listener.accept()?;
    for end in [&a, &b] {
        end.set_nodelay(true)?;
        end.set_read_timeout(Some(PATIENCE))?;
        end.set_write_timeout(Some(PATIENCE))?;
    }
    Ok((Box::new(a), Box::new(b)))
}

/// Two UDP sockets on loopback, connected.
pub(crate) fn udp() -> io::Result<Pair> {
    let bound = || UdpSocket::bind("127.0.0.1:0");
    let (a, b) = (bound()?, bound()?);
    a.connect(b.local_addr()?)?;
    b.connect(a.local_addr()?)?;
    for end in [&a, &b] {
        end.set_read_timeout(Some(PATIENCE))?;
    }
    Ok((Box::new(a), Box::new(b)))
}
