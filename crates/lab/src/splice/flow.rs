//! A proxy under load between a client and a server, on one thread or on two.

use super::case::{Case, Traffic};
use super::ends::Ends;
use super::proxy::Proxy;
use crate::harness::{pinned, sys};
use crate::stream::figures::Figures;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One of the two programs.
#[derive(Clone, Copy)]
pub(crate) enum TrafficEnd {
    Client,
    Server,
}

/// The client and the server, in the stack that is measured. Messages go by their first connection.
pub(crate) trait ClientAndServer: Send {
    /// Sends on each connection as much as there is room for, and receives; says how many bytes arrived.
    fn stream(&mut self) -> u64;

    /// Sends a message; says how many bytes the send buffer took.
    fn send(&mut self, from: TrafficEnd, message: &[u8]) -> usize;

    /// Gives the packets of an end to the proxy, if sending does not do that.
    fn transmit(&mut self, from: TrafficEnd);

    /// Takes in packets and receives; says how many bytes.
    fn recv(&mut self, to: TrafficEnd, buf: &mut [u8]) -> usize;
}

/// The proxy, in the same stack.
pub(crate) trait Middle: Send {
    /// Takes in the packets that arrived, and hands the data on.
    fn turn(&mut self);
}

impl ClientAndServer for Ends {
    fn stream(&mut self) -> u64 {
        self.stream()
    }

    fn send(&mut self, from: TrafficEnd, message: &[u8]) -> usize {
        self.streams[0][from as usize].send(message).unwrap_or(0)
    }

    fn transmit(&mut self, _from: TrafficEnd) {}

    fn recv(&mut self, to: TrafficEnd, buf: &mut [u8]) -> usize {
        self.turn();
        self.streams[0][to as usize].recv(buf).unwrap_or(0)
    }
}

impl Middle for Proxy {
    fn turn(&mut self) {
        self.turn();
    }
}

/// Runs one for this time; the proxy's CPU is the second.
pub(crate) fn run<E: ClientAndServer, P: Middle>(
    case: &Case,
    (mut ends, mut proxy): (E, P),
    cpus: (usize, usize),
    time: Duration,
) -> Figures {
    if !case.own_cpu {
        return pinned::run(cpus.0, || load(&mut ends, case, time, || proxy.turn()));
    }
    let stop = AtomicBool::new(false);
    let (ends, proxy, stop) = (&mut ends, &mut proxy, &stop);
    let client = move || {
        let figures = load(ends, case, time, || ());
        // Relaxed: it says only when to stop; the thread is joined.
        stop.store(true, Ordering::Relaxed);
        Some(figures)
    };
    let middle = move || {
        while !stop.load(Ordering::Relaxed) {
            proxy.turn();
        }
        None
    };
    type Thread<'a> = Box<dyn FnOnce() -> Option<Figures> + Send + 'a>;
    let threads: [(usize, Thread<'_>); 2] =
        [(cpus.0, Box::new(client)), (cpus.1, Box::new(middle))];
    let figures = pinned::all(threads).into_iter().flatten().next();
    figures.expect("the client's thread has them")
}

/// The work of the client and the server; `between` runs the proxy where it has no thread of its own.
fn load<E: ClientAndServer>(
    ends: &mut E,
    case: &Case,
    time: Duration,
    between: impl FnMut(),
) -> Figures {
    match case.traffic {
        Traffic::Streams(_) => stream(ends, time, between),
        Traffic::RoundTrips => round_trips(ends, time, between),
    }
}

fn stream<E: ClientAndServer>(ends: &mut E, time: Duration, mut between: impl FnMut()) -> Figures {
    let (cpu, begin, mut bytes) = (sys::process_time(), Instant::now(), 0);
    while begin.elapsed() < time {
        for _ in 0..BURST {
            bytes += ends.stream();
            between();
        }
    }
    Figures::of_stream(bytes, begin.elapsed(), sys::process_time() - cpu)
}

fn round_trips<E: ClientAndServer>(
    ends: &mut E,
    time: Duration,
    mut between: impl FnMut(),
) -> Figures {
    let mut ns = Vec::with_capacity(1 << 20);
    let begin = Instant::now();
    while begin.elapsed() < time {
        let sent = Instant::now();
        pass(ends, [TrafficEnd::Client, TrafficEnd::Server], &mut between);
        pass(ends, [TrafficEnd::Server, TrafficEnd::Client], &mut between);
        ns.push(u32::try_from(sent.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Figures::of_rr(ns, begin.elapsed())
}

/// Sends a message from one end, and waits for it at the other.
fn pass<E: ClientAndServer>(ends: &mut E, [from, to]: [TrafficEnd; 2], between: &mut impl FnMut()) {
    let mut buf = [1; MESSAGE];
    assert_eq!(ends.send(from, &buf), MESSAGE, "the buffer is empty");
    let mut got = 0;
    while got < MESSAGE {
        ends.transmit(from);
        between();
        got += ends.recv(to, &mut buf);
    }
}

/// Bytes of a request and of its response.
const MESSAGE: usize = 64;
/// Turns between two looks whether it is time to stop.
const BURST: u32 = 16;
