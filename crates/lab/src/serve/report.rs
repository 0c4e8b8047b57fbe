//! The text, cases and claims of this experiment in the report.
//!
//! Source: issue 20, its targets.

use super::case::Case;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Pace, Row, Rows};

/// `cargo lab serve`.
pub(crate) struct Serve;

impl Experiment for Serve {
    fn name(&self) -> &'static str {
        "serve"
    }

    fn title(&self) -> &'static str {
        "Serving files from inside of the stack, beside nginx"
    }

    fn essay(&self) -> &'static str {
        "A web server that sends files spends most of its time in the kernel: the kernel finds the pages of the file, \
        cuts them into segments and hands them to the network. `mbuma serve` does this work in a process of its own: \
        it reads a file into the clusters that its TCP sends, and shares them until they are acknowledged.\n\n\
        Here one thread of it and one worker process of nginx, with sendfile, serve the same files to the same client. \
        nginx has the kernel\u{2019}s TCP and a veth pair; mbuma has its own TCP and a TAP, and the kernel of the \
        client takes its packets in."
    }

    fn reading(&self) -> &'static str {
        "A server has one CPU and the client the other one. `per-cpu-s` is 10^9 bytes of files for each second of CPU \
        time of the server\u{2019}s processes: with both servers the work of the client\u{2019}s kernel for a packet \
        that the server sends is in it. `p50` and `p99` are from the request to the last byte."
    }

    fn caveats(&self) -> &'static str {
        "Everything is in memory: no disk is shown. The client is a thread for each connection, and throws the files \
        away; on two CPUs it is often the bound of the requests for each second, so that the CPU time tells more. \
        TLS is not measured yet."
    }

    fn claims(&self) -> &'static [Claim] {
        CLAIMS
    }

    fn arguments(&self, pace: Pace) -> &'static str {
        pace.pick([
            "--case 1k-1,10m-1 --reps 1 --seconds-per-case 0.2",
            "--reps 5 --seconds-per-case 5",
            "--reps 15 --seconds-per-case 15",
        ])
    }

    fn seconds(&self, pace: Pace) -> u64 {
        pace.pick([10, 120, 300])
    }

    fn about(&self, case: &str) -> String {
        Case::find(case).map_or_else(String::new, ToString::to_string)
    }

    fn shows(&self, row: &Row) -> bool {
        row.measure.as_deref() != Some("p50")
    }
}

const CLAIMS: &[Claim] = &[
    Claim {
        seed: OUR_TARGET,
        says: "Small files are served at least as often in a second as nginx serves them, one client and sixteen.",
        figure: "at least 1.0\u{d7} nginx",
        judge: requests,
    },
    Claim {
        seed: OUR_TARGET,
        says: "A second of the server\u{2019}s CPU time serves at least 6\u{b7}10^9 bytes of a file of 10 MB.",
        figure: "at least 6 GB/CPU s",
        judge: per_cpu,
    },
];

fn requests(rows: &Rows<'_>) -> Option<Finding> {
    let of = |case| {
        let all = rows.case(case).unit("requests/s");
        all.ratio("mbuma", "nginx")
    };
    let ratios = [("1k-1", of("1k-1")?), ("1k-16", of("1k-16")?)];
    Finding::over("requests for each second to nginx\u{2019}s", &ratios, 1.0)
}

fn per_cpu(rows: &Rows<'_>) -> Option<Finding> {
    let all = rows.case("10m-1").measure("per-cpu-s");
    let ours = all.design("mbuma").median()?;
    let here = format!("{ours:.1} GB/CPU s");
    Some(Finding::at_least(here, ours / 6.0, 1.0, 0.5))
}
