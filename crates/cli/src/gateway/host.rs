//! The host's end of a TCP connection: a non-blocking socket, read into mbufs and written from them.
//!
//! Invariants: the descriptor is watched from when it is connected, or connecting, until it is dropped, which closes
//! it, but for its way from one worker to another; readiness is remembered between edges.
//! Locks: none.
//! Sources: epoll(7), "edge-triggered", questions 9 and 10.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use mbuf::{Chain, Scatter};
use mbuma::runtime::{Interest, Poller, Readiness};

use super::table::Token;
use crate::sys::socket::{self, Kind, LocalEnd};

/// Bytes of the largest segment of a device without BIG TCP.
pub(super) const SEGMENT_MAX: usize = 64 << 10;
/// Bytes that one read takes at most: two of these segments, which go to the guest in one packet (BIG TCP). Downloads
/// move 1.1 to 1.4 times as many bytes as with reads of half the size, because each read, packet and acknowledgement
/// has its costs. With reads of twice the size, 8 downloads move 1.1 times as many and 64 move fewer, and a small
/// request beside a stream waits longer.
pub(super) const READ_MAX: usize = 2 * SEGMENT_MAX;
/// Pieces that one write gathers at most: 64 KiB segments have five or six, so this is more than a
/// send buffer takes.
const PIECES_MAX: usize = 64;
/// The same of most chains. Clearing the long list takes longer than gathering a small message.
const PIECES_FEW: usize = 8;

/// Bytes of the receive window with which a host socket begins: four of the largest segments. Measured beside the
/// kernel's 64 KiB with 512 downloads: 1.1 to 1.3 times the throughput, and each gets the same (Jain's index 0.999, not
/// 0.98).
const WINDOW: i32 = 256 << 10;

/// A host socket.
pub(super) struct Host {
    socket: TcpStream,
    /// There may be something to read since the last time that there was nothing.
    readable: bool,
    /// There may be room since the last time that there was none.
    writable: bool,
    /// The peer's end is behind the data that can be read: no edge will tell of it again.
    at_end: bool,
    /// The peer has sent urgent data: a read stops before it, and may so return less than there is.
    urgent: bool,
    /// An event reported an error, which may be behind the data in the place of the end.
    failed: bool,
}

/// How far an attempt to connect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is connected.
    Connected,
    /// The peer has not answered.
    Waiting,
}

/// The result of a read or write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Moved<T> {
    /// This much, and more may be possible at once.
    Some(T),
    /// This much, and no more until the next edge.
    Last(T),
    /// This much, and behind it the peer's end, if the events were all this socket's. The next call says so again.
    Final(T),
    /// Nothing until the next edge.
    Nothing,
    /// The peer's end of file.
    End,
}

impl Host {
    /// Begins to connect to `peer` from `local`.
    ///
    /// A peer on this very host has answered by the time that connect(2) returns, and a second call
    /// says so: no event is needed.
    pub(super) fn connect(peer: SocketAddr, local: LocalEnd) -> io::Result<(Host, Progress)> {
        let fd = socket::open_from(Kind::Tcp, peer, local)?;
        socket::no_delay(fd.as_fd())?;
        socket::keep_alive(fd.as_fd())?;
        socket::receive_window(fd.as_fd(), WINDOW)?;
        let mut host = Host::new(TcpStream::from(fd));
        let progress = match host.progress(peer)? {
            Progress::Waiting => host.progress(peer)?,
            connected => connected,
        };
        Ok((host, progress))
    }

    /// Takes over an accepted connection.
    pub(super) fn accepted(socket: TcpStream) -> io::Result<Host> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        socket::receive_window(socket.as_fd(), WINDOW)?;
        Ok(Host::new(socket))
    }

    fn new(socket: TcpStream) -> Host {
        Host {
            socket,
            readable: false,
            writable: false,
            at_end: false,
            urgent: false,
            failed: false,
        }
    }

    /// How far the attempt is, or why it failed.
    pub(super) fn progress(&mut self, peer: SocketAddr) -> io::Result<Progress> {
        // The kernel tells connect(2) nothing of an ICMP error that came during the first call.
        if std::mem::take(&mut self.failed)
            && let Some(error) = self.take_error()
        {
            return Err(error);
        }
        let connected = socket::connect(self.socket.as_fd(), peer)?;
        // A fresh connection takes the first write. The poller tells of data to read.
        self.writable |= connected;
        Ok(if connected {
            Progress::Connected
        } else {
            Progress::Waiting
        })
    }

    /// Watches it from now on; earlier readiness is reported too.
    pub(super) fn watch(&self, poller: &Poller, token: Token) -> io::Result<()> {
        poller.add(&self.socket, token, Interest::StreamEdge)
    }

    /// Watches it no more: another poller will.
    pub(super) fn unwatch(&self, poller: &Poller) -> io::Result<()> {
        poller.remove(&self.socket)
    }

    /// Remembers the readiness of an event.
    pub(super) fn note(&mut self, readiness: Readiness) {
        self.readable |= readiness.readable();
        self.writable |= readiness.writable();
        self.at_end |= readiness.at_end();
        if readiness.urgent() && !self.urgent {
            self.urgent = true;
            // Otherwise the kernel takes the urgent byte out of the stream.
            let _ = socket::urgent_inline(self.socket.as_fd());
        }
        self.failed |= readiness.failed();
    }

    /// Whether a read may give something.
    pub(super) fn may_read(&self) -> bool {
        self.readable
    }

    /// Whether a write may do something.
    pub(super) fn may_write(&self) -> bool {
        self.writable
    }

    /// Writes from `chain`, gathering pieces until they are `enough` bytes, and says how many went.
    pub(super) fn write(&mut self, chain: &Chain, enough: usize) -> io::Result<Moved<usize>> {
        match chain.segments().nth(PIECES_FEW) {
            None => self.write_pieces::<PIECES_FEW>(chain, enough),
            Some(_) => self.write_pieces::<PIECES_MAX>(chain, enough),
        }
    }

    /// Writes `N` pieces at most.
    fn write_pieces<const N: usize>(
        &mut self,
        chain: &Chain,
        enough: usize,
    ) -> io::Result<Moved<usize>> {
        let mut pieces = [IoSlice::new(&[]); N];
        let (mut count, mut offered) = (0, 0);
        for (slot, piece) in pieces.iter_mut().zip(chain.segments()) {
            *slot = IoSlice::new(piece);
            count += 1;
            offered += piece.len();
            if offered >= enough {
                break;
            }
        }
        let (pieces, _) = pieces.split_at(count);
        match retry(|| socket::send(self.socket.as_fd(), pieces, None)) {
            Ok(n) if n < offered => {
                self.writable = false;
                Ok(Moved::Last(n))
            }
            Ok(n) => Ok(Moved::Some(n)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(Moved::Nothing)
            }
            Err(e) => Err(e),
        }
    }

    /// Reads up to `max` bytes into the row of clusters.
    ///
    /// A read that does not fill its buffer has emptied the socket, so that the next edge will tell of more; but for
    /// the end, which may have come with the last one. Urgent data ends a read before that.
    pub(super) fn read(&mut self, row: &mut Scatter, max: usize) -> io::Result<Moved<Chain>> {
        let mut offered = 0;
        let read = row.read(&mut [], max, |pieces| {
            offered = pieces.iter().map(|piece| piece.len()).sum();
            retry(|| socket::recv(self.socket.as_fd(), pieces))
        });
        match read {
            Ok(0) => Ok(Moved::End),
            Ok(n) if n == offered || self.urgent => Ok(Moved::Some(row.take(n))),
            Ok(n) if !self.at_end => {
                self.readable = false;
                Ok(Moved::Last(row.take(n)))
            }
            Ok(n) if !self.failed => Ok(Moved::Final(row.take(n))),
            Ok(n) => Ok(Moved::Some(row.take(n))),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(Moved::Nothing)
            }
            Err(e) => Err(e),
        }
    }

    /// No more data will come for the peer, which must take what waits for it within this time.
    pub(super) fn give_up_after(&self, time: Duration) {
        // If it can't be set, the data wait as long as the peer has them wait.
        let _ = socket::give_up_after(self.socket.as_fd(), time);
    }

    /// Tells the peer that no more will come.
    pub(super) fn shutdown_write(&self) {
        // Fails only if the connection is over, which the next read finds out.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// The error that the connection ended with, if it did.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.socket.take_error().unwrap_or_else(Some)
    }

    /// The port that the socket has on the host; 0 if it is not known.
    pub(super) fn local_port(&self) -> u16 {
        self.socket.local_addr().map_or(0, |at| at.port())
    }

    /// Ends the connection with a reset.
    pub(super) fn reset(self) {
        // Without the option it ends with a FIN, which also ends it.
        let _ = socket::reset_on_close(self.socket.as_fd());
    }
}

/// Repeats a call that a signal interrupted.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::sockopt::socket_keepalive;

    use super::*;
    use crate::ports;

    #[test]
    fn a_peer_that_vanished_is_noticed() {
        // Breaks when a host or a client that no longer answers keeps a connection for ever: the gateway's stack
        // answers the keepalives of the guest's program.
        let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let at = server.local_addr().expect("bound");
        let (host, _) = Host::connect(at, LocalEnd::default()).expect("it listens");
        assert_eq!(socket_keepalive(&host.socket), Ok(true));
        let published = TcpListener::from(
            ports::bind_tcp("127.0.0.1:0".parse().expect("an address"), None).expect("a free port"),
        );
        let at = published.local_addr().expect("bound");
        let _client = TcpStream::connect(at).expect("it listens");
        let (accepted, _) = published.accept().expect("a client");
        let host = Host::accepted(accepted).expect("a socket");
        assert_eq!(socket_keepalive(&host.socket), Ok(true));
    }
}
