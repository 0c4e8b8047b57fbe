//! Streams and sequenced packets of one stack: data, ends, errors, names, backlogs, waiting.

use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::unix::*;
use mbuf::Chain;
use mbuma::unix::{Credentials, Message, NAME_MAX, UnixError};

/// Breaks if bytes change, get lost or change places, whatever the sizes on both sides.
#[test]
fn bytes_arrive_in_order() {
    let stack = stack();
    for (written, read) in [
        (1, 1),
        (1, 7),
        (100, 3),
        (216, 217),
        (5000, 4096),
        (70_000, 70_000),
    ] {
        let (left, right) = stack.unix().pair();
        let data = pattern(140_000);
        let mut got = Vec::new();
        for piece in data.chunks(written) {
            let mut piece = piece;
            while !piece.is_empty() {
                match left.send(piece) {
                    Ok(n) => piece = &piece[n..],
                    Err(e) => {
                        assert_eq!(e, UnixError::WouldBlock);
                        drain(&right, read, &mut got);
                    }
                }
            }
        }
        drop(left);
        drain(&right, read, &mut got);
        assert_eq!(right.recv(&mut [0; 8]), Ok(0));
        assert!(got == data, "written by {written}, read by {read}");
    }
}

fn drain(from: &mbuma::UnixStream, size: usize, to: &mut Vec<u8>) {
    let mut buf = vec![0; size];
    while let Ok(n @ 1..) = from.recv(&mut buf) {
        to.extend_from_slice(&buf[..n]);
    }
}

/// Breaks if a chain is copied on its way, or if dropping lent memory happens under a lock of ours.
#[test]
fn chains_move_by_reference() {
    let stack = stack();
    let (left, right) = stack.unix().pair();
    struct Lent(Vec<u8>, mbuma::UnixStream);
    impl AsRef<[u8]> for Lent {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Lent {
        fn drop(&mut self) {
            // A lock that is held over the drop of lent memory would be taken twice here.
            let _ = self.1.recv(&mut [0; 1]);
        }
    }
    let lent = Lent(pattern(10_000), right.clone());
    let place = lent.0.as_ptr();
    left.send_chain(Chain::from_owner(stack.pool(), lent).unwrap())
        .unwrap();
    let chain = right.recv_chain(usize::MAX).unwrap();
    assert_eq!(chain.segments().next().unwrap().as_ptr(), place);
    drop(chain);
    // A few bytes are copied to behind others, and their memory goes at once.
    let lent = Lent(pattern(3), right.clone());
    left.send(b"abc").unwrap();
    left.send_chain(Chain::from_owner(stack.pool(), lent).unwrap())
        .unwrap();
    // Unread data is dropped with the socket.
    left.send_chain(Chain::from_owner(stack.pool(), Lent(pattern(9000), left.clone())).unwrap())
        .unwrap();
}

/// Breaks if a shutdown or close ends the wrong direction, too early, or silently.
#[test]
fn a_shutdown_or_close_ends_its_direction_after_the_data() {
    let stack = stack();
    let mut buf = [0; 8];
    // Sent bytes are read before the end; the other direction goes on.
    let (left, right) = stack.unix().pair();
    left.send(b"last").unwrap();
    left.shutdown(Shutdown::Write);
    assert_eq!(left.send(b"x"), Err(UnixError::BrokenPipe));
    assert_eq!(right.recv(&mut buf), Ok(4));
    assert_eq!(right.recv(&mut buf), Ok(0));
    right.send(b"back").unwrap();
    assert_eq!(left.recv(&mut buf), Ok(4));
    // A side that reads no more gets the data that is there; its peer can't send.
    right.send(b"more").unwrap();
    left.shutdown(Shutdown::Read);
    assert_eq!(right.send(b"x"), Err(UnixError::BrokenPipe));
    assert_eq!(left.recv(&mut buf), Ok(4));
    assert_eq!(left.recv(&mut buf), Ok(0));
    drop((left, right));
    // Closed with nothing unread: an end. With something unread: a reset, once, behind the data.
    let (left, right) = stack.unix().pair();
    left.send(b"unread").unwrap();
    right.send(b"read").unwrap();
    drop(right);
    assert_eq!(left.recv(&mut buf), Ok(4));
    assert_eq!(left.recv(&mut buf), Err(UnixError::Reset));
    assert_eq!(left.recv(&mut buf), Ok(0));
    assert_eq!(left.send(b"x"), Err(UnixError::BrokenPipe));
}

/// Breaks if a clone's end closes the socket, or the last one's does not.
#[test]
fn the_last_handle_closes() {
    let stack = stack();
    let (left, right) = stack.unix().pair();
    let other = left.clone();
    drop(left);
    assert_eq!(right.recv(&mut [0; 8]), Err(UnixError::WouldBlock));
    drop(other);
    assert_eq!(right.recv(&mut [0; 8]), Ok(0));
}

/// Breaks if records are joined, are truncated without the flag, or an empty one counts as the end.
#[test]
fn records_keep_their_boundaries() {
    let stack = stack();
    let (left, right) = stack.unix().seqpacket_pair();
    for len in [0, 1, 5000] {
        left.send(&pattern(len)).unwrap();
    }
    left.send(b"truncated").unwrap();
    for len in [0, 1, 5000] {
        let received = right.recv_with(9000).unwrap().expect("a record");
        assert_eq!(received.data.to_vec(), pattern(len));
        assert!(!received.truncated);
    }
    let received = right.recv_with(5).unwrap().expect("a record");
    assert_eq!(
        (received.data.to_vec(), received.truncated),
        (b"trunc".to_vec(), true)
    );
    assert_eq!(left.send(&pattern((64 << 10) + 1)), Err(UnixError::TooBig));
    left.send(&pattern(64 << 10)).unwrap();
    drop((received, left));
    assert_eq!(right.recv(&mut [0; 70_000]), Ok(64 << 10));
    assert!(right.recv_with(1).unwrap().is_none());
    // A reset comes before the data, and the first call learns of it.
    let (left, far) = stack.unix().seqpacket_pair();
    left.send(b"unread").unwrap();
    far.send(b"data").unwrap();
    drop(far);
    assert_eq!(left.send(b"x"), Err(UnixError::Reset));
    assert_eq!(left.send(b"x"), Err(UnixError::BrokenPipe));
    assert_eq!(left.recv(&mut [0; 8]), Ok(4));
}

/// Breaks if a buffer takes more than its limit and one message, counts wrongly, or never takes again.
#[test]
fn a_full_buffer_pushes_back() {
    let stack = stack_with(|c| c.unix.recv_buffer = 10_000);
    // Bytes that pin little, bytes that pin much, records of nothing.
    for (len, at_most) in [(1000, 12), (1, 11_000), (0, 40)] {
        let (left, right) = stack.unix().seqpacket_pair();
        for _ in 0..3 {
            let mut sent = 0;
            while left.send(&pattern(len)).is_ok() {
                sent += 1;
                assert!(sent <= at_most, "{sent} of {len} bytes");
            }
            assert!(sent > 3);
            for _ in 0..sent {
                assert_eq!(right.recv(&mut [0; 2000]), Ok(len));
            }
            assert_eq!(right.recv(&mut [0; 1]), Err(UnixError::WouldBlock));
        }
    }
    // One byte each in a cluster of its own: pinned memory counts.
    let (left, _right) = stack.unix().seqpacket_pair();
    let mut big = chain(&stack, &pattern(16 << 10));
    let mut sent = 0;
    while left
        .send_with(Message::new(big.share(sent, 1).unwrap()))
        .is_ok()
    {
        sent += 1;
    }
    assert!(sent < 5, "{sent} times 16 KiB pinned by a buffer of 10 KB");
}

/// Breaks if names can be had twice, stay when their socket goes, or reach the wrong socket.
#[test]
fn a_name_belongs_to_one_socket_for_its_life() {
    let stack = stack();
    let unix = stack.unix();
    assert_eq!(unix.connect(NAME).err(), Some(UnixError::NotFound));
    let listener = unix.listen(NAME, 1).unwrap();
    assert_eq!(unix.listen(NAME, 1).err(), Some(UnixError::AddrInUse));
    assert_eq!(unix.datagram_bind(NAME).err(), Some(UnixError::AddrInUse));
    assert_eq!(
        unix.seqpacket_connect(NAME).err(),
        Some(UnixError::WrongType)
    );
    assert_eq!(
        unix.datagram().connect(NAME).err(),
        Some(UnixError::WrongType)
    );
    for bad in [0, NAME_MAX + 1] {
        assert_eq!(
            unix.listen(&pattern(bad), 1).err(),
            Some(UnixError::BadName)
        );
        assert_eq!(unix.connect(&pattern(bad)).err(), Some(UnixError::BadName));
    }
    let client = unix.connect(NAME).unwrap();
    let server = listener.accept().unwrap();
    assert_eq!(client.peer_name().unwrap().as_bytes(), NAME);
    assert_eq!(server.local_name(), Some(listener.local_name()));
    assert_eq!((client.local_name(), server.peer_name()), (None, None));
    // The connection outlives the listener; the name does not, and is free at once.
    drop(listener);
    client.send(b"still").unwrap();
    assert_eq!(server.recv(&mut [0; 8]), Ok(5));
    assert_eq!(unix.connect(NAME).err(), Some(UnixError::NotFound));
    let again = unix.seqpacket_listen(NAME, 1).unwrap();
    assert_eq!(unix.connect(NAME).err(), Some(UnixError::WrongType));
    drop((client, server, again));
    // Stacks do not know each other's names.
    let other = self::stack();
    let _there = other.unix().listen(NAME, 1).unwrap();
    assert_eq!(unix.connect(NAME).err(), Some(UnixError::NotFound));
}

/// Breaks if a backlog takes too many, loses one, or if a listener's end leaves clients waiting.
#[test]
fn a_backlog_holds_its_number_and_ends_with_the_listener() {
    let stack = stack();
    let unix = stack.unix();
    let listener = unix.listen(NAME, 2).unwrap();
    let first = unix.connect(NAME).unwrap();
    let second = unix.connect(NAME).unwrap();
    assert_eq!(unix.connect(NAME).err(), Some(UnixError::WouldBlock));
    let late = unix.connect_blocking(NAME, Some(Duration::from_millis(1)));
    assert_eq!(late.err(), Some(UnixError::TimedOut));
    // Bytes that are sent before the accept are there after it, from the right client.
    second.send(b"2").unwrap();
    first.send(b"1").unwrap();
    let mut buf = [0; 8];
    let accepted = listener.accept().unwrap();
    assert_eq!(accepted.recv(&mut buf), Ok(1));
    assert_eq!(buf[0], b'1');
    assert_eq!(stack.unix().stats().in_flight, 1);
    let third = unix.connect(NAME).unwrap();
    drop(listener);
    for client in [second, third] {
        assert_eq!(client.recv(&mut buf), Err(UnixError::Reset));
        assert_eq!(client.recv(&mut buf), Ok(0));
        assert_eq!(client.send(b"x"), Err(UnixError::BrokenPipe));
    }
}

/// Breaks if credentials are those of another time or another side than when the connection was made.
#[test]
fn credentials_are_those_of_the_moment_of_connecting() {
    let [who, server, client] = [1, 2, 3].map(|n| Credentials {
        pid: n,
        uid: 10 * n,
        gid: 100 * n,
    });
    let stack = stack_with(|c| c.unix.credentials = who);
    let (left, right) = stack.unix().pair();
    assert_eq!(
        (left.peer_credentials(), right.peer_credentials()),
        (who, who)
    );
    let listener = stack.unix().acting_as(server).listen(NAME, 1).unwrap();
    let theirs = stack.unix().acting_as(client).connect(NAME).unwrap();
    let ours = listener.accept().unwrap();
    assert_eq!(ours.peer_credentials(), client);
    assert_eq!(theirs.peer_credentials(), server);
}

/// Breaks if a waiting thread is woken too late, without need, or not at all.
#[test]
fn a_waiting_thread_is_woken_exactly_when_there_is_something() {
    let stack = stack_with(|c| c.unix.recv_buffer = 8000);
    let (left, right) = stack.unix().pair();
    let (once, kept) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let waker = Waker::from(Arc::clone(&once));
    let cx = Context::from_waker(&waker);
    right.set_waker(Some(Waker::from(Arc::clone(&kept))));
    assert_eq!(right.poll_readable(&cx), Poll::Pending);
    assert_eq!(right.poll_readable(&cx), Poll::Pending);
    left.send(b"a").unwrap();
    assert_eq!((once.get(), kept.get()), (1, 1));
    // More data wakes no thread.
    left.send(b"b").unwrap();
    assert_eq!((once.get(), kept.get()), (1, 1));
    assert_eq!(right.poll_readable(&cx), Poll::Ready(()));
    right.recv(&mut [0; 8]).unwrap();
    left.send(b"c").unwrap();
    assert_eq!((once.get(), kept.get()), (1, 2));
    // Room: when half of it is free.
    assert_eq!(left.poll_writable(&cx), Poll::Ready(()));
    while left.send(&pattern(1000)).is_ok() {}
    assert_eq!(left.poll_writable(&cx), Poll::Pending);
    right.recv(&mut [0; 1000]).unwrap();
    assert_eq!(once.get(), 1);
    while right.recv(&mut [0; 1000]).is_ok() {}
    assert_eq!(once.get(), 2);
    // An end wakes both directions.
    assert_eq!(right.poll_readable(&cx), Poll::Pending);
    drop(left);
    assert_eq!((once.get(), kept.get()), (3, 4));
    drop(right);
    assert_eq!(kept.get(), 4, "nobody is told of its own end");
    // A listener's.
    let listener = stack.unix().listen(NAME, 1).unwrap();
    assert_eq!(listener.poll_acceptable(&cx), Poll::Pending);
    let _client = stack.unix().connect(NAME).unwrap();
    assert_eq!(once.get(), 4);
}

/// Breaks if a timeout does not end a wait, or ends it with data there.
#[test]
fn a_timeout_ends_a_wait_without_data() {
    let stack = stack_with(|c| c.unix.recv_buffer = 1000);
    let (left, right) = stack.unix().pair();
    let short = Some(Duration::from_millis(2));
    let mut buf = [0; 2000];
    assert_eq!(
        right.recv_blocking(&mut buf, short),
        Err(UnixError::TimedOut)
    );
    let zero = Some(Duration::ZERO);
    assert_eq!(
        right.recv_blocking(&mut buf, zero),
        Err(UnixError::TimedOut)
    );
    assert_eq!(left.send_blocking(&pattern(1500), short), Ok(1500));
    assert_eq!(left.send_blocking(b"x", short), Err(UnixError::TimedOut));
    assert_eq!(right.recv_blocking(&mut buf, zero), Ok(1500));
    let (e, back) = left.send_chain(chain(&stack, b"x")).map_or_else(
        |e| e,
        |()| {
            left.send(&pattern(1000)).unwrap();
            left.send_chain_blocking(chain(&stack, b"back"), short)
                .expect_err("it is full")
        },
    );
    assert_eq!((e, back.to_vec()), (UnixError::TimedOut, b"back".to_vec()));
    let listener = stack.unix().listen(NAME, 1).unwrap();
    assert_eq!(
        listener.accept_blocking(short).err(),
        Some(UnixError::TimedOut)
    );
}
