//! The sender's use of SACK blocks (RFC 2018 5, RFC 8985, RFC 9937), on a path of 50 ms.

use crate::common::*;
use mbuma::TcpStream;
use sim::Segment;
use wire::{SackBlock, SeqNum, TcpOptions};

/// A connection to a station 50 ms away that understands SACK, with `count` segments under way, sent at one time.
pub(crate) fn under_way(
    b: &mut Bench,
    count: usize,
    more: usize,
) -> (Hand, TcpStream, Vec<Segment>) {
    under_way_in(b, MSS, count, more)
}

/// The same in segments of `mss` bytes.
fn under_way_in(
    b: &mut Bench,
    mss: usize,
    count: usize,
    more: usize,
) -> (Hand, TcpStream, Vec<Segment>) {
    let stream = b.connect();
    let syn = b.one();
    let mut hand = Hand::answering(&syn);
    b.run(ms(50));
    let options = TcpOptions {
        mss: Some(mss as u16),
        sack_permitted: true,
        ..TcpOptions::default()
    };
    b.say(&Segment {
        options,
        ..hand.segment(SYN | ACK)
    });
    hand.snd += 1;
    b.one();
    stream.set_nodelay(true);
    stream.send(&bytes((count + more) * mss)).expect("room");
    b.run(ms(0));
    let seen = b.seen();
    assert_eq!(
        seen.len(),
        count.min(10),
        "an initial window of ten (RFC 6928)"
    );
    b.run(ms(50));
    (hand, stream, seen)
}

/// An acknowledgement of what came before, with blocks.
pub(crate) fn with_blocks(hand: &Hand, blocks: &[(SeqNum, SeqNum)]) -> Segment {
    let blocks = blocks
        .iter()
        .map(|&(left, right)| SackBlock { left, right });
    let options = TcpOptions {
        sack: blocks.collect(),
        ..TcpOptions::default()
    };
    Segment {
        options,
        ..hand.segment(ACK)
    }
}

/// The range from one segment up to another.
pub(crate) fn span(seen: &[Segment], from: usize, to: usize) -> (SeqNum, SeqNum) {
    (seen[from].seq, seen[to - 1].end())
}

pub(crate) fn starts(segments: &[Segment]) -> Vec<SeqNum> {
    segments.iter().map(|s| s.seq).collect()
}

#[test]
fn three_sacked_segments_mean_a_loss() {
    // RFC 8985 6.2: breaks when a loss waits for the timer, or two segments behind a hole are enough although nothing
    // was ever reordered.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = under_way(&mut b, 10, 0);
    for to in [2, 3] {
        b.say(&with_blocks(&hand, &[span(&seen, 1, to)]));
        b.nothing();
    }
    b.say(&with_blocks(&hand, &[span(&seen, 1, 4)]));
    assert_eq!(b.one().seq, seen[0].seq);
    b.say(&hand.ack(&seen[9]));
    b.nothing();
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.fast_retransmits, stats.timeouts), (1, 0));
}

#[test]
fn only_the_holes_are_sent_again() {
    // RFC 2018 5: breaks when what the peer has is sent again, a hole is left out, or each waits for a round trip.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = under_way(&mut b, 10, 0);
    let blocks = [span(&seen, 8, 10), span(&seen, 5, 7), span(&seen, 1, 4)];
    b.say(&with_blocks(&hand, &blocks));
    let mut again = starts(&b.seen());
    // Each repair that arrives lets more out.
    hand.rcv = seen[3].end();
    b.say(&with_blocks(&hand, &blocks[..2]));
    again.extend(starts(&b.seen()));
    hand.rcv = seen[6].end();
    b.say(&with_blocks(&hand, &blocks[..1]));
    again.extend(starts(&b.seen()));
    assert_eq!(again, [seen[0].seq, seen[4].seq, seen[7].seq]);
    b.say(&hand.ack(&seen[9]));
    b.nothing();
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.retransmitted_segments, stats.timeouts), (3, 0));
}

#[test]
fn blocks_that_make_no_sense_are_ignored() {
    // CVE-2019-11477 and similar ones: breaks when a block of bytes that were never sent or are acknowledged, or one
    // with its ends exchanged, changes anything.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
    let (una, nxt) = (seen[0].seq, seen[9].end());
    for block in [
        (nxt, nxt + 1000),
        (seen[5].seq, nxt + 1),
        (seen[4].seq, seen[2].seq),
        (seen[4].seq, seen[4].seq),
        (una, seen[3].seq),
        (una - 5000, una),
        (una - 1, una + 1),
        (una + (1 << 31), una + (1 << 31) + 1),
        (seen[3].seq, seen[3].seq + (1 << 31)),
        (SeqNum(0), SeqNum(u32::MAX)),
    ] {
        b.say(&with_blocks(&hand, &[block]));
        b.nothing();
        let info = stream.info();
        assert_eq!((info.sacked, info.lost), (0, 0), "{block:?}");
        assert_eq!(info.in_flight, 10 * MSS as u32);
    }
    b.say(&hand.ack(&seen[9]));
}

#[test]
fn a_repeated_block_delivers_nothing() {
    // FreeBSD D18624: breaks when blocks that say nothing new let more and more into the network.
    let mut b = Bench::new();
    let (hand, stream, seen) = under_way(&mut b, 10, 20);
    let block = with_blocks(&hand, &[span(&seen, 1, 4)]);
    b.say(&block);
    let sent = b.seen().len();
    assert!(sent >= 1);
    for _ in 0..20 {
        b.say(&block);
        b.nothing();
    }
    stream.abort();
}

#[test]
fn a_receiver_that_reneges_gets_everything() {
    // RFC 2018 8: breaks when what a receiver has dropped again is never sent, or only after a whole timeout.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 0);
    b.say(&with_blocks(&hand, &[span(&seen, 1, 10)]));
    assert_eq!(b.one().seq, seen[0].seq);
    assert_eq!(stream.info().sacked, 9 * MSS as u32);
    // It takes the repair, and has nothing behind it any more.
    b.say(&hand.ack(&seen[0]));
    b.run(ms(30));
    assert_eq!(b.one().seq, seen[1].seq, "half a round trip later");
    assert_eq!(stream.info().sacked, 0);
    for segment in &seen[1..] {
        b.say(&hand.ack(segment));
        b.run(ms(1));
    }
    assert_eq!(stream.info().send_queue, 0);
}

/// A block with its ends anywhere near what was sent; sometimes anywhere at all.
pub(crate) fn any_block(r: &mut kern::Random, una: SeqNum, len: u32) -> (SeqNum, SeqNum) {
    let end = |r: &mut kern::Random| match r.below(10) {
        0 => SeqNum(r.next_u32()),
        1 => una - r.below(3 * SMALL_MSS as u64) as u32,
        _ => una + r.below(u64::from(len) + 2 * SMALL_MSS as u64) as u32,
    };
    (end(r), end(r))
}

/// Segments of these streams: the work is in their number, not in their bytes.
const SMALL_MSS: usize = 256;

/// Streams of one bench, a connection each: to make a stack takes longer than a stream.
const STREAMS: u64 = 100;

#[test]
fn no_stream_of_blocks_breaks_the_sender() {
    // Breaks when acknowledgements and blocks in any order, true or forged, make the variables disagree (checked after
    // each segment in debug builds), let more into the network than windows allow, stop the connection, or leave memory
    // behind. SACK_STREAMS=n runs so many, SACK_SEED=n begins with that seed; those that its bench had before run
    // again.
    let number = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let first = number("SACK_SEED").unwrap_or(0);
    let end = first + number("SACK_STREAMS").unwrap_or(300);
    let benches = first / STREAMS..end.div_ceil(STREAMS);
    for start in benches.map(|bench| bench * STREAMS) {
        let mut b = Bench::new();
        for seed in start..end.min(start + STREAMS) {
            println!("SACK_SEED={seed}");
            stream_of_blocks(&mut b, seed);
        }
    }
}

/// One connection: blocks of this seed, then an honest peer.
fn stream_of_blocks(b: &mut Bench, seed: u64) {
    let mut r = kern::Random::from_seed(seed);
    let (mut hand, stream, _) = under_way_in(b, SMALL_MSS, 10, 40);
    hand.window = 44 * SMALL_MSS as u16;
    let mut nxt = hand.rcv + 10 * SMALL_MSS as u32;
    let data = bytes(2 * SMALL_MSS);
    for _ in 0..150 {
        nxt = b.seen().iter().fold(nxt, |nxt, s| nxt.max(s.end()));
        let flight = nxt.since(hand.rcv);
        if r.below(4) == 0 {
            hand.rcv += r.below(u64::from(flight / 2) + 1) as u32;
        }
        let blocks: Vec<_> = (0..r.below(5))
            .map(|_| any_block(&mut r, hand.rcv, flight))
            .collect();
        b.say(&with_blocks(&hand, &blocks));
        let info = stream.info();
        assert!(
            info.in_flight <= info.snd_wnd + SMALL_MSS as u32,
            "{info:?}"
        );
        assert!(info.in_flight + info.sacked + info.lost <= nxt.since(hand.rcv) + info.snd_wnd);
        let _ = stream.send(&data);
        b.run(ms([0, 1, 20, 300][r.below(4) as usize]));
    }
    // All bytes arrive.
    for _ in 0..2000 {
        nxt = b.seen().iter().fold(nxt, |nxt, s| nxt.max(s.end()));
        hand.rcv = nxt;
        b.say(&hand.segment(ACK));
        b.run(ms(10));
        if stream.info().send_queue == 0 {
            break;
        }
    }
    assert_eq!(stream.info().send_queue, 0);
    stream.abort();
    drop(stream);
    b.run(ms(0));
    b.seen();
}
