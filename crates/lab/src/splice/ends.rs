//! The client's stack and the server's, and all three stacks joined.
//!
//! ```text
//!   client 192.0.2.1 ---epair--- 192.0.2.2 proxy 198.51.100.1 ---epair--- 198.51.100.2 server
//! ```
//!
//! The client sends by reference and the server drops the data, so that the figures show the proxy's work.

use super::proxy::{Proxy, Work};
use crate::harness::inlet::{ArrivalMark, Inlet};
use kern::Random;
use mbuf::Chain;
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::{Config, IfConfig, Stack, State, TcpStream};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// The client and the server.
pub(crate) struct Ends {
    /// The client's end and the server's of each connection.
    pub(crate) streams: Vec<[TcpStream; 2]>,
    /// The data that the client sends, over and over.
    lent: Chain,
    inlets: [Inlet; 2],
    stacks: [Stack; 2],
    turns: u32,
    /// Last: they take themselves out of the stacks when the connections are gone.
    _epairs: [EpairEnd; 4],
}

/// Three stacks with so many connections through the one in the middle.
pub(crate) fn joined(streams: usize, work: Work) -> (Ends, Proxy) {
    let [client, proxy, server] = [1, 2, 3].map(stack);
    let [mut a, mut b] = epair();
    let [mut c, mut d] = epair();
    let mut outer = [
        attach(&mut a, &client, CLIENT),
        attach(&mut d, &server, SERVER),
    ];
    let mut inner = [attach(&mut b, &proxy, FRONT), attach(&mut c, &proxy, BACK)];
    let mut turn = || outer.iter_mut().chain(&mut inner).for_each(Inlet::run);
    let mut fronts = connect(&client, &proxy, FRONT, streams, &mut turn);
    let mut backs = connect(&proxy, &server, SERVER, streams, &mut turn);
    let mut ends = Vec::new();
    let mut pairs = Vec::new();
    while let (Some([client, front]), Some([back, server])) = (fronts.pop(), backs.pop()) {
        ends.push([client, server]);
        pairs.push([front, back]);
    }
    let lent = Chain::from_slice(client.pool(), &[7; CHUNK]).expect("a new stack's buffers");
    let ends = Ends {
        streams: ends,
        lent,
        inlets: outer,
        stacks: [client, server],
        turns: 0,
        _epairs: [a, b, c, d],
    };
    (ends, Proxy::new(proxy, inner, pairs, work))
}

impl Ends {
    /// Sends on each connection and receives; says how many bytes arrived.
    pub(crate) fn stream(&mut self) -> u64 {
        let mut bytes = 0;
        for at in 0..self.streams.len() {
            let [client, _] = &self.streams[at];
            if client.send_space() >= CHUNK
                && let Ok(data) = self.lent.share(0, CHUNK)
            {
                let _ = client.send_chain(data);
            }
        }
        self.turn();
        for [_, server] in &self.streams {
            while let Ok(data) = server.recv_chain(usize::MAX)
                && !data.is_empty()
            {
                bytes += data.len() as u64;
            }
        }
        bytes
    }

    /// Takes in the packets that arrived.
    pub(crate) fn turn(&mut self) {
        self.inlets.iter_mut().for_each(Inlet::run);
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS_A_TICK) {
            for stack in &self.stacks {
                let _ = stack.poll();
            }
        }
    }
}

fn stack(seed: u64) -> Stack {
    let clock = Arc::new(kern::MonotonicClock::new());
    Stack::new(Config::new(clock, Random::from_seed(seed)))
        .expect("address space for a stack's buffers")
}

fn epair() -> [EpairEnd; 2] {
    let (a, b) = EpairEnd::pair(EpairConfig {
        mtu: 1500,
        queue_max: QUEUE,
    });
    [a, b]
}

fn attach(end: &mut EpairEnd, stack: &Stack, addr: Ipv4Addr) -> Inlet {
    let config = IfConfig::new(format!("epair {addr}")).with_addr(addr, 24);
    let mark = Arc::new(ArrivalMark::default());
    let index = end
        .attach(stack, config, Input::Polled(mark.waker()))
        .expect("the MTU is large enough");
    let queue = stack.rx_queue(index, 0).expect("just attached");
    Inlet::new(queue, mark)
}

/// So many connections from a stack to an address of another, each as the client's end and the server's.
fn connect(
    from: &Stack,
    to: &Stack,
    addr: Ipv4Addr,
    streams: usize,
    turn: &mut dyn FnMut(),
) -> Vec<[TcpStream; 2]> {
    let addr = SocketAddrV4::new(addr, 80);
    let listener = to.tcp_listen(addr, 1).expect("the port is free");
    let one = |_| {
        let client = from.tcp_connect(ANY, addr).expect("a port");
        client.set_nodelay(true);
        loop {
            turn();
            if client.state() == State::Established
                && let Ok(server) = listener.accept()
            {
                server.set_nodelay(true);
                return [client, server];
            }
        }
    };
    (0..streams).map(one).collect()
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The proxy's address on the client's side.
const FRONT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The proxy's address on the server's side.
const BACK: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Any of our own.
const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
/// Bytes that the client sends at once.
const CHUNK: usize = 64 << 10;
/// Packets that wait in one direction at most.
const QUEUE: usize = 4096;
/// Nothing is lost here, so no timer is needed: timers may be late by so many turns.
const TURNS_A_TICK: u32 = 256;
