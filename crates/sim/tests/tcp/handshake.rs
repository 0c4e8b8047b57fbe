//! The state of a connection after a handshake with losses.

use crate::common::*;
use mbuma::{State, TcpListener};
use sim::{PortConfig, Segment};
use wire::TcpOptions;

fn listen(b: &Bench) -> TcpListener {
    b.stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free")
}

fn with_mss(mss: u16) -> TcpOptions {
    TcpOptions {
        mss: Some(mss),
        ..TcpOptions::default()
    }
}

/// The bytes that the stack sends at once when it has more than enough.
fn flight(b: &mut Bench) -> usize {
    b.seen().iter().map(|s| s.data.len()).sum()
}

/// A passive connection after `lost` lost SYN-ACKs.
fn after_lost_syn_acks(b: &mut Bench, lost: u32) -> (Hand, TcpListener) {
    let listener = listen(b);
    let mut hand = Hand::from_port(5000);
    b.say(&Segment {
        options: with_mss(MSS as u16),
        ..hand.segment(SYN)
    });
    hand.rcv = b.one().seq + 1;
    hand.snd += 1;
    for n in 0..lost {
        b.run(secs(1 << n));
        assert_eq!(b.one().flags, SYN | ACK);
    }
    b.say(&hand.segment(ACK));
    (hand, listener)
}

#[test]
fn a_lost_syn_ack_leaves_slow_start_as_it_is() {
    // RFC 5681 3.1: breaks if the loss of a SYN-ACK sets ssthresh, so that the window grows by a segment a round trip
    // for the life of the connection; or if one loss alone makes the initial window smaller (RFC 6928 2).
    let mut b = Bench::new();
    let (mut hand, listener) = after_lost_syn_acks(&mut b, 1);
    let stream = listener.accept().expect("established");
    let data = bytes(200_000);
    b.send(&stream, &data);
    assert_eq!(flight(&mut b), 10 * MSS);
    hand.rcv += 10 * MSS as u32;
    b.say(&hand.segment(ACK));
    assert_eq!(flight(&mut b), 20 * MSS, "slow start doubles the window");
    stream.abort();
}

#[test]
fn after_several_lost_syns_the_window_begins_with_one_segment() {
    // RFC 6928 2, RFC 5681 3.1: breaks if a path that loses SYNs gets ten segments at once.
    let mut b = Bench::new();
    let (_, listener) = after_lost_syn_acks(&mut b, 2);
    let stream = listener.accept().expect("established");
    b.send(&stream, &bytes(20_000));
    assert_eq!(flight(&mut b), MSS);
    stream.abort();
}

#[test]
fn the_initial_window_has_a_bound_in_bytes() {
    // RFC 6928 2, min (10*MSS, max (2*MSS, 14600)): breaks if ten jumbo segments go at once.
    let jumbo = 8960 + link_mtu() - MSS as u16;
    let mut b = Bench::with(&PortConfig::plain(jumbo), |_| {});
    let listener = listen(&b);
    let _hand = b.dial(5000, with_mss(8960));
    let stream = listener.accept().expect("established");
    b.send(&stream, &bytes(100_000));
    assert_eq!(flight(&mut b), 2 * 8960);
    stream.abort();
}

#[test]
fn the_acknowledgement_of_the_syn_opens_no_window() {
    // RFC 5681 3.1: breaks if SYN or FIN count as data that was acknowledged.
    let mut b = Bench::tuned(|config| config.tcp.initial_window = 1);
    let (_, stream) = b.passive();
    assert_eq!(stream.info().cwnd, MSS as u32);
}

#[test]
fn unacceptable_segments_are_answered_in_syn_received() {
    // RFC 9293 3.10.7.4, RFC 5961 3.2 and 4.2: breaks if such a segment gets no acknowledgement, or gets it only after
    // the handshake.
    let mut b = Bench::new();
    let listener = listen(&b);
    let mut hand = Hand::from_port(5000);
    b.say(&hand.segment(SYN));
    let syn_ack = b.one();
    hand.rcv = syn_ack.seq + 1;
    hand.snd += 1;
    let beyond = Segment {
        seq: hand.snd + 100_000,
        data: b"far".to_vec(),
        ..hand.segment(ACK)
    };
    let reset_inside = Segment {
        seq: hand.snd + 7,
        ..hand.segment(RST)
    };
    let another_syn = Segment {
        seq: hand.snd + 7,
        ..hand.segment(SYN)
    };
    for wrong in [beyond, reset_inside, another_syn] {
        b.say(&wrong);
        let answer = b.one();
        assert_eq!(answer.flags, ACK, "{wrong}");
        assert_eq!((answer.seq, answer.ack), (syn_ack.seq + 1, hand.snd));
    }
    b.say(&hand.segment(ACK));
    b.nothing();
    let stream = listener.accept().expect("established");
    assert_eq!(stream.state(), State::Established);
    drop((stream, listener));
    b.seen();
}

#[test]
fn no_window_update_follows_the_handshake() {
    // Breaks if each accepted connection costs a segment that tells of buffer beyond the SYN-ACK's 16 bits: the first
    // acknowledgement of data tells it.
    let mut b = Bench::new();
    let listener = listen(&b);
    let options = TcpOptions {
        window_scale: Some(7),
        ..with_mss(MSS as u16)
    };
    // Nothing follows the handshake's last segment, says `dial`.
    let mut hand = b.dial(5000, options);
    for _ in 0..2 {
        b.say(&hand.data(&bytes(MSS)));
    }
    let ack = b.seen().pop().expect("an acknowledgement");
    assert!(u32::from(ack.window) << 5 > 900_000, "{ack}");
    drop((listener.accept().expect("established"), listener));
    b.seen();
}

#[test]
fn a_tiny_mss_is_not_believed() {
    // RFC 9293 3.7.1 has no smallest MSS; 216 is ours, as FreeBSD's (CVE-2019-11479). Breaks when a peer that offers 0
    // makes the stack divide by it, or send without end segments of nothing; or one that offers 1 makes it send a
    // packet a byte.
    for mss in [0, 1, 215] {
        for is_active in [false, true] {
            let mut b = Bench::new();
            let options = with_mss(mss);
            let (mut hand, stream, listener) = if is_active {
                let (hand, stream) = b.active_with(65_000, options);
                (hand, stream, None)
            } else {
                let listener = listen(&b);
                let hand = b.dial(5000, options);
                let stream = listener.accept().expect("established");
                (hand, stream, Some(listener))
            };
            b.seen();
            assert_eq!(stream.info().mss, 216, "{mss}, active: {is_active}");
            let data = bytes(1000);
            stream.send(&data).expect("room");
            let mut got = Vec::new();
            for _ in 0..100 {
                b.run(ms(0));
                for segment in b.seen() {
                    assert!((1..=216).contains(&segment.data.len()));
                    got.extend_from_slice(&segment.data);
                    let ack = hand.ack(&segment);
                    b.say(&ack);
                }
            }
            assert_eq!(got, data);
            stream.abort();
            drop((stream, listener));
            b.run(ms(1));
        }
    }
}
