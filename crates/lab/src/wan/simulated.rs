//! Two stacks of ours at the ends of an emulated link, in virtual time.
//!
//! The same path, algorithm and seed give the same figures on every machine, and a run takes as long as the
//! computation, not as long as the transfer.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use kern::Time;
use mbuma::{Config, EcnMode, TcpListener, TcpStream};
use sim::app::{App, Context};
use sim::{Net, NodeId, PortConfig, WireId};

use super::designs::Algorithm;
use super::figures::Figures;
use super::path::{MTU, Path};

const SENDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PORT: u16 = 5001;
/// Bytes of the socket buffers: larger than the largest path and its queue hold.
pub(super) const BUFFER: usize = 16 << 20;
/// How long a flow runs before it is measured, in seconds of 30; shorter runs warm up for less.
pub(super) const WARMUP_MAX: Duration = Duration::from_secs(5);

/// Runs the flows of `path` from `seed` and measures for `time`.
pub(crate) fn run(path: &Path, algorithm: Algorithm, seed: u64, time: Duration) -> Figures {
    let mut net = Net::new(seed);
    let wire = net.wire(path.forward());
    let tune = |config: &mut Config| {
        config.tcp.send_buffer = BUFFER;
        config.tcp.recv_buffer = BUFFER;
        algorithm.choose(config);
        choose_ecn(path, config);
    };
    let (from, to) = (net.stack_with(tune), net.stack_with(tune));
    net.plug(from, wire, SENDER, &PortConfig::plain(MTU));
    let back = net.plug(to, wire, RECEIVER, &PortConfig::plain(MTU));
    net.wire_mut(wire).set_link(back, path.backward());
    let received = start(&mut net, from, to, path.flows);
    net.run_for(WARMUP_MAX.min(time));
    let before: Vec<u64> = received.iter().map(|count| count.get()).collect();
    let waited = mean_wait(&mut net, wire, time);
    let bytes = received
        .iter()
        .zip(before)
        .map(|(now, before)| now.get() - before);
    let bytes: Vec<u64> = bytes.collect();
    let stats = net.at(from).stats().tcp;
    let sent = net.wire_mut(wire).counts(0).sent.max(1);
    Figures {
        mbps: bytes[0] as f64 * 8.0 / time.as_secs_f64() / 1e6,
        share: 100.0 * bytes[0] as f64 / bytes.iter().sum::<u64>().max(1) as f64,
        resent_percent: 100.0 * stats.retransmitted_segments as f64 / sent as f64,
        timeouts: Some(stats.timeouts as f64),
        rtt_ms: (2 * path.backward().delay + waited).as_secs_f64() * 1e3,
    }
}

/// Lets a stack of ours offer ECN where the path marks.
pub(super) fn choose_ecn(path: &Path, config: &mut Config) {
    if path.has_ecn() {
        config.tcp.ecn = EcnMode::Offer;
    }
}

/// Runs for `time`, and says how long a frame that enters the queue waits, on average over that time.
fn mean_wait(net: &mut Net, wire: WireId, time: Duration) -> Duration {
    const SAMPLES: u32 = 1000;
    let mut sum = Duration::ZERO;
    for _ in 0..SAMPLES {
        net.run_for(time / SAMPLES);
        let now = net.now();
        sum += net.wire_mut(wire).wait(0, now);
    }
    sum / SAMPLES
}

/// Starts the flows, and returns the count of bytes that each receiver has taken.
fn start(net: &mut Net, from: NodeId, to: NodeId, flows: usize) -> Vec<Rc<Cell<u64>>> {
    let start = |flow| {
        let there = SocketAddrV4::new(RECEIVER, PORT + flow as u16);
        let listener = net.at(to).tcp_listen(there, 1).expect("the port is free");
        let here = SocketAddrV4::new(SENDER, 0);
        let stream = net.at(from).tcp_connect(here, there);
        let received = Rc::new(Cell::new(0));
        net.add_app(Box::new(Sink {
            listener,
            stream: None,
            received: Rc::clone(&received),
        }));
        net.add_app(Box::new(Source(stream.expect("a port is free"))));
        received
    };
    (0..flows).map(start).collect()
}

/// Sends without end.
struct Source(TcpStream);

impl App for Source {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        self.0.set_waker(Some(context.waker.clone()));
        while self.0.send(&[0; 1 << 16]).is_ok() {}
        None
    }
}

/// Receives the bytes of one connection.
struct Sink {
    listener: TcpListener,
    stream: Option<TcpStream>,
    received: Rc<Cell<u64>>,
}

impl App for Sink {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        self.listener.set_waker(Some(context.waker.clone()));
        self.stream = self.stream.take().or_else(|| self.listener.accept().ok());
        let Some(stream) = &self.stream else {
            return None;
        };
        stream.set_waker(Some(context.waker.clone()));
        while let Ok(chain) = stream.recv_chain(usize::MAX)
            && !chain.is_empty()
        {
            self.received.set(self.received.get() + chain.len() as u64);
        }
        None
    }
}
