//! Sockets that share a port: who gets the datagrams to groups, broadcasts and one address, over both versions of IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::net::*;
use crate::connected::HOSTS;
use crate::frames6::{PEER6, US6, frame6, lab};
use mbuma::socket::{BindError, Datagram};
use mbuma::{DropReason, UdpSocket};
use wire::{IpProto, Ipv6Fields, UdpHeader, pseudo_header_v6};

const PORT: u16 = 5353;
const ANY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];
const GROUPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)),
    IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 2)),
];
const SENDERS: [IpAddr; 2] = [IpAddr::V4(PEER), IpAddr::V6(PEER6)];
/// The broadcast address of the lab's network.
const OF_NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 255);

fn shared(lab: &Lab, version: usize) -> UdpSocket {
    lab.stack.udp_bind_shared((ANY[version], PORT)).unwrap()
}

/// A frame with a datagram of the peer's.
fn frame(dst: IpAddr, payload: &[u8]) -> Vec<u8> {
    let dst = match dst {
        IpAddr::V4(dst) => return udp_frame(4000, at(dst, PORT), payload),
        IpAddr::V6(dst) => dst,
    };
    let len = (UdpHeader::LEN + payload.len()) as u16;
    let mut header = UdpHeader::new(4000, PORT, len);
    let mut datagram = vec![0; UdpHeader::LEN];
    header.emit(&mut datagram);
    datagram.extend_from_slice(payload);
    let mut sum = pseudo_header_v6(PEER6, dst, IpProto::UDP, u32::from(len));
    sum.add_bytes(&datagram);
    header.set_checksum(sum.finish_nonzero());
    header.emit(&mut datagram);
    let fields = Ipv6Fields {
        next: IpProto::UDP,
        src: PEER6,
        dst,
        ..Ipv6Fields::default()
    };
    frame6(&fields, &datagram)
}

/// How many datagrams wait at each socket, which are taken.
fn waiting<const N: usize>(sockets: [&UdpSocket; N]) -> [usize; N] {
    sockets.map(|socket| std::iter::from_fn(|| socket.recv().ok()).count())
}

/// The place of the first byte in memory.
fn place(datagram: &Datagram) -> *const u8 {
    let first = datagram.payload.segments().next();
    first.map_or(std::ptr::null(), <[u8]>::as_ptr)
}

#[test]
fn each_member_of_a_group_gets_its_own_copy_by_reference() {
    // RFC 1112 section 7.1, POSIX's and BSD's SO_REUSEPORT: breaks if only one of several members hears a group, one
    // that has not joined hears it too, a member's filter stops the others, the payload is copied, or a packet counts
    // twice.
    for version in [0, 1] {
        let (lab, group) = (lab(), GROUPS[version]);
        let all: Vec<_> = (0..4).map(|_| shared(&lab, version)).collect();
        let [a, b, c, outsider] = &all[..] else {
            panic!()
        };
        for member in [a, b, c] {
            member.join_group(lab.iface, group).unwrap();
        }
        c.block_source(lab.iface, group, SENDERS[version]).unwrap();
        let before = lab.stack.stats();
        let payload = pattern_bytes(1400);
        lab.give(&frame(group, &payload));
        let [first, second] = [a, b].map(|member| member.recv().unwrap());
        assert_eq!(first.payload.to_vec(), payload);
        assert_eq!(second.payload.to_vec(), payload);
        assert_eq!(place(&first), place(&second), "the same bytes");
        assert_eq!(waiting([a, b, c, outsider]), [0; 4]);
        let after = lab.stack.stats();
        assert_eq!(after.received - before.received, 1);
        assert_eq!(
            (after.delivered - before.delivered, after.dropped),
            (1, before.dropped)
        );
        drop(first);
        assert_eq!(second.payload.to_vec(), payload);
        drop(second);
        a.block_source(lab.iface, group, SENDERS[version]).unwrap();
        b.leave_group(lab.iface, group).unwrap();
        lab.give(&frame(group, &payload));
        assert_eq!(waiting([a, b, c, outsider]), [0; 4]);
        assert_eq!(lab.dropped(DropReason::UdpFiltered), 1);
        drop(all);
        lab.give(&frame(group, &payload));
    }
}

#[test]
fn a_full_queue_takes_a_datagram_from_no_other_member() {
    // Breaks if one reader that sleeps stops the others, or a packet that nothing took counts as delivered.
    for version in [0, 1] {
        let lab = Lab::new(Setup {
            addrs: vec![mbuma::IfAddr::new(US6, 64)],
            tune: |c| c.udp_queue_max = 2,
            ..Setup::default()
        });
        let (asleep, awake) = (shared(&lab, version), shared(&lab, version));
        for member in [&asleep, &awake] {
            member.join_group(lab.iface, GROUPS[version]).unwrap();
        }
        let tick = || lab.give(&frame(GROUPS[version], b"tick"));
        for _ in 0..4 {
            tick();
            assert_eq!(waiting([&awake]), [1]);
        }
        assert_eq!(lab.dropped(DropReason::UdpQueueFull), 0);
        (0..3).for_each(|_| tick());
        assert_eq!(lab.dropped(DropReason::UdpQueueFull), 1);
        assert_eq!(waiting([&asleep, &awake]), [2, 2]);
    }
}

#[test]
fn sockets_that_share_a_port_share_its_senders() {
    // SO_REUSEPORT of Linux, SO_REUSEPORT_LB of FreeBSD: breaks if one of a server's sockets gets the datagrams of all
    // senders, or those of one sender come to two.
    for (version, us) in HOSTS.into_iter().enumerate() {
        let lab = lab();
        let all = [(); 4].map(|()| shared(&lab, version));
        let mut senders = [0; 4];
        for port in 1..=64 {
            let sender = lab.stack.udp_bind((us, port)).unwrap();
            for _ in 0..2 {
                sender.send_to(b"x", (us, PORT)).unwrap();
                lab.stack.poll();
            }
            let got = waiting(all.each_ref());
            let place = got.iter().position(|n| *n == 2);
            senders[place.expect("one has both")] += 1;
        }
        assert!(senders.iter().all(|n| *n > 0), "{senders:?}");
    }
}

#[test]
fn a_port_is_shared_only_by_sockets_that_all_say_so() {
    // Breaks if a program's datagrams go to a later one that it did not allow, or its port stays taken after it.
    for version in [0, 1] {
        let lab = lab();
        let us: [IpAddr; 2] = [US.into(), US6.into()];
        let alone = lab.stack.udp_bind((ANY[version], PORT)).unwrap();
        let taken = |addr: IpAddr| lab.stack.udp_bind_shared((addr, PORT)).err();
        assert_eq!(taken(ANY[version]), Some(BindError::AddrInUse));
        assert_eq!(taken(us[version]), Some(BindError::AddrInUse));
        drop(alone);
        let first = shared(&lab, version);
        let bound = lab.stack.udp_bind((us[version], PORT));
        assert_eq!(bound.err(), Some(BindError::AddrInUse));
        // Of those that match, the closest one gets what is for one address, and of equal ones one.
        let (second, close) = (
            shared(&lab, version),
            lab.stack.udp_bind_shared((us[version], PORT)),
        );
        let close = close.unwrap();
        let tick = || lab.give(&frame(us[version], b"tick"));
        tick();
        assert_eq!(waiting([&first, &second, &close]), [0, 0, 1]);
        drop(close);
        tick();
        assert_eq!(waiting([&first, &second]).iter().sum::<usize>(), 1);
        drop(second);
        tick();
        assert_eq!(waiting([&first]), [1]);
        // Each costs work for a datagram to a group.
        let more: Vec<_> = (1..256).map(|_| shared(&lab, version)).collect();
        assert_eq!(taken(ANY[version]), Some(BindError::AddrInUse));
        drop((first, more));
        drop(shared(&lab, version));
    }
}

#[test]
fn broadcasts_reach_each_socket_here_and_there() {
    // RFC 1122 section 3.3.6, BSD's IFF_SIMPLEX: breaks if a broadcast reaches one socket of several, none of its own
    // host's, sockets of other ports or of IPv6, or the other hosts twice or not at all.
    let lab = lab();
    let sockets = [shared(&lab, 0), shared(&lab, 0)];
    let ([a, b], six) = (&sockets, shared(&lab, 1));
    let other = lab
        .stack
        .udp_bind((Ipv4Addr::UNSPECIFIED, PORT + 1))
        .unwrap();
    for dst in [Ipv4Addr::BROADCAST, OF_NETWORK] {
        lab.give(&frame(dst.into(), b"tick"));
        assert_eq!(
            waiting([a, b, &other, &six]),
            [1, 1, 0, 0],
            "{dst} from there"
        );
        for sender in [a, &other] {
            let own = at(US, sender.local_addr().port());
            sender.send_from(b"tick", own, at(dst, PORT)).unwrap();
            let [heard, _] = [a, b].map(|socket| {
                let datagram = socket.recv().unwrap();
                assert_eq!(datagram.payload.to_vec(), b"tick");
                datagram
            });
            assert_eq!(heard.src, own.into());
            assert_eq!(heard.dst, (dst, PORT).into());
            assert_eq!(
                waiting([a, b, &other, &six]),
                [0; 4],
                "{dst} from here, once"
            );
            let (src, to, payload) = parse_udp(&lab.frame());
            assert_eq!(
                (src.port(), to, &*payload),
                (heard.src.port(), at(dst, PORT), &b"tick"[..])
            );
        }
    }
    // In fragments too.
    let large = pattern_bytes(4000);
    let own = at(US, PORT + 1);
    other
        .send_from(&large[..], own, at(Ipv4Addr::BROADCAST, PORT))
        .unwrap();
    for socket in [a, b] {
        assert_eq!(socket.recv().unwrap().payload.to_vec(), large);
    }
    assert_eq!(lab.all_frames().len(), 3);
}

#[test]
fn sockets_that_share_nothing_have_no_bound() {
    // Breaks if the bound of sockets that share a port also counts those that have it on an address of their own.
    let addrs: Vec<Ipv4Addr> = (0..300u32)
        .map(|i| Ipv4Addr::from(0x0a09_0001 + i))
        .collect();
    let lab = lab();
    for addr in &addrs {
        lab.stack.add_address(lab.iface, *addr, 32).unwrap();
    }
    let bound: Result<Vec<_>, _> = addrs
        .iter()
        .map(|addr| lab.stack.udp_bind((*addr, PORT)))
        .collect();
    assert_eq!(bound.map(|all| all.len()), Ok(300));
}
