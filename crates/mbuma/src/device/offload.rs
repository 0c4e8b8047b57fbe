//! Offloads that a device lacks, done in software: checksums are finished, large TCP segments are cut, and merged
//! datagrams of one flow are split.
//!
//! A packet that is cut shares its payload with the pieces:
//!
//! ```text
//!   | headers | payload of 3 segments                 |      tso_segsz > 0
//!      |        \__________ \__________ \_____
//!   | headers' | 1st ||| headers' | 2nd ||| headers' | rest |
//! ```
//!
//! Invariants: no payload is copied. Every piece is as TCP would have sent it: sequence numbers
//! and IP ids count on, FIN and PSH are on the last piece only, CWR on the first only (RFC 3168
//! 6.1.2), lengths and checksums are each piece's own. Pieces of merged datagrams are the datagrams.
//! Locks: none. Sources: RFC 9293, RFC 768, RFC 1071, RFC 3168.

use mbuf::{Chain, Csum, MbufPool, Mbufq, NoBufs, Packet, PktHdr};
use wire::{
    Checksum, EtherHeader, IpProto, Ipv4Header, Ipv6Header, ParseError, SeqNum, TcpFlags,
    TcpHeader, UdpHeader, pseudo_header_v4, pseudo_header_v6,
};

use super::Capabilities;
use crate::drops::DropReason;

/// The longest headers that a packet is cut behind.
const HEADERS_MAX: usize = EtherHeader::LEN + Ipv4Header::LEN_MAX + TcpHeader::LEN_MAX;

/// Does the work on `frame` that a device with these capabilities leaves undone, and appends the
/// resulting frames to `ready`.
///
/// # Errors
/// No buffers, or the packet's header contradicts its bytes. Pieces that were ready stay in `ready`.
pub(crate) fn prepare(
    pool: &MbufPool,
    mut frame: Packet,
    caps: Capabilities,
    ready: &mut Mbufq,
) -> Result<(), DropReason> {
    if frame.header().tso_segsz != 0 {
        return prepare_large(pool, frame, caps, ready);
    }
    if !caps.tx_checksum {
        let l3 = usize::from(frame.header().l2_len);
        finish_checksum(&mut frame, l3)?;
    }
    ready.enqueue(frame);
    Ok(())
}

fn prepare_large(
    pool: &MbufPool,
    mut frame: Packet,
    caps: Capabilities,
    ready: &mut Mbufq,
) -> Result<(), DropReason> {
    let cut = Cut::parse(&frame)?;
    if frame.len() <= cut.headers_len + cut.segsz {
        frame.header_mut().tso_segsz = 0;
        return prepare(pool, frame, caps, ready);
    }
    let takes = caps.tx_checksum && frame.len() - cut.l3 <= cut.whole_max(caps) as usize;
    if takes {
        ready.enqueue(frame);
        return Ok(());
    }
    cut.run(pool, frame, caps, ready)
}

/// Finishes the checksum of the TCP or UDP packet whose IP header, with `l3_len` bytes, is at `l3`.
/// A checksum that is whole already stays.
///
/// The field holds the pseudo-header's sum, which is part of the summed bytes.
pub(crate) fn finish_checksum(packet: &mut Packet, l3: usize) -> Result<(), DropReason> {
    let meta = *packet.header();
    let (field, is_udp) = match meta.csum {
        c if c.contains(Csum::TCP) => (TcpHeader::CHECKSUM_OFFSET, false),
        c if c.contains(Csum::UDP) => (UdpHeader::CHECKSUM_OFFSET, true),
        _ => return Ok(()),
    };
    let l4 = l3 + usize::from(meta.l3_len);
    let mut sum = Checksum::new();
    packet.segments_from(l4).for_each(|s| sum.add_bytes(s));
    let value = if is_udp {
        sum.finish_nonzero()
    } else {
        sum.finish()
    };
    // The headers before shared payload are the packet's own.
    let written = packet.write_at(l4 + field, &value.to_be_bytes());
    written.map_err(|_| DropReason::DeviceError)?;
    packet.header_mut().csum -= Csum::TCP | Csum::UDP;
    Ok(())
}

/// How far [`finish_checksum`] writes into a frame; 0 if it has nothing to do.
pub(crate) fn headers_len(frame: &Packet) -> usize {
    let meta = frame.header();
    let l4 = usize::from(meta.l2_len) + usize::from(meta.l3_len);
    if meta.csum.intersects(Csum::TCP | Csum::UDP) {
        l4 + TcpHeader::LEN_MAX
    } else {
        0
    }
}

/// How a large segment is to be cut.
struct Cut {
    /// The headers of the whole: the template of every piece's.
    headers: [u8; HEADERS_MAX],
    headers_len: usize,
    l3: usize,
    l4: usize,
    segsz: usize,
    proto: IpProto,
    version: Version,
    /// TCP's; zero for UDP.
    seq: SeqNum,
    flags: TcpFlags,
}

/// A packet's version of IP, and the fields of its header that change from piece to piece.
#[derive(Clone, Copy)]
enum Version {
    /// With the id of the first piece.
    V4(u16),
    V6,
}

/// One piece of it.
struct SegmentPiece {
    /// Where its payload begins in the whole's.
    offset: usize,
    payload: Chain,
    last: bool,
}

impl Cut {
    /// Finds the headers. They are ours, so it is a bug if they don't parse, but not one to die of.
    fn parse(frame: &Packet) -> Result<Self, DropReason> {
        let meta = *frame.header();
        let l3 = usize::from(meta.l2_len);
        let l4 = l3 + usize::from(meta.l3_len);
        let mut headers = [0; HEADERS_MAX];
        let len = frame.len().min(HEADERS_MAX);
        let (front, _) = headers.split_at_mut(len);
        frame.copy_to(0, front);
        if frame.len().saturating_sub(l3) > usize::from(u16::MAX) {
            say_a_length(front.get_mut(l3..).unwrap_or_default());
        }
        let bad = |_| DropReason::DeviceError;
        let (version, proto, ip_len) = parse_ip(front.get(l3..).unwrap_or(&[])).map_err(bad)?;
        let (mut seq, mut flags, mut headers_len) =
            (SeqNum::default(), TcpFlags::empty(), l4 + UdpHeader::LEN);
        match proto {
            IpProto::TCP => {
                let tcp = TcpHeader::parse(front.get(l4..).unwrap_or(&[])).map_err(bad)?;
                (seq, flags, headers_len) = (tcp.seq(), tcp.flags(), l4 + tcp.header_len());
            }
            IpProto::UDP => _ = UdpHeader::parse(front.get(l4..).unwrap_or(&[])).map_err(bad)?,
            _ => return Err(DropReason::DeviceError),
        }
        if ip_len != l4 - l3 {
            return Err(DropReason::DeviceError);
        }
        let segsz = usize::from(meta.tso_segsz);
        Ok(Self {
            headers,
            headers_len,
            l3,
            l4,
            segsz,
            proto,
            version,
            seq,
            flags,
        })
    }

    /// Cuts the frame into segments, or into pieces of several of them where the device cuts these.
    fn run(
        &self,
        pool: &MbufPool,
        mut frame: Packet,
        caps: Capabilities,
        ready: &mut Mbufq,
    ) -> Result<(), DropReason> {
        let piece_len = self.piece_len(caps);
        let no_bufs = |NoBufs| DropReason::TxNoBufs;
        let mut rest = frame.split_off(self.headers_len).map_err(no_bufs)?;
        let meta = *frame.header();
        let mut offset = 0;
        while !rest.is_empty() {
            let payload = rest.take_front(piece_len).map_err(no_bufs)?;
            let len = payload.len();
            let piece = SegmentPiece {
                offset,
                payload,
                last: rest.is_empty(),
            };
            ready.enqueue(self.segment(pool, piece, &meta, caps.tx_checksum)?);
            offset += len;
        }
        Ok(())
    }

    /// Bytes of payload in a piece.
    fn piece_len(&self, caps: Capabilities) -> usize {
        let max = (self.whole_max(caps) as usize).min(usize::from(u16::MAX));
        let max = max.saturating_sub(self.headers_len - self.l3);
        match self.proto == IpProto::TCP && caps.tx_checksum && max > self.segsz {
            true => max - max % self.segsz,
            false => self.segsz,
        }
    }

    /// Puts headers before one piece.
    fn segment(
        &self,
        pool: &MbufPool,
        piece: SegmentPiece,
        meta: &PktHdr,
        tx_checksum: bool,
    ) -> Result<Packet, DropReason> {
        let several = piece.payload.len() > self.segsz;
        let mut headers = self.headers;
        let (headers, _) = headers.split_at_mut(self.headers_len);
        self.fill(headers, &piece, tx_checksum)
            .map_err(|_| DropReason::DeviceError)?;
        let no_bufs = |NoBufs| DropReason::TxNoBufs;
        let mut packet = Packet::before_chain(pool, piece.payload).map_err(no_bufs)?;
        packet
            .prepend(headers.len())
            .map_err(no_bufs)?
            .copy_from_slice(headers);
        let to = packet.header_mut();
        (to.flow, to.stamp_ns, to.iface) = (meta.flow, meta.stamp_ns, meta.iface);
        to.hops = meta.hops;
        (to.l2_len, to.l3_len) = (meta.l2_len, meta.l3_len);
        to.l4_len = (self.headers_len - self.l4) as u8;
        if several {
            to.tso_segsz = meta.tso_segsz;
        }
        to.csum = match self.proto {
            _ if !tx_checksum => Csum::empty(),
            IpProto::UDP => Csum::UDP,
            _ => Csum::TCP,
        };
        Ok(packet)
    }

    /// Makes the whole's headers those of one piece.
    fn fill(
        &self,
        headers: &mut [u8],
        piece: &SegmentPiece,
        tx_checksum: bool,
    ) -> Result<(), ParseError> {
        let l4_len = self.headers_len - self.l4 + piece.payload.len();
        let (_, ip_bytes) = headers.split_at_mut(self.l3);
        let sum = self.fill_ip(ip_bytes, piece, l4_len)?;
        let (_, l4_bytes) = headers.split_at_mut(self.l4);
        match self.proto {
            IpProto::UDP => fill_udp(l4_bytes, piece, l4_len as u16, sum, tx_checksum),
            _ => self.fill_tcp(l4_bytes, piece, sum, tx_checksum),
        }
    }

    /// Makes the IP header that of a piece; gives the pseudo-header's part of its checksum.
    fn fill_ip(
        &self,
        bytes: &mut [u8],
        piece: &SegmentPiece,
        l4_len: usize,
    ) -> Result<Checksum, ParseError> {
        match self.version {
            Version::V4(id) => {
                let ip = Ipv4Header::parse_mut(bytes)?;
                // A piece is shorter than the whole, whose length fits; ids wrap.
                ip.set_total_len((self.l4 - self.l3 + l4_len) as u16);
                ip.set_id(id.wrapping_add((piece.offset / self.segsz) as u16));
                Ipv4Header::fill_checksum(bytes)?;
                let ip = Ipv4Header::parse(bytes)?;
                let (src, dst) = (ip.src(), ip.dst());
                Ok(pseudo_header_v4(src, dst, self.proto, l4_len as u32))
            }
            Version::V6 => {
                let ip = Ipv6Header::parse_mut(bytes)?;
                ip.set_payload_len(l4_len as u16);
                let (src, dst) = (ip.src(), ip.dst());
                Ok(pseudo_header_v6(src, dst, self.proto, l4_len as u32))
            }
        }
    }

    /// The largest IP packet of this kind that the device cuts itself.
    fn whole_max(&self, caps: Capabilities) -> u32 {
        match (self.proto, self.version) {
            (IpProto::UDP, _) => caps.uso_max.into(),
            (_, Version::V4(_)) => caps.tso4_max,
            (_, Version::V6) => caps.tso6_max,
        }
    }

    fn fill_tcp(
        &self,
        bytes: &mut [u8],
        piece: &SegmentPiece,
        mut sum: Checksum,
        tx_checksum: bool,
    ) -> Result<(), ParseError> {
        let tcp = TcpHeader::parse_mut(bytes)?;
        tcp.set_seq(self.seq + piece.offset as u32);
        tcp.set_flags(self.flags - Self::not_in(piece));
        if tx_checksum {
            tcp.set_checksum(sum.partial());
            return Ok(());
        }
        tcp.set_checksum(0);
        sum.add_bytes(bytes);
        piece.payload.segments().for_each(|s| sum.add_bytes(s));
        TcpHeader::parse_mut(bytes)?.set_checksum(sum.finish());
        Ok(())
    }

    /// The flags of the whole that don't belong to this piece.
    fn not_in(piece: &SegmentPiece) -> TcpFlags {
        let mut flags = TcpFlags::empty();
        flags.set(TcpFlags::CWR, piece.offset > 0);
        flags.set(TcpFlags::FIN | TcpFlags::PSH, !piece.last);
        flags
    }
}

/// Gives the IPv4 header of a packet for which the total length has too few bits another one than 0. Each piece has its
/// own.
fn say_a_length(bytes: &mut [u8]) {
    if let Ok(ip) = Ipv4Header::parse_mut(bytes) {
        ip.set_total_len(u16::MAX);
    }
}

/// The version, the protocol, and the length of an IP header. Behind IPv6's own header comes the protocol's: a packet
/// with extension headers is not cut.
fn parse_ip(bytes: &[u8]) -> Result<(Version, IpProto, usize), ParseError> {
    if let Ok(ip) = Ipv6Header::parse(bytes) {
        return Ok((Version::V6, ip.next(), Ipv6Header::LEN));
    }
    let ip = Ipv4Header::parse(bytes)?;
    Ok((Version::V4(ip.id()), ip.protocol(), ip.header_len()))
}

/// One datagram's header, out of the merged one's.
fn fill_udp(
    bytes: &mut [u8],
    piece: &SegmentPiece,
    len: u16,
    mut sum: Checksum,
    tx_checksum: bool,
) -> Result<(), ParseError> {
    let (merged, _) = UdpHeader::parse(bytes)?;
    let mut header = UdpHeader::new(merged.src_port(), merged.dst_port(), len);
    if tx_checksum {
        header.set_checksum(sum.partial());
    } else {
        header.emit(bytes);
        sum.add_bytes(bytes);
        piece.payload.segments().for_each(|s| sum.add_bytes(s));
        header.set_checksum(sum.finish_nonzero());
    }
    header.emit(bytes);
    Ok(())
}

#[cfg(all(test, not(shuttle)))]
mod tests;
