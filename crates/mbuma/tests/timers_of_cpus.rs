//! A stack with two CPUs: each runs the timers that were set on it, and is woken for those that other threads set for
//! it. A stack that one thread polls: no poll misses a timer.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use kern::cpus::{Cpus, VirtualCpus, Workers};
use kern::{AtomicDeadline, OneCpu, Random, Time, VirtualClock};
use mbuf::{Chain, Live, Mbufq};

use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::socket::{SpliceEnd, SpliceOptions, splice};
use mbuma::{Config, Dispatch, IfConfig, Protocol, Stack, TcpStream, UdpSocket};

struct World {
    clock: Arc<VirtualClock>,
    stack: Stack,
    /// The packets that the stack sends come out here.
    wire: Pipe,
}

fn world(cpus: Arc<dyn Cpus>) -> World {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let mut config = Config::new(clock.clone(), Random::from_seed(1));
    config.cpus = cpus;
    let stack = Stack::new(config).unwrap();
    let (device, wire) = Pipe::pair(Capabilities::whole(1500));
    let config = IfConfig::new("pipe0").with_addr(Ipv4Addr::new(192, 0, 2, 1), 24);
    stack.attach(Arc::new(device), config).unwrap();
    World { clock, stack, wire }
}

impl World {
    /// Connects to an address without a host.
    fn connect(&self) -> TcpStream {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let peer = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 9), 80);
        self.stack.tcp_connect(any, peer).unwrap()
    }

    fn timeouts(&self) -> u64 {
        self.stack.stats().tcp.timeouts
    }

    fn end(self, streams: impl IntoIterator<Item = TcpStream>) {
        streams.into_iter().for_each(|stream| stream.abort());
        // An address without a host is asked for three times.
        for _ in 0..4 {
            self.clock.advance(Duration::from_secs(60));
            self.stack.poll();
        }
        let mut frames = mbuf::Mbufq::new();
        let all = Budget {
            frames: usize::MAX,
            bytes: usize::MAX,
        };
        self.wire.receive(&mut frames, all).unwrap();
        drop(frames);
        assert_eq!(self.stack.next_deadline(), None);
        assert_eq!(self.stack.pool().live(), Live::NONE);
    }
}

#[test]
fn a_timer_is_run_where_it_was_set() {
    // Breaks if a CPU runs another's timers, or forgets its own; or if an entry stays behind where a
    // connection was before.
    let cpus = Arc::new(VirtualCpus::new(2));
    let world = world(cpus.clone());
    cpus.switch_to(1);
    let stream = world.connect();
    let due = world.stack.next_deadline_of(1).expect("the SYN's timeout");
    world.clock.set(due);

    cpus.switch_to(0);
    world.stack.poll_timers(0);
    assert_eq!(world.timeouts(), 0);
    cpus.switch_to(1);
    assert!(world.stack.poll_timers(1).is_some_and(|next| next > due));
    assert_eq!(world.timeouts(), 1);

    // CPU 0 sets an earlier one: the entry goes there, and CPU 1 has nothing.
    cpus.switch_to(0);
    stream.abort();
    assert_eq!(world.stack.next_deadline_of(1), None);
    world.end([stream]);
}

struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_cpu_hears_of_an_earlier_timer_that_another_thread_set() {
    // Breaks if a worker sleeps past a timer that another thread set for it, or is woken by its own.
    let workers = Arc::new(Workers::new(1));
    let world = world(workers.clone());
    let calls = Arc::new(Calls(AtomicUsize::new(0)));
    let called = || calls.0.swap(0, Ordering::Relaxed);
    world
        .stack
        .set_cpu_waker(0, Some(Waker::from(Arc::clone(&calls))));

    let first = world.connect();
    assert_eq!(called(), 1, "a first timer");
    let bound = workers.bind(0);
    let second = world.connect();
    assert_eq!(called(), 0, "its own");
    drop(bound);
    world.clock.advance(Duration::from_millis(1));
    let third = world.connect();
    assert_eq!(called(), 0, "later than what it waits for");
    world.stack.set_cpu_waker(0, None);
    world.end([first, second, third]);
}

#[test]
fn the_cpu_of_the_shared_timers_hears_of_a_splices() {
    // Breaks if a splice that is idle, or waits for buffers, sleeps until its worker happens to wake up.
    let workers = Arc::new(Workers::new(1));
    let world = world(workers);
    let calls = Arc::new(Calls(AtomicUsize::new(0)));
    let called = || calls.0.swap(0, Ordering::Relaxed);
    let (stack, pool) = (&world.stack, world.stack.pool());
    stack.set_cpu_waker(0, Some(Waker::from(Arc::clone(&calls))));
    let [from, to] = [0, 1].map(|_| stack.unix().pair());
    let options = SpliceOptions {
        idle: Some(Duration::from_secs(10)),
        ..SpliceOptions::default()
    };
    let idle = splice(&from.1, &to.0, options).unwrap();
    assert_eq!(called(), 1, "its idle time");
    world.clock.advance(Duration::from_secs(10));
    stack.poll_timers(0);
    assert_eq!(idle.outcome().map(|o| o.end), Some(SpliceEnd::Idle));

    from.0.send(b"word").unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| Chain::from_slice(pool, &[0]).ok()).collect();
    let options = SpliceOptions {
        max: Some(1),
        ..SpliceOptions::default()
    };
    called();
    let waits = splice(&from.1, &to.0, options).unwrap();
    assert_eq!((called(), waits.moved()), (1, 0), "it waits for a buffer");
    drop(taken);
    world.clock.advance(Duration::from_millis(10));
    stack.poll_timers(0);
    assert_eq!(waits.outcome().map(|o| o.end), Some(SpliceEnd::Max));
    stack.set_cpu_waker(0, None);
    drop((from, to, idle, waits));
    world.end([]);
}

/// Sends a datagram to itself whenever one comes.
struct Echo {
    socket: UdpSocket,
    own: SocketAddrV4,
}

impl Wake for Echo {
    fn wake(self: Arc<Self>) {
        while self.socket.recv().is_ok() {}
        self.socket.send_to(&b"again"[..], self.own).unwrap();
    }
}

#[test]
fn a_timer_runs_beside_packets_that_always_wait() {
    // Breaks if a poll that leaves packets for the next one runs no timer.
    let world = world(Arc::new(OneCpu));
    world
        .stack
        .set_dispatch(Protocol::Loopback, Dispatch::Deferred);
    let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7);
    let socket = world.stack.udp_bind(own).unwrap();
    let echo = Echo {
        socket: socket.clone(),
        own,
    };
    socket.set_waker(Some(Waker::from(Arc::new(echo))));
    socket.send_to(&b"first"[..], own).unwrap();
    let stream = world.connect();
    assert_eq!(world.stack.poll(), Some(world.stack.now()), "packets wait");
    world.clock.advance(Duration::from_secs(1));
    world.stack.poll();
    assert_eq!(world.timeouts(), 1);
    socket.set_waker(None);
    drop(socket);
    world.end([stream]);
}

/// A device that sets its deadline when it is asked for frames.
#[derive(Debug, Default)]
struct Delaying {
    deadline: AtomicDeadline,
    on_receive: AtomicDeadline,
    fails: AtomicBool,
}

impl Device for Delaying {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1500)
    }

    fn receive(&self, _: &mut Mbufq, _: Budget) -> io::Result<bool> {
        self.deadline.set(self.on_receive.get());
        Ok(false)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(tx.by_ref().count()),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline.get()
    }
}

#[test]
fn a_poll_knows_the_deadlines_of_devices() {
    // Breaks if a poll says what it found before a device was attached, or before a device set a deadline.
    let world = world(Arc::new(OneCpu));
    let at = |secs| Some(Time::from_secs(secs));
    assert_eq!(world.stack.poll(), None);
    let device = Arc::new(Delaying::default());
    device.deadline.set(at(9));
    let config = IfConfig::new("late0");
    let index = world.stack.attach(device.clone(), config).unwrap();
    assert_eq!(world.stack.poll(), at(9));
    device.on_receive.set(at(5));
    let budget = Budget {
        frames: 1,
        bytes: 1500,
    };
    world.stack.poll_interface(index, budget).unwrap();
    assert_eq!(world.stack.poll(), at(5));
    world.stack.detach(index);
    world.clock.set(Time::from_secs(6));
    assert_eq!(world.stack.poll(), None);
    world.end([]);
}

#[test]
fn a_device_that_failed_is_never_due() {
    // Breaks if the deadline of a device that failed for good is due for ever: its worker would turn without end.
    let world = world(Arc::new(OneCpu));
    let device = Arc::new(Delaying::default());
    device.deadline.set(Some(Time::from_secs(9)));
    device.fails.store(true, Ordering::Relaxed);
    let config = IfConfig::new("broken0").with_addr(Ipv4Addr::new(198, 51, 100, 1), 24);
    let index = world.stack.attach(device, config).unwrap();
    assert!(world.stack.next_deadline().is_some());
    world.stack.announce(index);
    assert_eq!(world.stack.next_deadline(), None);
    world.end([]);
}
