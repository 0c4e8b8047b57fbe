//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 001.

use super::CASES;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Rows, Shape};

/// `cargo lab sendfile`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "sendfile",
    title: "Sending files: page lists and clusters, plain and over TLS",
    essay: "A server that encrypts video spends its CPU time on the payload: reading it, encrypting it, copying it. \
        The place of a page list can save only a part of the rest. The experiment `extpgs` looks at the buffers \
        alone; this one has the work on the payload as well, so that its percentages can be held against the \
        seed\u{2019}s.\n\n\
        Thousands of records are under way at once, as on a server with hundreds of connections. Each begins at \
        another place of a page. They are described by page lists, sent row by row and freed; or the file is read \
        into clusters first.",
    reading: "Less is better: milliseconds of one CPU for 10^9 bytes. Compare `inline` with `separate`: they differ \
        only in the place of the list. `mbuma` is ours through its public interface. `clusters` reads the file, and \
        encrypts it where it then lies. `saved` is against `separate`, round by round.",
    caveats: "TCP and the device are not in it: on a whole server the percentages are smaller. What is encrypted goes \
        to the same few places again and again; in the stack it stays until it is acknowledged.",
    claims: CLAIMS,
    arguments: [
        "--reps 2 --seconds-per-case 0.02",
        "",
        "--reps 61 --seconds-per-case 12",
    ],
    seconds: [4, 25, 120],
    about: |case| about(&CASES, case),
    shows: |_| true,
    shape: |_| Shape::Bars,
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: "seed 001",
        says: "Lists inside of mbufs save 2 per cent of the CPU time of a server of encrypted video, 3 scaled to load.",
        figure: "2 to 3 %",
        judge: saved,
    },
    Claim {
        seed: OUR_TARGET,
        says: "Over TLS, sending from page lists costs less than reading the file into clusters.",
        figure: "less than clusters",
        judge: |rows| {
            let (pages, clusters) = rows.case("tls").unit("ms/GB").pair("mbuma", "clusters")?;
            let here = format!("{pages:.0} ms for 10^9 bytes; in clusters {clusters:.0}");
            Some(Finding::at_least(here, clusters / pages, 1.0, 0.9))
        },
    },
];

fn saved(rows: &Rows<'_>) -> Option<Finding> {
    let of = |case: &str| {
        let saved = rows.case(case).measure("saved");
        saved.design("inline").median()
    };
    let (tls, plain) = (of("tls")?, of("plain")?);
    let here = format!("the seed saw 2 to 3 %: we see {tls:.1} % over TLS, {plain:.1} % without");
    Some(Finding::at_least(here, tls / 2.0, 1.0, 0.25))
}
