//! Our proxies under load, on one thread or on two.

use super::case::{Case, Traffic};
use super::ends::{Ends, joined};
use super::proxy::{Proxy, Work};
use crate::harness::{pinned, sys};
use crate::stream::figures::Figures;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs one for so long; the proxy's CPU is the second.
pub(crate) fn run(case: &Case, work: Work, cpus: (usize, usize), time: Duration) -> Figures {
    let (mut ends, mut proxy) = joined(case.streams(), work);
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
        turn_until(proxy, stop);
        None
    };
    type Side<'a> = Box<dyn FnOnce() -> Option<Figures> + Send + 'a>;
    let sides: [(usize, Side<'_>); 2] = [(cpus.0, Box::new(client)), (cpus.1, Box::new(middle))];
    let figures = pinned::all(sides).into_iter().flatten().next();
    figures.expect("the client's thread has them")
}

fn turn_until(proxy: &mut Proxy, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        proxy.turn();
    }
}

/// The work of the client and the server; `between` runs the proxy where it has no thread of its own.
fn load(ends: &mut Ends, case: &Case, time: Duration, between: impl FnMut()) -> Figures {
    match case.traffic {
        Traffic::Streams(_) => stream(ends, time, between),
        Traffic::RoundTrips => round_trips(ends, time, between),
    }
}

fn stream(ends: &mut Ends, time: Duration, mut between: impl FnMut()) -> Figures {
    let (cpu, begin, mut bytes) = (sys::process_time(), Instant::now(), 0);
    while begin.elapsed() < time {
        for _ in 0..BURST {
            bytes += ends.stream();
            between();
        }
    }
    Figures::of_stream(bytes, begin.elapsed(), sys::process_time() - cpu)
}

fn round_trips(ends: &mut Ends, time: Duration, mut between: impl FnMut()) -> Figures {
    let mut ns = Vec::with_capacity(1 << 20);
    let begin = Instant::now();
    while begin.elapsed() < time {
        let sent = Instant::now();
        pass(ends, [0, 1], &mut between);
        pass(ends, [1, 0], &mut between);
        ns.push(u32::try_from(sent.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Figures::of_rr(ns, begin.elapsed())
}

/// Sends a message from one end of the first connection, and waits for it at the other.
fn pass(ends: &mut Ends, [from, to]: [usize; 2], between: &mut dyn FnMut()) {
    let mut buf = [1; MESSAGE];
    let sent = ends.streams[0][from].send(&buf);
    assert_eq!(sent, Ok(MESSAGE), "the buffer is empty");
    let mut got = 0;
    while got < MESSAGE {
        between();
        ends.turn();
        got += ends.streams[0][to].recv(&mut buf).unwrap_or(0);
    }
}

/// Bytes of a request and of its response.
const MESSAGE: usize = 64;
/// Turns between two looks whether it is time to stop.
const BURST: u32 = 16;
