//! A network: stacks, wires and peers, one clock and one queue of events.
//!
//! ```text
//!   settle    apps that were woken run; what stacks sent goes onto wires; until all is quiet
//!   jump      the clock goes to the next event or the next timer of a stack
//!   turn      events that are due happen, stacks whose timers are due are polled
//! ```
//!
//! Called by: scenarios and tests. Calls: stacks, wires, peers, apps.
//!
//! Invariants: events of one instant happen in the order in which they were planned, and everything
//! else in the order of ids, so that the same seed and the same calls give the same trace.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use ::wire::MacAddr;
use kern::{Clock, Random, Time, VirtualClock};
use mbuma::device::Budget;
use mbuma::{Config, IfAddr, IfConfig, IfIndex, Stack};

use crate::app::{App, Context};
use crate::event::{AppId, NodeId, PeerId, Queue, What, WireId};
use crate::frame::Frame;
use crate::peer::{Peer, Segment, quote};
use crate::port::{Port, PortConfig};
use crate::ready::{Bell, Ready};
use crate::trace::Trace;
use crate::wire::{Link, Wire};

/// When a net begins: not at zero, and not far before sequence numbers of RFC 6528's clock and 32-bit
/// milliseconds wrap, so that both do so within a run of some hours.
pub(crate) const START: Time = Time::from_millis((1 << 32) - 1_800_000);

/// Turns within one instant that mean that time stands still.
const TURNS_MAX: u32 = 100_000;

/// Whom an end of a wire belongs to.
#[derive(Debug, Clone, Copy)]
enum End {
    Port(usize),
    Peer(usize),
    /// What comes out goes into another wire at this end.
    Repeater {
        wire: usize,
        end: usize,
    },
}

#[derive(Debug)]
struct Node {
    stack: Stack,
}

#[derive(Debug)]
struct Slot {
    node: usize,
    ifindex: IfIndex,
    port: Arc<Port>,
    wire: usize,
    end: usize,
    /// The stack will be told; frames until then go with the first.
    interrupt_planned: bool,
}

struct Running {
    app: Option<Box<dyn App>>,
    bell: Arc<Bell>,
    /// When it is called next, if it asked to be.
    alarm: Option<Time>,
}

/// A network in virtual time.
pub struct Net {
    clock: Arc<VirtualClock>,
    random: Random,
    queue: Queue,
    nodes: Vec<Node>,
    slots: Vec<Slot>,
    wires: Vec<(Wire, Vec<End>)>,
    peers: Vec<(Peer, usize, usize)>,
    apps: Vec<Running>,
    ready: Ready,
    trace: Trace,
}

impl Net {
    /// An empty network whose every chance is drawn from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::from_random(Random::from_seed(seed))
    }

    pub(crate) fn from_random(random: Random) -> Self {
        Self {
            clock: Arc::new(VirtualClock::new(START)),
            random,
            queue: Queue::default(),
            nodes: Vec::new(),
            slots: Vec::new(),
            wires: Vec::new(),
            peers: Vec::new(),
            apps: Vec::new(),
            ready: Ready::default(),
            trace: Trace::new(),
        }
    }

    /// A stack with default tunables.
    pub fn stack(&mut self) -> NodeId {
        self.stack_with(|_| {})
    }

    /// A stack whose tunables `tune` may change.
    ///
    /// # Panics
    /// There is no address space for its buffers.
    pub fn stack_with(&mut self, tune: impl FnOnce(&mut Config)) -> NodeId {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let mut config = Config::new(clock, self.random.fork());
        tune(&mut config);
        let stack = Stack::new(config).expect("address space for buffers");
        self.nodes.push(Node { stack });
        NodeId(self.nodes.len() - 1)
    }

    /// A stack's handle.
    pub fn at(&self, node: NodeId) -> &Stack {
        &self.nodes[node.0].stack
    }

    /// The first interface of a stack.
    ///
    /// # Panics
    /// It is not plugged in anywhere.
    pub fn interface(&self, node: NodeId) -> IfIndex {
        self.slots
            .iter()
            .find(|s| s.node == node.0)
            .expect("the stack is plugged in")
            .ifindex
    }

    /// A wire whose directions all are `link` until they are changed.
    pub fn wire(&mut self, link: Link) -> WireId {
        let random = self.random.fork();
        self.wires.push((Wire::new(link, random), Vec::new()));
        WireId(self.wires.len() - 1)
    }

    /// A wire, to look at or to change.
    pub fn wire_mut(&mut self, wire: WireId) -> &mut Wire {
        &mut self.wires[wire.0].0
    }

    /// All wires.
    pub fn wires(&self) -> impl Iterator<Item = &Wire> {
        self.wires.iter().map(|(wire, _)| wire)
    }

    /// No faults on any wire from now on.
    pub fn heal(&mut self) {
        self.wires.iter_mut().for_each(|(wire, _)| wire.heal());
    }

    fn add_end(&mut self, wire: usize, end: End) -> usize {
        let (wire, ends) = &mut self.wires[wire];
        ends.push(end);
        wire.add_end()
    }

    /// Plugs a stack into a wire, with an address in a /24. Returns the number of the wire's end.
    pub fn plug(&mut self, node: NodeId, wire: WireId, addr: Ipv4Addr, port: &PortConfig) -> usize {
        let addrs = vec![IfAddr {
            addr,
            prefix_len: 24,
        }];
        let config = IfConfig {
            name: format!("sim{}", wire.0),
            mac: None,
            addrs,
            accept_any: false,
        };
        self.plug_with(node, wire, port, config).1
    }

    /// The same with everything about the interface chosen by the caller. A MAC address is drawn.
    pub fn plug_with(
        &mut self,
        node: NodeId,
        wire: WireId,
        port: &PortConfig,
        config: IfConfig,
    ) -> (IfIndex, usize) {
        let stack = self.nodes[node.0].stack.clone();
        let port = Arc::new(Port::new(*port, stack.pool()));
        let mac = Some(config.mac.unwrap_or_else(|| self.draw_mac()));
        let ifindex = stack.attach(Arc::clone(&port) as _, IfConfig { mac, ..config });
        let end = self.add_end(wire.0, End::Port(self.slots.len()));
        self.slots.push(Slot {
            node: node.0,
            ifindex,
            port,
            wire: wire.0,
            end,
            interrupt_planned: false,
        });
        (ifindex, end)
    }

    /// Joins two wires: what comes out of one goes into the other.
    pub fn join(&mut self, a: WireId, b: WireId) -> (usize, usize) {
        let (to_a, to_b) = (
            self.wires[a.0].0.total_ends(),
            self.wires[b.0].0.total_ends(),
        );
        let a_end = self.add_end(
            a.0,
            End::Repeater {
                wire: b.0,
                end: to_b,
            },
        );
        let b_end = self.add_end(
            b.0,
            End::Repeater {
                wire: a.0,
                end: to_a,
            },
        );
        (a_end, b_end)
    }

    /// A station at `ip` that is driven by hand.
    pub fn peer(&mut self, wire: WireId, ip: Ipv4Addr) -> PeerId {
        let mac = self.draw_mac();
        let id = self.peers.len();
        let end = self.add_end(wire.0, End::Peer(id));
        self.peers.push((Peer::new(mac, ip), wire.0, end));
        PeerId(id)
    }

    /// That station.
    pub fn peer_mut(&mut self, peer: PeerId) -> &mut Peer {
        &mut self.peers[peer.0].0
    }

    /// The station tells `to` its Ethernet address.
    pub fn announce(&mut self, peer: PeerId, to: Ipv4Addr) {
        let frame = self.peers[peer.0].0.announcement(to);
        self.send_from_peer(peer, frame);
    }

    /// The station says a segment.
    pub fn say(&mut self, peer: PeerId, segment: &Segment) {
        let frame = self.peers[peer.0].0.segment(segment);
        self.send_from_peer(peer, frame);
    }

    /// The station sends an ICMP error about a segment that it saw; `rest` is the header's last word.
    pub fn complain(&mut self, peer: PeerId, about: &Segment, kind: (u8, u8), rest: [u8; 4]) {
        let frame = self.peers[peer.0]
            .0
            .icmp(*about.src.ip(), kind, rest, &quote(about));
        self.send_from_peer(peer, frame);
    }

    fn send_from_peer(&mut self, peer: PeerId, bytes: Vec<u8>) {
        let (_, wire, end) = self.peers[peer.0];
        self.transmit(wire, end, &Frame::new(bytes));
    }

    fn draw_mac(&mut self) -> MacAddr {
        let mut bytes = [0; 6];
        self.random.fill(&mut bytes);
        bytes[0] = (bytes[0] & 0xfc) | 0x02;
        MacAddr(bytes)
    }

    /// Adds an app, which runs at once and then whenever it is woken.
    pub fn add_app(&mut self, app: Box<dyn App>) -> AppId {
        let id = self.apps.len();
        let bell = self.ready.bell(id);
        bell.ring();
        self.apps.push(Running {
            app: Some(app),
            bell,
            alarm: None,
        });
        AppId(id)
    }

    /// The time now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// How long it has run, in its own time.
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

    /// Runs until `done` says so, `until` at the latest. Says whether it was done.
    pub fn run_until_done(&mut self, until: Time, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let mut is_done = false;
        self.run_while(until, |net| {
            is_done = done(net);
            !is_done
        });
        is_done
    }

    /// Runs until nothing is planned and no stack has a timer, `until` at the latest. Says whether
    /// it came to that.
    pub fn run_until_idle(&mut self, until: Time) -> bool {
        self.run_while(until, |_| true);
        self.next_at().is_none()
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

    /// When something happens next.
    fn next_at(&self) -> Option<Time> {
        let timers = self.nodes.iter().filter_map(|n| n.stack.next_deadline());
        timers.chain(self.queue.next_at()).min()
    }

    fn turn(&mut self) {
        let now = self.now();
        while let Some(what) = self.queue.pop_due(now) {
            self.happen(what);
        }
        for node in &self.nodes {
            if node.stack.next_deadline().is_some_and(|at| at <= now) {
                node.stack.poll();
            }
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrive { wire, end, frame } => self.arrive(wire, end, frame),
            What::Interrupt { port } => self.interrupt(port),
            What::Wake { app } => {
                self.apps[app].alarm = None;
                self.apps[app].bell.ring();
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
                    self.queue.plan(at, What::Interrupt { port });
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
        let slot = &mut self.slots[port];
        slot.interrupt_planned = false;
        let stack = &self.nodes[slot.node].stack;
        while stack
            .poll_interface(slot.ifindex, BUDGET)
            .expect("the port is there")
        {}
    }

    /// Runs what was woken and sends what was sent, until neither is left.
    fn settle(&mut self) {
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
            self.queue.plan(
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
            waker: running.bell.waker(),
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
            self.queue.plan(at, What::Wake { app: id });
        }
        for app in context.started {
            self.add_app(app);
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
