//! The model `accept_queue`: the real listener, with peers that connect and give up, a user that sleeps in accept, and
//! one that closes. A schedule checker tries random orders of the threads' steps.
//!
//! The peers' part is what `listen` and `ack` do with the queue; accepting and closing are the user's real calls. In
//! each order a thread that sleeps in accept is woken, no more connections wait than the backlog allows, each place is
//! given back, and each connection has an owner in the end: its user, the listener's close, or the thread that came too
//! late for it. Then the same with mistakes, each of which must be found.
//!
//! | mistake | what goes wrong |
//! |---|---|
//! | [`Mistake::LateWaker`] | the user checks, then leaves its waker, and does not check again |
//! | [`Mistake::UnseenClose`] | a connection is queued because an earlier check found the user |
//! | [`Mistake::KeptPlace`] | a peer that gives up keeps its place |
//! | [`Mistake::TwoLooks`] | a connection is queued because an earlier check found room |
//!
//! `cargo xtask shuttle` runs it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::task::Poll;

use kern::model::Model;
use kern::prim::{Condvar, Mutex};
use kern::{LockClass, Random, Time, VirtualClock};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use wire::SeqNum;

use super::*;
use crate::Config;
use crate::inet::Ends;
use crate::park::Parker;
use crate::socket::TcpListener;
use crate::stack::Stack;
use crate::tcp::pcb::{State, Tcb};
use crate::tcp::visit;

const BACKLOG: usize = 2;
/// Peers, and connections that each begins.
const PEERS: u16 = 2;
const EACH: u16 = 2;
const LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);
/// The port of the last connection, which tells the user to stop.
const LAST: u16 = 9999;

static DONE: LockClass = LockClass::new("model", order::UNRANKED);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    LateWaker,
    UnseenClose,
    KeptPlace,
    TwoLooks,
}

struct Listening {
    stack: Stack,
    queue: Arc<AcceptQueue>,
    mistake: Mistake,
    /// Connections that came to an end.
    done: Mutex<u16>,
    changed: Condvar,
}

/// The flow of a connection from this port of the peer.
fn ends(port: u16) -> Ends {
    let peer = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), port);
    Ends::between(LOCAL.into(), peer.into()).expect("one version")
}

impl Listening {
    fn new(stack: &Stack, mistake: Mistake) -> (Arc<Self>, TcpListener) {
        let listener = stack
            .tcp_listen(
                SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, LOCAL.port()),
                BACKLOG,
            )
            .expect("the port is free");
        let queue = stack.0.tcp.listeners.find(&ends(1), true, IfIndex(1));
        let queue = queue.expect("it listens");
        let model = Self {
            stack: stack.clone(),
            queue,
            mistake,
            done: Mutex::new(&DONE, 0),
            changed: Condvar::new(),
        };
        (Arc::new(model), listener)
    }

    /// A connection that neither sends nor needs anything, but is in the table until it is ended.
    fn connection(&self, port: u16) -> Arc<Inpcb> {
        let inner = &self.stack.0;
        let ends = ends(port);
        let t = Tcb::new(
            &inner.tcp.config,
            State::Closed,
            SeqNum(99),
            1460,
            inner.clock.now(),
        );
        let pcb = Inpcb::new(ends, 0, t);
        assert!(inner.tcp.table.insert(&pcb, 64).is_ok());
        pcb
    }

    fn push(&self, place: &Place, pcb: &Arc<Inpcb>) -> Pushed {
        let (full, closed) = {
            let q = self.queue.queue.lock_inside();
            (q.ready.len() >= BACKLOG, q.closed)
        };
        let pushed = match self.mistake {
            Mistake::UnseenClose | Mistake::TwoLooks if closed => Pushed::Gone,
            Mistake::TwoLooks if full => Pushed::Full,
            Mistake::UnseenClose | Mistake::TwoLooks => {
                let mut q = self.queue.queue.lock_inside();
                q.syn_queue.forget(place.ticket);
                q.ready.push_back(Arc::clone(pcb));
                Pushed::Ready(q.acceptors.take(Want::Read))
            }
            _ => place.push(pcb),
        };
        let waiting = self.queue.queue.lock_inside().ready.len();
        assert!(waiting <= BACKLOG, "more than the backlog");
        pushed
    }

    /// A peer's SYN, and its acknowledgement or reset. Returns whether the user must get the connection.
    fn connect(&self, port: u16) -> bool {
        let pcb = self.connection(port);
        let Some((place, oldest)) = self.queue.reserve(pcb.ends()) else {
            self.end(&pcb);
            return false;
        };
        assert!(oldest.is_none(), "there is room for more");
        if port != LAST && thread_rng().gen_bool(0.3) {
            if self.mistake != Mistake::KeptPlace {
                place.give_up();
            }
            self.end(&pcb);
            return false;
        }
        match self.push(&place, &pcb) {
            Pushed::Ready(wakes) => {
                self.stack.0.enter(|batch| batch.wake(wakes));
                true
            }
            // This peer does not come again.
            Pushed::Full => {
                place.give_up();
                self.end(&pcb);
                false
            }
            Pushed::Gone => {
                self.end(&pcb);
                false
            }
        }
    }

    fn end(&self, pcb: &Arc<Inpcb>) {
        pcb.lock_inside().close(None);
        self.stack.0.enter(|batch| visit::schedule(batch, pcb));
    }

    fn peer(&self, peer: u16) {
        for n in 0..EACH {
            if !self.connect(1000 * (peer + 1) + n) {
                self.ended();
            }
        }
    }

    fn ended(&self) {
        *self.done.lock() += 1;
        self.changed.notify_all();
    }

    fn wait_for_all(&self) {
        let mut done = self.done.lock();
        while *done < PEERS * EACH {
            done = self.changed.wait(done, None);
        }
    }

    /// Accepts until the last connection comes.
    fn user(&self, listener: &TcpListener) {
        loop {
            let stream = match self.mistake {
                Mistake::LateWaker => self.accept_with_a_late_waker(listener),
                _ => listener.accept_blocking(None).ok(),
            };
            if stream.expect("no timeout").peer_addr().port() == LAST {
                return;
            }
            self.ended();
        }
    }

    fn accept_with_a_late_waker(&self, listener: &TcpListener) -> Option<crate::TcpStream> {
        Parker::new().block_on(
            || None,
            |waker| match listener.accept() {
                Ok(stream) => Poll::Ready(stream),
                Err(_) => {
                    let mut q = self.queue.queue.lock_inside();
                    q.acceptors.add(Want::Read, waker.expect("it may wait"));
                    Poll::Pending
                }
            },
        )
    }

    /// Nothing is left when both sides are done.
    fn judge(&self) {
        assert_eq!(self.stack.0.tcp.table.len(), 0, "nobody ended a connection");
        let q = self.queue.queue.lock_inside();
        assert!(q.ready.is_empty());
        assert_eq!(q.syn_queue.len(), 0, "a place is lost");
    }
}

fn check(name: &str, scenario: fn(Mistake), mistake: Mistake) {
    Model::new(format!("{name}, {mistake:?}"))
        .any_switches()
        .seed(0x0acc_2004)
        .check(move || scenario(mistake));
}

fn stack() -> Stack {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    Stack::new(Config::new(clock, Random::from_seed(1))).expect("address space")
}

fn start_peers(model: &Arc<Listening>) -> Vec<thread::JoinHandle<()>> {
    let start = |peer| {
        let model = Arc::clone(model);
        thread::spawn(move || model.peer(peer))
    };
    (0..PEERS).map(start).collect()
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    let each = threads.into_iter();
    each.for_each(|t| t.join().expect("no panic"));
}

/// A user accepts all that come.
fn accepting(mistake: Mistake) {
    let stack = stack();
    let (model, listener) = Listening::new(&stack, mistake);
    let mut threads = start_peers(&model);
    let users = Arc::clone(&model);
    threads.push(thread::spawn(move || users.user(&listener)));
    model.wait_for_all();
    assert!(model.connect(LAST), "there is no room where nobody waits");
    join(threads);
    model.judge();
}

/// A user accepts at most one, and goes.
fn closing(mistake: Mistake) {
    let stack = stack();
    let (model, listener) = Listening::new(&stack, mistake);
    let threads = start_peers(&model);
    drop(listener.accept());
    drop(listener);
    join(threads);
    model.judge();
}

#[test]
fn an_accept_queue_loses_no_wakeup_and_no_place() {
    // Breaks if a user sleeps while a connection waits, a place is lost, or the backlog does not hold.
    check("accept queue", accepting, Mistake::None);
}

#[test]
fn accept_queue_against_close() {
    // Breaks if a connection is queued where no thread will ever take it, and stays for ever.
    check("accept queue against close", closing, Mistake::None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn accept_queue_finds_a_waker_left_too_late() {
    check("accept queue", accepting, Mistake::LateWaker);
}

#[test]
#[should_panic(expected = "nobody ended a connection")]
fn accept_queue_finds_a_close_that_was_not_seen() {
    check("accept queue against close", closing, Mistake::UnseenClose);
}

#[test]
#[should_panic(expected = "a place is lost")]
fn accept_queue_finds_a_place_that_is_kept() {
    check("accept queue", accepting, Mistake::KeptPlace);
}

#[test]
#[should_panic(expected = "more than the backlog")]
fn accept_queue_finds_a_place_taken_twice() {
    check("accept queue", accepting, Mistake::TwoLooks);
}
