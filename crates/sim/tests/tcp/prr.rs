//! The window of a recovery (RFC 9937).

use crate::common::*;
use crate::sack::{under_way, with_blocks};

#[test]
fn a_recovery_sends_half_of_what_arrives() {
    // RFC 9937 6: breaks when a recovery pauses for half a round trip and then bursts, or does not slow down.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = under_way(&mut b, 10, 40);
    let mut sent = Vec::new();
    for n in 1..10 {
        b.say(&with_blocks(&hand, &[(seen[1].seq, seen[n].end())]));
        sent.push(b.seen().len());
    }
    // Two by limited transmit, then the repair; from then on one for each two that arrive.
    assert_eq!(sent[..3], [1, 1, 1]);
    assert!(sent[3..].iter().all(|n| *n <= 1), "no bursts: {sent:?}");
    let rest: usize = sent[3..].iter().sum();
    assert!((2..=4).contains(&rest), "half of six: {sent:?}");
    hand.rcv = seen[9].end() + 2 * MSS as u32;
    b.say(&hand.segment(ACK));
    let info = stream.info();
    let ssthresh = info.ssthresh.expect("there was a loss");
    assert!(
        !info.in_recovery || info.cwnd <= ssthresh + MSS as u32,
        "{info:?}"
    );
    stream.abort();
}
