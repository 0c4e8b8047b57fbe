//! A frame on its way: its bytes, and the offloads that are still due.
//!
//! Frames between stacks are copies: a stack's writes to its mbufs can't show in another stack, and
//! no mbuf of a pool lives outside of its stack.

use mbuf::{Chain, ClusterSize, Csum, MbufPool, NoBufs, Packet};
use wire::EtherHeader;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes, from the Ethernet header on.
    pub bytes: Vec<u8>,
    pub(crate) csum: Csum,
    pub(crate) l2_len: u8,
    pub(crate) l3_len: u8,
    pub(crate) l4_len: u8,
    pub(crate) tso_segsz: u16,
    /// A wire has turned a bit already. A second one could hide the first from the checksum.
    pub(crate) damaged: bool,
}

impl Frame {
    /// A complete frame.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            csum: Csum::empty(),
            l2_len: 0,
            l3_len: 0,
            l4_len: 0,
            tso_segsz: 0,
            damaged: false,
        }
    }

    /// The frame of a packet that a stack sends.
    pub fn from_packet(packet: &Packet) -> Self {
        let h = packet.header();
        Self {
            bytes: packet.to_vec(),
            csum: h.csum,
            l2_len: h.l2_len,
            l3_len: h.l3_len,
            l4_len: h.l4_len,
            tso_segsz: h.tso_segsz,
            damaged: false,
        }
    }

    /// Whether its checksum is missing or it is larger than the wire's frames: then it may only go
    /// from memory to memory, and no receiver would notice a damaged bit.
    pub fn is_unfinished(&self) -> bool {
        self.csum.intersects(Csum::TCP | Csum::UDP) || self.tso_segsz != 0
    }

    /// The packet that a stack receives, in mbufs of the given shape.
    ///
    /// # Errors
    /// The pool is exhausted.
    pub fn to_packet(&self, pool: &MbufPool, shape: Shape) -> Result<Packet, NoBufs> {
        let mut packet = shape.build(pool, &self.bytes)?;
        let h = packet.header_mut();
        h.csum = self.csum & (Csum::TCP | Csum::UDP);
        h.l2_len = self.l2_len;
        h.l3_len = self.l3_len;
        h.l4_len = self.l4_len;
        h.tso_segsz = self.tso_segsz;
        h.turn_round();
        Ok(packet)
    }
}

/// The layout of received bytes in mbufs. The stack must work with each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// As from a device: in one cluster, or several for the largest frames.
    Cluster,
    /// Mbufs of this many bytes each, behind an empty first one.
    Pieces(usize),
    /// An mbuf for each header, and one for the rest.
    Headers,
}

impl Shape {
    /// The shapes in which every input test is repeated.
    pub const ALL: [Self; 5] = [
        Self::Cluster,
        Self::Pieces(1),
        Self::Pieces(2),
        Self::Pieces(3),
        Self::Headers,
    ];

    /// A packet of `bytes` in this shape.
    fn build(self, pool: &MbufPool, bytes: &[u8]) -> Result<Packet, NoBufs> {
        match self {
            Self::Cluster => {
                // For any size of frame: a device has its cluster ready before it knows the size.
                let size = ClusterSize::fitting(bytes.len());
                let mut packet = Packet::with_cluster(pool, size, 0)?;
                packet.append(pool, bytes)?;
                Ok(packet)
            }
            Self::Pieces(n) => pieces(pool, bytes, n.max(1))?.into_packet(pool),
            Self::Headers => {
                let mut chain = Chain::new();
                let mut rest = bytes;
                for len in header_lens(bytes) {
                    let (header, behind) = rest.split_at(len.min(rest.len()));
                    chain.append(Chain::from_slice(pool, header)?);
                    rest = behind;
                }
                chain.append(Chain::from_slice(pool, rest)?);
                chain.into_packet(pool)
            }
        }
    }
}

/// Halves until one piece is left: a join of two chains walks both, so that adding the pieces one by one would take
/// quadratic time.
fn pieces(pool: &MbufPool, bytes: &[u8], n: usize) -> Result<Chain, NoBufs> {
    if bytes.len() <= n {
        return Chain::from_slice(pool, bytes);
    }
    let half = bytes.len().div_ceil(n) / 2 * n;
    let (front, back) = bytes.split_at(half);
    let mut chain = pieces(pool, front, n)?;
    chain.append(pieces(pool, back, n)?);
    Ok(chain)
}

/// The lengths of a frame's headers, as far as it has them.
fn header_lens(bytes: &[u8]) -> [usize; 3] {
    const IPV4: usize = EtherHeader::LEN;
    let ip = bytes.get(IPV4).map_or(0, |b| usize::from(b & 0x0f) * 4);
    let l4 = bytes
        .get(IPV4 + ip + 12)
        .map_or(0, |b| usize::from(b >> 4) * 4);
    [IPV4, ip, l4]
}

#[cfg(test)]
mod tests;
