//! A flood of SYNs from random sources: the memory that a listener keeps for it, and its effect on real clients.
//!
//! The attacker's packets come by a tunnel, and the answers leave by it and are thrown away: none of its addresses
//! exists. The clients are a stack behind another device. Time is virtual, and every byte that the process allocates is
//! counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use kern::{Random, Time, VirtualClock};
use mbuf::Live;
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, tunnel};
use mbuma::{Config, IfAddr, IfConfig, IfIndex, RouteKind, Stack, State, TcpListener, TcpStream};
use wire::{
    IpProto, Ipv4Fields, SeqNum, TcpFields, TcpFlags, TcpHeader, TcpOptions, pseudo_header_v4,
};

/// The system's allocator, counted.
struct Counting;

static HEAP: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HEAP.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Forged SYNs.
const SYNS: usize = 1_000_000;
/// In a millisecond.
const SYNS_MS: usize = 20;
/// A client connects so often.
const CLIENT_EVERY_MS: usize = 20;
/// Bytes that the flood may cost at its worst moment.
const BYTES_MAX: usize = 4 << 20;
/// Milliseconds of the path between the clients and the server, one way.
const DELAY_MS: usize = 5;

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CLIENTS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PORT: u16 = 80;
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

struct Net {
    clock: Arc<VirtualClock>,
    server: Stack,
    to_attacker: IfIndex,
    attacker: tunnel::TunnelEnd,
    to_clients: IfIndex,
    clients: Stack,
    to_server: IfIndex,
    listener: TcpListener,
    /// Milliseconds since the begin.
    now: usize,
}

impl Net {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1000)));
        let stack = |seed| Stack::new(Config::new(clock.clone(), Random::from_seed(seed))).unwrap();
        let (server, clients) = (stack(1), stack(2));
        let (device, attacker) = tunnel::pair(server.pool(), 1500).unwrap();
        let config = IfConfig::new("tun0").with_addr(SERVER, 32);
        let to_attacker = server.attach(Arc::new(device), config).unwrap();
        let (a, b) = Pipe::pair(Capabilities::whole(1500));
        let ours = Ipv4Addr::new(198, 51, 100, 1);
        let to_clients = server
            .attach(Arc::new(a), IfConfig::new("pipe0").with_addr(ours, 24))
            .unwrap();
        let to_server = clients
            .attach(Arc::new(b), IfConfig::new("pipe0").with_addr(CLIENTS, 24))
            .unwrap();
        let default = IfAddr::new(Ipv4Addr::UNSPECIFIED, 0);
        let route = server.add_route(default, RouteKind::Link(to_attacker));
        route.expect("there is none yet");
        let route = clients.add_route(default, RouteKind::Gateway(to_server, ours.into()));
        route.expect("there is none yet");
        let listener = server.tcp_listen(SocketAddrV4::new(SERVER, PORT), 128);
        Self {
            clock,
            listener: listener.expect("the port is free"),
            server,
            to_attacker,
            attacker,
            to_clients,
            clients,
            to_server,
            now: 0,
        }
    }

    /// A millisecond passes. Packets between clients and server are carried every few of them.
    fn pass(&mut self) {
        self.now += 1;
        self.clock.advance(Duration::from_millis(1));
        self.server.poll();
        self.clients.poll();
        self.server.poll_interface(self.to_attacker, ALL).unwrap();
        while let Ok(Some(answer)) = self.attacker.take() {
            drop(answer);
        }
        match self.now % (2 * DELAY_MS) {
            0 => _ = self.server.poll_interface(self.to_clients, ALL).unwrap(),
            DELAY_MS => _ = self.clients.poll_interface(self.to_server, ALL).unwrap(),
            _ => {}
        }
    }

    /// Memory in use: of the heap, and of the zones of the server's pool.
    fn bytes(&self) -> usize {
        let pool = self.server.pool().stats();
        HEAP.load(Relaxed) + pool.zones().map(|zone| zone.bytes).sum::<usize>()
    }

    /// A client begins.
    fn connect(&self) -> TcpStream {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let there = SocketAddrV4::new(SERVER, PORT);
        self.clients
            .tcp_connect(any, there)
            .expect("a port is free")
    }
}

/// A SYN from anywhere, as an IP packet.
fn forged(random: &mut Random) -> Vec<u8> {
    let src = Ipv4Addr::new(
        11,
        random.below(256) as u8,
        random.below(256) as u8,
        random.below(256) as u8,
    );
    let tcp = TcpFields {
        src_port: 1024 + random.below(60_000) as u16,
        dst_port: PORT,
        seq: SeqNum(random.next_u32()),
        flags: TcpFlags::SYN,
        window: 65_535,
        options: TcpOptions {
            mss: Some(1460),
            sack_permitted: true,
            window_scale: Some(7),
            timestamps: Some((random.next_u32(), 0)),
            ..TcpOptions::default()
        },
        ..TcpFields::default()
    };
    let len = tcp.header_len();
    let ip = Ipv4Fields {
        payload_len: len as u16,
        df: true,
        ttl: 64,
        protocol: IpProto::TCP,
        src,
        dst: SERVER,
        ..Ipv4Fields::default()
    };
    let mut packet = vec![0; ip.header_len() + len];
    let (head, segment) = packet.split_at_mut(ip.header_len());
    ip.emit(head);
    tcp.emit(segment);
    let mut sum = pseudo_header_v4(src, SERVER, IpProto::TCP, len as u32);
    sum.add_bytes(segment);
    segment[TcpHeader::CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.finish().to_be_bytes());
    packet
}

/// The outcome for real clients.
#[derive(Debug, Default)]
struct Clients {
    /// In their handshake, with the millisecond in which it began.
    waiting: Vec<(usize, TcpStream)>,
    /// Established here, and not yet served.
    open: Vec<TcpStream>,
    handshakes_ms: Vec<usize>,
    served: usize,
}

impl Clients {
    fn turn(&mut self, net: &Net) {
        for (began, stream) in std::mem::take(&mut self.waiting) {
            match stream.state() {
                State::SynSent | State::SynReceived => self.waiting.push((began, stream)),
                State::Established => {
                    self.handshakes_ms.push(net.now - began);
                    stream.send(b"request").expect("room");
                    self.open.push(stream);
                }
                state => panic!("a client ended as {state:?}: {:?}", stream.error()),
            }
        }
        // The server answers each and closes; the client reads the answer.
        while let Ok(stream) = net.listener.accept() {
            stream.send(b"answer").expect("room");
        }
        let before = self.open.len();
        self.open.retain(|stream| {
            let answer = stream.recv(&mut [0; 16]);
            answer != Ok(6)
        });
        self.served += before - self.open.len();
    }

    fn p99(&mut self) -> usize {
        self.handshakes_ms.sort_unstable();
        self.handshakes_ms[self.handshakes_ms.len() * 99 / 100]
    }
}

/// Lets clients come for so many milliseconds, beside `syns` forged SYNs in each. Returns the most memory that was in
/// use.
fn run(net: &mut Net, random: &mut Random, ms: usize, syns: usize) -> (Clients, usize) {
    let (mut clients, mut most, mut begun) = (Clients::default(), 0, 0);
    for n in 0..ms {
        for _ in 0..syns {
            assert!(net.attacker.give(&forged(random)).expect("attached"));
        }
        if n % CLIENT_EVERY_MS == 0 {
            clients.waiting.push((net.now, net.connect()));
            begun += 1;
        }
        net.pass();
        clients.turn(net);
        most = most.max(net.bytes());
    }
    while !clients.waiting.is_empty() || !clients.open.is_empty() {
        net.pass();
        clients.turn(net);
        assert!(
            net.now < 10 * (ms + 10_000),
            "{} wait",
            clients.waiting.len()
        );
    }
    assert_eq!(clients.served, begun, "each client is served");
    (clients, most)
}

#[test]
fn a_flood_of_random_sources_costs_little_memory_and_no_client_anything() {
    // RFC 4987: breaks when something is kept for each SYN, when a client is refused, or when its handshake waits for a
    // retransmission.
    let mut net = Net::new();
    let mut random = Random::from_seed(7);
    let ms = SYNS / SYNS_MS;
    // The first clients make objects that are made once, such as neighbours. The handshakes of the next ones are the
    // measure for the others.
    run(&mut net, &mut random, 100, 0);
    let (mut before, _) = run(&mut net, &mut random, 2000, 0);
    let bytes = net.bytes();
    let (mut flooded, most) = run(&mut net, &mut random, ms, SYNS_MS);
    let stats = net.server.stats().tcp;
    let (usual, p99) = (before.p99(), flooded.p99());
    let cost = most.saturating_sub(bytes);
    println!(
        "{SYNS} SYNs: {} KiB at the worst moment; {} clients, p99 of the handshake {p99} ms, \
        {usual} without; {} cookies",
        cost >> 10,
        flooded.served,
        stats.cookies_sent
    );
    assert!(stats.cookies_sent as usize > SYNS / 2, "{stats:?}");
    assert!(cost < BYTES_MAX, "{cost} bytes");
    assert!(p99 <= 2 * usual, "{p99} ms, {usual} without");

    // All of it goes.
    drop((before, flooded));
    for _ in 0..130_000 / 500 {
        net.clock.advance(Duration::from_millis(499));
        net.pass();
        let _none = net.listener.accept().map(drop);
    }
    let Net {
        server,
        clients,
        listener,
        ..
    } = net;
    drop(listener);
    for stack in [&server, &clients] {
        stack.poll();
        assert_eq!(stack.stats().tcp.connections, 0);
        assert_eq!(stack.pool().live(), Live::NONE);
    }
}
