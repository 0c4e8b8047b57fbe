//! A pool at its limit: segments that let the stack and its peers free memory are still sent.

use mbuf::{Packet, PoolConfig};
use mbuma::DropReason;

use crate::common::*;

/// A stack with few mbufs. The buffers that each test takes first must fit.
fn bench() -> Bench {
    Bench::tuned(|config| {
        config.pool = PoolConfig {
            mbufs_max: 200,
            cluster_bytes_max: 1 << 20,
        }
    })
}

/// Takes all mbufs but `left` that any packet may have.
fn exhaust(b: &Bench, left: usize) -> Vec<Packet> {
    let pool = b.stack().pool().clone();
    let mut held: Vec<_> = std::iter::from_fn(|| Packet::new(&pool).ok()).collect();
    assert!(held.len() > left, "too few");
    held.truncate(held.len() - left);
    held
}

fn lost(b: &Bench) -> u64 {
    let dropped = b.stack().stats().dropped;
    let lost = dropped.iter().find(|(r, _)| *r == DropReason::NoBufs);
    lost.map_or(0, |(_, n)| *n)
}

#[test]
fn acknowledgements_come_from_the_reserve() {
    // Breaks when a stack without free mbufs leaves data unacknowledged that it has, so that the peer must keep it and
    // send it again.
    let mut b = bench();
    let (mut hand, stream) = b.passive();
    let held = exhaust(&b, 1);
    b.say(&hand.data(b"in the last one"));
    assert!(
        Packet::new(b.stack().pool()).is_err(),
        "it was not the last"
    );
    b.run(ms(500));
    assert_eq!((b.one().ack, lost(&b)), (hand.snd, 0));
    assert_eq!(read(&stream), b"in the last one");
    drop(held);
    drop(stream);
    b.say(&hand.segment(RST));
    b.seen();
}

#[test]
fn windows_open_from_the_reserve() {
    // Breaks when a peer that waits for a window is not told that there is one, because no mbuf is free.
    let mut b = bench();
    let (mut hand, stream) = b.passive();
    stream.set_buffers(4096, 4096);
    // Until the window that was offered first is used up.
    let closed = (0..200).any(|_| {
        b.say(&hand.data(&bytes(1000)));
        b.run(ms(500));
        b.seen().last().is_some_and(|ack| ack.window < 1000)
    });
    assert!(closed);
    let held = exhaust(&b, 0);
    // Data that was read stays in its mbufs.
    let data = stream.recv_chain(usize::MAX).expect("there is some");
    b.run(ms(0));
    let update = b.one();
    assert_eq!((update.ack, update.data.len()), (hand.snd, 0));
    assert!(update.window >= 1000, "{update}");
    drop((held, data));
    stream.abort();
    b.run(ms(0));
    b.seen();
}

#[test]
fn resets_come_from_the_reserve() {
    // Breaks when the peer of a connection that was ended to free memory gets no reset, and sends on.
    let mut b = bench();
    let (hand, stream) = b.passive();
    let _held = exhaust(&b, 0);
    stream.abort();
    b.run(ms(0));
    let reset = b.one();
    assert_eq!((reset.flags & RST, reset.seq), (RST, hand.rcv));
}

#[test]
fn new_connections_do_not_use_the_reserve() {
    // Breaks when connections that are opened while memory is short take the mbufs that existing connections need.
    let mut b = bench();
    let held = exhaust(&b, 0);
    let _stream = b.connect();
    b.nothing();
    drop(held);
    b.run(secs(2));
    assert_eq!(b.one().flags, SYN);
}
