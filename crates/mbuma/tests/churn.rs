//! Epairs, interfaces and whole stacks that are made, used and destroyed over and over, by several threads
//! at once, while other threads hold sockets of them: nothing leaks, nothing dangles.
//!
//! A thousand loops of each; `MBUMA_CHURN=10000` asks for more. The same under AddressSanitizer, which
//! sees a use of what is gone: `cargo xtask asan`. One test, so that threads and descriptors can be counted.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kern::{Clock, MonotonicClock, Random, Taskqueue};
use mbuf::{Chain, Live, MbufPool, Mbufq, PoolConfig};
use mbuma::device::bridge::{Bridge, BridgeConfig};
use mbuma::device::epair::{EpairConfig, EpairEnd, Input, Plug};
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Config, IfConfig, Stack, TcpListener, TcpStream, UdpSocket};

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

fn loops() -> usize {
    let asked = std::env::var("MBUMA_CHURN").ok();
    asked.map_or(1000, |n| n.parse().expect("a number"))
}

fn at(net: u8, host: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, net, 0, host), port)
}

const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

fn config(net: u8, host: u8) -> IfConfig {
    IfConfig::new(format!("epair{net}")).with_addr(*at(net, host, 0).ip(), 24)
}

/// A stack, and the clock that shows its end: only the stack shares it.
struct Home {
    stack: Stack,
    gone: Gone,
}

struct Gone {
    clock: Arc<dyn Clock>,
    pool: MbufPool,
}

impl Home {
    fn new(seed: u64) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
        let mut config = Config::new(Arc::clone(&clock), Random::from_seed(seed));
        // Connections whose cable is gone are given up while the test runs.
        config.tcp.rto_max = config.tcp.rto_min;
        config.tcp.retransmits_max = 2;
        config.tcp.syn_retransmits_max = 2;
        config.tcp.msl = Duration::from_millis(10);
        let stack = Stack::new(config).unwrap();
        let pool = stack.pool().clone();
        let gone = Gone { clock, pool };
        Self { stack, gone }
    }
}

impl Gone {
    /// No handle of the stack is left. Its packets may still be in use.
    fn is_so(&self) -> bool {
        Arc::strong_count(&self.clock) == 1
    }

    fn assert(&self) {
        assert!(self.is_so());
        assert_eq!(self.pool.live(), Live::NONE);
    }
}

/// The sockets that a traffic thread gets: some of them may have ended already.
struct Job {
    stream: Option<TcpStream>,
    listener: Option<TcpListener>,
    accepted: Mutex<Option<TcpStream>>,
    socket: UdpSocket,
    to: SocketAddrV4,
    pool: MbufPool,
}

impl Job {
    /// Calls each kind of operation; each of them may fail.
    fn run(&self) {
        let mut buf = [7; 5000];
        if let Some(stream) = &self.stream {
            let _ = stream.send(&buf);
            let _ = stream.recv(&mut buf);
        }
        let mut accepted = self.accepted.lock().unwrap();
        if let Some(Ok(next)) = self.listener.as_ref().map(TcpListener::accept) {
            *accepted = Some(next);
        }
        if let Some(stream) = &*accepted {
            let _ = stream.recv(&mut buf);
            let _ = stream.send(&buf[..100]);
        }
        drop(accepted);
        let payload = Chain::from_slice(&self.pool, &buf[..700]).unwrap();
        let _ = self.socket.send_to(payload, self.to);
        drop(self.socket.recv());
    }
}

/// A slot in which a worker leaves its job for the next thread.
#[derive(Default)]
struct Slot(Mutex<Option<Arc<Job>>>);

impl Slot {
    fn put(&self, job: Option<Arc<Job>>) {
        let old = std::mem::replace(&mut *self.0.lock().unwrap(), job);
        // Drop outside of the lock: the drop of a last handle does much work.
        drop(old);
    }

    fn get(&self) -> Option<Arc<Job>> {
        self.0.lock().unwrap().clone()
    }
}

/// Ends the threads that make traffic, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs whatever is in the slots until told to stop, and stacks' timers, and tasks.
fn traffic(slots: &[Slot], stacks: &[Stack], tasks: &Taskqueue, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for slot in slots {
            if let Some(job) = slot.get() {
                job.run();
            }
        }
        while tasks.run(64).more {}
        stacks.iter().for_each(|stack| _ = stack.poll());
        thread::yield_now();
    }
}

/// A device of the test's own, which shows when no reference to it is left.
#[derive(Debug)]
struct Tracked {
    plug: Plug,
    _token: Arc<()>,
}

impl Device for Tracked {
    fn capabilities(&self) -> Capabilities {
        self.plug.capabilities()
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> std::io::Result<bool> {
        self.plug.receive(rx, budget)
    }

    fn detached(&self) -> usize {
        self.plug.detached()
    }

    fn transmit(&self, tx: &mut Mbufq) -> std::io::Result<usize> {
        self.plug.transmit(tx)
    }
}

/// `received = delivered + forwarded + dropped inward`, once all is quiet.
fn assert_balanced(stack: &Stack) {
    let stats = stack.stats();
    assert_eq!(stats.received, stats.ended(), "{stats:?}");
    assert!(stats.delivered > 0, "there was traffic");
    assert!(stats.interfaces.is_empty());
}

/// Waits, but not for ever.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no {what}");
        thread::yield_now();
    }
}

const WORKERS: usize = 3;

/// Several threads join the same two stacks by epairs of their own, over and over, and destroy them while others send
/// and receive there.
fn epairs() {
    let homes = [Home::new(1), Home::new(2)];
    let stacks = homes.each_ref().map(|home| home.stack.clone());
    let slots: [Slot; WORKERS] = Default::default();
    let tasks = Arc::new(Taskqueue::new(|| {}));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..2 {
            scope.spawn(|| traffic(&slots, &stacks, &tasks, &stop));
        }
        thread::scope(|scope| {
            for (net, slot) in slots.iter().enumerate() {
                let (stacks, tasks) = (&stacks, &tasks);
                scope.spawn(move || {
                    for n in 0..loops() / WORKERS {
                        if n % 8 == 7 {
                            by_hand(net as u8, stacks);
                        } else {
                            epair(net as u8, n, stacks, slot, tasks);
                        }
                    }
                    slot.put(None);
                });
            }
        });
    });
    while tasks.run(64).more {}
    drop((slots, tasks));
    stacks.iter().for_each(assert_balanced);
    drop(stacks);
    // Each has packets of the other.
    let gone = homes.map(|home| home.gone);
    gone.iter().for_each(Gone::assert);
}

/// The life of one epair.
fn epair(net: u8, n: usize, stacks: &[Stack; 2], slot: &Slot, tasks: &Arc<Taskqueue>) {
    let [left, right] = stacks;
    let input = || match n % 3 {
        0 => Input::Task(Arc::clone(tasks)),
        _ => Input::Direct,
    };
    let (mut a, mut b) = EpairEnd::pair(EpairConfig {
        queue_max: 64,
        ..EpairConfig::default()
    });
    a.attach(left, config(net, 1), input()).unwrap();
    b.attach(right, config(net, 2), input()).unwrap();
    let there = at(net, 2, 1024 + (n % 50_000) as u16);
    let job = Arc::new(Job {
        listener: right.tcp_listen(there, 8).ok(),
        stream: left.tcp_connect(ANY, there).ok(),
        accepted: Mutex::new(None),
        socket: left.udp_bind(ANY).unwrap(),
        to: there,
        pool: left.pool().clone(),
    });
    slot.put(Some(Arc::clone(&job)));
    job.run();
    if n.is_multiple_of(5) {
        thread::yield_now();
    }
    match n % 4 {
        0 => drop((a, b)),
        1 => drop((b, a)),
        2 => {
            // Out, and in again on the other side of the cable.
            b.detach();
            job.run();
            b.attach(right, config(net, 2), input()).unwrap();
            job.run();
            drop(a);
            job.run();
        }
        _ => {
            a.detach();
            drop(b);
            job.run();
            a.attach(left, config(net, 1), Input::Direct).unwrap();
        }
    }
    job.run();
}

/// The life of one interface whose device can be watched: it goes when the interface goes.
fn by_hand(net: u8, stacks: &[Stack; 2]) {
    let [left, right] = stacks;
    let token = Arc::new(());
    let (a, mut b) = EpairEnd::pair(EpairConfig::default());
    b.attach(right, config(net, 2), Input::Direct).unwrap();
    let device = Tracked {
        plug: a.plug(),
        _token: Arc::clone(&token),
    };
    let index = left.attach(Arc::new(device), config(net, 1)).unwrap();
    let socket = left.udp_bind(ANY).unwrap();
    for host in [2, 3] {
        let payload = Chain::from_slice(left.pool(), &[1; 100]).unwrap();
        let _ = socket.send_to(payload, at(net, host, 9));
        let _ = left.poll_interface(index, ALL);
    }
    left.detach(index);
    assert!(left.poll_interface(index, ALL).is_err());
    wait_until("end of a device that was detached", || {
        Arc::strong_count(&token) == 1
    });
}

/// Stacks come to a bridge, use it, and end, while other threads still hold sockets of theirs.
fn stacks() {
    let hub = Home::new(1);
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let mut random = Random::from_seed(3);
    let clock = Arc::new(MonotonicClock::new());
    let bridge = Bridge::new(clock, &mut random, &pool, BridgeConfig::default());
    let (mut plug, mut port) = EpairEnd::pair(EpairConfig::default());
    port.join(&bridge, Input::Direct).unwrap();
    plug.attach(&hub.stack, config(0, 1), Input::Direct)
        .unwrap();
    let tasks = Arc::new(Taskqueue::new(|| {}));
    let stop = AtomicBool::new(false);
    // Each worker's, and the hub's towards all of them.
    let slots: [Slot; WORKERS + 1] = Default::default();
    slots[WORKERS].put(Some(Arc::new(Job {
        listener: hub.stack.tcp_listen(at(0, 1, 80), 64).ok(),
        stream: None,
        accepted: Mutex::new(None),
        socket: hub.stack.udp_bind(at(0, 1, 9)).unwrap(),
        to: at(0, 2, 9),
        pool: hub.stack.pool().clone(),
    })));
    let hubs = [hub.stack.clone()];
    // Packets that stacks had sent before they ended, and the hub has not read yet.
    let later = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..2 {
            scope.spawn(|| traffic(&slots, &hubs, &tasks, &stop));
        }
        thread::scope(|scope| {
            for (worker, slot) in slots.iter().take(WORKERS).enumerate() {
                let (bridge, tasks, later) = (&bridge, &tasks, &later);
                scope.spawn(move || {
                    for n in 0..loops() / WORKERS {
                        let pool = jail(worker as u8 + 2, n, bridge, slot, tasks);
                        let mut later = later.lock().unwrap();
                        later.push(pool);
                        later.retain(|pool| pool.live() != Live::NONE);
                    }
                });
            }
        });
    });
    while tasks.run(64).more {}
    drop(slots);
    let stats = bridge.stats();
    assert_eq!(bridge.ports_count(), 1, "{stats:?}");
    let ended = stats.switched + stats.flooded + stats.filtered + stats.port_gone;
    assert_eq!(stats.received, ended, "{stats:?}");
    assert!(stats.switched > 0);
    drop((plug, port));
    assert_balanced(&hub.stack);
    drop((bridge, hubs, tasks));
    let Home { stack, gone } = hub;
    drop(stack);
    gone.assert();
    assert_eq!(pool.live(), Live::NONE);
    let later = later.into_inner().unwrap();
    assert!(later.iter().all(|pool| pool.live() == Live::NONE));
}

/// The life of one stack. Gives back its pool.
fn jail(host: u8, n: usize, bridge: &Bridge, slot: &Slot, tasks: &Arc<Taskqueue>) -> MbufPool {
    let Home { stack, gone } = Home::new(n as u64);
    let input = || match n % 3 {
        0 => Input::Task(Arc::clone(tasks)),
        _ => Input::Direct,
    };
    let (mut plug, mut port) = EpairEnd::pair(EpairConfig::default());
    port.join(bridge, input()).unwrap();
    plug.attach(&stack, config(0, host), input()).unwrap();
    let job = Arc::new(Job {
        listener: stack.tcp_listen(at(0, host, 80), 8).ok(),
        stream: stack.tcp_connect(ANY, at(0, 1, 80)).ok(),
        accepted: Mutex::new(None),
        socket: stack.udp_bind(at(0, host, 9)).unwrap(),
        to: at(0, 1, 9),
        pool: stack.pool().clone(),
    });
    slot.put(Some(Arc::clone(&job)));
    job.run();
    match n % 4 {
        0 => drop((stack, plug, port)),
        1 => drop((port, stack, plug)),
        2 => drop((plug, port, stack)),
        _ => {
            drop(port);
            job.run();
            drop((stack, plug));
        }
    }
    // Its sockets are still here, and in use elsewhere.
    job.run();
    slot.put(None);
    drop(job);
    wait_until("end of a stack", || gone.is_so());
    gone.pool
}

fn count(of: &str) -> Option<usize> {
    let dir = std::fs::read_dir(format!("/proc/self/{of}")).ok()?;
    Some(dir.count())
}

/// Breaks if a destroyed object stays in memory, or is used after its end.
#[test]
fn nothing_is_left() {
    // The count leaves out memory that the first use of a feature allocates for ever.
    drop(Home::new(0));
    let before = ["task", "fd"].map(count);
    for part in [epairs, stacks] {
        let begin = Instant::now();
        part();
        println!("{} loops in {:.1?}", loops(), begin.elapsed());
    }
    let threads_are_gone = || ["task", "fd"].map(count) == before;
    wait_until("end of threads and descriptors", threads_are_gone);
}
