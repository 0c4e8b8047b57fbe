//! The features that the device offers, and the effect on frames of those that a driver accepts.
//!
//! Offloads are those of a TAP: "host" features are work that the driver leaves to us, "guest" features are work that
//! we may leave to it. Offloads that a driver does not accept are done in software before its frames are written.
//!
//! Locks: none. Sources: virtio 1.2 sections 5.1.3, 5.1.6 and 6; QEMU's docs/interop/vhost-user.rst.

use crate::device::Capabilities;
use crate::device::vnet::VnetHeader;

const fn bit(number: u32) -> u64 {
    1 << number
}

const CSUM: u64 = bit(0);
const GUEST_CSUM: u64 = bit(1);
const GUEST_TSO4: u64 = bit(7);
const GUEST_TSO6: u64 = bit(8);
const GUEST_ECN: u64 = bit(9);
const HOST_TSO4: u64 = bit(11);
const HOST_TSO6: u64 = bit(12);
const HOST_ECN: u64 = bit(13);
const MERGEABLE_BUFFERS: u64 = bit(15);
const RING_INDIRECT: u64 = bit(28);
const RING_EVENT_INDEX: u64 = bit(29);
const PROTOCOL_FEATURES: u64 = bit(30);
const VERSION_1: u64 = bit(32);
const GUEST_USO4: u64 = bit(54);
const GUEST_USO6: u64 = bit(55);
const HOST_USO: u64 = bit(56);

/// Of the protocol: a message may request a reply with its result.
pub(super) const REPLY_ACK: u64 = bit(3);

/// Features of a device: those that it offers, or those that a driver accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features(pub(super) u64);

/// The header before each frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Its length in bytes: with the number of chains, or without.
    pub(super) len: usize,
    /// A frame may lie in several chains.
    pub(super) mergeable: bool,
}

impl Features {
    /// All that are offered.
    pub(super) const OFFERED: Self = Self(
        CSUM | GUEST_CSUM
            | GUEST_TSO4
            | GUEST_TSO6
            | GUEST_ECN
            | HOST_TSO4
            | HOST_TSO6
            | HOST_ECN
            | MERGEABLE_BUFFERS
            | RING_INDIRECT
            | RING_EVENT_INDEX
            | PROTOCOL_FEATURES
            | VERSION_1
            | GUEST_USO4
            | GUEST_USO6
            | HOST_USO,
    );

    fn has(self, features: u64) -> bool {
        self.0 & features == features
    }

    pub(super) fn has_event_index(self) -> bool {
        self.has(RING_EVENT_INDEX)
    }

    /// Rings work from their start on, because the front-end does not send messages that enable them.
    pub(super) fn starts_enabled(self) -> bool {
        !self.has(PROTOCOL_FEATURES)
    }

    pub(super) fn header(self) -> FrameHeader {
        let mergeable = self.has(MERGEABLE_BUFFERS);
        // Drivers from before version 1 have the number only if it can differ from one.
        let has_number = mergeable || self.has(VERSION_1);
        FrameHeader {
            len: VnetHeader::LEN + if has_number { 2 } else { 0 },
            mergeable,
        }
    }

    /// The offloads that the driver accepts. It may segment TCP only if it can do so with ECN.
    pub(super) fn left_to_driver(self, mtu: u16) -> Capabilities {
        let tx_checksum = self.has(GUEST_CSUM);
        let max = |features| match tx_checksum && self.has(features) {
            true => u16::MAX,
            false => 0,
        };
        Capabilities {
            mtu,
            tx_checksum,
            tso4_max: u32::from(max(GUEST_TSO4 | GUEST_ECN)),
            tso6_max: u32::from(max(GUEST_TSO6 | GUEST_ECN)),
            uso_max: max(GUEST_USO4 | GUEST_USO6),
        }
    }
}
