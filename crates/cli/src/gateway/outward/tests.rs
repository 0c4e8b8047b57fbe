use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use mbuma::runtime::PollEvents;

use super::super::client_quota::ClientQuota;
use super::super::table::SourceKind;
use super::super::test_gateway;
use super::*;

/// A connected pair: a program's end, and ours.
fn pair() -> (TcpStream, Host) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("bound");
    let program = TcpStream::connect(at).expect("it listens");
    let (ours, _) = listener.accept().expect("a client");
    (program, Host::accepted(ours).expect("a socket"))
}

/// The connection between our two ends.
fn joined(shared: &Shared, guest: Host, host: Host) -> OutwardConnection {
    let slot = ClientQuota::new(8, 1).slot(2).expect("a place");
    let client = OutwardClient { guest, host, slot };
    let token = Token::nth(SourceKind::Connection, 0);
    client.watch(shared.poller(), token).expect("watched");
    OutwardConnection::new(client, token, Time::ZERO)
}

/// Gives the connection a turn for each event.
fn until_done(shared: &mut Shared, connection: &mut OutwardConnection) {
    let mut events = PollEvents::new();
    while connection.turn(shared, Time::ZERO) != Turn::Done {
        shared.poller().wait(&mut events, None).expect("events");
        events
            .iter()
            .for_each(|(_, readiness)| connection.note(readiness));
    }
}

#[test]
fn bytes_and_ends_pass_both_ways() {
    // Breaks if an end of file overtakes bytes, is told to the wrong end, or a finished connection goes on; or if
    // buffers stay in it.
    let (mut shared, _) = test_gateway::start();
    let ((mut guest, ours), (mut host, theirs)) = (pair(), pair());
    let mut connection = joined(&shared, ours, theirs);
    guest.write_all(b"question").expect("room");
    guest.shutdown(Shutdown::Write).expect("connected");
    host.write_all(b"answer").expect("room");
    host.shutdown(Shutdown::Write).expect("connected");
    until_done(&mut shared, &mut connection);
    connection.close();
    for (end, expected) in [(&mut host, "question"), (&mut guest, "answer")] {
        let mut heard = String::new();
        end.read_to_string(&mut heard).expect("text, and its end");
        assert_eq!(heard, expected);
    }
    let counters = shared.counters;
    assert_eq!((counters.bytes_up, counters.bytes_down), (8, 6));
    shared.release_buffers();
    let pool = shared.stack.pool().clone();
    drop(shared);
    assert_eq!(pool.live(), mbuf::Live::NONE);
}

#[test]
fn a_reset_of_one_end_is_passed_on() {
    // Breaks if a program waits for ever for a program that is gone.
    let (mut shared, _) = test_gateway::start();
    let ((guest, ours), (mut host, theirs)) = (pair(), pair());
    let mut connection = joined(&shared, ours, theirs);
    crate::sys::socket::reset_on_close(std::os::fd::AsFd::as_fd(&guest)).expect("an option");
    drop(guest);
    until_done(&mut shared, &mut connection);
    connection.close();
    let heard = host.read(&mut [0]).expect_err("a reset");
    assert_eq!(heard.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_turn_moves_a_bounded_amount() {
    // Breaks if a program that sends without end keeps a worker from its other connections.
    let (mut shared, _) = test_gateway::start();
    let ((mut guest, ours), (host_end, theirs)) = (pair(), pair());
    guest.set_nonblocking(true).expect("ours");
    while guest.write(&[7; SEGMENT_MAX]).is_ok() {}
    let mut connection = joined(&shared, ours, theirs);
    let mut events = PollEvents::new();
    shared.poller().wait(&mut events, None).expect("events");
    events.iter().for_each(|(_, seen)| connection.note(seen));
    let OutwardConnection { guest, host, .. } = &mut connection;
    let (moved, pause) = pump(&mut shared, guest, host).expect("both are open");
    assert!(matches!(pause, Pause::Turn), "{moved}");
    assert!((SEGMENT_MAX..2 * SEGMENT_MAX).contains(&moved), "{moved}");
    connection.close();
    drop(host_end);
}
