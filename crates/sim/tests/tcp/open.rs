//! Opening a connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::common::*;
use mbuma::{IcmpAborts, SocketError, State};
use sim::{Net, Segment};
use wire::TcpOptions;

#[test]
fn the_stack_connects() {
    // RFC 9293 3.5: breaks when a step of the handshake, its numbers or its options are wrong.
    each_shape(|mut b| {
        let stream = b.connect();
        let syn = b.one();
        assert_eq!(syn.flags, SYN);
        assert_eq!(syn.options.mss, Some(MSS as u16), "RFC 9293 3.7.1");
        assert_eq!(
            syn.options.window_scale,
            Some(5),
            "RFC 7323 2.2: 1 MiB needs a shift of 5"
        );
        assert_eq!(stream.state(), State::SynSent);
        let mut hand = Hand::answering(&syn);
        b.say(&hand.segment(SYN | ACK));
        hand.snd += 1;
        let ack = b.one();
        assert_eq!((ack.flags, ack.seq, ack.ack), (ACK, syn.seq + 1, hand.snd));
        assert_eq!(stream.state(), State::Established);
    });
}

#[test]
fn ports_tell_neither_the_next_one_nor_those_of_others() {
    // RFC 6056 3.3.3 and 3.3.5: breaks when ports to one destination go up by a constant, which counts the connections
    // to all others, or those to two destinations, or of two hosts, begin at one place.
    const DYNAMIC: u16 = 49_152;
    let ports = |to: u16| {
        let mut b = Bench::new();
        let streams: Vec<_> = (0..40)
            .map(|_| b.stack().tcp_connect(any(), them(to)).expect("a port"))
            .collect();
        b.run(ms(1));
        let seen: Vec<u16> = b.seen().iter().map(|syn| syn.src.port()).collect();
        streams.iter().for_each(|stream| stream.abort());
        assert_eq!(seen.len(), 40);
        seen
    };
    let [one, two] = [80, 81].map(ports);
    assert!(one.iter().chain(&two).all(|port| *port >= DYNAMIC));
    let dynamic = u32::from(u16::MAX - DYNAMIC) + 1;
    let step = |pair: &[u16]| (dynamic + u32::from(pair[1]) - u32::from(pair[0])) % dynamic;
    let steps: Vec<u32> = one.windows(2).map(step).collect();
    assert!(
        steps.iter().all(|step| (1..=16).contains(step)),
        "{steps:?}"
    );
    assert!(steps.iter().any(|step| *step != steps[0]), "{steps:?}");
    assert_ne!(one[0], two[0]);
}

#[test]
fn the_stack_accepts() {
    // Breaks when a listener answers wrongly, or hands a connection over before it is established.
    each_shape(|mut b| {
        let listener = b.stack().tcp_listen(us(PORT), 16).expect("free");
        let mut hand = Hand::from_port(5000);
        b.say(&hand.segment(SYN));
        let syn_ack = b.one();
        assert_eq!(syn_ack.flags, SYN | ACK);
        assert_eq!(syn_ack.ack, hand.snd + 1);
        assert_eq!(
            syn_ack.options.window_scale, None,
            "not offered, so not answered"
        );
        assert!(listener.accept().is_err());
        hand.snd += 1;
        hand.rcv = syn_ack.end();
        let hello = hand.data(b"hello");
        b.say(&hello);
        let stream = listener
            .accept()
            .expect("established by the data's acknowledgement");
        assert_eq!(stream.peer_addr(), hand.them);
        assert_eq!(read(&stream), b"hello");
    });
}

#[test]
fn no_connection_is_opened_to_an_address_that_is_no_hosts() {
    // RFC 9293 3.9.2.3 (MUST-46): breaks when a SYN goes to all stations of a link, or waits minutes for an answer that
    // no station may give.
    let mut b = Bench::new();
    let stack = b.stack();
    let no_hosts: &[IpAddr] = match is_over_ipv6() {
        true => &[
            IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 1)),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ],
        false => &[
            IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1)),
            IpAddr::V4(Ipv4Addr::BROADCAST),
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 255)),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ],
    };
    let at_no_hosts = no_hosts.iter().map(|addr| SocketAddr::new(*addr, PORT));
    for to in at_no_hosts.chain([them(0)]) {
        let opened = stack.tcp_connect(us(0), to);
        assert_eq!(opened.err(), Some(SocketError::Unreachable), "{to}");
    }
    assert!(b.seen().is_empty());
}

#[test]
fn the_syn_is_repeated_with_back_off_and_then_given_up() {
    // RFC 6298 (2.1), (5.5); RFC 9293 3.8.3: breaks when a SYN's timer is lost or runs otherwise.
    let mut b = Bench::new();
    let start = b.net.now();
    let stream = b.connect();
    b.run(secs(180));
    assert_eq!(
        stream.state(),
        State::SynSent,
        "MUST-23: 3 minutes at least"
    );
    b.run(secs(5));
    let seen = b.seen();
    assert_eq!(
        times_ms(&seen, start),
        [0, 1000, 3000, 7000, 15_000, 31_000, 63_000, 123_000]
    );
    assert!(seen.iter().all(|s| s.flags == SYN && s.seq == seen[0].seq));
    assert_eq!(stream.error(), Some(SocketError::TimedOut));
    assert_eq!(stream.state(), State::Closed);
}

#[test]
fn the_answer_to_a_syn_is_repeated_with_back_off() {
    // Breaks when a listener forgets a half-open connection, or keeps it for ever.
    let mut b = Bench::new();
    let _listener = b.stack().tcp_listen(us(PORT), 1).expect("free");
    let start = b.net.now();
    b.say(&Hand::from_port(5000).segment(SYN));
    b.run(secs(100));
    assert_eq!(
        times_ms(&b.seen(), start),
        [0, 1000, 3000, 7000, 15_000, 31_000]
    );
    // Its place in the backlog is free again.
    b.say(&Hand::from_port(5001).segment(SYN));
    assert_eq!(b.one().flags, SYN | ACK);
}

#[test]
fn a_repeated_syn_is_answered_again() {
    // RFC 9293 3.10.7.4: breaks when a lost SYN-ACK waits for our own timer.
    each_shape(|mut b| {
        let _listener = b.stack().tcp_listen(us(PORT), 16).expect("free");
        let hand = Hand::from_port(5000);
        b.say(&hand.segment(SYN));
        let first = b.one();
        b.run(ms(300));
        b.say(&hand.segment(SYN));
        let second = b.one();
        assert_eq!((second.flags, second.seq), (SYN | ACK, first.seq));
    });
}

#[test]
fn a_connection_is_refused_by_a_reset() {
    // RFC 9293 3.10.7.3: breaks when a refusal is not believed, or a forged one is.
    each_shape(|mut b| {
        let stream = b.connect();
        let mut hand = Hand::answering(&b.one());
        hand.snd = wire::SeqNum(0);
        let forged = Segment {
            ack: hand.rcv + 1,
            ..hand.segment(RST | ACK)
        };
        b.say(&forged);
        assert_eq!(
            stream.state(),
            State::SynSent,
            "it acknowledges what was never sent"
        );
        b.say(&hand.segment(RST));
        assert_eq!(stream.state(), State::SynSent, "it acknowledges nothing");
        b.seen();
        b.say(&hand.segment(RST | ACK));
        assert_eq!(stream.error(), Some(SocketError::Refused));
        assert_eq!(stream.recv_chain(1).err(), Some(SocketError::Refused));
        drop(stream);
        b.nothing();
    });
}

#[test]
fn a_connection_is_refused_by_icmp() {
    // RFC 1122 4.2.3.9, RFC 5927 4.1: breaks when an error about our SYN is ignored, or one about
    // something else believed.
    for (kind, error) in [
        ((3, 1), SocketError::Unreachable),
        ((11, 0), SocketError::Unreachable),
        ((12, 0), SocketError::Unreachable),
        ((3, 3), SocketError::Refused),
        ((3, 13), SocketError::Prohibited),
    ] {
        let mut b = Bench::tuned(|config| config.tcp.icmp_aborts = IcmpAborts::All);
        let stream = b.connect();
        let syn = b.one();
        let other = Segment {
            seq: syn.seq + 77,
            ..syn.clone()
        };
        b.net.complain(b.peer, &other, kind, [0; 4]);
        b.run(ms(0));
        assert_eq!(stream.state(), State::SynSent, "not about our segment");
        b.net.complain(b.peer, &syn, kind, [0; 4]);
        b.run(ms(0));
        assert_eq!(stream.error(), Some(error), "{kind:?}");
    }
}

#[test]
fn an_error_about_a_policy_ends_an_attempt_to_connect() {
    // RFC 4443 3.1: breaks if codes 5 and 6, which are subsets of code 1 ("administratively prohibited"), count as
    // transient and the program waits for minutes. They exist over IPv6 only.
    let policies = [(1, 5), (1, 6)].into_iter().filter(|_| is_over_ipv6());
    for kind in policies.chain([(3, 13)]) {
        let mut b = Bench::new();
        let stream = b.connect();
        let syn = b.one();
        b.net.complain(b.peer, &syn, kind, [0; 4]);
        b.run(ms(0));
        assert_eq!(stream.error(), Some(SocketError::Prohibited), "{kind:?}");
    }
}

#[test]
fn a_soft_error_does_not_end_an_attempt_to_connect() {
    // RFC 9293 3.9.2.2, SHLD-25, MUST-56: breaks if a route that flaps ends an attempt, or if the attempt's end does
    // not tell of it. ICMPv6 reports an unknown protocol as a parameter problem, which is soft.
    let soft = [(3, 0), (3, 1), (3, 5), (11, 0), (11, 1), (12, 0)];
    let protocol = Some((3, 2)).filter(|_| is_over_ipv6());
    for kind in soft.into_iter().chain(protocol) {
        let mut b = Bench::new();
        let stream = b.connect();
        let syn = b.one();
        b.net.complain(b.peer, &syn, kind, [0; 4]);
        b.run(ms(0));
        assert_eq!(stream.state(), State::SynSent, "{kind:?}");
        b.run(secs(200));
        assert_eq!(stream.error(), Some(SocketError::Unreachable));
    }
}

#[test]
fn an_established_connection_survives_icmp() {
    // RFC 5927 6: breaks when a forged ICMP error can end a connection.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    b.send(&stream, b"data");
    let data = b.one();
    for code in [0, 1, 2, 3, 13] {
        b.net.complain(b.peer, &data, (3, code), [0; 4]);
    }
    b.run(ms(0));
    assert_eq!(stream.state(), State::Established);
    b.say(&hand.ack(&data));
}

#[test]
fn both_ends_open_at_once() {
    // RFC 9293 3.5, figure 8: breaks when a SYN in SYN-SENT is not answered by a SYN-ACK.
    each_shape(|mut b| {
        let stream = b.connect();
        let syn = b.one();
        let mut hand = Hand::answering(&syn);
        b.say(&hand.segment(SYN));
        let syn_ack = b.one();
        assert_eq!((syn_ack.flags, syn_ack.seq), (SYN | ACK, syn.seq));
        assert_eq!(syn_ack.ack, hand.snd + 1);
        assert_eq!(stream.state(), State::SynReceived);
        b.say(&hand.segment(SYN | ACK));
        assert_eq!(stream.state(), State::Established);
        hand.snd += 1;
        b.say(&hand.data(b"both"));
        assert_eq!(read(&stream), b"both");
    });
}

#[test]
fn two_stacks_open_to_each_other_at_once() {
    // The same with a real stack on both sides: breaks when they do not agree that it is one
    // connection.
    let mut net = Net::new(3);
    let wire = net.wire(sim::Link::delay(ms(10)));
    let nodes = [net.stack(), net.stack()];
    let addrs = [us(1111), them(2222)];
    for (node, addr) in nodes.iter().zip(addrs) {
        net.plug(*node, wire, addr.ip(), &sim::PortConfig::plain(link_mtu()));
    }
    // Each already knows the other's Ethernet address, so that the SYNs cross.
    let warm = net.at(nodes[0]).tcp_connect(us(0), addrs[1]).expect("free");
    net.run_for(secs(1));
    assert_eq!(warm.error(), Some(SocketError::Refused));
    let one = net
        .at(nodes[0])
        .tcp_connect(addrs[0], addrs[1])
        .expect("free");
    let two = net
        .at(nodes[1])
        .tcp_connect(addrs[1], addrs[0])
        .expect("free");
    net.run_for(secs(1));
    assert_eq!(
        (one.state(), two.state()),
        (State::Established, State::Established)
    );
    one.send(b"ping").expect("room");
    two.send(b"pong").expect("room");
    net.run_for(secs(1));
    assert_eq!(
        (read(&one), read(&two)),
        (b"pong".to_vec(), b"ping".to_vec())
    );
}

#[test]
fn a_syn_to_a_closed_port_gets_a_believable_reset() {
    // RFC 9293 3.5.2: breaks when a closed port is silent, or its reset is not believable.
    each_shape(|mut b| {
        let hand = Hand::from_port(5000);
        b.say(&Segment {
            data: b"x".to_vec(),
            ..hand.segment(SYN)
        });
        let rst = b.one();
        assert_eq!(
            (rst.flags, rst.seq.0, rst.ack),
            (RST | ACK, 0, hand.snd + 2)
        );
        b.say(&Segment {
            ack: wire::SeqNum(77),
            ..hand.segment(ACK)
        });
        let rst = b.one();
        assert_eq!((rst.flags, rst.seq.0), (RST, 77));
        b.say(&hand.segment(RST));
        b.nothing();
    });
}

#[test]
fn a_listener_wants_a_syn() {
    // RFC 9293 3.10.7.2: breaks when a stray segment makes a connection, or goes unanswered.
    each_shape(|mut b| {
        let listener = b.stack().tcp_listen(us(PORT), 16).expect("free");
        let hand = Hand::from_port(5000);
        b.say(&Segment {
            ack: wire::SeqNum(99),
            ..hand.segment(SYN | ACK)
        });
        assert_eq!((b.one().flags, listener.accept().is_err()), (RST, true));
        b.say(&hand.segment(FIN));
        b.say(&hand.segment(RST | SYN));
        b.nothing();
        assert_eq!(b.stack().stats().tcp.connections, 0);
    });
}

#[test]
fn a_full_backlog_stays_silent() {
    // Breaks when a full backlog answers SYNs that it can't serve, or never recovers.
    let mut b = Bench::new();
    let listener = b.stack().tcp_listen(us(PORT), 2).expect("free");
    let (one, two) = (
        b.dial(5000, TcpOptions::default()),
        b.dial(5001, TcpOptions::default()),
    );
    b.say(&Hand::from_port(5002).segment(SYN));
    b.nothing();
    let accepted = listener.accept().expect("two are waiting");
    assert_eq!(accepted.peer_addr(), one.them);
    let three = b.dial(5002, TcpOptions::default());
    let rest: Vec<_> = std::iter::from_fn(|| listener.accept().ok())
        .map(|s| s.peer_addr())
        .collect();
    assert_eq!(rest, [two.them, three.them]);
    let dropped = b.stack().stats().dropped;
    assert!(
        dropped
            .iter()
            .any(|(reason, n)| reason.name() == "tcp_listen_overflow" && *n == 1)
    );
}

#[test]
fn a_full_table_takes_no_connection_until_one_ends() {
    // Breaks when a stack holds more connections than its user allowed, or when one that finds no room keeps a place.
    let mut b = Bench::tuned(|config| config.tcp.connections_max = 2);
    let listener = b.stack().tcp_listen(us(PORT), 16).expect("free");
    let one = b.dial(5000, TcpOptions::default());
    b.dial(5001, TcpOptions::default());
    for _ in 0..16 {
        b.say(&Hand::from_port(5002).segment(SYN));
        b.nothing();
    }
    for local in [any(), us(4000)] {
        let refused = b.stack().tcp_connect(local, them(PORT));
        assert_eq!(refused.err(), Some(SocketError::TooManyConnections));
    }
    let stats = b.stack().stats();
    let refused = (stats.dropped.iter()).filter(|(reason, _)| reason.name() == "tcp_table_full");
    assert_eq!(refused.map(|(_, n)| *n).collect::<Vec<_>>(), [16]);
    // Nor a place among the listener's half-open ones: it would answer with cookies for ever.
    assert_eq!(b.stack().tcp_listeners()[0].half_open, 0);
    b.say(&one.segment(RST | ACK));
    b.dial(5002, TcpOptions::default());
    assert_eq!(b.stack().stats().tcp.connections, 2);
    drop(listener);
    b.run(ms(0));
}

#[test]
fn a_server_may_send_right_after_its_syn_ack() {
    // RFC 9293 3.10.7.3: breaks when segments that come in one batch with the SYN-ACK count as out of the window that
    // our SYN announced, so that the peer must repeat them.
    let mut b = Bench::new();
    let stream = b.connect();
    let mut hand = Hand::answering(&b.one());
    let syn_ack = Segment {
        options: with_mss(),
        ..hand.segment(SYN | ACK)
    };
    hand.snd += 1;
    for segment in [syn_ack, hand.data(b"hello"), hand.fin()] {
        b.net.say(b.peer, &segment);
    }
    b.run(ms(0));
    assert_eq!(read(&stream), b"hello");
    assert_end(&stream);
}

#[test]
fn a_syn_right_behind_the_end_of_its_predecessor_opens_a_connection() {
    // RFC 9293 3.10.7.1: breaks when a client that resets, or acknowledges the last FIN, and connects again from its
    // port is refused because both segments come in one batch.
    for resets in [true, false] {
        let mut b = Bench::new();
        let listener = b.stack().tcp_listen(us(PORT), 16).expect("free");
        let mut hand = b.dial(5000, TcpOptions::default());
        let stream = listener.accept().expect("it is there");
        let last = if resets {
            hand.segment(RST | ACK)
        } else {
            b.say(&hand.fin());
            b.shut(&stream);
            let seen = b.seen();
            hand.ack(seen.last().expect("a FIN"))
        };
        let again = Hand::from_port(5000).segment(SYN);
        for segment in [last, again] {
            b.net.say(b.peer, &segment);
        }
        b.run(ms(0));
        assert_eq!(b.one().flags, SYN | ACK, "{resets}");
        assert_eq!(b.stack().stats().tcp.closed, 1);
    }
}

#[test]
fn a_dropped_listener_resets_connections_that_wait() {
    // Breaks when connections that were not accepted stay, or their peers hear nothing.
    let mut b = Bench::new();
    let listener = b.stack().tcp_listen(us(PORT), 2).expect("free");
    let hand = b.dial(5000, TcpOptions::default());
    drop(listener);
    b.run(ms(0));
    let rst = b.one();
    assert!(rst.has(RST));
    assert_eq!(rst.seq, hand.rcv);
}

#[test]
fn segments_are_as_large_as_the_peer_allows() {
    // RFC 9293 3.7.1: breaks when the peer's MSS is ignored, or the default of 536 where it says none.
    for (option, mss) in [
        (Some(536), 536),
        (Some(1000), 1000),
        (Some(9000), MSS),
        (None, 536),
    ] {
        let mut b = Bench::new();
        let options = TcpOptions {
            mss: option,
            ..TcpOptions::default()
        };
        let (_, stream) = b.active_with(65_535, options);
        b.send(&stream, &bytes(5000));
        let seen = b.seen();
        assert_eq!(seen[0].data.len(), mss, "{option:?}");
        assert!(seen.iter().all(|s| s.data.len() <= mss));
    }
}

#[test]
fn initial_sequence_numbers_are_unpredictable_yet_monotone() {
    // RFC 6528 3: breaks when an outsider can compute them from those of his own connections, or when
    // a new incarnation of a connection begins within the old one's numbers.
    let isn = |seed: u64, port: u16, wait_us: u64| {
        let mut net = Net::new(seed);
        let wire = net.wire(sim::Link::PERFECT);
        let node = net.stack();
        net.plug(node, wire, us(0).ip(), &sim::PortConfig::plain(link_mtu()));
        let peer = net.peer(wire, them(0).ip());
        net.run_for(std::time::Duration::from_micros(wait_us));
        let to = them(PORT);
        let stream = net.at(node).tcp_connect(us(port), to).expect("free");
        net.run_for(ms(0));
        drop(stream);
        net.peer_mut(peer).take_segments()[0].seq
    };
    let base = isn(1, 1000, 0);
    assert_eq!(
        isn(1, 1000, 4000).since(base),
        1000,
        "4 microseconds a step"
    );
    let others = [isn(2, 1000, 0), isn(1, 1001, 0), isn(1, 1002, 0)];
    for (i, other) in others.iter().enumerate() {
        let distance = other.since(base).min(base.since(*other));
        assert!(distance > 100_000, "{i}: {distance}");
    }
    let (one, two) = (others[1].since(base), others[2].since(others[1]));
    assert_ne!(one, two, "neighbouring ports are equally far apart");
}

#[test]
fn ports_of_one_destination_tell_nothing_of_another() {
    // RFC 6056 3.3.3: breaks when an outsider learns, from connections to a server of its own, the port of the next one
    // to another destination; or when a port is not a dynamic one, or is used again at once.
    let mut b = Bench::new();
    let mut port = |to: u16| {
        let (local, to) = (any(), them(to));
        let stream = b.stack().tcp_connect(local, to).expect("a port is free");
        b.run(ms(0));
        let port = b.one().src.port();
        stream.abort();
        b.run(ms(0));
        b.seen();
        i32::from(port)
    };
    let [one, other, next] = [80, 81, 80].map(&mut port);
    assert!([one, other, next].iter().all(|port| *port >= 49_152));
    assert_ne!(one, next);
    assert!((other - one).abs() > 2, "{one}, {other}");
}

#[test]
fn a_repeated_handshake_begins_with_a_patient_timer() {
    // RFC 6298 (5.7): breaks when data is sent again after a second although no round trip was measured.
    let mut b = Bench::new();
    let stream = b.connect();
    b.run(ms(1500));
    let syns = b.seen();
    assert_eq!(syns.len(), 2);
    let mut hand = Hand::answering(&syns[1]);
    b.say(&hand.segment(SYN | ACK));
    hand.snd += 1;
    b.one();
    let start = b.net.now();
    stream.send(b"x").expect("room");
    b.run(ms(3100));
    assert_eq!(times_ms(&b.seen(), start), [0, 3000]);
}

#[test]
fn what_is_written_before_the_handshake_is_sent_after_it() {
    // Breaks when data or the end of a stream that is not established yet is forgotten.
    each_shape(|mut b| {
        let stream = b.connect();
        let syn = b.one();
        stream.send(b"early").expect("room");
        stream.shutdown(std::net::Shutdown::Write);
        b.nothing();
        let mut hand = Hand::answering(&syn);
        b.say(&hand.segment(SYN | ACK));
        hand.snd += 1;
        let seen = b.seen();
        let data: Vec<u8> = seen.iter().flat_map(|s| s.data.clone()).collect();
        assert_eq!(data, b"early");
        let last = seen.last().expect("there is data");
        assert!(last.has(FIN));
        assert_eq!(stream.state(), State::FinWait1);
    });
}

#[test]
fn a_stream_dropped_before_the_handshake_leaves_nothing() {
    // RFC 9293 3.10.4: breaks when an abandoned connection attempt goes on.
    let mut b = Bench::new();
    drop(b.connect());
    assert_eq!(b.stack().stats().tcp.connections, 0);
}

#[test]
fn the_segment_size_that_we_offer_is_our_own() {
    // RFC 9293 3.7.1: breaks when the answer repeats what the peer can take, or what is assumed of one
    // that does not say: it would send small segments, though our link takes large ones.
    for theirs in [None, Some(0), Some(300), Some(u16::MAX)] {
        let mut b = Bench::new();
        let addr = us(PORT);
        let _listener = b.stack().tcp_listen(addr, 1).expect("the port is free");
        let options = TcpOptions {
            mss: theirs,
            ..TcpOptions::default()
        };
        let hand = Hand::from_port(5000);
        let syn = Segment {
            options,
            ..hand.segment(SYN)
        };
        b.say(&syn);
        assert_eq!(b.one().options.mss, Some(MSS as u16), "{theirs:?}");
    }
}
