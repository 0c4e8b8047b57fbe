//! A proxy under load between a client and a server, on one thread or on two.

use super::case::{Case, Traffic};
use super::ends::Ends;
use super::proxy::Proxy;
use crate::harness::choice::Absent;
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
///
/// # Errors
/// [`Absent`]: the data stopped.
pub(crate) fn run<E: ClientAndServer, P: Middle>(
    case: &Case,
    (mut ends, mut proxy): (E, P),
    cpus: (usize, usize),
    time: Duration,
) -> Result<Figures, Absent> {
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
    type Thread<'a> = Box<dyn FnOnce() -> Option<Result<Figures, Absent>> + Send + 'a>;
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
) -> Result<Figures, Absent> {
    match case.traffic {
        Traffic::Streams(_) => stream(ends, time, between),
        Traffic::RoundTrips => round_trips(ends, time, between),
    }
}

fn stream<E: ClientAndServer>(
    ends: &mut E,
    time: Duration,
    mut between: impl FnMut(),
) -> Result<Figures, Absent> {
    let (cpu, begin, mut bytes) = (sys::process_time(), Instant::now(), 0);
    let (mut last, mut idle) = (begin, 0);
    while begin.elapsed() < time {
        let before = bytes;
        idle += 1;
        for _ in 0..BURST {
            bytes += ends.stream();
            between();
        }
        if bytes > before {
            (last, idle) = (Instant::now(), 0);
        }
    }
    // A mean over a stream that stopped would look like a figure. If few turns passed, this thread was not run.
    if idle > STOPPED_BURSTS && last.elapsed() > STOPPED.max(time / 2) {
        return Err(Absent(format!("no byte came after {:?}", last - begin)));
    }
    let cpu = sys::process_time() - cpu;
    Ok(Figures::of_stream(bytes, begin.elapsed(), cpu))
}

fn round_trips<E: ClientAndServer>(
    ends: &mut E,
    time: Duration,
    mut between: impl FnMut(),
) -> Result<Figures, Absent> {
    let mut ns = Vec::with_capacity(1 << 20);
    let begin = Instant::now();
    while begin.elapsed() < time {
        let sent = Instant::now();
        for way in [
            [TrafficEnd::Client, TrafficEnd::Server],
            [TrafficEnd::Server, TrafficEnd::Client],
        ] {
            if !pass(ends, way, LOST, &mut between) {
                let trips = ns.len();
                return Err(Absent(format!("no byte came after {trips} round trips")));
            }
        }
        ns.push(u32::try_from(sent.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(Figures::of_rr(ns, begin.elapsed()))
}

/// Sends a message from one end, and waits for it at the other; `false` if it does not come within about this time.
fn pass<E: ClientAndServer>(
    ends: &mut E,
    [from, to]: [TrafficEnd; 2],
    at_most: Duration,
    between: &mut impl FnMut(),
) -> bool {
    let mut buf = [1; MESSAGE];
    assert_eq!(ends.send(from, &buf), MESSAGE, "the buffer is empty");
    let (mut got, mut turns, mut waits_since) = (0, 0u32, None);
    while got < MESSAGE {
        ends.transmit(from);
        between();
        got += ends.recv(to, &mut buf);
        turns += 1;
        if turns.is_multiple_of(TURNS_A_LOOK) {
            let since = *waits_since.get_or_insert_with(Instant::now);
            if since.elapsed() > at_most {
                return false;
            }
        }
    }
    true
}

/// Bytes of a request and of its response.
const MESSAGE: usize = 64;
/// Turns between two looks whether it is time to stop.
const BURST: u32 = 16;
/// Turns of a message that has not arrived between two looks at the clock.
const TURNS_A_LOOK: u32 = 1 << 12;
/// A message that has not arrived for so long, beside other programs on these CPUs, will not.
const LOST: Duration = Duration::from_secs(5);
/// A stream that has carried nothing for so long, and for half of its time, has stopped.
const STOPPED: Duration = Duration::from_millis(200);
const STOPPED_BURSTS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::super::case::CASES;
    use super::*;

    /// Ends that lose all data after so many bytes.
    struct Loses(u64);

    impl ClientAndServer for Loses {
        fn stream(&mut self) -> u64 {
            let n = self.0.min(1000);
            self.0 -= n;
            n
        }
        fn send(&mut self, _: TrafficEnd, message: &[u8]) -> usize {
            message.len()
        }
        fn transmit(&mut self, _: TrafficEnd) {}
        fn recv(&mut self, _: TrafficEnd, buf: &mut [u8]) -> usize {
            let n = self.0.min(buf.len() as u64);
            self.0 -= n;
            n as usize
        }
    }

    struct Idle;

    impl Middle for Idle {
        fn turn(&mut self) {}
    }

    #[test]
    fn data_that_stops_is_no_figure() {
        // Breaks if a run waits for ever for data that is lost, or takes the mean of a stream that has stopped for its
        // rate.
        for case in CASES {
            let Traffic::Streams(_) = case.traffic else {
                continue;
            };
            let ran = run(case, (Loses(100_000), Idle), (0, 0), STOPPED * 2);
            let Err(Absent(why)) = ran else {
                panic!("{}: {ran:?}", case.name);
            };
            assert!(why.starts_with("no byte came after"), "{why}");
        }
        let way = [TrafficEnd::Client, TrafficEnd::Server];
        let moment = Duration::from_millis(10);
        assert!(pass(&mut Loses(64), way, moment, &mut || ()));
        assert!(!pass(&mut Loses(63), way, moment, &mut || ()));
    }
}
