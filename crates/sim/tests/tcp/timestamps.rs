//! Timestamps: which value is echoed, and what is too old to be taken (RFC 7323).

use crate::common::*;
use mbuma::{DropReason, State};
use sim::Segment;
use wire::TcpOptions;

fn echo(segment: &Segment) -> u32 {
    segment.options.timestamps.expect("agreed on").1
}

fn dropped(b: &Bench, reason: DropReason) -> u64 {
    let dropped = b.stack().stats().dropped;
    (dropped.iter().find(|(r, _)| *r == reason)).map_or(0, |(_, n)| *n)
}

/// The same at the station's time `value`.
fn at(value: u32, segment: Segment) -> Segment {
    let options = TcpOptions {
        timestamps: Some((value, 0)),
        ..segment.options
    };
    Segment { options, ..segment }
}

#[test]
fn a_delayed_acknowledgement_echoes_the_first_segment_it_is_for() {
    // RFC 7323 4.3 (A): breaks when the later segment's value is echoed, which hides the delay from the peer's RTO; the
    // fault of BSD's RCV.NXT in the place of Last.ACK.sent.
    let mut b = Bench::new();
    let (mut hand, _stream) = b.passive_with(Some(100), true);
    for value in [101, 102] {
        let data = at(value, hand.data(b"x"));
        b.say(&data);
    }
    b.run(ms(40));
    assert_eq!(echo(&b.one()), 101);
    let next = at(103, hand.data(b"x"));
    b.say(&next);
    b.run(ms(40));
    assert_eq!(echo(&b.one()), 103);
}

#[test]
fn segments_behind_a_gap_do_not_change_the_echo() {
    // RFC 7323 4.3 (B) and (C): breaks when an early segment's value is echoed, or that of the segment that fills the
    // gap is not.
    let mut b = Bench::new();
    let (mut hand, _stream) = b.passive_with(Some(100), true);
    let lost = hand.data(b"lost");
    for value in [101, 102] {
        let early = at(value, hand.data(b"early"));
        b.say(&early);
        assert_eq!(echo(&b.one()), 100);
    }
    b.say(&at(150, lost));
    assert_eq!(echo(&b.one()), 150);
}

#[test]
fn an_old_segment_is_answered_and_not_taken() {
    // RFC 7323 5.3, R1: breaks when a segment of an earlier turn around the sequence space is taken for data, or is not
    // answered; or when a reset is judged by its timestamps.
    each_shape(|mut b| {
        // The peer's clock goes around meanwhile.
        let (mut hand, stream) = b.passive_with(Some(u32::MAX), true);
        b.say(&at(3, hand.data(b"new")));
        assert_eq!(read(&stream), b"new");
        b.run(ms(50));
        b.say(&at(3, hand.data(b"newer")));
        assert_eq!(read(&stream), b"newer");
        b.run(ms(50));
        b.seen();
        let old = Segment {
            data: b"old".to_vec(),
            ..hand.segment(ACK)
        };
        for value in [2, u32::MAX] {
            b.say(&at(value, old.clone()));
            let answer = b.one();
            assert_eq!((answer.flags, answer.ack), (ACK, hand.snd));
        }
        assert_eq!(read(&stream), b"");
        assert_eq!(dropped(&b, DropReason::TcpOldTimestamp), 2);
        b.say(&at(2, hand.segment(RST)));
        assert_eq!(stream.state(), State::Closed);
    });
}

#[test]
fn a_repair_that_was_not_needed_does_not_change_the_echo() {
    // RFC 7323 5.3, R2: breaks when a duplicate, which is not acceptable, sets the value that is echoed. It is younger
    // than data that was sent before it and is late: that would be too old then.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(Some(100), true);
    let first = hand.data(b"first");
    b.say(&at(101, first.clone()));
    b.run(ms(50));
    assert_eq!(echo(&b.one()), 101);
    b.say(&at(150, first));
    assert_eq!(echo(&b.one()), 101);
    b.say(&at(120, hand.data(b"late")));
    assert_eq!(read(&stream), b"firstlate");
    drop(stream);
    b.run(ms(50));
    b.seen();
}

#[test]
fn what_comes_behind_a_repair_fills_its_gap() {
    // Breaks when a path that reorders loses, beside each segment that was repaired, those that were late then: they
    // are older than the repair, and PAWS (RFC 7323 5.3, R1) alone would drop them. Where no gap tells that they are of
    // this turn around the sequence space, it does.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(Some(100), true);
    let [lost, second, late, fourth] = [b"a", b"b", b"c", b"d"].map(|data| hand.data(data));
    b.say(&at(101, second));
    b.say(&at(103, fourth.clone()));
    b.say(&at(150, lost));
    assert_eq!(read(&stream), b"ab");
    b.say(&at(102, late));
    assert_eq!(read(&stream), b"cd");
    assert_eq!(dropped(&b, DropReason::TcpOldTimestamp), 0);
    b.seen();
    b.say(&at(150, hand.data(b"e")));
    b.run(ms(50));
    assert_eq!(echo(&b.one()), 150, "the late one did not set it back");
    b.say(&at(102, hand.data(b"f")));
    assert_eq!(read(&stream), b"e");
    assert_eq!(dropped(&b, DropReason::TcpOldTimestamp), 1);
    let gap = hand.data(b"g");
    b.say(&at(151, hand.data(b"h")));
    b.say(&at(99, gap));
    assert_eq!(
        dropped(&b, DropReason::TcpOldTimestamp),
        2,
        "older than the SYN"
    );
    drop(stream);
    b.run(ms(50));
    b.seen();
}

#[test]
fn a_repeated_segment_of_an_old_time_is_reported() {
    // RFC 2883 4: breaks when the first sending of a segment, which arrives behind its repair and is too old, is not
    // reported: the peer could not know that its repair was not needed.
    let mut b = Bench::new();
    let (mut hand, _stream) = b.passive_with(Some(100), true);
    let late = hand.data(&bytes(500));
    b.say(&at(150, late.clone()));
    b.run(ms(50));
    b.say(&at(151, hand.data(b"x")));
    b.run(ms(50));
    b.seen();
    b.say(&at(101, late.clone()));
    let answer = b.one();
    let block = answer.options.sack.as_slice()[0];
    assert_eq!((block.left, block.right), (late.seq, late.end()));
}

#[test]
fn answers_to_old_segments_are_few() {
    // RFC 5961 7, RFC 7323 5.3: breaks when each is answered: two stacks of which each takes the other's clock for old
    // would never stop.
    let mut b = Bench::new();
    let (mut hand, _stream) = b.passive_with(Some(100), true);
    b.say(&at(200, hand.data(b"x")));
    b.run(ms(50));
    b.seen();
    for _ in 0..1000 {
        b.say(&at(150, hand.segment(ACK)));
    }
    assert!((1..=10).contains(&b.seen().len()));
}

#[test]
fn after_24_days_any_clock_is_believed() {
    // RFC 7323 5.5: breaks when a connection that was silent for longer than half a turn of the peer's clock takes
    // nothing more.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(Some(100), true);
    b.run(secs(25 * 86_400));
    let data = at(99, hand.data(b"still here"));
    b.say(&data);
    assert_eq!(read(&stream), b"still here");
}

#[test]
fn a_segment_without_timestamps_is_taken() {
    // RFC 7323 3.2 would have it dropped; Linux and others take it. Breaks when a middlebox that strips options ends a
    // connection.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(Some(100), true);
    hand.ts = None;
    b.say(&hand.data(b"plain"));
    assert_eq!(read(&stream), b"plain");
    b.run(ms(40));
    assert_eq!(echo(&b.one()), 100);
}

#[test]
fn a_clock_tells_nothing_of_another() {
    // RFC 7323 7.1: breaks when the values of one connection tell those of another, or the uptime; or when two
    // connections of the same ends do not have the same clock, which TIME-WAIT needs (RFC 6191).
    let mut b = Bench::new();
    let options = TcpOptions {
        mss: Some(MSS as u16),
        timestamps: Some((1, 0)),
        ..TcpOptions::default()
    };
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    let mut offsets = Vec::new();
    for port in [5000, 5001, 5002, 5000] {
        let now = b.net.now().as_millis() as u32;
        let hand = b.dial(port, options);
        offsets.push(hand.ts.expect("agreed on").1.wrapping_sub(now));
        listener.accept().expect("established").abort();
        b.run(ms(7));
        b.seen();
    }
    assert_eq!(offsets[0], offsets[3]);
    let apart = |a: u32, b: u32| a.abs_diff(b) > 100_000;
    assert!(apart(offsets[0], offsets[1]) && apart(offsets[1], offsets[2]));
    assert!(apart(offsets[0], 0));
}

#[test]
fn the_clock_of_a_connection_may_wrap() {
    // RFC 7323 5.2: breaks when the clock of milliseconds, whose 32 bits end after 49.7 days, wraps within the life of
    // a connection, and the peer's echo, its clock or a round trip is misread after that.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(Some(u32::MAX - 86_400_000), true);
    let (mut wraps, mut before) = (0, None);
    for day in 1..=60u32 {
        b.run(secs(86_400));
        let theirs = (u32::MAX - 86_400_000).wrapping_add(day.wrapping_mul(86_400_000));
        let data = at(theirs, hand.data(b"ping"));
        b.say(&data);
        assert_eq!(read(&stream), b"ping", "day {day}");
        b.send(&stream, b"pong");
        let answer = b.one();
        assert_eq!(echo(&answer), theirs, "day {day}");
        let ours = answer.options.timestamps.expect("agreed on").0;
        wraps += u32::from(before.is_some_and(|before| ours < before));
        before = Some(ours);
        b.run(ms(30));
        hand.ts = Some((theirs.wrapping_add(30), ours));
        b.say(&hand.ack(&answer));
        let rtt = stream.info().rtt.expect("measured");
        assert!(rtt < ms(60), "day {day}: {rtt:?}");
    }
    assert!(wraps > 0, "our clock wraps in 60 days");
}
