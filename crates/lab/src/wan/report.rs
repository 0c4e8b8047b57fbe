//! The text, cases and claims of this experiment in the report.

use super::path::{PATHS, Path};
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Rows, Shape};

/// `cargo lab wan`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "wan",
    title: "TCP over bad paths, beside Linux and stacks in user space",
    essay: "Between two programs on one machine no packet is lost, and a stack without SACK is as good as one with it. \
        Over a real path it is worse: queues overflow, radio links lose and delay packets, routers send them by two \
        ways. A TCP\u{2019}s loss recovery and congestion control decide its rate there.\n\n\
        Here one flow goes over an emulated link of 100 Mbit/s for 30 s, after 5 s of warm-up: rate, delay, a queue \
        that drops packets without room, loss, reordering, jitter, all drawn from a seed. Two stacks of ours use it \
        in virtual time, where the same seed gives the same figures on every machine. Linux uses it \
        in real time: two network namespaces, each with a TAP, and the same link between the TAPs. smoltcp, lwIP and \
        gVisor\u{2019}s netstack use it in real time too, at both ends.",
    reading: "The name of a design says where it runs and which congestion control its sender has: `sim` is ours in \
        virtual time, `linux` is Linux at both ends in real time, `mbuma` is ours in real time, and of two names \
        the first sends. Where packets are marked both ends offer ECN (RFC 3168), else neither does. Rates are \
        payload in Mbit/s, of which 95.6 fit. The formula of Mathis is the rate of Reno under random losses. `resent` \
        counts segments that were sent again, of 100 sent; `rtt` is the time in the link and its queue.",
    caveats: "An emulated link has no cross traffic, no changing rate and no middleboxes. In real time a frame \
        may be late by as long as the thread that carries it waits for a CPU. Losses are drawn from the same seeds, \
        but hit other segments as soon as two senders differ. In 30 s few losses happen at 0.01 %: the spread is \
        wide there.\n\n\
        Peers in user space get buffers that hardly overflow a queue of one bandwidth-delay product, their best: \
        smoltcp and lwIP have no SACK where they send, and netstack with 16 MiB stood still once it had overflowed \
        the queue. Their notes say what each uses.",
    claims: CLAIMS,
    arguments: [
        "--case clean-1bdp,loss-1 --design sim-cubic,linux-cubic --reps 1 --seconds-per-case 3",
        "--reps 2 --seconds-per-case 20",
        "--reps 5 --seconds-per-case 150",
    ],
    seconds: [15, 3200, 18000],
    about: |case| about(PATHS, case),
    shows: |_| true,
    shape: |_| Shape::Bars,
};

/// The row that the targets are about.
const OURS: &str = "sim-cubic";
/// Linux with the same algorithm.
const LINUX: &str = "linux-cubic";
/// Payload of the rate that a path of MTU 1500 leaves: 1448 of 1514 bytes, in Mbit/s.
const FULL: f64 = 95.6;

const CLAIMS: &[Claim] = &[
    Claim {
        seed: OUR_TARGET,
        says: "With random losses the rate is near that of Mathis\u{2019}s formula.",
        figure: "0.1, 1, 3 %: at least 0.90, 0.80, 0.65 of it",
        judge: |rows| {
            let cases = [("loss-0.1", 0.9), ("loss-1", 0.8), ("loss-3", 0.65)];
            // Each over its own target: 1 is reached.
            over(rows, "of the targets", 1.0, &cases, |name, target| {
                let path = PATHS.iter().find(|path| path.name == name)?;
                Some(path.mathis_mbps()? * target)
            })
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "A clean path with a queue of one bandwidth-delay product is full.",
        figure: "at least 0.99 of 95.6 Mbit/s",
        judge: |rows| {
            let cases = [("clean-1bdp", 1.0)];
            over(rows, "of 95.6 Mbit/s", 0.99, &cases, |_, _| Some(FULL))
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "Reordering and jitter are not taken for loss.",
        figure: "at least 0.90 of 95.6 Mbit/s",
        judge: |rows| {
            let cases = [
                ("reorder-1-5ms", 1.0),
                ("reorder-5-5ms", 1.0),
                ("reorder-5-25ms", 1.0),
                ("jitter-30ms", 1.0),
            ];
            over(rows, "of 95.6 Mbit/s", 0.9, &cases, |_, _| Some(FULL))
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "Random loss of up to 3 % is repaired without a retransmission timeout.",
        figure: "none",
        judge: timeouts,
    },
    Claim {
        seed: OUR_TARGET,
        says: "On no path is it slower than Linux with the same algorithm.",
        figure: "at least 0.95 of Linux",
        judge: |rows| {
            let rate = |name: &str, design| rows.case(name).unit("Mbit/s").design(design).median();
            let one_flow = PATHS.iter().filter(|path| path.flows == 1);
            let ratio = |path: &Path| {
                let (ours, linux) = (rate(path.name, OURS)?, rate(path.name, LINUX)?);
                Some((path.name, ours / linux))
            };
            let ratios: Vec<_> = one_flow.filter_map(ratio).collect();
            Finding::over("ours to Linux\u{2019}s", &ratios, 0.95)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "Beside a flow of Linux in one queue, ours takes its share, and leaves the other its own.",
        figure: "40 to 60 %",
        judge: |rows| {
            let rows = rows.case("fair-1bdp").measure("share");
            let share = rows.design("mixed-cubic").median()?;
            let here = format!("{share:.0} %");
            Some(Finding::is(here, (40.0..=60.0).contains(&share)))
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "Two flows share a queue fairly.",
        figure: "Jain\u{2019}s index at least 0.95",
        judge: fairness,
    },
];

/// The rates of ours in some cases, each divided by `of` of the case.
fn over(
    rows: &Rows<'_>,
    what: &str,
    target: f64,
    cases: &[(&'static str, f64)],
    of: impl Fn(&str, f64) -> Option<f64>,
) -> Option<Finding> {
    let ratio = |&(name, scale): &(&'static str, f64)| {
        let rate = rows.case(name).unit("Mbit/s").design(OURS).median()?;
        Some((name, rate / of(name, scale)?))
    };
    let ratios: Option<Vec<_>> = cases.iter().map(ratio).collect();
    Finding::over(what, &ratios?, target)
}

fn timeouts(rows: &Rows<'_>) -> Option<Finding> {
    let of = |case| {
        let rows = rows.case(case).measure("timeouts").design(OURS);
        rows.median()
    };
    let all = [of("loss-0.1")?, of("loss-1")?, of("loss-3")?];
    let here = format!("{}, {}, {} a run at 0.1, 1, 3 %", all[0], all[1], all[2]);
    Some(Finding::is(here, all.iter().all(|n| *n == 0.0)))
}

fn fairness(rows: &Rows<'_>) -> Option<Finding> {
    let rows = rows.case("fair-1bdp").measure("share").design(OURS);
    let share = rows.median()? / 100.0;
    // Two shares, x and 1 - x: Jain's index is the square of their sum over twice the sum of their squares.
    let index = 1.0 / (2.0 * (share * share + (1.0 - share) * (1.0 - share)));
    let here = format!("{index:.2}: the first has {:.0} %", share * 100.0);
    Some(Finding::at_least(here, index, 0.95, 0.8))
}
