//! The virtual CPUs of one stack: which of them are awake, their pending work, and their wakers.
//!
//! A CPU stands for a worker of a runtime. It looks for work while it is awake, and sleeps when there is none, until
//! its next timer at the latest. A waker of the stack, an interrupt of a device, a task or the timer wakes it. It stays
//! awake after any work, because packets that it queued for itself wake no CPU.
//!
//! Invariants: a CPU that sleeps has no pending work, or a wakeup was lost: see [`VirtualCpuSet::overslept`].
//! Locks: none; the flags are atomics because wakers may be called from anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use kern::{Taskqueue, Time, VirtualCpus};
use mbuma::{IfIndex, Stack};

/// A flag that a waker sets. Relaxed throughout: one thread plays all CPUs.
#[derive(Debug, Default)]
pub(crate) struct WakeFlag(AtomicBool);

impl WakeFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

/// The waker for packets that wait at an interface that its CPU must poll.
#[derive(Debug)]
struct InterfaceWaker {
    packets_wait: WakeFlag,
    cpu: Arc<WakeFlag>,
}

impl Wake for InterfaceWaker {
    fn wake(self: Arc<Self>) {
        self.packets_wait.set();
        self.cpu.set();
    }
}

/// Work that a CPU can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Frames wait at a port.
    Interrupt(usize),
    /// Packets wait at an interface without a port: an end of an epair.
    Poll(IfIndex),
    /// Packets wait for it in netisr.
    Packets,
    /// A timer is due.
    Timers,
    /// A task is queued.
    Task,
}

/// One CPU.
pub(crate) struct VirtualCpu {
    /// Set: it is awake.
    awake: Arc<WakeFlag>,
    /// The time at which it wakes without a waker, if it sleeps.
    sleeps_until: Option<Time>,
    /// Until then the CPU does not run, even with work to do.
    pub(crate) held_until: Time,
    /// Tasks that run on it.
    pub(crate) tasks: Arc<Taskqueue>,
    /// Ports that wait for it.
    interrupts: Vec<usize>,
    /// Interfaces that it polls.
    interface_wakers: Vec<(Arc<InterfaceWaker>, Option<IfIndex>)>,
}

impl VirtualCpu {
    fn new(stack: &Stack, cpu: usize) -> Self {
        let awake = Arc::new(WakeFlag::default());
        stack.set_cpu_waker(cpu, Some(Waker::from(Arc::clone(&awake))));
        let rings = Arc::clone(&awake);
        Self {
            awake,
            sleeps_until: None,
            held_until: Time::ZERO,
            tasks: Arc::new(Taskqueue::new(move || rings.set())),
            interrupts: Vec::new(),
            interface_wakers: Vec::new(),
        }
    }

    /// A port has frames for it.
    pub(crate) fn interrupt(&mut self, port: usize) {
        if !self.interrupts.contains(&port) {
            self.interrupts.push(port);
        }
        self.awake.set();
    }

    /// The CPU has handled that port.
    pub(crate) fn quiet(&mut self, port: usize) {
        self.interrupts.retain(|p| *p != port);
    }

    /// The waker for packets at an interface, whose index comes later.
    pub(crate) fn interface_waker(&mut self) -> Waker {
        let waker = Arc::new(InterfaceWaker {
            packets_wait: WakeFlag::default(),
            cpu: Arc::clone(&self.awake),
        });
        self.interface_wakers.push((Arc::clone(&waker), None));
        Waker::from(waker)
    }

    /// Assigns the waker that was made last to this interface.
    pub(crate) fn name_interface_waker(&mut self, index: IfIndex) {
        if let Some((_, last)) = self.interface_wakers.last_mut() {
            *last = Some(index);
        }
    }

    /// The outcome of polling an interface: more packets wait, none wait, or it is gone.
    pub(crate) fn polled(&mut self, index: IfIndex, more: std::io::Result<bool>) {
        match more {
            Ok(true) => {}
            Ok(false) => {
                let mine = self
                    .interface_wakers
                    .iter()
                    .filter(|(_, i)| *i == Some(index));
                mine.for_each(|(waker, _)| waker.packets_wait.clear());
            }
            Err(_) => self.interface_wakers.retain(|(_, i)| *i != Some(index)),
        }
    }

    /// The CPU has done work: it checks for more before it sleeps.
    pub(crate) fn stay_awake(&self) {
        self.awake.set();
    }

    fn work(&self, stack: &Stack, cpu: usize, now: Time, out: &mut Vec<Work>) {
        out.extend(self.interrupts.iter().copied().map(Work::Interrupt));
        let waiting = self
            .interface_wakers
            .iter()
            .filter(|(waker, _)| waker.packets_wait.is_set());
        out.extend(waiting.filter_map(|(_, index)| index.map(Work::Poll)));
        let mut add = |some: bool, work| out.extend(some.then_some(work));
        add(stack.netisr_waits(cpu), Work::Packets);
        add(!self.tasks.is_empty(), Work::Task);
        let due = stack.next_deadline_of(cpu).is_some_and(|at| at <= now);
        add(due, Work::Timers);
    }
}

/// All CPUs of a stack.
pub(crate) struct VirtualCpuSet {
    pub(crate) cpus: Arc<VirtualCpus>,
    pub(crate) members: Vec<VirtualCpu>,
}

impl VirtualCpuSet {
    pub(crate) fn new(stack: &Stack, cpus: Arc<VirtualCpus>, count: usize) -> Self {
        let members = (0..count).map(|cpu| VirtualCpu::new(stack, cpu)).collect();
        Self { cpus, members }
    }

    /// The work that can be done now, with the CPU for it. CPUs without work fall asleep.
    pub(crate) fn look(&mut self, stack: &Stack, now: Time, out: &mut Vec<(usize, Work)>) {
        let mut works = Vec::new();
        for (cpu, member) in self.members.iter_mut().enumerate() {
            if member.sleeps_until.is_some_and(|at| at <= now) {
                member.awake.set();
            }
            if member.held_until > now || !member.awake.is_set() {
                continue;
            }
            member.sleeps_until = None;
            member.work(stack, cpu, now, &mut works);
            if works.is_empty() {
                member.awake.clear();
                member.sleeps_until = stack.next_deadline_of(cpu);
            }
            out.extend(works.drain(..).map(|work| (cpu, work)));
        }
    }

    /// CPUs that are not held.
    pub(crate) fn free(&self, now: Time) -> Vec<usize> {
        let free = |cpu: &usize| self.members[*cpu].held_until <= now;
        (0..self.members.len()).filter(free).collect()
    }

    /// The time of the next event here: a sleeper wakes, or a held CPU may go on.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let next = |m: &VirtualCpu| match m.awake.is_set() {
            true => Some(m.held_until),
            false => m.sleeps_until.map(|at| at.max(m.held_until)),
        };
        self.members.iter().filter_map(next).min()
    }

    /// A CPU that sleeps although it has work, or will have work before it wakes: the code that gave it that work
    /// should have woken it.
    pub(crate) fn overslept(&self, stack: &Stack) -> Option<String> {
        let asleep = self.members.iter().enumerate();
        let mut asleep = asleep.filter(|(_, m)| !m.awake.is_set());
        asleep.find_map(|(cpu, m)| {
            let what = if stack.netisr_waits(cpu) {
                "packets wait for it"
            } else if !m.tasks.is_empty() {
                "a task waits for it"
            } else if let Some(at) = stack.next_deadline_of(cpu)
                && m.sleeps_until.is_none_or(|until| at < until)
            {
                "a timer comes before it wakes"
            } else {
                return None;
            };
            Some(format!("CPU {cpu} sleeps, and {what}"))
        })
    }
}
