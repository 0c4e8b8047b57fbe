//! Orphans: connections that no program holds, with data that the peer has not taken (RFC 6429).

use std::net::SocketAddr;

use mbuf::PoolConfig;

use crate::common::*;

const BUFFER: usize = 128 << 10;

/// A stack with small send buffers, and at most so many orphans.
fn bench(orphans_max: usize, cluster_bytes_max: usize, send_buffer: usize) -> Bench {
    Bench::tuned(|config| {
        config.tcp.orphans_max = orphans_max;
        config.tcp.send_buffer = send_buffer;
        config.pool = PoolConfig {
            cluster_bytes_max,
            ..PoolConfig::default()
        };
    })
}

/// Makes `count` orphans, each with a full send buffer, whose peers take nothing; and the peers that were reset
/// meanwhile.
fn abandon(b: &mut Bench, count: u16) -> (Vec<Hand>, Vec<SocketAddr>) {
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    let mut reset = Vec::new();
    let hands = (0..count).map(|n| {
        let hand = b.dial(5000 + n, with_mss());
        let stream = listener.accept().expect("the handshake is complete");
        // As many as it takes.
        stream.send(&bytes(BUFFER)).expect("room");
        drop(stream);
        b.run(ms(1));
        reset.extend(b.seen().iter().filter(|s| s.has(RST)).map(|s| s.dst));
        hand
    });
    let hands = hands.collect();
    drop(listener);
    (hands, reset)
}

#[test]
fn the_oldest_orphan_makes_room() {
    // Breaks when a peer that takes nothing keeps any number of connections without a program, or has the newest ones
    // reset, which honest peers still take.
    let mut b = bench(4, 64 << 20, BUFFER);
    let (hands, reset) = abandon(&mut b, 10);
    let stats = b.stack().stats().tcp;
    assert_eq!((stats.connections, stats.orphans_reset), (4, 6));
    let oldest: Vec<_> = hands[..6].iter().map(|hand| hand.them).collect();
    assert_eq!(reset, oldest);
}

#[test]
fn orphans_leave_a_quarter_of_the_buffers() {
    // Breaks when peers that take nothing hold all buffers by connections without a program: then no packet can be
    // received.
    const CLUSTERS: usize = 8 << 20;
    const SMALL: usize = 16 << 10;
    let mut b = bench(1 << 15, CLUSTERS, SMALL);
    abandon(&mut b, 600);
    let stats = b.stack().stats().tcp;
    assert!(
        stats.orphans_reset > 0 && stats.connections > 16,
        "{stats:?}"
    );
    let left = b.stack().pool().headroom().left;
    // The pool is asked for one in sixteen.
    assert!(left + 17 * SMALL >= CLUSTERS / 4, "{left}");
}

/// How long an orphan lives whose peer takes `bytes` each time, and has room for as many; and whether it was given up.
fn lives(every: u64, bytes: u16) -> (u64, bool) {
    let mut b = bench(16, 64 << 20, BUFFER);
    let mut hand = abandon(&mut b, 1).0[0];
    let (start, mut sent) = (b.net.now(), hand.rcv);
    // That of before.
    sent += 10 * MSS as u32;
    hand.window = bytes;
    while b.stack().stats().tcp.connections > 0 {
        b.run(secs(every));
        for segment in b.seen() {
            sent = sent.max(segment.end());
        }
        hand.rcv += sent.since(hand.rcv).min(bytes.into());
        b.say(&hand.segment(ACK));
        assert!(b.net.now() < start + secs(20_000), "it lives on");
    }
    let given_up = b.stack().stats().tcp.timed_out == 1;
    let lived = (b.net.now() - start).as_secs();
    b.seen();
    drop(b);
    (lived, given_up)
}

#[test]
fn an_orphan_lives_while_half_of_its_data_is_taken_in_nine_minutes() {
    // RFC 6429 3: breaks when a peer that acknowledges a little each minute, with its window open, keeps a connection
    // and its data for as long as it likes; or when one that is only slow does not get all.
    let (lived, given_up) = lives(60, 100);
    assert!(given_up && (540..=600).contains(&lived), "{lived} s");
    let (lived, given_up) = lives(10, MSS as u16);
    assert!(!given_up && lived > 800, "{lived} s");
}
