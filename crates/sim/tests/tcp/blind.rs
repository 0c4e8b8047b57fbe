//! Segments from an attacker off the path, which can forge addresses but does not see the numbers.

use crate::common::*;
use mbuma::State;
use sim::Segment;
use wire::SeqNum;

fn challenges(b: &Bench) -> u64 {
    b.stack().stats().tcp.challenge_acks
}

#[test]
fn a_blind_reset_is_questioned() {
    // RFC 5961 3.2: breaks when a reset anywhere in the window ends the connection.
    each_shape(|mut b| {
        let (hand, stream) = b.passive();
        for beyond in [1, 1000, 60_000] {
            b.say(&Segment {
                seq: hand.snd + beyond,
                ..hand.segment(RST)
            });
            let challenge = b.one();
            assert_eq!(
                (challenge.flags, challenge.ack),
                (ACK, hand.snd),
                "{beyond}"
            );
        }
        for outside in [
            hand.snd - 1,
            hand.snd + (2 << 20),
            SeqNum(hand.snd.0 ^ (1 << 31)),
        ] {
            b.say(&Segment {
                seq: outside,
                ..hand.segment(RST)
            });
            b.nothing();
        }
        assert_eq!(stream.state(), State::Established);
        assert_eq!(challenges(&b), 3);
        stream.abort();
    });
}

#[test]
fn a_syn_on_a_connection_is_questioned() {
    // RFC 5961 4.2: breaks when a SYN resets a connection; the peer, if it did restart, answers the
    // challenge with an exact reset.
    each_shape(|mut b| {
        let (hand, stream) = b.passive();
        for seq in [hand.snd, hand.snd + 1000, hand.snd - 1, hand.snd - 100_000] {
            b.say(&Segment {
                seq,
                ..hand.segment(SYN)
            });
            let challenge = b.one();
            assert_eq!((challenge.flags, challenge.ack), (ACK, hand.snd));
            b.say(&Segment {
                seq,
                ..hand.segment(SYN | ACK)
            });
            assert_eq!(b.one().flags, ACK);
        }
        assert_eq!(stream.state(), State::Established);
        let restarted = Segment {
            seq: hand.snd,
            ack: SeqNum(0),
            ..hand.segment(RST)
        };
        b.say(&restarted);
        assert_eq!(stream.state(), State::Closed);
    });
}

#[test]
fn an_acknowledgement_of_nothing_is_questioned() {
    // RFC 5961 5.2: breaks when data with a made-up acknowledgement is taken.
    each_shape(|mut b| {
        let (hand, stream) = b.passive();
        for ack in [hand.rcv + 1, hand.rcv + 100_000, hand.rcv - 200_000] {
            let forged = Segment {
                ack,
                data: b"forged".to_vec(),
                ..hand.segment(ACK)
            };
            b.say(&forged);
            let challenge = b.one();
            assert_eq!((challenge.flags, challenge.ack), (ACK, hand.snd));
        }
        let none = Segment {
            data: b"forged".to_vec(),
            ..hand.segment(PSH)
        };
        b.say(&none);
        assert!(
            read(&stream).is_empty(),
            "RFC 9293 3.10.7.4: no ACK, no data"
        );
        assert_eq!(stream.state(), State::Established);
        stream.abort();
    });
}

#[test]
fn challenges_are_few() {
    // RFC 5961 7: breaks when a flood of forged segments makes a flood of answers.
    let mut b = Bench::new();
    let (hand, stream) = b.passive();
    for i in 0..1000 {
        b.say(&Segment {
            seq: hand.snd + 1 + i,
            ..hand.segment(RST)
        });
    }
    assert_eq!(b.seen().len(), 10);
    b.run(secs(1));
    b.say(&Segment {
        seq: hand.snd + 1,
        ..hand.segment(RST)
    });
    assert_eq!(b.one().flags, ACK, "but not none for ever");
    stream.abort();
}

#[test]
fn data_beyond_the_window_is_not_kept() {
    // RFC 9293 3.10.7.4: breaks when a sender can make us keep more than we offered.
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 4096);
    let (mut hand, stream) = b.passive();
    b.say(&Segment {
        seq: hand.snd + 4096,
        data: bytes(100),
        ..hand.segment(ACK)
    });
    assert_eq!(b.one().ack, hand.snd);
    // Half of it fits.
    b.say(&Segment {
        seq: hand.snd + 4000,
        data: bytes(200),
        ..hand.segment(ACK)
    });
    b.seen();
    for chunk in bytes(4000).chunks(1000) {
        b.say(&hand.data(chunk));
    }
    assert_eq!(read(&stream).len(), 4096);
    stream.abort();
}

#[test]
fn sequence_numbers_wrap() {
    // RFC 9293 3.4: breaks when numbers are compared as numbers. The station's begin 2000 before the
    // end of the circle, so this crosses it twice: in order, and behind a gap.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let first = hand.data(&bytes(1400));
        let second = hand.data(&bytes(1400));
        assert!(second.end().0 < first.seq.0, "the circle's end is crossed");
        b.say(&second);
        b.say(&first);
        assert_eq!(b.seen().pop().expect("acknowledged").ack, hand.snd);
        assert_eq!(read(&stream), [bytes(1400), bytes(1400)].concat());
        stream.abort();
    });
}

#[test]
fn a_flood_of_syns_keeps_what_is_established() {
    // Breaks when half-open connections evict established ones, or have no bound.
    let mut b = Bench::new();
    let listener = b.stack().tcp_listen(us(PORT), 64).expect("free");
    let mut hand = b.dial(5000, wire::TcpOptions::default());
    let stream = listener.accept().expect("established");
    for port in 10_000..20_000 {
        b.say(&Hand::from_port(port).segment(SYN));
    }
    let stats = b.stack().stats().tcp;
    assert_eq!(
        (stats.connections, stats.cookies_sent),
        (1 + 1024, 10_000 - 1024)
    );
    b.seen();
    b.say(&hand.data(b"still here"));
    assert_eq!(read(&stream), b"still here");
}

#[test]
fn a_flood_of_syns_keeps_no_client_out() {
    // RFC 4987: breaks when forged SYNs evict genuine ones, where there are no cookies.
    for shape in sim::Shape::ALL {
        let port = sim::PortConfig::plain(link_mtu()).shaped(shape);
        let mut b = Bench::with(&port, |c| c.tcp.syn_cookies = false);
        let listener = b.stack().tcp_listen(us(PORT), 4).expect("free");
        for n in 0..4 {
            let mut hand = Hand::from_port(5000 + n);
            b.say(&hand.segment(SYN));
            let answer = b.one();
            // As many in a round trip as there are places, but for one.
            for port in 0..1023 {
                b.say(&Hand::from_port(10_000 + 1023 * n + port).segment(SYN));
            }
            b.seen();
            hand.snd += 1;
            hand.rcv = answer.seq + 1;
            b.say(&hand.segment(ACK));
            let stream = listener.accept().expect("established");
            assert_eq!(stream.peer_addr(), hand.them);
            b.say(&hand.data(b"hello"));
            assert_eq!(read(&stream), b"hello");
            stream.abort();
            b.run(ms(0));
            b.seen();
        }
        // A client that took longer learns so when its ACK comes.
        let mut late = Hand::from_port(5004);
        b.say(&late.segment(SYN));
        let answer = b.one();
        for port in 0..1024 {
            b.say(&Hand::from_port(20_000 + port).segment(SYN));
        }
        b.seen();
        late.snd += 1;
        late.rcv = answer.seq + 1;
        b.say(&late.segment(ACK));
        assert!(b.one().has(RST));
        assert!(listener.accept().is_err());
        // All that is left is given up after a minute.
        b.run(secs(70));
        assert_eq!(b.stack().stats().tcp.connections, 0);
    }
}

#[test]
fn who_completes_when_the_backlog_is_full_comes_again() {
    // Breaks when more connections wait for the user than the backlog allows, or when the bound loses a connection that
    // was admitted half open.
    let mut b = Bench::new();
    let listener = b.stack().tcp_listen(us(PORT), 1).expect("free");
    let mut hands = [Hand::from_port(5000), Hand::from_port(5001)];
    for hand in &mut hands {
        b.say(&hand.segment(SYN));
        let answer = b.one();
        assert_eq!(answer.flags, SYN | ACK);
        hand.snd += 1;
        hand.rcv = answer.seq + 1;
    }
    let [mut one, mut two] = hands;
    b.say(&one.segment(ACK));
    let data = two.data(b"too early");
    b.say(&data);
    b.nothing();
    let first = listener.accept().expect("it was the first");
    assert_eq!(first.peer_addr(), one.them);
    assert!(listener.accept().is_err());
    // The stack repeats its answer, and the peer repeats its acknowledgement.
    b.run(secs(1));
    assert_eq!(b.one().flags, SYN | ACK);
    b.say(&data);
    let second = listener.accept().expect("there is room");
    assert_eq!(second.peer_addr(), two.them);
    assert_eq!(read(&second), b"too early");
    b.seen();
    let data = one.data(b"hello");
    b.say(&data);
    assert_eq!(read(&first), b"hello");
}

#[test]
fn acknowledgements_out_of_the_window_are_answered_a_few_times_a_second() {
    // RFC 5961 7: breaks when each is answered. Two ends that disagree about where they are, which a
    // forged byte can bring about, would then answer each other's answers for ever.
    for outside in [-100_i32, 3_000_000] {
        let mut b = Bench::new();
        let (hand, _stream) = b.active();
        let stray = Segment {
            seq: SeqNum(hand.snd.0.wrapping_add_signed(outside)),
            ..hand.segment(ACK)
        };
        for _ in 0..100 {
            b.say(&stray);
        }
        assert_eq!(b.seen().len(), 10);
        b.run(secs(1));
        b.say(&stray);
        assert_eq!(b.one().ack, hand.snd, "a second later again");
    }
}

#[test]
fn a_reset_at_the_right_edge_of_the_window_gets_no_answer() {
    // RFC 5961 3.2, case 1: breaks if a reset just outside of the window is challenged.
    let mut b = Bench::new();
    let (hand, stream) = b.passive();
    let edge = Segment {
        seq: hand.snd + 65_535,
        ..hand.segment(RST)
    };
    b.say(&edge);
    b.nothing();
    let inside = Segment {
        seq: hand.snd + 65_534,
        ..hand.segment(RST)
    };
    b.say(&inside);
    assert_eq!(b.one().flags, ACK, "a challenge");
    assert_eq!(stream.state(), State::Established);
}

#[test]
fn an_acknowledgement_below_the_window_moves_nothing() {
    // RFC 9293 3.10.7.4, first check: breaks if a segment without data that lies before RCV.NXT moves SND.UNA or
    // SND.WND.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    b.send(&stream, b"first");
    let first = b.one();
    let old = Segment {
        seq: hand.snd - 1,
        window: 1,
        ..hand.ack(&first)
    };
    b.say(&old);
    assert_eq!(b.one().flags, ACK, "it is told what is expected");
    assert_eq!(stream.info().send_queue, 5, "not acknowledged");
    b.send(&stream, &bytes(5000));
    let sent: usize = b.seen().iter().map(|s| s.data.len()).sum();
    assert!(sent >= 2 * MSS, "the window is what it was: {sent}");
    stream.abort();
}
