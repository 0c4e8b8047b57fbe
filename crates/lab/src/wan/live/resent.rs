//! Data that is sent again, as the link sees it: so it is counted alike for every stack.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use wire::{EtherHeader, EtherType, IpProto, Ipv4Header, SeqNum, TcpFlags, TcpHeader};

/// The flows of a link in one direction, by the address and port of the sender.
#[derive(Debug, Default)]
pub(super) struct ResentCount {
    /// Where the data ends that each has sent.
    sent: HashMap<(Ipv4Addr, u16), SeqNum>,
    resent: u64,
}

impl ResentCount {
    /// Segments that began with a byte that had been sent before.
    pub(super) fn get(&self) -> u64 {
        self.resent
    }

    /// Notes a frame that an end sends.
    pub(super) fn note(&mut self, frame: &[u8]) {
        let Some((sender, seq, len)) = data_of(frame) else {
            return;
        };
        let end = self.sent.entry(sender).or_insert(seq);
        self.resent += u64::from(seq.before(*end));
        *end = end.max(seq + len);
    }
}

/// The sender of a TCP segment with data, the first sequence number of its data and their number.
fn data_of(frame: &[u8]) -> Option<((Ipv4Addr, u16), SeqNum, u32)> {
    let (ether, packet) = EtherHeader::parse(frame).ok()?;
    let ip = Ipv4Header::parse(packet).ok()?;
    if ether.ethertype() != EtherType::IPV4 || ip.protocol() != IpProto::TCP {
        return None;
    }
    let segment = packet.get(ip.header_len()..ip.total_len())?;
    let tcp = TcpHeader::parse(segment).ok()?;
    let len = segment.len().checked_sub(tcp.header_len())? as u32;
    let syn = u32::from(tcp.flags().contains(TcpFlags::SYN));
    (len > 0).then_some(((ip.src(), tcp.src_port()), tcp.seq() + syn, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_before_the_end_is_sent_again() {
        // Breaks when new data, an acknowledgement or another flow's data counts, or a repair does not.
        let frame = |port: u16, seq: u32, len: usize| {
            let mut frame = vec![0; 54 + len];
            frame[12..14].copy_from_slice(&[8, 0]);
            frame[14] = 0x45;
            frame[16..18].copy_from_slice(&(40 + len as u16).to_be_bytes());
            frame[23] = 6;
            frame[34..36].copy_from_slice(&port.to_be_bytes());
            frame[38..42].copy_from_slice(&seq.to_be_bytes());
            frame[46] = 0x50;
            frame
        };
        let mut count = ResentCount::default();
        for (port, seq, len, resent) in [
            (1, u32::MAX - 9, 20, 0),
            (1, 10, 20, 0),
            (1, 10, 0, 0),
            (2, 0, 20, 0),
            (1, u32::MAX - 9, 20, 1),
            (1, 30, 20, 1),
        ] {
            count.note(&frame(port, seq, len));
            assert_eq!(count.get(), resent, "{port}, {seq}, {len}");
        }
    }
}
