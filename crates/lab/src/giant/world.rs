//! The sockets of the programs: those of a stack with its threads, or of the system.
//!
//! Packets to ourselves never come to a device, so the stack's interface has a device that drops all packets. Each of
//! its CPUs has a thread that runs its timers, as softclock does, and, where packets are deferred, its packets, as
//! netisr does.
//!
//! Invariants: these threads end with their world. Locks: none but the stack's.

use super::load::Pair;
use super::{Case, Design, kernel, ours};
use crate::harness::sys;
use kern::{Giant, MonotonicClock, Random, Workers};
use mbuma::device::{Budget, Capabilities, memory::Pipe};
use mbuma::{Config, Dispatch, IfConfig, Stack};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// A design, set up.
pub(crate) enum World {
    Stack(Driven),
    Kernel,
}

impl World {
    /// A design on these CPUs.
    pub(crate) fn new(design: Design, cpus: &[usize]) -> Self {
        if design == Design::Kernel {
            return Self::Kernel;
        }
        let workers = Arc::new(Workers::new(cpus.len()));
        let clock = Arc::new(MonotonicClock::new());
        let mut config = Config::new(clock, Random::from_seed(2004));
        config.giant = Arc::new(Giant::new(design.has_giant()));
        config.cpus = Arc::clone(&workers) as _;
        if design.is_deferred() {
            config.netisr.dispatch = Dispatch::Deferred;
        }
        let stack = Stack::new(config).expect("address space for a stack's buffers");
        // For the address: no packet enters or leaves by it.
        let (device, _) = Pipe::pair(Capabilities::whole(u16::MAX));
        let config = IfConfig::new("nowhere0").with_addr(ours::ADDR, 32);
        stack
            .attach(Arc::new(device), config)
            .expect("the MTU is large enough");
        Self::Stack(Driven::new(stack, &workers, cpus, design.is_deferred()))
    }

    /// Makes pairs of sockets of the kind of a case.
    pub(crate) fn pairs(&self, case: Case, count: usize) -> io::Result<Vec<Pair>> {
        (0..count).map(|_| self.pair(case)).collect()
    }

    fn pair(&self, case: Case) -> io::Result<Pair> {
        match (self, case) {
            (Self::Stack(world), Case::Mysql) => Ok(ours::unix(&world.stack)),
            (Self::Stack(world), Case::TcpStream | Case::TcpRr) => Ok(ours::tcp(&world.stack)?),
            (Self::Stack(world), Case::UdpRr) => ours::udp(&world.stack),
            (Self::Kernel, Case::Mysql) => kernel::unix(),
            (Self::Kernel, Case::TcpStream | Case::TcpRr) => kernel::tcp(),
            (Self::Kernel, Case::UdpRr) => kernel::udp(),
        }
    }
}

/// A stack, and a thread for each of its CPUs.
pub(crate) struct Driven {
    pub(crate) stack: Stack,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Driven {
    fn new(stack: Stack, workers: &Arc<Workers>, cpus: &[usize], deferred: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |(index, &cpu): (usize, &usize)| {
            let worker = Worker {
                stack: stack.clone(),
                workers: Arc::clone(workers),
                stop: Arc::clone(&stop),
                index,
            };
            let thread = thread::spawn(move || {
                // Without the right to pin threads, it runs on any CPU.
                let _ = sys::pin(&[cpu]);
                worker.run();
            });
            if deferred {
                let waker = Unpark(thread.thread().clone());
                stack.set_cpu_waker(index, Some(Arc::new(waker).into()));
            }
            thread
        };
        let threads = cpus.iter().enumerate().map(start).collect();
        Self {
            stack,
            stop,
            threads,
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for (index, thread) in self.threads.drain(..).enumerate() {
            thread.thread().unpark();
            // A panic in it has been printed.
            let _ = thread.join();
            self.stack.set_cpu_waker(index, None);
        }
    }
}

/// One CPU of a stack.
struct Worker {
    stack: Stack,
    workers: Arc<Workers>,
    stop: Arc<AtomicBool>,
    index: usize,
}

impl Worker {
    fn run(&self) {
        let _me = self.workers.bind(self.index);
        while !self.stop.load(Ordering::Relaxed) {
            while self.stack.run_netisr(self.index, BUDGET) {}
            self.stack.poll_timers(self.index);
            // If a thread queues work from here on it leaves a token, and this returns at once.
            if !self.stack.netisr_waits(self.index) {
                thread::park_timeout(TICK);
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How often timers are looked at: 100 Hz, as then.
const TICK: Duration = Duration::from_millis(10);
/// Packets before a thread looks at timers again.
const BUDGET: Budget = Budget {
    frames: 256,
    bytes: usize::MAX,
};
