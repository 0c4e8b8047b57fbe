//! An epair under traffic, on threads: hand-offs that stall, ends that move, ends and stacks that are
//! made and destroyed ten thousand times. Nothing leaks, nothing dangles, every packet is counted.
//!
//! The same under AddressSanitizer: `cargo xtask asan`.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use kern::{Giant, MonotonicClock, Random, Taskqueue};
use mbuf::{Chain, Live, MbufPool, Mbufq, Packet, PoolConfig};
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::device::{Budget, Device};
use mbuma::{Config, DropReason, IfConfig, Stack, UdpSocket};

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};
const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

fn addr(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host)
}

fn config(host: u8) -> IfConfig {
    IfConfig::new("epair0").with_addr(addr(host), 24)
}

/// Giant is over the stack if `MBUMA_GIANT` is set.
fn giant() -> Arc<Giant> {
    Arc::new(Giant::new(std::env::var_os("MBUMA_GIANT").is_some()))
}

fn stack(seed: u64) -> Stack {
    let clock = Arc::new(MonotonicClock::new());
    let mut config = Config::new(clock, Random::from_seed(seed));
    config.giant = giant();
    Stack::new(config).unwrap()
}

fn dropped(stack: &Stack, reasons: &[DropReason]) -> u64 {
    let stats = stack.stats();
    let found = stats.dropped.iter().filter(|(r, _)| reasons.contains(r));
    found.map(|&(_, n)| n).sum()
}

/// `received = delivered + forwarded + dropped inward`, once all is quiet.
fn assert_balanced(stack: &Stack) {
    let stats = stack.stats();
    assert_eq!(stats.received, stats.ended(), "{stats:?}");
}

/// A thread that runs a taskqueue until it is dropped.
struct Runner {
    queue: Arc<Taskqueue>,
    thread: Option<thread::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Runner {
    fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            let queue: Arc<Taskqueue> = told.recv().unwrap();
            while !stopped.load(Ordering::Acquire) {
                if !queue.run(16).more {
                    thread::park();
                }
            }
        });
        let runner: Thread = thread.thread().clone();
        let queue = Arc::new(Taskqueue::new(move || runner.unpark()));
        tell.send(Arc::clone(&queue)).unwrap();
        Self {
            queue,
            thread: Some(thread),
            stop,
        }
    }

    fn input(&self) -> Input {
        Input::Task(Arc::clone(&self.queue))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().unwrap();
        }
    }
}

/// Sends datagrams from `stack` to `host` until told to stop; returns their number.
fn flood(stack: &Stack, host: u8, stop: &AtomicBool) -> u64 {
    let socket = stack.udp_bind(ANY).unwrap();
    let there = SocketAddrV4::new(addr(host), 9);
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        // Refusals are counted by the stack; there may be no route just now.
        sent += u64::from(send(stack, &socket, there));
        if sent % 64 == 0 {
            thread::yield_now();
        }
    }
    sent
}

fn send(stack: &Stack, socket: &UdpSocket, there: SocketAddrV4) -> bool {
    let payload = Chain::from_slice(stack.pool(), &[7; 64]).unwrap();
    socket.send_to(payload, there).is_ok()
}

/// Stops a flood also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn out_packets(stack: &Stack) -> u64 {
    stack
        .stats()
        .interfaces
        .iter()
        .map(|i| i.output.packets())
        .sum()
}

/// How often an end moves.
const MOVES: usize = 2000;

/// Breaks if a packet is lost without being counted, or counted twice, while the end that it is for
/// moves from stack to stack; or if a stack that was left keeps the interface.
#[test]
fn an_end_moves_under_traffic() {
    let sender = stack(1);
    let homes = [stack(2), stack(3)];
    let runner = Runner::new();
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    a.attach(&sender, config(1), runner.input()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..2 {
            scope.spawn(|| flood(&sender, 2, &stop));
        }
        for n in 0..MOVES {
            let input = if n % 3 == 0 {
                Input::Direct
            } else {
                runner.input()
            };
            let home = &homes[n % 2];
            let before = home.stats().received;
            b.attach(home, config(2), input).unwrap();
            // The first ones need an ARP answer, and may have to ask again after a second.
            let some = before + (n as u64) % 5;
            wait_until("packets for the end that moved", || {
                // An answer that was lost is asked for again.
                sender.poll();
                home.stats().received >= some
            });
        }
    });
    // The sender's stack counts the packets that it gave to the device, and those that the device refused.
    let figures = || {
        let received: u64 = homes.iter().map(|home| home.stats().received).sum();
        let refused = dropped(&sender, &[DropReason::DeviceError]);
        (out_packets(&sender), received + refused)
    };
    // Packets on their way arrive.
    wait_until("arrival of what was sent", || {
        let (sent, accounted) = figures();
        accounted >= sent
    });
    b.detach();
    drop(runner);
    let (sent, accounted) = figures();
    assert_eq!(sent, accounted, "{:?} {:?}", a.stats(), b.stats());
    assert!(homes.iter().all(|home| home.stats().interfaces.is_empty()));
    homes.iter().for_each(assert_balanced);
    let pools = [sender.pool(), homes[0].pool(), homes[1].pool()].map(MbufPool::clone);
    drop((a, b, sender, homes));
    assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
}

/// How often ends and stacks are made and destroyed.
const LOOPS: usize = 10_000;

/// Breaks if an epair that is destroyed under traffic leaves a buffer, a queue or a route behind, or if
/// it is used afterwards (AddressSanitizer would see).
#[test]
fn epairs_come_and_go_under_load() {
    let (left, right) = (stack(1), stack(2));
    let runner = Runner::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| flood(&left, 2, &stop));
        scope.spawn(|| flood(&right, 1, &stop));
        for n in 0..LOOPS {
            let (mut a, mut b) = EpairEnd::pair(EpairConfig {
                queue_max: 64,
                ..EpairConfig::default()
            });
            a.attach(&left, config(1), Input::Direct).unwrap();
            b.attach(&right, config(2), runner.input()).unwrap();
            let socket = left.udp_bind(ANY).unwrap();
            send(&left, &socket, SocketAddrV4::new(addr(2), 9));
            if n % 2 == 0 {
                drop(a);
                drop(b);
            } else {
                drop(b);
                drop(a);
            }
        }
    });
    drop(runner);
    for stack in [&left, &right] {
        let stats = stack.stats();
        assert!(stats.interfaces.is_empty());
        assert!(stats.received > 0, "there was traffic");
        assert_balanced(stack);
    }
    let pools = [left.pool().clone(), right.pool().clone()];
    drop((left, right));
    assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
}

/// Breaks if a stack that ends while its neighbour sends to it leaves anything behind, or can't end.
#[test]
fn stacks_come_and_go_under_load() {
    let sender = stack(1);
    let runner = Runner::new();
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    a.attach(&sender, config(1), runner.input()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| flood(&sender, 2, &stop));
        for n in 0..LOOPS {
            let home = stack(n as u64);
            let pool = home.pool().clone();
            b.attach(&home, config(2), runner.input()).unwrap();
            let connecting = home.tcp_connect(ANY, SocketAddrV4::new(addr(1), 9));
            drop(connecting);
            match n % 2 {
                0 => b.detach(),
                // The stack ends first, and its end of the cable is attached to nothing.
                _ => drop(home),
            }
            // A task may still be running in it for a moment.
            if n % 2 == 1 {
                wait_until("a stack that ends", || pool.live() == Live::NONE);
            }
        }
    });
    drop(runner);
    assert!(a.stats().queued > 0, "the homes asked for the sender");
    let pool = sender.pool().clone();
    drop((a, b, sender));
    assert_eq!(pool.live(), Live::NONE);
}

/// How often a sleeping receiver is woken.
const WAKEUPS: u64 = 1_000_000;

/// Breaks if a wakeup is lost: the receiver sleeps for ever although a packet waits, and the watchdog reports that.
///
/// `cargo lab epair` measures the time of a hand-off, beside a control run; a test asserts no time.
#[test]
fn a_million_wakeups_and_none_lost() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let (from, to) = (a.plug(), b.plug());
    let taken = AtomicU64::new(0);
    let mut sent = 0;
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut rx = Mbufq::new();
            loop {
                match to.receive(&mut rx, ALL) {
                    Ok(true) => {}
                    Ok(false) => thread::park(),
                    Err(_) => return,
                }
                taken.fetch_add(rx.len() as u64, Ordering::Release);
                drop(rx.take_all());
            }
        });
        to.set_waker(unpark(receiver.thread().clone()));
        while b.stats().wakeups < WAKEUPS {
            let mut tx = Mbufq::new();
            tx.enqueue(Packet::from_slice(&pool, &[7; 64], 0).unwrap());
            from.transmit(&mut tx).unwrap();
            sent += 1 - tx.len() as u64;
            if sent % 8 == 0 {
                wait_for(&taken, sent);
            }
        }
        wait_for(&taken, sent);
        drop(a);
    });
    assert_eq!(taken.into_inner(), sent);
    drop((from, to, b));
    assert_eq!(pool.live(), Live::NONE);
}

/// Waits until everything was taken; no other thread wakes the receiver meanwhile.
fn wait_for(taken: &AtomicU64, sent: u64) {
    let all = || taken.load(Ordering::Acquire) >= sent;
    wait_until("receiver: a wakeup is lost", all);
}

/// Waits, but not for ever.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no {what}");
        thread::yield_now();
    }
}

fn unpark(thread: Thread) -> Waker {
    struct Unpark(Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Arc::new(Unpark(thread)).into()
}
