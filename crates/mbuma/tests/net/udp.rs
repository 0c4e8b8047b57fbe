//! UDP over a wire that the test holds the other end of, and between two sockets of one stack.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

use crate::common::net::*;
use mbuf::{Csum, Packet};
use mbuma::device::Capabilities;
use mbuma::socket::{BindError, RecvError, SendError};
use mbuma::{DropReason, IcmpError, SocketError};
use wire::{EtherType, IcmpMessage, IpProto, Ipv4Fields, MacAddr, UdpHeader, Unreachable};

/// Breaks if a datagram changes on its way in or out, or its answer goes elsewhere.
#[test]
fn echo_both_ways() {
    for len in [0, 1, 7, 216, 217, 1472] {
        let lab = Lab::plain();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        let data = pattern_bytes(len);
        lab.give(&udp_frame(4000, at(US, 7), &data));
        let datagram = socket.recv().unwrap();
        assert_eq!(
            (datagram.src, datagram.dst, datagram.ttl),
            (at(PEER, 4000).into(), at(US, 7).into(), 64)
        );
        assert_eq!(datagram.interface, lab.iface);
        assert_eq!(datagram.payload.to_vec(), data);
        socket
            .send_from(datagram.payload, datagram.dst, datagram.src)
            .unwrap();
        assert_eq!(parse_udp(&lab.frame()), (at(US, 7), at(PEER, 4000), data));
        assert!(socket.recv().is_err());
    }
}

/// Breaks if a damaged datagram is taken in, or one without a checksum (RFC 768) is not.
#[test]
fn damaged_datagrams_are_dropped_and_those_without_checksum_are_not() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let mut frame = udp_frame(1, at(US, 7), b"odd");
    *frame.last_mut().unwrap() ^= 0x10;
    lab.give(&frame);
    assert_eq!(lab.dropped(DropReason::UdpBadChecksum), 1);
    frame[14 + 20 + 6..][..2].fill(0);
    lab.give(&frame);
    assert!(socket.recv().is_ok());
}

/// Breaks if a UDP length that the packet does not have is believed.
#[test]
fn lengths_beyond_the_packet_are_refused() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    for len in [0u16, 7, 12, u16::MAX] {
        let mut datagram = udp(at(PEER, 1), at(US, 7), b"abc");
        datagram[4..6].copy_from_slice(&len.to_be_bytes());
        datagram[6..8].fill(0);
        lab.give(&ip_frame(&from_peer(US, IpProto::UDP), &datagram));
    }
    assert_eq!(lab.dropped(DropReason::UdpBadHeader), 4);
    // A shorter length than the packet's is what counts; the rest is no data.
    let mut datagram = udp(at(PEER, 1), at(US, 7), b"abc");
    datagram.extend_from_slice(b"behind");
    lab.give(&ip_frame(&from_peer(US, IpProto::UDP), &datagram));
    assert_eq!(socket.recv().unwrap().payload.to_vec(), b"abc");
}

/// Breaks if one datagram fits two sockets, or a free port is not found.
#[test]
fn a_port_is_bound_once_and_free_ports_are_found() {
    let lab = Lab::plain();
    let stack = &lab.stack;
    let all = stack.udp_bind(at(Ipv4Addr::UNSPECIFIED, 53)).unwrap();
    assert_eq!(
        stack.udp_bind(at(US, 53)).unwrap_err(),
        BindError::AddrInUse
    );
    assert_eq!(
        stack.udp_bind(at(FOREIGN, 53)).unwrap_err(),
        BindError::AddrNotAvailable
    );
    let (a, b) = (
        stack.udp_bind(at(US, 0)).unwrap(),
        stack.udp_bind(at(US, 0)).unwrap(),
    );
    assert!(a.local_addr().port() >= 49152);
    assert_ne!(a.local_addr(), b.local_addr());
    let clone = all.clone();
    drop(all);
    assert!(stack.udp_bind(at(US, 53)).is_err(), "a handle is left");
    drop(clone);
    assert!(stack.udp_bind(at(US, 53)).is_ok());
    drop((a, b));
    // An address may be text, as with TCP; a name is none.
    let text = at(US, 53).to_string();
    let by_text = stack.udp_bind(text.as_str()).expect("ours");
    assert_eq!(by_text.local_addr(), at(US, 53).into());
    let name = "example.org:53";
    assert_eq!(stack.udp_bind(name).unwrap_err(), BindError::NotAnAddress);
    assert_eq!(by_text.send_to(b"x", name), Err(SendError::BadDestination));
}

/// Breaks if a socket sends from addresses that are not its own, or what can't be a datagram.
#[test]
fn sending_is_checked() {
    let lab = Lab::gateway();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let send = |src, dst| socket.send_from(lab.chain(b"x"), src, dst);
    assert_eq!(send(at(FOREIGN, 7), at(PEER, 1)), Err(SendError::BadSource));
    assert_eq!(send(at(US, 8), at(PEER, 1)), Err(SendError::BadSource));
    assert_eq!(send(at(US, 7), at(PEER, 0)), Err(SendError::BadDestination));
    assert_eq!(send(at(US, 7), at(FOREIGN, 1)), Err(SendError::NoRoute));
    assert_eq!(
        send(at(US, 7), at(Ipv4Addr::new(240, 0, 0, 1), 1)),
        Err(SendError::NoRoute)
    );
    let large = lab.chain(&vec![0; 65_508]);
    assert_eq!(socket.send_to(large, at(PEER, 1)), Err(SendError::TooBig));
    assert!(lab.frames().is_empty());
}

/// Breaks if a gateway's intercepting socket misses datagrams, takes those of other sockets, or can't answer from the
/// address that was asked.
#[test]
fn an_intercepting_socket_answers_as_the_asked_address() {
    let lab = Lab::gateway();
    let any = lab.stack.udp_bind_any(lab.iface).unwrap();
    assert_eq!(
        lab.stack.udp_bind_any(lab.iface).unwrap_err(),
        BindError::AddrInUse
    );
    let dns = lab.stack.udp_bind(at(Ipv4Addr::UNSPECIFIED, 53)).unwrap();
    lab.give(&udp_frame(4000, at(FOREIGN, 53), b"to a foreign server"));
    lab.give(&udp_frame(4000, at(US, 53), b"to ours"));
    let everybody = Ipv4Addr::BROADCAST;
    let many = ip(
        &from_peer(everybody, IpProto::UDP),
        &udp(at(PEER, 68), at(everybody, 67), b""),
    );
    lab.give(&ether(MacAddr::BROADCAST, EtherType::IPV4, &many));
    lab.give(&udp_frame(
        4000,
        at(US, 99),
        b"to a port of ours that nobody has",
    ));

    assert_eq!(dns.recv().unwrap().payload.to_vec(), b"to ours");
    let datagram = any.recv().unwrap();
    assert_eq!(datagram.dst, at(FOREIGN, 53).into());
    let ours = any.recv().unwrap();
    assert_eq!(ours.dst, at(US, 99).into());
    assert!(any.recv().is_err() && dns.recv().is_err());
    any.send_from(lab.chain(b"answer"), datagram.dst, datagram.src)
        .unwrap();
    let answer = (at(FOREIGN, 53), at(PEER, 4000), b"answer".to_vec());
    assert_eq!(parse_udp(&lab.frame()), answer);

    any.refuse(&datagram, IcmpError::Port);
    let frame = lab.frame();
    // From the address of the host that was asked; a router's error comes from the router.
    assert_eq!((parse(&frame).src, parse(&frame).dst), (FOREIGN, PEER));
    let (message, quote) = parse_icmp(&frame);
    assert_eq!(
        message,
        IcmpMessage::DestUnreachable(Unreachable::PortUnreachable)
    );
    any.refuse(&datagram, IcmpError::Host);
    assert_eq!(parse(&lab.frame()).src, US);
    assert_eq!(
        quote,
        udp_frame(4000, at(FOREIGN, 53), b"to a foreign server")[14..]
    );
}

/// Breaks if a large datagram that is refused is quoted with the length of the quote.
#[test]
fn refusing_a_large_datagram() {
    let lab = Lab::gateway();
    let any = lab.stack.udp_bind_any(lab.iface).unwrap();
    let frame = udp_frame(4000, at(FOREIGN, 53), &pattern_bytes(1400));
    lab.give(&frame);
    any.refuse(&any.recv().unwrap(), IcmpError::AdminProhibited);
    let (message, quote) = parse_icmp(&lab.frame());
    assert_eq!(
        message,
        IcmpMessage::DestUnreachable(Unreachable::AdminProhibited)
    );
    assert_eq!(quote, frame[14..][..548]);
}

/// Breaks if a program that refuses a datagram of its own making, larger than any that arrives, panics.
#[test]
fn refusing_what_can_not_have_arrived() {
    let lab = Lab::gateway();
    let any = lab.stack.udp_bind_any(lab.iface).unwrap();
    lab.give(&udp_frame(4000, at(FOREIGN, 53), b"a datagram"));
    let mut datagram = any.recv().unwrap();
    for len in [65_508, 65_530, 131_071] {
        datagram.payload = lab.chain(&pattern_bytes(len));
        any.refuse(&datagram, IcmpError::Port);
    }
    assert!(lab.frames().is_empty());
}

/// Breaks if a client without an address can't reach a DHCP server, or if it can reach more.
#[test]
fn from_no_address() {
    let lab = Lab::plain();
    let server = lab.stack.udp_bind(at(Ipv4Addr::UNSPECIFIED, 67)).unwrap();
    let (none, everybody) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
    let fields = Ipv4Fields {
        src: none,
        ..from_peer(everybody, IpProto::UDP)
    };
    let packet = ip(&fields, &udp(at(none, 68), at(everybody, 67), b"discover"));
    lab.give(&ether(MacAddr::BROADCAST, EtherType::IPV4, &packet));
    assert_eq!(server.recv().unwrap().src, at(none, 68).into());
    let fields = Ipv4Fields { dst: US, ..fields };
    lab.give(&ip_frame(
        &fields,
        &udp(at(none, 68), at(US, 67), b"directly"),
    ));
    assert_eq!(lab.dropped(DropReason::IpBadSource), 1);
    // The answer is a broadcast, in a broadcast frame.
    server
        .send_from(lab.chain(b"offer"), at(US, 67), at(everybody, 68))
        .unwrap();
    let frame = lab.frame();
    assert_eq!(parse(&frame).ether.dst, MacAddr::BROADCAST);
    assert_eq!(
        parse_udp(&frame),
        (at(US, 67), at(everybody, 68), b"offer".to_vec())
    );
    // The server's own stack hears it as well, and has no client.
    assert_eq!(lab.dropped(DropReason::UdpNoSocket), 0);
    let fields = from_peer(everybody, IpProto::UDP);
    let another = ip(&fields, &udp(at(PEER, 67), at(everybody, 68), b"offer"));
    lab.give(&ether(MacAddr::BROADCAST, EtherType::IPV4, &another));
    assert_eq!(lab.dropped(DropReason::UdpNoSocket), 1);
}

/// Breaks if unread datagrams take memory without limit, or if a reader is not woken, or
/// woken for each.
#[test]
fn queue_and_waker() {
    let lab = Lab::new(Setup {
        tune: |c| c.udp_queue_max = 3,
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let count = Arc::new(Count::default());
    socket.set_waker(Some(Waker::from(Arc::clone(&count))));
    let woken = || count.get();
    for _ in 0..5 {
        lab.give(&udp_frame(1, at(US, 7), b"x"));
    }
    assert_eq!(woken(), 1, "only when the queue was empty");
    assert_eq!(lab.dropped(DropReason::UdpQueueFull), 2);
    while socket.recv().is_ok() {}
    lab.give(&udp_frame(1, at(US, 7), b"y"));
    assert_eq!(woken(), 2);
    socket.set_waker(Some(Waker::from(Arc::clone(&count))));
    assert_eq!(woken(), 3, "something is there already");
}

/// Breaks if a small datagram that waits keeps a whole cluster from being used.
#[test]
fn small_datagrams_pin_little() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let frame = udp_frame(1, at(US, 7), &[1; 100]);
    let mut packet = Packet::with_cluster(&lab.pool, mbuf::ClusterSize::K16, 0).unwrap();
    packet.append(&lab.pool, &frame).unwrap();
    lab.put_packet(packet);
    lab.poll();
    assert!(socket.recv().unwrap().payload.pinned() <= mbuf::MSIZE);
}

/// Breaks if two sockets of one stack don't reach each other, or if such packets touch the wire.
#[test]
fn datagrams_to_ourselves_touch_no_wire() {
    let lab = Lab::plain();
    let (a, b) = (
        lab.stack.udp_bind(at(US, 1)).unwrap(),
        lab.stack.udp_bind(at(US, 2)).unwrap(),
    );
    let data = pattern_bytes(60_000);
    a.send_to(lab.chain(&data), at(US, 2)).unwrap();
    assert_eq!(b.recv().unwrap().payload.to_vec(), data);
    a.send_to(lab.chain(b"closed"), at(US, 3)).unwrap();
    assert_eq!(a.take_error().unwrap().kind, IcmpError::Port);
    assert!(lab.frames().is_empty());
}

/// Breaks if a device that finishes checksums gets anything but the pseudo-header's sum, or if the
/// other end does not trust what never left memory.
#[test]
fn an_offloading_device_gets_the_sum_of_the_pseudo_header() {
    let lab = Lab::new(Setup {
        caps: Capabilities::whole(1500),
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    socket.send_to(lab.chain(b"payload"), at(PEER, 9)).unwrap();
    let packets = lab.packets();
    let meta = packets[0].header();
    assert!(meta.csum.contains(Csum::UDP | Csum::L4_VALID));
    assert_eq!((meta.l2_len, meta.l3_len, meta.l4_len), (14, 20, 8));
    let bytes = packets[0].to_vec();
    let partial = wire::pseudo_header_v4(US, PEER, IpProto::UDP, 15).partial();
    assert_eq!(
        bytes[34 + UdpHeader::CHECKSUM_OFFSET..][..2],
        partial.to_be_bytes()
    );
    drop(packets);
    // Inward: a wrong sum passes if the device says that it is good.
    let mut frame = udp_frame(9, at(US, 7), b"trusted");
    frame[34 + 6] ^= 0xff;
    let mut packet = Packet::from_slice(&lab.pool, &frame, 0).unwrap();
    packet.header_mut().csum = Csum::L4_VALID;
    lab.put_packet(packet);
    lab.poll();
    assert_eq!(socket.recv().unwrap().payload.to_vec(), b"trusted");
}

/// Breaks if datagrams that a device merged reach the socket as one.
#[test]
fn merged_datagrams_are_taken_apart() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    for len in [2500, 2000] {
        let data = pattern_bytes(len);
        let mut packet = Packet::from_slice(&lab.pool, &udp_frame(9, at(US, 7), &data), 0).unwrap();
        packet.header_mut().tso_segsz = 1000;
        lab.put_packet(packet);
        lab.poll();
        for piece in data.chunks(1000) {
            assert_eq!(socket.recv().unwrap().payload.to_vec(), piece);
        }
        assert!(socket.recv().is_err(), "an empty one after {len} bytes");
    }
}

/// Breaks if the stack accepts datagrams to groups that it never joined, or refuses those to all hosts; or if TCP
/// answers either (RFC 1122 4.2.3.10).
#[test]
fn only_joined_groups_and_broadcasts_are_received() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(Ipv4Addr::UNSPECIFIED, 5353)).unwrap();
    let (all, mdns) = (Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(224, 0, 0, 251));
    for (dst, taken) in [(all, true), (mdns, false)] {
        let packet = ip(
            &from_peer(dst, IpProto::UDP),
            &udp(at(PEER, 5353), at(dst, 5353), b"hello"),
        );
        lab.give(&ether(
            MacAddr::from_ipv4_multicast(dst),
            EtherType::IPV4,
            &packet,
        ));
        assert_eq!(socket.recv().is_ok(), taken, "{dst}");
    }
    let packet = ip(&from_peer(Ipv4Addr::BROADCAST, IpProto::TCP), &[0; 20]);
    lab.give(&ether(MacAddr::BROADCAST, EtherType::IPV4, &packet));
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 2);
    assert!(lab.frames().is_empty());
}

/// Breaks if bytes are not copied as they are, or if a payload that is longer than the buffer is written beyond it or
/// takes the next datagram's place.
#[test]
fn bytes_are_sent_and_received() {
    let lab = Lab::plain();
    let a = lab.stack.udp_bind(at(US, 1)).unwrap();
    let b = lab.stack.udp_bind(at(US, 2)).unwrap();
    a.send_to(b"longer than the buffer", at(US, 2)).unwrap();
    a.send_from(&b"short"[..], at(US, 1), at(US, 2)).unwrap();
    lab.stack.poll();
    let mut buf = [0; 8];
    let from = a.local_addr();
    assert_eq!(b.recv_from(&mut buf), Ok((8, from)));
    assert_eq!(&buf, b"longer t");
    assert_eq!(b.recv_from_blocking(&mut buf, None), Ok((5, from)));
    assert_eq!(&buf[..5], b"short");
    assert_eq!(b.recv_from(&mut buf), Err(RecvError::WouldBlock));
    let huge = vec![0; 70_000];
    assert_eq!(a.send_to(&huge[..], at(US, 2)), Err(SendError::TooBig));
}

#[test]
fn tcp_listens_at_addresses_of_the_stack_alone() {
    // Breaks if a listener waits for ever at an address that no interface has, or binds it before it is there.
    let lab = Lab::plain();
    for foreign in [IpAddr::from(FOREIGN), "2001:db8::77".parse().unwrap()] {
        let foreign = SocketAddr::new(foreign, 80);
        let refused = lab.stack.tcp_listen(foreign, 1).map(drop);
        assert_eq!(refused, Err(SocketError::AddrNotAvailable));
    }
    for own in ["0.0.0.0:80", "[::]:80", "127.0.0.1:81", "127.9.9.9:81"] {
        lab.stack
            .tcp_listen(own.parse::<SocketAddr>().unwrap(), 1)
            .unwrap();
    }
    lab.stack.tcp_listen(at(US, 82), 1).unwrap();
    let late = at(Ipv4Addr::new(192, 0, 2, 77), 80);
    assert!(lab.stack.tcp_listen(late, 1).is_err());
    lab.stack
        .add_address(lab.iface, Ipv4Addr::new(192, 0, 2, 77), 24)
        .unwrap();
    lab.stack.tcp_listen(late, 1).unwrap();
}

/// Breaks if a station takes in what a hub, or a bridge that does not know the receiver, carries to all: a router would
/// send each such packet a second time.
#[test]
fn a_frame_for_another_station_is_dropped() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let packet = udp_frame(9, at(US, 7), b"x").split_off(14);
    let another = MacAddr([2, 0, 0, 0, 0, 3]);
    lab.give(&ether(another, EtherType::IPV4, &packet));
    assert!(socket.recv().is_err());
    assert_eq!(lab.dropped(DropReason::NotOurMac), 1);
}

/// Breaks if errors of a socket whose program reads none of them fill memory.
#[test]
fn errors_that_wait_are_bounded() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 1)).unwrap();
    for _ in 0..100 {
        socket.send_to(lab.chain(b"closed"), at(US, 3)).unwrap();
    }
    let errors = std::iter::from_fn(|| socket.take_error());
    assert_eq!(errors.count(), 16);
}

/// Breaks if a datagram leaves in fragments, or may be fragmented by a router, though its socket forbids it (RFC 9000
/// section 14: "UDP datagrams MUST NOT be fragmented at the IP layer").
#[test]
fn fragments_can_be_forbidden() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let has_df = |frame: &[u8]| frame[14 + 6] & 0x40 != 0;
    socket
        .send_to(&pattern_bytes(1473)[..], at(PEER, 9))
        .unwrap();
    assert_eq!(lab.frames().len(), 2);
    socket.set_dont_fragment(true);
    let too_long = socket.send_to(&pattern_bytes(1473)[..], at(PEER, 9));
    assert_eq!(too_long, Err(SendError::TooBig));
    socket
        .send_to(&pattern_bytes(1472)[..], at(PEER, 9))
        .unwrap();
    assert!(has_df(&lab.frame()));
    socket.set_dont_fragment(false);
    socket.send_to(b"short", at(PEER, 9)).unwrap();
    assert!(!has_df(&lab.frame()));
}

/// Breaks if a list of sockets lacks one, or the figures by which an operator sees that a program is slow.
#[test]
fn listeners_and_sockets_are_listed() {
    let lab = Lab::plain();
    let listener = lab.stack.tcp_listen(at(US, 80), 3).unwrap();
    let clients = [(); 2].map(|()| lab.stack.tcp_connect(at(US, 0), at(US, 80)).unwrap());
    lab.poll();
    let [info] = lab.stack.tcp_listeners()[..] else {
        panic!("one listener")
    };
    assert_eq!((info.local, info.interface), (at(US, 80).into(), None));
    assert_eq!((info.waiting, info.backlog, info.half_open), (2, 3, 0));
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let any = lab.stack.udp_bind_any(lab.iface).unwrap();
    socket.send_to(b"to itself", at(US, 7)).unwrap();
    let all = lab.stack.udp_sockets();
    let all: Vec<_> = (all.iter())
        .map(|s| (s.local, s.interface, s.queued > 0))
        .collect();
    assert_eq!(
        all,
        [
            (any.local_addr(), Some(lab.iface), false),
            (at(US, 7).into(), None, true)
        ]
    );
    drop((clients, listener));
}
