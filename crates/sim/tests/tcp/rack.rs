//! Losses told by time, and tail loss probes (RFC 8985).

use crate::common::*;
use crate::sack::{span, under_way, with_blocks};

#[test]
fn what_one_segment_overtook_is_lost_after_a_quarter_of_a_round_trip() {
    // RFC 8985 6.2 step 5: breaks when a flight too short for three reports waits for the timer, or reordering of a few
    // milliseconds looks like a loss.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 2, 0);
    b.say(&with_blocks(&hand, &[span(&seen, 1, 2)]));
    b.run(ms(12));
    b.nothing();
    b.run(ms(1));
    assert_eq!(b.one().seq, seen[0].seq, "12.5 ms of 50");
    b.say(&hand.ack(&seen[1]));
    assert_eq!(b.stack().stats().tcp.timeouts, 0);
    drop(stream);
    b.finish();
}

#[test]
fn a_repair_that_is_lost_is_repaired() {
    // RFC 8985 1: breaks when a retransmission that gets lost waits for the timer.
    let mut b = Bench::new();
    let (hand, stream, seen) = under_way(&mut b, 10, 10);
    b.say(&with_blocks(&hand, &[span(&seen, 1, 10)]));
    let first = b.seen();
    assert_eq!(first[0].seq, seen[0].seq);
    assert!(first.len() > 1, "new data goes behind it");
    // A round trip later what was sent behind the repair is there; the repair is not.
    b.run(ms(50));
    let last = &first[first.len() - 1];
    b.say(&with_blocks(&hand, &[(seen[1].seq, last.end())]));
    let second = b.seen();
    assert_eq!(second[0].seq, seen[0].seq);
    assert_eq!(b.stack().stats().tcp.timeouts, 0);
    b.abort_and_finish(stream);
}

#[test]
fn the_last_segments_of_a_flight_are_probed_for() {
    // RFC 8985 7: breaks when the loss of the last segments costs a timeout.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
    b.say(&hand.ack(&seen[6]));
    let start = b.net.now();
    b.run(ms(150));
    let probe = b.one();
    assert_eq!(probe.seq, seen[9].seq, "the last one again");
    assert_eq!(times_ms(&[probe], start), [100], "after two round trips");
    b.say(&with_blocks(&hand, &[span(&seen, 9, 10)]));
    b.run(ms(13));
    let again: Vec<_> = b.seen().iter().map(|s| s.seq).collect();
    assert_eq!(again, [seen[7].seq, seen[8].seq]);
    b.say(&hand.ack(&seen[9]));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.tail_loss_probes, stats.timeouts), (1, 0));
    drop(stream);
    b.finish();
}

#[test]
fn a_probe_that_repaired_a_loss_halves_the_window() {
    // RFC 8985 7.4.2: breaks when the loss of a last segment is hidden from congestion control.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
    b.say(&hand.ack(&seen[8]));
    b.run(ms(300));
    let probe = b.one();
    assert_eq!(probe.seq, seen[9].seq);
    b.say(&hand.ack(&seen[9]));
    let before = stream.info().cwnd;
    // Only the acknowledgement of something behind it says that the probe, and not the first transmission, arrived.
    stream.send(&bytes(MSS)).expect("room");
    b.run(ms(50));
    let next = b.one();
    b.say(&hand.ack(&next));
    let after = stream.info().cwnd;
    assert!(after < before, "{after} of {before}");
    drop(stream);
    b.run(ms(0));
    b.seen();
    b.finish();
}
