//! Repairing losses.

use crate::common::*;
use mbuma::congestion::CongestionControl;
use mbuma::{SocketError, TcpStream};
use sim::Segment;
use wire::TcpOptions;

/// A connection whose congestion window has grown, so that ten segments are under way at once. It uses Reno: the
/// windows after a loss are RFC 5681's.
fn ten_under_way(b: &mut Bench) -> (Hand, TcpStream, Vec<Segment>) {
    let (hand, stream) = b.active();
    stream.set_nodelay(true);
    stream.set_congestion(CongestionControl::Reno);
    b.send(&stream, &bytes(10 * MSS));
    let seen = b.seen();
    let lens: Vec<_> = seen.iter().map(|s| s.data.len()).collect();
    assert_eq!(lens, [MSS; 10], "an initial window of ten (RFC 6928)");
    (hand, stream, seen)
}

#[test]
fn data_is_repeated_with_back_off() {
    // RFC 6298 5: breaks when the timer is lost, comes early, or does not back off.
    let mut b = Bench::new();
    let (_, stream) = b.active();
    b.run(secs(5));
    let start = b.net.now();
    stream.send(b"data").expect("room");
    b.run(secs(200));
    let seen = b.seen();
    // From 200 ms on, doubling up to 60 s.
    let want = [
        0, 200, 600, 1400, 3000, 6200, 12_600, 25_400, 51_000, 102_200, 162_200,
    ];
    assert_eq!(times_ms(&seen, start), want);
    assert!(
        seen.iter()
            .all(|s| s.data == b"data" && s.seq == seen[0].seq)
    );
}

#[test]
fn the_timeout_follows_the_round_trip() {
    // RFC 6298 2: breaks when samples are not taken, or the estimate is computed otherwise.
    let mut b = Bench::new();
    let stream = b.connect();
    let mut hand = Hand::answering(&b.one());
    b.run(ms(600));
    b.say(&hand.segment(SYN | ACK));
    hand.snd += 1;
    b.one();
    // (2.2): SRTT 600 ms, RTTVAR 300 ms, RTO 600 + 4 * 300 ms.
    let start = b.net.now();
    stream.send(b"lost").expect("room");
    b.run(ms(1850));
    let seen = b.seen();
    assert_eq!(times_ms(&seen, start), [0, 1800]);
    b.say(&hand.ack(&seen[0]));
    // (2.3): another 600 ms: RTTVAR 225 ms, SRTT 600 ms, RTO 600 + 4 * 225 ms.
    stream.send(b"timed").expect("room");
    b.run(ms(600));
    let timed = b.one();
    b.say(&hand.ack(&timed));
    let start = b.net.now();
    stream.send(b"lost").expect("room");
    b.run(ms(1600));
    assert_eq!(times_ms(&b.seen(), start), [0, 1500]);
}

#[test]
fn an_ambiguous_acknowledgement_keeps_the_timeout_backed_off() {
    // RFC 6298 3 and 5 (Karn): breaks when a repeated segment is timed, or when the timeout falls back
    // although no trip was measured: on a path longer than the timeout, everything is sent twice.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    b.run(secs(5));
    stream.send(b"one").expect("room");
    b.run(ms(300));
    let seen = b.seen();
    assert_eq!(seen.len(), 2, "once, and again after 200 ms");
    b.say(&hand.ack(&seen[0]));
    let start = b.net.now();
    stream.send(b"two").expect("room");
    b.run(ms(500));
    let seen = b.seen();
    assert_eq!(times_ms(&seen, start), [0, 400]);
    b.say(&hand.ack(&seen[0]));
    // A third one, answered at once, is a sample: back to the lower bound.
    b.send(&stream, b"three");
    let three = b.one();
    b.say(&hand.ack(&three));
    let start = b.net.now();
    stream.send(b"four").expect("room");
    b.run(ms(900));
    assert_eq!(times_ms(&b.seen(), start)[..2], [0, 200]);
}

#[test]
fn three_duplicates_repair_a_loss_at_once() {
    // RFC 5681 3.2: breaks when a single loss waits for the timer, or two duplicates are enough.
    each_shape(|mut b| {
        let (mut hand, _stream, seen) = ten_under_way(&mut b);
        b.say(&hand.ack(&seen[0]));
        b.seen();
        let dup = hand.segment(ACK);
        b.say(&dup);
        b.say(&dup);
        assert!(
            b.seen().iter().all(|s| s.seq != seen[1].seq),
            "two may be reordering"
        );
        b.say(&dup);
        let again = b.one();
        assert_eq!((again.seq, again.data.len()), (seen[1].seq, MSS));
        b.say(&hand.ack(&seen[9]));
        b.nothing();
        let stats = b.stack().stats().tcp;
        assert_eq!((stats.fast_retransmits, stats.timeouts), (1, 0));
    });
}

#[test]
fn the_first_two_duplicates_let_new_segments_out() {
    // RFC 3042 2: breaks when a flight too short for three duplicates waits for the timer; or when what is sent so
    // counts for ssthresh (RFC 5681 3.2 step 2), or goes beyond the peer's window.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    b.send(&stream, &bytes(10 * MSS));
    b.nothing();
    for n in 0..2 {
        b.say(&hand.segment(ACK));
        let new = b.one();
        assert_eq!(new.seq, seen[0].seq + (10 + n) * MSS as u32);
        assert_eq!(new.data.len(), MSS);
        assert_eq!(stream.info().cwnd, 10 * MSS as u32);
    }
    b.say(&hand.segment(ACK));
    assert_eq!(b.one().seq, seen[0].seq, "the repair");
    assert_eq!(stream.info().cwnd, (10 / 2 + 3) * MSS as u32);
    // The acknowledgement of all ends the recovery, and no duplicate is left.
    hand.rcv += 12 * MSS as u32;
    b.say(&hand.segment(ACK));
    assert_eq!(b.seen().len(), 5);
    stream.abort();
    drop((stream, b));

    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    hand.window = 3 * MSS as u16;
    b.say(&hand.segment(ACK));
    b.send(&stream, &bytes(10 * MSS));
    assert_eq!(b.seen().len(), 3, "the peer's window");
    b.say(&hand.segment(ACK));
    b.nothing();
    stream.abort();
}

#[test]
fn a_partial_acknowledgement_repairs_the_next_hole() {
    // RFC 6582 3.2 step 3: breaks when the second loss of a window waits for three more duplicates.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = ten_under_way(&mut b);
    b.say(&hand.ack(&seen[0]));
    for _ in 0..3 {
        b.say(&hand.segment(ACK));
    }
    assert_eq!(b.one().seq, seen[1].seq);
    // The second segment arrived; the fifth is missing as well.
    b.say(&hand.ack(&seen[3]));
    assert_eq!(b.one().seq, seen[4].seq, "at once");
    b.say(&hand.ack(&seen[6]));
    assert_eq!(b.one().seq, seen[7].seq, "and again");
    b.say(&hand.ack(&seen[9]));
    b.nothing();
    assert_eq!(b.stack().stats().tcp.fast_retransmits, 1, "one recovery");
}

#[test]
fn recovery_halves_the_window() {
    // RFC 5681 3.2, equation (4): breaks when a loss does not slow the sender down.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    for _ in 0..3 {
        b.say(&hand.segment(ACK));
    }
    b.seen();
    b.say(&hand.ack(&seen[9]));
    assert_eq!(stream.info().cwnd, 5 * MSS as u32);
    b.send(&stream, &bytes(20 * MSS));
    assert_eq!(b.seen().len(), 5);
}

#[test]
fn duplicates_inflate_the_window_while_a_loss_is_repaired() {
    // RFC 5681 3.2 step 4: breaks when a sender stops although segments keep leaving the network.
    let mut b = Bench::new();
    let (hand, stream, _) = ten_under_way(&mut b);
    b.send(&stream, &bytes(20 * MSS));
    b.nothing();
    for _ in 0..3 {
        b.say(&hand.segment(ACK));
    }
    assert_eq!(b.seen().len(), 3, "two new segments (RFC 3042), the repair");
    // ssthresh 5, plus 3, makes 8; 12 are under way. The fifth more lets one new segment out.
    for expected in [0, 0, 0, 0, 1, 1] {
        b.say(&hand.segment(ACK));
        assert_eq!(b.seen().len(), expected);
    }
}

#[test]
fn after_a_timeout_duplicates_of_old_segments_mean_nothing() {
    // RFC 6582 4: breaks when what is sent again after a timeout causes another repair.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = ten_under_way(&mut b);
    b.run(ms(250));
    assert_eq!(
        b.one().seq,
        seen[0].seq,
        "the timer sends one segment (RFC 5681 3.1)"
    );
    b.say(&hand.ack(&seen[0]));
    assert_eq!(b.seen().len(), 2, "slow start from there");
    for _ in 0..5 {
        b.say(&hand.segment(ACK));
    }
    assert_eq!(b.stack().stats().tcp.fast_retransmits, 0);
    b.say(&hand.ack(&seen[9]));
}

#[test]
fn slow_start_grows_by_what_is_acknowledged() {
    // RFC 5681 3.1: breaks when the window does not open, or opens without need.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    b.send(&stream, &bytes(100 * MSS));
    b.nothing();
    b.say(&hand.ack(&seen[4]));
    assert_eq!(
        b.seen().len(),
        10,
        "five left the network, and five more may go"
    );
    assert_eq!(stream.info().cwnd, 15 * MSS as u32);
}

#[test]
fn an_idle_connection_begins_anew() {
    // RFC 5681 4.1: breaks when a large window is sent into a network that was not probed lately.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    stream.send(&bytes(10 * MSS)).expect("room");
    b.say(&hand.ack(&seen[9]));
    let last = b.seen().pop().expect("the second ten");
    b.say(&hand.ack(&last));
    assert!(stream.info().cwnd > 10 * MSS as u32);
    b.run(secs(10));
    b.send(&stream, &bytes(40 * MSS));
    assert_eq!(b.seen().len(), 10);
}

#[test]
fn sending_again_copies_nothing() {
    // Breaks when a segment is built by copying: data stays in the clusters of the send buffer.
    let mut b = Bench::new();
    let (_, stream) = b.active();
    b.run(secs(1));
    b.send(&stream, &bytes(8 * MSS));
    // A copy would need clusters of its own, or be counted.
    let taken = |b: &Bench| {
        let pool = b.stack().stats().pool;
        let clusters: u64 = pool.clusters.iter().map(|zone| zone.requests).sum();
        // Questions for the silent neighbour are packets too.
        let packets = if is_over_ipv6() {
            0
        } else {
            pool.packets.requests
        };
        (clusters, packets, pool.bytes_copied)
    };
    let before = taken(&b);
    b.seen();
    b.run(secs(60));
    assert!(b.seen().len() > 5);
    let stats = b.stack().stats();
    assert!(stats.tcp.retransmitted_segments > 5);
    assert_eq!(taken(&b), before);
}

#[test]
fn a_burst_of_losses_ends_in_a_clear_error_or_everything() {
    // Breaks when a wire that is cut leaves a connection hanging for ever.
    let mut b = Bench::new();
    let (_, stream) = b.active_with(65_535, TcpOptions::default());
    stream.send(&bytes(5000)).expect("room");
    let wire = b.wire;
    b.net.wire_mut(wire).cut();
    b.run(secs(1200));
    // Neighbour discovery finds that the station is gone, and reports it; ARP does not check within that time.
    let expected = match is_over_ipv6() {
        true => SocketError::Unreachable,
        false => SocketError::TimedOut,
    };
    assert_eq!(stream.error(), Some(expected));
}

#[test]
fn a_fin_that_comes_too_early_gets_a_duplicate_acknowledgement() {
    // RFC 5681 4.2: breaks if a FIN alone beyond a gap is not answered at once, so that its sender waits for a
    // timeout.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    let missing = hand.data(b"missing");
    b.say(&hand.fin());
    let duplicate = b.one();
    assert_eq!((duplicate.flags, duplicate.ack), (ACK, missing.seq));
    b.say(&missing);
    let ack = b.one();
    assert_eq!(ack.ack, hand.snd);
    assert_eq!(read(&stream), b"missing");
    drop(stream);
    b.run(ms(0));
    let fin = b.one();
    b.say(&hand.ack(&fin));
}

#[test]
fn after_a_timeout_bbr_goes_on_with_the_window_before_it() {
    // draft-ietf-ccwg-bbr-06 5.6.4.4: breaks when a sender of little data, whose window is larger than what it had in
    // flight, begins with four segments again after a timeout.
    let mut b = Bench::tuned(|c| {
        c.tcp.congestion = CongestionControl::Bbr;
        c.tcp.pacing = false;
    });
    let (mut hand, stream) = b.active();
    stream.set_nodelay(true);
    b.send(&stream, &bytes(10 * MSS));
    for segment in b.seen() {
        b.run(ms(1));
        b.say(&hand.ack(&segment));
    }
    b.run(ms(1));
    b.seen();
    let before = stream.info().cwnd;
    b.send(&stream, &bytes(2 * MSS));
    let flight = b.seen();
    b.run(secs(1));
    assert_eq!(stream.info().cwnd, MSS as u32);
    b.seen();
    b.say(&hand.ack(flight.last().expect("two segments")));
    let after = stream.info().cwnd;
    assert!(
        after >= before && before > 8 * MSS as u32,
        "{before} -> {after}"
    );
    stream.abort();
}
