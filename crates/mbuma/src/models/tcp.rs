//! The end of a connection against late segments and timers, under a schedule checker: shuttle tries random orders of
//! the threads' steps. The stack is the real one; the checker controls the locks of the table, of connections and of
//! wheels, and the connections' marks.
//!
//! | scenario | what races |
//! |---|---|
//! | `lookup_against_close` | segments of a connection, its user's close, a SYN that takes its place |
//! | `timer_against_close` | its timer, an earlier timer that is set, a SYN that takes its place |
//!
//! Whatever the order: each segment ends delivered or in a counted drop; each connection in the table in the end is
//! open, and the successor if there was one; nothing but its handle and TIME-WAIT's row knows the old connection any
//! more, and no wheel has an entry. Each scenario is run again with a mistake that it is there to find.
//!
//! `cargo xtask shuttle` runs it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use kern::model::Model;
use kern::{Random, Time, VirtualClock};
use mbuf::Chain;
use shuttle::thread;
use wire::{SeqNum, TcpFlags};

use super::options::SegmentOptions;
use super::pcb::{Inpcb, State, Tcb};
use super::segment::Segment;
use super::timers::fields::TcpTimer;
use super::{input, time_wait, visit};
use crate::device::Capabilities;
use crate::device::memory::Pipe;
use crate::faults::StackFault;
use crate::ifnet::Ifnet;
use crate::inet::{Ends, Pair};
use crate::ip::{self, DestScope};
use crate::socket::{Interceptor, Refusal};
use crate::stack::Stack;
use crate::{Config, IfConfig};

/// The peer's next sequence number, and that of a SYN that begins anew.
const NEXT: SeqNum = SeqNum(1000);
const ANEW: SeqNum = SeqNum(2000);
/// Our first sequence number.
const ISS: SeqNum = SeqNum(99);
const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

fn check(name: &str, scenario: fn()) {
    Model::new(name).seed(0x0793_1981).check(scenario);
}

/// A stack without connections.
struct World {
    stack: Stack,
    ifp: Arc<Ifnet>,
    clock: Arc<VirtualClock>,
    /// Takes SYNs, and answers none: so no buffer is ever needed.
    interceptor: Interceptor,
}

fn ends() -> Ends {
    Ends::V4(Pair {
        local: LOCAL,
        peer: PEER,
        local_port: 80,
        peer_port: 5000,
    })
}

impl World {
    fn new() -> Arc<Self> {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let mut config = Config::new(clock.clone(), Random::from_seed(1));
        // No segment is answered with a reset, which would need a buffer.
        config.icmp_errors_per_s = 0;
        let stack = Stack::new(config).expect("address space");
        let config = IfConfig {
            accept_any: true,
            ..IfConfig::new("pipe0").with_addr(LOCAL, 24)
        };
        let device = Arc::new(Pipe::pair(Capabilities::whole(1500)).0);
        let index = stack.attach(device, config).unwrap();
        let interceptor = stack.tcp_intercept(index, 8).expect("the first");
        let ifp = stack.0.interface(index).expect("it is there");
        Arc::new(Self {
            stack,
            ifp,
            clock,
            interceptor,
        })
    }

    /// A segment of the peer's.
    fn segment(&self, seq: SeqNum, flags: TcpFlags) {
        let stack = &self.stack.0;
        stack.received.inc();
        let ip = ip::Received {
            ifp: &self.ifp,
            scope: DestScope::Local,
            header_len: 20,
            tos: 0,
            ttl: 64,
        };
        let mut segment = Segment {
            ends: ends(),
            seq,
            start: seq,
            ack: ISS + 2,
            flags,
            window: 1000,
            urgent: 0,
            options: SegmentOptions::default(),
            mark: 0,
            segsz: 0,
            payload: 0,
            data: Chain::new(),
        };
        stack.enter(|batch| input::demultiplex(batch, &mut segment, &ip));
    }

    /// Looks at what is left when all is done.
    fn judge(&self, old: &Arc<Inpcb>) {
        let stats = self.stack.stats();
        let inward = stats.dropped.iter().filter(|(r, _)| !r.is_outward());
        let limited = crate::DropReason::ResetRateLimited;
        let dropped: u64 = (inward.filter(|(r, _)| *r != limited).map(|&(_, n)| n)).sum();
        assert_eq!(
            stats.received,
            stats.delivered + dropped,
            "a segment is not counted"
        );

        let tcp = &self.stack.0.tcp;
        let (all, queued) = (tcp.table.all(), self.interceptor.next());
        assert_eq!(tcp.table.len(), all.len());
        match (&all[..], &queued) {
            ([], None) => assert_eq!(old.lock_inside().conn.state, State::Closed),
            ([only], None) => assert!(Arc::ptr_eq(only, old), "a stranger"),
            ([only], Some(_)) => {
                assert!(!Arc::ptr_eq(only, old), "the old one came back");
                assert_eq!(
                    only.lock_inside().conn.state,
                    State::SynHeld,
                    "something touched it"
                );
            }
            _ => panic!("the successor is lost"),
        }
        let ended = all.iter().all(|pcb| !Arc::ptr_eq(pcb, old));
        drop(all);
        if let Some(successor) = queued {
            successor.refuse(Refusal::Ignore);
        }
        if ended {
            let mut cpus = 0..tcp.wheels.cpus();
            let none = cpus.all(|cpu| tcp.wheels.deadline(cpu).is_none());
            assert!(none, "an entry of the old one is on a wheel");
            // This test does, and the row of those in TIME-WAIT, until it is the last.
            assert_eq!(Arc::strong_count(old), 2, "somebody knows the old one");
        }
    }
}

/// A connection in TIME-WAIT: both sides have said all.
fn waiting_connection(stack: &Stack) -> Arc<Inpcb> {
    let inner = &stack.0;
    let mut t = Tcb::new(&inner.tcp.config, State::FinWait2, ISS, 1460, stack.now());
    (t.send.una, t.send.nxt, t.send.buf_seq) = (ISS + 2, ISS + 2, ISS + 1);
    (t.send.fin_queued, t.conn.orphan) = (true, true);
    (t.recv.nxt, t.recv.adv) = (NEXT, NEXT + 1000);
    let pcb = Inpcb::new(ends(), 0, t);
    assert!(inner.tcp.table.insert(&pcb, 8).is_ok());
    inner.enter(|batch| {
        time_wait::enter(batch, &mut pcb.lock_inside());
        visit::schedule(batch, &pcb);
    });
    pcb
}

/// An action of a thread with the connection.
type Act = fn(&World, &Arc<Inpcb>);

fn run(planted: Option<StackFault>, acts: [Act; 3]) {
    let _planted = planted.map(kern::fault::plant);
    let world = World::new();
    let old = waiting_connection(&world.stack);
    let threads = acts.map(|act| {
        let (world, old) = (Arc::clone(&world), Arc::clone(&old));
        thread::spawn(move || act(&world, &old))
    });
    for thread in threads {
        thread.join().expect("no panic");
    }
    world.judge(&old);
}

/// An old segment, once more; it asks for nothing.
fn late_segment(world: &World, _: &Arc<Inpcb>) {
    world.segment(NEXT, TcpFlags::ACK);
}

/// The peer begins a new connection between the same ports.
fn syn(world: &World, _: &Arc<Inpcb>) {
    world.segment(ANEW, TcpFlags::SYN);
}

/// A thread ends the old connection, and removes it at the end of a batch.
fn close(world: &World, old: &Arc<Inpcb>) {
    world.stack.0.enter(|batch| {
        old.lock_inside().close(None);
        visit::schedule(batch, old);
    });
}

/// The time of TIME-WAIT is over.
fn timers(world: &World, _: &Arc<Inpcb>) {
    world.clock.advance(Duration::from_secs(60));
    world.stack.poll();
}

/// A timer that is due before all others is set; on a closed connection there are none.
fn earlier_timer(world: &World, old: &Arc<Inpcb>) {
    world.stack.0.enter(|batch| {
        let mut t = old.lock_inside();
        if t.conn.state != State::Closed {
            t.timers
                .set(TcpTimer::DelayedAck, batch.now + Duration::from_secs(1));
        }
        drop(t);
        visit::schedule(batch, old);
    });
}

fn lookups(planted: Option<StackFault>) {
    run(planted, [late_segment, close, syn]);
}

fn timer(planted: Option<StackFault>) {
    run(planted, [timers, earlier_timer, syn]);
}

#[test]
fn lookup_against_close() {
    // Breaks if a lookup finds a removed connection, or a connection that ends also removes its successor.
    check("lookup against close", || lookups(None));
}

#[test]
#[should_panic(expected = "the successor is lost")]
fn lookup_against_close_finds_a_removal_by_key() {
    check("a removal by key, not found", || {
        lookups(Some(StackFault::LostSuccessor))
    });
}

#[test]
fn timer_against_close() {
    // Breaks if a timer touches a successor, or an entry outlives its connection on a wheel.
    check("timer against close", || timer(None));
}

#[test]
#[should_panic(expected = "on a wheel")]
fn timer_against_close_finds_a_forgotten_entry() {
    check("a forgotten entry, not found", || {
        timer(Some(StackFault::ForgottenEntry))
    });
}
