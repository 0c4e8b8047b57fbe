//! The text, cases and claims of this experiment in the report.
//!
//! Source: issue 2, its targets.

use super::case::{CASES, Case, Job};
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Rows, Shape};

/// `cargo lab run`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "run",
    title: "A program\u{2019}s network without privileges, beside pasta and slirp4netns",
    essay: "A container that an ordinary user starts has a network namespace of its own, without an interface: a user \
        without privileges cannot put one there that leads to the outside. So a program stands between. It reads the \
        packets that the guest\u{2019}s kernel writes to a TAP, is the other end of every connection in them, and \
        passes their data on by ordinary sockets. slirp4netns does that with a TCP stack that was written for \
        modems and virtual machines; pasta has none, and translates between the guest\u{2019}s packets and the \
        state of the host\u{2019}s sockets; `mbuma run` and `mbuma attach` do it with the stack of this project.\n\n\
        Here each of them joins the same two namespaces: in one are servers on the loopback, in the other their \
        clients. `up` is from the guest to the host, `down` the other way, by one TCP stream or by eight; `rr` is \
        64 bytes there and back, alone and beside a stream; `share` is downloads at once, \
        read by one thread; `conn` connects, asks, reads the answer and closes; `start` runs `true` with a network of \
        its own; `lease` asks for an address by DHCP or DHCPv6 and accepts it; `scan` is a stream alone, and then \
        while a program asks for 10,000 neighbours a second that are not there. `mbuma-no-sandbox` is ours without \
        its isolation, which shows what that costs. \
        `kernel` has no tool between but a veth pair, as one with privileges would make it, for reference.",
    reading: "Streams are in Gbit/s of payload, with the tool\u{2019}s CPU seconds for 10^9 bytes beside them; round \
        trips in microseconds, the middle one and the slowest of a hundred, with the speed of the stream beside them \
        where there is one: a tool that lets the stream starve answers quickly. Of `conn` there is also how long \
        connect(2) took. A fifth of each reading is not counted: windows grow.",
    caveats: "The servers, the clients and both kernels share the CPUs with the tool: on a machine of two cores a \
        stream is bound by all of them together. The MTU is the largest that all take, which suits slirp4netns and \
        pasta; `--mtu 1500` shows the speeds with a small MTU. pasta\u{2019}s single stream from the guest nearly \
        stands still on some machines, for a reason that we do not know: trust that cell only if other machines show \
        the same. pasta can also join loopback to loopback without its TAP, which is not measured here. TCP is set in \
        the namespaces as Linux has it by default, with CUBIC where the machine lets them choose. No packet is lost, \
        and no host is far: real networks are not shown.",
    claims: CLAIMS,
    arguments: [
        "--case up1,rr,conn1 --reps 1 --seconds-per-case 0.2",
        "",
        "--reps 11 --seconds-per-case 22",
    ],
    seconds: [10, 600, 3000],
    about: |case| about(CASES, case),
    shows: |_| true,
    shape: |case| match Case::find(case).map(|case| case.job) {
        Some(Job::RoundTrips { .. }) => Shape::Grid,
        _ => Shape::Bars,
    },
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: OUR_TARGET,
        says: "From the guest to the host, one stream and eight are at least 1.5 times as fast as through the better \
            of pasta and slirp4netns.",
        figure: "at least 1.5\u{d7} the better",
        judge: |rows| more(rows, ["up1", "up8"], 1.5),
    },
    Claim {
        seed: OUR_TARGET,
        says: "From the host to the guest, they are at least as fast.",
        figure: "at least 1.0\u{d7} the better",
        judge: |rows| more(rows, ["down1", "down8"], 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "At least as many short connections are made in a second, one at a time and sixteen.",
        figure: "at least 1.0\u{d7} the better",
        judge: |rows| more(rows, ["conn1", "conn16"], 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "8, 64 and 512 downloads at once move at least 1.3 times as much.",
        figure: "at least 1.3\u{d7} the better",
        judge: |rows| more(rows, SHARES, 1.3),
    },
    Claim {
        seed: OUR_TARGET,
        says: "Each of them gets the same: Jain\u{2019}s index is at least 0.95.",
        figure: "at least 0.95",
        judge: |rows| own(rows, "Jain\u{2019}s index", "jain", 1.0, 0.95),
    },
    Claim {
        seed: OUR_TARGET,
        says: "None of them stands still for a second.",
        figure: "1.0: all of them",
        judge: |rows| own(rows, "part of the streams", "moving", 100.0, 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "512 downloads take at most twice the memory that pasta takes.",
        figure: "at least 0.5: pasta\u{2019}s peak to ours",
        judge: |rows| {
            let rows = rows.case("share512").measure("peak");
            let of = [("512", rows.ratio("pasta", "mbuma")?)];
            Finding::over("pasta\u{2019}s peak to ours", &of, 0.5)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "The slowest of a hundred round trips takes no longer, alone and beside a stream.",
        figure: "at most the better\u{2019}s time: a ratio of 1.0",
        judge: slowest,
    },
    Claim {
        seed: OUR_TARGET,
        says: "Beside an upload it takes at most 100 \u{b5}s.",
        figure: "at least 1.0: 100 \u{b5}s to the time",
        judge: |rows| {
            let ours = rows.case("rr-up").measure("p99").design("mbuma");
            let of = [("beside up", 100.0 / ours.median()?)];
            Finding::over("100 \u{b5}s to the time", &of, 1.0)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "The slowest of a hundred connections of one client is there as soon as the better\u{2019}s.",
        figure: "at most the better\u{2019}s time: a ratio of 1.0",
        judge: |rows| {
            let rows = rows.case("conn1").measure("connect-p99");
            let ratio = least(OTHERS.map(|other| rows.ratio(other, "mbuma")))?;
            Finding::over(
                "the better one\u{2019}s time to ours",
                &[("conn1", ratio)],
                1.0,
            )
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "Over IPv6, streams both ways move at least 0.97 of the bytes that they move over IPv4.",
        figure: "at least 0.97 of IPv4",
        judge: |rows| {
            let ratio = |case| {
                let rows = rows.case(case).only(|row| row.measure.is_none());
                Some((case, rows.ratio("mbuma-ip6", "mbuma")?))
            };
            let of: Vec<_> = STREAMS.into_iter().map(ratio).collect::<Option<_>>()?;
            Finding::over("IPv6 to IPv4", &of, 0.97)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "Over IPv6 they are at least as fast as through the better of pasta and slirp4netns.",
        figure: "at least 1.0\u{d7} the better",
        judge: |rows| beyond(rows, "mbuma-ip6", OTHERS_IP6, STREAMS, 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "Isolation costs at most 3 % of the speed of streams and of the number of connections.",
        figure: "at least 0.97 of no isolation",
        judge: |rows| {
            let cases = ["up1", "up8", "down1", "down8", "conn1", "conn16"];
            beyond(rows, "mbuma", ["mbuma-no-sandbox"; 2], cases, 0.97)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "A command starts at most 2 ms later with both versions of IP than with IPv4 alone.",
        figure: "at least 1.0: 2 ms to the difference",
        judge: |rows| {
            let rows = rows.case("start").measure("p50");
            let of = |design| rows.design(design).median();
            let later_us = of("mbuma-ip6")? - of("mbuma")?;
            let of = [("start", 2000.0 / later_us.max(1.0))];
            Finding::over("2 ms to the difference", &of, 1.0)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "A client of DHCP or DHCPv6 has its lease within 50 ms, also the slowest of a hundred.",
        figure: "at least 1.0: 50 ms to the time",
        judge: |rows| {
            let rows = rows.case("lease").measure("p99");
            let ratio = |design| Some((design, 50_000.0 / rows.design(design).median()?));
            let of = [ratio("mbuma")?, ratio("mbuma-ip6")?];
            Finding::over("50 ms to the time", &of, 1.0)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "Beside a scan of 10,000 addresses a second a stream keeps at least 95 % of its speed.",
        figure: "at least 0.95",
        judge: |rows| {
            let rows = rows.case("scan").measure("kept");
            let part = |design| Some((design, rows.design(design).median()? / 100.0));
            let of = [part("mbuma")?, part("mbuma-ip6")?];
            Finding::over("part of the speed", &of, 0.95)
        },
    },
];

/// The cases of bulk streams.
const STREAMS: [&str; 4] = ["up1", "up8", "down1", "down8"];

/// The cases of many downloads.
const SHARES: [&str; 3] = ["share8", "share64", "share512"];
/// The tools that others use.
const OTHERS: [&str; 2] = ["pasta", "slirp4netns"];
const OTHERS_IP6: [&str; 2] = ["pasta-ip6", "slirp4netns-ip6"];

/// Ours to the best of those others that ran.
fn more<const N: usize>(rows: &Rows<'_>, cases: [&str; N], target: f64) -> Option<Finding> {
    beyond(rows, "mbuma", OTHERS, cases, target)
}

/// One of ours to the best of those others that ran.
fn beyond<const N: usize>(
    rows: &Rows<'_>,
    ours: &str,
    others: [&str; 2],
    cases: [&str; N],
    target: f64,
) -> Option<Finding> {
    let ratio = |case| {
        let rows = rows.case(case).only(|row| row.measure.is_none());
        least(others.map(|other| rows.ratio(ours, other)))
    };
    let of = cases.map(|case| Some((case, ratio(case)?)));
    let of: Vec<_> = of.into_iter().collect::<Option<_>>()?;
    Finding::over("ours to the better one\u{2019}s", &of, target)
}

/// A figure of ours in each case of many downloads, against `whole`.
fn own(rows: &Rows<'_>, what: &str, measure: &str, whole: f64, target: f64) -> Option<Finding> {
    let figure = |case| {
        let figure = rows.case(case).design("mbuma").measure(measure).median()?;
        Some((case, figure / whole))
    };
    let of: Vec<_> = SHARES.into_iter().map(figure).collect::<Option<_>>()?;
    Finding::over(what, &of, target)
}

/// Less is better: the best one's time to ours.
fn slowest(rows: &Rows<'_>) -> Option<Finding> {
    let ratio = |case| {
        let rows = rows.case(case).measure("p99");
        least(OTHERS.map(|other| rows.ratio(other, "mbuma")))
    };
    let of = [
        ("alone", ratio("rr")?),
        ("beside up", ratio("rr-up")?),
        ("beside down", ratio("rr-down")?),
    ];
    Finding::over("the better one\u{2019}s time to ours", &of, 1.0)
}

fn least(ratios: [Option<f64>; 2]) -> Option<f64> {
    ratios.into_iter().flatten().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Row, Verdict};

    fn row(case: &str, measure: Option<&str>, design: &str, median: Option<f64>) -> Row {
        Row {
            case: case.to_owned(),
            measure: measure.map(str::to_owned),
            design: design.to_owned(),
            median,
            n: 3,
            ..Row::default()
        }
    }

    #[test]
    fn the_better_of_those_that_ran_decides() {
        // Breaks when ours is compared with the worse peer, or called best where no other ran.
        let of = |pasta, slirp| {
            let rows = ["up1", "up8"].map(|case| {
                [
                    row(case, None, "mbuma", Some(20.0)),
                    row(case, Some("cpu"), "pasta", Some(0.5)),
                    row(case, None, "pasta", pasta),
                    row(case, None, "slirp4netns", slirp),
                ]
            });
            more(&Rows::of(rows.iter().flatten()), ["up1", "up8"], 1.5).map(|found| found.verdict)
        };
        assert_eq!(of(Some(2.0), Some(15.0)), Some(Verdict::Partly));
        assert_eq!(of(Some(25.0), Some(8.0)), Some(Verdict::Fails));
        assert_eq!(of(Some(2.0), None), Some(Verdict::Holds));
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn a_shorter_wait_is_better() {
        // Breaks when times are judged as rates are.
        let of = |ours| {
            let rows = ["rr", "rr-up", "rr-down"].map(|case| {
                [
                    row(case, Some("p99"), "mbuma", Some(ours)),
                    row(case, Some("p99"), "pasta", Some(100.0)),
                    row(case, Some("p99"), "slirp4netns", Some(900.0)),
                ]
            });
            slowest(&Rows::of(rows.iter().flatten())).map(|found| found.verdict)
        };
        assert_eq!(of(90.0), Some(Verdict::Holds));
        assert_eq!(of(150.0), Some(Verdict::Fails));
    }
}
