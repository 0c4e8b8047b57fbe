//! A frame with a TCP segment, and what must be the same in all frames of a merge.

use mbuf::{Csum, Packet};
use wire::{
    Checksum, EtherHeader, EtherType, IpProto, Ipv4Header, Ipv6Header, ParseError, SeqNum,
    TcpFlags, TcpHeader, TcpOptions, TcpView,
};

use crate::device::Medium;
use crate::ifnet::Ifnet;
use crate::inet::{Ends, Pair};
use crate::ip;

/// Bytes of data at least: shorter segments hardly come in numbers, and a device may refuse to cut such pieces again.
pub(super) const DATA_MIN: usize = 64;

/// A segment of TCP in a frame for this station.
pub(super) struct SegmentFrame {
    pub(super) ends: Ends,
    pub(super) seq: SeqNum,
    /// Bytes of all headers, and behind them of data.
    pub(super) headers: usize,
    pub(super) data: usize,
    pub(super) push: bool,
    /// `None` if it must stay alone.
    pub(super) agreed: Option<Agreed>,
}

/// The fields in which the segments of a merge agree, with their connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) layout: Layout,
    tos: u8,
    ttl: u8,
    flow_label: u32,
    /// Without PSH.
    flags: TcpFlags,
    ack: SeqNum,
    window: u16,
    timestamps: Option<(u32, u32)>,
}

/// Where the headers lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    is_ip6: bool,
    l3: u8,
    l4: u8,
}

/// The fields of an IP header.
struct Ip {
    is_ip6: bool,
    header_len: usize,
    tos: u8,
    ttl: u8,
    /// 0 over IPv4.
    flow_label: u32,
    may_fragment: bool,
}

impl SegmentFrame {
    /// The segment in a frame; `None` if there is none that can be merged with others, or precede these.
    #[inline]
    pub(super) fn of(ifp: &Ifnet, frame: &mut Packet) -> Option<Self> {
        let bytes = frame.front();
        let l3 = link_len(ifp, bytes)?;
        let (bytes, len) = (bytes.get(l3..)?, frame.len() - l3);
        let trusted = frame.header().csum.contains(Csum::IP_VALID);
        let (ip, tcp, ends) = match bytes.first()? >> 4 {
            4 => v4(bytes, len, trusted)?,
            6 => v6(bytes, len, ifp)?,
            _ => return None,
        };
        let layout = Layout {
            is_ip6: ip.is_ip6,
            l3: l3 as u8,
            l4: (l3 + ip.header_len) as u8,
        };
        let headers = layout.l4() + tcp.header_len();
        let data = frame.len().checked_sub(headers)?;
        let agreed = Agreed::of(layout, &ip, &tcp);
        let (seq, push) = (tcp.seq(), tcp.flags().contains(TcpFlags::PSH));
        let mut piece = Self {
            ends,
            seq,
            headers,
            data,
            push,
            agreed,
        };
        if data < DATA_MIN || frame.header().tso_segsz != 0 || !piece.is_whole(frame) {
            piece.agreed = None;
        }
        Some(piece)
    }

    /// Whether the headers can be changed, and the checksum is right; it is then not verified again.
    fn is_whole(&self, frame: &mut Packet) -> bool {
        let Some(agreed) = &self.agreed else {
            return false;
        };
        if frame.header().csum.contains(Csum::L4_VALID) {
            return frame.front_mut().is_some();
        }
        let l4 = agreed.layout.l4();
        let mut sum = ip::pseudo_header(&self.ends, IpProto::TCP, frame.len() - l4);
        frame.segments_from(l4).for_each(|s| sum.add_bytes(s));
        let is_valid = sum.is_valid();
        if is_valid {
            frame.header_mut().csum |= Csum::L4_VALID;
        }
        is_valid && frame.front_mut().is_some()
    }
}

impl Agreed {
    /// `None` for a segment whose meaning is not only that of its data, and with options that need not be the same in
    /// the next.
    fn of(layout: Layout, ip: &Ip, tcp: &TcpView<'_>) -> Option<Self> {
        const ALONE: TcpFlags = TcpFlags::SYN
            .union(TcpFlags::FIN)
            .union(TcpFlags::RST)
            .union(TcpFlags::URG);
        let flags = tcp.flags();
        if flags.intersects(ALONE) || !flags.contains(TcpFlags::ACK) || ip.may_fragment {
            return None;
        }
        let options = tcp.option_bytes();
        let timestamps = TcpOptions::timestamps_alone(options);
        (options.is_empty() || timestamps.is_some()).then_some(Self {
            layout,
            tos: ip.tos,
            ttl: ip.ttl,
            flow_label: ip.flow_label,
            flags: flags - TcpFlags::PSH,
            ack: tcp.ack(),
            window: tcp.window(),
            timestamps,
        })
    }
}

impl Layout {
    pub(super) fn l3(self) -> usize {
        usize::from(self.l3)
    }

    pub(super) fn l4(self) -> usize {
        usize::from(self.l4)
    }

    /// Makes the headers of a first piece those of a packet of `len` bytes of IP, its checksum left to a device.
    pub(super) fn rewrite(
        self,
        bytes: &mut [u8],
        len: usize,
        push: bool,
        sum: Checksum,
    ) -> Result<(), ParseError> {
        let (_, ip) = bytes.split_at_mut(self.l3());
        if self.is_ip6 {
            Ipv6Header::parse_mut(ip)?.set_payload_len((len - Ipv6Header::LEN) as u16);
        } else {
            Ipv4Header::parse_mut(ip)?.set_total_len(len as u16);
            Ipv4Header::fill_checksum(ip)?;
        }
        let (_, l4) = ip.split_at_mut(self.l4() - self.l3());
        let tcp = TcpHeader::parse_mut(l4)?;
        tcp.set_checksum(sum.partial());
        if push {
            tcp.set_flags(tcp.flags() | TcpFlags::PSH);
        }
        Ok(())
    }
}

/// Bytes of link header of a frame for this station; `None` if it is for another, or not of IP.
#[inline]
fn link_len(ifp: &Ifnet, bytes: &[u8]) -> Option<usize> {
    let link = match ifp.medium {
        Medium::Ip => return Some(0),
        Medium::Ethernet => EtherHeader::parse(bytes).ok()?.0,
    };
    let version = bytes.get(EtherHeader::LEN)? >> 4;
    let is_ip = match link.ethertype() {
        EtherType::IPV4 => version == 4,
        EtherType::IPV6 => version == 6 && ifp.has_ip6(),
        _ => false,
    };
    (is_ip && link.dst == ifp.mac).then_some(EtherHeader::LEN)
}

/// The headers of a packet of `len` bytes, without options, and not a fragment.
#[inline]
fn v4(bytes: &[u8], len: usize, trusted: bool) -> Option<(Ip, TcpView<'_>, Ends)> {
    let view = Ipv4Header::parse(bytes).ok()?;
    let is_plain = view.header_len() == Ipv4Header::LEN && !view.is_fragment();
    let is_tcp = view.protocol() == IpProto::TCP && view.total_len() == len;
    if !is_plain || !is_tcp || !(trusted || view.checksum_ok()) {
        return None;
    }
    let tcp = TcpHeader::parse(bytes.get(Ipv4Header::LEN..)?).ok()?;
    let ends = Ends::V4(Pair {
        local: view.dst(),
        peer: view.src(),
        local_port: tcp.dst_port(),
        peer_port: tcp.src_port(),
    });
    let ip = Ip {
        is_ip6: false,
        header_len: Ipv4Header::LEN,
        tos: view.tos(),
        ttl: view.ttl(),
        flow_label: 0,
        // Ids of such packets matter (RFC 6864 4), and those of the pieces are lost.
        may_fragment: !view.df(),
    };
    Some((ip, tcp, ends))
}

/// The same for IPv6, without extension headers.
#[inline]
fn v6<'a>(bytes: &'a [u8], len: usize, ifp: &Ifnet) -> Option<(Ip, TcpView<'a>, Ends)> {
    let view = Ipv6Header::parse(bytes).ok()?;
    if view.next() != IpProto::TCP || view.payload_len() + Ipv6Header::LEN != len {
        return None;
    }
    let tcp = TcpHeader::parse(bytes.get(Ipv6Header::LEN..)?).ok()?;
    let pair = Pair {
        local: view.dst(),
        peer: view.src(),
        local_port: tcp.dst_port(),
        peer_port: tcp.src_port(),
    };
    let ip = Ip {
        is_ip6: true,
        header_len: Ipv6Header::LEN,
        tos: view.class(),
        ttl: view.hop_limit(),
        flow_label: view.flow_label(),
        may_fragment: false,
    };
    Some((ip, tcp, Ends::V6(pair, ifp.index.0)))
}
