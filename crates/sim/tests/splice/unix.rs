//! Splices with a stream of a UNIX-domain socket at one side or at both.
//!
//! ```text
//!   writer ----> source == splice == sink ----> reader      each arrow is a UNIX-domain pair or a TCP connection
//! ```

use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::Duration;

use mbuf::{Chain as Mbufs, Live};
use mbuma::socket::{Splice, SpliceEnd, SpliceEndpoint, SpliceError, SpliceOptions, relay, splice};
use mbuma::unix::{Message, UnixError};
use mbuma::{SocketError, TcpStream, UnixStream};

use super::{Bench, CLIENT, Calls, PLAIN, PROXY, SECOND_PROXY, SERVER, outcome, pattern};

/// A stream of either kind.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}
use Stream::{Tcp, Unix};

/// The ends of both connections, in the order in which data goes.
struct Row {
    writer: Stream,
    source: Stream,
    sink: Stream,
    reader: Stream,
}

/// Which of the two connections are UNIX-domain pairs.
const KINDS: [[bool; 2]; 3] = [[true, true], [true, false], [false, true]];

impl Stream {
    /// How many bytes it took: 0 if it would have to wait.
    fn send(&self, bytes: &[u8]) -> usize {
        match self {
            Tcp(tcp) => tcp.send(bytes).unwrap_or(0),
            Unix(unix) => unix.send(bytes).unwrap_or(0),
        }
    }

    /// How many bytes a read gives. `None` if it gives none.
    fn recv(&self, buf: &mut [u8]) -> Option<usize> {
        match self {
            Tcp(tcp) => tcp.recv(buf).ok(),
            Unix(unix) => unix.recv(buf).ok(),
        }
    }

    /// All that can be read now. `None` at the end.
    fn read(&self) -> Option<Vec<u8>> {
        let (mut all, mut buf) = (Vec::new(), [0; 4096]);
        loop {
            match self.recv(&mut buf) {
                Some(0) if all.is_empty() => return None,
                Some(n @ 1..) => all.extend_from_slice(&buf[..n]),
                Some(_) | None => return Some(all),
            }
        }
    }

    /// Whether a read reports that the peer reset the stream.
    fn is_reset(&self) -> bool {
        match self {
            Tcp(tcp) => tcp.error() == Some(SocketError::Reset),
            Unix(unix) => unix.recv(&mut [0; 1]) == Err(UnixError::Reset),
        }
    }

    fn shutdown(&self, how: Shutdown) {
        match self {
            Tcp(tcp) => tcp.shutdown(how),
            Unix(unix) => unix.shutdown(how),
        }
    }

    fn set_waker(&self, waker: Waker) {
        match self {
            Tcp(tcp) => tcp.set_waker(Some(waker)),
            Unix(unix) => unix.set_waker(Some(waker)),
        }
    }

    fn endpoint(&self) -> SpliceEndpoint<'_> {
        match self {
            Tcp(tcp) => tcp.into(),
            Unix(unix) => unix.into(),
        }
    }
}

impl<'a> From<&'a Stream> for SpliceEndpoint<'a> {
    fn from(stream: &'a Stream) -> Self {
        stream.endpoint()
    }
}

impl Row {
    fn new(b: &mut Bench, unix: [bool; 2]) -> Self {
        let (writer, source) = match unix[0] {
            true => unix_pair(b, PROXY),
            false => tcp_pair(b.connect(CLIENT, PROXY)),
        };
        let (sink, reader) = match unix[1] {
            true => unix_pair(b, PROXY),
            false => tcp_pair(b.connect(PROXY, SERVER)),
        };
        Self {
            writer,
            source,
            sink,
            reader,
        }
    }

    fn splice(&self, options: SpliceOptions) -> Splice {
        let made = splice(self.source.endpoint(), self.sink.endpoint(), options);
        made.expect("both are free")
    }

    /// Writes all of `bytes` and reads as many.
    fn transfer(&self, b: &mut Bench, bytes: &[u8]) -> Vec<u8> {
        let (mut sent, mut received) = (0, Vec::new());
        for _ in 0..20_000 {
            sent += self.writer.send(&bytes[sent..]);
            received.extend(self.reader.read().unwrap_or_default());
            if received.len() == bytes.len() {
                break;
            }
            b.run(2);
        }
        received
    }
}

/// Runs a test for each of the kinds, on wires without losses. The captured output names the kind that fails.
fn on_each_kind(mut test: impl FnMut(&mut Bench, Row)) {
    for kind in KINDS {
        println!("UNIX-domain pairs: {kind:?}");
        let mut b = Bench::new(1, 0.0);
        let row = Row::new(&mut b, kind);
        test(&mut b, row);
    }
}

fn tcp_pair((one, other): (TcpStream, TcpStream)) -> (Stream, Stream) {
    (Tcp(one), Tcp(other))
}

fn unix_pair(b: &Bench, node: usize) -> (Stream, Stream) {
    let (one, other) = b.net.at(b.nodes[node]).unix().pair();
    (Unix(one), Unix(other))
}

#[test]
fn every_byte_is_moved_and_no_program_is_woken_for_it() {
    // Breaks when a byte is lost or comes out of order between buffers of different kinds, or each write wakes the
    // program.
    on_each_kind(|b, row| {
        let calls = Arc::new(Calls::default());
        row.source.set_waker(Waker::from(Arc::clone(&calls)));
        row.sink.set_waker(Waker::from(Arc::clone(&calls)));
        let splice = row.splice(PLAIN);
        let sent = pattern(700_001);
        assert!(row.transfer(b, &sent) == sent);
        assert_eq!(calls.0.load(Relaxed), 0);
        row.writer.shutdown(Shutdown::Write);
        b.run(20);
        assert_eq!(outcome(&splice), (700_001, SpliceEnd::Eof));
        assert_eq!(row.reader.read(), None, "the end is passed on");
        assert!(calls.0.load(Relaxed) >= 2, "both learn of the end");
    });
}

#[test]
fn the_maximum_is_exact_and_earlier_bytes_count() {
    // Breaks when a splice waits for news although data is there, moves more than its maximum, or keeps the rest.
    for max in [0, 1, 1000] {
        on_each_kind(|b, row| {
            let sent = pattern(max as usize + 500);
            assert_eq!(row.writer.send(&sent), sent.len());
            b.run(20);
            let splice = row.splice(SpliceOptions {
                max: Some(max),
                ..PLAIN
            });
            b.run(20);
            assert_eq!(outcome(&splice), (max, SpliceEnd::Max));
            let (moved, rest) = sent.split_at(max as usize);
            assert_eq!(row.reader.read().as_deref(), Some(moved));
            assert_eq!(row.source.read().as_deref(), Some(rest));
        });
    }
}

#[test]
fn the_idle_time_begins_anew_at_each_move() {
    // Breaks when no timer covers a splice whose sink is no TCP connection, or the idle time is a lifetime.
    on_each_kind(|b, row| {
        let splice = row.splice(SpliceOptions {
            idle: Some(Duration::from_millis(500)),
            ..PLAIN
        });
        for _ in 0..3 {
            b.run(400);
            assert_eq!(row.writer.send(b"x"), 1);
        }
        b.run(400);
        assert_eq!((splice.moved(), splice.outcome()), (3, None));
        b.run(200);
        assert_eq!(outcome(&splice), (3, SpliceEnd::Idle));
    });
}

#[test]
fn a_reader_that_does_not_read_stops_the_writer() {
    // Breaks when a splice takes bytes that it can't send on, or does not go on when the reader of a full sink reads.
    on_each_kind(|b, row| {
        for stream in [&row.writer, &row.source, &row.sink, &row.reader] {
            if let Tcp(tcp) = stream {
                tcp.set_buffers(128 << 10, 128 << 10);
            }
        }
        let splice = row.splice(PLAIN);
        let sent = pattern(8 << 20);
        let mut accepted = 0;
        for _ in 0..1000 {
            accepted += row.writer.send(&sent[accepted..]);
            b.run(1);
        }
        assert!(accepted < 4 << 20, "{accepted} were accepted");
        // Nothing more is written: what is under way arrives by the reader's reads alone.
        let mut received = Vec::new();
        for _ in 0..10_000 {
            received.extend(row.reader.read().unwrap_or_default());
            if received.len() == accepted {
                break;
            }
            b.run(2);
        }
        assert!(received == sent[..accepted]);
        assert_eq!(splice.moved(), accepted as u64);
    });
}

#[test]
fn nothing_moves_after_stop() {
    // Breaks when a program reads or writes beside a splice, or a splice moves on after it was stopped.
    on_each_kind(|b, row| {
        let splice = row.splice(PLAIN);
        row.writer.send(b"before");
        b.run(10);
        assert_eq!(row.source.read().as_deref(), Some(&b""[..]));
        assert_eq!(row.sink.send(b"no"), 0);
        let stopped = splice.stop();
        assert_eq!((stopped.bytes, stopped.end), (6, SpliceEnd::Stopped));
        row.writer.send(b"after");
        b.run(10);
        assert_eq!(row.reader.read().as_deref(), Some(&b"before"[..]));
        assert_eq!(row.source.read().as_deref(), Some(&b"after"[..]));
        assert_eq!(row.sink.send(b"yes"), 3);
        b.run(10);
        assert_eq!(row.reader.read().as_deref(), Some(&b"yes"[..]));
    });
}

#[test]
fn the_program_keeps_the_end_unless_it_is_passed_on() {
    // Breaks when a splice of one request closes a connection that is to carry more.
    on_each_kind(|b, row| {
        let splice = row.splice(SpliceOptions {
            pass_end: false,
            ..PLAIN
        });
        row.writer.send(b"all");
        row.writer.shutdown(Shutdown::Write);
        b.run(20);
        assert_eq!(outcome(&splice), (3, SpliceEnd::Eof));
        assert_eq!(row.sink.send(b", and more"), 10);
        b.run(20);
        assert_eq!(row.reader.read().as_deref(), Some(&b"all, and more"[..]));
        assert_eq!(row.source.read(), None, "the end of file");
    });
}

#[test]
fn a_writer_that_breaks_off_is_passed_on_as_a_reset() {
    // Breaks when the reader takes a broken transfer for a whole one.
    on_each_kind(|b, row| {
        let splice = row.splice(PLAIN);
        row.writer.send(b"half");
        // Unread data at its end makes it a reset (RFC 2525 2.17; unix(7)).
        let Row {
            writer,
            source,
            reader,
            ..
        } = row;
        assert_eq!(source.send(b"unread"), 6);
        b.run(20);
        drop(writer);
        b.run(20);
        let end = SpliceEnd::Source(SocketError::Reset.into());
        assert_eq!(outcome(&splice), (4, end));
        // One read: a UNIX-domain socket says that it was reset once.
        let mut buf = [0; 9];
        assert_eq!(reader.recv(&mut buf), Some(4));
        assert!(reader.is_reset());
    });
}

#[test]
fn a_sink_that_fails_ends_the_splice() {
    // Breaks when data goes on to a reader that is gone, or is lost although it never left the source.
    on_each_kind(|b, row| {
        let splice = row.splice(PLAIN);
        let Row {
            writer,
            source,
            reader,
            ..
        } = row;
        if let Tcp(tcp) = &reader {
            tcp.abort();
        }
        drop(reader);
        b.run(20);
        let end = SpliceEnd::Sink(SocketError::Reset.into());
        assert_eq!(outcome(&splice), (0, end));
        writer.send(b"still there");
        b.run(20);
        assert_eq!(source.read().as_deref(), Some(&b"still there"[..]));
    });
}

#[test]
fn a_dropped_side_stops_the_splice() {
    // Breaks when a splice keeps a socket open that its program has dropped.
    on_each_kind(|b, row| {
        let splice = row.splice(PLAIN);
        drop(row.source);
        assert_eq!(outcome(&splice), (0, SpliceEnd::Stopped));
        assert_eq!(row.sink.send(b"mine again"), 10);
        b.run(20);
        assert_eq!(row.reader.read().as_deref(), Some(&b"mine again"[..]));
    });
}

#[test]
fn rights_end_the_splice_and_stay_for_the_program() {
    // Breaks when rights are lost on the way, arrive with other bytes, or later bytes overtake them.
    for kind in [[true, true], [true, false]] {
        let mut b = Bench::new(1, 0.0);
        let row = Row::new(&mut b, kind);
        let splice = row.splice(PLAIN);
        let stack = b.net.at(b.nodes[PROXY]);
        let bytes = Mbufs::from_slice(stack.pool(), b"with").expect("buffers");
        let (passed, _kept) = stack.unix().pair();
        let (Unix(writer), Unix(source)) = (&row.writer, &row.source) else {
            panic!("a UNIX-domain source");
        };
        writer.send(b"before").expect("room");
        let message = Message::new(bytes).with(passed);
        writer.send_with(message).expect("room");
        b.run(20);
        assert_eq!(outcome(&splice), (6, SpliceEnd::Rights));
        assert_eq!(row.reader.read().as_deref(), Some(&b"before"[..]));
        let received = source.recv_with(100).expect("it is there");
        let received = received.expect("it is not the end");
        assert_eq!(received.data.to_vec(), b"with");
        assert_eq!(received.rights.len(), 1);
    }
}

#[test]
fn a_relay_moves_both_ways() {
    // Breaks when one call does not join both directions of sockets of either kind, or an end is not passed on.
    for kind in KINDS {
        let mut b = Bench::new(1, 0.0);
        let Row {
            writer,
            source,
            sink,
            reader,
        } = Row::new(&mut b, kind);
        let relay = relay(source, sink, None).expect("both are free");
        for (from, to) in [(&writer, &reader), (&reader, &writer)] {
            assert_eq!(from.send(b"through"), 7);
            b.run(20);
            assert_eq!(to.read().as_deref(), Some(&b"through"[..]), "{kind:?}");
            from.shutdown(Shutdown::Write);
            b.run(20);
            assert_eq!(to.read(), None, "the end is passed on");
        }
        assert_eq!(relay.moved(), [7; 2]);
        let ends = relay.wait_blocking(Some(Duration::ZERO));
        let ends = ends.expect("both have ended").map(|o| o.end);
        assert_eq!(ends, [SpliceEnd::Eof; 2]);
        drop((relay, writer, reader));
        // A TCP connection that has ended waits once more.
        b.run(1000);
    }
}

#[test]
fn rights_end_a_relay_and_the_program_gets_them() {
    // Breaks when rights stop one direction of a relay for ever, or go down with its connections.
    let b = Bench::new(1, 0.0);
    let stack = b.net.at(b.nodes[PROXY]);
    for back in [false, true] {
        let (pair, other) = (stack.unix().pair(), stack.unix().pair());
        let relay = relay(pair.1, other.0, None).expect("both are free");
        let bytes = Mbufs::from_slice(stack.pool(), b"with").expect("buffers");
        let (passed, kept) = stack.unix().pair();
        let message = Message::new(bytes).with(passed);
        let writer = if back { &other.1 } else { &pair.0 };
        writer.send_with(message).expect("room");
        let ends = relay.wait_blocking(Some(Duration::ZERO));
        let mut ends = ends.expect("it has ended").map(|o| o.end);
        let (one, two) = relay.into_ends();
        let mut sides = [&one, &two];
        if back {
            ends.reverse();
            sides.reverse();
        }
        assert_eq!(ends, [SpliceEnd::Rights, SpliceEnd::Stopped]);
        let received = sides[0].recv_with(100).expect("it is there");
        let received = received.expect("it is not the end");
        assert_eq!(
            (received.data.to_vec(), received.rights.len()),
            (b"with".to_vec(), 1)
        );
        drop((received, one, two, pair.0, other.1, kept));
    }
}

#[test]
fn a_direction_is_spliced_once_and_again_later() {
    // Breaks when two splices take from one socket, each a part of the stream, or a place is not free again.
    on_each_kind(|b, row| {
        let there = row.splice(PLAIN);
        let again = splice(row.source.endpoint(), row.sink.endpoint(), PLAIN);
        assert_eq!(again.err(), Some(SpliceError::Busy));
        // A source whose sink is taken is free, and reports to its program.
        let other = Row::new(b, [true, true]);
        let busy = splice(other.source.endpoint(), row.sink.endpoint(), PLAIN);
        assert_eq!(busy.err(), Some(SpliceError::Busy));
        other.writer.send(b"to the program");
        assert_eq!(other.source.read().as_deref(), Some(&b"to the program"[..]));
        let back = splice(row.sink.endpoint(), row.source.endpoint(), PLAIN);
        drop((there, back.expect("the other direction is free")));
        let again = row.splice(PLAIN);
        assert_eq!(again.moved(), 0);
        row.writer.send(b"anew");
        b.run(20);
        assert_eq!(row.reader.read().as_deref(), Some(&b"anew"[..]));
    });
}

#[test]
fn a_loop_is_refused() {
    // Breaks when data goes round for ever: between the two ends of a pair, or over two pairs.
    let mut b = Bench::new(1, 0.0);
    let (one, other) = unix_pair(&b, PROXY);
    let both = splice(one.endpoint(), other.endpoint(), PLAIN);
    assert_eq!(both.err(), Some(SpliceError::Loop));
    let echo = splice(other.endpoint(), other.endpoint(), PLAIN).expect("its peer does not echo");
    let echo_of_echo = splice(one.endpoint(), one.endpoint(), PLAIN);
    assert_eq!(echo_of_echo.err(), Some(SpliceError::Loop));
    one.send(b"there and back");
    assert_eq!(one.read().as_deref(), Some(&b"there and back"[..]));
    drop(echo);
    // Over a TCP connection of the stack with itself, and back over the pair.
    let (tcp, its_peer) = tcp_pair(b.connect(PROXY, PROXY));
    let _out = splice(other.endpoint(), tcp.endpoint(), PLAIN).expect("it leads away");
    let back = splice(its_peer.endpoint(), one.endpoint(), PLAIN);
    assert_eq!(back.err(), Some(SpliceError::Loop));
}

#[test]
fn a_row_of_splices_needs_no_deep_stack() {
    // Breaks when each splice of a row gives the next one its turn by a call inside of its own, in one stack or between
    // two.
    for nodes in [[PROXY; 2], [PROXY, SECOND_PROXY]] {
        if nodes[0] != nodes[1] && std::env::var_os("MBUMA_GIANT").is_some() {
            continue;
        }
        let b = Bench::new(1, 0.0);
        let pairs: Vec<_> = (0..3000).map(|n| unix_pair(&b, nodes[n % 2])).collect();
        let row = pairs.windows(2).map(|two| {
            let [(_, source), (sink, _)] = two else {
                panic!("two pairs");
            };
            splice(source.endpoint(), sink.endpoint(), PLAIN).expect("no loop")
        });
        let row: Vec<_> = row.collect();
        let (first, last) = (&pairs[0].0, &pairs[pairs.len() - 1].1);
        first.send(b"from end to end");
        assert_eq!(last.read().as_deref(), Some(&b"from end to end"[..]));
        first.shutdown(Shutdown::Write);
        assert_eq!(last.read(), None);
        assert!(row.iter().all(|s| outcome(s) == (15, SpliceEnd::Eof)));
    }
}

#[test]
fn two_stacks_of_a_process_are_spliced() {
    // Breaks when a change of a UNIX-domain socket reaches no splice that leads to another stack, or needs two locks.
    let mut b = Bench::new(1, 0.0);
    let (writer, source) = unix_pair(&b, PROXY);
    let (sink, reader) = unix_pair(&b, SECOND_PROXY);
    let row = Row {
        writer,
        source,
        sink,
        reader,
    };
    if std::env::var_os("MBUMA_GIANT").is_some() {
        let refused = splice(row.source.endpoint(), row.sink.endpoint(), PLAIN);
        assert_eq!(refused.err(), Some(SpliceError::Giant));
        return;
    }
    let splice = row.splice(PLAIN);
    let sent = pattern(700_001);
    assert!(row.transfer(&mut b, &sent) == sent);
    row.writer.shutdown(Shutdown::Write);
    assert_eq!(outcome(&splice), (700_001, SpliceEnd::Eof));
}

#[test]
fn a_stack_without_handles_splices_nothing() {
    // Breaks when a splice is made for whose idle time no thread would ever give it a turn.
    let stack = mbuma::Stack::new(mbuma::Config::from_system()).expect("address space");
    let (pool, (one, other)) = (stack.pool().clone(), stack.unix().pair());
    drop(stack);
    let refused = splice(&one, &one, PLAIN).err();
    assert_eq!(refused, Some(SpliceError::StackGone));
    drop((one, other));
    assert_eq!(pool.live(), Live::NONE);
}
