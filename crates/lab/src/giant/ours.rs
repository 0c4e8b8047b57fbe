//! Sockets of a stack, as the programs use them.
//!
//! Locks: the stack's.

use super::load::{PATIENCE, Pair, Talk};
use mbuf::Chain;
use mbuma::{SocketError, Stack, TcpStream, UdpSocket, UnixStream};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};

/// The stack's own address, which all packets of the programs go to.
pub(crate) const ADDR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

macro_rules! stream_talks {
    ($($stream:ty)*) => {$(
        impl Talk for $stream {
            fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
                let sent = self.send_blocking(bytes, Some(PATIENCE))?;
                all_of(bytes, sent)
            }

            fn recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                Ok(self.recv_blocking(buf, Some(PATIENCE))?)
            }

            fn finish(&mut self) -> io::Result<()> {
                self.shutdown(Shutdown::Write);
                Ok(())
            }
        }
    )*};
}

stream_talks!(UnixStream TcpStream);

/// A UDP socket that talks to one other.
struct Datagrams {
    stack: Stack,
    socket: UdpSocket,
    to: SocketAddr,
}

impl Talk for Datagrams {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let chain = Chain::from_slice(self.stack.pool(), bytes).map_err(io::Error::other)?;
        let sent = self.socket.send_to(chain, self.to);
        sent.map_err(io::Error::other)
    }

    fn recv(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let datagram = self.socket.recv_blocking(Some(PATIENCE));
        let payload = datagram?.payload;
        let len = payload.len().min(buf.len());
        payload.copy_to(0, &mut buf[..len]);
        Ok(len)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn all_of(bytes: &[u8], sent: usize) -> io::Result<()> {
    match sent == bytes.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Two UNIX-domain sockets, connected.
pub(crate) fn unix(stack: &Stack) -> Pair {
    let (a, b) = stack.unix().pair();
    (Box::new(a), Box::new(b))
}

/// A TCP connection over loopback.
pub(crate) fn tcp(stack: &Stack) -> Result<Pair, SocketError> {
    let listener = stack.tcp_listen(SocketAddrV4::new(ADDR, 80), 1)?;
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let a = stack.tcp_connect(any, listener.local_addr())?;
    a.connected_blocking(Some(PATIENCE))?;
    let b = listener.accept_blocking(Some(PATIENCE))?;
    for end in [&a, &b] {
        end.set_nodelay(true);
    }
    Ok((Box::new(a), Box::new(b)))
}

/// Two UDP sockets.
pub(crate) fn udp(stack: &Stack) -> io::Result<Pair> {
    let bound = |port| stack.udp_bind(SocketAddrV4::new(ADDR, port));
    let socket = || bound(0).map_err(io::Error::other);
    let (a, b) = (socket()?, socket()?);
    let (at_a, at_b) = (a.local_addr(), b.local_addr());
    let end = |socket, to| -> Box<dyn Talk> {
        let stack = stack.clone();
        Box::new(Datagrams { stack, socket, to })
    };
    Ok((end(a, at_b), end(b, at_a)))
}
