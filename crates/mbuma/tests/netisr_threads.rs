//! Dispatch with threads: policies change at random while several threads bring packets in and workers handle
//! them. Each flow's packets arrive in order, none twice, and what is missing is counted.
//!
//! With `MBUMA_GIANT` in the environment the stack runs under Giant. The seed is printed, and can be given in
//! `NETISR_SEED`; the threads' order is the machine's.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

use kern::{Giant, MonotonicClock, Random, Workers};
use mbuf::{Live, MbufPool, Mbufq, Packet, PoolConfig};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Config, Dispatch, DropReason, IfConfig, Protocol, Stack, StackStats, UdpSocket};
use wire::{EtherHeader, EtherType, IpProto, Ipv4Fields, MacAddr, UdpHeader};

const WORKERS: usize = 2;
const SOURCES: u8 = 3;
const FLOWS: u16 = 8;
const ROUNDS: u32 = 1500;
/// Packets that were sent and not read yet, beyond which a source waits. A socket takes 2 MiB, some 6,500 of these
/// datagrams: if readers get little CPU, more datagrams would be dropped there.
const IN_FLIGHT_MAX: u64 = 1000;
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A frame of flow `flow` of source `source` with a number in it.
fn frame(source: u8, flow: u16, number: u32) -> Vec<u8> {
    let mut out = vec![0; EtherHeader::LEN];
    let from = MacAddr([2, 0, 0, 0, 1, source]);
    EtherHeader::new(MAC, from, EtherType::IPV4).emit(&mut out);
    let fields = Ipv4Fields {
        src: [10, source, 0, 100].into(),
        dst: [10, source, 0, 1].into(),
        protocol: IpProto::UDP,
        payload_len: (UdpHeader::LEN + 4) as u16,
        ..Ipv4Fields::default()
    };
    let mut header = vec![0; fields.header_len()];
    fields.emit(&mut header);
    out.extend(header);
    let mut udp = vec![0; UdpHeader::LEN];
    // Without a checksum.
    UdpHeader::new(1000 + flow, 7, (UdpHeader::LEN + 4) as u16).emit(&mut udp);
    out.extend(udp);
    out.extend(number.to_be_bytes());
    out
}

struct Source {
    number: u8,
    device: Pipe,
    index: mbuma::IfIndex,
    socket: UdpSocket,
}

fn source(stack: &Stack, number: u8) -> Source {
    let (ours, device) = Pipe::pair(Capabilities::plain(1500));
    let addr = Ipv4Addr::new(10, number, 0, 1);
    let mut config = IfConfig::new(format!("pipe{number}")).with_addr(addr, 24);
    config.mac = Some(MAC);
    let index = stack.attach(Arc::new(ours), config).unwrap();
    let socket = stack.udp_bind(SocketAddrV4::new(addr, 7)).unwrap();
    Source {
        number,
        device,
        index,
        socket,
    }
}

impl Source {
    /// Brings in rounds of one packet a flow, in batches of any length; `read` is the number of packets that readers
    /// have read.
    fn run(&self, stack: &Stack, pool: &MbufPool, read: &AtomicU64, seed: u64) {
        let mut random = Random::from_seed(seed);
        for number in 1..=ROUNDS {
            let mut tx = Mbufq::new();
            for flow in 0..FLOWS {
                let frame = frame(self.number, flow, number);
                tx.enqueue(Packet::from_slice(pool, &frame, 0).unwrap());
            }
            self.device.transmit(&mut tx).unwrap();
            if random.chance(0.3) {
                thread::yield_now();
                while in_flight(stack, read) > IN_FLIGHT_MAX {
                    thread::yield_now();
                }
                while stack
                    .poll_interface(self.index, budget(&mut random))
                    .unwrap()
                {}
            }
        }
        while stack
            .poll_interface(self.index, budget(&mut random))
            .unwrap()
        {}
    }

    /// Checks what arrived; says how much that was.
    fn check(&self, seen: &mut [u32]) -> u64 {
        let mut count = 0;
        while let Ok(datagram) = self.socket.recv() {
            let flow = usize::from(datagram.src.port() - 1000);
            let bytes = datagram.payload.to_vec();
            let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
            assert!(
                number > seen[flow],
                "flow {flow}: {number} after {}",
                seen[flow]
            );
            seen[flow] = number;
            count += 1;
        }
        count
    }
}

/// Packets that are in the stack, sockets included.
fn in_flight(stack: &Stack, read: &AtomicU64) -> u64 {
    // First: these are among those received.
    let read = read.load(Ordering::Acquire);
    let stats = stack.stats();
    (stats.received - read).saturating_sub(queue_full(&stats))
}

/// Packets that a CPU had no room for.
fn queue_full(stats: &StackStats) -> u64 {
    let full =
        |&(reason, n): &(DropReason, u64)| (reason == DropReason::NetisrQueueFull).then_some(n);
    stats.dropped.iter().filter_map(full).sum()
}

fn budget(random: &mut Random) -> Budget {
    Budget {
        frames: 1 + random.below(100) as usize,
        bytes: usize::MAX,
    }
}

fn worker(stack: &Stack, workers: &Workers, cpu: usize, stop: &AtomicBool, seed: u64) {
    let _me = workers.bind(cpu);
    let mut random = Random::from_seed(seed);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    stack.set_cpu_waker(cpu, Some(waker));
    while !stop.load(Ordering::Acquire) {
        while stack.run_netisr(cpu, budget(&mut random)) {}
        thread::park();
    }
    while stack.run_netisr(cpu, budget(&mut random)) {}
    stack.set_cpu_waker(cpu, None);
}

fn run(seed: u64, queue_max: usize, policies: &[Dispatch]) {
    println!("NETISR_SEED={seed}");
    let workers = Arc::new(Workers::new(WORKERS));
    let mut config = Config::new(Arc::new(MonotonicClock::new()), Random::from_seed(seed));
    config.cpus = Arc::clone(&workers) as _;
    config.giant = Arc::new(Giant::new(std::env::var_os("MBUMA_GIANT").is_some()));
    config.udp_queue_max = usize::MAX;
    config.netisr.queue_max = queue_max;
    let stack = Stack::new(config).unwrap();
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let sources: Vec<_> = (0..SOURCES).map(|n| source(&stack, n)).collect();
    let (stop, sources_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let delivered = AtomicU64::new(0);
    thread::scope(|scope| {
        let (stack, pool, stop, delivered) = (&stack, &pool, &stop, &delivered);
        let handles: Vec<_> = (0..WORKERS)
            .map(|cpu| {
                let workers = Arc::clone(&workers);
                scope.spawn(move || worker(stack, &workers, cpu, stop, seed + cpu as u64))
            })
            .collect();
        let bringing: Vec<_> = sources
            .iter()
            .map(|s| scope.spawn(move || s.run(stack, pool, delivered, seed ^ u64::from(s.number))))
            .collect();
        let readers: Vec<_> = sources
            .iter()
            .map(|source| {
                let done = &sources_done;
                scope.spawn(move || {
                    let mut seen = [0; FLOWS as usize];
                    while !done.load(Ordering::Acquire) {
                        delivered.fetch_add(source.check(&mut seen), Ordering::Release);
                        thread::yield_now();
                    }
                    delivered.fetch_add(source.check(&mut seen), Ordering::Relaxed);
                })
            })
            .collect();
        let mut random = Random::from_seed(seed);
        while bringing.iter().any(|t| !t.is_finished()) {
            let policy = policies[random.below(policies.len() as u64) as usize];
            stack.set_dispatch(Protocol::Ip4, policy);
            thread::yield_now();
        }
        bringing.into_iter().for_each(|t| t.join().unwrap());
        stop.store(true, Ordering::Release);
        handles.iter().for_each(|t| t.thread().unpark());
        handles.into_iter().for_each(|t| t.join().unwrap());
        sources_done.store(true, Ordering::Release);
        readers.into_iter().for_each(|t| t.join().unwrap());
    });
    let stats = stack.stats();
    let sent = u64::from(SOURCES) * u64::from(FLOWS) * u64::from(ROUNDS);
    let dropped = queue_full(&stats);
    assert_eq!(stats.received, sent);
    assert_eq!(stats.delivered, delivered.load(Ordering::Relaxed));
    assert_eq!(stats.delivered + dropped, sent, "{:?}", stats.dropped);
    let works = stats.netisr.iter();
    let sum = |what: fn(&mbuma::WorkStats) -> u64| works.clone().map(what).sum::<u64>();
    assert_eq!(sum(|w| w.dropped), dropped);
    assert_eq!(sum(|w| w.queued), sum(|w| w.handled));
    assert_eq!(sum(|w| w.direct + w.hybrid + w.handled), sent - dropped);
    assert!(
        stats
            .netisr
            .iter()
            .all(|w| w.waiting == 0 && w.high_water <= queue_max)
    );
    println!("{dropped} of {sent} dropped");
    stats.netisr.iter().for_each(|w| println!("{w}"));
    let stacks_pool = stack.pool().clone();
    drop((sources, stack));
    assert_eq!(stacks_pool.live(), Live::NONE);
    assert_eq!(pool.live(), Live::NONE);
}

fn seed() -> u64 {
    let given = std::env::var("NETISR_SEED").ok();
    let given = given.and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| Random::from_os().next_u64() >> 32)
}

/// Breaks if a packet overtakes another of its flow, or is lost, under any change of policies.
#[test]
fn flows_stay_in_order_under_changing_policies() {
    let seed = seed();
    for n in 0..4 {
        run(seed + n, 100_000, &Dispatch::ALL);
    }
}

/// Breaks if a packet that a full queue refuses is not counted, or the other packets change their order.
#[test]
fn small_queues_drop_and_count() {
    let seed = seed();
    for n in 0..4 {
        run(seed + n, 16, &Dispatch::ALL);
    }
}

/// Breaks if hybrid dispatch alone, where owners and workers meet, loses or disorders anything.
#[test]
fn hybrid_dispatch_loses_and_reorders_nothing() {
    run(seed(), 100_000, &[Dispatch::Hybrid]);
}

/// Breaks if a worker sleeps while deferred packets wait.
#[test]
fn deferred_packets_wake_their_worker() {
    run(seed(), 100_000, &[Dispatch::Deferred]);
}
