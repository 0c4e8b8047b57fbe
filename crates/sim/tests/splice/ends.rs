//! Splices of connections that have ended already, and splices that end amid a stream. The clauses are of FreeBSD's
//! socket_splice test and OpenBSD's regress of sosplice.

use super::*;

/// Sends all that the connection takes of `bytes` from `sent` on.
fn push(from: &TcpStream, bytes: &[u8], sent: &mut usize) {
    *sent += from.send(&bytes[*sent..]).unwrap_or(0);
}

#[test]
fn an_end_that_came_before_the_splice_is_passed_on() {
    // Breaks when a splice waits for an event of a source that has none left (OpenBSD's relay-read-eof).
    for bytes in [&b""[..], b"all of it"] {
        on_chain(|b, chain| {
            _ = chain.client.send(bytes);
            chain.client.shutdown(Shutdown::Write);
            b.run(20);
            let splice = splice_of(&chain, PLAIN);
            b.run(20);
            assert_eq!(outcome(&splice), (bytes.len() as u64, SpliceEnd::Eof));
            assert_eq!(b.read(&chain.server), bytes);
            assert_eq!(chain.server.recv(&mut [0; 9]), Ok(0), "the end of file");
        });
    }
}

#[test]
fn a_reset_that_came_before_the_splice_is_passed_on() {
    // Breaks when a splice of a dead source waits for ever, or its sink's peer takes the end for a clean one (FreeBSD's
    // error tests, OpenBSD's reset).
    on_chain(|b, chain| {
        chain.client.abort();
        b.run(20);
        let splice = splice_of(&chain, PLAIN);
        b.run(20);
        let end = SpliceEnd::Source(SocketError::Reset.into());
        assert_eq!(outcome(&splice), (0, end));
        assert_eq!(chain.server.recv(&mut [0; 9]), Err(SocketError::Reset));
    });
}

#[test]
fn a_sink_that_takes_nothing_more_ends_the_splice() {
    // Breaks when a splice goes on to a sink whose direction the program has ended, or takes bytes of the source for it
    // (OpenBSD's EPIPE).
    on_chain(|b, chain| {
        chain.sink.shutdown(Shutdown::Write);
        b.run(20);
        let splice = splice_of(&chain, PLAIN);
        chain.client.send(b"still there").expect("room");
        b.run(20);
        let (moved, end) = outcome(&splice);
        assert!(matches!(end, SpliceEnd::Sink(_)), "{end:?}");
        assert_eq!(moved, 0);
        assert_eq!(b.read(&chain.source), b"still there");
    });
}

#[test]
fn both_limits_hold_at_once() {
    // Breaks when a maximum puts the idle time out of force, or the other way round (OpenBSD's max-time).
    let options = SpliceOptions {
        max: Some(10),
        idle: Some(Duration::from_millis(300)),
        ..PLAIN
    };
    for (first, moved, end) in [(4, 4, SpliceEnd::Idle), (12, 10, SpliceEnd::Max)] {
        on_chain(|b, chain| {
            let splice = splice_of(&chain, options);
            chain.client.send(&pattern(first)).expect("room");
            b.run(1000);
            assert_eq!(outcome(&splice), (moved, end));
            assert_eq!(b.read(&chain.server), pattern(moved as usize));
            assert_eq!(b.read(&chain.source), pattern(first)[moved as usize..]);
        });
    }
}

#[test]
fn a_stop_amid_the_stream_loses_and_doubles_nothing() {
    // Breaks when the count of a stopped splice is not that of the bytes that the sink got: the program goes on at the
    // wrong place (FreeBSD's resplice and getsockopt, OpenBSD's unsplice).
    let mut by_both = [0, 0];
    for seed in 0..8 {
        let mut b = Bench::new(seed, if seed < 2 { 0.0 } else { 0.02 });
        let chain = b.chain(PROXY);
        let sent = pattern(1_500_000);
        let (mut accepted, mut moved, mut received) = (0, 0, Vec::new());
        let mut by_program = 0;
        for round in 0.. {
            let splice = splice_of(&chain, PLAIN);
            for _ in 0..=(round * 7 + seed) % 11 {
                push(&chain.client, &sent, &mut accepted);
                b.run(2);
                received.extend(b.read(&chain.server));
            }
            moved += splice.stop().bytes;
            drop(splice);
            push(&chain.client, &sent, &mut accepted);
            b.run(3);
            // What comes now is the program's: it sends some of it on by itself, in its place.
            let mut rest = [0; 5000];
            if chain.sink.info().send_queue < 30_000
                && let Ok(n) = chain.source.recv(&mut rest)
            {
                by_program += n;
                let mut at = 0;
                while at < n {
                    push(&chain.sink, &rest[..n], &mut at);
                    b.run(2);
                    received.extend(b.read(&chain.server));
                }
            }
            if received.len() == sent.len() {
                break;
            }
            assert!(round < 20_000, "seed {seed}: no progress");
        }
        assert!(received == sent, "seed {seed}");
        assert_eq!(moved as usize + by_program, sent.len(), "seed {seed}");
        by_both[0] += moved as usize;
        by_both[1] += by_program;
    }
    assert!(by_both.iter().all(|bytes| *bytes > 100_000), "{by_both:?}");
}
