//! The traffic of two programs, each a thread on a CPU of its own.
//!
//! Locks: none.

use super::world::{ANY, SERVER, World};
use crate::harness::sys;
use mbuf::Chain;
use mbuma::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// A datagram there and back, one after the other.
    UdpRr,
    /// Datagrams, as fast as they go.
    UdpStream,
    /// A byte there and back, one after the other.
    TcpRr,
    /// Bytes, as fast as they go.
    TcpStream,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Round trips or datagrams a second, or Gbit/s.
    pub(crate) rate: f64,
    /// How long round trips took, in nanoseconds, sorted.
    pub(crate) took: Vec<u64>,
    /// Datagrams that did not arrive, in per cent.
    pub(crate) lost: Option<f64>,
}

/// Bytes of a datagram.
const DATAGRAM: usize = 512;
/// Flows of the case `udp-stream`.
const FLOWS: usize = 8;
/// Datagrams of a flow before it is the next one's turn.
const BURST: usize = 32;
/// The time without progress after which a load is given up.
const STUCK: Duration = Duration::from_secs(1);

impl Load {
    /// Does it for this time; the client on the first of these CPUs, the server on the last.
    pub(crate) fn run(self, world: &World, time: Duration, cpus: &[usize]) -> Seen {
        match self {
            Self::UdpRr => udp_rr(world, time, cpus),
            Self::UdpStream => udp_stream(world, time, cpus),
            Self::TcpRr => tcp_rr(world, time, cpus),
            Self::TcpStream => tcp_stream(world, time, cpus),
        }
    }
}

/// Runs both sides, each on its CPU; returns their results. The server learns when the client is done.
fn with_server<C: Send, S: Send>(
    cpus: &[usize],
    server: impl FnOnce(&AtomicBool) -> S + Send,
    client: impl FnOnce() -> C + Send,
) -> (C, S) {
    let done = AtomicBool::new(false);
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let _ = sys::pin(&[last]);
            server(&done)
        });
        let client = scope.spawn(|| {
            let _ = sys::pin(&[first]);
            let seen = client();
            done.store(true, Ordering::Release);
            seen
        });
        let seen = client.join().expect("it prints why");
        (seen, server.join().expect("it prints why"))
    })
}

fn udp_rr(world: &World, time: Duration, cpus: &[usize]) -> Seen {
    let server = world.server.udp_bind(SERVER).expect("the port is free");
    let client = world.client.udp_bind(ANY).expect("a port is free");
    let answer = |done: &AtomicBool| {
        while !done.load(Ordering::Acquire) {
            if let Ok(asked) = server.recv_blocking(Some(STUCK / 20)) {
                // If it is lost, the client gives up.
                let _ = server.send_to(asked.payload, asked.src);
            }
        }
    };
    let ask = || {
        let question = datagram(world);
        client.send_to(question, SERVER).is_ok() && client.recv_blocking(Some(STUCK)).is_ok()
    };
    with_server(cpus, answer, || round_trips(time, ask)).0
}

fn datagram(world: &World) -> Chain {
    Chain::from_slice(world.client.pool(), &[0x5a; DATAGRAM]).expect("buffers for one datagram")
}

/// Repeats for this time, or until a side fails. The first result does not count.
fn round_trips(time: Duration, mut one: impl FnMut() -> bool) -> Seen {
    one();
    let (begin, mut took) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        let start = Instant::now();
        if !one() {
            break;
        }
        took.push(start.elapsed().as_nanos() as u64);
    }
    let rate = took.len() as f64 / begin.elapsed().as_secs_f64();
    took.sort_unstable();
    Seen {
        rate,
        took,
        lost: None,
    }
}

fn tcp_rr(world: &World, time: Duration, cpus: &[usize]) -> Seen {
    let listener = world
        .server
        .tcp_listen(SERVER, 8)
        .expect("the port is free");
    let answer = |_: &AtomicBool| {
        let Some(stream) = accept(&listener) else {
            return;
        };
        let mut byte = [0];
        while stream.recv_blocking(&mut byte, Some(STUCK)) == Ok(1) {
            if stream.send_blocking(&byte, Some(STUCK)).is_err() {
                break;
            }
        }
    };
    let ask = || {
        let Some(stream) = connect(world) else {
            return Seen::default();
        };
        let mut byte = [1];
        round_trips(time, || {
            stream.send_blocking(&byte, Some(STUCK)).is_ok()
                && stream.recv_blocking(&mut byte, Some(STUCK)) == Ok(1)
        })
    };
    with_server(cpus, answer, ask).0
}

fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let stream = listener.accept_blocking(Some(STUCK)).ok()?;
    stream.set_nodelay(true);
    Some(stream)
}

fn connect(world: &World) -> Option<TcpStream> {
    let stream = world.client.tcp_connect(ANY, SERVER).ok()?;
    stream.connected_blocking(Some(STUCK)).ok()?;
    stream.set_nodelay(true);
    Some(stream)
}

fn udp_stream(world: &World, time: Duration, cpus: &[usize]) -> Seen {
    let socket = world.server.udp_bind(SERVER).expect("the port is free");
    let serve = |done: &AtomicBool| count(&socket, done);
    let (sent, (received, seconds)) = with_server(cpus, serve, || flood(world, time));
    Seen {
        rate: received as f64 / seconds,
        took: Vec::new(),
        lost: Some((sent.saturating_sub(received)) as f64 * 100.0 / sent.max(1) as f64),
    }
}

/// Sends for this time; returns the number of datagrams.
fn flood(world: &World, time: Duration) -> u64 {
    let sockets = [(); FLOWS].map(|()| world.client.udp_bind(ANY).expect("a port is free"));
    let (until, mut sent) = (Instant::now() + time, 0);
    for socket in sockets.iter().cycle() {
        for _ in 0..BURST {
            // A queue that is full loses it, as any other does.
            let _ = socket.send_to(datagram(world), SERVER);
        }
        sent += BURST as u64;
        if Instant::now() >= until {
            break;
        }
    }
    sent
}

/// Receives until the sender is done and no datagram comes any more; returns their number, and the seconds. On a
/// machine that is full, the first may be late.
fn count(socket: &UdpSocket, done: &AtomicBool) -> (u64, f64) {
    let (mut received, patience) = (0, Instant::now() + STUCK * 5);
    let (mut first, mut last) = (None, Instant::now());
    while received == 0 || !done.load(Ordering::Acquire) {
        while socket.recv_blocking(Some(STUCK / 20)).is_ok() {
            received += 1;
            last = Instant::now();
            first.get_or_insert(last);
        }
        if Instant::now() > patience && received == 0 {
            break;
        }
    }
    let time = last - first.unwrap_or(last);
    (received, time.as_secs_f64().max(f64::MIN_POSITIVE))
}

fn tcp_stream(world: &World, time: Duration, cpus: &[usize]) -> Seen {
    let listener = world
        .server
        .tcp_listen(SERVER, 8)
        .expect("the port is free");
    let send = || {
        let Some(stream) = connect(world) else { return };
        let (bytes, until) = ([0x5a; 64 << 10], Instant::now() + time);
        while Instant::now() < until && stream.send_blocking(&bytes, Some(STUCK)).is_ok() {}
        stream.shutdown(std::net::Shutdown::Write);
    };
    let receive = |_: &AtomicBool| accept(&listener).map_or(0.0, |stream| drain(&stream));
    let ((), rate) = with_server(cpus, receive, send);
    Seen {
        rate,
        ..Seen::default()
    }
}

/// Receives to the end; Gbit/s.
fn drain(stream: &TcpStream) -> f64 {
    let (begin, mut bytes) = (Instant::now(), 0);
    while let Ok(chain) = stream.recv_chain_blocking(1 << 20, Some(STUCK)) {
        if chain.is_empty() {
            break;
        }
        bytes += chain.len() as u64;
    }
    bytes as f64 * 8.0 / begin.elapsed().as_nanos() as f64
}
