//! An epair: two Ethernet interfaces with a cable between them, each in a stack of its own (seed 003).
//!
//! A program makes them to join stacks, by cables alone or by a [`bridge`](super::bridge) between.
//!
//! ```text
//!   stack A                                                            stack B
//!   [ifnet] --transmit--> [plug a] --put--> queue a>b --take--> [plug b] --receive--> [ether::input]
//!   [ether::input] <--receive-- [plug a] <--take-- queue b>a <--put-- [plug b] <--transmit-- [ifnet]
//!                                               |
//!                       wakes the thread that takes packets in: see [`Input`]
//! ```
//!
//! Packets pass unchanged: a segment of 64 KiB with its unfinished checksum passes in one piece, and no byte is copied
//! or read. A batch is put under one lock and taken in O(1).
//!
//! An [`EpairEnd`] can be made, attached, moved to another stack, and destroyed while both stacks run. The stack holds
//! a [`Plug`] of it, which is valid for one attachment: a thread that is still inside of the former stack can neither
//! receive nor transmit with it.
//!
//! Invariants: no packet waits for a detached plug; dropping an end closes the cable, and the other end reports that
//! after the packets sent before. A cable has only weak references to stacks, and wakers only while an end is attached,
//! so joined stacks can end. Every sent packet is received, or counted as lost: by the sender (no room, no other end),
//! by the stack that was left (too late), or by the cable ([`EpairEnd::stats`]). Locks: each direction's queue, and a
//! plug's kept packets (both IFQUEUE); never two. Source: seed 003; the two schemes with rings that it replaces are
//! in the lab.

use std::fmt;
use std::sync::Arc;

use kern::{LockClass, WorkQueue, order};
use mbuf::Mbufq;
use wire::MacAddr;

use super::bridge::{Bridge, BridgeError, PortId, WeakBridge};

pub use input::Input;
pub use kern::work_queue::WorkQueueStats;
pub use plug::Plug;

mod input;
mod plug;

static CABLE: LockClass = LockClass::new("epair queue", order::IFQUEUE);

/// How a pair is made (seed 003, epair(4)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpairConfig {
    /// Largest IP packet in one frame, in bytes: 68 (RFC 791) to 65,535. Default 1500. TCP segments pass
    /// in up to 64 KiB at any MTU.
    pub mtu: u16,
    /// Packets that wait in one direction at most; more are dropped. Default 4096.
    pub queue_max: usize,
}

impl Default for EpairConfig {
    fn default() -> Self {
        Self {
            mtu: 1500,
            queue_max: 4096,
        }
    }
}

/// The cable: one queue each way.
#[derive(Debug)]
struct Cable {
    config: EpairConfig,
    /// The packets for side `n`.
    inward: [WorkQueue<Mbufq>; 2],
}

impl Cable {
    fn inward(&self, side: Side) -> &WorkQueue<Mbufq> {
        &self.inward[side as usize]
    }

    fn outward(&self, side: Side) -> &WorkQueue<Mbufq> {
        &self.inward[1 - side as usize]
    }
}

/// Which end.
#[derive(Debug, Clone, Copy)]
enum Side {
    A = 0,
    B = 1,
}

/// One end of a pair. Dropping it takes it out of its stack, or bridge, and closes the cable.
///
/// ```
/// use std::net::{Ipv4Addr, SocketAddrV4};
/// use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
/// use mbuma::{Config, IfConfig, Stack};
///
/// let config = |n| IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24);
/// let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
/// let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
/// a.attach(&left, config(1), Input::Direct).unwrap();
/// b.attach(&right, config(2), Input::Direct).unwrap();
///
/// let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
/// let listener = right.tcp_listen(there, 8)?;
/// let stream = left.tcp_connect(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), there)?;
/// stream.send(b"hello")?;
/// assert_eq!(listener.accept().expect("nothing was waited for").recv(&mut [0; 16])?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[doc(alias = "epair")]
pub struct EpairEnd {
    cable: Arc<Cable>,
    side: Side,
    pub(crate) attachment: Option<Box<dyn Attachment>>,
    /// Its Ethernet address, once it was attached.
    pub(crate) mac: Option<MacAddr>,
}

/// The owner to which an end is attached.
pub(crate) trait Attachment: fmt::Debug + Send + Sync {
    /// Detaches the end, if its owner still exists.
    fn detach(&self);
}

/// As a port of a bridge.
#[derive(Debug)]
struct BridgePort(WeakBridge, PortId);

impl Attachment for BridgePort {
    fn detach(&self) {
        if let Some(bridge) = self.0.upgrade() {
            bridge.remove(self.1);
        }
    }
}

impl EpairEnd {
    /// Makes a pair; neither end is attached yet.
    #[doc(alias = "epair_clone_create")]
    pub fn pair(config: EpairConfig) -> (Self, Self) {
        let queue = || WorkQueue::new(&CABLE, config.queue_max);
        let cable = Arc::new(Cable {
            config,
            inward: [queue(), queue()],
        });
        let end = |side| Self {
            cable: Arc::clone(&cable),
            side,
            attachment: None,
            mac: None,
        };
        (end(Side::A), end(Side::B))
    }

    /// Makes this end a port of a bridge, where `input` takes in arriving packets. An end that is attached
    /// elsewhere already moves.
    ///
    /// # Errors
    /// [`BridgeError`].
    #[doc(alias = "BRDGADD")]
    pub fn join(&mut self, bridge: &Bridge, input: Input) -> Result<PortId, BridgeError> {
        self.detach();
        let plug = Arc::new(self.plug_for(&input));
        let port = bridge.add(Arc::clone(&plug) as _)?;
        plug.set_waker(input.into_waker(bridge.driver(port)));
        self.attachment = Some(Box::new(BridgePort(bridge.downgrade(), port)));
        Ok(port)
    }

    /// Detaches this end from its stack or bridge. Packets that wait for it, and those that the other end sends until
    /// it is attached again, are dropped and counted. Wakers are dropped.
    pub fn detach(&mut self) {
        if let Some(attachment) = self.attachment.take() {
            attachment.detach();
        }
    }

    /// Makes a new plug, for a program's own driver, or to wrap the device before attaching it. The previous plug
    /// becomes void.
    pub fn plug(&self) -> Plug {
        Plug::new(&self.cable, self.side, false)
    }

    pub(crate) fn plug_for(&self, input: &Input) -> Plug {
        Plug::new(&self.cable, self.side, input.rests())
    }

    /// The counts of packets that arrived here, or did not.
    pub fn stats(&self) -> WorkQueueStats {
        self.cable.inward(self.side).stats()
    }
}

impl Drop for EpairEnd {
    #[doc(alias = "epair_clone_destroy")]
    fn drop(&mut self) {
        self.detach();
        self.cable.inward(self.side).close();
        self.cable.outward(self.side).close();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
