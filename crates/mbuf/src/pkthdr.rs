//! The packet header: facts about a packet as a whole, carried in its first mbuf.
//!
//! It has the checksum and segmentation state, so that a packet of 64 KiB crosses the stack whole. Only before a device
//! that can't segment or compute checksums is it cut and summed.

use bitflags::bitflags;

bitflags! {
    /// The state of a packet's checksums: verified, or still to be computed.
    ///
    /// The two directions use different bits, so that a packet can be turned round
    /// ([`PktHdr::turn_round`]) without guessing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[repr(transparent)]
    pub struct Csum: u8 {
        /// Inward: the IPv4 header checksum was verified, or can be trusted.
        const IP_VALID = 1 << 0;
        /// Inward: the TCP or UDP checksum was verified, or can be trusted because the packet never
        /// left memory.
        #[doc(alias = "CSUM_DATA_VALID")]
        const L4_VALID = 1 << 1;
        /// Outward: the TCP checksum field holds the pseudo-header's sum; a device finishes it.
        #[doc(alias = "CSUM_TCP")]
        const TCP = 1 << 2;
        /// Outward: the same for UDP.
        #[doc(alias = "CSUM_UDP")]
        const UDP = 1 << 3;
    }
}

/// A packet's metadata. It may be copied from packet to packet, because the length is not part of it.
///
/// Without padding: an mbuf's data may come to lie where one was.
#[doc(alias = "pkthdr")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct PktHdr {
    /// When the packet arrived, in nanoseconds of the stack's clock.
    pub stamp_ns: u64,
    /// A hash of the flow, or 0 if none was computed.
    pub flow: u32,
    /// The interface that the packet arrived on.
    #[doc(alias = "rcvif")]
    pub iface: u32,
    /// Payload bytes a segment when the packet must be cut (or was merged); 0 for one frame.
    pub tso_segsz: u16,
    /// Checksum state.
    pub csum: Csum,
    /// Bytes of link header at the front.
    pub l2_len: u8,
    /// Bytes of IP header, options included.
    pub l3_len: u8,
    /// Bytes of TCP or UDP header, options included.
    pub l4_len: u8,
    /// The origin of the packet, in numbers of the stack in which it waits; 0 if not known.
    #[doc(alias = "M_BCAST")]
    pub arrival: u8,
    /// Bridges that the packet passed since a host sent it: bounds a loop.
    pub hops: u8,
}

impl PktHdr {
    /// Makes an outward packet an inward one, for devices that hand frames over in memory: a
    /// checksum that was left for the device counts as verified, because the bytes crossed no wire.
    pub fn turn_round(&mut self) {
        if self.csum.intersects(Csum::TCP | Csum::UDP) {
            self.csum |= Csum::L4_VALID;
        }
    }
}
