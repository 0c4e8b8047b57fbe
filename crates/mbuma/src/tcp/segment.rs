//! Segments: parses received ones and builds outgoing ones.

use std::ops::Range;

use mbuf::{Chain, Csum, MbufPool, NoBufs, Packet};
use wire::{EtherHeader, IpProto, SeqNum, TcpFields, TcpFlags, TcpHeader, TcpView};

use super::options::SegmentOptions;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::faults::{StackFault, planted};
use crate::inet::Ends;
use crate::ip::{self, Address, Addressed, Service};
use crate::network::{self, SendVia, UpperHeader};
use crate::route::RouteCache;
use crate::sockbuf::StreamBuf;

/// A received segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) ends: Ends,
    /// The number of the first byte in `data`: it advances when old data is cut off.
    pub(crate) seq: SeqNum,
    /// As it was sent.
    pub(crate) start: SeqNum,
    pub(crate) ack: SeqNum,
    pub(crate) flags: TcpFlags,
    /// As in the header, not scaled.
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: SegmentOptions,
    /// The bits of ECN in its IP header (RFC 3168 5).
    pub(crate) mark: u8,
    /// Bytes of each segment that a device merged into this one; 0 if it is one.
    pub(crate) segsz: u16,
    /// Bytes of data that arrived, those included that are cut off later.
    pub(crate) payload: u32,
    pub(crate) data: Chain,
}

impl Segment {
    /// Parses and removes the headers of a packet, and passes the segment to `take`. A packet that fails a check comes
    /// back with the reason. The segment is not returned: a copy of it would wait for its fields to be stored.
    #[inline]
    pub(crate) fn parse<A: Address>(
        mut packet: Packet,
        from: &Addressed<'_, A>,
        take: impl FnOnce(&mut Self),
    ) -> Result<(), (Packet, DropReason)> {
        let verified = verify_checksum(&packet, from);
        if let Err(reason) = verified
            && !planted(StackFault::UncheckedSum)
        {
            return Err((packet, reason));
        }
        let segsz = packet.header().tso_segsz;
        let Some(header) = header(&mut packet, from.ip.header_len) else {
            return Err((packet, DropReason::TcpBadHeader));
        };
        let mut seg = Self {
            ends: A::ends(from, header.src_port(), header.dst_port()),
            seq: header.seq(),
            start: header.seq(),
            ack: header.ack(),
            flags: header.flags(),
            window: header.window(),
            urgent: header.urgent(),
            options: SegmentOptions::default(),
            mark: from.ip.tos & 0b11,
            segsz,
            payload: 0,
            data: Chain::new(),
        };
        seg.options.read(&header);
        let headers_len = from.ip.header_len + header.header_len();
        if packet.len() > headers_len {
            packet.trim_front(headers_len);
            seg.payload = packet.len() as u32;
            seg.data = packet.into_chain();
        }
        take(&mut seg);
        Ok(())
    }

    pub(crate) fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Whether a router marked it: congestion experienced (RFC 3168 5).
    pub(crate) fn is_marked(&self) -> bool {
        self.mark == 0b11
    }

    /// The number of packets that it is on the wire.
    pub(crate) fn packets(&self) -> u32 {
        self.packets_of(self.payload as usize)
    }

    /// The same if it has `len` bytes of data.
    pub(crate) fn packets_of(&self, len: usize) -> u32 {
        match self.segsz {
            0 => 1,
            each => (len as u32).div_ceil(each.into()).max(1),
        }
    }

    /// The data of each packet that it was on the wire, if it has `len` bytes of data.
    #[inline]
    pub(crate) fn piece_len(&self, len: usize) -> u16 {
        match self.segsz {
            0 => u16::try_from(len).unwrap_or(u16::MAX),
            each => each,
        }
    }

    /// The length in sequence space: data, SYN and FIN.
    pub(crate) fn len(&self) -> u32 {
        let syn = u32::from(self.has(TcpFlags::SYN));
        let fin = u32::from(self.has(TcpFlags::FIN));
        self.data.len() as u32 + syn + fin
    }
}

/// The header after `ip_len` bytes of IP's.
#[inline]
fn header(packet: &mut Packet, ip_len: usize) -> Option<TcpView<'_>> {
    let bytes = packet.pullup(ip_len + TcpHeader::LEN).ok()?;
    // The data offset determines how much must be contiguous before the options are parsed.
    let len = usize::from(*bytes.get(ip_len + 12)? >> 4) * 4;
    let bytes = packet.pullup(ip_len + len.max(TcpHeader::LEN)).ok()?;
    let view = TcpHeader::parse(bytes.get(ip_len..)?).ok()?;
    // No program has port 0 (RFC 9293 3.1 excludes it), so a reply would reach none.
    (view.dst_port() != 0 && view.src_port() != 0).then_some(view)
}

fn verify_checksum<A: Address>(packet: &Packet, from: &Addressed<'_, A>) -> Result<(), DropReason> {
    if packet.header().csum.contains(Csum::L4_VALID) {
        return Ok(());
    }
    let len = packet.len().saturating_sub(from.ip.header_len);
    let mut sum = A::pseudo_header(from.src, from.dst, IpProto::TCP, len as u32);
    packet
        .segments_from(from.ip.header_len)
        .for_each(|s| sum.add_bytes(s));
    if sum.is_valid() {
        Ok(())
    } else {
        Err(DropReason::TcpBadChecksum)
    }
}

/// A segment to be sent.
#[derive(Debug)]
pub(crate) struct SegmentFields {
    pub(crate) ends: Ends,
    /// The hash of the connection's flow, or 0 without a connection.
    pub(crate) flow: u32,
    pub(crate) header: TcpFields,
    /// The size of the pieces if a device must cut this segment; 0 if it is one piece.
    pub(crate) segsz: u16,
    /// The traffic class of the IP header, with the bits of ECN.
    pub(crate) tos: u8,
    /// Its time to live; 0 for the stack's.
    pub(crate) ttl: u8,
    /// Routers may fragment it.
    pub(crate) may_fragment: bool,
}

/// The payload of a segment.
pub(crate) enum Payload {
    /// Bytes of the send buffer, by reference.
    Shared(Chain),
    /// Few bytes, in the packet's first mbuf, with room for headers before them.
    Copied(Packet),
}

impl Payload {
    /// Nothing.
    pub(crate) fn none() -> Self {
        Self::Shared(Chain::new())
    }

    /// Bytes `off..off + len` of the send buffer, for a packet with `headers` bytes of headers.
    pub(crate) fn of(
        pool: &MbufPool,
        buf: &mut StreamBuf,
        off: usize,
        len: usize,
        headers: usize,
    ) -> Result<Self, NoBufs> {
        match buf.small_packet(pool, off, len, headers)? {
            Some(packet) => Ok(Self::Copied(packet)),
            None => Ok(Self::Shared(buf.share(off, len)?)),
        }
    }

    /// Pieces that the data lies in.
    pub(crate) fn pieces(&self) -> usize {
        match self {
            Self::Shared(chain) => chain.segments().count(),
            Self::Copied(_) => 1,
        }
    }

    /// A packet with room for headers. A segment without data may use the pool's reserve, unless it is a SYN:
    /// acknowledgements, window updates, FINs and resets let this host or the peer free memory.
    fn into_packet(self, pool: &MbufPool, flags: TcpFlags) -> Result<Packet, NoBufs> {
        match self {
            Self::Shared(chain) if chain.is_empty() && !flags.contains(TcpFlags::SYN) => {
                Packet::with_reserve(pool)
            }
            Self::Shared(chain) => Packet::before_chain(pool, chain),
            Self::Copied(packet) => Ok(packet),
        }
    }
}

/// Bytes of the headers of Ethernet, IP and TCP, with timestamps if they are on. SACK blocks use the remaining room or
/// another mbuf.
pub(crate) fn headers_usual(ends: &Ends, timestamps: bool) -> usize {
    let options = if timestamps { 12 } else { 0 };
    EtherHeader::LEN + network::tcp_headers_len(ends) as usize + options
}

/// Puts headers before `data` and hands the packet to IP. No cluster is copied. `route` is the connection's kept route,
/// if there is a connection.
pub(crate) fn send(
    batch: &mut Batch<'_>,
    out: &SegmentFields,
    data: Payload,
    route: Option<&mut RouteCache>,
) -> Result<(), DropReason> {
    let header_len = out.header.header_len();
    let mut packet = data
        .into_packet(&batch.stack.pool, out.header.flags)
        .map_err(|_| DropReason::NoBufs)?;
    // The pseudo-header's part of the checksum; a device, or `offload`, adds the rest.
    let len = header_len + packet.len();
    let partial = ip::pseudo_header(&out.ends, IpProto::TCP, len).partial();
    let emit = |header: &mut [u8]| {
        const SUM: Range<usize> = TcpHeader::CHECKSUM_OFFSET..TcpHeader::CHECKSUM_OFFSET + 2;
        out.header.emit(header);
        if let Some(field) = header.get_mut(SUM) {
            field.copy_from_slice(&partial.to_be_bytes());
        }
    };
    let h = packet.header_mut();
    h.csum |= Csum::TCP;
    h.l4_len = header_len as u8;
    h.tso_segsz = out.segsz;
    h.flow = flow(batch, out);
    let service = Service {
        tos: out.tos,
        ttl: out.ttl,
        df: !out.may_fragment,
        ..Service::of(IpProto::TCP)
    };
    batch.stack.tcp.counters.segments_out.inc();
    let upper = UpperHeader {
        len: header_len,
        emit,
    };
    let via = SendVia::Route(route);
    network::output(batch, packet, &out.ends, service, via, upper)
}

/// The hash of the flow. An answer without a connection computes it only if needed.
fn flow(batch: &Batch<'_>, out: &SegmentFields) -> u32 {
    let netisr = &batch.stack.netisr;
    match out.flow {
        0 if netisr.flows_matter() => netisr.flows().between(&out.ends),
        flow => flow,
    }
}
