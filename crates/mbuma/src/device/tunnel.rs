//! A device without Ethernet whose packets a program provides and takes: the inner end of a VPN, a proxy or a channel.
//!
//! ```text
//!   stack --transmit--> [TunnelDevice] ==queue==> TunnelEnd::take ---> the program's tunnel
//!   stack <--receive--- [TunnelDevice] <==queue== TunnelEnd::give <--- the program's tunnel
//! ```
//!
//! A packet is whole IP: the stack cuts segments to the MTU and finishes checksums before a program takes it. A packet
//! that a program gives may be larger than the MTU. A descriptor becomes readable when packets were given, so that a
//! [`Runtime`](crate::Runtime) takes them in; a program that drives the stack itself polls the interface, as here.
//! ```
//! use std::sync::Arc;
//! use mbuma::device::{Budget, tunnel};
//! use mbuma::{Config, IfConfig, Stack};
//!
//! let stack = Stack::new(Config::from_system())?;
//! let (device, end) = tunnel::pair(stack.pool(), 1420)?;
//! let index = stack.attach(Arc::new(device), IfConfig::new("tun0").with_addr([192, 0, 2, 1], 24))?;
//! let socket = stack.udp_bind("192.0.2.1:5000")?;
//! socket.send_to(b"hello", "192.0.2.2:9")?;
//! let mut packet = end.take()?.expect("the stack sent one").to_vec();
//!
//! // The other side of this tunnel sends each packet back: it exchanges the addresses and the ports.
//! packet[12..20].rotate_left(4);
//! packet[20..24].rotate_left(2);
//! end.give(&packet)?;
//! stack.poll_interface(index, Budget { frames: 64, bytes: 1 << 20 })?;
//! let (len, from) = socket.recv_from_blocking(&mut [0; 1500], None)?;
//! assert_eq!((len, from.to_string().as_str()), (5, "192.0.2.2:9"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: each direction holds at most 4096 packets; more are refused. Locks: the queues' (IFQUEUE), none held
//! over a waker or a system call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kern::sys::EventFd;
use mbuf::{MbufPool, Mbufq, Packet};

use super::memory::Pipe;
use super::{Budget, Capabilities, Device, Medium};
use crate::park::{Wait, retry};

#[cfg(all(test, not(shuttle)))]
mod tests;

/// The stack's end: attach it.
#[derive(Debug)]
pub struct TunnelDevice {
    pipe: Pipe,
    given: Arc<EventFd>,
}

/// The program's end. Dropping it ends the device.
#[derive(Debug)]
pub struct TunnelEnd {
    // Dropped before the signal, so that the thread that it wakes finds the end.
    pipe: Pipe,
    given: GivenSignal,
    pool: MbufPool,
}

/// Makes the stack's descriptor readable: when packets were given, and at the end.
#[derive(Debug)]
struct GivenSignal(Arc<EventFd>);

impl Drop for GivenSignal {
    fn drop(&mut self) {
        self.0.signal();
    }
}

/// Makes a tunnel's two ends, for IP packets of up to `mtu` bytes. `pool` is [that of the stack](crate::Stack::pool).
///
/// # Errors
/// The system has no descriptor left.
pub fn pair(pool: &MbufPool, mtu: u16) -> io::Result<(TunnelDevice, TunnelEnd)> {
    let given = Arc::new(EventFd::new()?);
    let (inner, outer) = Pipe::pair(Capabilities::plain(mtu));
    let end = TunnelEnd {
        pipe: outer,
        given: GivenSignal(Arc::clone(&given)),
        pool: pool.clone(),
    };
    Ok((TunnelDevice { pipe: inner, given }, end))
}

/// Readable when packets were given, and when the program's end is gone.
impl AsFd for TunnelDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.given.as_fd()
    }
}

impl TunnelEnd {
    /// Gives the stack a copy of a packet. Returns false if it is dropped, as on a wire, because there is no buffer or
    /// no room.
    ///
    /// # Errors
    /// The stack has detached the device.
    pub fn give(&self, packet: &[u8]) -> io::Result<bool> {
        match Packet::from_slice(&self.pool, packet, 0) {
            Ok(packet) => self.give_packet(packet),
            Err(_) => Ok(false),
        }
    }

    /// Gives the stack a packet in buffers of the stack's pool, without a copy. Otherwise as [`give`](Self::give).
    ///
    /// # Errors
    /// As of `give`.
    pub fn give_packet(&self, packet: Packet) -> io::Result<bool> {
        let mut one = Mbufq::new();
        one.enqueue(packet);
        self.pipe.transmit(&mut one)?;
        self.given.0.signal();
        Ok(one.is_empty())
    }

    /// The oldest packet that the stack sends, if there is one.
    ///
    /// # Errors
    /// The stack has detached the device, and all sent packets were taken.
    pub fn take(&self) -> io::Result<Option<Packet>> {
        let mut one = Mbufq::new();
        let budget = Budget {
            frames: 1,
            bytes: usize::MAX,
        };
        self.pipe.receive(&mut one, budget)?;
        Ok(one.dequeue())
    }

    /// The oldest packet, waiting for one.
    ///
    /// # Errors
    /// As [`TunnelEnd::take`]; `TimedOut` when the time is over.
    pub fn take_blocking(&self, timeout: Option<Duration>) -> io::Result<Packet> {
        let taken = retry(Wait::Yes(timeout), |waiter| match self.take().transpose() {
            Some(taken) => Poll::Ready(taken),
            None => {
                // It is called at once if a packet has come since.
                waiter
                    .into_iter()
                    .for_each(|waker| self.set_waker(waker.clone()));
                Poll::Pending
            }
        });
        taken.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The oldest packet, for one task: the waker that was set last is called.
    ///
    /// # Errors
    /// As [`TunnelEnd::take`].
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<io::Result<Packet>> {
        if let Some(packet) = self.take()? {
            return Poll::Ready(Ok(packet));
        }
        // It is called at once if a packet has come since.
        self.pipe.set_waker(cx.waker().clone());
        Poll::Pending
    }

    /// Sets the waker for packets that the stack sends, and for the device's end; it is called at once if there is one.
    pub fn set_waker(&self, waker: Waker) {
        self.pipe.set_waker(waker);
    }
}

impl Device for TunnelDevice {
    fn capabilities(&self) -> Capabilities {
        self.pipe.capabilities()
    }

    fn medium(&self) -> Medium {
        Medium::Ip
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        // Before the look: a packet that is given behind it signals again.
        self.given.clear();
        let more = self.pipe.receive(rx, budget)?;
        if more {
            self.given.signal();
        }
        Ok(more)
    }

    fn detached(&self) -> usize {
        self.pipe.detached()
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        self.pipe.transmit(tx)
    }
}
