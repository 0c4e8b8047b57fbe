//! Receivers and programs that made the senders of other stacks slow, or stopped them, each named after its fault; on a
//! path of 50 ms.

use crate::common::*;
use crate::sack::{span, under_way, with_blocks};

#[test]
fn a_repair_that_is_lost_twice_is_repaired_a_third_time() {
    // gVisor's fault: breaks when only the first transmission, or the first repair, is found lost by time, and the
    // second waits for the timer.
    let mut b = Bench::new();
    let (hand, stream, seen) = under_way(&mut b, 10, 40);
    let mut known = seen[9].end();
    b.say(&with_blocks(&hand, &[(seen[1].seq, known)]));
    for round in 1..=3 {
        let sent = b.seen();
        assert_eq!(sent[0].seq, seen[0].seq, "round {round}");
        assert!(sent.len() > 1, "new data goes behind it: round {round}");
        b.run(ms(50));
        known = known.max(sent[sent.len() - 1].end());
        b.say(&with_blocks(&hand, &[(seen[1].seq, known)]));
    }
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.timeouts, stats.fast_retransmits), (0, 1));
    stream.abort();
}

#[test]
fn a_window_that_shrinks_in_mid_recovery_delays_and_loses_nothing() {
    // RFC 7323 2.4, gVisor #10312: breaks when a right edge that moves left makes the sender send beyond it, forget
    // what it has to repair, or take its own waiting for congestion.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 10);
    // 0, 4 and 7 are missing, and there is room for one of them.
    let blocks = [span(&seen, 8, 10), span(&seen, 5, 7), span(&seen, 1, 4)];
    hand.window = MSS as u16;
    b.say(&with_blocks(&hand, &blocks));
    let sent = b.one();
    assert_eq!((sent.seq, sent.end()), (seen[0].seq, seen[0].end()));
    hand.rcv = seen[3].end();
    hand.window = 0;
    b.say(&with_blocks(&hand, &blocks[..2]));
    b.run(ms(100));
    let beyond = b.seen().iter().filter(|s| s.data.len() > 1).count();
    assert_eq!(beyond, 0, "the window is closed");
    hand.window = 65_535;
    let cwnd = stream.info().cwnd;
    b.say(&with_blocks(&hand, &blocks[..2]));
    b.run(ms(10));
    assert!(
        stream.info().cwnd >= cwnd,
        "a closed window is no congestion"
    );
    let sent = b.seen();
    for hole in [4, 7] {
        let repaired = sent.iter().any(|s| s.seq == seen[hole].seq);
        assert!(repaired, "{hole}: {}", show(&sent));
    }
    let last = sent
        .iter()
        .map(sim::Segment::end)
        .fold(seen[9].end(), wire::SeqNum::max);
    hand.rcv = last;
    b.say(&hand.segment(ACK));
    for _ in 0..10 {
        b.run(ms(50));
        for segment in b.seen() {
            hand.rcv = hand.rcv.max(segment.end());
        }
        b.say(&hand.segment(ACK));
    }
    assert_eq!(stream.info().send_queue, 0, "all arrived");
}

#[test]
fn a_receiver_that_reports_only_the_newest_block_is_repaired() {
    // RFC 2018 4 asks for the others too: breaks when what was reported once is forgotten because a later
    // acknowledgement does not repeat it.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
    // 0 and 5 are missing; each arrival is reported alone.
    for n in [1, 2, 3, 4, 6, 7, 8, 9] {
        b.say(&with_blocks(&hand, &[span(&seen, n, n + 1)]));
    }
    assert_eq!(stream.info().sacked, 8 * MSS as u32);
    let mut again: Vec<_> = b.seen().iter().map(|s| s.seq).collect();
    hand.rcv = seen[4].end();
    b.say(&with_blocks(&hand, &[span(&seen, 9, 10)]));
    again.extend(b.seen().iter().map(|s| s.seq));
    b.run(ms(20));
    again.extend(b.seen().iter().map(|s| s.seq));
    assert_eq!(again, [seen[0].seq, seen[5].seq]);
    b.say(&hand.ack(&seen[9]));
    assert_eq!(b.stack().stats().tcp.timeouts, 0);
}

#[test]
fn an_hour_of_little_data_leads_to_no_burst_and_to_no_small_window() {
    // FreeBSD D19118: breaks when the time of a program that sends little counts for CUBIC's curve, so that the window
    // is huge, or overflows; RFC 7661: or when a window grows that is not used.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
    // An event begins an epoch.
    b.say(&with_blocks(&hand, &[span(&seen, 1, 10)]));
    b.seen();
    b.say(&hand.ack(&seen[9]));
    let cwnd = stream.info().cwnd;
    for _ in 0..360 {
        stream.send(&bytes(100)).expect("room");
        b.run(ms(50));
        let sent = b.seen();
        assert_eq!(sent.len(), 1, "{}", show(&sent));
        b.say(&hand.ack(&sent[0]));
        b.run(secs(10));
    }
    assert!(stream.info().cwnd <= cwnd, "{} {cwnd}", stream.info().cwnd);
    b.send(&stream, &bytes(64 * MSS));
    let mut sent = b.seen();
    assert!(
        (2..=10).contains(&sent.len()),
        "{} segments at once",
        sent.len()
    );
    // Then it grows, but not by more than it doubles.
    let mut flight = sent.len();
    for _ in 0..4 {
        b.run(ms(50));
        b.say(&hand.ack(sent.last().expect("some")));
        sent = b.seen();
        assert!(
            sent.len() <= 2 * flight + 1,
            "{} after {flight}",
            sent.len()
        );
        if sent.is_empty() {
            break;
        }
        flight = sent.len();
    }
    assert!(stream.info().cwnd >= cwnd);
    stream.abort();
}
