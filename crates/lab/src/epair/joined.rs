//! Two stacks joined by a scheme, or by the product's epair, each with a thread that takes packets in.
//!
//! Invariants: the stacks hold their devices, and the devices' tasks the other stack, until [`Joined`] is dropped.

use super::Design;
use super::device::{SchemeDevice, Way};
use super::runner::Runner;
use super::scheme::Scheme;
use super::schemes::{Always, TwoRings, TwoRingsFlags};
use kern::{Random, Task};
use mbuf::Packet;
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::device::{Budget, Device};
use mbuma::{Config, IfConfig, IfIndex, Stack};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The server's address.
pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
/// Any of our own.
pub(crate) const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
/// Packets that wait in one direction at most.
const QUEUE: usize = 4096;
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// Two stacks that can talk.
pub(crate) struct Joined {
    pub(crate) client: Stack,
    pub(crate) server: Stack,
    runners: [Runner; 2],
    ends: Ends,
}

/// The joint: a scheme or the product's epair.
enum Ends {
    Epair([EpairEnd; 2]),
    Devices([IfIndex; 2]),
}

impl Joined {
    /// Joins two new stacks.
    pub(crate) fn new(design: Design, mtu: u16) -> Self {
        let runners = [Runner::new(), Runner::new()];
        let stacks = [1, 2].map(stack);
        let ends = match design {
            Design::Mbuma => epair(&stacks, &runners, mtu),
            Design::TwoRings => devices::<TwoRings<Packet>>(&stacks, &runners, mtu),
            Design::TwoRingsFlags => devices::<TwoRingsFlags<Packet>>(&stacks, &runners, mtu),
            Design::Control => devices::<Always<Packet>>(&stacks, &runners, mtu),
        };
        let [client, server] = stacks;
        Self {
            client,
            server,
            runners,
            ends,
        }
    }

    /// How often the threads were woken.
    pub(crate) fn wakeups(&self) -> u64 {
        self.runners.iter().map(Runner::wakeups).sum()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        match &mut self.ends {
            Ends::Epair(ends) => ends.iter_mut().for_each(EpairEnd::detach),
            Ends::Devices([client, server]) => {
                self.client.detach(*client);
                self.server.detach(*server);
            }
        }
    }
}

fn stack(seed: u64) -> Stack {
    Stack::new(Config::new(
        Arc::new(kern::MonotonicClock::new()),
        Random::from_seed(seed),
    ))
    .expect("address space for a stack's buffers")
}

fn config(host: u8) -> IfConfig {
    IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, host), 24)
}

fn epair(stacks: &[Stack; 2], runners: &[Runner; 2], mtu: u16) -> Ends {
    let (mut a, mut b) = EpairEnd::pair(EpairConfig {
        mtu,
        queue_max: QUEUE,
    });
    for (end, n) in [(&mut a, 0), (&mut b, 1)] {
        let input = Input::Task(Arc::clone(runners[n].queue()));
        end.attach(&stacks[n], config(n as u8 + 1), input)
            .expect("the MTU is large enough");
    }
    Ends::Epair([a, b])
}

fn devices<S: Scheme<Packet>>(stacks: &[Stack; 2], runners: &[Runner; 2], mtu: u16) -> Ends {
    let ways = [Way::<S>::new(QUEUE), Way::<S>::new(QUEUE)];
    let indices = [0, 1].map(|n: usize| {
        let device: Arc<dyn Device> = Arc::new(SchemeDevice {
            mtu,
            inward: Arc::clone(&ways[n]),
            outward: Arc::clone(&ways[1 - n]),
        });
        let index = stacks[n]
            .attach(device, config(n as u8 + 1))
            .expect("the MTU is large enough");
        ways[n].set_task(runners[n].queue(), task(&stacks[n], index, &runners[n]));
        index
    });
    Ends::Devices(indices)
}

/// The thread that takes packets in at an interface, until it is gone.
fn task(stack: &Stack, index: IfIndex, runner: &Runner) -> Arc<Task> {
    let (stack, queue) = (stack.clone(), Arc::downgrade(runner.queue()));
    Arc::new_cyclic(|me: &Weak<Task>| {
        let me = Weak::clone(me);
        Task::new(move || {
            if stack.poll_interface(index, ALL).unwrap_or(false)
                && let (Some(queue), Some(me)) = (queue.upgrade(), me.upgrade())
            {
                queue.enqueue(&me);
            }
        })
    })
}

/// Sleeps until `done` returns true, and runs the stack's timers meanwhile; the sockets' wakers unpark this thread.
/// Returns false if `until` comes first.
pub(crate) fn wait(stack: &Stack, until: Instant, mut done: impl FnMut() -> bool) -> bool {
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        let now = stack.now();
        let next = stack.poll().map_or(TICK, |at| at.max(now) - now);
        if done() {
            return true;
        }
        thread::park_timeout(next.clamp(Duration::from_micros(100), TICK));
    }
}

/// Wakes this thread.
pub(crate) fn unpark() -> Waker {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Arc::new(Unpark(thread::current())).into()
}

/// How long a thread sleeps at most.
const TICK: Duration = Duration::from_millis(10);
