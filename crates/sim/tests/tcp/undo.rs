//! Recoveries and timeouts that were wrong are undone (RFC 4015, 5682, 3708).

use crate::common::*;
use crate::sack::{span, under_way, with_blocks};

#[test]
fn a_report_of_each_repair_as_a_duplicate_undoes_the_recovery() {
    // RFC 3708: breaks when reordering that looked like a loss leaves the window halved.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 20);
    let before = stream.info().cwnd;
    b.say(&with_blocks(&hand, &[span(&seen, 1, 4)]));
    assert_eq!(b.seen()[0].seq, seen[0].seq);
    assert!(stream.info().ssthresh.is_some_and(|s| s < before));
    // The first segment was late: it arrives, and then its repair.
    b.say(&hand.ack(&seen[9]));
    b.seen();
    b.say(&with_blocks(&hand, &[span(&seen, 0, 1)]));
    let info = stream.info();
    assert!(info.cwnd >= before, "{} of {before}", info.cwnd);
    assert_eq!(info.ssthresh, None);
    assert!(info.reordering, "it waits longer from now on");
    assert_eq!(b.stack().stats().tcp.spurious_recoveries, 1);
    stream.abort();
    drop(stream);
    b.run(ms(0));
    b.seen();
    b.finish();
}

#[test]
fn a_report_of_what_was_never_repeated_undoes_nothing() {
    // Breaks when a peer that lies about duplicates gets its window back.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 20);
    b.say(&hand.ack(&seen[1]));
    b.seen();
    b.say(&with_blocks(&hand, &[span(&seen, 0, 1)]));
    assert!(!stream.info().reordering);
    assert_eq!(b.stack().stats().tcp.spurious_recoveries, 0);
    stream.abort();
    drop(stream);
    b.run(ms(0));
    b.seen();
    b.finish();
}

#[test]
fn what_waited_behind_a_repair_gives_no_sample() {
    // RFC 6298 3 (Karn): breaks when data is timed that came before a hole was repaired, because the peer acknowledges the
    // repair and the rest apart. After a timeout the first acknowledgement makes new data go out (RFC 5682), so that the
    // rest is not sent again.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 20);
    b.run(ms(400));
    assert!(b.seen().iter().any(|s| s.seq == seen[0].seq));
    let known = stream.info().rtt;
    b.say(&hand.ack(&seen[0]));
    assert_eq!(stream.info().rtt, known, "of the repair");
    b.seen();
    b.say(&hand.ack(&seen[9]));
    assert_eq!(stream.info().rtt, known, "of what waited");
    stream.abort();
    drop(stream);
    b.run(ms(0));
    b.seen();
    b.finish();
}

#[test]
fn a_timeout_that_came_too_early_is_undone() {
    // RFC 5682 3.1: breaks when a path that pauses for longer than the timeout makes the sender repeat the whole flight, or
    // leaves it in slow start.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 20);
    let before = stream.info().cwnd;
    // A probe goes, then the timer comes, and the first segment goes again.
    b.run(ms(400));
    let again = b.seen();
    assert!(again.iter().any(|s| s.seq == seen[0].seq));
    assert_eq!(stream.info().cwnd, MSS as u32);
    // What had only waited is acknowledged: more than what was sent again.
    b.say(&hand.ack(&seen[2]));
    let info = stream.info();
    assert!(info.cwnd >= before, "{} of {before}", info.cwnd);
    assert_eq!((info.lost, info.in_recovery), (0, false));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.timeouts, stats.spurious_recoveries), (1, 1));
    stream.abort();
    drop(stream);
    b.run(ms(0));
    b.seen();
    b.finish();
}
