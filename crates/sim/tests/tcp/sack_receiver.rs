//! The receiver's reports of data that arrives out of order, or twice (RFC 2018, RFC 2883).

use crate::common::*;
use sim::{Link, PortConfig, Segment};

/// The blocks of a segment, in bytes from `base` on.
fn blocks(segment: &Segment, base: wire::SeqNum) -> Vec<(u32, u32)> {
    let sack = segment.options.sack;
    sack.iter()
        .map(|block| (block.left.since(base), block.right.since(base)))
        .collect()
}

/// Segment `n` of 500 bytes, counted from `hand`'s place.
fn segment(hand: &Hand, n: u32) -> Segment {
    Segment {
        data: bytes(500),
        seq: hand.snd + 500 * n,
        ..hand.segment(ACK)
    }
}

/// Sends segments of 500 bytes in this order, and returns the answer to each: the acknowledgement and the blocks.
fn answers(b: &mut Bench, hand: &Hand, order: &[u32]) -> Vec<(u32, Vec<(u32, u32)>)> {
    let mut answers = Vec::new();
    for &n in order {
        b.say(&segment(hand, n));
        // The acknowledgement of data in order may be delayed.
        b.run(ms(50));
        let answer = b.one();
        answers.push((answer.ack.since(hand.snd), blocks(&answer, hand.snd)));
    }
    answers
}

#[test]
fn the_first_block_is_of_the_segment_that_is_answered() {
    // RFC 2018 4 and the cases of section 5: breaks when the block that an acknowledgement is for is not the first,
    // those reported last do not follow it, or a block stays when its gap is filled.
    for (ts, most) in [(None, 4), (Some(9), 3)] {
        let mut b = Bench::new();
        let (hand, _stream) = b.passive_with(ts, true);
        let got = answers(&mut b, &hand, &[1, 3, 5, 7, 9, 4, 0, 2]);
        let mut all = vec![(4500, 5000), (3500, 4000), (2500, 3000), (1500, 2000)];
        let mut joined = vec![(1500, 3000), (4500, 5000), (3500, 4000), (500, 1000)];
        let mut last = joined[..3].to_vec();
        all.truncate(most);
        joined.truncate(most);
        last.truncate(most);
        assert_eq!(got[0], (0, vec![(500, 1000)]));
        assert_eq!(got[1], (0, vec![(1500, 2000), (500, 1000)]));
        assert_eq!(got[4], (0, all));
        assert_eq!(got[5], (0, joined));
        assert_eq!(got[6], (1000, last));
        assert_eq!(got[7], (3000, vec![(4500, 5000), (3500, 4000)]));
    }
}

#[test]
fn what_arrives_twice_is_reported_once() {
    // RFC 2883 4: breaks when the first block of an answer to a duplicate is not the duplicate, below the
    // acknowledgement or inside of the next block; or when it is reported again with the next one.
    let mut b = Bench::new();
    let (mut hand, _stream) = b.passive_with(Some(9), true);
    let got = answers(&mut b, &hand, &[0, 0, 2, 2, 3]);
    assert_eq!(got[1], (500, vec![(0, 500)]), "4.1, below");
    assert_eq!(got[2], (500, vec![(1000, 1500)]));
    assert_eq!(
        got[3],
        (500, vec![(1000, 1500), (1000, 1500)]),
        "4.2, inside"
    );
    assert_eq!(got[4], (500, vec![(1000, 2000)]));
    // 4.3: a part of a segment.
    let part = Segment {
        data: bytes(700),
        ..segment(&hand, 0)
    };
    b.say(&part);
    let answer = b.one();
    assert_eq!(blocks(&answer, hand.snd), [(0, 500), (1000, 2000)]);
    assert_eq!(answer.ack, hand.snd + 700);
    hand.snd += 700;
}

#[test]
fn without_permission_there_are_no_blocks() {
    // RFC 2018 2: breaks when a peer that did not permit SACK gets blocks, or fewer duplicates than it counts.
    let mut b = Bench::with(&PortConfig::plain(link_mtu()), |_| {});
    let (hand, _stream) = b.passive_with(Some(9), false);
    for n in 1..20 {
        b.say(&segment(&hand, n));
    }
    let seen = b.seen();
    assert_eq!(seen.len(), 19);
    assert!(seen.iter().all(|s| s.options.sack.is_empty()));
}

#[test]
fn what_there_was_no_room_for_is_not_reported() {
    // RFC 2018 8: breaks when the receiver reports what it dropped, or drops what it reported, because memory is short.
    let mut b = Bench::tuned(|c| c.tcp.reass_ranges_max = 3);
    let (hand, stream) = b.passive_with(Some(9), true);
    let got = answers(&mut b, &hand, &[1, 3, 5, 7, 9]);
    assert_eq!(got[2].1, [(2500, 3000), (1500, 2000), (500, 1000)]);
    assert_eq!((&got[3], &got[4]), (&got[2], &got[2]));
    let filled = answers(&mut b, &hand, &[0, 2, 4]);
    assert_eq!(filled[2], (3000, vec![]));
    assert_eq!(read(&stream).len(), 3000);
}

#[test]
fn duplicates_to_a_far_peer_are_held_back() {
    // Breaks when each of a burst behind a gap costs an acknowledgement of its own on a long path; when the first three
    // do not go at once, or the last block is not reported within a few milliseconds.
    let mut b = Bench::new();
    let (hand, _stream) = far(&mut b);
    for n in 1..41 {
        b.say(&segment(&hand, n));
        b.run(std::time::Duration::from_micros(100));
    }
    b.run(ms(60));
    let seen = b.seen();
    assert!((5..=9).contains(&seen.len()), "{}", show(&seen));
    let last = seen.last().expect("there are four");
    assert_eq!(blocks(last, hand.snd), [(500, 41 * 500)]);
    b.say(&segment(&hand, 0));
    b.run(ms(60));
    assert_eq!(b.one().ack, hand.snd + 41 * 500);
}

#[test]
fn no_block_is_held_back_until_others_take_its_place() {
    // Breaks when so many gaps appear while acknowledgements are held back that one of them is never reported: the peer
    // would send again what has arrived.
    let mut b = Bench::new();
    let (hand, _stream) = far(&mut b);
    let order = [1, 2, 3, 5, 7, 9, 11, 13, 15, 17, 4];
    for n in order {
        b.say(&segment(&hand, n));
        b.run(std::time::Duration::from_micros(50));
    }
    b.run(ms(60));
    let seen = b.seen();
    assert!(seen.len() < order.len(), "{}", show(&seen));
    let reported: Vec<_> = seen.iter().flat_map(|s| blocks(s, hand.snd)).collect();
    for n in order {
        let covers = |&(left, right): &(u32, u32)| left <= 500 * n && 500 * (n + 1) <= right;
        assert!(reported.iter().any(covers), "{n}: {}", show(&seen));
    }
}

#[test]
fn acknowledgements_of_one_batch_report_different_blocks() {
    // Breaks when all acknowledgements for the segments of a batch report the latest blocks, and none reports the
    // others.
    let mut b = Bench::new();
    let (hand, _stream) = b.passive_with(Some(9), true);
    for n in [1, 3, 5, 7, 9] {
        b.net.say(b.peer, &segment(&hand, n));
    }
    b.run(ms(0));
    let seen = b.seen();
    let reported: Vec<_> = seen.iter().flat_map(|s| blocks(s, hand.snd)).collect();
    for n in [1, 3, 5, 7, 9] {
        assert!(
            reported.contains(&(500 * n, 500 * n + 500)),
            "{n}: {}",
            show(&seen)
        );
    }
}

/// A connection that the station began, 25 ms away.
fn far(b: &mut Bench) -> (Hand, mbuma::TcpStream) {
    for end in 0..2 {
        let far = Link {
            delay: ms(25),
            ..Link::PERFECT
        };
        b.net.wire_mut(b.wire).set_link(end, far);
    }
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    let mut hand = Hand::from_port(5000);
    let syn = Segment {
        options: wire::TcpOptions {
            sack_permitted: true,
            ..wire::TcpOptions::default()
        },
        ..hand.segment(SYN)
    };
    b.say(&syn);
    b.run(ms(50));
    hand.rcv = b.one().seq + 1;
    hand.snd += 1;
    b.say(&hand.segment(ACK));
    b.run(ms(25));
    (hand, listener.accept().expect("established"))
}
