//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 002.

use super::CASES;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, Rows, Shape};

/// `cargo lab netisr`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "netisr",
    title: "A packet handled at once, or later by another thread",
    essay: "A packet comes in on one thread. Which thread carries it up to the program\u{2019}s socket? If that thread \
        does, at once, no thread must be woken and the packet is still in its cache: direct dispatch. If it only \
        puts the packet into a queue, for a thread on the CPU that the packet\u{2019}s flow belongs to, several CPUs \
        can share the work of one device, and a connection\u{2019}s data stays in one cache; but that thread must \
        be woken, and its data comes from another CPU: deferred dispatch. Hybrid does the first where the two \
        CPUs are one.\n\n\
        FreeBSD\u{2019}s stack without Giant (seed 002) deferred by default, to one thread, and had direct dispatch \
        as a switch. Here two programs talk over loopback or an epair, with one worker for the stack or two.",
    reading: "`1 thread` and `2 threads` above a table are the workers of a stack, one a CPU; the programs have \
        threads of their own. `p50` and `p99` are round trips, shorter is better; `rate` is throughput, more is \
        better; `moved` is the part of the packets that were queued for another CPU than that of their arrival.",
    caveats: "Two CPUs run two programs and up to two workers, so a worker takes time from a program: with CPUs to \
        spare, deferred streams gain. The system decides the cost of waking a thread, which is high on a virtual \
        machine. No device interrupts here: several interfaces at once, for which the seed wanted direct dispatch, \
        are not shown.",
    claims: CLAIMS,
    arguments: [
        "--case udp-rr-loopback,tcp-stream-epair --seconds-per-case 0.2 --reps 2",
        "",
        "--seconds-per-case 10 --reps 21",
    ],
    seconds: [5, 120, 600],
    about: |case| about(&CASES, case),
    shows: |row| row.measure.as_deref() != Some("lost"),
    shape: |_| Shape::Bars,
};

const CLAIMS: &[Claim] = &[Claim {
    seed: "seed 002, notes on performance",
    says: "Direct dispatch carries a packet up \u{201c}rather than defering to the netisr thread\u{201d}. The seed \
        has no figure; one wakeup less a packet should make round trips shorter.",
    figure: "none given",
    judge: latency,
}];

/// The usual round trip over UDP, one worker: the seed had one netisr thread.
fn latency(rows: &Rows<'_>) -> Option<Finding> {
    let took = rows.case("udp-rr-loopback").measure("p50").threads(1);
    let (deferred, direct) = took.pair("deferred", "direct")?;
    let here = format!("UDP round trip: deferred {deferred:.1}, direct {direct:.1} us");
    Some(Finding::at_least(here, deferred / direct, 1.1, 1.0))
}
