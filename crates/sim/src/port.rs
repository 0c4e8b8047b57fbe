//! A port: the device by which a stack is plugged into a wire.
//!
//! It claims the offloads of its settings. Before a wire that can't carry such a packet, the port does the offloads, as
//! a network card would; over a wire in memory, the packet goes whole.
//!
//! Locks: `state` (IFQUEUE); its holder calls only zones.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use kern::{LockClass, Mutex, order};
use mbuf::{MbufPool, Mbufq};
use mbuma::DropReason;
use mbuma::device::{Budget, Capabilities, Device};

use crate::card;
use crate::frame::{Frame, Shape};

static STATE: LockClass = LockClass::new("simulated port", order::IFQUEUE);

/// How a port behaves.
#[derive(Debug, Clone, Copy)]
pub struct PortConfig {
    /// The offloads that it claims to its stack.
    pub caps: Capabilities,
    /// Frames go to the wire with unfinished checksums and segments: the other end is in memory too.
    pub whole: bool,
    /// How received frames lie in mbufs.
    pub shape: Shape,
    /// How long the first frame waits for others before the port wakes the stack.
    pub coalesce: Duration,
}

impl PortConfig {
    /// A port without offloads.
    pub const fn plain(mtu: u16) -> Self {
        Self {
            caps: Capabilities::plain(mtu),
            whole: false,
            shape: Shape::Cluster,
            coalesce: Duration::ZERO,
        }
    }

    /// A card that computes checksums and segments.
    pub const fn offloading(mtu: u16) -> Self {
        Self {
            caps: Capabilities::whole(mtu),
            ..Self::plain(mtu)
        }
    }

    /// An end in memory: packets go over as they are.
    pub const fn whole(mtu: u16) -> Self {
        Self {
            whole: true,
            ..Self::offloading(mtu)
        }
    }

    /// The same with another shape.
    #[must_use]
    pub const fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }
}

#[derive(Debug, Default)]
struct State {
    arrived: VecDeque<Frame>,
    left: VecDeque<Frame>,
    /// Frames that arrived and found no buffer.
    no_bufs: u64,
    /// Packets taken from the stack with more bytes than the length field of IP can say, by version: 4, 6; and
    /// jumbograms.
    large: [u64; 3],
}

/// The device.
#[derive(Debug)]
pub struct Port {
    config: PortConfig,
    pool: MbufPool,
    state: Mutex<State>,
}

impl Port {
    /// A port that makes received packets from `pool`.
    pub fn new(config: PortConfig, pool: &MbufPool) -> Self {
        Self {
            config,
            pool: pool.clone(),
            state: Mutex::new(&STATE, State::default()),
        }
    }

    /// The longest delay of the interrupt for received frames.
    pub(crate) fn coalesce(&self) -> Duration {
        self.config.coalesce
    }

    /// A frame comes from the wire.
    pub(crate) fn arrive(&self, frame: Frame) {
        self.state.lock().arrived.push_back(frame);
    }

    /// The next frame for the wire.
    pub(crate) fn leave(&self) -> Option<Frame> {
        self.state.lock().left.pop_front()
    }

    /// Packets with more bytes than the length field of IP can say, which the stack sent, by version: 4, 6; and
    /// jumbograms.
    pub(crate) fn large_packets(&self) -> [u64; 3] {
        self.state.lock().large
    }

    fn next_arrived(&self) -> Option<Frame> {
        self.state.lock().arrived.pop_front()
    }
}

impl Device for Port {
    fn capabilities(&self) -> Capabilities {
        self.config.caps
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut bytes = 0;
        for _ in 0..budget.frames {
            let Some(frame) = self.next_arrived() else {
                return Ok(false);
            };
            bytes += frame.bytes.len();
            match frame.to_packet(&self.pool, self.config.shape) {
                Ok(packet) => rx.enqueue(packet),
                Err(_) => self.state.lock().no_bufs += 1,
            }
            if bytes >= budget.bytes {
                break;
            }
        }
        Ok(!self.state.lock().arrived.is_empty())
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        match std::mem::take(&mut self.state.lock().no_bufs) {
            0 => Vec::new(),
            n => vec![(DropReason::NoBufs, n)],
        }
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let mut out = VecDeque::new();
        let mut refused = 0;
        while let Some(packet) = tx.dequeue() {
            let mut frame = Frame::from_packet(&packet);
            let version = card::large_version(&frame);
            let taken = match self.config.whole {
                true => card::with_its_length(&mut frame).map(|()| out.push_back(frame)),
                false => card::finish(&frame, &mut out),
            };
            match (taken, version) {
                (None, _) => refused += 1,
                (_, None) => {}
                (_, Some(6)) => self.state.lock().large[1 + usize::from(self.config.whole)] += 1,
                (_, Some(_)) => self.state.lock().large[0] += 1,
            }
        }
        self.state.lock().left.append(&mut out);
        Ok(refused)
    }
}
