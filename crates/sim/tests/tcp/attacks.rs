//! Attackers that send much: one off the path, which guesses; and a peer that lies about what it received.

use crate::common::*;
use kern::Random;
use mbuma::State;
use sim::Segment;
use wire::{SackBlock, SeqNum, TcpFlags, TcpOptions};

/// Forged segments and errors of one run. The attacker knows both addresses and ports.
const GUESSES: u32 = 1_000_000;

/// The next segment of an attacker off the path: a reset, a SYN or an acknowledgement, with numbers drawn from the
/// whole space; every second one near to where the connection is, which it can't know, but never with all numbers
/// right.
fn guess(random: &mut Random, hand: &Hand) -> Segment {
    let near = random.chance(0.5);
    let mut number = |right: SeqNum| match near {
        true => right + 1 + random.below(200_000) as u32 - 100_000,
        false => SeqNum(random.next_u32()),
    };
    let (seq, ack) = (number(hand.snd), number(hand.rcv));
    let flags = [RST, RST | ACK, SYN, SYN | ACK, ACK][random.below(5) as usize];
    let seq = if seq == hand.snd { seq + 1 } else { seq };
    Segment {
        seq,
        // Within the window, an acknowledgement that may be right is an attacker's on the path.
        ack: SeqNum(ack.0 ^ (1 << 30)),
        ..hand.segment(flags)
    }
}

/// Sends `count` guesses, ten in a millisecond, one of them an ICMP error, and checks the connection at the end.
fn inject(count: u32, seed: u64) {
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    let mut random = Random::from_seed(seed);
    let start = b.net.now();
    let mut answers = 0;
    for n in 0..count {
        match n % 10 {
            0 => {
                let about = Segment {
                    src: hand.us,
                    dst: hand.them,
                    seq: SeqNum(random.next_u32()),
                    ..hand.segment(ACK)
                };
                let code = [0, 1, 2, 3, 4][random.below(5) as usize];
                b.net.complain(b.peer, &about, (3, code), [0, 0, 2, 0]);
            }
            _ => {
                let segment = guess(&mut random, &hand);
                b.net.say(b.peer, &segment);
            }
        }
        if n % 10 == 9 {
            b.run(ms(1));
            answers += b.seen().len();
        }
    }
    assert_eq!(stream.state(), State::Established, "seed {seed}");
    let seconds = (b.net.now() - start).as_secs() + 1;
    assert!(
        answers as u64 <= 10 * seconds,
        "{answers} answers in {seconds} s"
    );
    b.run(secs(2));
    b.seen();
    // The connection goes on as before.
    let data = hand.data(b"question");
    b.say(&data);
    assert_eq!(read(&stream), b"question", "seed {seed}");
    stream.send(b"answer").expect("room");
    b.run(ms(50));
    let answer = b.seen().pop().expect("an answer");
    assert_eq!((answer.seq, &*answer.data), (hand.rcv, &b"answer"[..]));
    let acknowledgement = hand.ack(&answer);
    b.say(&acknowledgement);
    assert_eq!(stream.info().send_queue, 0);
    stream.abort();
}

#[test]
fn a_million_guesses_harm_no_connection() {
    // RFC 5961, RFC 5927: breaks when an attacker off the path ends a connection, moves it, makes its segments small,
    // or has each guess answered.
    inject(GUESSES, 1);
}

#[test]
fn acknowledgements_of_single_bytes_open_no_larger_window() {
    // RFC 3465 1, Savage et al. (1999), "ACK division": breaks when the window grows by acknowledgements, not by bytes.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.send(&bytes(100 * MSS)).expect("room");
    b.run(ms(10));
    let sent = b.seen();
    let before = stream.info().cwnd;
    for n in 1..=200 {
        hand.rcv = sent[0].seq + n;
        b.say(&hand.segment(ACK));
    }
    let grown = stream.info().cwnd - before;
    assert!(grown <= 200, "{grown} bytes for 200");
    stream.abort();
}

#[test]
fn acknowledgements_of_the_future_open_no_window() {
    // RFC 5961 5.2, Savage et al. (1999), "optimistic acknowledgements": breaks when a peer that acknowledges data
    // before it was sent makes the window grow, frees what was not sent, or has each of its lies answered.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.send(&bytes(100 * MSS)).expect("room");
    b.run(ms(10));
    let sent = b.seen();
    let (before, queued) = (stream.info().cwnd, stream.info().send_queue);
    let end = sent[sent.len() - 1].end();
    let mut answers = 0;
    for n in 1..=500 {
        hand.rcv = end + n * MSS as u32;
        b.say(&hand.segment(ACK));
        answers += b.seen().len();
    }
    let info = stream.info();
    assert_eq!((info.cwnd, info.send_queue), (before, queued));
    assert!(answers <= 10, "{answers} answers");
    stream.abort();
}

#[test]
fn duplicates_that_answer_no_segment_open_no_window() {
    // RFC 5681 5, Savage et al. (1999), "duplicate ACK spoofing": breaks when each of any number of duplicates, without
    // SACK, lets one more segment out.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.set_nodelay(true);
    stream.send(&bytes(44 * MSS)).expect("room");
    b.run(ms(10));
    let flight = b.seen();
    assert_eq!(flight.len(), 10, "an initial window of ten (RFC 6928)");
    let mut out = 0;
    for _ in 0..200 {
        b.say(&hand.segment(ACK));
        out += b.seen().len();
    }
    // Two leave before the recovery (RFC 3042). The window is 0.7 of the flight (CUBIC), three segments, and at most
    // one for each of the twelve that are outstanding; one more is the repair.
    assert_eq!(out, 7 + 3 + 12 + 1 - 10, "segments for 200 duplicates");
    // A partial acknowledgement of a segment counts anew.
    hand.rcv = flight[0].end();
    b.say(&hand.segment(ACK));
    let before = b.seen().len();
    for _ in 0..5 {
        b.say(&hand.segment(ACK));
    }
    assert_eq!(b.seen().len(), 5, "after {before}");
    stream.abort();
}

#[test]
fn partial_acknowledgements_of_single_bytes_get_no_segment_each() {
    // RFC 6582 3.2 step 3, Savage et al. (1999), "ACK division": breaks when each acknowledgement of one byte, without
    // SACK, has a whole segment sent again.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.set_nodelay(true);
    stream.send(&bytes(10 * MSS)).expect("room");
    b.run(ms(10));
    let flight = b.seen();
    for _ in 0..3 {
        b.say(&hand.segment(ACK));
    }
    let repair = b.seen().pop().expect("the repair of the first segment");
    assert_eq!((repair.seq, repair.data.len()), (flight[0].seq, MSS));
    for n in 1..MSS as u32 {
        hand.rcv = flight[0].seq + n;
        b.say(&hand.segment(ACK));
    }
    assert_eq!(b.seen(), [], "the repair is under way");
    // The peer has the repair, and lacks the second segment: that is repaired at once, as before, and once.
    let mut sent = 0;
    for n in 0..3 * MSS as u32 {
        hand.rcv = flight[1].seq + n;
        b.say(&hand.segment(ACK));
        sent += b.seen().iter().map(|s| s.data.len()).sum::<usize>();
    }
    assert_eq!(sent, 3 * MSS, "a byte for each that was acknowledged");
    stream.abort();
}

#[test]
fn false_and_repeated_blocks_empty_no_pipe() {
    // FreeBSD D18624: breaks when blocks that repeat, overlap, or lie outside of what was sent count as delivered
    // again, so that a receiver makes its sender send without bound.
    let mut b = Bench::new();
    let (hand, stream, sent) = crate::sack::under_way(&mut b, 10, 200);
    let mut random = Random::from_seed(7);
    let first = sent[0].seq;
    let mut out = 0;
    for _ in 0..500 {
        let mut block = || {
            let left = first + random.below(40 * MSS as u64) as u32 - 10 * MSS as u32;
            SackBlock {
                left,
                right: left + random.below(30 * MSS as u64) as u32,
            }
        };
        let sack = [block(), block(), block()].into_iter().collect();
        let options = TcpOptions {
            sack,
            ..TcpOptions::default()
        };
        b.say(&Segment {
            options,
            ..hand.segment(ACK)
        });
        out += b.seen().iter().map(|s| s.data.len()).sum::<usize>();
        let info = stream.info();
        assert!(info.in_flight <= info.cwnd + MSS as u32, "{info:?}");
    }
    // No time passes: each byte of the peer's window goes once, and if blocks make it look lost, once more.
    assert!(out <= 2 * 65_535, "{out} bytes were sent");
    assert_eq!(stream.state(), State::Established);
    stream.abort();
}

#[test]
fn segments_to_nowhere_are_answered_one_by_one_and_remembered_by_none() {
    // RFC 9293 3.10.7.1: breaks when a scan leaves state behind, or a reset is answered by a reset.
    let mut b = Bench::new();
    for port in 0..100u16 {
        let mut hand = Hand::from_port(10_000 + port);
        hand.us.set_port(20_000 + port);
        let flags: TcpFlags = [SYN, ACK, FIN | ACK, RST][usize::from(port) % 4];
        b.say(&hand.segment(flags));
        b.run(ms(20));
        let answers = b.seen();
        let expected = usize::from(flags != RST);
        assert_eq!(answers.len(), expected, "{flags:?}");
        assert!(answers.iter().all(|s| s.flags.contains(RST)));
    }
    assert_eq!(b.stack().stats().tcp.connections, 0);
}
