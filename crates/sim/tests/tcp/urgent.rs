//! Urgent data (RFC 9293 3.8.5, RFC 6093).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};

use crate::common::*;
use mbuma::SocketError;
use sim::Segment;

fn urgent(segment: Segment, pointer: u16) -> Segment {
    Segment {
        flags: segment.flags | URG,
        urgent: pointer,
        ..segment
    }
}

#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn read_all(stream: &mbuma::TcpStream, max: usize) -> Vec<Vec<u8>> {
    let mut reads = Vec::new();
    while let Ok(chain) = stream.recv_chain(max) {
        reads.push(chain.to_vec());
        if chain.is_empty() {
            break;
        }
    }
    reads
}

#[test]
fn a_read_ends_where_urgent_data_ends() {
    // MUST-31, MUST-33: breaks when the end of urgent data of any length is lost in a read, or when the user can't
    // learn how far away it is.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        assert_eq!(stream.urgent_unread(), None);
        let data = urgent(hand.data(b"stop!rest"), 5);
        b.say(&data);
        assert_eq!(stream.urgent_unread(), Some(5));
        let mut buf = [0; 9];
        assert_eq!(stream.peek(&mut buf), Ok(5));
        assert_eq!(stream.recv(&mut buf[..2]), Ok(2));
        assert_eq!(stream.urgent_unread(), Some(3));
        assert_eq!(stream.recv(&mut buf), Ok(3));
        assert_eq!(stream.urgent_unread(), Some(0), "at the mark");
        assert_eq!(stream.recv(&mut buf), Ok(4));
        assert_eq!(stream.urgent_unread(), None);

        let long = bytes(2 * MSS);
        let first = urgent(hand.data(&long[..MSS]), 2 * MSS as u16 - 100);
        b.say(&first);
        assert_eq!(
            stream.urgent_unread(),
            Some(2 * MSS - 100),
            "ahead of what came"
        );
        let second = urgent(hand.data(&long[MSS..]), MSS as u16 - 100);
        b.say(&second);
        let reads = read_all(&stream, 1 << 20);
        let lens: Vec<_> = reads.iter().map(Vec::len).collect();
        assert_eq!((lens, reads.concat()), (vec![2 * MSS - 100, 100], long));
    });
}

#[test]
fn the_user_hears_of_urgent_data_ahead_of_it() {
    // MUST-32: breaks when a pointer that moves on calls no callback, or an old pointer does; or when a late segment
    // moves the end back.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    let calls = Arc::new(Calls::default());
    stream.set_waker(Some(Waker::from(Arc::clone(&calls))));
    let called = || calls.0.swap(0, SeqCst);
    called();
    b.say(&urgent(hand.segment(ACK), 1000));
    assert_eq!(
        (called(), stream.urgent_unread()),
        (1, Some(1000)),
        "without data"
    );
    stream.set_waker(Some(Waker::from(Arc::clone(&calls))));
    b.say(&urgent(hand.segment(ACK), 700));
    assert_eq!((called(), stream.urgent_unread()), (0, Some(1000)));
    b.say(&urgent(hand.segment(ACK), 1200));
    assert_eq!((called(), stream.urgent_unread()), (1, Some(1200)));
    let data = hand.data(&bytes(1300));
    b.say(&data);
    assert_eq!(read_all(&stream, 4000).len(), 2);
    assert_eq!(stream.urgent_unread(), None);
    // Repeated data has the old pointer, and what says 0 says nothing.
    b.say(&urgent(data, 1200));
    b.say(&urgent(hand.segment(ACK), 0));
    assert_eq!(stream.urgent_unread(), None);
    // The end is never behind the FIN, whatever the pointer says.
    let fin = urgent(hand.segment(ACK | FIN), 50);
    b.say(&fin);
    assert_eq!(stream.recv(&mut [0; 4]), Ok(0));
}

#[test]
fn segments_point_behind_the_last_urgent_byte() {
    // MUST-30, MUST-62: breaks when a pointer is off by one, is missing in a repetition, stays when all is
    // acknowledged, or is that of another segment because a device has cut one.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        stream.set_nodelay(true);
        b.send(&stream, b"usual");
        assert!(!b.one().has(URG));
        assert_eq!(stream.send_urgent(&bytes(3 * MSS)), Ok(3 * MSS));
        b.send(&stream, b"behind");
        b.run(ms(250));
        hand.rcv += 5;
        let end = hand.rcv + 3 * MSS as u32;
        let seen = b.seen();
        assert!(seen.len() > 3, "and a repetition");
        for segment in seen {
            let ahead = segment.seq.before(end);
            assert_eq!(segment.has(URG), ahead, "{segment}");
            let pointer = if ahead { end.since(segment.seq) } else { 0 };
            assert_eq!(u32::from(segment.urgent), pointer, "{segment}");
        }
        hand.rcv = end + 6;
        b.say(&hand.segment(ACK));
        b.run(secs(1));
        b.seen();
        b.send(&stream, b"usual");
        assert!(!b.one().has(URG));
        stream.abort();
    });
}

#[test]
fn a_closed_window_does_not_hold_back_the_news() {
    // RFC 9293 3.8.5: breaks when the peer learns of urgent data only when it reads, which it may do because of the
    // urgent data.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    hand.window = 0;
    b.say(&hand.segment(ACK));
    b.seen();
    assert_eq!(stream.send_urgent(b"!"), Ok(1));
    b.run(ms(0));
    let news = b.one();
    assert!(news.has(URG) && news.data.is_empty(), "{news}");
    assert_eq!(news.seq + u32::from(news.urgent), hand.rcv + 1);
    b.run(secs(10));
    let probes = b.seen();
    assert!(!probes.is_empty());
    for probe in probes {
        assert!(probe.has(URG) && probe.urgent == 1, "{probe}");
    }
    hand.window = 1000;
    b.say(&hand.segment(ACK));
    assert_eq!(b.seen().pop().expect("data").data, b"!");
    stream.abort();
    assert_eq!(stream.send_urgent(b"!"), Err(SocketError::Closed));
}

#[test]
fn an_end_far_away_is_as_far_as_the_field_can_say() {
    // Breaks when a distance of more than 16 bits wraps around, and points into the middle.
    let mut b = Bench::tuned(|c| c.tcp.send_buffer = 1 << 20);
    let (mut hand, stream) = b.active();
    assert_eq!(stream.send_urgent(&bytes(200_000)), Ok(200_000));
    b.run(ms(0));
    let end = hand.rcv + 200_000;
    let mut got = 0;
    while got < 200_000 {
        for segment in b.seen() {
            let ahead = end.since(segment.seq).min(65_535);
            assert_eq!(u32::from(segment.urgent), ahead, "{segment}");
            got += segment.data.len();
            hand.rcv = segment.end();
        }
        b.say(&hand.segment(ACK));
    }
    stream.abort();
}

#[test]
fn a_reader_that_closes_knows_no_urgent_data() {
    // Breaks when the end of urgent data outlives the bytes before it: they are dropped, and the distance wraps
    // around.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    let first = urgent(hand.data(b"stop"), 8);
    b.say(&first);
    assert_eq!(stream.urgent_unread(), Some(8));
    stream.shutdown(std::net::Shutdown::Read);
    assert_eq!(stream.urgent_unread(), None);
    let rest = urgent(hand.data(&bytes(100)), 4);
    b.say(&rest);
    assert_eq!(stream.urgent_unread(), None);
}

#[test]
fn urgent_data_ends_at_the_latest_with_the_stream() {
    // Breaks when a pointer beyond the FIN makes the user wait for bytes that can't come, whichever of the two is
    // first.
    for fin_first in [false, true] {
        let mut b = Bench::new();
        let (mut hand, stream) = b.passive();
        let data = hand.data(b"last");
        let fin = hand.segment(ACK | FIN);
        if fin_first {
            b.say(&urgent(fin, 50));
            b.say(&data);
        } else {
            b.say(&urgent(data, 50));
            b.say(&fin);
        }
        assert_eq!(stream.urgent_unread(), Some(4), "{fin_first}");
        assert_eq!(stream.recv(&mut [0; 9]), Ok(4));
        assert_eq!(stream.urgent_unread(), Some(0), "{fin_first}");
        assert_eq!(stream.recv(&mut [0; 9]), Ok(0));
    }
}

#[test]
fn the_last_urgent_byte_does_not_wait_for_an_acknowledgement() {
    // Breaks when Nagle's algorithm holds back the end of urgent data that is longer than a segment; or when all
    // small segments go at once, where only urgent ones may.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        assert_eq!(stream.send_urgent(&bytes(MSS + 1)), Ok(MSS + 1));
        b.run(ms(0));
        let end = hand.rcv + MSS as u32 + 1;
        assert_eq!(b.seen().pop().expect("both").end(), end);
        b.send(&stream, b"usual");
        b.nothing();
        hand.rcv = end;
        b.say(&hand.segment(ACK));
        assert_eq!(b.one().data, b"usual");
        stream.abort();
    });
}

#[test]
fn urgent_data_is_heard_of_while_the_window_is_closed() {
    // MUST-66: breaks when a segment that the closed window has no room for takes its urgent pointer along.
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 4 * MSS);
    let (mut hand, stream) = b.passive();
    let mut room = 4 * MSS;
    while room > 0 {
        let data = hand.data(&bytes(room.min(MSS)));
        room -= data.data.len();
        b.say(&data);
    }
    b.run(ms(250));
    assert_eq!(b.seen().pop().expect("an answer").window, 0);
    let probe = urgent(hand.data(b"!"), 1);
    b.say(&probe);
    assert_eq!(stream.info().recv_queue, 4 * MSS, "no room for it");
    assert_eq!(stream.urgent_unread(), Some(4 * MSS + 1));
    stream.abort();
}
