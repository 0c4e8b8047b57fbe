//! Giant: which threads run under it, one at a time, and which do not.
//!
//! A test finds out whether a thread may enter by letting one try, never by a time: a change that breaks these tests
//! hangs, and is reported after a minute.

mod common;

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::net::{ALL, Lab, Setup, US, at, udp_frame};
use common::unix::{self, HUNG};
use kern::{Giant, MonotonicClock, Random};
use mbuf::{Chain, Live, Mbufq};
use mbuma::device::bridge::{Bridge, BridgeConfig};
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::device::under_giant::UnderGiant;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::unix::UnixError;
use mbuma::{ComponentKind, ComponentStats, Config, IfConfig, Protocol, Stack, UdpSocket};

const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

fn stack_with(giant: &Arc<Giant>) -> Stack {
    let mut config = Config::new(Arc::new(MonotonicClock::new()), Random::from_seed(4));
    config.giant = Arc::clone(giant);
    Stack::new(config).expect("address space")
}

fn over_all() -> Arc<Giant> {
    Arc::new(Giant::new(true))
}

/// Whether another thread can enter the stack now. A thread that is kept out for ever is given a minute.
fn others_may_enter(stack: &Stack) -> bool {
    let (stack, entered) = (stack.clone(), Arc::new(Flag::default()));
    let other = Arc::clone(&entered);
    thread::spawn(move || {
        stack.stats();
        stack.poll();
        other.set();
    });
    entered.wait(Duration::from_secs(60))
}

/// Something that happened.
#[derive(Default)]
struct Flag {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    fn set(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self, limit: Duration) -> bool {
        let set = self.set.lock().unwrap();
        let (set, _) = self
            .changed
            .wait_timeout_while(set, limit, |set| !*set)
            .unwrap();
        *set
    }
}

/// A waker that tries whether others may enter a stack.
struct Tries(Stack, AtomicUsize);

impl Tries {
    fn new(stack: &Stack) -> Arc<Self> {
        Arc::new(Self(stack.clone(), AtomicUsize::new(0)))
    }

    /// The number of tries that succeeded since the last call.
    fn take(&self) -> usize {
        self.1.swap(0, Ordering::SeqCst)
    }
}

impl Wake for Tries {
    fn wake(self: Arc<Self>) {
        assert!(others_may_enter(&self.0), "called under Giant");
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// A device that knows how many threads are in it. It receives nothing, and swallows what is sent.
#[derive(Debug, Default)]
struct Crowd {
    inside: AtomicUsize,
    most: AtomicUsize,
    calls: AtomicUsize,
    /// Threads stay inside until there are this many.
    quorum: usize,
}

impl Crowd {
    fn visit(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.calls.fetch_add(1, Ordering::SeqCst);
        let patience = Instant::now() + Duration::from_secs(60);
        while self.most.load(Ordering::SeqCst) < self.quorum && Instant::now() < patience {
            thread::yield_now();
        }
        thread::yield_now();
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Device for Crowd {
    fn capabilities(&self) -> Capabilities {
        Capabilities::whole(1500)
    }

    fn receive(&self, _: &mut Mbufq, _: Budget) -> io::Result<bool> {
        self.visit();
        Ok(false)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        self.visit();
        drop(tx.take_all());
        Ok(0)
    }
}

/// Two threads poll an interface of one device, and one sends through it. Returns how many were in the device at once,
/// and the stack's figures about it.
fn crowd(giant: Giant, mp_safe: bool, quorum: usize) -> (usize, ComponentStats) {
    let stack = stack_with(&Arc::new(giant));
    let device = Arc::new(Crowd {
        quorum,
        ..Crowd::default()
    });
    let config = IfConfig {
        mp_safe,
        ..IfConfig::new("crowd0").with_addr(US, 24)
    };
    let index = stack.attach(Arc::clone(&device) as _, config).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    stack.poll_interface(index, ALL).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let socket = stack.udp_bind(at(US, 1000)).unwrap();
            for _ in 0..500 {
                let payload = Chain::from_slice(stack.pool(), b"x").unwrap();
                socket.send_to(payload, at(Ipv4Addr::BROADCAST, 9)).unwrap();
            }
        });
    });
    // Dropping what it dropped is a call, too: two of them for each poll.
    let calls = device.calls.load(Ordering::SeqCst) as u64;
    assert!(calls >= 1500);
    let most = device.most.load(Ordering::SeqCst);
    let stats = stack.stats().giant.components.remove(0);
    assert_eq!(stats.kind, ComponentKind::Device);
    assert!(mp_safe || stats.entered >= calls);
    assert_eq!(stack.pool().live(), Live::NONE);
    (most, stats)
}

#[test]
fn a_device_that_is_not_mp_safe_has_one_thread_in_it() {
    // Breaks if two threads poll such a device at once, or one sends while another polls.
    for over_all in [false, true] {
        let (most, stats) = crowd(Giant::new(over_all), false, 1);
        assert_eq!(most, 1);
        assert!(!stats.mp_safe && stats.name == "crowd0");
    }
}

#[test]
fn an_mp_safe_device_has_many_also_under_giant() {
    // Breaks if devices wait for each other, or for the stack, for nothing.
    for over_all in [false, true] {
        let (most, stats) = crowd(Giant::new(over_all), true, 3);
        assert_eq!(most, 3);
        assert!(stats.mp_safe && stats.entered == 0);
    }
}

#[test]
fn a_port_of_a_bridge_may_need_giant() {
    // Breaks if a bridge brings two threads into a device that is not MP-safe, or one while another thread holds Giant.
    let giant = Arc::new(Giant::new(false));
    let stack = stack_with(&giant);
    let mut config = Config::new(Arc::new(MonotonicClock::new()), Random::from_seed(5));
    let pool = stack.pool().clone();
    let bridge = Bridge::new(
        config.clock.clone(),
        &mut config.random,
        &pool,
        BridgeConfig::default(),
    );
    let alone = Crowd {
        quorum: 1,
        ..Crowd::default()
    };
    let old = Arc::new(UnderGiant::new("old0", alone, Arc::clone(&giant)));
    let port = bridge.add(Arc::clone(&old) as _).unwrap();
    let (mut plug, mut socket) = EpairEnd::pair(EpairConfig::default());
    let config = IfConfig::new("epair0").with_addr(US, 24);
    plug.attach(&stack, config, Input::Direct).unwrap();
    socket.join(&bridge, Input::Direct).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    bridge.poll(port, ALL).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let socket = stack.udp_bind(at(US, 1000)).unwrap();
            for _ in 0..500 {
                let payload = Chain::from_slice(&pool, b"x").unwrap();
                socket.send_to(payload, at(Ipv4Addr::BROADCAST, 9)).unwrap();
            }
        });
    });
    assert!(bridge.stats().sent >= 500, "{:?}", bridge.stats());
    assert!(old.entered() >= 1500);
    assert_eq!(old.device().most.load(Ordering::SeqCst), 1);

    // A thread that holds Giant keeps the bridge out of it.
    let free = Arc::new(AtomicBool::new(true));
    let other = bridge.clone();
    let inside = Arc::new(Inside {
        stack: stack.clone(),
        poll: move |_: &Stack| drop(other.poll(port, ALL)),
        free: Arc::clone(&free),
    });
    let callback = stack.giant_waker("old callback", Waker::from(inside));
    callback.wake();
    assert!(!free.load(Ordering::SeqCst), "called beside a callback");
    drop((plug, socket, bridge));
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn all_that_needs_giant_excludes_each_other() {
    // Breaks if a callback or a protocol that is not MP-safe runs beside a device that is not.
    let lab = Lab::new(Setup {
        tune: |config| config.giant = Arc::new(Giant::new(false)),
        ..Setup::default()
    });
    lab.stack.set_mp_safe(Protocol::Ip4, false);
    let giant_is_free = Arc::new(AtomicBool::new(true));
    let probe = Arc::new(Crowd::default());
    let index = lab
        .stack
        .attach(
            Arc::clone(&probe) as _,
            IfConfig {
                mp_safe: false,
                ..IfConfig::new("old0")
            },
        )
        .unwrap();
    let inside = Arc::new(Inside {
        stack: lab.stack.clone(),
        poll: move |stack: &Stack| drop(stack.poll_interface(index, ALL)),
        free: Arc::clone(&giant_is_free),
    });
    let waker = lab.stack.giant_waker("old callback", Waker::from(inside));
    waker.wake_by_ref();
    assert!(
        !giant_is_free.load(Ordering::SeqCst),
        "a device that needs Giant was polled beside a callback that needs it"
    );

    let socket = lab.stack.udp_bind(at(US, 53)).unwrap();
    lab.give(&udp_frame(1, at(US, 53), b"x"));
    assert!(socket.recv().is_ok());
    let stats = lab.stack.stats().giant;
    let of = |name: &str| stats.components.iter().find(|c| c.name == name).cloned();
    assert!(of("ip4").is_some_and(|c| !c.mp_safe && c.entered == 1));
    assert!(of("arp").is_some_and(|c| c.mp_safe && c.entered == 0));
    assert!(of("old callback").is_some_and(|c| c.entered == 1));
    assert!(stats.is_used() && !stats.over_all);
    drop((socket, waker));
    let stats = lab.stack.stats().giant;
    assert!(stats.components.iter().all(|c| c.name != "old callback"));
    lab.stack.detach(index);
}

/// A callback that checks whether another thread can finish a `poll` before the callback returns.
struct Inside<F> {
    stack: Stack,
    poll: F,
    free: Arc<AtomicBool>,
}

impl<F: Fn(&Stack) + Clone + Send + Sync + 'static> Wake for Inside<F> {
    fn wake(self: Arc<Self>) {
        let (stack, poll, through) = (
            self.stack.clone(),
            self.poll.clone(),
            Arc::new(Flag::default()),
        );
        let other = Arc::clone(&through);
        thread::spawn(move || {
            poll(&stack);
            other.set();
        });
        // The other thread can't finish while this one is here: so a short wait never gives a wrong result by chance.
        self.free
            .store(through.wait(Duration::from_millis(50)), Ordering::SeqCst);
    }
}

#[test]
fn wakers_and_devices_are_called_without_giant() {
    // Breaks if a stack calls code outside of it under its Giant: that code may lead into another stack.
    let lab = Lab::new(Setup {
        tune: |config| config.giant = over_all(),
        ..Setup::default()
    });
    let tries = Tries::new(&lab.stack);
    let waker = || Waker::from(Arc::clone(&tries));
    let socket = lab.stack.udp_bind(at(US, 53)).unwrap();
    socket.set_waker(Some(waker()));
    lab.give(&udp_frame(1, at(US, 53), b"x"));
    assert_eq!(tries.take(), 1, "a datagram came");
    socket.set_waker(Some(waker()));
    assert_eq!(tries.take(), 1, "it is there");
    assert!(socket.recv().is_ok());

    let listener = lab.stack.tcp_listen(at(US, 80), 1).unwrap();
    listener.set_waker(Some(waker()));
    let stream = lab.stack.tcp_connect(ANY, at(US, 80)).unwrap();
    assert_eq!(tries.take(), 1, "a connection came");
    let accepted = listener.accept().unwrap();
    accepted.set_waker(Some(waker()));
    stream.send(b"x").unwrap();
    assert_eq!(tries.take(), 1, "data came");
    drop((stream, accepted, listener));
    tries.take();

    let unix = lab.stack.unix();
    let listener = unix.listen(b"name", 1).unwrap();
    listener.set_waker(Some(waker()));
    let stream = unix.connect(b"name").unwrap();
    assert_eq!(tries.take(), 1, "a connection came");
    let accepted = listener.accept().unwrap();
    accepted.set_waker(Some(waker()));
    stream.send(b"x").unwrap();
    assert_eq!(tries.take(), 1, "data came");
    drop((stream, listener));
    assert!(tries.take() > 0, "an end came");
}

#[test]
fn a_callback_that_needs_giant_may_use_the_stack() {
    // Breaks if the stack that the callback calls holds Giant when it calls others, or hangs.
    for over_all in [false, true] {
        let stack = unix::stack_with(|config| config.giant = Arc::new(Giant::new(over_all)));
        let (left, right) = stack.unix().pair();
        let (near, far) = stack.unix().pair();
        let tries = Tries::new(&stack);
        far.set_waker(Some(Waker::from(Arc::clone(&tries))));
        let forwards = Arc::new(Forwards(right.clone(), near.clone()));
        right.set_waker(Some(
            stack.giant_waker("forwards", Waker::from(Arc::clone(&forwards))),
        ));
        left.send(b"x").unwrap();
        assert_eq!(tries.take(), 1);
        assert_eq!(far.recv(&mut [0; 4]), Ok(1));
        right.set_waker(None);
        far.set_waker(None);
    }
}

struct Forwards(mbuma::UnixStream, mbuma::UnixStream);

impl Wake for Forwards {
    fn wake(self: Arc<Self>) {
        let mut buf = [0; 16];
        while let Ok(n @ 1..) = self.0.recv(&mut buf) {
            self.1.send(&buf[..n]).unwrap();
        }
    }
}

#[test]
fn blocking_calls_sleep_without_giant() {
    // Breaks if a thread that waits for data keeps the thread that brings the data out of the stack.
    let stack = stack_with(&over_all());
    let index = stack
        .attach(
            Arc::new(Crowd::default()),
            IfConfig::new("lan0").with_addr(US, 24),
        )
        .unwrap();
    let (left, right) = stack.unix().pair();
    let here = stack.udp_bind(at(US, 7)).unwrap();
    let listener = stack.tcp_listen(at(US, 80), 1).unwrap();
    thread::scope(|scope| {
        let unix = scope.spawn(|| right.recv_blocking(&mut [0; 4], HUNG));
        let udp = scope.spawn(|| here.recv_blocking(HUNG));
        let tcp = scope.spawn(|| {
            let stream = listener.accept_blocking(HUNG).expect("in time");
            stream.recv_blocking(&mut [0; 4], HUNG)
        });
        left.send(b"x").unwrap();
        let payload = Chain::from_slice(stack.pool(), b"x").unwrap();
        here.send_to(payload, at(US, 7)).unwrap();
        let stream = stack.tcp_connect(ANY, at(US, 80)).unwrap();
        stream.connected_blocking(HUNG).unwrap();
        stream.send_blocking(b"x", HUNG).unwrap();
        assert_eq!(unix.join().unwrap(), Ok(1));
        assert!(udp.join().unwrap().is_ok());
        assert_eq!(tcp.join().unwrap(), Ok(1));
    });
    assert_eq!(
        right.recv_blocking(&mut [0; 4], Some(Duration::ZERO)),
        Err(UnixError::TimedOut)
    );
    stack.detach(index);
}

/// Two stacks joined by an epair whose ends take in what arrives on the transmitting thread.
struct Joined {
    stacks: [Stack; 2],
    ends: [EpairEnd; 2],
}

impl Joined {
    fn new(giants: [&Arc<Giant>; 2], mp_safe: bool) -> Self {
        let stacks = giants.map(stack_with);
        let (a, b) = EpairEnd::pair(EpairConfig::default());
        let mut ends = [a, b];
        for (n, (end, stack)) in ends.iter_mut().zip(&stacks).enumerate() {
            let config = IfConfig {
                mp_safe,
                ..IfConfig::new("epair0").with_addr(host(n), 24)
            };
            end.attach(stack, config, Input::Direct).unwrap();
        }
        Self { stacks, ends }
    }

    /// For this time, and until an answer came, two threads of each stack send and echo datagrams; then no buffer is
    /// left.
    fn load(self, time: Duration) {
        let (stop, came) = (AtomicBool::new(false), AtomicUsize::new(0));
        let sockets: Vec<_> = (0..2)
            .flat_map(|n| [(n, 7_u16), (n, 8)])
            .map(|(n, port)| {
                let socket = self.stacks[n].udp_bind(at(host(n), port)).unwrap();
                (n, port, socket)
            })
            .collect();
        thread::scope(|scope| {
            for (n, port, socket) in &sockets {
                let to = at(host(1 - n), *port);
                let (stack, stop, came) = (&self.stacks[*n], &stop, &came);
                scope.spawn(move || echo(stack, socket, to, stop, came));
            }
            thread::sleep(time);
            // On a busy machine some threads may not have run yet.
            let patience = Instant::now() + Duration::from_secs(60);
            while came.load(Ordering::SeqCst) == 0 && Instant::now() < patience {
                thread::yield_now();
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert!(came.into_inner() > 0, "nothing went through");
        drop((sockets, self.ends));
        for stack in self.stacks {
            stack.poll();
            assert_eq!(stack.pool().live(), Live::NONE, "buffers are left");
        }
    }
}

fn host(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, n as u8 + 1)
}

/// Sends, and takes and counts what came.
fn echo(
    stack: &Stack,
    socket: &UdpSocket,
    to: SocketAddrV4,
    stop: &AtomicBool,
    came: &AtomicUsize,
) {
    while !stop.load(Ordering::SeqCst) {
        let payload = Chain::from_slice(stack.pool(), b"x").unwrap();
        let _ = socket.send_to(payload, to);
        if socket.recv().is_ok() {
            came.fetch_add(1, Ordering::SeqCst);
        }
        stack.poll();
    }
    while socket.recv().is_ok() {}
}

#[test]
fn two_stacks_with_a_giant_each_call_each_other() {
    // Breaks if a thread waits for the other stack's Giant while it holds its own: sooner or later both do. WITNESS
    // reports it at the first call.
    Joined::new([&over_all(), &over_all()], true).load(Duration::from_secs(2));
}

#[test]
fn two_stacks_may_share_a_giant() {
    // Breaks if a thread that comes back into a Giant that it has hangs, or leads out with it.
    for mp_safe in [true, false] {
        let giant = over_all();
        Joined::new([&giant, &giant], mp_safe).load(Duration::from_millis(300));
        let giant = Arc::new(Giant::new(false));
        Joined::new([&giant, &giant], mp_safe).load(Duration::from_millis(300));
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "two locks of one class: giant")]
fn a_device_that_needs_giant_must_not_lead_to_another() {
    // Breaks if WITNESS does not report two stacks that can wait for each other for ever.
    let joined = Joined::new(
        [&Arc::new(Giant::new(false)), &Arc::new(Giant::new(false))],
        false,
    );
    let socket = joined.stacks[0].udp_bind(ANY).unwrap();
    let payload = Chain::from_slice(joined.stacks[0].pool(), b"x").unwrap();
    let _ = socket.send_to(payload, at(host(1), 9));
}

#[test]
fn the_statistics_name_the_component_that_needs_it() {
    // Breaks if a user can't see which component keeps the stack on one processor.
    let lab = Lab::new(Setup {
        tune: |config| config.giant = Arc::new(Giant::new(false)),
        ..Setup::default()
    });
    assert!(!lab.stack.stats().giant.is_used());
    lab.stack.set_mp_safe(Protocol::Arp, false);
    lab.introduce();
    let stats = lab.stack.stats().giant;
    assert_eq!(
        stats.to_string(),
        "not over the stack; device pipe0: MP-safe; protocol ip4: MP-safe; \
         protocol arp: Giant, 1 times under it; protocol loopback: MP-safe; protocol ip6: MP-safe"
    );
    lab.stack.set_mp_safe(Protocol::Arp, true);
    lab.introduce();
    let mut over = lab.stack.stats().giant;
    over.over_all = true;
    assert!(over.to_string().starts_with("over the stack; device"));
    assert_eq!(over.components[2].entered, 1, "it ran without since");
}
