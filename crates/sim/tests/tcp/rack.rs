//! Losses found by time, and tail loss probes (RFC 8985).

use std::time::Duration;

use crate::common::*;
use crate::sack::{span, starts, under_way, with_blocks};
use mbuma::TcpStream;
use sim::Segment;
use wire::{SeqNum, TcpOptions};

#[test]
fn what_one_segment_overtook_is_lost_after_a_quarter_of_a_round_trip() {
    // RFC 8985 6.2 step 5: breaks when a flight too short for three reports waits for the timer, or reordering of a few
    // milliseconds looks like a loss.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = under_way(&mut b, 2, 0);
    b.say(&with_blocks(&hand, &[span(&seen, 1, 2)]));
    b.run(ms(12));
    b.nothing();
    b.run(ms(1));
    assert_eq!(b.one().seq, seen[0].seq, "12.5 ms of 50");
    b.say(&hand.ack(&seen[1]));
    assert_eq!(b.stack().stats().tcp.timeouts, 0);
}

#[test]
fn a_repair_that_is_lost_is_repaired() {
    // RFC 8985 1, RFC 5681 4.3: breaks when a retransmission that gets lost waits for the timer, or costs no window, or
    // costs some twice.
    let mut b = Bench::new();
    let (hand, stream, seen) = under_way(&mut b, 10, 10);
    b.say(&with_blocks(&hand, &[span(&seen, 1, 10)]));
    let first = b.seen();
    assert_eq!(first[0].seq, seen[0].seq);
    assert!(first.len() > 1, "new data goes behind it");
    let one_loss = stream.info().ssthresh.expect("a loss");
    // A round trip later what was sent behind the repair is there; the repair is not.
    b.run(ms(50));
    let last = &first[first.len() - 1];
    b.say(&with_blocks(&hand, &[(seen[1].seq, last.end())]));
    let second = b.seen();
    assert_eq!(second[0].seq, seen[0].seq);
    let two_losses = stream.info().ssthresh.expect("another one");
    assert_eq!(two_losses, one_loss * 7 / 10);
    b.say(&with_blocks(&hand, &[(seen[1].seq, last.end())]));
    assert_eq!(stream.info().ssthresh, Some(two_losses));
    assert_eq!(b.stack().stats().tcp.timeouts, 0);
    stream.abort();
}

/// The station has reported that the first segment is missing, and the only repair of it is under way.
fn with_one_repair(b: &mut Bench) -> (Hand, TcpStream, Vec<Segment>) {
    let (hand, stream, seen) = under_way(b, 10, 0);
    b.say(&with_blocks(&hand, &[span(&seen, 1, 10)]));
    assert_eq!(b.one().seq, seen[0].seq);
    (hand, stream, seen)
}

#[test]
fn a_repair_that_is_lost_with_all_behind_it_is_repeated_after_two_round_trips() {
    // RFC 8985 1, RFC 5681 4.3: breaks when a repair behind which nothing arrives waits for the timer, or when its loss
    // costs no window.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = with_one_repair(&mut b);
    let before = stream.info().ssthresh;
    let start = b.net.now();
    b.run(ms(150));
    let again = b.one();
    assert_eq!(again.seq, seen[0].seq);
    assert_eq!(times_ms(&[again], start), [100], "after two round trips");
    assert_eq!(stream.info().ssthresh, before, "it may have been late");
    b.say(&hand.ack(&seen[9]));
    let info = stream.info();
    assert!(info.ssthresh < before && !info.in_recovery, "{info:?}");
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.tail_loss_probes, stats.timeouts), (1, 0));
}

#[test]
fn a_repair_is_repeated_once_without_a_measured_round_trip() {
    // RFC 6298 5: breaks when a sender whose peer is gone repeats a repair at the rate of round trips.
    let mut b = Bench::new();
    let (_, stream, seen) = with_one_repair(&mut b);
    let start = b.net.now();
    b.run(ms(1100));
    let again = b.seen();
    assert!(again.iter().all(|s| s.seq == seen[0].seq));
    assert_eq!(
        times_ms(&again, start),
        [100, 350, 850],
        "the timer's second time is twice its first"
    );
    assert_eq!(b.stack().stats().tcp.timeouts, 2);
    stream.abort();
}

#[test]
fn the_repeated_repair_tells_of_the_others() {
    // RFC 8985 6.2: breaks when each of several lost repairs waits for a probe or a timer of its own.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = under_way(&mut b, 10, 0);
    b.say(&with_blocks(&hand, &[span(&seen, 2, 10)]));
    let repairs: Vec<_> = b.seen().iter().map(|s| s.seq).collect();
    assert_eq!(repairs, [seen[0].seq, seen[1].seq]);
    b.run(ms(150));
    assert_eq!(b.one().seq, seen[0].seq);
    hand.rcv = seen[1].seq;
    b.say(&with_blocks(&hand, &[span(&seen, 2, 10)]));
    assert_eq!(b.one().seq, seen[1].seq);
    b.say(&hand.ack(&seen[9]));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.tail_loss_probes, stats.timeouts), (1, 0));
}

/// A connection with timestamps to a station 50 ms away, with `count` segments under way for 50 ms.
fn timed(b: &mut Bench, count: usize) -> (Hand, TcpStream, Vec<Segment>) {
    let stream = b.connect();
    let syn = b.one();
    let mut hand = Hand::answering(&syn);
    b.run(ms(50));
    let options = TcpOptions {
        mss: Some(MSS as u16),
        sack_permitted: true,
        timestamps: Some((1, sent_at(&syn))),
        ..TcpOptions::default()
    };
    b.say(&Segment {
        options,
        ..hand.segment(SYN | ACK)
    });
    hand.snd += 1;
    b.one();
    stream.set_nodelay(true);
    let mss = MSS - 12;
    b.send(&stream, &bytes(count * mss));
    let seen = b.seen();
    assert_eq!(seen.len(), count, "{}", show(&seen));
    hand.ts = Some((60, sent_at(&seen[0])));
    b.run(ms(50));
    (hand, stream, seen)
}

fn sent_at(s: &Segment) -> u32 {
    s.options.timestamps.expect("agreed on").0
}

/// A report with the station's timestamps.
fn timed_report(hand: &Hand, blocks: &[(SeqNum, SeqNum)]) -> Segment {
    let mut report = with_blocks(hand, blocks);
    report.options.timestamps = hand.ts;
    report
}

#[test]
fn a_repair_that_was_late_costs_no_window() {
    // RFC 3522 3.2: breaks when a repair that was repeated too early counts as lost, though the echo says that it
    // arrived.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = timed(&mut b, 5);
    b.say(&timed_report(&hand, &[span(&seen, 1, 5)]));
    let repair = b.one();
    let before = stream.info().ssthresh;
    b.run(ms(110));
    let again = b.one();
    assert_eq!((repair.seq, again.seq), (seen[0].seq, seen[0].seq));
    hand.ts = Some((170, sent_at(&repair)));
    b.say(&hand.ack(&seen[4]));
    let info = stream.info();
    assert_eq!((info.ssthresh, info.in_recovery), (before, false));
    assert_eq!(b.stack().stats().tcp.timeouts, 0);
}

#[test]
fn a_repair_tells_of_others_though_the_path_became_shorter() {
    // RFC 8985 6.2: breaks when an answer to a repair that comes sooner than any before counts as one to the first
    // transmission, though its echo tells. A queue that the flight itself filled makes all round trips of before
    // longer; then each repair waited for a probe of its own.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = timed(&mut b, 9);
    b.say(&timed_report(&hand, &[span(&seen, 2, 9)]));
    let repairs = starts(&b.seen());
    assert_eq!(repairs, [seen[0].seq, seen[1].seq]);
    b.run(ms(110));
    let again = b.one();
    assert_eq!(again.seq, seen[0].seq);
    b.run(ms(10));
    hand.rcv = seen[1].seq;
    hand.ts = Some((190, sent_at(&again)));
    b.say(&timed_report(&hand, &[span(&seen, 2, 9)]));
    assert_eq!(b.one().seq, seen[1].seq, "lost, as it was sent before");
    b.say(&hand.ack(&seen[8]));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.tail_loss_probes, stats.timeouts), (1, 0));
}

#[test]
fn a_repair_behind_a_hole_tells_of_the_one_before_it() {
    // RFC 8985 6.2, RFC 7323 4.3: breaks when the echo of what arrived in order counts against a repair that a SACK
    // block reports. So a flight without new data waited for a timer.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = timed(&mut b, 9);
    b.say(&timed_report(
        &hand,
        &[span(&seen, 6, 9), span(&seen, 1, 5)],
    ));
    assert_eq!(starts(&b.seen()), [seen[0].seq, seen[5].seq]);
    b.run(ms(50));
    b.say(&timed_report(&hand, &[span(&seen, 1, 9)]));
    assert_eq!(b.one().seq, seen[0].seq);
    b.say(&hand.ack(&seen[8]));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.tail_loss_probes, stats.timeouts), (0, 0));
}

#[test]
fn a_repair_that_is_lost_after_a_timeout_ends_slow_start() {
    // RFC 5681 4.3: breaks when slow start goes on although what it sent again is lost.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
    b.run(ms(400));
    assert_eq!(b.stack().stats().tcp.timeouts, 1);
    b.seen();
    hand.rcv = seen[1].seq;
    b.say(&hand.segment(ACK));
    assert_eq!(starts(&b.seen())[..2], [seen[1].seq, seen[2].seq]);
    let before = stream.info().ssthresh.expect("of the timeout");
    b.run(ms(50));
    b.say(&with_blocks(&hand, &[span(&seen, 2, 3)]));
    assert_eq!(b.one().seq, seen[1].seq);
    let info = stream.info();
    assert!(info.ssthresh < Some(before), "{info:?}");
    stream.abort();
}

#[test]
fn small_segments_are_repaired_in_one() {
    // RFC 6298 5.4, RFC 9293 3.8.6: breaks when a repair is as small as the segment that it repeats, so that a program
    // that wrote bytes waits a round trip for each.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 1, 0);
    b.say(&hand.ack(&seen[0]));
    for _ in 0..20 {
        stream.send(&bytes(10)).expect("room");
    }
    b.run(ms(0));
    let small = b.seen();
    assert_eq!(small.len(), 20);
    b.run(ms(700));
    let sent = b.seen();
    let repair = sent.iter().find(|s| s.seq == small[0].seq);
    let repair = repair.unwrap_or_else(|| panic!("{}", show(&sent)));
    assert_eq!(repair.data.len(), 200);
    b.say(&hand.ack(&small[19]));
}

#[test]
fn the_last_segments_of_a_flight_are_probed_for() {
    // RFC 8985 7: breaks when the loss of the last segments costs a timeout.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = under_way(&mut b, 10, 0);
    b.say(&hand.ack(&seen[6]));
    let start = b.net.now();
    b.run(ms(150));
    let probe = b.one();
    assert_eq!(probe.seq, seen[9].seq, "the last one again");
    assert_eq!(times_ms(&[probe], start), [100], "after two round trips");
    b.say(&with_blocks(&hand, &[span(&seen, 9, 10)]));
    b.run(ms(13));
    assert_eq!(b.one().seq, seen[7].seq, "one for the one that arrived");
    hand.rcv = seen[7].end();
    b.say(&with_blocks(&hand, &[span(&seen, 9, 10)]));
    assert_eq!(b.one().seq, seen[8].seq);
    b.say(&hand.ack(&seen[9]));
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.tail_loss_probes, stats.timeouts), (1, 0));
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
}

#[test]
fn a_repair_that_a_smaller_path_splits_is_no_second_loss() {
    // RFC 8985 6.2, a fault of gVisor's: breaks when the halves of a repair that a router found too large count as
    // overtaken, since they are sent with the time of other segments; or when what had arrived is sent again.
    let mut b = Bench::new();
    let (mut hand, stream, mut seen) = under_way(&mut b, 2, 0);
    // No full segment arrives, so a report of a smaller path is believed at once (RFC 5927 7.2).
    for _ in 0..3 {
        b.send(&stream, &bytes(100));
    }
    seen.extend(b.seen());
    b.run(ms(50));
    b.say(&with_blocks(&hand, &[span(&seen, 2, 5)]));
    let repair = b.one();
    assert_eq!(repair.seq, seen[0].seq);
    let before = stream.info().ssthresh.expect("a loss");
    let limit: u16 = if is_over_ipv6() { 1300 } else { 1000 };
    let [hi, lo] = limit.to_be_bytes();
    b.net.complain(b.peer, &repair, (3, 4), [0, 0, hi, lo]);
    b.run(ms(0));
    let mss = usize::from(limit) - (usize::from(link_mtu()) - MSS);
    // Each piece arrives by itself, and those behind it were sent at the same time or later.
    for _ in 0..2 * MSS.div_ceil(mss) {
        for piece in b.seen() {
            assert!(piece.data.len() <= mss, "{}", piece.data.len());
            b.run(ms(50));
            hand.rcv = piece.end().max(hand.rcv);
            b.say(&match hand.rcv == seen[1].end() {
                true => hand.ack(&seen[4]),
                false => with_blocks(&hand, &[span(&seen, 2, 5)]),
            });
        }
    }
    let info = stream.info();
    let same = before / MSS as u32 * mss as u32;
    let after = (info.ssthresh, info.in_recovery);
    assert_eq!(after, (Some(same), false), "in segments");
    assert_eq!(info.retransmitted, 3 * MSS as u64, "each piece once");
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.timeouts, stats.tail_loss_probes), (0, 0));
}

#[test]
fn the_reorder_timer_and_the_third_report_repair_once() {
    // RFC 8985 6.2, a fault of gVisor's: breaks when the timer finds lost what the third report at the same moment
    // finds lost too, and both send it.
    for report_first in [true, false] {
        let mut b = Bench::new();
        let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
        // Two reports: overtaken data waits for a quarter of the round trip.
        b.say(&with_blocks(&hand, &[span(&seen, 1, 2)]));
        b.say(&with_blocks(&hand, &[span(&seen, 1, 3)]));
        b.nothing();
        let third = with_blocks(&hand, &[span(&seen, 1, 4)]);
        if report_first {
            b.run(Duration::from_micros(12_499));
            b.say(&third);
            b.run(ms(1));
        } else {
            b.run(ms(13));
            b.say(&third);
        }
        let repairs = b.seen();
        assert_eq!(starts(&repairs), [seen[0].seq], "{report_first}");
        let info = stream.info();
        assert_eq!(info.retransmitted, MSS as u64);
        b.say(&hand.ack(&seen[9]));
    }
}
