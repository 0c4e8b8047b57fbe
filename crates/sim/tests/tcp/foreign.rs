//! Peers that behave in other ways than this stack: other places for a FIN, other acknowledgement policies, other
//! window edges.

use crate::common::*;
use mbuma::State;
use sim::Segment;
use wire::{SeqNum, TcpFlags};

/// Data at `seq`, which need not be where the station is.
fn data_at(hand: &Hand, seq: SeqNum, flags: TcpFlags, data: &[u8]) -> Segment {
    Segment {
        seq,
        data: data.to_vec(),
        ..hand.segment(flags)
    }
}

#[test]
fn a_fin_beyond_the_window_does_not_end_the_stream() {
    // RFC 9293 3.10.7.4: breaks when a segment that is cut at the window's right edge keeps its FIN: the stream would
    // end before its last bytes.
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 4096);
    let (mut hand, stream) = b.passive();
    let whole = bytes(4400);
    for chunk in whole[..3000].chunks(1000) {
        b.say(&hand.data(chunk));
    }
    let last = data_at(&hand, hand.snd, ACK | FIN, &whole[3000..]);
    b.say(&last);
    assert_eq!(stream.state(), State::Established);
    assert_eq!(read(&stream), whole[..4096]);
    assert!(b.seen().iter().all(|s| s.ack.at_or_before(hand.snd + 1096)));
    b.say(&last);
    assert_eq!(stream.state(), State::CloseWait);
    assert_eq!(read(&stream), whole[4096..]);
}

#[test]
fn a_fin_on_repeated_data_counts_only_where_it_is() {
    // RFC 9293 3.10.7.4: breaks when a FIN below RCV.NXT moves to RCV.NXT with the data that is cut off, which would
    // end the stream before its last bytes; or when a FIN at RCV.NXT is lost because the data before it is old.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let start = hand.snd;
        for chunk in [b"abc", b"def"] {
            let data = hand.data(chunk);
            b.say(&data);
        }
        b.say(&data_at(&hand, start, ACK | FIN, b"abc"));
        assert_eq!(stream.state(), State::Established);
        b.say(&hand.data(b"ghi"));
        assert_eq!(read(&stream), b"abcdefghi");
        // The peer closed after it had sent the data, and sends both again in one segment.
        b.say(&data_at(&hand, start, ACK | FIN, b"abcdefghi"));
        assert_eq!(stream.state(), State::CloseWait);
        assert_eq!(b.seen().pop().expect("the FIN's").ack, hand.snd + 1);
    });
}

#[test]
fn an_acknowledgement_at_the_right_edge_counts_in_spite_of_a_hole() {
    // RFC 9293 3.10.7.4: breaks when the acknowledgements of a peer that has used up the window are dropped while its
    // first segment is lost: data that it acknowledges would be sent again.
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 4 * MSS);
    let (mut hand, stream) = b.passive();
    b.send(&stream, b"answer");
    hand.rcv = b.one().end();
    let lost = hand.data(&bytes(MSS));
    for _ in 0..3 {
        // Each still has the old acknowledgement, as in a burst that crossed the answer.
        let crossed = Segment {
            ack: hand.rcv - 6,
            ..hand.data(&bytes(MSS))
        };
        b.say(&crossed);
    }
    assert_eq!(stream.info().send_queue, 6);
    b.say(&hand.segment(ACK));
    assert_eq!(stream.info().send_queue, 0);
    b.seen();
    b.run(secs(1));
    b.nothing();
    b.say(&lost);
    assert_eq!(read(&stream).len(), 4 * MSS);
}

#[test]
fn a_delayed_acknowledgement_is_not_delayed_again() {
    // RFC 1122 4.2.3.2: breaks when each small segment sets the timer anew: a peer that sends one every 30 ms would
    // wait for 2 * MSS bytes.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    // The first sixteen wait for a moment only, and so do those after delays in vain.
    for _ in 0..16 {
        b.say(&hand.data(b"x"));
        b.run(ms(2));
    }
    b.seen();
    // The first answer comes after such delays, the second one after none.
    for _ in 0..2 {
        b.say(&hand.data(b"x"));
        b.send(&stream, b"answer");
        let answer = b.one();
        b.say(&hand.ack(&answer));
    }
    let start = b.net.now();
    for _ in 0..4 {
        b.say(&hand.data(b"x"));
        b.run(ms(30));
    }
    assert_eq!(times_ms(&b.seen(), start), [40, 100]);
}

#[test]
fn what_was_sent_again_gives_no_sample() {
    // RFC 6298 3 (Karn): breaks when the acknowledgement of a repaired segment is taken for that of its first sending.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.set_nodelay(true);
    stream.send(&bytes(10 * MSS)).expect("room");
    b.run(ms(100));
    let seen = b.seen();
    let known = stream.info().rtt;
    for _ in 0..3 {
        b.say(&hand.segment(ACK));
    }
    assert_eq!(b.one().seq, seen[0].seq, "the repair");
    b.run(ms(50));
    b.say(&hand.ack(&seen[9]));
    assert_eq!(stream.info().send_queue, 0);
    assert_eq!(stream.info().rtt, known);
}

#[test]
fn what_is_sent_behind_a_repair_gives_no_sample() {
    // RFC 6298 3 (Karn): breaks when new data that follows a repair is timed: its acknowledgement waits for the repair.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.set_nodelay(true);
    b.send(&stream, &bytes(30 * MSS));
    let first = b.seen();
    assert_eq!(first.len(), 10);
    let known = stream.info().rtt;
    // The first two let a new segment out each (RFC 3042), the third makes the repair; the window that the rest
    // inflate lets more out.
    for _ in 0..9 {
        b.say(&hand.segment(ACK));
    }
    let seen = b.seen();
    let new = seen.last().expect("new data");
    assert!(
        new.seq.after(first[9].seq + 2 * MSS as u32),
        "{}",
        show(&seen)
    );
    b.run(ms(100));
    b.say(&hand.ack(new));
    assert_eq!(stream.info().rtt, known);
    stream.abort();
    b.run(ms(0));
}

#[test]
fn a_small_loss_leaves_a_slow_start_of_two_segments() {
    // RFC 5681 3.1, equation (4): breaks when ssthresh falls below 2 * SMSS because little was in flight: the window
    // would grow by congestion avoidance from the first acknowledgement on.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    b.run(secs(5));
    stream.send(&bytes(100)).expect("room");
    b.run(ms(300));
    let seen = b.seen();
    assert_eq!(seen.len(), 2, "once, and again");
    assert_eq!(stream.info().cwnd, MSS as u32, "the loss window");
    b.say(&hand.ack(&seen[0]));
    assert_eq!(stream.info().cwnd, MSS as u32 + 100, "slow start");
}
