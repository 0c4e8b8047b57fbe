//! The scheduler of virtual CPUs: the seed chooses at every hand-off which one runs next.
//!
//! The possible turns are the programs that were woken and the CPUs with work. One of them is drawn, and does a small
//! piece of its work, of a size that is drawn too, so that batches are cut anywhere and other turns come in between.
//! Sometimes a CPU is held for a while, like a preempted thread: the others continue, and its queues fill.
//!
//! Invariant: turns draw from a stream of their own, not from the stream of a net without CPUs.

use std::time::Duration;

use kern::{Random, Time};
use mbuma::device::Budget;

use super::{Net, TURNS_MAX};
use crate::event::NodeId;
use crate::virtual_cpu_set::{VirtualCpuSet, Work};

/// The number of turns within one instant that counts as an endless loop.
const INSTANT_MAX: u32 = 10 * TURNS_MAX;

/// How often a CPU is held after a turn.
const HOLD: f64 = 0.02;

/// A CPU or a program that can run.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// The index of a program in the list of woken ones.
    App(usize),
    Cpu {
        node: usize,
        cpu: usize,
        work: Work,
    },
}

/// The additional state of nets with CPUs.
#[derive(Debug)]
pub(super) struct Turns {
    random: Random,
    /// The first lost wakeup that was found.
    overslept: Option<String>,
    count: u64,
}

impl Turns {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            overslept: None,
            count: 0,
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    /// A CPU, and whether it works by tasks.
    pub(super) fn server(&mut self, cpus: usize) -> (usize, bool) {
        let cpu = self.random.below(cpus as u64) as usize;
        (cpu, self.random.chance(0.5))
    }

    /// The packets that one turn takes.
    fn budget(&mut self) -> Budget {
        Budget {
            frames: self.pick(&[1, 1, 2, 5, 64]),
            bytes: 1 << 20,
        }
    }
}

impl Net {
    /// Turns so far, of programs and CPUs.
    pub fn turns(&self) -> u64 {
        self.turns.as_ref().map_or(0, |turns| turns.count)
    }

    /// The first CPU that slept although it had work, if there was one.
    pub fn overslept(&self) -> Option<&str> {
        self.turns.as_ref()?.overslept.as_deref()
    }

    /// Calls a function on one of a stack's CPUs that are not held.
    pub fn on_some_cpu<R>(&mut self, node: NodeId, f: impl FnOnce(&mut Self) -> R) -> R {
        self.enter_somewhere(Some(node.0));
        let result = f(self);
        self.settle();
        result
    }

    /// Runs possible turns, in an order that is drawn, until there are none.
    pub(super) fn take_turns(&mut self) {
        for turns in 0.. {
            let now = self.now();
            assert!(turns < INSTANT_MAX, "no end of turns at {now:?}");
            self.collect();
            let Some(turn) = self.choose() else { break };
            self.run_turn(turn);
            self.hold_a_cpu();
        }
        self.look_for_sleepers();
    }

    fn choose(&mut self) -> Option<Turn> {
        let (now, mut found, mut all) = (self.now(), Vec::new(), Vec::new());
        for (node, n) in self.nodes.iter_mut().enumerate() {
            let Some(cpu_set) = &mut n.cpu_set else {
                continue;
            };
            cpu_set.look(&n.stack, now, &mut found);
            let turn = |(cpu, work)| Turn::Cpu { node, cpu, work };
            all.extend(found.drain(..).map(turn));
        }
        for (place, app) in self.ready.waiting().into_iter().enumerate() {
            if self.has_free_cpu(self.apps[app].node, now) {
                all.push(Turn::App(place));
            }
        }
        let turns = self.turns.as_mut()?;
        (!all.is_empty()).then(|| turns.pick(&all))
    }

    fn has_free_cpu(&self, node: Option<usize>, now: Time) -> bool {
        let free = |cpu_set: &VirtualCpuSet| !cpu_set.free(now).is_empty();
        node.and_then(|n| self.nodes[n].cpu_set.as_ref())
            .is_none_or(free)
    }

    fn run_turn(&mut self, turn: Turn) {
        let now = self.now();
        let Some(turns) = &mut self.turns else { return };
        turns.count += 1;
        match turn {
            Turn::App(place) => {
                let Some(app) = self.ready.take(place) else {
                    return;
                };
                self.enter_somewhere(self.apps[app].node);
                self.trace.turn(now, app, usize::MAX, "app");
                self.run_app(app);
            }
            Turn::Cpu { node, cpu, work } => {
                let budget = turns.budget();
                self.enter(node, cpu);
                self.trace.turn(now, node, cpu, work.name());
                self.do_work(node, cpu, work, budget);
            }
        }
    }

    /// From here on it is that CPU's turn, and it checks for work before it sleeps again.
    fn enter(&mut self, node: usize, cpu: usize) {
        if let Some(cpu_set) = &mut self.nodes[node].cpu_set {
            cpu_set.cpus.switch_to(cpu);
            cpu_set.members[cpu].stay_awake();
        }
    }

    /// As `enter`, on any CPU of a stack that is not held; for an app that may use any stack, of each stack.
    fn enter_somewhere(&mut self, node: Option<usize>) {
        let now = self.now();
        let nodes = node.map_or(0..self.nodes.len(), |n| n..n + 1);
        for node in nodes {
            let Some(cpu_set) = &self.nodes[node].cpu_set else {
                continue;
            };
            let mut free = cpu_set.free(now);
            if free.is_empty() {
                free = (0..cpu_set.members.len()).collect();
            }
            if let Some(turns) = &mut self.turns {
                let cpu = turns.pick(&free);
                self.enter(node, cpu);
            }
        }
    }

    fn do_work(&mut self, node: usize, cpu: usize, work: Work, budget: Budget) {
        let Self { nodes, slots, .. } = self;
        let n = &mut nodes[node];
        let Some(cpu_set) = &mut n.cpu_set else {
            return;
        };
        let member = &mut cpu_set.members[cpu];
        match work {
            Work::Interrupt(port) => {
                let more = n.stack.poll_interface(slots[port].ifindex, budget);
                if !more.expect("the port is there") {
                    member.quiet(port);
                }
            }
            Work::Poll(index) => {
                let more = n.stack.poll_interface(index, budget);
                member.polled(index, more);
            }
            // Whether more waits is looked up before the next turn.
            Work::Packets => drop(n.stack.run_netisr(cpu, budget)),
            Work::Timers => drop(n.stack.poll_timers(cpu)),
            Work::Task => {
                let tasks = std::sync::Arc::clone(&member.tasks);
                let _: kern::taskqueue::Ran = tasks.run(1);
            }
        }
    }

    /// A port interrupts a CPU: nearly always the same one.
    pub(super) fn interrupt_cpu(&mut self, port: usize) {
        let Some(turns) = &mut self.turns else { return };
        let slot = &mut self.slots[port];
        slot.interrupt_planned = false;
        let Some(cpu_set) = &mut self.nodes[slot.node].cpu_set else {
            return;
        };
        if turns.random.chance(0.05) {
            slot.cpu = turns.random.below(cpu_set.members.len() as u64) as usize;
        }
        cpu_set.members[slot.cpu].interrupt(port);
    }

    fn hold_a_cpu(&mut self) {
        let now = self.now();
        let Some(turns) = &mut self.turns else { return };
        if !turns.random.chance(HOLD) {
            return;
        }
        let node = turns.random.below(self.nodes.len() as u64) as usize;
        let by = Duration::from_micros(turns.pick(&[10, 100, 1_000, 10_000]));
        if let Some(cpu_set) = &mut self.nodes[node].cpu_set {
            let cpu = turns.random.below(cpu_set.members.len() as u64) as usize;
            cpu_set.members[cpu].held_until = now + by;
        }
    }

    fn look_for_sleepers(&mut self) {
        let Some(turns) = &mut self.turns else { return };
        if turns.overslept.is_some() {
            return;
        }
        let mut nodes = self.nodes.iter().enumerate();
        turns.overslept = nodes.find_map(|(node, n)| {
            let what = n.cpu_set.as_ref()?.overslept(&n.stack)?;
            Some(format!("node {node}: {what}"))
        });
    }

    /// When a CPU, or a program that waits for one, can go on.
    pub(super) fn next_turn_at(&self) -> Option<Time> {
        self.turns.as_ref()?;
        let cpu_sets = || self.nodes.iter().filter_map(|n| n.cpu_set.as_ref());
        let cpus = cpu_sets().filter_map(VirtualCpuSet::next_at).min();
        let held = || cpu_sets().flat_map(|c| &c.members).map(|m| m.held_until);
        let waits = !self.ready.waiting().is_empty();
        let freed = waits.then(|| held().filter(|at| *at > self.now()).min());
        cpus.into_iter().chain(freed.flatten()).min()
    }
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt(_) => "interrupt",
            Self::Poll(_) => "poll",
            Self::Packets => "packets",
            Self::Timers => "timers",
            Self::Task => "task",
        }
    }
}
