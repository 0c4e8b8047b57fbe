//! The measurement, over any transport: a stream one way, and round trips.
//!
//! The same loops as `smoltcp_bench` has, one for each number of threads. Threads are not pinned: neither are those
//! of the programs that these are compared with.

use super::figures::Figures;
use crate::harness::sys;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// One end of a connection.
pub(crate) trait End: Send {
    /// Gives bytes; says how many were taken.
    fn send(&mut self, bytes: &[u8]) -> usize;
    /// Fetches bytes that came; says how many.
    fn recv(&mut self, buf: &mut [u8]) -> usize;
    /// Lets the stack behind it handle arrived packets, if no other thread does.
    fn turn(&mut self) {}
    /// Ends a call of a thread that waits for the other end; data under way is lost.
    fn hang_up(&mut self) {}
}

/// Bytes that are given at once, and fetched at once.
pub(crate) const CHUNK: usize = 64 << 10;
/// Bytes of a request and of its response.
const MESSAGE: usize = 64;
/// Round trips between two looks whether it is time to stop, and turns of a stream.
const BURST: u32 = 16;

/// A stream from one end to the other, for this time.
pub(crate) fn stream<E: End>([mut from, mut to]: [E; 2], two: bool, time: Duration) -> Figures {
    let (source, mut sink) = (vec![7; CHUNK], vec![0; CHUNK]);
    let (cpu, begin, mut bytes) = (sys::process_time(), Instant::now(), 0);
    let stop = AtomicBool::new(false);
    let mut took = Duration::ZERO;
    if two {
        thread::scope(|scope| {
            scope.spawn(|| pump(&mut from, &source, &stop));
            while begin.elapsed() < time {
                bytes += drain(&mut to, &mut sink);
            }
            took = begin.elapsed();
            stop.store(true, Ordering::Relaxed);
            to.hang_up();
        });
    } else {
        while begin.elapsed() < time {
            for _ in 0..BURST {
                from.send(&source);
                from.turn();
                bytes += pull(&mut to, &mut sink);
            }
        }
        took = begin.elapsed();
    }
    Figures::of_stream(bytes, took, sys::process_time() - cpu)
}

fn pump<E: End>(from: &mut E, source: &[u8], stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if from.send(source) == 0 {
            hint::spin_loop();
        }
        from.turn();
    }
}

fn drain<E: End>(to: &mut E, sink: &mut [u8]) -> u64 {
    (0..BURST).map(|_| pull(to, sink)).sum()
}

/// Fetches all that is there.
fn pull<E: End>(to: &mut E, sink: &mut [u8]) -> u64 {
    to.turn();
    let mut bytes = 0;
    loop {
        let n = to.recv(sink);
        bytes += n as u64;
        // No bytes, or the last ones: another call would find none.
        if n < sink.len() {
            return bytes;
        }
    }
}

/// Round trips between the ends, for this time.
pub(crate) fn rr<E: End>([mut client, mut server]: [E; 2], two: bool, time: Duration) -> Figures {
    let mut ns = Vec::with_capacity(1 << 20);
    let begin = Instant::now();
    let stop = AtomicBool::new(false);
    let mut took = Duration::ZERO;
    if two {
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    echo(&mut server);
                }
            });
            while begin.elapsed() < time {
                ns.push(round_trip(&mut client, || ()));
            }
            took = begin.elapsed();
            stop.store(true, Ordering::Relaxed);
            client.hang_up();
        });
    } else {
        while begin.elapsed() < time {
            ns.push(round_trip(&mut client, || echo(&mut server)));
        }
        took = begin.elapsed();
    }
    Figures::of_rr(ns, took)
}

/// One request and its response, in nanoseconds.
fn round_trip<E: End>(client: &mut E, mut other: impl FnMut()) -> u32 {
    let begin = Instant::now();
    client.send(&[1; MESSAGE]);
    client.turn();
    let (mut buf, mut got) = ([0; MESSAGE], 0);
    while got < MESSAGE {
        other();
        client.turn();
        got += client.recv(&mut buf);
    }
    u32::try_from(begin.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

fn echo<E: End>(server: &mut E) {
    server.turn();
    let mut buf = [0; MESSAGE];
    let n = server.recv(&mut buf);
    if n > 0 {
        server.send(&buf[..n]);
        server.turn();
    }
}
