//! The experiment's part of the report.
//!
//! Source: seed 000.

use super::CASES;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Rows, Shape};

/// `cargo lab splice`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "splice",
    title: "A TCP proxy, spliced inside of the stack",
    essay: "A proxy receives on one connection and sends on another. A program that reads and writes copies each byte \
        twice; a program that hands chains of mbufs on copies none, but is asked for each batch; a splice \
        (SO_SPLICE) moves the chains inside of the stack, and no program runs until the end.\n\n\
        OpenBSD (seed 000) saw 30 to 45 Gbit/s through a splice without contention on shared clusters. Here a client \
        stack sends through a proxy stack to a server stack, joined by epairs. The client sends one buffer by \
        reference and the server drops the data, so that the figures show the proxy\u{2019}s work. Beside it Linux \
        does the same over veth between three namespaces: the client sends by sendfile(2), the server discards by \
        MSG_TRUNC, and the proxy uses splice(2) through a pipe, or read(2) and write(2). smoltcp, built in by the \
        feature `peers`, is client, proxy and server in one process as ours are; it has no splice, so its proxy \
        copies.",
    reading: "Streams are in Gbit/s of payload, of which more is better; `rr` is the 99th of a hundred round trips of \
        64 bytes, in microseconds, of which less is better: all that the proxy and its two epairs add.",
    caveats: "Our programs poll and pay for no wakeups; the kernel\u{2019}s threads sleep in their calls. Segments \
        pass the epair whole and without sums, as they pass veth. A proxy with a CPU of its own may wait for the \
        client: the rows on one CPU charge all work to one.",
    claims: CLAIMS,
    arguments: [
        "--case one,fifteen --reps 2 --seconds-per-case 0.2",
        "--reps 5 --seconds-per-case 2.5",
        "--reps 11 --seconds-per-case 11",
    ],
    seconds: [8, 90, 400],
    about: |case| about(CASES, case),
    shows: |_| true,
    shape: |_| Shape::Bars,
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: "seed 000",
        says: "A splice carries 30 to 45 Gbit/s when the contention on shared clusters is gone.",
        figure: "30 to 45 Gbit/s",
        judge: |rows| {
            let carried = rows.case("fifteen").design("mbuma").median()?;
            let here = format!("{carried:.1} Gbit/s");
            Some(Finding::at_least(here, carried, 30.0, 20.0))
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "A splice carries at least 1.5 times what a program that reads and writes carries.",
        figure: "at least 1.5\u{d7} in each case",
        judge: |rows| against(rows, "mbuma-copy", 1.5),
    },
    Claim {
        seed: OUR_TARGET,
        says: "It carries at least what the kernel\u{2019}s splice(2) carries over veth.",
        figure: "at least 1.0\u{d7} in each case",
        judge: |rows| against(rows, "kernel-splice", 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "A proxy that is idle adds less than 20 microseconds to the 99th of a hundred round trips.",
        figure: "under 20 us",
        judge: |rows| {
            let p99 = rows.case("rr").design("mbuma").median()?;
            let here = format!("p99 {p99:.1} us, all of the way counted");
            Some(Finding::at_least(here, 20.0 / p99, 1.0, 0.8))
        },
    },
];

fn against(rows: &Rows<'_>, design: &str, target: f64) -> Option<Finding> {
    let ratio = |case: &'static str| {
        let ratio = rows.case(case).ratio("mbuma", design)?;
        Some((case, ratio))
    };
    let cases = ["one", "fifteen", "one-shared", "fifteen-shared"];
    let ratios: Vec<_> = cases.into_iter().filter_map(ratio).collect();
    Finding::over("", &ratios, target)
}
