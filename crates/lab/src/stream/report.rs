//! The text, cases and claims of this experiment in the report.
//!
//! Source: issue 5, its targets.

use super::CASES;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Rows, Shape};

/// `cargo lab stream`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "stream",
    title: "TCP between two stacks, beside other stacks",
    essay: "How fast are locks, mbufs and hand-offs together? Two stacks in one process, joined \
        by an epair, carry one TCP stream, or 64 bytes there and back, on one thread that drives both ends or on \
        two; and so do the TCP stacks that a program could use in this one\u{2019}s place: smoltcp, for small \
        devices and written for one thread; lwIP, likewise and in C; gVisor\u{2019}s netstack, in Go; and the \
        kernel, over loopback and over veth, its own epair.\n\n\
        Stacks differ in their work for a byte. An epair passes segments of up to 64 KiB on whole, whatever the \
        MTU, and makes no checksums, because its packets never leave memory: that is the row `mbuma`. smoltcp, lwIP \
        and netstack cut the stream into frames of the MTU, and sum each byte at the sender and at the receiver: \
        `mbuma-frames` does the same, and is the row that is compared with them. `mbuma-sums` lies between: sums, and \
        segments whole.",
    reading: "The name of a case has its traffic, the MTU, and the number of threads. Streams are in Gbit/s of \
        payload, round trips (`rr`) in microseconds, of which less is better. Compare `mbuma-frames` with smoltcp, \
        lwIP and netstack, which do the same work, and `mbuma` with the kernel, which passes segments whole over \
        loopback and veth and does not sum; in the cases named `nocsum` each stack that can leave its sums out does. \
        The note of a peer has its settings: the best of a sweep.",
    caveats: "lwIP has both ends in one stack, and was tuned; netstack was not, and has as many threads as Go gives \
        it. Peers are programs that are started for each reading, outside of this one: they are built by hand, \
        and skipped where they are not. The kernel crosses from user space and back for each call. The \
        kernel\u{2019}s loopback has an MTU of its own. One stream, no loss, no reordering: real networks are not \
        shown.",
    claims: CLAIMS,
    arguments: [
        "--case stream-1500-one,stream-1500-two,rr-1500-one,rr-1500-two --reps 2 --seconds-per-case 0.1",
        "--reps 5 --seconds-per-case 2",
        "--reps 11 --seconds-per-case 11",
    ],
    seconds: [8, 210, 1100],
    about: |case| about(CASES, case),
    shows: |_| true,
    shape: |_| Shape::Bars,
};

/// The row whose work is the same as that of stacks that sum and cut.
const ALIKE: &str = super::designs::ALIKE;

const CLAIMS: &[Claim] = &[
    Claim {
        seed: OUR_TARGET,
        says: "With two threads at MTU 1500, a stream is at least 1.5 times as fast as smoltcp\u{2019}s; both cut into \
            frames and sum.",
        figure: "at least 1.5\u{d7} smoltcp",
        judge: |rows| against_smoltcp(rows, "stream-1500-two", 1.5),
    },
    Claim {
        seed: OUR_TARGET,
        says: "With one thread at MTU 1500, it is at least as fast; both cut into frames and sum.",
        figure: "at least 1.0\u{d7} smoltcp",
        judge: |rows| against_smoltcp(rows, "stream-1500-one", 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "A round trip takes at most twice as long as smoltcp\u{2019}s; both sum.",
        figure: "at most 2\u{d7} its time: a ratio of 0.5",
        judge: round_trips,
    },
    Claim {
        seed: OUR_TARGET,
        says: "A stream is at least as fast as between two namespaces of the kernel over veth; both pass \
            segments whole and do not sum.",
        figure: "at least 1.0\u{d7} veth",
        judge: against_veth,
    },
];

/// Ours in frames, which cuts and sums as smoltcp does. The rows that do less are named beside it and do not decide.
fn against_smoltcp(rows: &Rows<'_>, case: &str, target: f64) -> Option<Finding> {
    let rows = rows.case(case);
    let (ours, smoltcp) = rows.pair(ALIKE, "smoltcp")?;
    let found = Finding::over("", &[("", ours / smoltcp)], target)?;
    let mut here = format!("smoltcp {smoltcp:.1}, ours in frames {ours:.1} Gbit/s");
    for (design, what) in [("mbuma-sums", "whole"), ("mbuma", "whole without sums")] {
        if let Some((ours, _)) = rows.pair(design, "smoltcp") {
            here += &format!(", {what} {ours:.1}");
        }
    }
    Some(Finding { here, ..found })
}

/// Less is better: smoltcp's time over ours.
fn round_trips(rows: &Rows<'_>) -> Option<Finding> {
    let times = |case| rows.case(case).pair(ALIKE, "smoltcp");
    let (one, two) = (times("rr-1500-one")?, times("rr-1500-two")?);
    let ratios = [("", one.1 / one.0), ("", two.1 / two.0)];
    let found = Finding::over("", &ratios, 0.5)?;
    let here = format!(
        "ours {:.2}, smoltcp {:.2} us; on two threads {:.2} and {:.2}",
        one.0, one.1, two.0, two.1
    );
    Some(Finding { here, ..found })
}

/// Every case of the target that was measured, and the two of MTU 1500 at least.
fn against_veth(rows: &Rows<'_>) -> Option<Finding> {
    let ratio = |case| rows.case(case).ratio("mbuma", "kernel-veth");
    let mut of = vec![
        ("1500 one thread", ratio("stream-1500-one")?),
        ("two", ratio("stream-1500-two")?),
    ];
    let large = [
        ("65535 one thread", ratio("stream-65535-one")),
        ("two", ratio("stream-65535-two")),
    ];
    of.extend(large.into_iter().filter_map(|(name, x)| Some((name, x?))));
    Finding::over("ours to veth\u{2019}s, MTU", &of, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Row, Verdict};

    fn row(case: &str, design: &str, median: Option<f64>) -> Row {
        Row {
            case: case.to_owned(),
            design: design.to_owned(),
            median,
            n: 5,
            ..Row::default()
        }
    }

    #[test]
    fn no_target_is_met_without_a_peer() {
        // Breaks when a target counts as met because no other design ran.
        let rows = [
            row("stream-1500-two", ALIKE, Some(30.0)),
            row("stream-1500-two", "smoltcp", None),
        ];
        let rows = Rows::of(&rows);
        assert!(CLAIMS.iter().all(|claim| (claim.judge)(&rows).is_none()));
    }

    #[test]
    fn shorter_is_better_for_round_trips() {
        // Breaks when times are judged as rates are.
        let judged = |ours| {
            let rows = ["rr-1500-one", "rr-1500-two"].map(|case| {
                let smoltcp = row(case, "smoltcp", Some(1.0));
                [row(case, ALIKE, Some(ours)), smoltcp]
            });
            round_trips(&Rows::of(rows.iter().flatten())).map(|found| found.verdict)
        };
        assert_eq!(judged(0.5), Some(Verdict::Holds));
        assert_eq!(judged(1.9), Some(Verdict::Holds));
        assert_eq!(judged(2.1), Some(Verdict::Fails));
    }

    #[test]
    fn ours_is_judged_by_the_same_work() {
        // Breaks when a design that does not sum, or does not cut, decides against a design that does both.
        let rows = [
            row("stream-1500-one", "mbuma", Some(90.0)),
            row("stream-1500-one", "mbuma-sums", Some(50.0)),
            row("stream-1500-one", "mbuma-frames", Some(30.0)),
            row("stream-1500-one", "smoltcp", Some(40.0)),
        ];
        let found = against_smoltcp(&Rows::of(&rows), "stream-1500-one", 1.0);
        let found = found.map(|found| (found.verdict, found.ratio));
        assert_eq!(found, Some((Verdict::Fails, Some(0.75))));
    }
}
