//! Whole UNIX-domain sockets under a schedule checker: shuttle tries random orders of the threads' steps.
//!
//! The checker controls only locks, sleeping and atomics; the sockets are the real ones. Each protocol is run again
//! with a mistake that it must prevent, and must then fail: a thread sleeps for ever, or a socket that can be received
//! is closed.
//!
//! | scenario | protocol |
//! |---|---|
//! | ping-pong | a waker is left under the lock under which the buffer was found empty |
//! | a narrow buffer | a thread that waits for room is woken when there is |
//! | accept | a thread that waits for a connection, or for a place in the backlog, is woken |
//! | a passed socket | a socket is in flight, or has a handle, at every look |
//!
//! `cargo xtask shuttle` runs it.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use kern::model::Model;
use kern::prim::{Condvar, Mutex};
use kern::{LockClass, order};
use mbuf::{MSIZE, MbufPool, PoolConfig};
use shuttle::thread;

use super::*;
use crate::park::Parker;

/// How often a scenario is tried.
const RUNS: usize = 2000;

fn check(scenario: impl Fn() + Send + Sync + 'static) {
    Model::new("UNIX sockets")
        .runs(RUNS)
        .any_switches()
        .seed(0x0556_2004)
        .check(scenario);
}

/// Sockets of a stack whose buffers hold `records` empty records. Its pool is never asked for anything.
fn unix(records: usize) -> Unix {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let config = UnixConfig {
        recv_buffer: records * MSIZE,
        ..UnixConfig::default()
    };
    Unix::new(&Arc::new(UnixState::new(
        &pool,
        &config,
        &Arc::new(kern::Giant::new(false)),
    )))
}

fn send(socket: &UnixSeqpacket) {
    socket
        .send_with_blocking(Message::default(), None)
        .expect("the peer is there");
}

/// Receives a record; false at the end.
type Recv = fn(&UnixSeqpacket) -> bool;

fn recv(socket: &UnixSeqpacket) -> bool {
    socket
        .recv_with_blocking(0, None)
        .expect("no reset")
        .is_some()
}

/// Checks, then leaves its waker, and does not check again.
fn recv_asks_too_early(socket: &UnixSeqpacket) -> bool {
    let received = Parker::new().block_on(
        || None,
        |waiter| match socket.recv_with(0) {
            Err(UnixError::WouldBlock) => {
                let waker = waiter.expect("it may wait");
                let _ = socket.poll_readable(&Context::from_waker(waker));
                Poll::Pending
            }
            other => Poll::Ready(other),
        },
    );
    received.expect("no timeout").expect("no reset").is_some()
}

/// Sleeps in a place that remembers no call that came before the sleep.
fn recv_forgets_calls(socket: &UnixSeqpacket) -> bool {
    static CLASS: LockClass = LockClass::new("planted parker", order::PARKER);
    struct Forgetful(Mutex<()>, Condvar);
    impl Wake for Forgetful {
        fn wake(self: Arc<Self>) {
            let _state = self.0.lock();
            self.1.notify_one();
        }
    }
    let place = Arc::new(Forgetful(Mutex::new(&CLASS, ()), Condvar::new()));
    let waker = Waker::from(Arc::clone(&place));
    loop {
        let ready = socket.poll_readable(&Context::from_waker(&waker));
        if ready.is_ready() {
            return recv(socket);
        }
        drop(place.1.wait(place.0.lock(), None));
    }
}

fn ping_pong(recv: Recv) {
    let unix = unix(8);
    let (left, right) = unix.seqpacket_pair();
    let peer = thread::spawn(move || {
        while recv(&right) {
            send(&right);
        }
    });
    for _ in 0..2 {
        send(&left);
        assert!(recv(&left));
    }
    drop(left);
    peer.join().expect("no panic");
    assert_eq!(unix.stats().sockets, 0);
}

#[test]
fn ping_pong_never_stops() {
    // Breaks if a wake is lost between a look and the sleep that follows.
    check(|| ping_pong(recv));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_waker_left_too_late_is_found() {
    // Breaks if the model does not find a waker that is left after the check.
    check(|| ping_pong(recv_asks_too_early));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_forgotten_call_is_found() {
    // Breaks if the model does not find a wakeup that comes before the sleep.
    check(|| ping_pong(recv_forgets_calls));
}

#[test]
fn a_narrow_buffer_passes_everything() {
    // Breaks if a sender that waits for room is not woken, by a reader or by an end.
    check(|| {
        let unix = unix(2);
        let (left, right) = unix.seqpacket_pair();
        let other = left.clone();
        let senders = [left, other].map(|socket| {
            thread::spawn(move || {
                for _ in 0..3 {
                    send(&socket);
                }
            })
        });
        let mut received = 0;
        while recv(&right) {
            received += 1;
        }
        for sender in senders {
            sender.join().expect("no panic");
        }
        assert_eq!(received, 6);
        drop(right);
        assert_eq!(unix.stats().sockets, 0);
    });
}

#[test]
fn every_connection_is_accepted() {
    // Breaks if a wakeup of an accepting or connecting thread is lost, or a connection counted twice.
    check(|| {
        let unix = unix(2);
        let listener = unix.seqpacket_listen(b"name", 1).expect("it is free");
        let clients = [0, 1, 2].map(|_| {
            let unix = unix.clone();
            thread::spawn(move || {
                let socket = unix
                    .seqpacket_connect_blocking(b"name", None)
                    .expect("it listens");
                assert!(recv(&socket));
            })
        });
        let other = listener.clone();
        let helper = thread::spawn(move || send(&other.accept_blocking(None).expect("one comes")));
        for _ in 0..2 {
            send(&listener.accept_blocking(None).expect("one comes"));
        }
        helper.join().expect("no panic");
        for client in clients {
            client.join().expect("no panic");
        }
        drop(listener);
        assert_eq!(unix.stats().sockets, 0);
    });
}

#[test]
fn a_passed_socket_lives_exactly_as_long_as_it_can_be_received() {
    // Breaks if a socket is received before it is in flight, or ends though it could be received.
    check(|| {
        let unix = unix(8);
        let (left, right) = unix.seqpacket_pair();
        let (inner, far) = unix.seqpacket_pair();
        let sender = thread::spawn(move || give(&left, inner));
        let receiver = thread::spawn(move || {
            let inner = take(&right);
            drop(right);
            send(&inner);
        });
        assert!(recv(&far), "what was passed was open");
        sender.join().expect("no panic");
        receiver.join().expect("no panic");
        drop(far);
        assert_eq!(unix.stats().in_flight, 0);
        assert_eq!(unix.stats().sockets, 0);
    });
}

#[test]
fn a_cycle_ends_with_its_last_owner() {
    // Breaks if a socket that is being received counts as dead, or a cycle that a race leaves is not found.
    check(|| {
        let unix = unix(8);
        let (left, right) = unix.seqpacket_pair();
        let (inner, far) = unix.seqpacket_pair();
        // Each of `inner` and `right` is in the other's buffer.
        give(&left, inner.clone());
        give(&far, right.clone());
        let receiver = thread::spawn(move || {
            let inner = take(&right);
            // It is open, and so is the socket that it holds.
            give(&inner, take(&inner));
        });
        let dropper = thread::spawn(move || drop(inner));
        drop(left);
        receiver.join().expect("no panic");
        dropper.join().expect("no panic");
        drop(far);
        assert_eq!(unix.stats().in_flight, 0);
        assert_eq!(unix.stats().sockets, 0);
    });
}

/// Sends a socket over another.
fn give(via: &UnixSeqpacket, what: UnixSeqpacket) {
    via.send_with(Message::default().with(what))
        .expect("there is room");
}

/// Receives a socket.
fn take(via: &UnixSeqpacket) -> UnixSeqpacket {
    let received = via.recv_with_blocking(0, None).expect("no reset");
    match received.and_then(|mut r| r.rights.pop()) {
        Some(Passed::Seqpacket(socket)) => socket,
        other => panic!("{other:?}"),
    }
}
