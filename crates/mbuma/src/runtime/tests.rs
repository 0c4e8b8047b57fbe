use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use kern::{Task, Time};
use mbuf::{Live, MBUFS_RESERVED, MSIZE};

use super::{Runtime, RuntimeConfig};
use crate::device::epair::{EpairConfig, EpairEnd, Input};
use crate::socket::{RecvError, SpliceEnd};
use crate::{Config, IfConfig, Stack, TcpStream};

/// Longer than any step takes that does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn interface(n: u8) -> IfConfig {
    IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24)
}

/// A stack that `runtime` drives.
fn stack(runtime: &Runtime) -> Stack {
    let config = Config {
        cpus: runtime.cpus(),
        ..Config::from_system()
    };
    let stack = Stack::new(config).expect("address space");
    runtime.add(&stack);
    stack
}

/// Two stacks with an epair between, each end run by a worker.
struct Pair {
    stacks: [Stack; 2],
    ends: [EpairEnd; 2],
}

impl Pair {
    fn new(runtime: &Runtime) -> Self {
        let stacks = [stack(runtime), stack(runtime)];
        let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
        a.attach(&stacks[0], interface(1), Input::Task(runtime.taskqueue(0)))
            .unwrap();
        b.attach(&stacks[1], interface(2), Input::Task(runtime.taskqueue(1)))
            .unwrap();
        Self {
            stacks,
            ends: [a, b],
        }
    }

    fn connect(&self) -> (TcpStream, TcpStream) {
        let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
        let listener = self.stacks[1].tcp_listen(there, 8).expect("free");
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let client = self.stacks[0].tcp_connect(any, there).expect("a route");
        let server = listener.accept_blocking(Some(PATIENCE));
        (client, server.expect("it connects"))
    }

    /// Drops it, and checks that all buffers are given back.
    fn check_balance(self) {
        let pools = self.stacks.each_ref().map(|stack| stack.pool().clone());
        let Self { stacks, ends } = self;
        drop(ends);
        drop(stacks);
        for pool in pools {
            assert_eq!(pool.live(), Live::NONE);
        }
    }
}

#[test]
fn blocking_sockets_over_an_epair_need_no_thread_that_polls() {
    // Breaks when a worker sleeps while frames, or a timer, wait for it.
    let runtime = Runtime::with_workers(2).expect("threads");
    let pair = Pair::new(&runtime);
    let (client, server) = pair.connect();
    let echo = thread::spawn(move || {
        let mut buf = [0; 4096];
        loop {
            match server
                .recv_blocking(&mut buf, Some(PATIENCE))
                .expect("in time")
            {
                0 => return,
                n => server.send_all_blocking(&buf[..n]),
            }
        }
    });
    for n in 0..500_usize {
        let said = vec![n as u8; 1 + n * 7 % 4096];
        client.send_all_blocking(&said);
        let mut heard = vec![0; said.len()];
        let mut at = 0;
        while at < heard.len() {
            let got = client.recv_blocking(&mut heard[at..], Some(PATIENCE));
            at += got.expect("in time");
        }
        assert_eq!(said, heard);
    }
    client.shutdown(std::net::Shutdown::Write);
    echo.join().expect("no panic");
    drop(client);
    runtime.shutdown();
    pair.check_balance();
}

#[test]
fn what_a_transfer_needed_goes_back_to_the_system() {
    // Breaks when nothing reclaims the pools of a runtime's stacks: their slabs stay as large as a spike made them.
    let runtime = Runtime::with_workers(2).expect("threads");
    let pair = Pair::new(&runtime);
    let (client, server) = pair.connect();
    let received = thread::spawn(move || {
        let mut buf = vec![0; 1 << 16];
        while server.recv_blocking(&mut buf, Some(PATIENCE)) != Ok(0) {}
    });
    client.send_all_blocking(&vec![7; 4 << 20]);
    client.shutdown(std::net::Shutdown::Write);
    received.join().expect("no panic");
    drop(client);
    let bytes = |stack: &Stack| -> usize {
        let stats = stack.pool().stats();
        stats.zones().map(|zone| zone.bytes).sum()
    };
    // The reserve stays, and counts in both zones, that of mbufs and that of packets.
    let most = 2 * MBUFS_RESERVED * MSIZE + (64 << 10);
    eventually(|| pair.stacks.iter().all(|stack| bytes(stack) < most));
    runtime.shutdown();
    pair.check_balance();
}

/// Sending everything, for tests.
trait SendAll {
    fn send_all_blocking(&self, bytes: &[u8]);
}

impl SendAll for TcpStream {
    fn send_all_blocking(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let n = self.send_blocking(bytes, Some(PATIENCE)).expect("in time");
            bytes = &bytes[n..];
        }
    }
}

#[test]
fn a_thousand_runtimes_come_and_go() {
    // Breaks when a thread, a descriptor, a stack or a buffer outlives its runtime.
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = descriptors();
    for n in 0..1000 {
        let runtime = Runtime::with_workers(1 + n % 3).expect("threads");
        let pair = Pair::new(&runtime);
        if n % 10 == 0 {
            let (client, server) = pair.connect();
            client.send(b"x").expect("room");
            assert_eq!(server.recv_blocking(&mut [0; 4], Some(PATIENCE)), Ok(1));
        }
        if n % 2 == 0 {
            runtime.remove(&pair.stacks[0]);
        }
        let weak = pair.stacks.each_ref().map(|stack| Arc::downgrade(&stack.0));
        drop(runtime);
        pair.check_balance();
        assert!(
            weak.iter().all(|stack| stack.upgrade().is_none()),
            "run {n}"
        );
    }
    // Other tests of this program have descriptors of their own, a few.
    assert!(descriptors() < before + 500);
}

#[test]
fn what_was_removed_is_driven_by_no_worker() {
    // Breaks when a worker still holds a stack after remove() has returned.
    let runtime = Runtime::with_workers(2).expect("threads");
    for _ in 0..200 {
        let pair = Pair::new(&runtime);
        let (client, server) = pair.connect();
        client.send(&[1; 4096]).expect("room");
        let weak = pair.stacks.each_ref().map(|stack| Arc::downgrade(&stack.0));
        drop((client, server));
        let Pair { stacks, ends } = pair;
        // A task that runs now holds its stack as long as it runs.
        drop(ends);
        stacks.iter().for_each(|stack| runtime.remove(stack));
        drop(stacks);
        eventually(|| weak.iter().all(|w| w.upgrade().is_none()));
    }
    runtime.shutdown();
}

/// Waits for an act of other threads.
fn eventually(condition: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("waited in vain");
}

#[test]
fn tasks_run_on_their_worker_also_while_it_sleeps() {
    // Breaks when a task waits for a wakeup that never comes, or runs on another thread.
    let runtime = Runtime::with_config(RuntimeConfig {
        workers: 3,
        pinned: true,
        ..RuntimeConfig::default()
    })
    .expect("threads");
    let (tell, told) = mpsc::channel();
    for round in 0..300 {
        let worker = round % 3;
        let tell = tell.clone();
        let task = Arc::new(Task::new(move || {
            let name = thread::current().name().map(str::to_owned);
            tell.send(name).expect("somebody listens");
        }));
        runtime.taskqueue(worker).enqueue(&task);
        let name = told.recv_timeout(PATIENCE).expect("it ran");
        assert_eq!(name, Some(format!("mbuma-{worker}")));
        if round % 7 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn timers_run_without_a_call() {
    // Breaks when a worker sleeps past a deadline: only the SYN's own timer answers here.
    let runtime = Runtime::with_workers(2).expect("threads");
    let stack = stack(&runtime);
    let (a, _) = crate::device::memory::Pipe::pair(crate::device::Capabilities::plain(1500));
    stack.attach(Arc::new(a), interface(1)).unwrap();
    let nobody = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 9), 80);
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let stream = stack.tcp_connect(any, nobody).expect("a route");
    let again = || stack.stats().tcp.retransmitted_segments > 0 || stream.error().is_some();
    eventually(again);
    assert!(stack.now() > Time::ZERO);
    drop(stream);
    runtime.shutdown();
    let pool = stack.pool().clone();
    drop(stack);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
#[should_panic(expected = "not this runtime's workers")]
fn a_stack_with_other_cpus_is_refused() {
    // Breaks when a stack has CPUs without a worker.
    let runtime = Runtime::with_workers(1).expect("threads");
    let stack = Stack::new(Config::from_system()).expect("address space");
    runtime.add(&stack);
}

#[test]
fn a_queue_that_is_not_there_is_not_watched() {
    // Breaks when the runtime accepts a queue that can't receive, or the record of a queue outlives the runtime.
    let runtime = Runtime::with_workers(1).expect("threads");
    let stack = stack(&runtime);
    let (mut end, far) = EpairEnd::pair(EpairConfig::default());
    let index = end
        .attach(&stack, interface(1), Input::Task(runtime.taskqueue(0)))
        .unwrap();
    let (fd, _silent) = io::pipe().expect("descriptors");
    assert!(runtime.add_queue(&stack, index, 0, fd.as_fd()).is_ok());
    let missing = runtime.add_queue(&stack, index, 1, fd.as_fd());
    assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    stack.detach(index);
    let gone = runtime.add_queue(&stack, index, 0, fd.as_fd());
    assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
    // The first is still kept: nothing was readable.
    runtime.shutdown();
    let pool = stack.pool().clone();
    drop((end, far, stack));
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn many_threads_use_one_stack() {
    // Breaks when two threads in one stack lose bytes, or a wakeup, to each other.
    let runtime = Runtime::with_workers(2).expect("threads");
    let pair = Pair::new(&runtime);
    let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
    let listener = pair.stacks[1].tcp_listen(there, 8).expect("free");
    let sum = Arc::new(AtomicUsize::new(0));
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let client = pair.stacks[0].tcp_connect(any, there).expect("a route");
            scope.spawn(move || (0..64).for_each(|_| client.send_all_blocking(&[7; 16 << 10])));
            let server = listener
                .accept_blocking(Some(PATIENCE))
                .expect("it connects");
            let sum = Arc::clone(&sum);
            scope.spawn(move || {
                let mut buf = vec![0; 64 << 10];
                loop {
                    match server
                        .recv_blocking(&mut buf, Some(PATIENCE))
                        .expect("in time")
                    {
                        0 => return,
                        n => sum.fetch_add(n, Ordering::Relaxed),
                    };
                }
            });
        }
    });
    assert_eq!(sum.load(Ordering::Relaxed), 4 * (1 << 20));
    drop(listener);
    runtime.shutdown();
    pair.check_balance();
}

#[test]
fn a_stack_that_is_added_takes_interfaces() {
    // Breaks when interfaces of stacks that the runtime's builder did not make have no thread, or an option is lost.
    let runtime = Runtime::with_workers(1).expect("threads");
    let mut config = Config::from_system();
    config.cpus = runtime.cpus();
    let stack = Stack::new(config).expect("address space");
    let device = || crate::device::tunnel::pair(stack.pool(), 1500).expect("descriptors");
    let ((early, _far), (late, _other_far)) = (device(), device());
    let up = stack.add_interface(early).up();
    assert!(matches!(up, Err(crate::Error::NoRuntime)));
    runtime.add(&stack);
    let interface = stack.add_interface(late);
    let up = interface.config(|config| config.accept_any = true).up();
    let index = up.expect("the runtime drives it");
    assert!(stack.0.interface(index).is_some_and(|ifp| ifp.accept_any));
}

#[test]
fn an_interface_whose_router_can_not_be_is_not_there() {
    // Breaks when a default router that no network of the interface has is believed, or a call that fails leaves an
    // interface behind.
    let runtime = Runtime::with_workers(1).expect("threads");
    let stack = runtime.stack().build().expect("address space");
    for router in ["198.51.100.1", "192.0.2.1"] {
        let (device, _far) = crate::device::tunnel::pair(stack.pool(), 1500).expect("descriptors");
        let interface = stack.add_interface(device);
        let interface = interface.addr("192.0.2.1/24".parse().expect("an address"));
        let router = router.parse().expect("an address");
        let up = interface.default_route(router).up();
        assert!(matches!(up, Err(crate::Error::Gateway(at)) if at == router));
        assert!(stack.stats().interfaces.is_empty());
    }
}

#[test]
fn calls_that_wait_when_their_runtime_ends_return() {
    // Breaks when a program can't join the thread that accepts after it has dropped its runtime.
    let runtime = Runtime::with_workers(1).expect("threads");
    let stack = runtime.stack().build().expect("address space");
    let listener = stack.tcp_listen("127.0.0.1:80", 8).expect("free");
    let client = stack.tcp_connect_blocking("127.0.0.1:80", None);
    let (client, _server) = (client.expect("it listens"), listener.accept());
    let socket = stack.udp_bind("127.0.0.1:53").expect("free");
    let wants_more = stack.tcp_connect_blocking("127.0.0.1:80", None);
    let (wants_more, _server) = (wants_more.expect("it listens"), listener.accept());
    wants_more.set_options(&crate::TcpSocketOptions {
        recv_low_water: Some(100),
        ..wants_more.options()
    });
    let (says, said) = mpsc::channel();
    let gone = Some(crate::SocketError::NotDriven);
    let calls: [Box<dyn FnOnce() -> bool + Send>; 4] = [
        Box::new(move || listener.accept_blocking(None).err() == gone),
        Box::new(move || client.recv_blocking(&mut [0; 1], None).err() == gone),
        Box::new(move || wants_more.recv_blocking(&mut [0; 200], None).err() == gone),
        Box::new(move || socket.recv_blocking(None).err() == Some(RecvError::NotDriven)),
    ];
    let threads = calls.map(|call| {
        let says = says.clone();
        thread::spawn(move || says.send(call()))
    });
    // They may sleep by then, or call afterwards: both must return.
    thread::sleep(Duration::from_millis(2));
    drop(runtime);
    for _ in &threads {
        assert_eq!(said.recv_timeout(PATIENCE), Ok(true));
    }
}

/// A task that notes that it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn tasks_and_splices_that_wait_when_their_runtime_ends_hear_of_it() {
    // Breaks when a task that awaits a client, a datagram or the end of a relay waits for ever after its runtime has
    // ended, or a thread that waits for a relay does.
    let runtime = Runtime::with_workers(1).expect("threads");
    let stack = runtime.stack().build().expect("address space");
    let listener = stack.tcp_listen("127.0.0.1:80", 8).expect("free");
    let pair = || {
        let client = stack.tcp_connect_blocking("127.0.0.1:80", None);
        let server = listener.accept_blocking(None).expect("a client");
        (client.expect("it listens"), server)
    };
    let relay = || {
        let ((client, front), (back, server)) = (pair(), pair());
        let relay = front.relay(back, None).expect("two connections");
        (relay, client, server)
    };
    let ((polled, _a, _b), (waited, _c, _d)) = (relay(), relay());
    let (source, sink) = polled.ends();
    let socket = stack.udp_bind("127.0.0.1:53").expect("free");
    let foreign = stack.udp_bind_any(crate::IfIndex::LOOPBACK);
    let foreign = foreign.expect("the only one");
    let woken: [_; 6] = std::array::from_fn(|_| Arc::new(Woken::default()));
    let wakers = woken.each_ref().map(|woken| Waker::from(Arc::clone(woken)));
    let [
        mut accepting,
        mut receiving,
        mut ending,
        mut reading,
        mut writing,
        mut hearing,
    ] = wakers.each_ref().map(Context::from_waker);
    let (mut accepted, mut received) = (
        Box::pin(listener.accept_async()),
        Box::pin(socket.recv_async()),
    );
    assert!(accepted.as_mut().poll(&mut accepting).is_pending());
    assert!(received.as_mut().poll(&mut receiving).is_pending());
    assert!(foreign.poll_recv(&mut hearing).is_pending());
    assert!(polled.poll_ended(&mut ending).is_pending());
    // A splice has both directions of these, and moves nothing.
    assert!(source.poll_read(&mut reading, &mut [0]).is_pending());
    assert!(sink.poll_write(&mut writing, &[0]).is_pending());
    let (says, said) = mpsc::channel();
    let thread = thread::spawn(move || says.send(waited.wait_blocking(None).is_some()));
    // It may sleep by then, or call afterwards: both must return.
    thread::sleep(Duration::from_millis(2));
    drop(runtime);
    assert!(woken.iter().all(|woken| woken.0.load(Ordering::SeqCst) > 0));
    let gone = crate::SocketError::NotDriven;
    let Poll::Ready(Err(error)) = accepted.as_mut().poll(&mut accepting) else {
        panic!("it waits");
    };
    assert_eq!(error, gone);
    let Poll::Ready(Err(error)) = received.as_mut().poll(&mut receiving) else {
        panic!("it waits");
    };
    assert_eq!(error, RecvError::NotDriven);
    let Poll::Ready(ends) = polled.poll_ended(&mut ending) else {
        panic!("it waits");
    };
    let undriven =
        |end| matches!(end, SpliceEnd::Source(e) | SpliceEnd::Sink(e) if e == gone.into());
    assert!(ends.iter().all(|one| undriven(one.end)), "{ends:?}");
    assert_eq!(said.recv_timeout(PATIENCE), Ok(true));
    assert!(thread.join().is_ok());
}

#[test]
fn no_call_waits_for_a_stack_whose_runtime_has_ended() {
    // Breaks when a program that kept a stack and dropped its runtime sleeps for ever, without a word.
    let runtime = Runtime::with_workers(1).expect("threads");
    let stack = runtime.stack().build().expect("address space");
    let listener = stack.tcp_listen("127.0.0.1:80", 8).expect("free");
    let client = stack.tcp_connect("0.0.0.0:0", "127.0.0.1:80");
    let client = client.expect("a free port");
    let socket = stack.udp_bind("127.0.0.1:53").expect("free");
    drop(runtime);
    let gone = Some(crate::SocketError::NotDriven);
    assert_eq!(client.recv_blocking(&mut [0; 1], None).err(), gone);
    drop(listener.accept());
    assert_eq!(listener.accept_blocking(Some(PATIENCE)).err(), gone);
    // A server's loop that goes on after an error must not spin.
    let results: Vec<_> = listener
        .incoming()
        .take(3)
        .map(|one| one.is_err())
        .collect();
    assert_eq!(results, [true]);
    let nothing = socket.recv_blocking(None).err();
    assert_eq!(nothing, Some(RecvError::NotDriven));
}
