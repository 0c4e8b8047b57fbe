//! Options on every segment: offers and answers, and the room that they take of a segment.

use crate::common::*;
use sim::{PortConfig, Segment};
use wire::{SeqNum, TcpOptions};

#[test]
fn a_syn_offers_everything_and_a_syn_ack_what_was_offered() {
    // RFC 7323 2.2 and 3.2, RFC 2018 2: breaks when an option is not offered, or answered without an offer.
    let mut b = Bench::new();
    let stream = b.connect();
    let syn = b.one();
    let offered = syn.options;
    assert_eq!((offered.mss, offered.window_scale), (Some(1460), Some(5)));
    assert!(offered.sack_permitted);
    assert_eq!(offered.timestamps.expect("offered").1, 0, "nothing to echo");
    stream.abort();
    drop(stream);

    let _listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    for n in 0..8_u16 {
        let options = TcpOptions {
            mss: Some(1000),
            window_scale: (n & 1 > 0).then_some(3),
            sack_permitted: n & 2 > 0,
            timestamps: (n & 4 > 0).then_some((4711, 0)),
            ..TcpOptions::default()
        };
        let hand = Hand::from_port(5000 + n);
        let syn = Segment {
            options,
            ..hand.segment(SYN)
        };
        b.run(ms(0));
        b.seen();
        b.say(&syn);
        let answer = b.one().options;
        assert_eq!(answer.mss, Some(1460));
        assert_eq!(
            answer.window_scale.is_some(),
            options.window_scale.is_some()
        );
        assert_eq!(answer.sack_permitted, options.sack_permitted);
        let echoed = answer.timestamps.map(|(_, echo)| echo);
        assert_eq!(echoed, options.timestamps.map(|(value, _)| value));
    }
}

#[test]
fn what_is_switched_off_is_neither_offered_nor_answered() {
    // Breaks when a stack that is configured without an option uses it.
    let mut b = Bench::tuned(|c| (c.tcp.sack, c.tcp.timestamps) = (false, false));
    let stream = b.connect();
    let offered = b.one().options;
    assert!(!offered.sack_permitted && offered.timestamps.is_none());
    stream.abort();
    drop(stream);
    let (mut hand, stream) = b.passive_with(Some(7), true);
    assert_eq!(hand.ts, None);
    let _lost = hand.data(b"lost");
    b.say(&hand.data(b"early"));
    let answer = b.one().options;
    assert!(answer.sack.is_empty() && answer.timestamps.is_none());
    stream.abort();
}

#[test]
fn each_segment_has_timestamps_and_is_a_full_frame() {
    // RFC 7323 3.2, RFC 6691 2: breaks when a segment goes without timestamps, or when data does not leave room for
    // them: the segment would be fragmented, or shorter than the path allows. Devices that cut and those that do not.
    for port in [
        PortConfig::plain(link_mtu()),
        PortConfig::offloading(link_mtu()),
    ] {
        let mut b = Bench::with(&port, |_| {});
        let (mut hand, stream) = b.passive_with(Some(9), true);
        assert_eq!(stream.info().mss, 1448);
        let data = bytes(5 * 1448 + 10);
        stream.set_nodelay(true);
        stream.send(&data).expect("room");
        b.shut(&stream);
        let seen = b.seen();
        let got: Vec<u8> = seen.iter().flat_map(|s| s.data.clone()).collect();
        assert_eq!(got, data);
        for (n, segment) in seen.iter().enumerate() {
            let (_, echo) = segment.options.timestamps.expect("each has them");
            assert_eq!(echo, 9);
            assert!(n >= 5 || segment.data.len() == 1448, "{segment}");
        }
        assert!(seen.last().expect("there are six").has(FIN));
        hand.rcv = seen.last().expect("six").end();
        b.say(&hand.fin());
        assert!(
            b.one().options.timestamps.is_some(),
            "the last acknowledgement"
        );
    }
}

#[test]
fn blocks_go_where_data_leaves_room() {
    // RFC 6691 2, RFC 2018 4: breaks when data and SACK blocks together are longer than a frame, when blocks make a
    // full segment shorter, or when a segment with room has none.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(Some(9), true);
    stream.set_nodelay(true);
    let _lost = hand.data(&bytes(100));
    for _ in 0..3 {
        let early = hand.data(&bytes(100));
        let _lost = hand.data(&bytes(100));
        b.say(&early);
    }
    assert_eq!(b.seen().len(), 3);
    for len in [1448, 1436] {
        b.send(&stream, &bytes(len));
    }
    let seen = b.seen();
    let lens: Vec<_> = seen.iter().map(|s| s.data.len()).collect();
    let blocks: Vec<_> = seen.iter().map(|s| s.options.sack.len()).collect();
    assert_eq!((lens, blocks), (vec![1448, 1436], vec![0, 1]));
    stream.abort();
}

#[test]
fn options_that_are_wrong_are_passed_over() {
    // RFC 9293 3.2 (MUST-7): breaks when an option of length 0 or 1, or one that ends behind the header, stops the
    // stack or has the segment dropped.
    let wrong: [&[u8]; 6] = [
        &[254, 0, 0, 0],
        &[254, 1, 1, 0],
        &[8, 40, 0, 0],
        &[5, 3, 9, 0],
        &[5, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0],
        &[8, 2, 2, 2],
    ];
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive_with(None, true);
    for options in wrong {
        let data = Segment {
            raw_options: options.to_vec(),
            ..hand.data(b"x")
        };
        b.say(&data);
        assert_eq!(read(&stream), b"x", "{options:?}");
    }
}

#[test]
fn a_syn_that_goes_again_has_the_time_of_its_sending() {
    // RFC 7323 4.1: breaks when a repeated SYN has the clock of the first: its echo would count the timeout to the
    // round trip.
    let mut b = Bench::new();
    let stream = b.connect();
    let first = b.one();
    b.run(ms(1000));
    let second = b.one();
    let value = |s: &Segment| s.options.timestamps.expect("offered").0;
    assert_eq!(value(&second).wrapping_sub(value(&first)), 1000);
    assert_ne!(first.seq, SeqNum(0));
    stream.abort();
}

#[test]
fn options_are_read_as_they_were_set() {
    // Breaks if a program that changes an option for a while can't restore it.
    let mut b = Bench::new();
    let (_, stream) = b.active();
    let read = || (stream.nodelay(), stream.keepalive());
    assert_eq!(read(), (false, None));
    for (on, idle) in [(true, Some(secs(60))), (false, None)] {
        stream.set_nodelay(on);
        stream.set_keepalive(idle);
        assert_eq!(read(), (on, idle));
    }
    stream.abort();
}
