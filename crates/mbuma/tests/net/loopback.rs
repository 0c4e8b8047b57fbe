//! The loopback interface: a stack talks to itself, and to no other host under those addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::common::net::*;
use kern::{Random, Time, VirtualClock};
use mbuf::Live;
use mbuma::congestion::CongestionControl;
use mbuma::{Config, DropReason, IcmpError, IfIndex, SocketError, Stack};
use wire::{IpProto, Ipv4Fields};

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;
const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Breaks if a stack without an attached interface can't talk to itself.
#[test]
fn out_of_the_box() {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let stack = Stack::new(Config::new(clock, Random::from_seed(1))).unwrap();
    for bound in [ANY, LOCALHOST, Ipv4Addr::new(127, 1, 2, 3)] {
        let there = if bound == ANY { LOCALHOST } else { bound };
        let listener = stack.tcp_listen(at(bound, 80), 8).unwrap();
        let stream = stack.tcp_connect(at(ANY, 0), at(there, 80)).unwrap();
        let accepted = listener.accept().expect("nothing was waited for");
        assert_eq!(accepted.peer_addr().ip(), LOCALHOST);
        assert_eq!(stream.send(&[7; 60_000]).unwrap(), 60_000);
        let mut buf = vec![0; 1 << 16];
        let mut got = 0;
        while got < 60_000 {
            got += accepted.recv(&mut buf).unwrap();
        }
        drop((listener, stream, accepted));
        let socket = stack.udp_bind(at(bound, 53)).unwrap();
        let asks = stack.udp_bind(at(ANY, 0)).unwrap();
        let payload = mbuf::Chain::from_slice(stack.pool(), b"hello").unwrap();
        asks.send_to(payload, at(there, 53)).unwrap();
        let datagram = socket.recv().unwrap();
        assert_eq!(
            (datagram.src.ip(), datagram.dst.ip()),
            (LOCALHOST.into(), there.into())
        );
    }
    let refused = stack.tcp_connect(at(ANY, 0), at(LOCALHOST, 1)).unwrap();
    assert_eq!(refused.error(), Some(SocketError::Refused));
    let lo = stack.stats().loopback;
    assert_eq!((lo.name.as_str(), lo.mtu), ("lo0", u16::MAX));
    assert_eq!(lo.input.packets(), lo.output.packets());
    stack.detach(IfIndex::LOOPBACK);
    assert!(stack.tcp_listen(at(LOCALHOST, 80), 8).is_ok(), "it stays");
    let pool = stack.pool().clone();
    drop((refused, stack));
    assert_eq!(pool.live(), Live::NONE);
}

/// RFC 1122 4.1.3.1, RFC 4443 3.1: breaks if a program that sends to a closed port of its own stack hears nothing.
#[test]
fn closed_ports_of_ourselves_are_reported() {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let stack = Stack::new(Config::new(clock, Random::from_seed(1))).unwrap();
    for host in [IpAddr::V4(LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let socket = stack.udp_bind((host, 0)).unwrap();
        socket.send_to(b"x", (host, 9)).unwrap();
        stack.poll();
        let error = socket.take_error().expect("nothing listens there");
        assert_eq!((error.kind, error.dst), (IcmpError::Port, (host, 9).into()));
    }
    let stats = stack.stats();
    assert_eq!(stats.received, stats.ended());
    let pool = stack.pool().clone();
    drop(stack);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks when the algorithm of a stack, or of one of its connections, is not the chosen one, or when a change of it
/// stops the connection.
#[test]
fn congestion_control_is_chosen() {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let mut config = Config::new(clock, Random::from_seed(1));
    config.tcp.congestion = CongestionControl::Reno;
    let stack = Stack::new(config).unwrap();
    let listener = stack.tcp_listen(at(LOCALHOST, 80), 8).unwrap();
    let stream = stack.tcp_connect(at(ANY, 0), at(LOCALHOST, 80)).unwrap();
    let accepted = listener.accept().unwrap();
    stream.set_congestion(CongestionControl::Cubic);
    let names = (stream.info().congestion, accepted.info().congestion);
    assert_eq!(names, ("cubic", "reno"));
    assert_eq!(stream.send(b"on").unwrap(), 2);
    assert_eq!(accepted.recv(&mut [0; 8]).unwrap(), 2);
    let pool = stack.pool().clone();
    drop((listener, stream, accepted, stack));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a packet from or to a loopback address comes in from a wire.
#[test]
fn nothing_comes_in() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(ANY, 9)).unwrap();
    lab.give(&udp_frame(4000, at(LOCALHOST, 9), b"to you"));
    lab.give(&udp_frame(
        4000,
        at(Ipv4Addr::new(127, 9, 9, 9), 9),
        b"to you",
    ));
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 2);
    let datagram = udp(at(LOCALHOST, 1), at(US, 9), b"from you");
    let fields = Ipv4Fields {
        src: LOCALHOST,
        ..from_peer(US, IpProto::UDP)
    };
    lab.give(&ip_frame(&fields, &datagram));
    assert_eq!(lab.dropped(DropReason::IpBadSource), 1);
    assert!(socket.recv().is_err() && lab.frames().is_empty());
}

/// Breaks if a packet from or to a loopback address leaves on a wire.
#[test]
fn no_packet_of_a_loopback_address_leaves_on_a_wire() {
    let lab = Lab::plain();
    lab.stack.add_default_route(lab.iface, PEER).unwrap();
    let socket = lab.stack.udp_bind(at(LOCALHOST, 9)).unwrap();
    for dst in [PEER, FOREIGN, Ipv4Addr::BROADCAST] {
        assert!(socket.send_to(lab.chain(b"leave"), at(dst, 9)).is_err());
    }
    assert_eq!(lab.dropped(DropReason::IpNoRoute), 3);
    // A group exists on lo0 too.
    let group = at(Ipv4Addr::new(224, 0, 0, 5), 9);
    socket.send_to(lab.chain(b"leave"), group).unwrap();
    // Packets to our own address are not affected.
    let own = lab.stack.udp_bind(at(US, 9)).unwrap();
    socket.send_to(lab.chain(b"stay"), at(US, 9)).unwrap();
    assert_eq!(own.recv().unwrap().src, at(LOCALHOST, 9).into());
    assert!(lab.frames().is_empty());
}
