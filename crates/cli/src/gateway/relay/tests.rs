use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream as HostStream};
use std::os::fd::AsFd;
use std::time::Duration;

use kern::{Clock, Random, VirtualClock};
use mbuma::runtime::PollEvents;
use mbuma::{Config, Stack};
use rustix::net::sockopt;

use super::super::policy::Policy;
use super::super::table::SourceKind;
use super::super::test_gateway;
use super::*;
use crate::guest::GuestEnd;
use crate::sys::socket;

/// A connection of a guest, which is another socket of the same stack, with a program of the host.
struct Joined {
    clock: Arc<VirtualClock>,
    shared: Shared,
    guest: TcpStream,
    relay: Relay,
    program: Option<HostStream>,
    /// Our end of the program's connection, once more.
    socket: HostStream,
}

impl Joined {
    fn new() -> Joined {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let as_clock: Arc<dyn Clock> = clock.clone();
        let config = Config::new(Arc::clone(&as_clock), Random::from_seed(1));
        let stack = Stack::new(config).expect("address space");
        let shared = test_gateway::shared_of(stack, &as_clock);
        let at = SocketAddr::from(([127, 0, 0, 1], 80));
        let listener = shared.stack.tcp_listen(at, 1).expect("a free port");
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let guest = shared.stack.tcp_connect(any, at).expect("a route");
        let ours = listener.accept().expect("a connection");
        let (program, socket) = host_pair();
        let host = Host::accepted(socket.try_clone().expect("a descriptor")).expect("a socket");
        let token = Token::nth(SourceKind::Connection, 0);
        host.watch(shared.poller(), token).expect("watched");
        let relay = Relay::new(ours, host, token);
        Joined {
            clock,
            shared,
            guest,
            relay,
            program: Some(program),
            socket,
        }
    }

    /// Waits for an event of the host's socket, and gives the connection a turn.
    fn turn(&mut self) -> Turn {
        let mut events = PollEvents::new();
        self.shared
            .poller()
            .wait(&mut events, Some(Duration::from_secs(10)))
            .expect("events");
        assert!(
            events.get(0).is_some(),
            "the socket has nothing more to say"
        );
        for (_, readiness) in events.iter() {
            self.relay.note(readiness);
        }
        self.relay.turn(&mut self.shared, Time::ZERO)
    }

    /// Time passes. Returns the number of times that the guest was probed meanwhile.
    fn probes_in(&mut self, time: Duration) -> u64 {
        let probes = |shared: &Shared| shared.stack.stats().tcp.keepalive_probes;
        let before = probes(&self.shared);
        self.clock.advance(time);
        self.shared.stack.poll();
        probes(&self.shared) - before
    }

    fn segments_out(&self) -> u64 {
        self.shared.stack.stats().tcp.segments_out
    }
}

/// A connected pair: a program's end, and ours.
fn host_pair() -> (HostStream, HostStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("bound");
    let program = HostStream::connect(at).expect("it listens");
    let (ours, _) = listener.accept().expect("a client");
    (program, ours)
}

#[test]
fn an_answer_and_its_end_are_one_packet() {
    // Breaks when the end of a short answer is a packet of its own, which the guest's kernel acknowledges once more.
    let mut joined = Joined::new();
    let mut program = joined.program.as_ref().expect("a program");
    program.write_all(b"answer").expect("room");
    program.shutdown(Shutdown::Write).expect("connected");
    let before = joined.segments_out();
    assert_eq!(joined.turn(), Turn::Wait);
    // The data with the FIN, and the guest's acknowledgement of both.
    assert_eq!(joined.segments_out() - before, 2);
    let heard = joined.guest.recv_chain(100).expect("data");
    assert_eq!(heard.to_vec(), b"answer");
    assert!(joined.guest.recv_chain(100).expect("the end").is_empty());
    assert_eq!(joined.relay.down, Half::Over);
}

#[test]
fn an_answer_that_a_reset_follows_has_no_end() {
    // Breaks when a guest takes the beginning of an answer for all of it.
    let mut joined = Joined::new();
    let mut program = joined.program.take().expect("a program");
    program.write_all(b"ans").expect("room");
    socket::reset_on_close(program.as_fd()).expect("an option");
    drop(program);
    while joined.turn() != Turn::Done {}
    let Joined { guest, relay, .. } = joined;
    relay.close();
    let end = loop {
        match guest.recv_chain(100) {
            Ok(chain) if chain.is_empty() => break None,
            Ok(_) => {}
            Err(e) => break Some(e),
        }
    };
    assert_eq!(end, Some(SocketError::Reset));
}

#[test]
fn urgent_data_is_in_the_stream_and_does_not_end_it() {
    // Breaks when a read that urgent data ends is taken for the last one: the guest would get a part of the answer and
    // its end. Or when the urgent byte is lost.
    let mut joined = Joined::new();
    let mut program = joined.program.as_ref().expect("a program");
    program.write_all(b"ans").expect("room");
    let urgent = rustix::net::send(program, b"w", rustix::net::SendFlags::OOB);
    assert_eq!(urgent, Ok(1));
    program.write_all(b"er").expect("room");
    program.shutdown(Shutdown::Write).expect("connected");
    while joined.relay.down != Half::Over {
        assert_eq!(joined.turn(), Turn::Wait);
    }
    let mut heard = Vec::new();
    loop {
        match joined.guest.recv_chain(100).expect("data or the end") {
            chain if chain.is_empty() => break,
            chain => heard.extend(chain.to_vec()),
        }
    }
    assert_eq!(heard, b"answer");
}

#[test]
fn a_guest_that_takes_nothing_is_stalled() {
    // Breaks when downloads that the guest's programs do not read keep all buffers, or when one of a slow reader counts
    // as stalled.
    let mut joined = Joined::new();
    let [first, later] = [100, 111].map(Time::from_secs);
    assert_eq!(joined.relay.stalled_since(first), None);
    let mut program = joined.program.take().expect("a program");
    program.write_all(&[7; 4000]).expect("room");
    assert_eq!(joined.turn(), Turn::Wait);
    joined.shared.stack.poll();
    assert_eq!(
        joined.relay.stalled_since(first),
        None,
        "the guest has acknowledged it"
    );
    joined.guest.set_buffers(4 << 20, 1);
    program.set_nonblocking(true).expect("a flag");
    while program.write(&[7; 1 << 16]).is_ok() {}
    assert_ne!(joined.turn(), Turn::Done);
    for _ in 0..200 {
        joined.shared.stack.poll();
        let _ = joined.relay.turn(&mut joined.shared, Time::ZERO);
    }
    assert_eq!(joined.relay.stalled_since(first), Some(first));
    assert_eq!(joined.relay.stalled_since(later), Some(first));
    joined.guest.set_buffers(4 << 20, 1 << 20);
    for _ in 0..5 {
        while joined.guest.recv_chain(1 << 20).is_ok() {}
        joined.probes_in(Duration::from_secs(1));
    }
    assert_ne!(joined.relay.stalled_since(later), Some(first));
}

#[test]
fn a_guest_that_vanished_is_noticed() {
    // Breaks when what a guest forgot, or left behind as it was switched off, keeps descriptors and buffers for ever;
    // or when one that is idle is probed too soon.
    let minute = Duration::from_secs(60);
    let mut joined = Joined::new();
    assert_eq!(joined.probes_in(119 * minute), 0);
    assert_eq!(joined.probes_in(minute), 1);
    joined.guest.shutdown(Shutdown::Write);
    assert_eq!(joined.turn(), Turn::Wait);
    assert_eq!(joined.relay.up, Half::Over);
    assert_eq!(joined.probes_in(minute), 1, "it has sent its FIN");
}

#[test]
fn an_answer_that_precedes_the_waker_gets_a_turn() {
    // Breaks when a client waits for ever because the guest's next address answered before the relay could be woken.
    let mut joined = Joined::new();
    let any = GuestEnd {
        v4: None,
        ..GuestEnd::usual()
    };
    joined.shared.policy = Policy::new(&any, false);
    let second = SocketAddr::from(([127, 0, 0, 1], 81));
    let _listener = (joined.shared.stack)
        .tcp_listen(second, 1)
        .expect("a free port");
    joined.relay.others.push(second);
    assert!(joined.shared.context.ready().is_empty());
    joined.relay.try_next(&joined.shared).expect("a route");
    assert!(!joined.shared.context.ready().is_empty());
}

#[test]
fn a_host_that_stops_to_read_is_given_up_once_the_guest_has_ended() {
    // Breaks when data of a guest that has ended wait for ever for a host that reads nothing; or when a guest that has
    // not ended loses its connection to such a host.
    let mut joined = Joined::new();
    let bound = |joined: &Joined| sockopt::tcp_user_timeout(&joined.socket).expect("an option");
    assert_eq!(joined.guest.send(&[7; 1000]), Ok(1000));
    assert_eq!(joined.turn(), Turn::Wait);
    assert_eq!(bound(&joined), 0);
    joined.guest.shutdown(Shutdown::Write);
    assert_eq!(
        joined.relay.turn(&mut joined.shared, Time::ZERO),
        Turn::Wait
    );
    assert_eq!(u128::from(bound(&joined)), HOST_STALL_MAX.as_millis());
}
