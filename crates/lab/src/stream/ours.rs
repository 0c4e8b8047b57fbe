//! Two of our stacks in this process, joined by an epair, and a connection between them.
//!
//! ```text
//!   Direct   the sender takes the packets in at the other end as well; its thread does all but the reading
//!   Polled   each end's thread takes in what arrives there, when a mark says that something did
//! ```
//!
//! Invariants: the stacks live as long as their ends. Locks: none here.

use super::flow::{CHUNK, End};
use super::sums::{Sums, Work};
use crate::harness::inlet::{ArrivalMark, Inlet};
use kern::Random;
use mbuf::Chain;
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::{Config, IfConfig, Stack, State, TcpStream};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// The thread that handles arrived packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    Direct,
    Polled,
}

/// How the stacks are joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) mtu: u16,
    pub(crate) work: Work,
    pub(crate) drive: Drive,
    /// Data is handed over by reference instead of being copied in and out.
    pub(crate) by_ref: bool,
}

/// One end: a stack and its side of the connection.
pub(crate) struct OurEnd {
    stream: TcpStream,
    /// The bytes that are sent by reference, over and over.
    lent: Option<Chain>,
    inlet: Option<Inlet>,
    turns: u32,
    /// Last: it takes itself out of the stack when the stream is gone.
    _end: EpairEnd,
    stack: Stack,
}

/// Two ends that are connected.
pub(crate) fn connected(setup: Setup) -> [OurEnd; 2] {
    let stacks = [1, 2].map(stack);
    let (mut a, mut b) = EpairEnd::pair(EpairConfig {
        mtu: setup.mtu,
        queue_max: QUEUE,
    });
    let mut inlets = [
        attach(&mut a, &stacks[0], 1, setup),
        attach(&mut b, &stacks[1], 2, setup),
    ];
    let listener = stacks[1]
        .tcp_listen(SERVER, 1)
        .expect("a new stack has the port free");
    let client = stacks[0]
        .tcp_connect(ANY, SERVER)
        .expect("a new stack has a port");
    let server = loop {
        inlets.iter_mut().flatten().for_each(Inlet::run);
        if client.state() == State::Established
            && let Ok(server) = listener.accept()
        {
            break server;
        }
    };
    let [one, two] = stacks;
    let [in_a, in_b] = inlets;
    [
        OurEnd::new(one, client, a, in_a, setup),
        OurEnd::new(two, server, b, in_b, setup),
    ]
}

fn stack(seed: u64) -> Stack {
    let clock = Arc::new(kern::MonotonicClock::new());
    Stack::new(Config::new(clock, Random::from_seed(seed)))
        .expect("address space for a stack's buffers")
}

fn attach(end: &mut EpairEnd, stack: &Stack, host: u8, setup: Setup) -> Option<Inlet> {
    let config = IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, host), 24);
    let mark = Arc::new(ArrivalMark::default());
    let waker = mark.waker();
    let index = match (setup.work, setup.drive) {
        (Work::None, Drive::Direct) => {
            end.attach(stack, config, Input::Direct)
                .expect("the MTU is large enough");
            return None;
        }
        (Work::None, Drive::Polled) => end
            .attach(stack, config, Input::Polled(waker))
            .expect("the MTU is large enough"),
        (work, _) => {
            let plug = end.plug();
            plug.set_waker(waker);
            stack
                .attach(Arc::new(Sums::new(plug, work)), config)
                .expect("the MTU is large enough")
        }
    };
    let queue = stack.rx_queue(index, 0).expect("just attached");
    Some(Inlet::new(queue, mark))
}

impl OurEnd {
    fn new(
        stack: Stack,
        stream: TcpStream,
        end: EpairEnd,
        inlet: Option<Inlet>,
        setup: Setup,
    ) -> Self {
        stream.set_nodelay(true);
        let lend = || Chain::from_slice(stack.pool(), &[7; CHUNK]).expect("a new stack's buffers");
        Self {
            stream,
            lent: setup.by_ref.then(lend),
            inlet,
            turns: 0,
            _end: end,
            stack,
        }
    }
}

impl End for OurEnd {
    fn send(&mut self, bytes: &[u8]) -> usize {
        let Some(lent) = &mut self.lent else {
            return self.stream.send(bytes).unwrap_or(0);
        };
        let n = bytes.len().min(CHUNK);
        if self.stream.send_space() < n {
            return 0;
        }
        let shared = lent.share(0, n).map(|data| self.stream.send_chain(data));
        if matches!(shared, Ok(Ok(()))) { n } else { 0 }
    }

    fn recv(&mut self, buf: &mut [u8]) -> usize {
        if self.lent.is_none() {
            return self.stream.recv(buf).unwrap_or(0);
        }
        self.stream
            .recv_chain(buf.len())
            .map_or(0, |data| data.len())
    }

    fn turn(&mut self) {
        if let Some(inlet) = &mut self.inlet {
            inlet.run();
        }
        self.turns += 1;
        if self.turns.is_multiple_of(TURNS_A_TICK) {
            let _ = self.stack.poll();
        }
    }
}

/// The server's address.
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
/// Any of our own.
const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
/// Packets that wait in one direction at most.
const QUEUE: usize = 4096;
/// Timers serve only errors: they may be late by this many turns.
const TURNS_A_TICK: u32 = 256;
