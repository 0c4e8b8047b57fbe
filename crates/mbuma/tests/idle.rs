//! The cost of 100,000 idle connections: each end at most `BYTES_MAX`, of the heap and of the buffers' zones together.
//! ARCHITECTURE states both figures, and `cargo xtask tidy` compares them with the constants here.
//!
//! Both ends are in this process, in two stacks; the test counts every byte that the process allocates. The figure has
//! all parts of a connection: its control block, its place in the table, its timer, its handle, and the growth of
//! shared tables.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use kern::{Random, Time, VirtualClock};
use mbuf::Live;
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities};
use mbuma::{Config, IfConfig, IfIndex, Stack, State, TcpListener, TcpStream};

/// The system's allocator, counted: the bytes that it was asked for, in the sizes that it gives.
struct Counting;

static HEAP: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP.fetch_add(chunk(layout.size()), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HEAP.fetch_sub(chunk(layout.size()), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HEAP.fetch_add(chunk(size), Relaxed);
        HEAP.fetch_sub(chunk(layout.size()), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The memory that the allocator takes for `size` bytes: with a header, rounded up to a multiple of 16.
fn chunk(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

const CONNECTIONS: usize = 100_000;
/// Ports of one address that a client may use to one port of a server: fewer than there are.
const PER_PORT: usize = 10_000;
/// Bytes of one end, at most. Measured: 1019, with and without optimisation.
const BYTES_MAX: usize = 1024;

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

struct Net {
    clock: Arc<VirtualClock>,
    ends: [(Stack, IfIndex); 2],
}

impl Net {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let (a, b) = Pipe::pair(Capabilities::whole(1500));
        let mut n = 0;
        let ends = [a, b].map(|device| {
            n += 1;
            let stack =
                Stack::new(Config::new(clock.clone(), Random::from_seed(n.into()))).unwrap();
            let config = IfConfig::new("pipe0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24);
            let index = stack.attach(Arc::new(device), config).unwrap();
            (stack, index)
        });
        Self { clock, ends }
    }

    /// Frames go round until there are none.
    fn settle(&self) {
        for _ in 0..4 {
            for (stack, index) in &self.ends {
                stack.poll_interface(*index, ALL).unwrap();
            }
        }
    }

    /// Time passes: timers run.
    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        for (stack, _) in &self.ends {
            stack.poll();
        }
        self.settle();
    }

    /// Bytes in use now, of the heap and of the zones' slabs.
    fn bytes(&self) -> usize {
        let zones = |stack: &Stack| {
            let pool = stack.pool().stats();
            pool.zones().map(|zone| zone.bytes).sum::<usize>()
        };
        HEAP.load(Relaxed)
            + self
                .ends
                .iter()
                .map(|(stack, _)| zones(stack))
                .sum::<usize>()
    }
}

fn open(net: &Net, listener: &TcpListener, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    (0..count)
        .map(|_| {
            let client = net.ends[0]
                .0
                .tcp_connect(any, listener.local_addr())
                .unwrap();
            net.settle();
            (client, listener.accept().expect("the handshake is over"))
        })
        .collect()
}

fn exchange(net: &Net, (client, server): &(TcpStream, TcpStream)) {
    for (from, to) in [(client, server), (server, client)] {
        from.set_keepalive(Some(Duration::from_secs(7200)));
        from.send(b"?").unwrap();
        net.settle();
        assert_eq!(to.recv(&mut [0; 8]), Ok(1));
    }
}

#[test]
fn an_idle_connection_costs_no_more_than_architecture_says() {
    // Breaks if a connection grows, or the stack keeps something else for each.
    let net = Net::new();
    let there = |port| SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), port);
    let listen = |port| net.ends[1].0.tcp_listen(there(port), 64).unwrap();
    // The first connections make the objects that are made once.
    let first = open(&net, &listen(79), 100);
    let listeners: Vec<_> = (80..).take(CONNECTIONS / PER_PORT).map(listen).collect();
    net.pass(Duration::from_secs(1));
    let before = net.bytes();
    let mut held = Vec::with_capacity(CONNECTIONS);
    for listener in &listeners {
        held.extend(open(&net, listener, PER_PORT));
    }
    // Each has a timer, and has carried data both ways.
    for some in held.chunks(100) {
        some.iter().for_each(|ends| exchange(&net, ends));
        // Delayed acknowledgements are sent, and free the data.
        net.pass(Duration::from_millis(50));
    }
    let each = (net.bytes() - before) as f64 / (2 * CONNECTIONS) as f64;
    println!("{CONNECTIONS} idle connections: {each:.1} bytes each end");
    for (stack, _) in &net.ends {
        assert_eq!(stack.stats().tcp.connections, CONNECTIONS + first.len());
    }
    assert!(held.iter().all(|(client, server)| {
        client.state() == State::Established && server.state() == State::Established
    }));
    assert!(each <= BYTES_MAX as f64, "{each:.1} bytes each end");

    // All of it goes, with its end.
    for ends in held.into_iter().chain(first) {
        drop(ends);
        net.settle();
    }
    net.pass(Duration::from_secs(120));
    drop(listeners);
    for (stack, _) in &net.ends {
        assert_eq!(stack.stats().tcp.connections, 0);
        assert_eq!(stack.pool().live(), Live::NONE);
    }
}
