//! The part of forwarding that both versions of IP have: large packets whose pieces must fit the next link, and
//! checksums that are left to a device.
//!
//! Invariants: only the headers are written; a part of them that others share is copied first.
//! Locks: none.

use mbuf::{Csum, MbufPool, Packet};
use wire::{Checksum, IpProto, TcpHeader, UdpHeader};

use super::IcmpError;
use crate::drops::DropReason;

/// The reason for dropping a packet, and the error that its sender gets.
#[derive(Debug)]
pub(crate) struct Stop(pub(crate) DropReason, pub(crate) Option<IcmpError>);

impl Stop {
    pub(crate) const fn silent(reason: DropReason) -> Self {
        Self(reason, None)
    }
}

/// The header of TCP or UDP in a packet that is forwarded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transport {
    proto: IpProto,
    /// Bytes of IP's header.
    at: usize,
    /// Bytes of this header; none if the packet has no such header.
    len: Option<usize>,
}

impl Transport {
    /// The header at `at`; none without a protocol, as in a fragment.
    pub(crate) fn of(packet: &Packet, at: usize, proto: Option<IpProto>) -> Self {
        let mut bytes = [0; TcpHeader::LEN_MAX];
        let there = packet.len().saturating_sub(at);
        let (front, _) = bytes.split_at_mut(there.min(TcpHeader::LEN_MAX));
        packet.copy_to(at, front);
        let proto = proto.unwrap_or(IpProto::NONE);
        let len = match proto {
            IpProto::TCP => TcpHeader::parse(front).ok().map(|tcp| tcp.header_len()),
            IpProto::UDP => UdpHeader::parse(front).ok().map(|_| UdpHeader::LEN),
            _ => None,
        };
        Self { proto, at, len }
    }

    /// Bytes of the longest IP packet that leaves: this one, or the longest of the pieces into which it must be cut.
    ///
    /// # Errors
    /// It must be cut, and lacks the transport header that this needs.
    pub(crate) fn piece_len(&self, packet: &Packet) -> Result<usize, Stop> {
        match usize::from(packet.header().tso_segsz) {
            0 => Ok(packet.len()),
            segsz => match self.len {
                Some(len) => Ok(self.at + len + segsz),
                None => Err(Stop::silent(DropReason::ForwardBadSegment)),
            },
        }
    }

    /// Turns a received packet into an outgoing one: `take_hop` decrements the TTL or hop limit in its header, and the
    /// metadata describes the checksum as an outgoing packet's. `pseudo` gives the pseudo-header's sum for a length.
    ///
    /// # Errors
    /// No buffers, or the packet contradicts itself.
    pub(crate) fn prepare(
        &self,
        pool: &MbufPool,
        packet: &mut Packet,
        take_hop: impl FnOnce(&mut [u8]) -> Option<()>,
        pseudo: impl FnOnce(u32) -> Checksum,
    ) -> Result<(), Stop> {
        let no_bufs = || Stop::silent(DropReason::NoBufs);
        let large = packet.header().tso_segsz != 0;
        // If the checksum is still to be finished, the transport header is written too.
        let undone = large || packet.header().csum.intersects(Csum::TCP | Csum::UDP);
        let written = self.at + self.len.filter(|_| undone).unwrap_or(0);
        let writable = packet.make_writable(pool, 0, written);
        writable.map_err(|_| no_bufs())?;
        packet.front_mut().and_then(take_hop).ok_or_else(no_bufs)?;
        let meta = packet.header_mut();
        // At most 60 each.
        (meta.l2_len, meta.l3_len) = (0, self.at as u8);
        meta.l4_len = self.len.unwrap_or(0) as u8;
        // A router ends a loop of bridges, because the TTL or hop limit counts its hops.
        meta.hops = 0;
        meta.csum -= Csum::IP_VALID;
        let undone = match self.proto {
            _ if self.len.is_none() => Csum::empty(),
            IpProto::TCP => Csum::TCP,
            _ => Csum::UDP,
        };
        let others = (Csum::TCP | Csum::UDP) - undone;
        meta.csum -= others;
        if large && !meta.csum.contains(undone) {
            meta.csum |= undone;
            return self.undo_checksum(packet, pseudo);
        }
        Ok(())
    }

    /// Replaces the checksum of a merged packet, which a device has verified, by the pseudo-header's sum: each piece
    /// will get a checksum of its own.
    fn undo_checksum(
        &self,
        packet: &mut Packet,
        pseudo: impl FnOnce(u32) -> Checksum,
    ) -> Result<(), Stop> {
        let field = match self.proto {
            IpProto::TCP => TcpHeader::CHECKSUM_OFFSET,
            _ => UdpHeader::CHECKSUM_OFFSET,
        };
        let sum = pseudo((packet.len() - self.at) as u32);
        packet
            .write_at(self.at + field, &sum.partial().to_be_bytes())
            .map_err(|_| Stop::silent(DropReason::ForwardBadSegment))
    }
}
