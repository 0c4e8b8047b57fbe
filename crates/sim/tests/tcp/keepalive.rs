//! Keepalive probes of an idle peer.

use crate::common::*;
use mbuma::{SocketError, State};

#[test]
fn an_idle_peer_is_asked_and_its_answer_is_believed() {
    // RFC 1122 4.2.3.6: breaks when probes come at the wrong time, can't be answered, or kill a
    // connection whose peer answers.
    each_shape(|mut b| {
        let (hand, stream) = b.active();
        let start = b.net.now();
        stream.set_keepalive(Some(secs(60)));
        for minute in 1..=5_u64 {
            b.run(secs(60));
            let probe = b.one();
            assert_eq!(
                times_ms(std::slice::from_ref(&probe), start),
                [60_000 * minute]
            );
            assert_eq!((probe.seq, probe.data.len()), (hand.rcv - 1, 0));
            b.say(&hand.segment(ACK));
        }
        assert_eq!(stream.state(), State::Established);
        stream.abort();
    });
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    // Breaks when a connection to a host that was switched off lives for ever.
    let mut b = Bench::new();
    let (_, stream) = b.active();
    let start = b.net.now();
    stream.set_keepalive(Some(secs(60)));
    b.run(secs(60 + 8 * 75 + 1));
    let seen = b.seen();
    let probes: Vec<_> = seen.iter().filter(|s| !s.has(RST)).cloned().collect();
    let want: Vec<_> = (0..8).map(|i| 60_000 + i * 75_000).collect();
    assert_eq!(times_ms(&probes, start), want);
    assert_eq!(stream.error(), Some(SocketError::TimedOut));
}

#[test]
fn a_peer_that_is_gone_is_noticed_although_others_forge_its_address() {
    // Breaks when segments of a sender that knows the addresses but not the sequence numbers count as the peer's.
    let mut b = Bench::new();
    let (hand, stream) = b.active();
    stream.set_keepalive(Some(secs(60)));
    let start = b.net.now();
    let mut guess = 0u32;
    while stream.error().is_none() && b.net.now() < start + secs(3600) {
        b.run(secs(10));
        b.seen();
        guess = guess.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let blind = hand.segment([ACK, RST, ACK | PSH][guess as usize % 3]);
        b.say(&sim::Segment {
            seq: hand.snd + (guess | 1 << 20),
            ack: hand.rcv + (guess.rotate_left(16) | 1 << 20),
            ..blind
        });
        b.seen();
    }
    assert_eq!(stream.error(), Some(SocketError::TimedOut));
    assert!(b.net.now() <= start + secs(60 + 8 * 75 + 10));
}

#[test]
fn traffic_puts_the_question_off() {
    // Breaks when a busy connection is probed.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.set_keepalive(Some(secs(60)));
    for _ in 0..10 {
        b.run(secs(50));
        b.say(&hand.data(b"alive"));
        b.run(ms(50));
        assert_eq!(b.one().seq, hand.rcv, "an acknowledgement, not a probe");
    }
    assert_eq!(b.stack().stats().tcp.keepalive_probes, 0);
    stream.abort();
}

#[test]
fn our_answer_to_a_probe_says_where_we_are() {
    // RFC 1122 4.2.3.6: breaks when a peer that asks hears nothing.
    each_shape(|mut b| {
        let (hand, stream) = b.passive();
        let probe = sim::Segment {
            seq: hand.snd - 1,
            ..hand.segment(ACK)
        };
        b.say(&probe);
        let answer = b.one();
        assert_eq!(
            (answer.flags, answer.seq, answer.ack),
            (ACK, hand.rcv, hand.snd)
        );
        b.say(&sim::Segment {
            data: vec![0],
            ..probe
        });
        assert_eq!(b.one().ack, hand.snd, "some send a byte with it");
        stream.abort();
    });
}
