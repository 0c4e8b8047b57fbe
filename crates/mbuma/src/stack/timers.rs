//! Runs the timers that are due on a CPU, and returns the time of the next.

use std::sync::Arc;

use kern::Time;

use crate::device::Budget;
use crate::ether::{anycast, arp, autoconf, groups, nd, transmit};
use crate::ifnet::Ifnet;
use crate::stack::policy::run_all;
use crate::stack::{RxQueue, Stack};
use crate::state::SHARED_TIMERS_CPU;

/// The budget of delayed frames for one device, before other timers run.
const DUE_BUDGET: Budget = Budget {
    frames: 64,
    bytes: 1 << 20,
};

impl Stack {
    /// Handles packets that wait for any CPU, and runs the due timers of all CPUs. Returns the time of the next timer,
    /// or an earlier one: the caller must call again by then, or earlier if it called anything else meanwhile.
    pub fn poll(&self) -> Option<Time> {
        let more = run_all(&self.0);
        let quiet = &self.0.quiet;
        // Mostly no timer was set since the last call, and none is due.
        if !more && let Some(until) = quiet.get(self.now()) {
            return (until != Time::MAX).then_some(until);
        }
        let next = quiet.find(|| self.next_deadline());
        // The stack is entered only if a timer is due.
        if next.is_none_or(|at| at > self.now()) {
            return next;
        }
        (0..self.0.tcp.wheels.cpus()).for_each(|cpu| self.run_timers(cpu));
        quiet.find(|| self.next_deadline())
    }

    /// Runs the due timers of CPU `cpu`: those that connections set there and, on CPU 0, shared timers (neighbours,
    /// reassembly, devices that delay frames). Returns the time of the CPU's next timer. A thread that later sets an
    /// earlier one calls the CPU's [waker](Stack::set_cpu_waker).
    ///
    /// # Panics
    /// If there is no such CPU: see [`Config::cpus`](crate::config::Config::cpus).
    pub fn poll_timers(&self, cpu: usize) -> Option<Time> {
        self.run_timers(cpu);
        self.next_deadline_of(cpu)
    }

    fn run_timers(&self, cpu: usize) {
        if cpu == SHARED_TIMERS_CPU {
            self.receive_due();
        }
        self.0.enter(|batch| {
            batch.stack.tcp.run_timers(batch, cpu);
            if cpu != SHARED_TIMERS_CPU {
                return;
            }
            batch.stack.tcp.idle_splices.run(batch);
            batch.stack.ip4.run_timers(batch);
            batch.stack.ip6.run_timers(batch);
            for ifp in self.interfaces_due(batch.now, Ifnet::deadline) {
                arp::run_timers(batch, &ifp);
                nd::run_timers(batch, &ifp);
                anycast::run_timers(batch, &ifp);
                autoconf::run_timers(batch, &ifp);
                groups::run_timers(batch, &ifp);
                transmit::run_due(batch, &ifp);
            }
        });
        // A timer that ran may have left its list and come back to it, and another thread may have looked in between.
        self.0.quiet.end();
    }

    /// Receives from devices whose delayed frames are due. An error of a broken device is ignored here: the next poll
    /// of it fails too.
    fn receive_due(&self) {
        let now = self.now();
        for ifp in self.interfaces_due(now, Ifnet::device_deadline) {
            for queue in ifp.due_queues(now) {
                let received = RxQueue::new(&self.0, &ifp, queue).poll(DUE_BUDGET);
                drop(received);
            }
        }
    }

    /// The interfaces whose deadline has passed: mostly none, and then nothing is allocated.
    fn interfaces_due(
        &self,
        now: Time,
        deadline: impl Fn(&Ifnet) -> Option<Time>,
    ) -> Vec<Arc<Ifnet>> {
        let interfaces = self.0.interfaces.read();
        let due = |ifp: &&Arc<Ifnet>| deadline(ifp).is_some_and(|at| at <= now);
        interfaces.iter().filter(due).map(Arc::clone).collect()
    }

    /// The time at which [`Stack::poll`] must be called next.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.0.netisr.waits_anywhere() {
            return Some(self.0.clock.now());
        }
        let cpus = 0..self.0.tcp.wheels.cpus();
        Time::earliest(cpus.map(|cpu| self.next_deadline_of(cpu)))
    }

    /// The time at which [`Stack::poll_timers`] must be called next for CPU `cpu`.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn next_deadline_of(&self, cpu: usize) -> Option<Time> {
        let _giant = self.0.enter_giant();
        let tcp = self.0.tcp.deadline(cpu);
        if cpu != SHARED_TIMERS_CPU {
            return tcp;
        }
        let interfaces = self.0.interfaces.read();
        Time::earliest([
            Time::earliest(interfaces.iter().map(|ifp| ifp.deadline())),
            tcp,
            self.0.tcp.idle_splices.deadline(),
            self.0.ip4.deadline(),
            self.0.ip6.deadline(),
        ])
    }
}
