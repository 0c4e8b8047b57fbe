//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 001.

use super::catalog::Case;
use crate::report::{Claim, Experiment, Finding, Rows, Shape};

/// `cargo lab extpgs`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "extpgs",
    title: "Where the list of pages lies",
    essay: "A server that sends a file over TLS does not need to look at it: the pages lie in the page cache, and \
        the device, or the cipher, takes them from there. So a network buffer may say \u{201c}five pages from \
        there, from byte 1000 of the first\u{201d} instead of holding bytes, and the kernel never maps the \
        pages. A record of TLS has 16 KiB; if it does not begin at the beginning of a page, it lies in five.\n\n\
        FreeBSD first kept such a list in a record of its own, beside the buffer. A thread that walked a send \
        buffer then found the buffer in the cache, followed its pointer, and waited for memory: by the time of the \
        walk, thousands of other connections have used the cache. In 2020 the list moved into the buffer \
        itself, into the place that small data or a packet's header would have. Ours is also there.\n\n\
        A turn builds many records, walks them as a driver does, and frees them; before each phase other data fills \
        the caches, as on a busy server.",
    reading: "Compare `inline` with `separate`: they differ only in the place of the list. `mbuma` is ours through its \
        public interface, `clusters` is the same without pages. `saved` is the part of the time of `separate` that \
        the list inside saves, round by round.",
    caveats: "The seed's percentages are of all the CPU time of a server that also encrypts and runs TCP. Here they \
        are of the buffers' own time, so they are larger; only the direction can be compared.",
    claims: CLAIMS,
    arguments: ["--records 2000 --reps 3", "", "--records 40000 --reps 31"],
    seconds: [2, 15, 80],
    about: |case| {
        let case = Case::ALL.into_iter().find(|one| one.name() == case);
        case.map_or_else(String::new, |case| case.about().to_owned())
    },
    shows: |_| true,
    shape: |case| match case {
        "saved" => Shape::Grid,
        _ => Shape::Bars,
    },
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: "seed 001, Description",
        says: "Carrying the list in the mbuf itself \u{201c}saves roughly 2% \u{2018}raw\u{2019} CPU (~59% -> \
            57%), or over 3% \u{2018}scaled\u{2019} CPU\u{201d} of a server of encrypted video.",
        figure: "2 to 3 % of all CPU time",
        judge: saved,
    },
    Claim {
        seed: "seed 001, Description",
        says: "A separate list is \u{201c}almost guaranteed to be cold in cache\u{201d} when it is accessed.",
        figure: "a cache miss a record",
        judge: cold,
    },
    Claim {
        seed: "seed 001, Description",
        says: "Five pages, \u{201c}the minimum required for a 16K TLS record which is not perfectly \
            aligned\u{201d}, fit in one mbuf.",
        figure: "1 mbuf a record",
        judge: one_mbuf,
    },
];

fn saved(rows: &Rows<'_>) -> Option<Finding> {
    let life = rows.case("saved").measure("life");
    let inline = life.design("inline").median()?;
    let ours = life.design("mbuma").median()?;
    let here = format!("{inline:.0} % of the buffers\u{2019} own time; ours {ours:.0} %");
    Some(Finding::is(here, inline > 2.0))
}

fn cold(rows: &Rows<'_>) -> Option<Finding> {
    let (separate, inline) = rows.case("walk").pair("separate", "inline")?;
    let here = format!("{separate:.0} and {inline:.0} ns to walk a record");
    Some(Finding::at_least(here, separate / inline, 1.2, 1.02))
}

fn one_mbuf(rows: &Rows<'_>) -> Option<Finding> {
    let mbufs = rows.case("mbufs");
    let (inline, clusters) = mbufs.pair("inline", "clusters")?;
    let a_record = inline / (f64::from(1 << 20) / super::RECORD as f64);
    let here = format!(
        "{a_record:.0} mbuf a record; of clusters {:.0}",
        clusters / inline * a_record
    );
    Some(Finding::is(here, a_record <= 1.0))
}
