//! TCP and UDP over IPv6, between two stacks on a pipe.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::*;
use kern::{Random, Time, VirtualClock};
use mbuf::Chain;
use mbuma::device::Capabilities;
use mbuma::device::memory::Pipe;
use mbuma::socket::RecvError;
use mbuma::{Config, IfAddr, IfConfig, IfIndex, RouteKind, SocketError, Stack, UdpSocket};
use wire::{Ipv6Header, MacAddr, link_local_of};

/// Two stacks on a pipe.
struct Two {
    clock: Arc<VirtualClock>,
    ends: [(Stack, IfIndex); 2],
    _empty: EmptyAtEnd,
}

const LEFT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const RIGHT: Ipv6Addr = US6;

impl Two {
    fn new(caps: Capabilities) -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let (a, b) = Pipe::pair(caps);
        let mut n = 0;
        let ends = [a, b].map(|device| {
            n += 1;
            let config = Config::new(clock.clone(), Random::from_seed(n.into()));
            let stack = Stack::new(config).unwrap();
            let addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
            let config = IfConfig {
                mac: Some(MacAddr([2, 0, 0, 0, 1, n as u8])),
                ..IfConfig::new("pipe0").with_addr(addr, 64)
            };
            let index = stack.attach(Arc::new(device), config).unwrap();
            (stack, index)
        });
        Self {
            _empty: EmptyAtEnd::new(ends.iter().map(|(stack, _)| stack.pool())),
            clock,
            ends,
        }
    }

    /// Lets everything happen that takes no time, and then `ms`.
    fn run(&self, ms: u64) {
        for _ in 0..=ms {
            for _ in 0..8 {
                for (stack, index) in &self.ends {
                    while stack.poll_interface(*index, ALL).unwrap() {}
                    stack.poll();
                }
            }
            self.clock.advance(Duration::from_millis(1));
        }
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for _ in 0..400 {
            self.clock.advance(Duration::from_secs(1));
            self.run(0);
        }
        for (stack, _) in &self.ends {
            let stats = stack.stats();
            assert_eq!(stats.received, stats.ended(), "{:?}", stats.dropped);
        }
    }
}

/// Sends a megabyte from one end to the other.
fn transfer(caps: Capabilities, local: SocketAddr, peer: SocketAddr) {
    let two = Two::new(caps);
    let [(left, _), (right, _)] = &two.ends;
    let listener = right.tcp_listen(at6(Ipv6Addr::UNSPECIFIED, 80), 8).unwrap();
    let stream = left.tcp_connect(local, peer).unwrap();
    two.run(5);
    let accepted = listener.accept().expect("the handshake is over");
    assert_eq!(accepted.peer_addr().ip(), stream.local_addr().ip());
    let data = pattern_bytes(1 << 20);
    let (mut sent, mut got) = (0, Vec::new());
    let mut buf = vec![0; 1 << 16];
    for _ in 0..20_000 {
        if let Ok(n) = stream.send(&data[sent..]) {
            sent += n;
        }
        two.run(1);
        while let Ok(n @ 1..) = accepted.recv(&mut buf) {
            got.extend_from_slice(&buf[..n]);
        }
        if got.len() == data.len() {
            break;
        }
    }
    assert!(got == data, "{} of {} bytes", got.len(), data.len());
    let lost = left.stats().tcp.retransmitted_segments;
    assert_eq!(lost, 0, "nothing was lost");
}

#[test]
fn tcp_over_a_device_that_does_nothing() {
    // Breaks if software cuts or sums a segment of IPv6 wrongly.
    transfer(Capabilities::plain(1500), at6(LEFT, 0), at6(RIGHT, 80));
}

#[test]
fn tcp_over_a_device_that_takes_it_whole() {
    // Breaks if a large segment is not what the peer takes in.
    transfer(
        Capabilities::whole(1500),
        at6(Ipv6Addr::UNSPECIFIED, 0),
        at6(RIGHT, 80),
    );
}

#[test]
fn s9_link_local_addresses_need_their_zone() {
    // Breaks if a connection to a link-local address takes any link, or none.
    let far = link_local_of(MacAddr([2, 0, 0, 0, 1, 2]));
    let two = Two::new(Capabilities::plain(1500));
    let (left, index) = &two.ends[0];
    let without = left.tcp_connect(at6(Ipv6Addr::UNSPECIFIED, 0), at6(far, 80));
    assert_eq!(without.err(), Some(SocketError::Unreachable));
    let zone = index.number();
    drop(two);
    let with: SocketAddr = SocketAddrV6::new(far, 80, 0, zone).into();
    transfer(
        Capabilities::plain(1500),
        at6(Ipv6Addr::UNSPECIFIED, 0),
        with,
    );
}

#[test]
fn s9_a_flow_from_a_link_local_to_a_global_address_hears_its_peer() {
    // Breaks if the answers, which came in by a link, find no socket because our address named no zone.
    let near = link_local_of(MacAddr([2, 0, 0, 0, 1, 1]));
    transfer(Capabilities::plain(1500), at6(near, 0), at6(RIGHT, 80));
    let two = Two::new(Capabilities::plain(1500));
    let [(left, index), (right, _)] = &two.ends;
    let on_link: SocketAddr = SocketAddrV6::new(near, 7, 0, index.number()).into();
    let attempt = left.tcp_connect(at6(near, 7), at6(RIGHT, 80)).unwrap();
    assert_eq!(attempt.local_addr(), on_link);
    attempt.abort();
    let asks = left.udp_bind(at6(near, 7)).unwrap();
    let answers = right.udp_bind(at6(RIGHT, 53)).unwrap();
    asks.set_multicast_interface(Some(*index)).unwrap();
    for group in ["[ff02::fb]:53", "[ff05::1:2]:53"] {
        asks.connect(group).unwrap();
        assert_eq!(asks.local_addr(), on_link);
    }
    asks.connect(at6(RIGHT, 53)).unwrap();
    assert_eq!(asks.local_addr(), on_link);
    asks.send(b"question").unwrap();
    two.run(1);
    let question = answers.recv().unwrap();
    answers.send_to(b"answer", question.src).unwrap();
    two.run(1);
    assert_eq!(asks.recv().unwrap().payload.to_vec(), b"answer");
    drop((question, answers));
    asks.send(b"question").unwrap();
    two.run(1);
    let error = asks.recv().unwrap_err();
    assert!(matches!(error, RecvError::Icmp(e) if e.dst == at6(RIGHT, 53)));
}

#[test]
fn l1_the_packets_of_a_flow_have_its_label_also_when_they_are_sent_again() {
    // Breaks if routers send the packets of a flow by several paths, or all flows by one (RFC 6437 section 3).
    let lab = introduced();
    let label = |frame: &[u8]| Ipv6Header::parse(&frame[14..]).unwrap().flow_label();
    let datagram_to = |socket: &UdpSocket, port| {
        socket
            .send_to(lab.chain(b"hello"), at6(PEER6, port))
            .unwrap();
        label(&lab.frame())
    };
    let datagram = |socket: &UdpSocket| datagram_to(socket, 9);
    let sockets = [7, 8].map(|port| lab.stack.udp_bind(at6(US6, port)).unwrap());
    let labels = sockets.each_ref().map(datagram);
    assert_eq!(labels, sockets.each_ref().map(datagram));
    assert_ne!(labels[0], datagram_to(&sockets[0], 10), "another flow");
    assert_eq!(labels[0], datagram(&sockets[0]));
    let stream = lab.stack.tcp_connect(at6(US6, 7), at6(PEER6, 9)).unwrap();
    let syn = label(&lab.frame());
    lab.advance(Duration::from_secs(1));
    assert_eq!(label(&lab.frame()), syn, "sent again");
    assert!(labels[0] != labels[1] && !labels.contains(&0) && syn != 0);
    stream.abort();
    drop((stream, sockets));
    drop(lab.frames());
}

#[test]
fn a_closed_port_refuses_and_no_route_is_told() {
    // Breaks if a refusal over IPv6 does not end a connect, or a connect to an address without a route, or to a group,
    // waits.
    let two = Two::new(Capabilities::plain(1500));
    let left = &two.ends[0].0;
    let refused = left.tcp_connect(at6(LEFT, 0), at6(RIGHT, 81)).unwrap();
    two.run(5);
    assert_eq!(refused.error(), Some(SocketError::Refused));
    let stranger = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let unreachable = left.tcp_connect(at6(LEFT, 0), at6(stranger, 80));
    assert_eq!(unreachable.err(), Some(SocketError::Unreachable));
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let zone = two.ends[0].1.number();
    for group in [at6(group, 80), SocketAddrV6::new(group, 80, 0, zone).into()] {
        let to_many = left.tcp_connect(at6(LEFT, 0), group);
        assert_eq!(to_many.err(), Some(SocketError::Unreachable));
    }
}

#[test]
fn udp_both_ways_and_an_error_from_a_closed_port() {
    // Breaks if a datagram, or the error about one, finds another socket.
    let two = Two::new(Capabilities::plain(1500));
    let [(left, _), (right, _)] = &two.ends;
    let asks = left.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    let answers = right.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 53)).unwrap();
    let chain = |stack: &Stack, bytes: &[u8]| Chain::from_slice(stack.pool(), bytes).unwrap();
    asks.send_to(chain(left, b"question"), at6(RIGHT, 53))
        .unwrap();
    two.run(1);
    let question = answers.recv().unwrap();
    assert_eq!(question.src.ip(), LEFT);
    answers
        .send_from(chain(right, b"answer"), question.dst, question.src)
        .unwrap();
    two.run(1);
    assert_eq!(asks.recv().unwrap().payload.to_vec(), b"answer");
    drop(question);
    asks.send_to(chain(left, b"question"), at6(RIGHT, 54))
        .unwrap();
    two.run(1);
    assert_eq!(asks.take_error().unwrap().dst, at6(RIGHT, 54));
}

#[test]
fn a_stack_talks_to_itself() {
    // Breaks if a new stack has no ::1, or solicits an address of its own on the link.
    let two = Two::new(Capabilities::plain(1500));
    let left = &two.ends[0].0;
    for addr in [Ipv6Addr::LOCALHOST, LEFT] {
        let listener = left.tcp_listen(at6(addr, 80), 8).unwrap();
        let any = at6(Ipv6Addr::UNSPECIFIED, 0);
        let stream = left.tcp_connect(any, at6(addr, 80)).unwrap();
        let accepted = listener.accept().expect("nothing was waited for");
        assert_eq!(accepted.peer_addr().ip(), addr);
        stream.send(b"hello").unwrap();
        let mut buf = [0; 16];
        assert_eq!(accepted.recv(&mut buf), Ok(5));
    }
}

#[test]
fn a_route_leads_through_a_gateway() {
    // Breaks if a packet to another network is sent to its own address, or a route to a link's network is taken.
    let lab = introduced();
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    lab.stack.add_default_route(lab.iface, PEER6).unwrap();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(far, 9)).unwrap();
    let seen = parse6(&lab.frame());
    assert_eq!((seen.to, seen.dst), (PEER_MAC, far));
    let link = IfAddr::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 64);
    assert!(
        lab.stack
            .add_route(link, RouteKind::Link(lab.iface))
            .is_err()
    );
    let routes = lab.stack.routes();
    let routes6 = routes.iter().filter(|route| route.net.addr.is_ipv6());
    assert_eq!(routes6.count(), 6);
}
