//! The header that a virtual device puts before each frame: the checksum and the segmentation that the sender left
//! undone.
//!
//! ```text
//!   0     1        2        4         6           8            10
//!  +-----+--------+--------+---------+-----------+-------------+
//!  |flags|gso_type| hdr_len| gso_size| csum_start| csum_offset |   in the machine's byte order
//!  +-----+--------+--------+---------+-----------+-------------+
//! ```
//!
//! Invariants: the header that the other side wrote is checked against the frame before it is relied on.
//! Locks: none. Sources: linux/virtio_net.h; virtio 1.2 section 5.1.6.

use mbuf::{Csum, Packet, PktHdr};
use wire::{EtherHeader, Ipv4Header, TcpFlags, TcpHeader, UdpHeader};

/// The header's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct VnetHeader {
    pub(super) flags: u8,
    pub(super) gso_type: u8,
    pub(super) hdr_len: u16,
    pub(super) gso_size: u16,
    pub(super) csum_start: u16,
    pub(super) csum_offset: u16,
}

/// The header contradicts itself or the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadVnetHeader;

impl VnetHeader {
    /// Bytes in the header.
    pub(super) const LEN: usize = 10;

    pub(super) fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        let [flags, gso_type, a, b, c, d, e, f, g, h] = bytes;
        Self {
            flags,
            gso_type,
            hdr_len: u16::from_ne_bytes([a, b]),
            gso_size: u16::from_ne_bytes([c, d]),
            csum_start: u16::from_ne_bytes([e, f]),
            csum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let [a, b] = self.hdr_len.to_ne_bytes();
        let [c, d] = self.gso_size.to_ne_bytes();
        let [e, f] = self.csum_start.to_ne_bytes();
        let [g, h] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// Notes checksum and segmentation in the frame's packet header.
    pub(super) fn describe(self, frame: &mut Packet) -> Result<(), BadVnetHeader> {
        let len = frame.len();
        let segsz = self.segment_size(len)?;
        let needs_csum = self.flags & NEEDS_CSUM != 0;
        if needs_csum && self.checksum_end() > len {
            return Err(BadVnetHeader);
        }
        let meta = frame.header_mut();
        meta.tso_segsz = segsz;
        if needs_csum {
            self.mark_partial_checksum(meta);
        }
        // Either the checksum was verified, or the frame never left this machine.
        if needs_csum || self.flags & DATA_VALID != 0 {
            meta.csum |= Csum::L4_VALID;
        }
        Ok(())
    }

    /// Leaves the checksum to the device or code that forwards the frame, if it is that of TCP or UDP after an Ethernet
    /// and an IP header.
    fn mark_partial_checksum(self, meta: &mut PktHdr) {
        let csum = match usize::from(self.csum_offset) {
            TcpHeader::CHECKSUM_OFFSET => Csum::TCP,
            UdpHeader::CHECKSUM_OFFSET => Csum::UDP,
            _ => return,
        };
        let l3_len = usize::from(self.csum_start).checked_sub(EtherHeader::LEN);
        if let Some(l3_len @ Ipv4Header::LEN..=Ipv4Header::LEN_MAX) = l3_len {
            meta.csum |= csum;
            (meta.l2_len, meta.l3_len) = (EtherHeader::LEN as u8, l3_len as u8);
        }
    }

    /// Payload bytes of each segment that was merged into this frame; 0 if it is one.
    ///
    /// A machine may write any size here, and each segment costs work, so the bounds are those of Linux.
    fn segment_size(self, frame_len: usize) -> Result<u16, BadVnetHeader> {
        let size = usize::from(self.gso_size);
        match self.gso_type & !GSO_ECN {
            GSO_NONE if self.gso_type == GSO_NONE => Ok(0),
            GSO_TCPV4 | GSO_TCPV6 if size >= TCP_SEGMENT_MIN => Ok(self.gso_size),
            GSO_UDP_L4 if size > 0 && frame_len <= size * DATAGRAMS_MAX + HEADERS_MAX => {
                Ok(self.gso_size)
            }
            _ => Err(BadVnetHeader),
        }
    }

    fn checksum_end(self) -> usize {
        usize::from(self.csum_start) + usize::from(self.csum_offset) + 2
    }

    /// The work on this frame that is left to the other side.
    pub(super) fn of(frame: &Packet) -> Self {
        let meta = frame.header();
        let csum_offset = match meta.csum {
            c if c.contains(Csum::TCP) => TcpHeader::CHECKSUM_OFFSET,
            c if c.contains(Csum::UDP) => UdpHeader::CHECKSUM_OFFSET,
            _ => return Self::default(),
        };
        let l4 = u16::from(meta.l2_len) + u16::from(meta.l3_len);
        let mut header = Self {
            flags: NEEDS_CSUM,
            csum_start: l4,
            csum_offset: csum_offset as u16,
            ..Self::default()
        };
        if meta.tso_segsz != 0 {
            header.gso_type = match meta.csum.contains(Csum::UDP) {
                true => GSO_UDP_L4,
                false => tcp_kind(frame, l4),
            };
            header.gso_size = meta.tso_segsz;
            header.hdr_len = l4 + u16::from(meta.l4_len);
        }
        header
    }
}

/// The type of a large segment of TCP.
fn tcp_kind(frame: &Packet, l4: u16) -> u8 {
    let kind = if is_ip6(frame) { GSO_TCPV6 } else { GSO_TCPV4 };
    kind | if has_cwr(frame, l4) { GSO_ECN } else { 0 }
}

/// Whether the frame carries IPv6.
fn is_ip6(frame: &Packet) -> bool {
    let mut first = [0];
    let l3 = usize::from(frame.header().l2_len);
    frame.copy_to(l3, &mut first) && first[0] >> 4 == 6
}

/// Whether only a segment's first piece may carry CWR, which the device must know.
fn has_cwr(frame: &Packet, l4: u16) -> bool {
    let mut flags = [0];
    frame.copy_to(usize::from(l4) + TCP_FLAGS_OFFSET, &mut flags)
        && TcpFlags::from_bits_retain(flags[0].into()).contains(TcpFlags::CWR)
}

const TCP_FLAGS_OFFSET: usize = 13;

/// The checksum is to be finished: summed from `csum_start`, put at `csum_offset` from there.
const NEEDS_CSUM: u8 = 1;
/// The checksum was verified.
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Payload bytes of a TCP segment at least: the smallest MSS without the longest options.
const TCP_SEGMENT_MIN: usize = 8;
/// Datagrams in one frame at most.
const DATAGRAMS_MAX: usize = 128;
/// Bytes in front of their payload at most, but for IPv6's extension headers.
const HEADERS_MAX: usize = EtherHeader::LEN + Ipv4Header::LEN_MAX + UdpHeader::LEN;
/// A bit beside the type.
const GSO_ECN: u8 = 0x80;

#[cfg(all(test, not(shuttle)))]
mod tests;
