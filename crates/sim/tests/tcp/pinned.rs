//! The memory that received data pins, in the worst case: the peer sends a byte a segment, each in a cluster of its
//! own.

use crate::common::*;
use mbuf::{MSIZE, PINNED_PER_BYTE_MAX};
use mbuma::socket::TcpInfo;

const BYTES: usize = 1000;

/// The memory that `shown` bytes out of `packets` may pin.
fn bound(shown: usize, packets: usize) -> usize {
    PINNED_PER_BYTE_MAX * shown + MSIZE * packets
}

fn check(info: &TcpInfo, packets: usize) {
    assert!(
        info.recv_pinned <= bound(info.recv_queue, packets)
            && info.reass_pinned <= bound(info.reass_queue, packets),
        "{info:?} after {packets} packets"
    );
}

#[test]
fn single_bytes_in_order_pin_little() {
    // Breaks if the receive buffer keeps each byte's cluster: two thousand times what it shows.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        for n in 0..BYTES {
            b.say(&hand.data(&[n as u8]));
            // As good as the bound for a single packet: the bytes share mbufs.
            check(&stream.info(), 1);
        }
        let info = stream.info();
        assert_eq!((info.recv_queue, info.reass_queue), (BYTES, 0));
        assert!(info.recv_pinned < 2 * BYTES, "{info:?}");
        let want: Vec<u8> = (0..BYTES).map(|n| n as u8).collect();
        assert_eq!(read(&stream), want);
        assert_eq!(stream.info().recv_pinned, 0);
    });
}

#[test]
fn single_bytes_behind_a_gap_pin_little() {
    // Breaks if what waits for the gap keeps clusters, or gets them back when it is filled.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        let first = hand.data(&[0]);
        for n in 1..BYTES {
            b.say(&hand.data(&[n as u8]));
            check(&stream.info(), 1);
        }
        let info = stream.info();
        assert_eq!((info.recv_queue, info.reass_queue), (0, BYTES - 1));
        b.say(&first);
        let info = stream.info();
        assert_eq!((info.recv_queue, info.reass_queue), (BYTES, 0));
        check(&info, 2);
        let want: Vec<u8> = (0..BYTES).map(|n| n as u8).collect();
        assert_eq!(read(&stream), want);
    });
}

#[test]
fn single_bytes_between_gaps_pin_an_mbuf_each() {
    // Breaks if a range keeps its cluster because there is no room behind another to go to; or if
    // joining ranges counts memory twice, or not at all.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        let all: Vec<_> = (0..400).map(|n| hand.data(&[n as u8])).collect();
        let (even, odd): (Vec<_>, Vec<_>) =
            all.into_iter().enumerate().partition(|(n, _)| n % 2 == 0);
        for (packets, (_, segment)) in odd.iter().enumerate() {
            b.say(segment);
            check(&stream.info(), packets + 1);
        }
        let info = stream.info();
        assert_eq!((info.recv_queue, info.reass_queue), (0, 200));
        // Last to first: each joins the range behind it, none the one before.
        for (packets, (_, segment)) in even.iter().rev().enumerate() {
            b.say(segment);
            check(&stream.info(), 200 + packets + 1);
        }
        let want: Vec<u8> = (0..400).map(|n| n as u8).collect();
        assert_eq!(read(&stream), want);
        let info = stream.info();
        assert_eq!((info.recv_pinned, info.reass_pinned), (0, 0));
    });
}

#[test]
fn segments_that_fill_their_clusters_are_not_copied() {
    // Breaks if bulk data is copied between the device and the reader.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    let copied = b.stack().pool().stats().bytes_copied;
    let sent = bytes(20 * MSS);
    for piece in sent.chunks(MSS) {
        b.say(&hand.data(piece));
    }
    assert_eq!(b.stack().pool().stats().bytes_copied, copied);
    assert_eq!(read(&stream), sent);
}
