//! A network card's offloads on the way out: cuts large TCP packets, fills in checksums.
//!
//! It works on plain bytes and shares no code with the stack's own software path, so that each checks the other.
//!
//! Sources: RFC 1071, RFC 9293; RFC 3168 6.1.2 for CWR.

use std::collections::VecDeque;

use mbuf::Csum;
use wire::{
    IpProto, Ipv4Header, Ipv6Header, Ipv6Jumbo, TcpFlags, TcpHeader, UdpHeader, pseudo_header_v4,
    pseudo_header_v6,
};

use crate::frame::Frame;

/// Appends the frames that the card sends for `frame`. `None` if the frame's header contradicts its bytes.
pub(crate) fn finish(frame: &Frame, out: &mut VecDeque<Frame>) -> Option<()> {
    if frame.tso_segsz != 0 {
        return cut(frame, out);
    }
    let mut bytes = frame.bytes.clone();
    if frame.csum.intersects(Csum::TCP | Csum::UDP) {
        complete(&mut bytes, frame)?;
    }
    out.push_back(Frame::new(bytes));
    Some(())
}

/// Adds all bytes behind the IP header to the sum that is in the field already.
fn complete(bytes: &mut [u8], frame: &Frame) -> Option<()> {
    let l4 = usize::from(frame.l2_len) + usize::from(frame.l3_len);
    let udp = frame.csum.contains(Csum::UDP);
    let field = if udp {
        UdpHeader::CHECKSUM_OFFSET
    } else {
        TcpHeader::CHECKSUM_OFFSET
    };
    let mut sum = wire::Checksum::new();
    sum.add_bytes(bytes.get(l4..)?);
    let sum = if udp {
        sum.finish_nonzero()
    } else {
        sum.finish()
    };
    bytes
        .get_mut(l4 + field..l4 + field + 2)?
        .copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// The version of IP, if the packet has more bytes than its length field can say.
pub(crate) fn large_version(frame: &Frame) -> Option<u8> {
    let packet = frame.bytes.get(usize::from(frame.l2_len)..)?;
    let version = packet.first()? >> 4;
    let counted = match version {
        6 => packet.len().checked_sub(Ipv6Header::LEN)?,
        _ => packet.len(),
    };
    (frame.tso_segsz != 0 && u16::try_from(counted).is_err()).then_some(version)
}

/// Makes a packet of more bytes than the length field can say a jumbogram, which says it in an option; other packets
/// stay as they are. `None` if the packet's header contradicts its bytes, or if its version of IP has no such option.
pub(crate) fn with_its_length(frame: &mut Frame) -> Option<()> {
    match large_version(frame) {
        None => return Some(()),
        Some(6) => {}
        Some(_) => return None,
    }
    let ip_at = usize::from(frame.l2_len);
    if !has_its_length(frame.bytes.get(ip_at..)?) {
        return None;
    }
    let behind = ip_at + Ipv6Header::LEN;
    let len = frame.bytes.len() - behind + Ipv6Jumbo::LEN;
    let ip = Ipv6Header::parse_mut(frame.bytes.get_mut(ip_at..)?).ok()?;
    let mut option = [0; Ipv6Jumbo::LEN];
    Ipv6Jumbo::new(ip.next(), u32::try_from(len).ok()?).emit(&mut option);
    ip.set_next(IpProto::HOP_BY_HOP);
    frame.bytes.splice(behind..behind, option);
    frame.l3_len += Ipv6Jumbo::LEN as u8;
    Some(())
}

/// Whether the length field is that of the packet, or 0 if the packet is too long for it (BIG TCP).
fn has_its_length(packet: &[u8]) -> bool {
    // Not by `parse`, for which a packet of length 0 has no room for its header.
    let (counted, field) = match packet.first().map(|byte| byte >> 4) {
        Some(6) => (
            packet.len().saturating_sub(Ipv6Header::LEN),
            packet.get(4..6),
        ),
        Some(4) => (packet.len(), packet.get(2..4)),
        _ => return false,
    };
    let expected = u16::try_from(counted).unwrap_or(0).to_be_bytes();
    field == Some(&expected[..])
}

/// One frame for every `tso_segsz` bytes of payload.
fn cut(frame: &Frame, out: &mut VecDeque<Frame>) -> Option<()> {
    let (l2, l3) = (usize::from(frame.l2_len), usize::from(frame.l3_len));
    if !has_its_length(frame.bytes.get(l2..)?) {
        return None;
    }
    let tcp = TcpHeader::parse(frame.bytes.get(l2 + l3..)?).ok()?;
    let (seq, flags) = (tcp.seq(), tcp.flags());
    let (headers, payload) = frame.bytes.split_at_checked(l2 + l3 + tcp.header_len())?;
    let pieces = payload.chunks(usize::from(frame.tso_segsz));
    let last = pieces.len().checked_sub(1)?;
    for (i, piece) in pieces.enumerate() {
        let mut bytes = [headers, piece].concat();
        describe(bytes.get_mut(l2..)?, i as u16)?;
        let tcp = TcpHeader::parse_mut(bytes.get_mut(l2 + l3..)?).ok()?;
        tcp.set_seq(seq + (i * usize::from(frame.tso_segsz)) as u32);
        let mut flags = flags;
        flags.set(TcpFlags::CWR, i == 0 && flags.contains(TcpFlags::CWR));
        if i != last {
            flags -= TcpFlags::FIN | TcpFlags::PSH;
        }
        tcp.set_flags(flags);
        tcp.set_checksum(0);
        let sum = tcp_checksum(&bytes, l2, l3)?;
        TcpHeader::parse_mut(bytes.get_mut(l2 + l3..)?)
            .ok()?
            .set_checksum(sum);
        out.push_back(Frame::new(bytes));
    }
    Some(())
}

/// Makes the header of a whole packet that of its piece number `i`.
fn describe(packet: &mut [u8], i: u16) -> Option<()> {
    let len = packet.len();
    if let Ok(ip) = Ipv6Header::parse(packet) {
        debug_assert_eq!(ip.next(), IpProto::TCP);
        let ip = Ipv6Header::parse_mut(packet).ok()?;
        ip.set_payload_len(u16::try_from(len - Ipv6Header::LEN).ok()?);
        return Some(());
    }
    let ip = Ipv4Header::parse_mut(packet).ok()?;
    ip.set_total_len(u16::try_from(len).ok()?);
    ip.set_id(ip.id().wrapping_add(i));
    Ipv4Header::fill_checksum(packet).ok()?;
    Some(())
}

/// The checksum of a TCP segment whose field is zero.
pub(crate) fn tcp_checksum(bytes: &[u8], l2: usize, l3: usize) -> Option<u16> {
    let packet = bytes.get(l2..)?;
    let segment = bytes.get(l2 + l3..)?;
    let len = segment.len() as u32;
    let mut sum = match Ipv6Header::parse(packet) {
        Ok(ip) => pseudo_header_v6(ip.src(), ip.dst(), IpProto::TCP, len),
        Err(_) => {
            let ip = Ipv4Header::parse(packet).ok()?;
            pseudo_header_v4(ip.src(), ip.dst(), IpProto::TCP, len)
        }
    };
    sum.add_bytes(segment);
    Some(sum.finish())
}
