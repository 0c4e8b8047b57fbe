//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 001.

use super::case::CASES;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Rows, Shape};

/// `cargo lab serve`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "serve",
    title: "Serving files from inside of the stack, beside nginx",
    essay: "A web server that sends files spends most of its time in the kernel: the kernel finds the pages of \
        the file, cuts them into segments and hands them to the network. `mbuma serve` does this work in a \
        process of its own: it reads a file into the clusters that its TCP sends, or lends the pages of a copy \
        in memory, and shares them until they are acknowledged. Over TLS, a program like nginx reads a file, \
        encrypts it, and hands the result to the kernel, which copies it. Here the stack encrypts each record \
        from the file\u{2019}s pages into the cluster that is sent.\n\nOne thread of it and one worker process \
        of nginx serve the same files to the same client. nginx has sendfile, the kernel\u{2019}s TCP and a \
        veth pair, and OpenSSL for TLS (and the kernel\u{2019}s TLS, where there is one); mbuma has its own \
        TCP and a TAP, and the kernel of the client takes its packets in. Both use AES-128-GCM and a key on \
        P-256.",
    reading: "A server has one CPU and the client the other one; in the cases with `one-cpu` both have the same. \
        `per-cpu-s` is 10^9 bytes of responses for each second of CPU time of the server\u{2019}s processes: \
        with both servers the work of the client\u{2019}s kernel for a packet that the server sends is in it. \
        `p50` and `p99` are from the request to the last byte. The memory of mbuma has its copies of the files \
        in it; nginx leaves files to the kernel.",
    caveats: "Everything is in memory: no disk is shown. The client is wrk with one thread, and `openssl s_time` \
        for handshakes. On two CPUs it is often the bound of the requests for each second: `client-cpu` is its \
        CPU time, and near 100 % says so. In the cases with `quota` the kernel gives each server a part of a CPU, \
        so that the server is the bound, or the reading is none. In `1k-16-slow` the client\u{2019}s CPU also \
        holds the slow clients, and both servers give a request ten seconds for its head. A file that takes longer \
        than a reading has a speed and no latency.",
    claims: CLAIMS,
    arguments: [
        "--case 1k-1,tls-10m-1 --reps 1 --seconds-per-case 1",
        "--reps 2 --seconds-per-case 2",
        "--reps 7 --seconds-per-case 14",
    ],
    seconds: [15, 280, 1200],
    about: |case| about(CASES, case),
    shows: |row| row.measure.as_deref() != Some("p50"),
    shape: |_| Shape::Bars,
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: OUR_TARGET,
        says: "Small files are served at least as often in a second as nginx serves them.",
        figure: "at least 1.0\u{d7} nginx",
        judge: |rows| requests(rows, ["1k-1", "1k-16", "1k-256"], 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "Over TLS, small files are served at least one and a half times as often in a second as nginx serves \
            them.",
        figure: "at least 1.5\u{d7} nginx",
        judge: |rows| requests(rows, ["tls-1k-1", "tls-1k-16", "tls-1k-256"], 1.5),
    },
    Claim {
        seed: OUR_TARGET,
        says: "With the same part of a CPU, so that no client is the bound, small files are served over TLS at least \
            one and a half times as often in a second as nginx serves them.",
        figure: "at least 1.5\u{d7} nginx",
        judge: |rows| requests(rows, ["tls-1k-16-quota"], 1.5),
    },
    Claim {
        seed: OUR_TARGET,
        says: "A second of the server\u{2019}s CPU time serves at least 6\u{b7}10^9 bytes of a file of 10 MB, and \
            11\u{b7}10^9 if the client is on the same CPU.",
        figure: "6 and 11 GB/CPU s",
        judge: |rows| per_cpu(rows, [("10m-1", 6.0), ("10m-1-one-cpu", 11.0)]),
    },
    Claim {
        seed: OUR_TARGET,
        says: "Over TLS, a second of the server\u{2019}s CPU time serves at least 4\u{b7}10^9 bytes of a file of \
            10 MB, and 6.5\u{b7}10^9 if the client is on the same CPU.",
        figure: "4.0 and 6.5 GB/CPU s",
        judge: |rows| per_cpu(rows, [("tls-10m-1", 4.0), ("tls-10m-1-one-cpu", 6.5)]),
    },
    Claim {
        seed: OUR_TARGET,
        says: "With the same part of a CPU there are at least as many handshakes in a second as with nginx.",
        figure: "at least 1.0\u{d7} nginx",
        judge: |rows| requests(rows, ["tls-handshakes-quota"], 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "Beside 10,000 clients that never end their requests, the slowest hundredth of the others waits at most \
            twice as long as without them.",
        figure: "at most 2.0\u{d7} the p99 without them",
        judge: beside_slow_clients,
    },
];

/// Requests, or handshakes, in a second.
fn requests<const N: usize>(
    rows: &Rows<'_>,
    cases: [&'static str; N],
    target: f64,
) -> Option<Finding> {
    let of = |case| {
        let all = rows.case(case).unit("requests/s");
        Some((case, all.ratio("mbuma", "nginx")?))
    };
    let ratios: Vec<(&str, f64)> = cases.into_iter().filter_map(of).collect();
    Finding::over("in a second, to nginx\u{2019}s", &ratios, target)
}

/// The p99 of requests beside slow clients, to that without them.
fn beside_slow_clients(rows: &Rows<'_>) -> Option<Finding> {
    let of = |design| {
        let p99 = |case| rows.case(case).measure("p99").design(design);
        let (beside, alone) = p99("1k-16-slow").medians_beside(&p99("1k-16"))?;
        let here = format!(
            "{design} {beside:.0} us beside {alone:.0} us, {:.2}\u{d7}",
            beside / alone
        );
        Some((here, beside / alone))
    };
    let (ours, ratio) = of("mbuma")?;
    let nginx = of("nginx").map_or(String::new(), |(here, _)| format!("; {here}"));
    Some(Finding::is(ours + &nginx, ratio <= 2.0))
}

/// Bytes for each second of the server's CPU time, to a target for each case.
fn per_cpu<const N: usize>(rows: &Rows<'_>, cases: [(&'static str, f64); N]) -> Option<Finding> {
    let of = |(case, target): (&'static str, f64)| {
        let all = rows.case(case).measure("per-cpu-s");
        Some((case, all.design("mbuma").median()?, target))
    };
    let found: Vec<_> = cases.into_iter().filter_map(of).collect();
    let ratios = found.iter().map(|(_, ours, target)| ours / target);
    let least = ratios.reduce(f64::min)?;
    let named = found
        .iter()
        .map(|(case, ours, _)| format!("{case} {ours:.1} GB/CPU s"));
    let here = named.collect::<Vec<_>>().join(", ");
    Some(Finding::at_least(here, least, 1.0, 0.5))
}
