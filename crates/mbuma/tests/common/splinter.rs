//! A device whose received frames come in splinters: the same bytes in mbufs of odd sizes.
//!
//! Nothing in the stack may depend on how a packet's bytes are spread over its mbufs. A test that
//! passes over a plain device must pass over this one, cut anywhere.
//!
//! Invariants: bytes and packet header stay the same; each piece is one mbuf. Locks: none.

#![allow(dead_code, unreachable_pub)] // each test binary uses its part

use std::io;

use mbuf::{Chain, MbufPool, Mbufq, NoBufs, Packet};
use mbuma::device::{Budget, Capabilities, Device};

/// Where frames are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Into pieces of these sizes, over and over. A size of 0 counts as 1.
    Sizes(Vec<usize>),
    /// At these offsets, in rising order.
    Offsets(Vec<usize>),
}

impl Pattern {
    /// The ends of the pieces of a frame of `len` bytes; the last is `len`.
    fn ends(&self, len: usize) -> Vec<usize> {
        let mut ends = Vec::new();
        match self {
            Self::Sizes(sizes) => {
                let mut at = 0;
                for &size in sizes.iter().cycle() {
                    at += size.max(1);
                    if at >= len {
                        break;
                    }
                    ends.push(at);
                }
            }
            Self::Offsets(offsets) => ends.extend(offsets.iter().filter(|&&o| 0 < o && o < len)),
        }
        ends.push(len);
        ends
    }

    /// A packet with the same bytes and header, cut like this.
    ///
    /// # Errors
    /// The pool has no mbufs; the packet is gone.
    pub fn cut(&self, pool: &MbufPool, packet: Packet) -> Result<Packet, NoBufs> {
        let bytes = packet.to_vec();
        let mut chain = Chain::new();
        let mut rest = bytes.as_slice();
        let mut at = 0;
        for end in self.ends(bytes.len()) {
            let (piece, tail) = rest.split_at(end.saturating_sub(at).min(rest.len()));
            chain.append(Chain::from_slice(pool, piece)?);
            (rest, at) = (tail, end.max(at));
        }
        let mut out = Packet::from_chain(pool, chain)?;
        *out.header_mut() = *packet.header();
        Ok(out)
    }
}

/// A device around another that cuts received frames.
#[derive(Debug)]
pub struct Splinter<D> {
    device: D,
    pool: MbufPool,
    pattern: Pattern,
}

impl<D: Device> Splinter<D> {
    /// Cuts the frames that `device` receives, into mbufs of `pool`.
    pub fn new(device: D, pool: &MbufPool, pattern: Pattern) -> Self {
        Self {
            device,
            pool: pool.clone(),
            pattern,
        }
    }
}

impl<D: Device> Device for Splinter<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut whole = Mbufq::new();
        let more = self.device.receive(&mut whole, budget)?;
        for packet in whole {
            let cut = self.pattern.cut(&self.pool, packet);
            rx.enqueue(cut.map_err(|e| io::Error::new(io::ErrorKind::OutOfMemory, e))?);
        }
        Ok(more)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        self.device.transmit(tx)
    }
}
