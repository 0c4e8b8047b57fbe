//! A path, and one bulk flow over it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use kern::Time;
use mbuf::Live;
use mbuma::congestion::CongestionControl;
use mbuma::{Config, SocketError, TcpListener, TcpStats, TcpStream};
use sim::app::{App, Context};
use sim::{Faults, Lateness, Link, Net, NodeId, PortConfig, WireId};

pub(crate) const RATE_BPS: u64 = 100_000_000;
pub(crate) const RTT: Duration = Duration::from_millis(50);
const BUFFER: usize = 16 << 20;
pub(crate) const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER: SocketAddrV4 = SocketAddrV4::new(B, 80);

/// Listens on the second node. The nodes know each other's Ethernet addresses afterwards.
pub(crate) fn listen(net: &mut Net, nodes: [NodeId; 2]) -> TcpListener {
    let listener = net.at(nodes[1]).tcp_listen(SERVER, 1).expect("free");
    let first = connect(net, nodes[0]);
    net.run_for(10 * RTT);
    drop((first, listener.accept()));
    net.run_for(10 * RTT);
    listener
}

/// Begins a connection to the second node.
pub(crate) fn connect(net: &Net, node: NodeId) -> TcpStream {
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    net.at(node).tcp_connect(any, SERVER).expect("a port")
}

/// All sockets are gone: no buffer may be left.
pub(crate) fn end(net: &mut Net, nodes: [NodeId; 2]) {
    net.run_for(Duration::from_secs(120));
    for node in nodes {
        assert_eq!(net.at(node).pool().live(), Live::NONE, "buffers are left");
    }
}

/// Sends as much as goes in, until the time is over.
struct Source {
    stream: TcpStream,
    until: Time,
    bytes: Vec<u8>,
}

impl App for Source {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        self.stream.set_waker(Some(context.waker.clone()));
        if context.now >= self.until {
            self.stream.abort();
            context.finish();
            return None;
        }
        while self.stream.send(&self.bytes).is_ok_and(|n| n > 0) {}
        Some(self.until)
    }
}

/// Reads all, and counts it.
struct Reader {
    listener: TcpListener,
    stream: Option<TcpStream>,
    bytes: Arc<AtomicU64>,
}

impl App for Reader {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        self.listener.set_waker(Some(context.waker.clone()));
        if self.stream.is_none() {
            self.stream = self.listener.accept().ok();
        }
        let stream = self.stream.as_ref()?;
        stream.set_waker(Some(context.waker.clone()));
        loop {
            match stream.recv_chain(usize::MAX) {
                Ok(chain) => _ = self.bytes.fetch_add(chain.len() as u64, Relaxed),
                Err(SocketError::WouldBlock) => return None,
                Err(_) => {
                    context.finish();
                    return None;
                }
            }
        }
    }
}

/// A path: the faults for its data; acknowledgements only get the delay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub(crate) name: &'static str,
    pub(crate) rtt: Duration,
    /// The queue in bandwidth-delay products.
    pub(crate) queue: f64,
    pub(crate) faults: Faults,
    /// The faults for acknowledgements.
    pub(crate) back: Faults,
    /// How much longer a packet travels at most, in its order.
    pub(crate) jitter: Duration,
    /// Bytes that pass at once after a pause, before the rate applies.
    pub(crate) burst_bytes: usize,
    /// All data that is sent in so long a time is lost, every three seconds.
    pub(crate) outage: Duration,
    /// The time for which the sender's card waits for more acknowledgements before it passes any on.
    pub(crate) coalesce: Duration,
    /// The queue from which on what is ECN-capable is marked, in the same unit.
    pub(crate) marked_from: Option<f64>,
    /// Larger packets of data vanish.
    pub(crate) mtu: u16,
}

impl Path {
    pub(crate) fn new(name: &'static str, queue: f64, faults: Faults) -> Self {
        Self {
            name,
            rtt: RTT,
            queue,
            faults,
            back: Faults::default(),
            jitter: Duration::ZERO,
            burst_bytes: 0,
            outage: Duration::ZERO,
            coalesce: Duration::ZERO,
            marked_from: None,
            mtu: u16::MAX,
        }
    }

    fn link(&self) -> Link {
        let bdp = RATE_BPS as f64 / 8.0 * self.rtt.as_secs_f64();
        Link {
            faults: self.faults,
            rate_bps: RATE_BPS,
            queue_bytes: (bdp * self.queue) as usize,
            ecn_bytes: self.marked_from.map(|part| (bdp * part) as usize),
            jitter: self.jitter,
            mtu: self.mtu,
            burst_bytes: self.burst_bytes,
            ..Link::delay(self.rtt / 2)
        }
    }
}

pub(crate) fn loss(loss: f64) -> Faults {
    Faults {
        loss,
        ..Faults::default()
    }
}

pub(crate) fn reordering(reorder: f64, by: Duration) -> Faults {
    Faults {
        reorder,
        late: Lateness::By(by),
        ..Faults::default()
    }
}

/// The result of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    /// Goodput in Mbit/s, without the first seconds.
    pub(crate) mbps: f64,
    pub(crate) stats: TcpStats,
    /// Retransmission timeouts, without those of the first seconds: a SYN may be lost too.
    pub(crate) timeouts: u64,
}

/// Runs a flow for `time` after five seconds that do not count.
pub(crate) fn run(path: &Path, seed: u64, time: Duration, tune: impl Fn(&mut Config)) -> Flow {
    let mut net = Net::new(seed);
    let wire = net.wire(Link {
        faults: path.back,
        ..Link::delay(path.rtt / 2)
    });
    let large = |config: &mut Config| {
        config.tcp.send_buffer = BUFFER;
        config.tcp.recv_buffer = BUFFER;
        tune(config);
    };
    let (a, b) = (net.stack_with(large), net.stack_with(large));
    let card = PortConfig {
        coalesce: path.coalesce,
        ..PortConfig::plain(1500)
    };
    let port = net.plug(a, wire, A, &card);
    net.plug(b, wire, B, &PortConfig::plain(1500));
    net.wire_mut(wire).set_link(port, path.link());
    let listener = net.at(b).tcp_listen(SERVER, 1).expect("free");
    let client = connect(&net, a);
    let read = Arc::new(AtomicU64::new(0));
    net.add_app(Box::new(Reader {
        listener,
        stream: None,
        bytes: Arc::clone(&read),
    }));
    let start = Duration::from_secs(5);
    net.add_app(Box::new(Source {
        stream: client,
        until: net.now() + start + time,
        bytes: vec![7; 64 << 10],
    }));
    net.run_for(start);
    let before = read.load(Relaxed);
    let timeouts = net.at(a).stats().tcp.timeouts;
    measure(&mut net, path, (wire, port), time);
    let bytes = read.load(Relaxed) - before;
    let stats = net.at(a).stats().tcp;
    net.heal();
    end(&mut net, [a, b]);
    Flow {
        mbps: bytes as f64 * 8.0 / 1e6 / time.as_secs_f64(),
        stats,
        timeouts: stats.timeouts - timeouts,
    }
}

/// Runs two flows of one host beside each other, each with its algorithm, for `time` after ten seconds that do not
/// count. Their goodputs in Mbit/s.
pub(crate) fn run_beside(
    path: &Path,
    seed: u64,
    time: Duration,
    algorithms: [CongestionControl; 2],
) -> [f64; 2] {
    let mut net = Net::new(seed);
    let wire = net.wire(Link::delay(path.rtt / 2));
    let large = |config: &mut Config| {
        config.tcp.send_buffer = BUFFER;
        config.tcp.recv_buffer = BUFFER;
    };
    let (a, b) = (net.stack_with(large), net.stack_with(large));
    let end = net.plug(a, wire, A, &PortConfig::plain(1500));
    net.plug(b, wire, B, &PortConfig::plain(1500));
    net.wire_mut(wire).set_link(end, path.link());
    let start = Duration::from_secs(10);
    let until = net.now() + start + time;
    let read = algorithms.map(|algorithm| {
        let server = SocketAddrV4::new(
            B,
            if matches!(algorithm, CongestionControl::Bbr) {
                81
            } else {
                80
            },
        );
        let listener = net.at(b).tcp_listen(server, 1).expect("the port is free");
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let stream = net.at(a).tcp_connect(any, server).expect("a port is free");
        stream.set_congestion(algorithm);
        let bytes = Arc::new(AtomicU64::new(0));
        net.add_app(Box::new(Reader {
            listener,
            stream: None,
            bytes: Arc::clone(&bytes),
        }));
        net.add_app(Box::new(Source {
            stream,
            until,
            bytes: vec![7; 64 << 10],
        }));
        bytes
    });
    net.run_for(start);
    let before = read.each_ref().map(|bytes| bytes.load(Relaxed));
    net.run_for(time);
    let after = read.each_ref().map(|bytes| bytes.load(Relaxed));
    net.heal();
    net.run_for(Duration::from_secs(60));
    for node in [a, b] {
        assert_eq!(net.at(node).pool().live(), Live::NONE, "buffers are left");
    }
    [0, 1].map(|i| (after[i] - before[i]) as f64 * 8.0 / 1e6 / time.as_secs_f64())
}

/// Lets `time` pass, with the outages of the path.
fn measure(net: &mut Net, path: &Path, (wire, end): (WireId, usize), time: Duration) {
    const EVERY: Duration = Duration::from_secs(3);
    if path.outage.is_zero() {
        return net.run_for(time);
    }
    for _ in 0..time.as_secs() / EVERY.as_secs() {
        net.run_for(EVERY - path.outage);
        let faults = loss(1.0);
        let cut = Link {
            faults,
            ..path.link()
        };
        net.wire_mut(wire).set_link(end, cut);
        net.run_for(path.outage);
        net.wire_mut(wire).set_link(end, path.link());
    }
}

/// The seeds of a row.
pub(crate) fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let first = std::env::var("WAN_SEED").ok().and_then(|s| s.parse().ok());
    (first.unwrap_or(1)..).take(count as usize)
}
