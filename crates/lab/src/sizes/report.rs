//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 004 sections 4 and 5.6.

use super::calls::PATHS;
use crate::report::{Claim, Experiment, Finding, Rows, Shape};
use std::fmt::Write;

/// `cargo lab sizes`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "sizes",
    title: "Two sizes of buffer for all sizes of packets",
    essay: "BSD keeps a packet in mbufs of 256 bytes, and in clusters of 2 KiB where it is larger. That wastes the \
        rest of the cluster, and most of the mbuf in front of it. Linux asks its allocator for as many bytes as \
        a packet has, plus a header, plus room in front; the allocator then rounds up to the sizes that it has, \
        which also wastes memory, inside of the allocator.\n\n\
        The seed's paper holds that this is no great difference, because packets are either small \
        (acknowledgements) or full (data), and that m_pullup, which makes headers contiguous, hardly ever has to \
        copy. Here packets of such sizes are put into our mbufs, computed for the buffers of others, and sent \
        through a host\u{2019}s code while calls are counted.",
    reading: "`wasted` is memory that is allocated and shows no byte of a packet; `items` are allocations a packet. \
        `calls` counts each call of the buffer interface on four ways through a host; `copied` are the pullups \
        that had to copy.",
    caveats: "The packets are made up, in the shape that the seed's figure 2 shows, unless a capture is given with \
        --trace: waste and pullups are those of that mix, whose two modes are an assumption. The buffers of others \
        are computed from their sources, not run. No figure here is a time, so the figures are the same \
        on every machine.",
    claims: CLAIMS,
    arguments: ["--packets 20000", "", "--packets 1000000"],
    seconds: [1, 1, 5],
    about: |case| match case {
        "histogram" => "packets by their size in bytes (figure 2)".to_owned(),
        "histogram-log2" => "the same by powers of two".to_owned(),
        "memory" => {
            "memory of a packet, on average; the peak of the packets held at once".to_owned()
        }
        "wasted-by-size" => "wasted bytes a packet, by its size in bytes".to_owned(),
        "calls" => PATHS.iter().fold(
            "calls of the buffer interface (figure 3)".to_owned(),
            |mut text, path| {
                let _ = write!(text, "; {}: {}", path.name, path.about);
                text
            },
        ),
        _ => String::new(),
    },
    shows: |row| row.measure.as_deref() != Some("wasted-each"),
    shape: |case| match case {
        "wasted-by-size" | "calls" => Shape::Grid,
        _ => Shape::Bars,
    },
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: "seed 004, section 4.1",
        says: "\u{201c}Packet size distributions tend to be bimodal.\u{201d}",
        figure: "two modes",
        judge: bimodal,
    },
    Claim {
        seed: "seed 004, section 4",
        says: "\u{201c}For a Cluster of 2048 bytes, the internal Mbuf wastage is approximately 6%.\u{201d}",
        figure: "6 %",
        judge: idle,
    },
    Claim {
        seed: "seed 004, section 4",
        says: "That \u{201c}BSD's Mbufs result in more wasted space than SKBs\u{201d} is a myth.",
        figure: "mbufs waste no more",
        judge: skbs,
    },
    Claim {
        seed: "seed 004, section 4.2, figure 3",
        says: "m_pullup() never had to copy in several days of uptime.",
        figure: "0 copies",
        judge: pullups,
    },
    Claim {
        seed: "seed 004, section 4.2, figure 3",
        says: "m_getcl(), an mbuf and a cluster at once, is called far more often than m_clget().",
        figure: "14239 to 954",
        judge: getcl,
    },
    Claim {
        seed: "seed 004, section 5.6",
        says: "Mini-mbufs \u{201c}would likely result in less wasted space\u{201d}.",
        figure: "less",
        judge: mini,
    },
];

fn bimodal(rows: &Rows<'_>) -> Option<Finding> {
    let bins = rows.case("histogram-log2");
    let packets = |from: u64, to: u64| -> f64 {
        let inside = bins.only(|row| row.bin.is_some_and(|bin| bin >= from && bin < to));
        inside.iter().filter_map(|row| row.median).sum()
    };
    let all = packets(0, u64::MAX);
    if all == 0.0 {
        return None;
    }
    let share = |from, to| packets(from, to) * 100.0 / all;
    let (small, between, large) = (share(0, 128), share(128, 1024), share(1024, u64::MAX));
    let here =
        format!("{small:.0} % below 128 B, {between:.0} % between, {large:.0} % from 1024 B on");
    // Without a capture the packets were made up, with two modes.
    Some(Finding::given(here + "; the packets are made up so"))
}

fn idle(rows: &Rows<'_>) -> Option<Finding> {
    rows.case("memory").median()?;
    let percent = mbuf::MHLEN as f64 * 100.0 / (mbuf::MSIZE + (2 << 10)) as f64;
    let here = format!(
        "{percent:.1} %: {} bytes of {}",
        mbuf::MHLEN,
        mbuf::MSIZE + (2 << 10)
    );
    // Arithmetic on the layout, no measurement.
    Some(Finding::given(here))
}

fn skbs(rows: &Rows<'_>) -> Option<Finding> {
    let wasted = rows.case("memory").measure("wasted-percent");
    let (mbufs, skb) = wasted.pair("mbufs", "skb")?;
    let here = format!("mbufs {mbufs:.0} %, skbs {skb:.0} % of the allocated memory");
    Some(Finding {
        ratio: Some(skb / mbufs),
        ..Finding::is(here, mbufs <= skb)
    })
}

/// The ways that packets usually go.
fn usual<'a>(rows: &Rows<'a>, measure: &str) -> Option<f64> {
    let calls = rows.case("calls").measure(measure);
    Some(calls.design("echo").median()? + calls.design("forward").median()?)
}

fn pullups(rows: &Rows<'_>) -> Option<Finding> {
    let (all, copied) = (usual(rows, "pullup")?, usual(rows, "copied")?);
    let here = format!("{copied:.0} of {all:.0} on the ways echo and forward");
    Some(Finding::is(here, copied == 0.0))
}

fn getcl(rows: &Rows<'_>) -> Option<Finding> {
    let (getcl, clget) = (usual(rows, "getcl")?, usual(rows, "clget")?);
    let here = format!("{getcl:.0} to {clget:.0}: a cluster always comes with its mbuf");
    // There is no m_clget to be called.
    Some(Finding::given(here))
}

fn mini(rows: &Rows<'_>) -> Option<Finding> {
    let allocated = rows.case("memory").measure("allocated");
    let (mini, mbufs) = allocated.pair("mini", "mbufs")?;
    let here = format!("{mini:.0} and {mbufs:.0} B a packet");
    Some(Finding {
        ratio: Some(mbufs / mini),
        ..Finding::is(here, mini < mbufs)
    })
}
