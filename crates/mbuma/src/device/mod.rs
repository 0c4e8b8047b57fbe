//! Devices: sources and sinks of frames, in batches of packets.
//!
//! The thread that drives the stack ([`Stack::poll_interface`](crate::Stack::poll_interface)) receives, the interface
//! transmits. A device calls the system, or another stack.
//!
//! A frame begins with its Ethernet header, or, on a device without Ethernet ([`Medium::Ip`]), with its IP header. Its
//! packet header names the work left to do: a device that offers an offload in its [`Capabilities`] gets packets with
//! that work undone, and finishes it or passes it on; for other devices the stack does it in software first.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::Time;
use mbuf::Mbufq;
use wire::{EtherHeader, MacAddr};

use crate::drops::DropReason;

pub mod bridge;
pub mod capture;
pub mod epair;
mod frame_queue;
pub mod frame_stream;
pub mod impair;
mod jumbo_front;
pub mod memory;
pub(crate) mod offload;
mod peer_listener;
pub mod tap;
pub mod tunnel;
pub mod under_giant;
#[cfg(feature = "vhost-user")]
pub mod vhost_user;
mod vnet;

/// The longest frame: an Ethernet header with a VLAN tag, and the largest IP packet. It may come at any MTU, since the
/// other side may leave segments of any kind to us.
const FRAME_MAX: usize = EtherHeader::LEN + 4 + u16::MAX as usize;

/// Resets a device's counters of drops, for [`Device::take_drops`]. Relaxed: no data depends on the numbers.
fn take_counts<const N: usize>(counts: [(DropReason, &AtomicU64); N]) -> Vec<(DropReason, u64)> {
    let taken = counts.map(|(reason, n)| (reason, n.swap(0, Ordering::Relaxed)));
    // Almost always empty, and an empty Vec has no storage.
    taken.into_iter().filter(|&(_, n)| n > 0).collect()
}

/// The first header of a device's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Medium {
    /// An Ethernet header. Neighbours are found by ARP, or by neighbour discovery (IPv6).
    #[default]
    Ethernet,
    /// An IP header: a tunnel. Every destination is at the other end, so no neighbours are looked for.
    Ip,
}

/// A device's offloads and frame sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Largest IP packet in one frame, in bytes.
    pub mtu: u16,
    /// Finishes TCP and UDP checksums on transmit.
    pub tx_checksum: bool,
    /// Takes TCP/IPv4 packets larger than the MTU and cuts them by `tso_segsz`; the largest IP packet
    /// it takes, or 0 if it can't. One of more than 65,535 bytes has the length 0 in its header (BIG TCP).
    pub tso4_max: u32,
    /// The largest TCP/IPv6 packet that it takes and cuts by `tso_segsz`, or 0.
    pub tso6_max: u32,
    /// The largest packet of merged UDP datagrams, over either version, that it takes and cuts by `tso_segsz`, or 0.
    pub uso_max: u16,
}

impl Capabilities {
    /// A plain device of this MTU: every frame complete.
    pub const fn plain(mtu: u16) -> Self {
        Self {
            mtu,
            tx_checksum: false,
            tso4_max: 0,
            tso6_max: 0,
            uso_max: 0,
        }
    }

    /// A device in memory, which hands packets over whole.
    pub const fn whole(mtu: u16) -> Self {
        Self {
            mtu,
            tx_checksum: true,
            tso4_max: u16::MAX as u32,
            tso6_max: u16::MAX as u32,
            uso_max: u16::MAX,
        }
    }
}

/// How much one poll may take in before other work has its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Frames.
    pub frames: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Budget {
    /// Moves frames from one queue to another, until the budget is used up. The last one may exceed the bytes.
    #[inline]
    pub(crate) fn move_frames(&self, from: &mut Mbufq, to: &mut Mbufq) {
        let mut bytes = 0;
        for _ in 0..self.frames {
            if bytes >= self.bytes {
                break;
            }
            let Some(frame) = from.dequeue() else {
                break;
            };
            bytes += frame.len();
            to.enqueue(frame);
        }
    }
}

/// A device. Its methods are called by many threads at once.
pub trait Device: Send + Sync + Debug {
    /// Its capabilities; fixed while it is attached.
    fn capabilities(&self) -> Capabilities;

    /// What its frames begin with; fixed, as its capabilities are.
    fn medium(&self) -> Medium {
        Medium::Ethernet
    }

    /// The address burnt in, if it has one.
    fn mac(&self) -> Option<MacAddr> {
        None
    }

    /// Appends arrived frames to `rx`, within `budget`. Returns whether more may be waiting. A frame for which the pool
    /// has no buffers ([`NoBufs`](mbuf::NoBufs)) is lost, as on a wire: an error would end the interface.
    ///
    /// # Errors
    /// The device is gone or broken; "nothing there now" is `Ok(false)`.
    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool>;

    /// Takes the counts of frames that the device itself had to drop since the last call: received ones, and those that
    /// it had taken to send.
    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        Vec::new()
    }

    /// The stack has detached the device, and will not receive from it any more. Drops the frames that wait to be
    /// received, and returns their number.
    fn detached(&self) -> usize {
        0
    }

    /// Sends frames in order. Frames without room stay in `tx`; frames that the device refuses for good are dropped,
    /// and their number is returned.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize>;

    /// The time at which delayed frames of the device are due, in either direction: the stack then receives from it and
    /// transmits to it, with an empty queue if it has no frame. `None`, as for most devices: never. Only calls of
    /// `receive` and `transmit` may make it earlier.
    ///
    /// The stack calls this around each `receive` and `transmit`, and to find its next timer, with locks held: it must
    /// take none, and is called with or without Giant.
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Methods of a device around another that only call those of the other.
macro_rules! forward_to {
    ($inner:ident => $($method:ident: $result:ty),*) => {
        $(fn $method(&self) -> $result {
            self.$inner.$method()
        })*
    };
}
use forward_to;

/// A device that several hold: a wrapper around an element of a list of queues, for example.
impl<D: Device + ?Sized> Device for Arc<D> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn medium(&self) -> Medium {
        (**self).medium()
    }

    fn mac(&self) -> Option<MacAddr> {
        (**self).mac()
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        (**self).receive(rx, budget)
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        (**self).take_drops()
    }

    fn detached(&self) -> usize {
        (**self).detached()
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        (**self).transmit(tx)
    }

    fn next_deadline(&self) -> Option<Time> {
        (**self).next_deadline()
    }
}
