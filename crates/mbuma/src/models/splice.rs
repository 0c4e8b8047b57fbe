//! A splice between two stacks: shuttle tries random orders of the steps of threads that bring data.
//!
//! Such a splice has its turns in the threads that bring data. A thread asks for a turn unless one is scheduled, and
//! a turn says that none is scheduled before it looks: so bytes that come while it runs have a turn after it.
//!
//! A turn may come while both sides are still being attached; then it leaves all to the first turn after that.
//!
//! `cargo xtask shuttle` runs it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use kern::model::Model;
use kern::{Random, Time, VirtualClock};
use mbuf::Chain;
use shuttle::thread;
use wire::SeqNum;

use super::{SpliceEnd, SpliceOptions, splice};
use crate::faults::StackFault;
use crate::inet::Ends;
use crate::socket::TcpStream;
use crate::tcp::due::Due;
use crate::tcp::pcb::{Inpcb, State, Tcb};
use crate::tcp::visit;
use crate::{Config, Stack};

fn stack(seed: u64) -> Stack {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    Stack::new(Config::new(clock, Random::from_seed(seed))).expect("address space")
}

/// A connection to a peer that no route leads to: it sends nothing.
fn connection(stack: &Stack) -> TcpStream {
    let config = &stack.0.tcp.config;
    let mut t = Tcb::new(config, State::Established, SeqNum(99), 1460, stack.now());
    (t.send.una, t.send.nxt) = (SeqNum(100), SeqNum(100));
    let at = |host| SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), 80);
    let ends = Ends::between(at(1).into(), at(2).into()).expect("one version");
    let pcb = Inpcb::new(ends, 0, t);
    assert!(stack.0.tcp.table.insert(&pcb, 8).is_ok());
    TcpStream::from_pcb(Arc::clone(&stack.0), pcb)
}

/// A byte comes in.
fn arrive(stack: &Stack, pcb: &Arc<Inpcb>) {
    let byte = Chain::from_slice(stack.pool(), &[7]).expect("the pool is large");
    stack.0.enter(|batch| {
        let mut t = visit::begin(pcb);
        t.recv.buf.append(stack.pool(), byte);
        t.recv.nxt += 1;
        t.due |= Due::WAKE_READER;
        visit::end_later(batch, pcb, t);
    });
}

/// Three threads bring data at once to a connection of one stack that is spliced to a socket of another.
fn arrivals() {
    let stacks = [stack(1), stack(2)];
    let from = connection(&stacks[0]);
    let (to, far) = stacks[1].unix().pair();
    let spliced = splice(&from, &to, SpliceOptions::default()).expect("both are free");
    let threads = [(); 3].map(|()| {
        let (stack, pcb) = (stacks[0].clone(), from.side().pcb);
        thread::spawn(move || arrive(&stack, &pcb))
    });
    let each = threads.into_iter();
    each.for_each(|t| t.join().expect("no panic"));
    let mut received = [0; 4];
    assert_eq!((far.recv(&mut received), spliced.moved()), (Ok(3), 3));
    from.abort();
}

/// Data comes while the splice is made, and ends it.
fn early_data() {
    let stacks = [stack(1), stack(2)];
    let (near, from) = stacks[0].unix().pair();
    let (to, _far) = stacks[1].unix().pair();
    let sender = thread::spawn(move || {
        assert_eq!(near.send(&[1]), Ok(1));
        near
    });
    let options = SpliceOptions {
        max: Some(1),
        ..SpliceOptions::default()
    };
    let first = splice(&from, &to, options).expect("both are free");
    let _near = sender.join().expect("no panic");
    assert_eq!(first.outcome().map(|o| o.end), Some(SpliceEnd::Max));
    assert!(splice(&from, &to, options).is_ok(), "a place is taken");
}

fn check(scenario: fn()) {
    Model::new("splice between two stacks")
        .runs(4000)
        .seed(0x5011_ce02)
        .check(scenario);
}

#[test]
fn splice_between_stacks_leaves_no_byte_behind() {
    // Breaks if bytes that come while a turn runs wait for the next ones.
    check(arrivals);
}

#[test]
fn splice_between_stacks_that_ends_at_once_leaves_its_places() {
    // Breaks if a splice that data ends while it is made keeps its sink for ever.
    check(early_data);
}

#[test]
#[should_panic(expected = "assertion")]
fn splice_between_stacks_finds_a_mark_that_is_cleared_late() {
    let _planted = kern::fault::plant(StackFault::ClearsMarkLate);
    check(arrivals);
}
