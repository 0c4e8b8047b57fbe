//! SYN cookies: handshakes beyond the bound of half-open connections (RFC 4987 3.6).

use crate::common::*;
use mbuma::{DropReason, TcpListener};
use sim::{PortConfig, Segment};
use wire::TcpOptions;

const BOUND: u16 = 16;

/// A listener whose half-open connections are at their bound.
fn crowded(b: &mut Bench) -> TcpListener {
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 64)
        .expect("the port is free");
    for port in 10_000..10_000 + BOUND {
        b.say(&Hand::from_port(port).segment(SYN));
    }
    assert_eq!(b.seen().len(), usize::from(BOUND));
    listener
}

fn bench() -> Bench {
    Bench::tuned(|c| c.tcp.half_open_max = BOUND.into())
}

/// A handshake of which the stack remembers nothing yet: the station has seen the answer.
fn answered(b: &mut Bench, port: u16, options: TcpOptions) -> Hand {
    let mut hand = Hand::from_port(port);
    let syn = Segment {
        options,
        ..hand.segment(SYN)
    };
    let before = b.stack().stats().tcp.connections;
    b.say(&syn);
    let answer = b.one();
    hand.snd += 1;
    assert_eq!((answer.flags, answer.ack), (SYN | ACK, hand.snd));
    hand.rcv = answer.seq + 1;
    hand.ts = answer
        .options
        .timestamps
        .map(|(theirs, ours)| (ours, theirs));
    assert_eq!(b.stack().stats().tcp.connections, before);
    hand
}

#[test]
fn a_flood_keeps_no_client_out_and_costs_none_an_option() {
    // RFC 4987: breaks when a peer that comes in a flood is kept out, or gets less than it asked for: its MSS, its
    // window's scale, SACK, timestamps; each of them without the others.
    for n in 0..8_u16 {
        let mut b = bench();
        let listener = crowded(&mut b);
        let options = TcpOptions {
            mss: Some(1300),
            window_scale: (n & 1 > 0).then_some(3),
            sack_permitted: n & 2 > 0,
            timestamps: (n & 4 > 0).then_some((4711, 0)),
            ..TcpOptions::default()
        };
        let mut hand = answered(&mut b, 5000, options);
        b.say(&hand.segment(ACK));
        b.nothing();
        let stream = listener.accept().expect("established");
        let shift = options.window_scale.unwrap_or(0);
        assert_eq!(stream.info().snd_wnd, u32::from(hand.window) << shift);
        let each = if hand.ts.is_some() { 12 } else { 0 };
        assert_eq!(stream.info().mss, 1300 - each);
        b.say(&hand.data(b"hello"));
        assert_eq!(read(&stream), b"hello");
        b.send(&stream, b"answer");
        let answer = b.seen().pop().expect("there is one");
        assert_eq!(
            answer.options.timestamps.is_some(),
            options.timestamps.is_some()
        );
        hand.rcv = answer.end();
        let _lost = hand.data(b"lost");
        b.say(&hand.data(b"early"));
        assert_eq!(!b.one().options.sack.is_empty(), options.sack_permitted);
        let stats = b.stack().stats().tcp;
        assert_eq!((stats.cookies_sent, stats.cookies_taken), (1, 1));
        assert_eq!(stats.syns_evicted, 0);
        stream.abort();
    }
}

#[test]
fn a_lost_acknowledgement_is_made_good_by_the_first_data() {
    // Breaks when only an acknowledgement without data is accepted as a cookie.
    let mut b = bench();
    let listener = crowded(&mut b);
    let mut hand = answered(&mut b, 5000, TcpOptions::default());
    b.say(&hand.data(b"first words"));
    let stream = listener.accept().expect("established");
    assert_eq!(read(&stream), b"first words");
    stream.abort();
}

#[test]
fn data_that_overtakes_the_cookie_does_not_end_the_connection() {
    // The first fault that the simulator found: breaks when data that arrives before the acknowledgement is answered
    // with a reset. It does not have the peer's initial number, so it can't open the connection; the peer sends it
    // again.
    let mut b = bench();
    let listener = crowded(&mut b);
    let mut hand = answered(&mut b, 5000, TcpOptions::default());
    let ack = hand.segment(ACK);
    let first = hand.data(b"first ");
    let second = hand.data(b"second");
    b.say(&second);
    b.nothing();
    let dropped = b.stack().stats().dropped;
    assert!(dropped.contains(&(DropReason::TcpNoCookie, 1)));
    b.say(&ack);
    let stream = listener.accept().expect("established");
    b.say(&first);
    b.say(&second);
    assert_eq!(read(&stream), b"first second");
    stream.abort();
}

#[test]
fn a_cookie_that_comes_back_twice_opens_one_connection() {
    // The second fault that the simulator found: breaks when a copy of the acknowledgement, or of the first data, opens
    // the connection again: the user would get a connection without a peer, and the same request twice.
    let mut b = bench();
    let listener = crowded(&mut b);
    let mut hand = answered(&mut b, 5000, TcpOptions::default());
    let ack = hand.segment(ACK);
    let request = hand.data(b"pay 100");
    b.say(&ack);
    b.say(&ack);
    b.say(&request);
    let stream = listener.accept().expect("established");
    assert_eq!(read(&stream), b"pay 100");
    assert!(listener.accept().is_err());
    // The peer closes first, so that the stack remembers nothing when it has closed too.
    b.say(&hand.fin());
    drop(stream);
    b.run(ms(50));
    let last = b.seen().pop().expect("the FIN");
    assert!(last.has(FIN));
    b.say(&hand.ack(&last));
    let connections = b.stack().stats().tcp.connections;
    assert_eq!(connections, usize::from(BOUND), "it is over");
    for _ in 0..BOUND {
        for copy in [&ack, &request] {
            b.say(copy);
            b.nothing();
        }
    }
    assert!(listener.accept().is_err());
    assert_eq!(b.stack().stats().tcp.cookies_taken, 1);
    // Nor does a copy keep a place among the half-open ones: once these are over, a SYN needs no cookie.
    b.run(secs(400));
    b.seen();
    b.say(&Hand::from_port(6000).segment(SYN));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.connections, stats.cookies_sent), (1, 1));
}

#[test]
fn a_cookie_is_not_to_be_guessed_and_not_to_be_kept() {
    // Breaks when a peer that forges addresses gets connections, or when a cookie is good for ever.
    let mut b = bench();
    let listener = crowded(&mut b);
    let mut hand = answered(&mut b, 5000, TcpOptions::default());
    let right = hand.rcv;
    for guess in 1..10_000_u32 {
        hand.rcv = right + guess;
        b.say(&hand.segment(ACK));
        b.nothing();
    }
    b.run(secs(200));
    hand.rcv = right;
    b.seen();
    b.say(&hand.segment(ACK));
    assert!(b.one().has(RST));
    assert!(listener.accept().is_err());
    assert_eq!(b.stack().stats().tcp.cookies_taken, 0);
}

#[test]
fn a_segment_that_begins_a_connection_redeems_no_cookie() {
    // RFC 9293 3.10.7.2: breaks when a SYN-ACK opens a connection to a listener, with its SYN taken for data.
    let mut b = bench();
    let listener = crowded(&mut b);
    let hand = answered(&mut b, 5000, TcpOptions::default());
    b.say(&hand.segment(SYN | ACK));
    assert!(listener.accept().is_err());
    assert_eq!(b.stack().stats().tcp.cookies_taken, 0);
}

#[test]
fn a_backlog_that_is_full_takes_no_cookie() {
    // Breaks when connections that come in by cookies have no bound: the user is slow, and the peer must wait.
    let mut b = bench();
    let listener = b.stack().tcp_listen(us(PORT), 1).expect("the port is free");
    for port in 10_000..10_000 + BOUND {
        b.say(&Hand::from_port(port).segment(SYN));
    }
    b.seen();
    let [mut first, mut second] =
        [5000, 5001].map(|port| answered(&mut b, port, TcpOptions::default()));
    b.say(&first.segment(ACK));
    b.say(&second.segment(ACK));
    b.nothing();
    let data = second.data(b"later");
    b.say(&data);
    b.nothing();
    let stream = listener.accept().expect("the first");
    assert_eq!(stream.peer_addr(), first.them);
    assert!(listener.accept().is_err());
    b.say(&data);
    let other = listener.accept().expect("the second, when there is room");
    assert_eq!(read(&other), b"later");
    b.say(&first.data(b"x"));
    assert_eq!(read(&stream), b"x");
    stream.abort();
    other.abort();
}

#[test]
fn a_peer_in_time_wait_comes_back_in_a_flood() {
    // RFC 1122 4.2.2.13: breaks when a SYN for a connection in TIME-WAIT is answered with a cookie: its acknowledgement
    // would meet the old connection.
    let mut b = bench();
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 64)
        .expect("the port is free");
    let mut hand = b.dial(5000, TcpOptions::default());
    let stream = listener.accept().expect("established");
    drop(stream);
    b.run(ms(0));
    let fin = b.one();
    b.say(&hand.ack(&fin));
    b.say(&hand.fin());
    b.seen();
    for port in 10_000..10_000 + BOUND {
        b.say(&Hand::from_port(port).segment(SYN));
    }
    b.seen();
    hand.snd += 100_000;
    b.say(&hand.segment(SYN));
    let answer = b.one();
    hand.snd += 1;
    hand.rcv = answer.seq + 1;
    b.say(&hand.segment(ACK));
    assert!(listener.accept().is_ok());
    assert_eq!(b.stack().stats().tcp.cookies_sent, 0);
    drop(listener);
    b.run(ms(0));
}

#[test]
fn without_cookies_the_oldest_makes_room() {
    // Breaks when a stack that is configured without cookies sends one.
    let mut b = Bench::with(&PortConfig::plain(link_mtu()), |c| {
        (c.tcp.half_open_max, c.tcp.syn_cookies) = (BOUND.into(), false);
    });
    let _listener = crowded(&mut b);
    b.say(&Hand::from_port(5000).segment(SYN));
    assert!(b.one().has(SYN));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.cookies_sent, stats.syns_evicted), (0, 1));
}

#[test]
fn a_cookie_is_answered_with_the_options_of_the_listener() {
    // RFC 9293 3.7.1: breaks when a handshake beyond the bound announces another segment size than the listener asks
    // for, or the connection that comes of it does not have it.
    let mut b = bench();
    let listener = crowded(&mut b);
    listener.set_options(&mbuma::TcpSocketOptions {
        segment_max: Some(700),
        ..mbuma::TcpSocketOptions::default()
    });
    let mut hand = Hand::from_port(5000);
    b.say(&hand.segment(SYN));
    let answer = b.one();
    assert_eq!(answer.options.mss, Some(700));
    (hand.snd, hand.rcv) = (hand.snd + 1, answer.seq + 1);
    b.say(&hand.segment(ACK));
    let stream = listener.accept().expect("established");
    assert_eq!(stream.options().segment_max, Some(700));
    stream.abort();
    drop((stream, listener));
    b.run(ms(0));
    b.seen();
}

#[test]
fn clients_that_say_nothing_keep_no_program_waiting_once_they_are_too_many() {
    // TCP_DEFER_ACCEPT: breaks when clients that connect and are silent take memory beyond the bound of half-open
    // connections, or keep those beside them from the program; or one is lost when the listener has gone.
    let mut b = bench();
    let listener = b.stack().tcp_listen(us(PORT), 100).unwrap();
    listener.set_options(&mbuma::TcpSocketOptions {
        accept_delay: Some(secs(5)),
        ..mbuma::TcpSocketOptions::default()
    });
    let mut accepted = Vec::new();
    for n in 1..=2 * BOUND {
        let mut hand = Hand::from_port(5000 + n);
        b.say(&hand.segment(SYN));
        (hand.snd, hand.rcv) = (hand.snd + 1, b.one().seq + 1);
        b.say(&hand.segment(ACK));
        accepted.extend(listener.accept());
        let waiting = usize::from(n) - accepted.len();
        assert!(waiting < usize::from(BOUND), "{waiting} wait after {n}");
    }
    assert_eq!(accepted.len(), usize::from(BOUND) + 1);
    b.run(secs(6));
    accepted.extend(std::iter::from_fn(|| listener.accept().ok()));
    assert_eq!(accepted.len(), usize::from(2 * BOUND));
    // One more, and no listener any more: it gets a reset when its time is over.
    let mut hand = Hand::from_port(4000);
    b.say(&hand.segment(SYN));
    (hand.snd, hand.rcv) = (hand.snd + 1, b.one().seq + 1);
    b.say(&hand.segment(ACK));
    drop(listener);
    b.seen();
    b.run(secs(6));
    assert!(b.one().has(RST));
    accepted.iter().for_each(mbuma::TcpStream::abort);
    drop(accepted);
    b.run(ms(0));
    b.seen();
}
