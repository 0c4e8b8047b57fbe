//! The datagrams that wait at a UDP socket: a look at the oldest one, and how many may wait.
//!
//! Locks: the receive side, for each call (UDP). Source: POSIX's `recv` and `setsockopt`.

use std::net::SocketAddr;

use super::{Bound, RecvError, UdpSocket};

/// A larger size would bound nothing: a connection's buffers have the same limit.
const SIZE_MAX: usize = 1 << 30;

impl UdpSocket {
    /// As [`UdpSocket::recv_from`], but the datagram stays the oldest one.
    ///
    /// # Errors
    /// As there: an error that is returned is removed.
    #[doc(alias = "MSG_PEEK")]
    pub fn peek_from(&self, buf: &mut [u8]) -> Result<(usize, SocketAddr), RecvError> {
        let Bound { stack, pcb, .. } = &*self.0;
        let oldest = pcb
            .queue
            .peek(stack.0.giant(), |record| record.copy_to(buf));
        oldest.ok_or_else(|| self.oldest_error(None))
    }

    /// Sets the size of the receive buffer in bytes, at most a GiB (the least takes a datagram); it replaces the
    /// stack's bounds, which are 2 MiB and [`udp_queue_max`](crate::Config::udp_queue_max) datagrams. A datagram counts
    /// with its payload, or a quarter of the memory that this keeps if that is more, and 256 bytes. Once the size is
    /// reached, new datagrams are dropped and counted ([`UdpQueueFull`](crate::DropReason::UdpQueueFull)); those that
    /// wait stay.
    ///
    /// There is no send buffer: a datagram goes to its interface's queue at once.
    ///
    /// ```
    /// use mbuma::{Config, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let socket = stack.udp_bind("127.0.0.1:5004")?;
    /// socket.set_recv_buffer_size(4096);
    /// for _ in 0..10 {
    ///     socket.send_to(&[7; 1024], "127.0.0.1:5004")?;
    /// }
    /// stack.poll();
    /// let mut first = [0; 4];
    /// assert_eq!(socket.peek_from(&mut first)?.0, 4);
    /// assert_eq!(std::iter::from_fn(|| socket.recv().ok()).count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "SO_RCVBUF")]
    pub fn set_recv_buffer_size(&self, bytes: usize) {
        let Bound { stack, pcb, .. } = &*self.0;
        pcb.queue
            .set_hiwat(stack.0.giant(), bytes.clamp(1, SIZE_MAX));
    }

    /// From now on the senders share the receive buffer: the datagrams of one address take at most as much of it as is
    /// left, so that one sender that floods leaves half of it to others, and two a third. A sender that may use any
    /// number of addresses has as many shares. The number of datagrams has no bound of its own any more.
    ///
    /// ```
    /// use mbuma::{Config, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let (one, other) = (stack.udp_bind("127.0.0.1:0")?, stack.udp_bind("127.0.0.2:0")?);
    /// let server = stack.udp_bind("127.0.0.1:5004")?;
    /// server.set_recv_buffer_size(8192);
    /// server.share_recv_buffer();
    /// for _ in 0..20 {
    ///     one.send_to(&[1; 1024], "127.0.0.1:5004")?;
    /// }
    /// other.send_to(&[2; 1024], "127.0.0.1:5004")?;
    /// stack.poll();
    /// let senders = std::iter::from_fn(|| server.recv().ok()).map(|datagram| datagram.src);
    /// let (ones, others): (Vec<_>, Vec<_>) = senders.partition(|sender| *sender == one.local_addr());
    /// assert_eq!((ones.len(), others.len()), (3, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn share_recv_buffer(&self) {
        let Bound { stack, pcb, .. } = &*self.0;
        pcb.queue.share_by_source(stack.0.giant());
    }

    /// The size of the receive buffer in bytes.
    #[doc(alias = "SO_RCVBUF")]
    pub fn recv_buffer_size(&self) -> usize {
        self.0.pcb.queue.hiwat(self.0.stack.0.giant())
    }
}
