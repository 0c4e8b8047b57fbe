//! A network: stacks, wires and peers, one clock and one queue of events.
//!
//! ```text
//!   settle    apps that were woken run; frames that stacks sent go onto wires; until all is quiet
//!   jump      the clock goes to the next event or the next timer of a stack
//!   turn      events that are due happen, stacks whose timers are due are polled
//! ```
//!
//! Stacks that have virtual CPUs are driven otherwise: `turns` draws which CPU runs next.
//!
//! Invariants: events of one instant happen in the order in which they were planned, and all other
//! work in the order of ids, so that the same seed and the same calls give the same trace.

use std::sync::Arc;
use std::time::Duration;

use kern::{Clock, Random, Time, VirtualClock};
use mbuma::device::Budget;
use mbuma::device::impair::DelayQueue;
use mbuma::{IfIndex, Stack};

use crate::app::{App, Context};
use crate::event::{AppId, NodeId, What};
use crate::frame::Frame;
use crate::peer::Peer;
use crate::port::Port;
use crate::ready::{AppWaker, Ready};
use crate::trace::Trace;
use crate::virtual_cpu_set::VirtualCpuSet;
use crate::wire::Wire;

mod build;
mod cables;
mod turns;

use cables::CableEnd;
use turns::Turns;

/// The time at which a net begins: not zero, and half an hour before 32 bits of milliseconds wrap, so that longer runs
/// include the wrap.
pub(crate) const START: Time = Time::from_millis((1 << 32) - 1_800_000);

/// After this many turns within one instant, time is taken to stand still.
const TURNS_MAX: u32 = 100_000;

/// The owner of an end of a wire.
#[derive(Debug, Clone, Copy)]
enum End {
    Port(usize),
    Peer(usize),
    /// Frames that come out go into another wire at this end.
    Repeater {
        wire: usize,
        end: usize,
    },
}

struct Node {
    stack: Stack,
    /// Its virtual CPUs, if it has several.
    cpu_set: Option<VirtualCpuSet>,
}

#[derive(Debug)]
struct Slot {
    node: usize,
    ifindex: IfIndex,
    port: Arc<Port>,
    wire: usize,
    end: usize,
    /// A wakeup of the stack is planned; frames until then need none.
    interrupt_planned: bool,
    /// Which CPU it interrupts.
    cpu: usize,
}

struct Running {
    app: Option<Box<dyn App>>,
    /// The stack that it uses; `None`: any.
    node: Option<usize>,
    waker: Arc<AppWaker>,
    /// The time of its next call, if it requested one.
    alarm: Option<Time>,
}

/// A network in virtual time.
pub struct Net {
    clock: Arc<VirtualClock>,
    random: Random,
    queue: DelayQueue<What>,
    nodes: Vec<Node>,
    slots: Vec<Slot>,
    wires: Vec<(Wire, Vec<End>)>,
    peers: Vec<(Peer, usize, usize)>,
    apps: Vec<Running>,
    ready: Ready,
    cables: Vec<[CableEnd; 2]>,
    /// Draws the CPU that runs next, if a stack has CPUs.
    turns: Option<Turns>,
    trace: Trace,
}

impl Net {
    /// An empty network. All random choices are drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::from_random(Random::from_seed(seed))
    }

    pub(crate) fn from_random(random: Random) -> Self {
        Self {
            clock: Arc::new(VirtualClock::new(START)),
            random,
            queue: DelayQueue::new(),
            nodes: Vec::new(),
            slots: Vec::new(),
            wires: Vec::new(),
            peers: Vec::new(),
            apps: Vec::new(),
            ready: Ready::default(),
            cables: Vec::new(),
            turns: None,
            trace: Trace::new(),
        }
    }

    /// Adds an app, which runs at once and then whenever it is woken.
    pub fn add_app(&mut self, app: Box<dyn App>) -> AppId {
        self.add_app_of(None, app)
    }

    /// The same for an app that uses only this stack, as must the apps that it starts: it runs on the stack's CPUs.
    pub fn add_app_on(&mut self, node: NodeId, app: Box<dyn App>) -> AppId {
        self.add_app_of(Some(node.0), app)
    }

    fn add_app_of(&mut self, node: Option<usize>, app: Box<dyn App>) -> AppId {
        let id = self.apps.len();
        let waker = self.ready.waker_of(id);
        waker.make_ready();
        self.apps.push(Running {
            app: Some(app),
            node,
            waker,
            alarm: None,
        });
        AppId(id)
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The virtual time since the start.
    pub fn elapsed(&self) -> Duration {
        self.now() - START
    }

    /// The record.
    pub fn trace(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// A hash of every frame on every wire with its time: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Runs for `by`.
    pub fn run_for(&mut self, by: Duration) {
        self.run_until(self.now() + by);
    }

    /// Runs until `until`.
    ///
    /// # Panics
    /// Time stands still: a stack has a timer in the past that polling does not take away.
    pub fn run_until(&mut self, until: Time) {
        self.run_while(until, |_| true);
        self.clock.set(until);
    }

    /// Runs until `done` returns true, or until `until`. Returns whether `done` did.
    pub fn run_until_done(&mut self, until: Time, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let mut is_done = false;
        self.run_while(until, |net| {
            is_done = done(net);
            !is_done
        });
        is_done
    }

    fn run_while(&mut self, until: Time, mut go_on: impl FnMut(&mut Self) -> bool) {
        let mut turns = 0;
        self.settle();
        while go_on(self) {
            let Some(next) = self.next_at().filter(|at| *at <= until) else {
                return;
            };
            let now = self.now();
            turns = if next > now { 0 } else { turns + 1 };
            assert!(turns < TURNS_MAX, "time stands still at {now:?}");
            self.clock.set(next.max(now));
            self.turn();
            self.settle();
        }
    }

    /// The time of the next event.
    fn next_at(&self) -> Option<Time> {
        let plain = self.nodes.iter().filter(|n| n.cpu_set.is_none());
        let timers = plain.filter_map(|n| n.stack.next_deadline());
        let others = self.queue.next_at().into_iter().chain(self.next_turn_at());
        timers.chain(others).min()
    }

    fn turn(&mut self) {
        let now = self.now();
        while let Some(what) = self.queue.pop_due(now) {
            self.happen(what);
        }
        for node in self.nodes.iter().filter(|n| n.cpu_set.is_none()) {
            let next = node.stack.next_deadline();
            if next.is_some_and(|at| at <= now) {
                node.stack.poll();
            } else if next.is_none_or(|at| at > node.stack.now()) {
                // Nothing is due, also by the stack's own clock. What the call says must not be later.
                let polled = node.stack.poll().unwrap_or(Time::MAX);
                assert!(polled <= next.unwrap_or(Time::MAX), "{polled:?} {next:?}");
            }
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrive { wire, end, frame } => self.arrive(wire, end, frame),
            What::Interrupt { port } => self.interrupt(port),
            What::Wake { app } => {
                self.apps[app].alarm = None;
                self.apps[app].waker.make_ready();
            }
        }
    }

    fn arrive(&mut self, wire: usize, end: usize, frame: Frame) {
        match self.wires[wire].1[end] {
            End::Port(port) => {
                let slot = &mut self.slots[port];
                slot.port.arrive(frame);
                if !std::mem::replace(&mut slot.interrupt_planned, true) {
                    let at = self.clock.now() + slot.port.coalesce();
                    self.queue.push(at, What::Interrupt { port });
                }
            }
            End::Peer(peer) => {
                let (station, wire, end) = &mut self.peers[peer];
                let (wire, end) = (*wire, *end);
                if let Some(answer) = station.receive(self.clock.now(), &frame.bytes) {
                    self.transmit(wire, end, &Frame::new(answer));
                }
            }
            End::Repeater { wire, end } => self.transmit(wire, end, &frame),
        }
    }

    fn interrupt(&mut self, port: usize) {
        const BUDGET: Budget = Budget {
            frames: 64,
            bytes: 1 << 20,
        };
        if self.nodes[self.slots[port].node].cpu_set.is_some() {
            return self.interrupt_cpu(port);
        }
        let slot = &mut self.slots[port];
        slot.interrupt_planned = false;
        let stack = &self.nodes[slot.node].stack;
        while stack
            .poll_interface(slot.ifindex, BUDGET)
            .expect("the port is there")
        {}
    }

    /// Runs woken apps and delivers sent frames, until neither is left.
    fn settle(&mut self) {
        if self.turns.is_some() {
            return self.take_turns();
        }
        loop {
            self.collect();
            let Some(app) = self.ready.pop() else { return };
            self.run_app(app);
        }
    }

    fn collect(&mut self) {
        for i in 0..self.slots.len() {
            while let Some(frame) = self.slots[i].port.leave() {
                let (wire, end) = (self.slots[i].wire, self.slots[i].end);
                self.transmit(wire, end, &frame);
            }
        }
    }

    fn transmit(&mut self, wire: usize, end: usize, frame: &Frame) {
        let now = self.now();
        let (mut out, mut log) = (Vec::new(), Vec::new());
        self.wires[wire].0.send(now, end, frame, &mut out, &mut log);
        self.trace.frame(now, wire, end, frame, &log);
        for d in out {
            self.queue.push(
                d.at,
                What::Arrive {
                    wire,
                    end: d.end,
                    frame: d.frame,
                },
            );
        }
    }

    fn run_app(&mut self, id: usize) {
        let now = self.now();
        let running = &mut self.apps[id];
        let Some(app) = &mut running.app else { return };
        let mut context = Context {
            now,
            waker: running.waker.waker(),
            started: Vec::new(),
            done: false,
        };
        let alarm = app.run(&mut context);
        if context.done {
            running.app = None;
        } else if let Some(at) = alarm.map(|at| at.max(now))
            && running
                .alarm
                .is_none_or(|planned| at < planned || planned < now)
        {
            running.alarm = Some(at);
            self.queue.push(at, What::Wake { app: id });
        }
        let node = running.node;
        for app in context.started {
            self.add_app_of(node, app);
        }
    }

    /// Apps that are not done.
    pub fn apps_running(&self) -> usize {
        self.apps.iter().filter(|a| a.app.is_some()).count()
    }
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net")
            .field("now", &self.now())
            .field("nodes", &self.nodes.len())
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}
