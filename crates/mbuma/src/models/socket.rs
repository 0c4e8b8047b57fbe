//! The model `socket_wakeup`: the real sockets, whose readers sleep, against input, errors and an end. A schedule
//! checker tries random orders of the threads' steps.
//!
//! | scenario | what races |
//! |---|---|
//! | UDP | two readers of a connected socket, three datagrams, an ICMP error |
//! | UDP | a reader of a socket that is connected meanwhile, and then an ICMP error |
//! | TCP | readers in calls, a task that polls each direction, a reset by the peer, an end by the socket's other user |
//!
//! In each order every reader returns: it sleeps only if the next thread that has something for it will find its waker.
//! It checks a few times before it sleeps, as in `park.rs`. Wakers are called when no lock is held: each here takes the
//! socket's lock. Then the same with mistakes, each of which must be found.
//!
//! | mistake | what goes wrong |
//! |---|---|
//! | [`Mistake::LateWaker`] | a reader checks, then leaves its waker, and does not check again |
//! | [`Mistake::ForgottenWakes`] | the thread that brings data does not call the wakers |
//! | [`Mistake::WakeUnderLock`] | wakers are called with the socket's lock held |
//! | [`Mistake::HastySleeper`] | a reader that has checked sleeps without another check |
//! | [`Mistake::HastyWaker`] | the thread that wakes a reader which still checks sets the mark too late |
//!
//! `cargo xtask shuttle` runs it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use kern::model::Model;
use kern::{Giant, Random, Time, VirtualClock};
use mbuf::Chain;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use wire::{IpProto, SeqNum};

use super::{RecvError, SocketError, TcpStream, UdpSocket};
use crate::faults::StackFault;
use crate::icmp::input::Quoted;
use crate::ifnet::IfIndex;
use crate::inet::Ends;
use crate::ip::IcmpError;
use crate::park::Parker;
use crate::sockbuf::QueuedRecord;
use crate::stack::Stack;
use crate::tcp::due::Due;
use crate::tcp::pcb::{Inpcb, State, Tcb};
use crate::tcp::visit;
use crate::udp::pcb::{UdpPcb, Whose};
use crate::udp::{self, Arrived, Datagram};
use crate::waiters::Want;
use crate::{Config, batch::Batch};

const LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 53);
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5000);
/// Our end of a flow to it.
const OWN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    LateWaker,
    ForgottenWakes,
    WakeUnderLock,
    HastySleeper,
    HastyWaker,
}

fn check(name: &str, scenario: fn(&Stack, Mistake), mistake: Mistake) {
    let run = move || {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let config = Config::new(clock, Random::from_seed(1));
        scenario(&Stack::new(config).expect("address space"), mistake);
    };
    let _planted = match mistake {
        Mistake::HastySleeper => Some(kern::fault::plant(StackFault::SleepsUnchecked)),
        Mistake::HastyWaker => Some(kern::fault::plant(StackFault::NotifiesLate)),
        _ => None,
    };
    Model::new(format!("{name}, {mistake:?}"))
        .any_switches()
        .seed(0x050c_1994)
        .check(run);
}

fn spawn(run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(run)
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    let each = threads.into_iter();
    each.for_each(|t| t.join().expect("no panic"));
}

/// A waker that stays with the socket and looks at it when it is called, as a program's may.
struct Looker(Arc<UdpPcb>);

impl Wake for Looker {
    fn wake(self: Arc<Self>) {
        let _: bool = self.0.queue.is_empty();
    }
}

/// A datagram comes in.
fn arrive(batch: &mut Batch<'_>, pcb: &UdpPcb, mistake: Mistake) {
    let ends = Ends::between(LOCAL.into(), PEER.into()).expect("one version");
    let with = Arrived::new(&ends, IfIndex(1), 64, 0);
    let data = Chain::new();
    match mistake {
        Mistake::ForgottenWakes => drop(pcb.queue.push(QueuedRecord { data, with })),
        _ => assert!(udp::input::push(batch, pcb, data, with), "there is room"),
    }
}

/// Takes `count` datagrams, and the errors that come.
fn read(socket: &UdpSocket, pcb: &UdpPcb, count: usize, mistake: Mistake) {
    let mut taken = 0;
    while taken < count {
        let datagram = match mistake {
            Mistake::LateWaker => recv_with_a_late_waker(socket, pcb),
            _ => socket.recv_blocking(None),
        };
        match datagram {
            Ok(_) => taken += 1,
            // The other reader may have been faster.
            Err(_) => {}
        }
    }
}

fn recv_with_a_late_waker(socket: &UdpSocket, pcb: &UdpPcb) -> Result<Datagram, RecvError> {
    let received = Parker::new().block_on(
        || None,
        |waker| match socket.recv() {
            Ok(datagram) => Poll::Ready(Ok(datagram)),
            Err(RecvError::Icmp(e)) => Poll::Ready(Err(RecvError::Icmp(e))),
            Err(_) => {
                let waker = waker.expect("it may wait").clone();
                let _: Option<Waker> = pcb.queue.set_waker(&Giant::new(false), Some(waker));
                Poll::Pending
            }
        },
    );
    received.unwrap_or(Err(RecvError::TimedOut))
}

/// Two readers, two threads that bring datagrams, one that brings an error.
fn datagrams(stack: &Stack, mistake: Mistake) {
    let socket = stack.udp_bind(LOCAL).expect("the port is free");
    let ends = Ends::between(LOCAL.into(), PEER.into()).expect("one version");
    let found = stack.0.udp.table.lookup(&ends, Whose::Many);
    let pcb = found.expect("it is bound there");
    socket.connect(PEER).expect("by lo0");
    if mistake != Mistake::LateWaker {
        socket.set_waker(Some(Waker::from(Arc::new(Looker(Arc::clone(&pcb))))));
    }
    let readers = [2, 1].map(|count| {
        let (socket, pcb) = (socket.clone(), Arc::clone(&pcb));
        spawn(move || read(&socket, &pcb, count, mistake))
    });
    let sources = [2, 1].map(|count| {
        let (stack, pcb) = (stack.clone(), Arc::clone(&pcb));
        spawn(move || {
            let one = |batch: &mut Batch<'_>| arrive(batch, &pcb, mistake);
            (0..count).for_each(|_| stack.0.enter(one));
        })
    });
    report(stack);
    join(readers);
    join(sources);
    assert!(pcb.queue.is_empty());
    while socket.take_error().is_some() {}
    drop(socket);
    // No reference is left: the test itself has the last one.
    assert_eq!(Arc::strong_count(&pcb), 1, "somebody knows a closed socket");
}

/// An ICMP error about a datagram to the peer comes in.
fn report(stack: &Stack) {
    let quoted = Quoted {
        proto: IpProto::UDP,
        ends: Ends::between(OWN.into(), PEER.into()).expect("one version"),
        seq: SeqNum(0),
        total_len: 0,
    };
    let report = |batch: &mut Batch<'_>| udp::input::control(batch, IcmpError::Port, &quoted);
    stack.0.enter(report);
}

/// A reader, whose socket another thread connects to a peer that is not there.
fn connected_late(stack: &Stack, _: Mistake) {
    let socket = stack.udp_bind(LOCAL).expect("the port is free");
    let reader = {
        let socket = socket.clone();
        spawn(move || {
            assert!(matches!(
                socket.recv_blocking(None),
                Err(RecvError::Icmp(_))
            ))
        })
    };
    socket.connect(PEER).expect("by lo0");
    report(stack);
    join([reader]);
}

/// A connection that answers nothing: so no buffer is ever needed.
fn connection(stack: &Stack) -> TcpStream {
    let inner = &stack.0;
    let t = Tcb::new(
        &inner.tcp.config,
        State::SynSent,
        SeqNum(99),
        1460,
        stack.now(),
    );
    let ends = Ends::between(LOCAL.into(), PEER.into()).expect("one version");
    let pcb = Inpcb::new(ends, 0, t);
    assert!(inner.tcp.table.insert(&pcb, 8).is_ok());
    TcpStream::from_pcb(Arc::clone(inner), pcb)
}

/// What the peer's reset (`steps`) does to a connection, and a mistake that it could make.
fn reset(stack: &Stack, pcb: &Arc<Inpcb>, mistake: Mistake) {
    stack.0.enter(|batch| {
        let mut t = visit::begin(pcb);
        t.notify();
        t.close(Some(SocketError::Reset));
        match mistake {
            Mistake::ForgottenWakes => t.due -= Due::WAKE,
            Mistake::WakeUnderLock => t.conn.waiters.take_all().wake(),
            _ => {}
        }
        drop(t);
        visit::schedule(batch, pcb);
    });
}

/// A waker that looks at the connection when it is called.
struct StreamLooker(Arc<Inpcb>);

impl Wake for StreamLooker {
    fn wake(self: Arc<Self>) {
        let _: State = self.0.lock_inside().conn.state;
    }
}

/// A task that waits for one direction: it polls, and sleeps until its waker is called.
fn poll_until_the_end(stream: &TcpStream, want: Want) {
    let ended = Parker::new().block_on(
        || None,
        |waker| {
            let mut cx = Context::from_waker(waker.expect("it may wait"));
            match want {
                Want::Read => stream.poll_read(&mut cx, &mut [0; 8]).map_ok(|_| ()),
                Want::Write => stream.poll_connected(&mut cx),
            }
        },
    );
    assert!(matches!(
        ended,
        Some(Err(SocketError::Reset | SocketError::Closed))
    ));
}

/// Two readers of a connection, and a task of each direction; the peer resets it, or its user, or both. (Mistakes are
/// the peer's.)
fn an_end(stack: &Stack, mistake: Mistake) {
    let stream = Arc::new(connection(stack));
    let pcb = stream.side().pcb;
    let looker = Arc::new(StreamLooker(Arc::clone(&pcb)));
    stream.set_waker(Some(Waker::from(looker)));
    let readers = [1, 100].map(|len| {
        let stream = Arc::clone(&stream);
        spawn(move || {
            let ended = stream.recv_blocking(&mut vec![0; len], None);
            assert!(matches!(
                ended,
                Err(SocketError::Reset | SocketError::Closed)
            ));
        })
    });
    let tasks = [Want::Read, Want::Write].map(|want| {
        let stream = Arc::clone(&stream);
        spawn(move || poll_until_the_end(&stream, want))
    });
    let (by_peer, by_user) = match mistake {
        Mistake::None => [(true, false), (false, true), (true, true)][thread_rng().gen_range(0..3)],
        _ => (true, false),
    };
    let other = by_user.then(|| {
        let stream = Arc::clone(&stream);
        spawn(move || stream.abort())
    });
    if by_peer {
        reset(stack, &pcb, mistake);
    }
    join(readers);
    join(tasks);
    join(other);
    drop(stream);
    assert_eq!(stack.0.tcp.table.len(), 0);
    assert_eq!(
        Arc::strong_count(&pcb),
        1,
        "somebody knows a closed connection"
    );
}

#[test]
fn socket_wakeup_of_datagrams() {
    // Breaks if a reader sleeps while a datagram waits, or a waker is called under a lock.
    check("socket wakeup, datagrams", datagrams, Mistake::None);
}

#[test]
fn socket_wakeup_of_a_socket_that_is_connected_meanwhile() {
    // Breaks if a reader that waits for a datagram sleeps on when its socket is connected and an error comes.
    check("socket wakeup, connect", connected_late, Mistake::None);
}

#[test]
fn socket_wakeup_at_an_end() {
    // Breaks if a reader sleeps on after the end: as after `abort` by another thread, once.
    check("socket wakeup, an end", an_end, Mistake::None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn socket_wakeup_finds_a_waker_left_too_late() {
    check("socket wakeup, datagrams", datagrams, Mistake::LateWaker);
}

#[test]
#[should_panic(expected = "deadlock")]
fn socket_wakeup_finds_datagrams_that_wake_no_reader() {
    check(
        "socket wakeup, datagrams",
        datagrams,
        Mistake::ForgottenWakes,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn socket_wakeup_finds_an_end_that_wakes_no_reader() {
    check("socket wakeup, an end", an_end, Mistake::ForgottenWakes);
}

#[test]
#[should_panic(expected = "deadlock")]
fn socket_wakeup_finds_a_waker_called_under_a_lock() {
    check("socket wakeup, an end", an_end, Mistake::WakeUnderLock);
}

#[test]
#[should_panic(expected = "deadlock")]
fn socket_wakeup_finds_a_reader_that_sleeps_without_a_look() {
    check("socket wakeup, datagrams", datagrams, Mistake::HastySleeper);
}

#[test]
#[should_panic(expected = "deadlock")]
fn socket_wakeup_finds_a_wake_that_comes_in_two_steps() {
    check("socket wakeup, datagrams", datagrams, Mistake::HastyWaker);
}
