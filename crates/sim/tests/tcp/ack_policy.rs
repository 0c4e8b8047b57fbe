//! The times at which the receiver acknowledges (RFC 1122 4.2.3.2, RFC 5681 4.2).

use crate::common::*;

#[test]
fn the_first_segments_are_acknowledged_one_by_one_and_then_every_second() {
    // RFC 5681 4.2: breaks when a peer whose window is one or two segments waits for a delayed acknowledgement, or each
    // segment of a long transfer costs one.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    for n in 0..16 {
        b.say(&hand.data(&bytes(MSS)));
        assert_eq!(b.one().ack, hand.snd, "{n}");
    }
    for _ in 0..10 {
        b.say(&hand.data(&bytes(MSS)));
        b.nothing();
        b.say(&hand.data(&bytes(MSS)));
        assert_eq!(b.one().ack, hand.snd);
        read(&stream);
        b.seen();
    }
    // The peer begins again with a small window.
    b.run(secs(1));
    b.say(&hand.data(&bytes(MSS)));
    assert_eq!(b.one().ack, hand.snd);
}

#[test]
fn a_request_and_its_answer_are_two_segments() {
    // Breaks when a request is acknowledged before its answer, of which the acknowledgement is a part.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(Some(9), true);
    for n in 0..20 {
        b.say(&hand.data(&bytes(1 + 100 * n)));
        // The first answer must come at once: until then the peer may hold the rest of its request back.
        if n > 0 {
            b.run(ms(20));
        }
        b.nothing();
        read(&stream);
        b.send(&stream, b"answer");
        let answer = b.one();
        assert_eq!((answer.ack, answer.data.len()), (hand.snd, 6));
        hand.rcv = answer.end();
        b.say(&hand.segment(ACK));
        b.run(ms(300));
        b.nothing();
    }
}

#[test]
fn the_second_part_of_a_request_does_not_wait_for_a_long_delay() {
    // RFC 896: breaks when a client that writes its request in two parts, with Nagle's algorithm, waits for the delayed
    // acknowledgement of the first part.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    let start = b.net.now();
    b.say(&hand.data(b"head"));
    b.run(ms(5));
    assert_eq!(times_ms(&b.seen(), start), [1]);
    b.say(&hand.data(b"body"));
    b.send(&stream, b"answer");
    let answer = b.one();
    assert_eq!((answer.ack, answer.data.len()), (hand.snd, 6));
}

#[test]
fn after_a_repair_segments_are_acknowledged_one_by_one() {
    // RFC 5681 4.2: breaks when the peer, whose window is small after a loss, waits for acknowledgements.
    let mut b = Bench::new();
    let (mut hand, _stream) = b.passive();
    for _ in 0..20 {
        b.say(&hand.data(&bytes(MSS)));
    }
    b.run(ms(50));
    b.seen();
    let lost = hand.data(&bytes(MSS));
    b.say(&hand.data(&bytes(MSS)));
    b.one();
    b.say(&lost);
    assert_eq!(b.one().ack, hand.snd);
    for _ in 0..15 {
        b.say(&hand.data(&bytes(MSS)));
        assert_eq!(b.one().ack, hand.snd);
    }
}
