//! Several datagrams in a call, and several received at once, over both versions of IP.

use std::net::SocketAddr;

use crate::common::net::*;
use crate::connected::{HOSTS, bind};
use crate::fragment6::too_big;
use crate::frames6::{PEER6, US6, introduce6, introduced, lab, parse6};
use mbuf::Csum;
use mbuma::device::Capabilities;
use mbuma::socket::SendError;
use mbuma::{IfAddr, UdpSocket};
use wire::Ipv4Header;

#[test]
fn a_device_gets_several_datagrams_as_one_packet() {
    // Breaks if a device that cuts datagrams gets them one by one, or with another sum than that of the pseudo header,
    // or if one that does not gets datagrams of other lengths. RFC 6864 4.1: or if routers may fragment them, whose ids
    // come again.
    for (v6, whole) in [(false, true), (false, false), (true, true), (true, false)] {
        let caps = match whole {
            true => Capabilities::whole(1500),
            false => Capabilities::plain(1500),
        };
        let lab = Lab::new(Setup {
            caps,
            addrs: vec![IfAddr::new(US6, 64)],
            ..Setup::default()
        });
        if v6 {
            introduce6(&lab);
        }
        let peer = SocketAddr::new(if v6 { PEER6.into() } else { PEER.into() }, 9);
        let socket = bind(&lab.stack, HOSTS[usize::from(v6)], 7);
        let data = pattern_bytes(2600);
        for _ in 0..2 {
            // The second time by the kept route.
            socket.send_segmented(&data, 1000, peer).unwrap();
        }
        let packets = lab.packets();
        let headers = 14 + if v6 { 40 } else { 20 } + 8;
        let payloads: Vec<_> = packets
            .iter()
            .map(|p| p.to_vec()[headers..].to_vec())
            .collect();
        if !v6 {
            let bytes = packets[1].to_vec();
            assert!(Ipv4Header::parse(&bytes[14..]).unwrap().df());
        }
        if whole {
            let meta = packets[1].header();
            assert_eq!(meta.tso_segsz, 1000);
            assert!(meta.csum.contains(Csum::UDP));
            assert_eq!(payloads, [&data[..], &data[..]]);
        } else {
            let each: Vec<_> = data.chunks(1000).chain(data.chunks(1000)).collect();
            assert_eq!(payloads, each);
            if v6 {
                assert_eq!(parse6(&packets[2].to_vec()).payload.len(), 608);
            } else {
                assert_eq!(parse_udp(&packets[2].to_vec()).2, data[2000..]);
            }
        }
        let largest = 1500 - (headers - 14);
        let send = |len: usize, each| socket.send_segmented(&vec![7; len], each, peer);
        assert_eq!(send(2 * largest, largest + 1), Err(SendError::TooBig));
        assert_eq!(send(2 * largest, largest), Ok(()));
        assert_eq!(send(129, 1), Err(SendError::TooBig));
        assert_eq!(send(128, 1), Ok(()));
        assert_eq!(send(1, 0), Err(SendError::TooBig));
        assert_eq!(send(70_000, 1000), Err(SendError::TooBig));
        let group = if v6 {
            "ff05::1:2".parse()
        } else {
            "239.1.2.3".parse()
        };
        let group = SocketAddr::new(group.unwrap(), 9);
        let refused = socket.send_segmented(&[7; 2], 1, group);
        assert_eq!(refused, Err(SendError::BadDestination));
        drop(lab.packets());
        let passed_on = socket.send_train(&data, 1000, socket.local_addr(), group);
        assert_eq!((passed_on, lab.packets().len()), (Ok(()), 3));
        drop((packets, lab.packets(), socket));
    }
}

#[test]
fn several_datagrams_arrive_together_if_the_socket_wants_them() {
    // Breaks if a socket that did not ask gets them as one, if one that asked gets them one by one, or if the length of
    // one datagram is said to be another.
    for host in HOSTS {
        let lab = lab();
        let (from, to) = (bind(&lab.stack, host, 1), bind(&lab.stack, host, 2));
        let data = pattern_bytes(2500);
        let lens = |socket: &UdpSocket| {
            lab.stack.poll();
            let all = std::iter::from_fn(|| socket.recv().ok());
            let lens = all.map(|d| (d.payload.len(), d.segment_size));
            lens.collect::<Vec<_>>()
        };
        from.send_segmented(&data, 1000, to.local_addr()).unwrap();
        assert_eq!(lens(&to), [(1000, 1000), (1000, 1000), (500, 500)]);
        to.set_recv_segmented(true);
        from.send_segmented(&data, 1000, to.local_addr()).unwrap();
        from.send_segmented(&data, 2500, to.local_addr()).unwrap();
        from.send_to(b"", to.local_addr()).unwrap();
        assert_eq!(lens(&to), [(2500, 1000), (2500, 2500), (0, 1)]);
    }
}

#[test]
fn a_train_that_is_passed_on_is_cut_where_the_link_does_not_carry_it() {
    // Breaks if a gateway loses datagrams that are longer than the guest's MTU, or changes their lengths.
    for host in HOSTS {
        let lab = lab();
        let (from, to) = (bind(&lab.stack, host, 1), bind(&lab.stack, host, 2));
        let data = pattern_bytes(2500);
        to.set_recv_segmented(true);
        let send = |len: usize, each| {
            from.send_train(&data[..len], each, from.local_addr(), to.local_addr())
        };
        let lens = || {
            lab.stack.poll();
            let all = std::iter::from_fn(|| to.recv().ok());
            let lens = all.map(|d| (d.payload.len(), d.segment_size));
            lens.collect::<Vec<_>>()
        };
        send(2500, 1000).unwrap();
        assert_eq!(lens(), [(2500, 1000)]);
        send(129, 1).unwrap();
        assert_eq!(lens(), [(1, 1); 129]);
        send(1000, 1000).unwrap();
        send(0, 1).unwrap();
        assert_eq!(lens(), [(1000, 1000), (0, 1)]);
        assert_eq!(send(1, 0), Err(SendError::TooBig));
        assert_eq!(send(1, 70_000), Err(SendError::TooBig));
    }
}

#[test]
fn datagrams_that_arrived_together_come_apart() {
    // Breaks if a part has another length or content, or the ends are lost.
    let lab = lab();
    let (from, to) = (bind(&lab.stack, HOSTS[0], 1), bind(&lab.stack, HOSTS[0], 2));
    let data = pattern_bytes(2500);
    to.set_recv_segmented(true);
    from.send_segmented(&data, 1000, to.local_addr()).unwrap();
    lab.stack.poll();
    let mut all = to.recv().unwrap();
    let mut parts = Vec::new();
    while let Some(part) = all.take_first().unwrap() {
        assert_eq!((part.src, part.dst), (from.local_addr(), to.local_addr()));
        parts.push(part.payload.to_vec());
    }
    parts.push(all.payload.to_vec());
    assert!(parts.iter().map(Vec::as_slice).eq(data.chunks(1000)));
}

#[test]
fn the_paths_mtu_bounds_the_datagrams_of_a_call() {
    // RFC 8201 4, RFC 8085 3.2: breaks if datagrams that must stay whole are larger than the path is known to carry, or
    // if a forged report is believed because all datagrams of a call together are long.
    let lab = introduced();
    let socket = bind(&lab.stack, HOSTS[1], 7);
    let data = pattern_bytes(2800);
    let send = |each| socket.send_segmented(&data, each, (PEER6, 9));
    send(1200).unwrap();
    let short = lab.frames();
    assert_eq!(short.len(), 3);
    let mut forged = short[0].clone();
    forged.resize(14 + 1400, 0);
    forged[14 + 4..][..2].copy_from_slice(&1360u16.to_be_bytes());
    lab.give(&too_big(&forged, 1300));
    send(1400).unwrap();
    let long = lab.frames();
    assert_eq!(long.len(), 2);
    lab.give(&too_big(&long[0], 1300));
    assert_eq!(send(1253), Err(SendError::TooBig));
    send(1252).unwrap();
    drop(lab.packets());
    // RFC 8899: a program that measures the path itself sends probes that are larger than what was reported.
    socket.set_dont_fragment(true);
    send(1400).unwrap();
    socket.send_to(&data[..1452], (PEER6, 9)).unwrap();
    assert_eq!(lab.frames().len(), 3);
    let too_long = socket.send_to(&data[..1453], (PEER6, 9));
    assert_eq!(too_long, Err(SendError::TooBig));
    drop((lab.packets(), socket));
}
