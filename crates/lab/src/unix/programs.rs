//! The two programs, over any sockets: ping-pong, and one way.
//!
//! As `peers/src/nbench.c` has them.

use super::case::{Place, Work};
use super::socket::Socket;
use crate::harness::effort::Effort;
use crate::harness::sys;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Round trips a second, or Gbit/s.
    pub(crate) rate: f64,
    /// Of round trips: the 50, 99 and 99.9 of a hundred that took the least, in microseconds.
    pub(crate) us: [f64; 3],
    /// The time of all CPUs: microseconds for a round trip, or seconds for 10^9 bytes.
    pub(crate) cpu: f64,
}

/// Runs a program for this time.
pub(crate) fn run<S: Socket>(work: Work, place: Place, effort: &Effort, time: Duration) -> Figures {
    match work {
        Work::PingPong { pairs, size } => ping_pong::<S>(pairs, size, place, effort, time),
        Work::Stream { chunk } => stream::<S>(chunk, place, effort, time),
    }
}

fn ping_pong<S: Socket>(
    pairs: usize,
    size: usize,
    place: Place,
    effort: &Effort,
    time: Duration,
) -> Figures {
    let sockets = S::pairs(pairs);
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(2 * pairs + 1));
    let mut ns: Vec<u32> = Vec::new();
    let (mut took, mut cpu) = (Duration::ZERO, Duration::ZERO);
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for (nth, [client, server]) in sockets.iter().enumerate() {
            let (stop, ready) = (&stop, &ready);
            scope.spawn(move || {
                held_to(place.cpu(effort, nth, false));
                ready.wait();
                echo(server, size);
            });
            clients.push(scope.spawn(move || {
                held_to(place.cpu(effort, nth, true));
                ready.wait();
                ask(client, size, stop)
            }));
        }
        let used = sys::process_time();
        ready.wait();
        let begin = Instant::now();
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        took = begin.elapsed();
        for client in clients {
            ns.extend(client.join().unwrap_or_default());
        }
        cpu = sys::process_time() - used;
    });
    ns.sort_unstable();
    let quantile = |part: f64| {
        let at = (ns.len() as f64 * part) as usize;
        f64::from(ns.get(at).or(ns.last()).copied().unwrap_or(0)) / 1e3
    };
    Figures {
        rate: ns.len() as f64 / took.as_secs_f64(),
        us: [0.5, 0.99, 0.999].map(quantile),
        cpu: cpu.as_secs_f64() * 1e6 / ns.len().max(1) as f64,
    }
}

/// Keeps this thread on a CPU. Without the right to pin threads, it runs on any CPU.
fn held_to(cpu: Option<usize>) {
    if let Some(cpu) = cpu {
        let _ = sys::pin(&[cpu]);
    }
}

/// Round trips in nanoseconds.
fn ask<S: Socket>(client: &S, size: usize, stop: &AtomicBool) -> Vec<u32> {
    let (mut data, mut ns) = (client.data(size), Vec::new());
    let mut before = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if !client.send(&mut data) || !client.recv_all(&mut data, size) {
            break;
        }
        let now = Instant::now();
        ns.push(u32::try_from((now - before).as_nanos()).unwrap_or(u32::MAX));
        before = now;
    }
    client.end();
    ns
}

fn echo<S: Socket>(server: &S, size: usize) {
    let mut data = server.data(size);
    while server.recv_all(&mut data, size) && server.send(&mut data) {}
}

fn stream<S: Socket>(chunk: usize, place: Place, effort: &Effort, time: Duration) -> Figures {
    let sockets = S::pairs(1);
    let [from, to] = &sockets[0];
    let stop = AtomicBool::new(false);
    let (mut bytes, used) = (0, sys::process_time());
    let mut took = Duration::ZERO;
    thread::scope(|scope| {
        scope.spawn(|| {
            held_to(place.cpu(effort, 0, false));
            let mut data = from.data(chunk);
            loop {
                // A send waits where there is no room.
                if stop.load(Ordering::Relaxed) || !from.send(&mut data) {
                    break;
                }
            }
            from.end();
        });
        // A thread of its own: the caller's stays where it was.
        let reader = scope.spawn(|| {
            held_to(place.cpu(effort, 0, true));
            let (mut data, begin, mut bytes) = (to.data(chunk), Instant::now(), 0);
            while begin.elapsed() < time {
                match to.recv(&mut data) {
                    0 => break,
                    n => bytes += n,
                }
            }
            stop.store(true, Ordering::Relaxed);
            to.end();
            (bytes, begin.elapsed())
        });
        (bytes, took) = reader.join().unwrap_or_default();
    });
    let cpu = sys::process_time() - used;
    Figures {
        rate: bytes as f64 * 8.0 / took.as_nanos().max(1) as f64,
        us: [0.0; 3],
        cpu: cpu.as_nanos() as f64 / bytes.max(1) as f64,
    }
}
