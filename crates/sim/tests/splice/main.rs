//! Splices: bytes that a connection of a proxy receives are sent on another, inside of the stack.
//!
//! ```text
//!   client 10.0.0.1 --- wire --- proxy 10.0.0.2 (10.0.0.4: a second stack) --- wire --- server 10.0.0.3
//!          2001:db8::1                 2001:db8::2                                             2001:db8::3
//! ```
//!
//! One of a proxy's two connections is over IPv6, which one by the seed.
//!
//! Splices with streams of UNIX-domain sockets are in [`unix`], those of connections that have ended already in
//! [`ends`]. The cases are those of the regression tests of OpenBSD's sosplice and FreeBSD's SO_SPLICE. Each test ends
//! with all buffers given back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Wake, Waker};
use std::time::Duration;

use mbuf::Live;
use mbuma::socket::{Splice, SpliceEnd, SpliceError, SpliceOptions, SpliceOutcome, splice};
use mbuma::{SocketError, TcpStream};
use sim::{Faults, Link, Net, PortConfig};

mod ends;
mod unix;

const CLIENT: usize = 0;
const PROXY: usize = 1;
const SERVER: usize = 2;
const SECOND_PROXY: usize = 3;
const PORT: u16 = 80;

/// Passes ends on, and has no bounds.
const PLAIN: SpliceOptions = SpliceOptions {
    max: None,
    idle: None,
    pass_end: true,
};

/// The addresses of a stack: over IPv4, and over IPv6.
fn addrs(node: usize) -> [IpAddr; 2] {
    let host = node as u8 + 1;
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into());
    [Ipv4Addr::new(10, 0, 0, host).into(), v6.into()]
}

/// Any address of the version that `at` has.
fn any(at: SocketAddr) -> SocketAddr {
    match at {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Counts how often a program is woken.
#[derive(Default)]
struct Calls(AtomicU64);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Bench {
    net: Net,
    nodes: Vec<sim::NodeId>,
    /// The version of a client's connection in [`addrs`]; a server's has the other.
    version: usize,
}

/// The ends of both connections: the client's, the proxy's two, the server's.
struct Chain {
    client: TcpStream,
    source: TcpStream,
    sink: TcpStream,
    server: TcpStream,
}

impl Bench {
    fn new(seed: u64, loss: f64) -> Self {
        let mut net = Net::new(seed);
        let faults = Faults {
            loss,
            ..Faults::default()
        };
        let wire = net.wire(Link {
            faults,
            ..Link::delay(Duration::from_millis(1))
        });
        let nodes: Vec<_> = (0..4).map(|_| net.stack()).collect();
        for (n, &node) in nodes.iter().enumerate() {
            for addr in addrs(n) {
                net.plug(node, wire, addr, &PortConfig::plain(1500));
            }
        }
        let version = (seed % 2) as usize;
        Self {
            net,
            nodes,
            version,
        }
    }

    fn run(&mut self, ms: u64) {
        self.net.run_for(Duration::from_millis(ms));
    }

    /// Where a stack listens.
    fn addr_of(&self, node: usize) -> SocketAddr {
        let version = self.version ^ usize::from(node == SERVER);
        SocketAddr::new(addrs(node)[version], PORT)
    }

    /// A connection from one stack to another, and its other end.
    fn connect(&mut self, from: usize, to: usize) -> (TcpStream, TcpStream) {
        let at = self.addr_of(to);
        let listener = self.net.at(self.nodes[to]).tcp_listen(at, 8);
        let listener = listener.expect("the port is free");
        let ours = self.net.at(self.nodes[from]).tcp_connect(any(at), at);
        let ours = ours.expect("a port is free");
        for _ in 0..1000 {
            self.run(10);
            if let Ok(theirs) = listener.accept() {
                return (ours, theirs);
            }
        }
        panic!("no connection");
    }

    fn chain(&mut self, second_proxy: usize) -> Chain {
        let (client, source) = self.connect(CLIENT, PROXY);
        let (sink, server) = self.connect(second_proxy, SERVER);
        Chain {
            client,
            source,
            sink,
            server,
        }
    }

    /// Sends `bytes` on `from`, and FIN, and reads until the end on `to`, for two virtual minutes at most.
    fn transfer(&mut self, from: &TcpStream, to: &TcpStream, bytes: &[u8]) -> Vec<u8> {
        self.transfer_watched(from, to, bytes, || {})
    }

    /// The same; `watch` is called again and again meanwhile.
    fn transfer_watched(
        &mut self,
        from: &TcpStream,
        to: &TcpStream,
        bytes: &[u8],
        mut watch: impl FnMut(),
    ) -> Vec<u8> {
        let (mut sent, mut received) = (0, Vec::new());
        let mut buf = vec![0; 64 << 10];
        for _ in 0..60_000 {
            watch();
            if sent < bytes.len() {
                sent += from.send(&bytes[sent..]).unwrap_or(0);
                if sent == bytes.len() {
                    from.shutdown(Shutdown::Write);
                }
            }
            match to.recv(&mut buf) {
                Ok(0) => return received,
                Ok(n) => received.extend_from_slice(&buf[..n]),
                Err(SocketError::WouldBlock) => self.run(2),
                Err(e) => panic!("{e}"),
            }
        }
        panic!(
            "{sent} of {} sent, {} received",
            bytes.len(),
            received.len()
        );
    }

    fn read(&self, from: &TcpStream) -> Vec<u8> {
        let (mut all, mut buf) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = from.recv(&mut buf) {
            all.extend_from_slice(&buf[..n]);
        }
        all
    }
}

/// At the end all sockets are closed: nothing is left.
impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.net.heal();
        self.net.run_for(Duration::from_secs(200));
        for &node in &self.nodes {
            let live = self.net.at(node).pool().live();
            assert_eq!(live, Live::NONE, "buffers are left");
        }
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}

/// Runs a test on a client, a proxy and a server, on wires without losses.
fn on_chain(test: impl FnOnce(&mut Bench, Chain)) {
    let mut b = Bench::new(1, 0.0);
    let chain = b.chain(PROXY);
    test(&mut b, chain);
}

fn splice_of(chain: &Chain, options: SpliceOptions) -> Splice {
    splice(&chain.source, &chain.sink, options).expect("both are free")
}

fn outcome(splice: &Splice) -> (u64, SpliceEnd) {
    let SpliceOutcome { bytes, end, .. } = splice.outcome().expect("it has ended");
    (bytes, end)
}

#[test]
fn every_byte_is_moved_and_no_program_is_woken_for_it() {
    // Breaks when a byte is lost, comes twice or out of order over bad wires, or when each segment wakes the proxy.
    for seed in 0..8 {
        let mut b = Bench::new(seed, if seed < 2 { 0.0 } else { 0.02 });
        let chain = b.chain(PROXY);
        let calls = Arc::new(Calls::default());
        let waker = Waker::from(Arc::clone(&calls));
        chain.source.set_waker(Some(waker.clone()));
        chain.sink.set_waker(Some(waker));
        let splice = splice_of(&chain, PLAIN);
        let sent = pattern(3_000_001);
        let mut before_end = 0;
        let received = b.transfer_watched(&chain.client, &chain.server, &sent, || {
            if splice.outcome().is_none() {
                before_end = calls.0.load(Relaxed);
            }
        });
        assert!(received == sent, "seed {seed}");
        assert_eq!(outcome(&splice), (3_000_001, SpliceEnd::Eof));
        assert_eq!(before_end, 0, "seed {seed}");
        assert!(calls.0.load(Relaxed) >= 2, "both learn of the end");
    }
}

#[test]
fn what_was_received_before_is_moved_too() {
    // Breaks when a splice waits for news although data is there (OpenBSD moves it first).
    on_chain(|b, chain| {
        chain.client.send(b"early").expect("room");
        b.run(10);
        let splice = splice_of(&chain, PLAIN);
        b.run(10);
        assert_eq!(b.read(&chain.server), b"early");
        assert_eq!((splice.moved(), splice.outcome()), (5, None));
    });
}

#[test]
fn a_relay_moves_both_ways() {
    // Breaks when the two directions of a proxy block each other, or an end is not passed on.
    for seed in 0..4 {
        let mut b = Bench::new(seed, 0.01);
        let Chain {
            client,
            source,
            sink,
            server,
        } = b.chain(PROXY);
        let relay = source.relay(sink, None).expect("both are free");
        let (there, back) = (pattern(400_000), pattern(300_000));
        assert!(b.transfer(&client, &server, &there) == there);
        assert!(b.transfer(&server, &client, &back) == back);
        b.run(1000);
        assert_eq!(relay.moved(), [400_000, 300_000]);
        let ends = relay.wait_blocking(Some(Duration::ZERO));
        let ends = ends.expect("both have ended").map(|o| o.end);
        assert_eq!(ends, [SpliceEnd::Eof; 2]);
    }
}

#[test]
fn a_relay_is_not_idle_while_one_direction_moves() {
    // Breaks when a long answer ends the direction of the requests: the next request would never arrive.
    let mut b = Bench::new(1, 0.0);
    let Chain {
        client,
        source,
        sink,
        server,
    } = b.chain(PROXY);
    let relay = source.relay(sink, Some(Duration::from_millis(500)));
    let relay = relay.expect("both are free");
    for _ in 0..10 {
        server.send(b"x").expect("room");
        b.run(300);
        assert!(relay.wait_blocking(Some(Duration::ZERO)).is_none());
    }
    client.send(b"request").expect("room");
    b.run(100);
    assert_eq!(b.read(&server), b"request");
    // It is found idle at the second look at the latest.
    b.run(1100);
    let ends = relay.wait_blocking(Some(Duration::ZERO));
    let ends = ends.expect("it has ended").map(|outcome| outcome.end);
    assert!(ends.contains(&SpliceEnd::Idle), "{ends:?}");
    assert_eq!(relay.moved(), [7, 10]);
}

#[test]
fn the_maximum_is_exact() {
    // Breaks when a splice moves more than its maximum, or keeps what comes after it.
    for max in [0, 1, 1000, 100_000] {
        let mut b = Bench::new(max, 0.0);
        let chain = b.chain(PROXY);
        let options = SpliceOptions {
            max: Some(max),
            ..PLAIN
        };
        let splice = splice_of(&chain, options);
        let sent = pattern(max as usize + 500);
        let mut rest = &sent[..];
        let mut received = Vec::new();
        while !rest.is_empty() || splice.outcome().is_none() {
            let n = chain.client.send(rest).unwrap_or(0);
            rest = &rest[n..];
            b.run(2);
            received.extend(b.read(&chain.server));
        }
        b.run(100);
        received.extend(b.read(&chain.server));
        assert_eq!(outcome(&splice), (max, SpliceEnd::Max));
        assert!(received == sent[..max as usize], "{max}");
        assert!(
            b.read(&chain.source) == sent[max as usize..],
            "the rest is the program's"
        );
    }
}

#[test]
fn the_idle_time_begins_anew_at_each_move() {
    // Breaks when the idle time is a lifetime (as in FreeBSD's first version), or never ends.
    on_chain(|b, chain| {
        let options = SpliceOptions {
            idle: Some(Duration::from_millis(500)),
            ..PLAIN
        };
        let splice = splice_of(&chain, options);
        for _ in 0..5 {
            b.run(400);
            chain.client.send(b"x").expect("room");
        }
        b.run(400);
        assert_eq!((splice.moved(), splice.outcome()), (5, None));
        b.run(200);
        assert_eq!(outcome(&splice), (5, SpliceEnd::Idle));
    });
}

#[test]
fn a_server_that_does_not_read_stops_the_client() {
    // Breaks when the proxy takes in bytes that it can't send on: backpressure must reach the sender.
    on_chain(|b, chain| {
        for stream in [&chain.client, &chain.source, &chain.sink, &chain.server] {
            stream.set_buffers(256 << 10, 256 << 10);
        }
        let splice = splice_of(&chain, PLAIN);
        let sent = pattern(8 << 20);
        let mut accepted = 0;
        for _ in 0..2000 {
            accepted += chain.client.send(&sent[accepted..]).unwrap_or(0);
            b.run(2);
        }
        // Four buffers: of the client, of the proxy in and out, of the server.
        assert!(accepted <= 5 * (256 << 10), "{accepted} were accepted");
        let rest = sent[accepted..].to_vec();
        let received = b.transfer(&chain.client, &chain.server, &rest);
        assert!(received == sent, "it goes on when the server reads");
        assert_eq!(outcome(&splice), (8 << 20, SpliceEnd::Eof));
    });
}

#[test]
fn nothing_moves_after_stop() {
    // Breaks when a turn that was under way moves more than the count says.
    on_chain(|b, chain| {
        let splice = splice_of(&chain, PLAIN);
        chain.client.send(b"before").expect("room");
        b.run(10);
        assert_eq!(chain.source.recv(&mut [0; 9]), Err(SocketError::WouldBlock));
        assert_eq!(chain.sink.send(b"no"), Err(SocketError::WouldBlock));
        let stopped = splice.stop();
        assert_eq!((stopped.bytes, stopped.end), (6, SpliceEnd::Stopped));
        chain.client.send(b"after").expect("room");
        b.run(10);
        assert_eq!(b.read(&chain.server), b"before");
        assert_eq!(b.read(&chain.source), b"after");
        assert_eq!(chain.sink.send(b"yes"), Ok(3));
        b.run(10);
        assert_eq!(b.read(&chain.server), b"yes");
    });
}

#[test]
fn the_program_keeps_the_end_unless_it_is_passed_on() {
    // Breaks when a splice of one request closes a connection that is to carry more.
    on_chain(|b, chain| {
        let options = SpliceOptions {
            pass_end: false,
            ..PLAIN
        };
        let splice = splice_of(&chain, options);
        chain.client.send(b"all").expect("room");
        chain.client.shutdown(Shutdown::Write);
        b.run(20);
        assert_eq!(outcome(&splice), (3, SpliceEnd::Eof));
        assert_eq!(chain.sink.send(b", and more"), Ok(10));
        b.run(20);
        assert_eq!(b.read(&chain.server), b"all, and more");
        assert_eq!(chain.source.recv(&mut [0; 9]), Ok(0), "the end of file");
    });
}

#[test]
fn a_reset_is_passed_on_as_a_reset() {
    // Breaks when the server takes a broken transfer for a whole one.
    on_chain(|b, chain| {
        let splice = splice_of(&chain, PLAIN);
        chain.client.send(b"half").expect("room");
        b.run(20);
        chain.client.abort();
        b.run(20);
        let end = SpliceEnd::Source(SocketError::Reset.into());
        assert_eq!(outcome(&splice), (4, end));
        assert_eq!(b.read(&chain.server), b"half");
        assert_eq!(chain.server.error(), Some(SocketError::Reset));
    });
}

#[test]
fn a_reset_is_the_programs_unless_it_is_passed_on() {
    // Breaks when a client that breaks off takes the connection to the server with it, on which the program may go on.
    on_chain(|b, chain| {
        let options = SpliceOptions {
            pass_end: false,
            ..PLAIN
        };
        let splice = splice_of(&chain, options);
        chain.client.abort();
        b.run(20);
        let end = SpliceEnd::Source(SocketError::Reset.into());
        assert_eq!(outcome(&splice), (0, end));
        assert_eq!(chain.sink.send(b"goes on"), Ok(7));
        b.run(20);
        assert_eq!(b.read(&chain.server), b"goes on");
    });
}

#[test]
fn a_sink_that_fails_ends_the_splice() {
    // Breaks when data goes on into a dead connection, or the program does not learn of it.
    on_chain(|b, chain| {
        let splice = splice_of(&chain, PLAIN);
        chain.server.abort();
        b.run(20);
        let end = SpliceEnd::Sink(SocketError::Reset.into());
        assert_eq!(outcome(&splice), (0, end));
        chain.client.send(b"still there").expect("room");
        b.run(20);
        assert_eq!(b.read(&chain.source), b"still there");
    });
}

#[test]
fn a_dropped_end_stops_the_splice() {
    // Breaks when a connection that its program has dropped lives on in a splice.
    on_chain(|b, chain| {
        let splice = splice_of(&chain, PLAIN);
        drop(chain.source);
        assert_eq!(outcome(&splice), (0, SpliceEnd::Stopped));
        assert_eq!(chain.sink.send(b"mine again"), Ok(10));
        b.run(20);
        assert_eq!(b.read(&chain.server), b"mine again");
    });
}

#[test]
fn a_direction_is_spliced_once() {
    // Breaks when two splices take from one connection, each a part of the stream.
    on_chain(|_, chain| {
        let there = splice_of(&chain, PLAIN);
        let again = splice(&chain.source, &chain.sink, PLAIN);
        assert_eq!(again.err(), Some(SpliceError::Busy));
        let into_itself = splice(&chain.source, &chain.source, PLAIN);
        assert_eq!(into_itself.err(), Some(SpliceError::Busy));
        let back = splice(&chain.sink, &chain.source, PLAIN).expect("the other direction is free");
        drop((there, back));
        drop(splice_of(&chain, PLAIN));
    });
}

#[test]
fn an_echo_of_its_own_is_no_loop() {
    // Breaks when a connection can't be spliced to itself: the shortest echo server.
    let mut b = Bench::new(1, 0.0);
    let (client, served) = b.connect(CLIENT, SERVER);
    let _echo = splice(&served, &served, PLAIN).expect("the client does not echo");
    let sent = pattern(200_000);
    assert!(b.transfer(&client, &client, &sent) == sent);
}

#[test]
fn a_loop_is_refused() {
    // Breaks when data goes round inside of a stack for ever (OpenBSD's ELOOP).
    let mut b = Bench::new(1, 0.0);
    let (one, other) = b.connect(PROXY, PROXY);
    let both = splice(&one, &other, PLAIN);
    assert_eq!(
        both.err(),
        Some(SpliceError::Loop),
        "what one receives the other sends to it"
    );
    let _echo = splice(&one, &one, PLAIN).expect("the other does not echo yet");
    let loop_of_two = splice(&other, &other, PLAIN);
    assert_eq!(loop_of_two.err(), Some(SpliceError::Loop));
    other.send(b"there and back").expect("room");
    b.run(10);
    assert_eq!(b.read(&other), b"there and back");
}

#[test]
fn two_stacks_of_a_process_are_spliced() {
    // Breaks when a turn between two stacks needs a lock of both, or a change in one stack causes no turn.
    for seed in 0..4 {
        let mut b = Bench::new(seed, 0.01);
        let chain = b.chain(SECOND_PROXY);
        if std::env::var_os("MBUMA_GIANT").is_some() {
            let refused = splice(&chain.source, &chain.sink, PLAIN).err();
            assert_eq!(refused, Some(SpliceError::Giant));
            return;
        }
        let splice = splice_of(&chain, PLAIN);
        let sent = pattern(1_000_000);
        assert!(b.transfer(&chain.client, &chain.server, &sent) == sent);
        assert_eq!(outcome(&splice), (1_000_000, SpliceEnd::Eof));
    }
}

#[test]
fn the_tail_of_a_move_is_not_held_back() {
    // Breaks when a splice says that more follows and the sink waits for it: short replies then take 200 ms (dae#1115).
    let mut b = Bench::new(0, 0.0);
    let chain = b.chain(PROXY);
    let _splice = splice_of(&chain, PLAIN);
    for len in [1, 10, 1460, 1461, 3000] {
        let sent = pattern(len);
        chain.client.send(&sent).expect("room");
        // Two wires of 1 ms.
        b.run(4);
        assert!(b.read(&chain.server) == sent, "{len} bytes");
        b.run(10);
    }
    // One after the other, before the first is acknowledged.
    chain.client.set_nodelay(true);
    chain.sink.set_nodelay(true);
    for byte in b"abcde" {
        chain.client.send(&[*byte]).expect("room");
    }
    b.run(6);
    assert_eq!(b.read(&chain.server), b"abcde");
}

#[test]
fn a_sink_that_was_full_is_found_again() {
    // Breaks when a splice whose sink was full waits for the source's next byte, and none comes (sozu#1323).
    let mut b = Bench::new(2, 0.0);
    let chain = b.chain(PROXY);
    for stream in [&chain.sink, &chain.server] {
        stream.set_buffers(32 << 10, 32 << 10);
    }
    let splice = splice_of(&chain, PLAIN);
    let sent = pattern(200_000);
    let (mut accepted, mut received) = (0, Vec::new());
    while accepted < sent.len() {
        accepted += chain.client.send(&sent[accepted..]).unwrap_or(0);
        b.run(5);
        if accepted == sent.len() {
            break;
        }
        received.extend(b.read(&chain.server));
    }
    // Nothing more comes from the client: what is under way arrives by the reader's reads alone.
    for _ in 0..1000 {
        b.run(5);
        received.extend(b.read(&chain.server));
    }
    assert!(received == sent, "{} of {}", received.len(), sent.len());
    assert_eq!(splice.moved(), 200_000);
}

#[test]
fn a_splice_may_be_made_before_its_ends_are_connected() {
    // Breaks when a splice between a connection and one that is being made loses what came first (OpenBSD's scapy
    // tests).
    let mut b = Bench::new(3, 0.0);
    let (client, source) = b.connect(CLIENT, PROXY);
    client.send(b"early").expect("room");
    b.run(10);
    let at = b.addr_of(SERVER);
    let listener = b.net.at(b.nodes[SERVER]).tcp_listen(at, 8).expect("free");
    let sink = b.net.at(b.nodes[PROXY]).tcp_connect(any(at), at);
    let sink = sink.expect("free");
    let splice = splice(&source, &sink, PLAIN).expect("both directions are free");
    client.send(b", late").expect("room");
    b.run(50);
    let server = listener.accept().expect("it has come");
    b.run(50);
    assert_eq!(b.read(&server), b"early, late");
    client.shutdown(Shutdown::Write);
    b.run(50);
    assert_eq!(outcome(&splice), (11, SpliceEnd::Eof));
}

#[test]
fn a_splice_may_be_made_again_and_counts_anew() {
    // Breaks when a second splice goes on with the first one's count (FreeBSD's resplice).
    let mut b = Bench::new(4, 0.0);
    let chain = b.chain(PROXY);
    // Else the second message waits until the first one is acknowledged.
    chain.client.set_nodelay(true);
    chain.sink.set_nodelay(true);
    let options = SpliceOptions {
        max: Some(4),
        ..PLAIN
    };
    for round in 0..3 {
        let splice = splice_of(&chain, options);
        chain.client.send(b"0123").expect("room");
        b.run(20);
        assert_eq!(outcome(&splice), (4, SpliceEnd::Max), "round {round}");
        assert_eq!(b.read(&chain.server), b"0123");
    }
}

#[test]
fn urgent_data_is_moved_in_its_place() {
    // Breaks when a byte of urgent data is lost, or comes twice, or out of its place (OpenBSD's oobinline tests).
    let mut b = Bench::new(5, 0.0);
    let chain = b.chain(PROXY);
    let _splice = splice_of(&chain, PLAIN);
    chain.client.send(b"before ").expect("room");
    chain.client.send_urgent(b"!").expect("room");
    chain.client.send(b" after").expect("room");
    b.run(100);
    assert_eq!(b.read(&chain.server), b"before ! after");
}
