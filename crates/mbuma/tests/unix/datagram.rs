//! Datagrams of one stack: their receivers, their senders, and their end.

use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::unix::*;
use mbuma::unix::{Credentials, UnixError};

/// Breaks if a datagram changes, reaches another socket, or names another sender.
#[test]
fn datagrams_say_whom_they_are_from() {
    let stack = stack();
    let user = Credentials {
        pid: 1,
        uid: 2,
        gid: 3,
    };
    let named = stack.unix().datagram_bind(NAME).unwrap();
    let other = stack
        .unix()
        .acting_as(user)
        .datagram_bind(b"other")
        .unwrap();
    let nameless = stack.unix().datagram();
    for len in [0, 1, 217, 40_000] {
        other.send_to(&pattern(len), NAME).unwrap();
        nameless.send_to(&pattern(len), NAME).unwrap();
        let received = named.recv_with(1 << 20).unwrap().unwrap();
        assert_eq!(received.data.to_vec(), pattern(len));
        let sender = received.sender.unwrap();
        assert_eq!(sender.name.as_ref(), other.local_name());
        assert_eq!(sender.credentials, user);
        let sender = named.recv_with(1 << 20).unwrap().unwrap().sender.unwrap();
        assert_eq!(sender.name, None);
    }
    other.send_to(b"truncated", NAME).unwrap();
    let received = named.recv_with(5).unwrap().unwrap();
    assert_eq!((received.data.len(), received.truncated), (5, true));
    assert_eq!(
        other.send_to(&pattern(65_537), NAME),
        Err(UnixError::TooBig)
    );
    assert_eq!(other.send_to(b"x", b"nobody"), Err(UnixError::NotFound));
    assert_eq!(other.send(b"x"), Err(UnixError::NotConnected));
    let _listener = stack.unix().listen(b"stream", 1).unwrap();
    assert_eq!(other.send_to(b"x", b"stream"), Err(UnixError::WrongType));
}

/// Breaks if a connected socket takes datagrams of others than its peer, or does not learn of its peer's end.
#[test]
fn a_connected_socket_has_one_peer() {
    let stack = stack();
    let unix = stack.unix();
    let a = unix.datagram_bind(b"a").unwrap();
    let b = unix.datagram_bind(b"b").unwrap();
    let c = unix.datagram();
    c.send_to(b"early", b"a").unwrap();
    a.connect(b"b").unwrap();
    assert_eq!(a.peer_name().as_ref(), b.local_name());
    assert_eq!(c.send_to(b"x", b"a"), Err(UnixError::NotPermitted));
    assert_eq!(c.connect(b"a"), Err(UnixError::NotPermitted));
    b.send_to(b"from b", b"a").unwrap();
    a.send(b"to b").unwrap();
    a.send_to(b"to itself", b"b").unwrap();
    let mut buf = [0; 16];
    assert_eq!(a.recv(&mut buf), Ok(5));
    assert_eq!(a.recv(&mut buf), Ok(6));
    assert_eq!(b.recv(&mut buf), Ok(4));
    drop(b);
    assert_eq!(a.recv(&mut buf), Err(UnixError::WouldBlock));
    assert_eq!(a.send(b"x"), Err(UnixError::Refused));
    assert_eq!(a.send(b"x"), Err(UnixError::NotConnected));
    // Without a peer it takes from any socket again.
    c.send_to(b"again", b"a").unwrap();
    drop((a, c));
    // A pair.
    let (left, right) = unix.datagram_pair();
    assert_eq!(left.peer_credentials(), Some(Credentials::default()));
    right.send(b"hello").unwrap();
    drop(right);
    assert_eq!(left.recv(&mut buf), Ok(5));
}

/// Breaks if a shutdown ends the wrong direction.
#[test]
fn a_shutdown_ends_its_direction_only() {
    let stack = stack();
    let (left, right) = stack.unix().datagram_pair();
    right.send(b"there").unwrap();
    left.shutdown(Shutdown::Write);
    assert_eq!(left.send(b"x"), Err(UnixError::BrokenPipe));
    right.send(b"more").unwrap();
    left.shutdown(Shutdown::Read);
    assert_eq!(right.send(b"x"), Err(UnixError::BrokenPipe));
    assert_eq!(left.recv(&mut [0; 8]), Ok(5));
    assert_eq!(left.recv(&mut [0; 8]), Ok(4));
    assert!(left.recv_with(8).unwrap().is_none());
}

/// Breaks if a full receiver loses a datagram, or its senders are not told of room.
#[test]
fn senders_to_a_full_receiver_wait_and_are_woken() {
    let stack = stack_with(|c| c.unix.recv_buffer = 4000);
    let (left, right) = stack.unix().datagram_pair();
    let calls = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&calls));
    let cx = Context::from_waker(&waker);
    let mut sent = 0_u32;
    while left.send(&sent.to_be_bytes()).is_ok() {
        sent += 1;
    }
    let late = left.send_blocking(b"late", Some(Duration::from_millis(1)));
    assert_eq!(late, Err(UnixError::TimedOut));
    assert_eq!(left.poll_writable(&cx), Poll::Pending);
    for i in 0..sent {
        let mut buf = [0; 4];
        right.recv(&mut buf).unwrap();
        assert_eq!(u32::from_be_bytes(buf), i);
    }
    assert_eq!(calls.get(), 1);
    // A thread that waits for room learns of an end.
    while left.send(b"fill").is_ok() {}
    assert_eq!(left.poll_writable(&cx), Poll::Pending);
    drop(right);
    assert_eq!(calls.get(), 2);
    assert_eq!(left.send(b"x"), Err(UnixError::Refused));
}
