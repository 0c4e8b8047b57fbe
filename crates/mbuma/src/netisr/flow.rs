//! The flow of a packet: a hash of its two ends.
//!
//! The hash is the same in both directions, so that a connection's segments leave by the queue by which they come in,
//! and are handled on one CPU. It is keyed, so that an attacker can't direct all of its flows to one CPU. Only a
//! datagram's first fragment has ports, so all fragments are hashed by their addresses alone, and so are packets of
//! protocols without ports, such as ICMP.
//!
//! Invariant: never 0, which means that none was computed.
//! Locks: none. Sources: RSS (Toeplitz hashes, which need no key to be aimed at), RFC 791 section 3.2.

use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};

use kern::{Cpu, Random, SeededState};
use mbuf::Packet;
use wire::{ArpPacket, IpProto, Ipv4Header, Ipv6Header};

use crate::ifnet::Ifnet;
use crate::inet::Ends;

/// A stack's key.
#[derive(Debug)]
pub(crate) struct Flows(SeededState);

impl Flows {
    pub(super) fn new(random: &mut Random) -> Self {
        Self(SeededState::new(random))
    }

    /// The flow between two ends, whichever is ours.
    pub(crate) fn between(&self, ends: &Ends) -> u32 {
        match ends {
            Ends::V4(pair) => self.hash((pair.local, pair.local_port), (pair.peer, pair.peer_port)),
            Ends::V6(pair, _) => {
                self.hash6((pair.local, pair.local_port), (pair.peer, pair.peer_port))
            }
        }
    }

    /// Like the flow of a connection, but steers it to the calling CPU's transmit queue if `ifp` has several queues
    /// and the caller is one of the stack's CPUs. A device that receives a flow by the queue by which it is sent (a
    /// TAP's kernel does) then keeps the whole connection on that CPU.
    pub(crate) fn of_connection(&self, ends: &Ends, ifp: &Ifnet, cpu: Cpu) -> u32 {
        keep(self.between(ends), ifp.queues.len(), cpu)
    }

    fn hash(&self, a: (Ipv4Addr, u16), b: (Ipv4Addr, u16)) -> u32 {
        let end = |(ip, port): (Ipv4Addr, u16)| u64::from(u32::from(ip)) << 16 | u64::from(port);
        let (a, b) = (end(a), end(b));
        let mut hasher = self.0.build_hasher();
        hasher.write(&a.min(b).to_le_bytes());
        hasher.write(&a.max(b).to_le_bytes());
        (hasher.finish() as u32).max(1)
    }

    /// The flow of a packet that begins with its IP header, which was not checked yet. A damaged packet gets any flow.
    pub(super) fn of_ip4(&self, packet: &Packet) -> u32 {
        let mut header = [0; Ipv4Header::LEN];
        packet.copy_to(0, &mut header);
        let addr = |at: usize| Ipv4Addr::from([0, 1, 2, 3].map(|i| header[at + i]));
        let (src_port, dst_port) = ports(packet, &header).unwrap_or((0, 0));
        self.hash((addr(12), src_port), (addr(16), dst_port))
    }

    fn hash6(&self, a: (Ipv6Addr, u16), b: (Ipv6Addr, u16)) -> u32 {
        let mut hasher = self.0.build_hasher();
        for (ip, port) in [a.min(b), a.max(b)] {
            hasher.write(&ip.octets());
            hasher.write(&port.to_le_bytes());
        }
        (hasher.finish() as u32).max(1)
    }

    /// The flow of a packet that begins with its IPv6 header. A packet with extension headers, such as a fragment, is
    /// hashed by its addresses alone.
    pub(super) fn of_ip6(&self, packet: &Packet) -> u32 {
        let mut bytes = [0; Ipv6Header::LEN];
        packet.copy_to(0, &mut bytes);
        let Ok(header) = Ipv6Header::parse(&bytes) else {
            return 1;
        };
        let mut ports = [0; 4];
        let has_ports = [IpProto::TCP, IpProto::UDP].contains(&header.next());
        if !has_ports || !packet.copy_to(Ipv6Header::LEN, &mut ports) {
            ports = [0; 4];
        }
        let [a, b, c, d] = ports;
        let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        self.hash6((header.src(), src), (header.dst(), dst))
    }

    /// The flow of a packet of either version.
    pub(super) fn of_ip(&self, packet: &Packet) -> u32 {
        match packet.front().first().map(|first| first >> 4) {
            Some(6) => self.of_ip6(packet),
            _ => self.of_ip4(packet),
        }
    }

    /// The flow of an ARP packet: all packets of one sender have the same.
    pub(super) fn of_arp(&self, packet: &Packet) -> u32 {
        const SENDER: usize = 14;
        const _: () = assert!(SENDER + 4 <= ArpPacket::LEN);
        let mut sender = [0; 4];
        packet.copy_to(SENDER, &mut sender);
        self.hash((sender.into(), 0), (sender.into(), 0))
    }
}

/// `flow`, or, if there are several queues and `cpu` is one of the stack's, a hash near it that selects that CPU's
/// queue.
pub(crate) fn keep(flow: u32, queues: usize, cpu: Cpu) -> u32 {
    match queues {
        n @ 2.. if cpu.is_own => kept_to(flow, n as u32, (cpu.index % n) as u32),
        _ => flow,
    }
}

/// A hash near `flow`, not 0, whose remainder by `n` is `rest`.
fn kept_to(flow: u32, n: u32, rest: u32) -> u32 {
    let base = (flow - flow % n).min(u32::MAX - n);
    let base = base - base % n;
    if base + rest == 0 { n } else { base + rest }
}

/// The ports of a packet that has ports and is no fragment.
fn ports(packet: &Packet, header: &[u8; Ipv4Header::LEN]) -> Option<(u16, u16)> {
    // More fragments, or an offset.
    let fragment = header[6] & 0x3f | header[7] != 0;
    let has_ports = [IpProto::TCP, IpProto::UDP].contains(&IpProto(header[9]));
    let len = usize::from(header[0] & 0x0f) * 4;
    let mut ports = [0; 4];
    (!fragment && has_ports && packet.copy_to(len, &mut ports)).then(|| {
        let [a, b, c, d] = ports;
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    })
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use mbuf::{Chain, MbufPool, PoolConfig};

    use super::*;

    /// The bytes of a packet, followed by these.
    fn packet(pool: &MbufPool, header: &[u8], rest: &[u8]) -> Packet {
        let bytes = [header, rest].concat();
        Packet::under_headers(pool, Chain::from_slice(pool, &bytes).unwrap(), 0).unwrap()
    }

    #[test]
    fn options_and_headers_of_others_are_no_ports() {
        // Breaks when IP options make two flows of one, which two CPUs then handle; or when ICMPv6, or a header behind
        // IPv6's, is taken for ports: the fragments of one datagram would go to several CPUs.
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let flows = Flows::new(&mut Random::from_seed(1));
        let (ports, other) = ([0, 7, 0, 9], [1, 1, 1, 0]);
        let plain = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0][..], &[10; 8]].concat();
        let long = [&[0x46], &plain[1..], &other].concat();
        let of_ip4 = |header: &[u8]| flows.of_ip4(&packet(&pool, header, &ports));
        assert_eq!(of_ip4(&long), of_ip4(&plain));
        for next in [44, 58] {
            let header = [&[0x60, 0, 0, 0, 0, 4, next, 64][..], &[7; 32]].concat();
            let of_ip6 = |rest: &[u8]| flows.of_ip6(&packet(&pool, &header, rest));
            assert_eq!(of_ip6(&ports), of_ip6(&other), "{next}");
        }
    }

    #[test]
    fn a_flow_is_kept_to_its_queue_and_never_0() {
        // Breaks when a connection leaves by another queue than its CPU's, or counts as one without a hash.
        for n in [2, 3, 7, 64] {
            for flow in [1, 2, n - 1, n, 1 << 31, u32::MAX - 1, u32::MAX] {
                for rest in 0..n {
                    let kept = kept_to(flow, n, rest);
                    assert!(kept != 0 && kept % n == rest, "{flow} {n} {rest}: {kept}");
                }
            }
        }
    }
}
