//! A UDP socket of the host that sends, and receives, several datagrams of one length in a call: a train. The last one
//! may be shorter.
//!
//! Locks: none.
//! Sources: udp(7), UDP_SEGMENT (Linux 4.18) and UDP_GRO (Linux 5.0).

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::RecvFlags;

use super::socket::{ReceivedControl, recv_with_control, set};

/// The socket.
pub(crate) struct TrainSocket {
    fd: OwnedFd,
    /// Bytes of each datagram into which the kernel cuts what is sent; 0 if it does not.
    segment: Cell<u16>,
}

impl TrainSocket {
    /// One that sends trains.
    pub(crate) fn new(fd: OwnedFd) -> TrainSocket {
        let segment = Cell::new(0);
        TrainSocket { fd, segment }
    }

    /// Receives trains, too, if the kernel can.
    pub(crate) fn receive_trains(&self) {
        let _ = set(self.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &1_i32);
    }

    /// Prepares to send `len` bytes, datagrams of `each` bytes.
    ///
    /// # Errors
    /// The kernel can't cut them.
    pub(crate) fn cut(&self, len: usize, each: usize) -> io::Result<()> {
        let segment = match len > each {
            true => u16::try_from(each).map_err(|_| io::ErrorKind::InvalidInput)?,
            false => 0,
        };
        if self.segment.get() != segment {
            let value = i32::from(segment);
            set(self.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &value)?;
            self.segment.set(segment);
        }
        Ok(())
    }
}

impl AsFd for TrainSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Receives a datagram, or a train, into `pieces`: the bytes, the sender, and the bytes of each datagram.
pub(crate) fn recv_from(
    fd: BorrowedFd<'_>,
    pieces: &mut [IoSliceMut<'_>],
) -> io::Result<(usize, (SocketAddr, usize))> {
    let (n, sender, control) = recv_with_control(fd, pieces, RecvFlags::empty())?;
    Ok((n, (sender, segment_of(&control, n))))
}

/// Bytes of each datagram of `n` that came with these control messages.
pub(super) fn segment_of(control: &ReceivedControl, n: usize) -> usize {
    let segment = control.find(libc::SOL_UDP, libc::UDP_GRO);
    let segment = segment.and_then(|data| data.first_chunk().copied());
    let segment = segment.and_then(|bytes| usize::try_from(i32::from_ne_bytes(bytes)).ok());
    segment.filter(|each| *each > 0).unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::net::UdpSocket;

    use super::*;
    use crate::sys::pktinfo;
    use crate::sys::socket::send;

    #[test]
    fn trains_are_cut_and_received_whole() {
        // Breaks when a socket goes on to cut after a train, so that a longer datagram falls apart, or when the length
        // of a train's datagrams is not found beside the address that they were sent to.
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let at = receiver.local_addr().expect("bound");
        pktinfo::tell_local_address(receiver.as_fd(), at).expect("a UDP socket");
        let receiver = TrainSocket::new(receiver.into());
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let from = sender.local_addr().expect("bound");
        let sender = TrainSocket::new(sender.into());
        let data = [7; 2500];
        let mut bytes = [0; 9000];
        for (len, each, whole) in [(2500, 1000, false), (2500, 1000, true), (2400, 2400, true)] {
            if whole {
                receiver.receive_trains();
            }
            sender.cut(len, each).expect("Linux 4.18");
            let sent = send(sender.as_fd(), &[IoSlice::new(&data[..len])], Some(at));
            assert_eq!(sent.ok(), Some(len));
            let mut left = len;
            while left > 0 {
                let pieces = &mut [IoSliceMut::new(&mut bytes)];
                let got = pktinfo::recv_from(receiver.as_fd(), pieces).expect("it has come");
                let (n, (client, of_each)) = got;
                assert_eq!((client.addr, client.local), (from, Some(at.ip())));
                let want = if whole { len } else { left.min(each) };
                assert_eq!((n, of_each), (want, want.min(each)));
                left -= n;
            }
        }
    }
}
