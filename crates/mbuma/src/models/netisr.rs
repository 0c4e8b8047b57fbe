//! The model `netisr_workstream`: the real workstreams, queues and batches. A schedule checker tries random orders of
//! the threads' steps.
//!
//! Two sources bring in numbered packets of a flow each, in batches, one batch after the other; each CPU has a
//! worker, which sleeps unless it is kicked; another thread changes the policy meanwhile. Each packet must be handled
//! once, in its flow's order, and no worker may sleep while something waits for it. Then the same with mistakes, each
//! of which must be found.
//!
//! | mistake | effect |
//! |---|---|
//! | [`Mistake::BlindDirect`] | a packet is handled at once without a check of the queue |
//! | [`Mistake::BlindOwner`] | the owner of a queue does not check for packets that were put since |
//! | [`Mistake::IdleTooEarly`] | a queue is idle once its packets were taken, not once they were handled |
//! | [`Mistake::SleepsAfterALook`] | a worker sleeps because nothing waited before it released its queue |
//! | [`Mistake::LostKick`] | an owner that releases a queue leaves packets and does not kick the CPU |
//!
//! `cargo xtask shuttle` runs it.

use std::collections::VecDeque;
use std::sync::Arc;

use kern::prim::{AtomicU64, Condvar, Mutex, Ordering};
use kern::work_queue::{Handler, Items, Left, PutOutcome};
use kern::{LockClass, order};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::batch_queues::{BatchQueues, Effect};
use super::queues::{Disposition, ProtocolQueues};
use crate::config::{Dispatch, Protocol};

/// The number of orders in which all scenarios together try the protocol without a mistake, see [`check`], and within
/// which a mistake must be found.
const RUNS: usize = 6000;
const FLOWS: usize = 2;

static KICKS: LockClass = LockClass::new("model", order::UNRANKED);

fn check(name: String, runs: usize, scenario: impl Fn() + Send + Sync + 'static) {
    kern::model::Model::new(name)
        .runs(runs)
        .any_switches()
        .seed(0x0e7_2004)
        .check(scenario);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    BlindDirect,
    BlindOwner,
    IdleTooEarly,
    SleepsAfterALook,
    LostKick,
}

/// The number of a packet in its flow, from 1.
type Packet = (usize, u64);

#[derive(Default)]
struct Packets(VecDeque<Packet>);

impl Items for Packets {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn take_from(&mut self, other: &mut Self, n: usize) {
        let n = n.min(other.0.len());
        self.0.extend(other.0.drain(..n));
    }
}

struct Model {
    all: [ProtocolQueues<Packets>; Protocol::ALL.len()],
    mistake: Mistake,
    cpus: usize,
    /// Sources change policies between packets.
    changing: bool,
    /// The last packet of each flow that was handled.
    seen: [AtomicU64; FLOWS],
    state: Mutex<State>,
    changed: Condvar,
}

/// The state that sleeping threads wait for.
#[derive(Default)]
struct State {
    kicked: [bool; FLOWS],
    handled: u64,
    stop: bool,
}

/// Steps between two batches.
const PAUSE_MAX: usize = 16;
/// Packets of one flow.
const PACKETS: u64 = 3;

impl Model {
    fn new(cpus: usize, policy: Option<Dispatch>, mistake: Mistake) -> Arc<Self> {
        let first = policy.unwrap_or_else(any_policy);
        Arc::new(Self {
            all: Protocol::ALL.map(|protocol| ProtocolQueues::new(protocol, cpus, first, 8)),
            mistake,
            cpus,
            changing: policy.is_none(),
            seen: [const { AtomicU64::new(0) }; FLOWS],
            state: Mutex::new(&KICKS, State::default()),
            changed: Condvar::new(),
        })
    }

    fn queues(&self) -> &ProtocolQueues<Packets> {
        &self.all[Protocol::Ip4 as usize]
    }

    fn handle(&self, (flow, number): Packet) {
        thread::yield_now();
        let before = self.seen[flow].swap(number, Ordering::SeqCst);
        assert_eq!(before + 1, number, "out of order");
        let mut state = self.state.lock();
        state.handled += 1;
        self.changed.notify_all();
    }

    fn kick(&self, cpu: usize) {
        let mut state = self.state.lock();
        state.kicked[cpu] = true;
        self.changed.notify_all();
    }

    /// Treats a packet as `Batch` and `here` do.
    fn dispatch(
        &self,
        me: usize,
        mine: &mut BatchQueues<Packets>,
        kicks: &mut Vec<usize>,
        p: Packet,
    ) {
        let (ip, home) = (Protocol::Ip4, p.0 % self.cpus);
        let way = match self.mistake {
            Mistake::BlindDirect if self.queues().policy() == Dispatch::Direct => Disposition::Now,
            Mistake::BlindOwner if self.is_blind(mine, home) => Disposition::Owned,
            _ => self.queues().disposition(me, mine, || home),
        };
        match way {
            Disposition::Now | Disposition::Owned => self.handle(p),
            Disposition::Own(cpu) => {
                mine.own(ip, cpu);
                self.handle(p);
            }
            Disposition::Queue(cpu) => {
                mine.packets(ip, cpu).0.push_back(p);
                // As if it were large enough, sometimes.
                if thread_rng().gen_bool(0.5) {
                    let mut packets = std::mem::take(mine.packets(ip, cpu));
                    let put = self.queues().put(me, cpu, &mut packets, Handler::Receiver);
                    if matches!(put, PutOutcome::Wake(_)) {
                        kicks.push(cpu);
                    }
                }
            }
        }
    }

    /// Whether it owns the workstream, and assumes that no other thread has queued anything there.
    fn is_blind(&self, mine: &BatchQueues<Packets>, home: usize) -> bool {
        let collected = mine.has(Protocol::Ip4, home);
        let deferred = self.queues().policy() == Dispatch::Deferred;
        mine.owns(Protocol::Ip4, home) && !collected && !deferred
    }

    /// A batch of packets from a device or, under `Protocol::Loopback`, from a socket.
    fn batch(&self, me: usize, packets: &[Packet]) {
        let (mut mine, mut kicks) = (BatchQueues::default(), Vec::new());
        for &packet in packets {
            if self.changing && thread_rng().gen_bool(0.3) {
                self.change_policy();
            }
            self.dispatch(me, &mut mine, &mut kicks, packet);
        }
        self.finish(me, mine, kicks);
    }

    fn finish(&self, me: usize, mut mine: BatchQueues<Packets>, mut kicks: Vec<usize>) {
        let mut released = Vec::new();
        while let Some(packets) = mine.settle(&self.all, me, |effect| match effect {
            Effect::Kick(cpu) => released.push(cpu),
            Effect::Full(_) => unreachable!("there is room"),
        }) {
            packets.0.into_iter().for_each(|packet| self.handle(packet));
        }
        if self.mistake != Mistake::LostKick {
            kicks.extend(released);
        }
        kicks.into_iter().for_each(|cpu| self.kick(cpu));
    }

    /// A packet to ourselves, and the end of its batch.
    fn loop_back(&self, me: usize, packet: Packet) {
        let queues = &self.all[Protocol::Loopback as usize];
        let (mut mine, mut kicks) = (BatchQueues::default(), Vec::new());
        let cpu = packet.0 % self.cpus;
        let by = match queues.policy() {
            Dispatch::Direct => Handler::Caller,
            Dispatch::Hybrid if cpu == me => Handler::Caller,
            _ => Handler::Receiver,
        };
        let mut packets = Packets(VecDeque::from([packet]));
        match queues.put(me, cpu, &mut packets, by) {
            PutOutcome::Wake(_) => kicks.push(cpu),
            PutOutcome::Owned => mine.own(Protocol::Loopback, cpu),
            PutOutcome::Queued | PutOutcome::Full | PutOutcome::Away | PutOutcome::Closed => {}
        }
        self.finish(me, mine, kicks);
    }

    /// Brings in a flow, in batches of any length, with pauses of any length between them.
    fn source(&self, me: usize, flow: usize, loops: bool) {
        let mut packets: Vec<_> = (1..=PACKETS).map(|number| (flow, number)).collect();
        while !packets.is_empty() {
            let rest = packets.split_off(thread_rng().gen_range(1..=packets.len()));
            if loops {
                packets
                    .into_iter()
                    .for_each(|packet| self.loop_back(me, packet));
            } else {
                self.batch(me, &packets);
            }
            packets = rest;
            // So that workers come to their ends meanwhile.
            (0..thread_rng().gen_range(0..PAUSE_MAX)).for_each(|_| thread::yield_now());
        }
    }

    /// A kicked worker's run: one packet at a time, or all.
    fn run(&self, cpu: usize) {
        while self.all.iter().any(|queues| queues.is_scheduled(cpu)) {
            let budget = if thread_rng().gen_bool(0.5) { 1 } else { 9 };
            let saw_none = |queues| self.run_queues(queues, cpu, budget);
            let none_waits = self
                .all
                .iter()
                .map(saw_none)
                .fold(true, |all, one| all && one);
            if none_waits && self.mistake == Mistake::SleepsAfterALook {
                return;
            }
        }
    }

    /// Returns whether no packet waited before it released the queue.
    fn run_queues(&self, queues: &ProtocolQueues<Packets>, cpu: usize, budget: usize) -> bool {
        let Some(mut packets) = queues.begin(cpu) else {
            return true;
        };
        if self.mistake == Mistake::IdleTooEarly {
            let _: Left = queues.end(cpu, 0, Packets::default());
        }
        let mut now = Packets::default();
        now.take_from(&mut packets, budget);
        let handled = now.0.len() as u64;
        now.0.into_iter().for_each(|packet| self.handle(packet));
        if self.mistake == Mistake::IdleTooEarly {
            packets.0.into_iter().for_each(|packet| self.handle(packet));
            return true;
        }
        let none_waits = packets.is_empty() && queues.counts(cpu).waiting == 0;
        let _: Left = queues.end(cpu, handled, packets);
        none_waits
    }

    /// Sleeps unless another thread kicked it, works, until a thread tells it to stop.
    fn worker(&self, cpu: usize) {
        loop {
            let mut state = self.state.lock();
            while !state.kicked[cpu] && !state.stop {
                state = self.changed.wait(state, None);
            }
            if !std::mem::take(&mut state.kicked[cpu]) {
                return;
            }
            drop(state);
            self.run(cpu);
        }
    }

    /// Waits for everything to be handled, which a lost wakeup prevents for ever.
    fn wait_for(&self, handled: u64) {
        let mut state = self.state.lock();
        while state.handled < handled {
            state = self.changed.wait(state, None);
        }
        state.stop = true;
        self.changed.notify_all();
    }

    fn change_policy(&self) {
        for queues in &self.all {
            queues.set_policy(any_policy());
        }
    }
}

fn any_policy() -> Dispatch {
    Dispatch::ALL[thread_rng().gen_range(0..Dispatch::ALL.len())]
}

/// Sources on `cpus` CPUs, under one policy, or under any, which they and another thread change. `loops`: one of them
/// sends to ourselves.
fn netisr_workstream(cpus: usize, policy: Option<Dispatch>, loops: bool, mistake: Mistake) {
    let model = Model::new(cpus, policy, mistake);
    let spawn = |run: Box<dyn FnOnce(&Model) + Send>| {
        let model = Arc::clone(&model);
        thread::spawn(move || run(&model))
    };
    let mut threads: Vec<_> = (0..cpus)
        .map(|cpu| spawn(Box::new(move |m| m.worker(cpu))))
        .collect();
    for flow in 0..FLOWS {
        // Not each on its flow's CPU.
        let me = thread_rng().gen_range(0..cpus);
        threads.push(spawn(Box::new(move |m| {
            m.source(me, flow, loops && flow == 0)
        })));
    }
    for _ in 0..if policy.is_some() { 0 } else { 2 } {
        model.change_policy();
        thread::yield_now();
    }
    model.wait_for(FLOWS as u64 * PACKETS);
    threads
        .into_iter()
        .for_each(|t| t.join().expect("no panic"));
    for queues in &model.all {
        assert!(queues.is_valid() && queues.is_quiet());
    }
}

fn right(cpus: usize, loops: bool) {
    let loops_too = if loops { ", to ourselves" } else { "" };
    let name = format!("netisr workstream, {cpus} CPUs{loops_too}");
    check(name, RUNS, move || {
        netisr_workstream(cpus, None, loops, Mistake::None)
    });
}

fn wrong(mistake: Mistake, policy: Option<Dispatch>) {
    check(format!("{mistake:?}, not found"), RUNS, move || {
        netisr_workstream(2, policy, false, mistake)
    });
}

// These tests break when a change of the protocol makes one of the mistakes below, or a similar one.

#[test]
fn netisr_workstream_on_one_cpu() {
    right(1, false);
}

#[test]
fn netisr_workstream_on_two_cpus() {
    right(2, false);
}

#[test]
fn netisr_workstream_to_ourselves_on_one_cpu() {
    right(1, true);
}

#[test]
fn netisr_workstream_to_ourselves_on_two_cpus() {
    right(2, true);
}

// These tests break when the model does not find a mistake.

#[test]
#[should_panic(expected = "out of order")]
fn a_packet_that_overtakes_what_waits_is_found() {
    wrong(Mistake::BlindDirect, None);
}

#[test]
#[should_panic(expected = "out of order")]
fn an_owner_that_does_not_look_is_found() {
    wrong(Mistake::BlindOwner, None);
}

#[test]
#[should_panic(expected = "out of order")]
fn a_queue_that_is_idle_before_its_packets_were_handled_is_found() {
    wrong(Mistake::IdleTooEarly, None);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_worker_that_sleeps_over_a_packet_is_found() {
    wrong(Mistake::SleepsAfterALook, Some(Dispatch::Deferred));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_kick_that_is_forgotten_is_found() {
    wrong(Mistake::LostKick, None);
}
