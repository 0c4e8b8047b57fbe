//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 002.

use super::Case;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, Rows, Shape};

/// `cargo lab giant`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "giant",
    title: "One lock over the whole stack, and none",
    essay: "The network stacks of the BSDs were written for one processor. When machines got two, the quickest way to \
        keep them correct was one lock over all of the kernel, Giant: a CPU in the stack keeps all others out, so the \
        second processor helps little. FreeBSD spent years giving each structure a lock of its own, \
        and in 2004 made it the default to run the network stack without Giant.\n\n\
        Here the same stack runs under one lock (`giant`) and without (`mp`), on one CPU and on two, with packets \
        handled directly by the sending thread or, deferred, by a thread of their own, as the seed\u{2019}s \
        loopback did.",
    reading: "`1 thread` and `2 threads` above a table are one and two CPUs. `without-giant` is the throughput of a \
        stack without Giant over that of the same stack under it, `two-cpus` that of two CPUs over that of one, \
        both round by round. `kernel` is this system\u{2019}s own sockets, for scale.",
    caveats: "The seed measured a kernel on a machine of two processors with MySQL and super-smack; here a stack in \
        user space runs a load of the same shape, without a database. Its Giant is over the stack alone. \
        Context switches, the slowest answers and the number of waits are in the saved results.",
    claims: CLAIMS,
    arguments: [
        "--case mysql --design mp,giant --queries 50 --reps 2 --seconds-per-case 0.05",
        "",
        "--reps 31 --seconds-per-case 1.5",
    ],
    seconds: [3, 60, 300],
    about: |case| about(&Case::ALL, case),
    shows: |row| {
        let hidden = ["p99", "switches", "lock-waits"];
        !row.measure.as_deref().is_some_and(|m| hidden.contains(&m))
    },
    shape: |_| Shape::Bars,
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: "seed 002, performance notes",
        says: "\u{201c}On SMP-centric performance measurements, such as local UNIX domain socket use by MySQL on MP \
            systems, I've observed 30%-40% performance improvements by disabling Giant\u{201d}.",
        figure: "1.3 to 1.4\u{d7}",
        judge: without,
    },
    Claim {
        seed: "seed 002, closing remarks",
        says: "From one processor to two, \u{201c}a UP->MP speedup of 1.07 on a dual-processor box\u{201d} becomes \
            \u{201c}a speedup of 1.42\u{201d}.",
        figure: "1.07 \u{2192} 1.42",
        judge: speedup,
    },
    Claim {
        seed: "seed 002, closing remarks",
        says: "\u{201c}For loopback netperf with TCP and UDP, I observed no change in performance\u{201d}.",
        figure: "1\u{d7}, UDP RR 1.01\u{d7}",
        judge: loopback,
    },
];

fn without(rows: &Rows<'_>) -> Option<Finding> {
    let gain = rows.case("mysql").measure("without-giant").threads(2);
    let ratio = gain.design("mp").median()?;
    let here = format!("queries on two CPUs, without Giant to with it: {ratio:.2}\u{d7}");
    Some(Finding::at_least(here, ratio, 1.2, 1.05))
}

fn speedup(rows: &Rows<'_>) -> Option<Finding> {
    let (giant, mp) = rows.case("mysql").measure("two-cpus").pair("giant", "mp")?;
    let here = format!("{giant:.2} \u{2192} {mp:.2}");
    Some(Finding::at_least(here, mp / giant, 1.2, 1.05))
}

fn loopback(rows: &Rows<'_>) -> Option<Finding> {
    let of = |case| {
        let gain = rows.case(case).measure("without-giant").threads(2);
        gain.design("mp-deferred").median()
    };
    let all = [of("tcp-stream")?, of("tcp-rr")?, of("udp-rr")?];
    let here = format!(
        "deferred: stream {:.2}\u{d7}, TCP RR {:.2}\u{d7}, UDP RR {:.2}\u{d7}",
        all[0], all[1], all[2]
    );
    Some(Finding::is(
        here,
        all.iter().all(|x| (0.9..1.1).contains(x)),
    ))
}
