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
    assert!(info.reordering > 0, "it waits longer from now on");
    assert_eq!(b.stack().stats().tcp.spurious_recoveries, 1);
    stream.abort();
}

#[test]
fn a_report_of_what_was_never_repeated_undoes_nothing() {
    // Breaks when a peer that lies about duplicates gets its window back.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 20);
    b.say(&hand.ack(&seen[1]));
    b.seen();
    b.say(&with_blocks(&hand, &[span(&seen, 0, 1)]));
    assert_eq!(stream.info().reordering, 0);
    assert_eq!(b.stack().stats().tcp.spurious_recoveries, 0);
    stream.abort();
}

#[test]
fn a_report_about_an_earlier_recovery_undoes_nothing() {
    // RFC 3708: breaks when the report of a repair of an earlier recovery counts for the one that there is now.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 40);
    b.say(&with_blocks(&hand, &[span(&seen, 1, 4)]));
    assert_eq!(b.seen()[0].seq, seen[0].seq);
    b.say(&hand.ack(&seen[9]));
    let mut more = b.seen();
    let last = more.pop().expect("new data");
    b.say(&hand.ack(&last));
    b.run(ms(50));
    let more = b.seen();
    assert!(more.len() >= 5, "{}", show(&more));
    b.say(&with_blocks(&hand, &[span(&more, 1, 5)]));
    assert!(b.seen().iter().any(|s| s.seq == more[0].seq));
    // Now the receiver reports that the first repair was one too many.
    b.say(&with_blocks(&hand, &[span(&seen, 0, 1), span(&more, 1, 5)]));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.fast_retransmits, stats.spurious_recoveries), (2, 0));
    stream.abort();
}

#[test]
fn an_echo_of_before_the_repair_undoes_the_recovery_at_once() {
    // RFC 3522 3.2: breaks when a sender with timestamps needs the whole window acknowledged, or a report of the
    // duplicate, to see that the only segment which it repaired had been late.
    let mut b = Bench::new();
    let stream = b.connect();
    let syn = b.one();
    let mut hand = Hand::answering(&syn);
    let ours = syn.options.timestamps.expect("offered").0;
    b.run(ms(50));
    let options = wire::TcpOptions {
        mss: Some(MSS as u16),
        sack_permitted: true,
        timestamps: Some((1, ours)),
        ..wire::TcpOptions::default()
    };
    b.say(&sim::Segment {
        options,
        ..hand.segment(SYN | ACK)
    });
    hand.snd += 1;
    b.one();
    stream.set_nodelay(true);
    b.send(&stream, &bytes(30 * MSS));
    let seen = b.seen();
    let sent = seen[0].options.timestamps.expect("agreed on").0;
    b.run(ms(50));
    let before = stream.info().cwnd;
    let mut report = with_blocks(&hand, &[span(&seen, 1, 4)]);
    report.options.timestamps = Some((60, sent));
    b.say(&report);
    assert_eq!(b.seen()[0].seq, seen[0].seq);
    assert!(stream.info().cwnd < before);
    b.run(ms(5));
    hand.ts = Some((65, sent));
    b.say(&hand.ack(&seen[3]));
    let info = stream.info();
    assert!(info.cwnd >= before && !info.in_recovery, "{info:?}");
    assert!(info.reordering > 0);
    assert_eq!(b.stack().stats().tcp.spurious_recoveries, 1);
    stream.abort();
}

#[test]
fn what_waited_behind_a_repair_gives_no_sample() {
    // RFC 6298 3 (Karn): breaks when data is timed that came before a hole was repaired, because the peer acknowledges
    // the repair and the rest apart. After a timeout the first acknowledgement makes new data go out (RFC 5682), so
    // that the rest is not sent again.
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
}

#[test]
fn a_timeout_that_came_too_early_is_undone() {
    // RFC 5682 3.1: breaks when a path that pauses for longer than the timeout makes the sender repeat the whole
    // flight, or leaves it in slow start.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 20);
    let before = stream.info().cwnd;
    // A probe goes, then the timer comes, and the first segment goes again.
    b.run(ms(400));
    let again = b.seen();
    assert!(again.iter().any(|s| s.seq == seen[0].seq));
    assert_eq!(stream.info().cwnd, MSS as u32);
    // Data that had only waited is acknowledged: more than was sent again.
    b.say(&hand.ack(&seen[2]));
    let info = stream.info();
    assert!(info.cwnd >= before, "{} of {before}", info.cwnd);
    assert_eq!((info.lost, info.in_recovery), (0, false));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.timeouts, stats.spurious_recoveries), (1, 1));
    stream.abort();
}
