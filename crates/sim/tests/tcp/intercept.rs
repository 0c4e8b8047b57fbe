//! Connections to any address, held until their owner decides.

use std::net::SocketAddr;

use crate::common::*;
use mbuma::socket::{Incoming, Interceptor, Refusal};
use mbuma::{IcmpError, IfConfig, State};
use sim::{Link, Net, PortConfig, Segment, Shape};
use wire::TcpFlags;

fn beyond(port: u16) -> SocketAddr {
    SocketAddr::new(addr([203, 0, 113, 7]), port)
}

/// A gateway and a station behind which nothing is.
fn gateway(shape: Shape) -> (Bench, Interceptor) {
    let mut net = Net::new(1);
    let wire = net.wire(Link::PERFECT);
    let node = net.stack();
    let prefix_len = if is_over_ipv6() { 120 } else { 24 };
    let config = IfConfig {
        accept_any: true,
        ..IfConfig::new("sim0").with_addr(us(0).ip(), prefix_len)
    };
    let (ifindex, _) = net.plug_with(
        node,
        wire,
        &PortConfig::plain(link_mtu()).shaped(shape),
        config,
    );
    let peer = net.peer(wire, them(0).ip());
    net.announce(peer, us(0).ip());
    net.run_for(ms(10));
    let interceptor = net
        .at(node)
        .tcp_intercept(ifindex, 4)
        .expect("there is none yet");
    (
        Bench {
            net,
            node,
            peer,
            wire,
        },
        interceptor,
    )
}

fn each_gateway(test: impl Fn(Bench, Interceptor)) {
    for shape in Shape::ALL {
        println!("{shape:?}");
        let (b, interceptor) = gateway(shape);
        test(b, interceptor);
    }
}

#[test]
fn a_syn_without_a_way_back_opens_nothing() {
    // Breaks when a forged source, from which nothing leads back, makes a gateway connect to a host: the interceptor
    // must not see it, and it is counted.
    each_gateway(|mut b, interceptor| {
        let forged = Hand {
            us: beyond(443),
            them: SocketAddr::new(addr([203, 0, 113, 99]), 5000),
            ..Hand::from_port(5000)
        };
        b.say(&forged.segment(SYN));
        b.nothing();
        assert!(interceptor.next().is_none());
        let dropped = b.stack().stats().dropped;
        assert!(
            dropped
                .iter()
                .any(|(reason, n)| reason.name() == "tcp_no_route_back" && *n == 1)
        );
    });
}

/// The station connects to a host beyond the gateway.
fn ask(b: &mut Bench, interceptor: &Interceptor, port: u16) -> (Hand, Incoming) {
    let hand = Hand {
        us: beyond(443),
        ..Hand::from_port(port)
    };
    b.say(&hand.segment(SYN));
    b.nothing();
    let incoming = interceptor.next().expect("somebody asks");
    assert_eq!(
        (incoming.local_addr(), incoming.peer_addr()),
        (hand.us, hand.them)
    );
    (hand, incoming)
}

#[test]
fn a_held_syn_is_answered_late() {
    // Breaks when a guest sees a connection before the host side has one, or when its repeated SYNs
    // meanwhile are answered or make more connections.
    each_gateway(|mut b, interceptor| {
        let (mut hand, incoming) = ask(&mut b, &interceptor, 5000);
        for wait in [1, 2, 4] {
            b.run(secs(wait));
            b.say(&hand.segment(SYN));
            b.nothing();
            assert!(interceptor.next().is_none());
        }
        let stream = incoming.accept().expect("it is still there");
        b.run(ms(0));
        let syn_ack = b.one();
        assert_eq!((syn_ack.flags, syn_ack.src), (SYN | ACK, hand.us));
        hand.snd += 1;
        hand.rcv = syn_ack.end();
        let hello = hand.data(b"hello");
        b.say(&hello);
        assert_eq!(stream.state(), State::Established);
        assert_eq!(read(&stream), b"hello");
        b.send(&stream, b"from beyond");
        let data = b.one();
        assert_eq!(
            (data.data.as_slice(), data.src),
            (&b"from beyond"[..], hand.us)
        );
    });
}

#[test]
fn what_is_written_before_the_answer_goes_with_it() {
    // Breaks when data of the host side that came first gets lost.
    let (mut b, interceptor) = gateway(Shape::Cluster);
    let (mut hand, incoming) = ask(&mut b, &interceptor, 5000);
    let stream = incoming.accept().expect("it is still there");
    stream.send(b"banner").expect("room");
    b.shut(&stream);
    hand.snd += 1;
    hand.rcv = b.one().end();
    b.say(&hand.segment(ACK));
    let seen = b.seen();
    assert_eq!(
        seen.iter().flat_map(|s| s.data.clone()).collect::<Vec<_>>(),
        b"banner"
    );
    assert!(seen.last().expect("data").has(FIN));
}

#[test]
fn a_refusal_by_reset_is_believable() {
    // RFC 9293 3.5.2: breaks when the guest goes on asking.
    each_gateway(|mut b, interceptor| {
        let (hand, incoming) = ask(&mut b, &interceptor, 5000);
        incoming.refuse(Refusal::Reset);
        b.run(ms(0));
        let rst = b.one();
        assert_eq!(
            (rst.flags, rst.ack, rst.src),
            (RST | ACK, hand.snd + 1, hand.us)
        );
        assert_eq!(b.stack().stats().tcp.connections, 0);
        // Dropping it undecided is the same.
        let (hand, incoming) = ask(&mut b, &interceptor, 5001);
        drop(incoming);
        b.run(ms(0));
        assert_eq!(b.one().ack, hand.snd + 1);
    });
}

fn octets(end: SocketAddr) -> Vec<u8> {
    match end {
        SocketAddr::V4(end) => end.ip().octets().to_vec(),
        SocketAddr::V6(end) => end.ip().octets().to_vec(),
    }
}

#[test]
fn a_refusal_by_icmp_quotes_the_syn() {
    // RFC 1122 3.2.2: breaks when the guest can't tell which connection is meant.
    for (kind, code) in [
        (IcmpError::Net, 0),
        (IcmpError::Host, 1),
        (IcmpError::Port, 3),
        (IcmpError::AdminProhibited, 13),
    ] {
        let (mut b, interceptor) = gateway(Shape::Cluster);
        let (hand, incoming) = ask(&mut b, &interceptor, 5000);
        incoming.refuse(Refusal::Unreachable(kind));
        b.run(ms(0));
        b.nothing();
        let seen = b.net.peer_mut(b.peer).take_icmp();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].kind, icmp_kind((3, code)));
        let quoted = &seen[0].body;
        let (addrs, ports) = if is_over_ipv6() { (8, 40) } else { (12, 20) };
        let ends = [octets(them(0)), octets(beyond(0))].concat();
        assert_eq!(quoted[addrs..addrs + ends.len()], ends);
        assert_eq!(quoted[ports..ports + 2], hand.them.port().to_be_bytes());
        assert_eq!(quoted[ports + 2..ports + 4], hand.us.port().to_be_bytes());
        assert_eq!(
            quoted[ports + 4..ports + 8],
            hand.snd.0.to_be_bytes(),
            "RFC 5927 4.1: its sequence number"
        );
    }
}

#[test]
fn silence_is_a_refusal_too() {
    // Breaks when `Ignore` sends a segment.
    let (mut b, interceptor) = gateway(Shape::Cluster);
    let (_, incoming) = ask(&mut b, &interceptor, 5000);
    incoming.refuse(Refusal::Ignore);
    b.run(secs(10));
    b.nothing();
}

#[test]
fn a_guest_that_gives_up_is_noticed() {
    // Breaks when the host side is kept for a guest that has left; or when a forged segment can make it leave.
    each_gateway(|mut b, interceptor| {
        let (mut hand, incoming) = ask(&mut b, &interceptor, 5000);
        b.say(&Segment {
            seq: hand.snd + 5000,
            ..hand.segment(RST)
        });
        assert!(!incoming.is_gone(), "not its number");
        hand.snd += 1;
        b.say(&hand.segment(RST));
        assert!(incoming.is_gone());
        assert!(incoming.accept().is_err());
        b.run(ms(0));
        b.nothing();
    });
}

#[test]
fn a_held_syn_that_comes_again_counts_for_ecn() {
    // RFC 9768 3.1.5: breaks when the late answer has the mark of another SYN than the latest, or offers of AccECN and
    // of RFC 3168's form are not reset because a program still decides.
    const OFFER: TcpFlags = TcpFlags::ECE.union(TcpFlags::CWR);
    const ECT_0: u8 = 0b10;
    each_gateway(|mut b, interceptor| {
        for (port, again, answer) in [
            (5000, TcpFlags::AE, Some(TcpFlags::AE)),
            (5001, TcpFlags::empty(), Some(TcpFlags::AE)),
            (5002, OFFER, None),
        ] {
            let hand = Hand {
                us: beyond(443),
                ..Hand::from_port(port)
            };
            b.say(&hand.segment(SYN | OFFER | TcpFlags::AE));
            let incoming = interceptor.next().expect("the first SYN is held");
            b.say(&Segment {
                ecn: ECT_0,
                ..hand.segment(SYN | again)
            });
            if let Some(code) = answer {
                let stream = incoming.accept().expect("it is still there");
                b.run(ms(0));
                assert_eq!(b.one().flags, SYN | ACK | code);
                b.say(&Segment {
                    seq: hand.snd + 1,
                    ..hand.segment(RST)
                });
                drop(stream);
            } else {
                let reset = b.one();
                assert_eq!(reset.flags, RST | ACK);
                assert_eq!(reset.ack, hand.snd + 1);
                assert!(incoming.is_gone());
            }
        }
    });
}

#[test]
fn too_many_undecided_ones_wait_outside() {
    // Breaks when a guest that opens thousands of connections fills the table.
    let (mut b, interceptor) = gateway(Shape::Cluster);
    for port in 5000..5010 {
        let hand = Hand {
            us: beyond(443),
            ..Hand::from_port(port)
        };
        b.say(&hand.segment(SYN));
    }
    b.nothing();
    assert_eq!(std::iter::from_fn(|| interceptor.next()).count(), 4);
}

#[test]
fn a_listener_goes_before_the_interceptor() {
    // Breaks when the gateway's own service is taken for a connection to the outside.
    let (mut b, interceptor) = gateway(Shape::Cluster);
    let listener = b.stack().tcp_listen(us(PORT), 4).expect("free");
    b.dial(5000, wire::TcpOptions::default());
    assert!(listener.accept().is_ok());
    assert!(interceptor.next().is_none());
}

#[test]
fn a_connection_can_be_made_from_a_foreign_address() {
    // Breaks when published ports can't show the guest the real address of its client.
    let (mut b, _interceptor) = gateway(Shape::Cluster);
    let client = beyond(50_000);
    let to = them(PORT);
    let _stream = b
        .stack()
        .tcp_connect(client, to)
        .expect("any address will do");
    b.run(ms(0));
    let syn = b.one();
    assert_eq!((syn.flags, syn.src, syn.dst), (SYN, client, to));
}
