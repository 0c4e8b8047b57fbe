//! Stacks with workers: one stack that talks to itself, or two with an epair between.
//!
//! A worker is a thread, pinned, which serves one CPU of each stack: its queues and its timers. The programs that talk
//! are other threads.
//!
//! Invariants: workers end with their world, before its stacks. Locks: none.

use super::Design;
use crate::harness::sys;
use kern::{Random, Workers};
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::device::{Budget, Capabilities, memory::Pipe};
use mbuma::{Config, IfConfig, Stack};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// From a stack to itself.
    Loopback,
    /// From a stack to another.
    Epair,
}

/// The server's address.
pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
/// Any of our own.
pub(crate) const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// Packets that a worker handles before it checks other work.
const BUDGET: Budget = Budget {
    frames: 64,
    bytes: usize::MAX,
};
/// How long a worker sleeps at most.
const TICK: Duration = Duration::from_millis(50);
/// Datagrams that wait for a program.
const UDP_QUEUE: usize = 4096;

/// Stacks, and the threads that work for them.
pub(crate) struct World {
    pub(crate) client: Stack,
    pub(crate) server: Stack,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    ends: Option<[EpairEnd; 2]>,
}

impl World {
    /// With `workers` workers, pinned to these CPUs in turn.
    pub(crate) fn new(place: Place, design: Design, workers: usize, cpus: &[usize]) -> Self {
        let workers = Arc::new(Workers::new(workers));
        let make = |seed| stack(seed, design, &workers);
        let (client, server, ends) = match place {
            Place::Loopback => {
                let one = make(1);
                // An interface for the address; no packet ever enters or leaves by it.
                let (device, _) = Pipe::pair(Capabilities::whole(1500));
                one.attach(Arc::new(device), config(2))
                    .expect("the MTU is large enough");
                (one.clone(), one, None)
            }
            Place::Epair => {
                let (client, server) = (make(1), make(2));
                let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
                a.attach(&client, config(1), Input::Direct)
                    .expect("the MTU is large enough");
                b.attach(&server, config(2), Input::Direct)
                    .expect("the MTU is large enough");
                (client, server, Some([a, b]))
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stacks = match place {
            Place::Loopback => vec![client.clone()],
            Place::Epair => vec![client.clone(), server.clone()],
        };
        let start = |cpu: usize| {
            let (stacks, workers, stop) = (stacks.clone(), Arc::clone(&workers), Arc::clone(&stop));
            let on = cpus[cpu % cpus.len()];
            thread::spawn(move || work(&stacks, &workers, cpu, on, &stop))
        };
        Self {
            threads: (0..kern::Cpus::count(&*workers)).map(start).collect(),
            client,
            server,
            stop,
            ends,
        }
    }

    /// How many of the packets that came to a protocol had to change their CPU, in per cent.
    pub(crate) fn moved(&self) -> f64 {
        let mut all = self.server.netisr_stats();
        if self.ends.is_some() {
            all.extend(self.client.netisr_stats());
        }
        let moved: u64 = all.iter().map(|work| work.moved).sum();
        let came: u64 = all.iter().map(|w| w.direct + w.hybrid + w.queued).sum();
        moved as f64 * 100.0 / came.max(1) as f64
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for worker in self.threads.drain(..) {
            worker.thread().unpark();
            // A panic in it has been printed, and the figures are missing.
            let _ = worker.join();
        }
    }
}

fn stack(seed: u64, design: Design, workers: &Arc<Workers>) -> Stack {
    let clock = Arc::new(kern::MonotonicClock::new());
    let mut config = Config::new(clock, Random::from_seed(seed));
    config.cpus = Arc::clone(workers) as _;
    config.netisr.dispatch = design.dispatch();
    config.udp_queue_max = UDP_QUEUE;
    Stack::new(config).expect("address space for a stack's buffers")
}

fn config(host: u8) -> IfConfig {
    IfConfig::new("lab0").with_addr(Ipv4Addr::new(192, 0, 2, host), 24)
}

/// The work of worker `cpu`, on the machine's CPU `on`.
fn work(stacks: &[Stack], workers: &Workers, cpu: usize, on: usize, stop: &AtomicBool) {
    // Without the right to pin threads, the worker runs on any CPU.
    let _ = sys::pin(&[on]);
    let _me = workers.bind(cpu);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    for stack in stacks {
        stack.set_cpu_waker(cpu, Some(waker.clone()));
    }
    while !stop.load(Ordering::Acquire) {
        let mut sleep = TICK;
        for stack in stacks {
            stack.run_netisr(cpu, BUDGET);
            if let Some(at) = stack.poll_timers(cpu) {
                let now = stack.now();
                sleep = sleep.min(at.max(now) - now);
            }
        }
        // One stack may have queued packets for the other without waking this thread, which is that CPU of both.
        let waits = stacks.iter().any(|stack| stack.netisr_waits(cpu));
        if !waits && !sleep.is_zero() {
            thread::park_timeout(sleep);
        }
    }
    for stack in stacks {
        stack.set_cpu_waker(cpu, None);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
