//! Tests of a client, over a pair of sockets.

use super::*;
use crate::gateway::test_gateway;
use crate::netstat::request::read_answer;

fn pair() -> (Asker, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    // A machine may give sockets much larger buffers than most do.
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 64 << 10).expect("an option");
    ours.set_nonblocking(true).expect("ours");
    theirs.set_nonblocking(true).expect("ours");
    (Asker::new(ours), theirs)
}

/// Reads the rest and the end. The end may come late: a process that another test starts may have a copy of the other
/// descriptor for a while.
fn take_rest(mut stream: UnixStream, into: &mut Vec<u8>) {
    stream.set_nonblocking(false).expect("ours");
    stream.read_to_end(into).expect("an end");
}

/// Reads the bytes that are there; true at the end.
fn take(stream: &mut UnixStream, into: &mut Vec<u8>) -> bool {
    let read = stream.read_to_end(into);
    read.is_ok() || read.is_err_and(|e| e.kind() != io::ErrorKind::WouldBlock)
}

#[test]
fn a_request_in_pieces_is_answered_once() {
    // Breaks when half a line gets an answer, or a whole one two.
    let (mut asker, mut theirs) = pair();
    let mut said = 0;
    let request = b"{\"json\":false,\"sections\":[\"mbufs\"]}\n";
    for piece in request.chunks(9) {
        theirs.write_all(piece).expect("room");
        let next = asker.turn(|request| {
            said += 1;
            format!("{request:?}")
        });
        let done = piece.ends_with(b"\n");
        assert_eq!(
            next.expect("a peer"),
            if done { Next::Close } else { Next::Wait }
        );
    }
    assert_eq!(said, 1);
    drop(asker);
    let mut answer = Vec::new();
    take_rest(theirs, &mut answer);
    let body = read_answer(&answer).expect("whole").expect("granted");
    assert!(body.contains("Mbufs"), "{body}");
}

#[test]
fn a_slow_reader_is_not_waited_for() {
    // Breaks when a netstat that was stopped with Ctrl-Z stops the gateway, or gets half an answer.
    let (mut asker, mut theirs) = pair();
    let long = "x".repeat(8 << 20);
    theirs
        .write_all(b"{\"json\":true,\"sections\":[]}\n")
        .expect("room");
    let mut next = asker.turn(|_| long.clone()).expect("a peer");
    assert_eq!(next, Next::Wait, "no socket takes that much");
    let mut answer = Vec::new();
    while next == Next::Wait {
        take(&mut theirs, &mut answer);
        next = asker.turn(|_| panic!("asked twice")).expect("a peer");
    }
    drop(asker);
    take_rest(theirs, &mut answer);
    let body = read_answer(&answer).expect("whole").expect("granted");
    assert_eq!(body.len(), long.len());
}

#[test]
fn nonsense_is_refused_and_silence_ends() {
    // Breaks when a client that sends no request keeps its place, or the gateway reads from it for ever.
    let (mut asker, mut theirs) = pair();
    theirs.write_all(&[b'a'; 4 * REQUEST_MAX]).expect("room");
    let next = asker.turn(|_| panic!("that was no request"));
    assert_eq!(next.expect("a peer"), Next::Close);
    let mut answer = Vec::new();
    take(&mut theirs, &mut answer);
    assert!(matches!(read_answer(&answer), Some(Err(_))), "{answer:?}");

    let (mut asker, mut theirs) = pair();
    theirs.write_all(b"{\"json\":true").expect("room");
    drop(theirs);
    assert!(asker.turn(|_| panic!("half of one")).is_err());
}

#[test]
fn clients_that_say_nothing_shut_no_other_out() {
    // Breaks when a client is turned away because others are silent, or loses its place while it takes its answer, or
    // when one that left its place keeps its timer.
    let (mut shared, _) = test_gateway::start();
    let path = std::env::temp_dir().join(format!("mbuma-control-{}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a free name");
    listener.set_nonblocking(true).expect("ours");
    let mut control = Control::new(&shared, Some(listener));
    let connect = || UnixStream::connect(&path).expect("it listens");
    let mut clients = Vec::new();
    for n in 0..3 * ASKERS_MAX {
        clients.push(connect());
        control.accept(&mut shared);
        if n == 0 {
            // The first one takes its answer, slowly.
            let token = control.askers.iter().map(|(token, _)| token).next();
            let asker = token.and_then(|token| control.askers.find(token));
            asker.expect("it is there").answer = Some((vec![0], 0));
        }
    }
    std::fs::remove_file(&path).expect("ours");
    let ended = |mut stream: UnixStream| {
        stream.set_nonblocking(true).expect("ours");
        stream.read(&mut [0]).is_ok()
    };
    let left: Vec<bool> = clients.into_iter().map(ended).collect();
    let first_kept = 2 * ASKERS_MAX + 1;
    assert!(left[1..first_kept].iter().all(|ended| *ended), "{left:?}");
    assert!(!left[0] && !left[first_kept..].contains(&true), "{left:?}");
    assert_eq!(shared.context.timers(), ASKERS_MAX);
}

#[test]
fn more_clients_than_a_turn_accepts_get_another_turn() {
    // Breaks when a client that came with many others waits until the next one comes: an edge is told once.
    let (mut shared, _) = test_gateway::start();
    let path = std::env::temp_dir().join(format!("mbuma-control-many-{}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a free name");
    listener.set_nonblocking(true).expect("ours");
    let mut control = Control::new(&shared, Some(listener));
    let connect = |_| UnixStream::connect(&path).expect("it listens");
    let _clients: Vec<_> = (0..=ACCEPT_MAX).map(connect).collect();
    std::fs::remove_file(&path).expect("ours");
    assert!(shared.context.ready().is_empty());
    control.accept(&mut shared);
    assert!(!shared.context.ready().is_empty());
}

#[test]
fn a_client_that_cannot_be_accepted_now_is_tried_again() {
    // Breaks when a client that came while there was no descriptor waits until another one comes: it asks why.
    let (mut shared, _) = test_gateway::start();
    let kind = rustix::net::SocketType::STREAM;
    let no_listener = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None);
    let listener = UnixListener::from(no_listener.expect("a socket"));
    let mut control = Control::new(&shared, Some(listener));
    (0..3).for_each(|_| control.accept(&mut shared));
    assert_eq!(shared.context.timers(), 1);
}
