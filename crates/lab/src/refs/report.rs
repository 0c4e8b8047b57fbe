//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 000.

use super::cases::Case;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, Rows, Shape};

/// `cargo lab refs`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "refs",
    title: "The free of a shared cluster",
    essay: "A TCP that sends data keeps it until it is acknowledged, and gives the device the same bytes \
        meanwhile. A copy would be slow, so two network buffers show one cluster of 2 KiB, and the last of them to \
        go must free it. Splicing one connection into another, multicast and \
        packet capture share in the same way.\n\n\
        OpenBSD linked the buffers that share a cluster into a ring, and one mutex guarded all rings of the \
        system: two CPUs that share different clusters waited for each other. In 2026 two replacements were \
        measured on its list: a leader, which is the first of the buffers and holds a count for the others (and \
        must outlive them), and a proxy, a small counted record that the first share allocates. Ours counts \
        beside the cluster, in a side table of its zone: a share allocates no count and keeps no leader. \
        Arc and Bytes are the types of Rust programs.\n\n\
        All designs take their buffers from the same allocator, so only the way of counting differs.",
    reading: "In splice one CPU fills clusters, shares them and keeps its own share for a while, and the other CPU \
        reads and releases: the load of the seed's figure. The other cases are its parts. `ratio` under \
        two-different is the time of a share by two CPUs to that by one: 1 means that CPUs do not disturb each \
        other.",
    caveats: "The seed measured a whole kernel that splices sockets, where sharing was one cost of many, on more \
        CPUs than two; here the loop is little more than sharing, between two threads. `mbuma` pays for checks \
        and owned types that the bare designs do without; compare it with `counted` to see how much.",
    claims: CLAIMS,
    arguments: [
        "--case first,two-different --design mbuma,ring,proxy,leader --reps 3 --seconds-per-case 0.03",
        "",
        "--reps 31 --seconds-per-case 1.5",
    ],
    seconds: [4, 60, 300],
    about: |case| about(&Case::ALL, case),
    shows: |_| true,
    shape: |_| Shape::Bars,
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: "seed 000, the first answer quoted",
        says: "With a leader's count instead of the ring under a mutex, \u{201c}the socket splicing test that \
            triggers the problem goes from 30 to 45 GBit/sec throughput\u{201d}.",
        figure: "30 \u{2192} 45 Gbit/s, 1.5\u{d7}",
        judge: splice,
    },
    Claim {
        seed: "seed 000, the first answer quoted",
        says: "\u{201c}The contention on m_extfree is gone\u{201d}: CPUs that share clusters of their own do \
            not wait for each other.",
        figure: "ring: contended, leader: not",
        judge: contention,
    },
    Claim {
        seed: "seed 000, the last answer",
        says: "The proxy \u{201c}also works and performance is simmilar\u{201d} to the leader's.",
        figure: "about 1\u{d7}",
        judge: proxy,
    },
    Claim {
        seed: "seed 000, the first answer quoted",
        says: "\u{201c}Allocating [in] the hot path is not a good idea. We should avoid that.\u{201d} A first \
            share costs a proxy an allocation, and the leader and ours none.",
        figure: "proxy dearer than leader",
        judge: allocation,
    },
];

fn splice(rows: &Rows<'_>) -> Option<Finding> {
    let splice = rows.case("splice").unit("Gbit/s");
    let (leader, ring) = splice.pair("leader", "ring")?;
    let ours = match splice.design("mbuma").median() {
        Some(ours) => format!("; ours {ours:.0}"),
        None => String::new(),
    };
    let here = format!("{ring:.0} \u{2192} {leader:.0} Gbit/s{ours}");
    Some(Finding::at_least(here, leader / ring, 1.2, 1.02))
}

fn contention(rows: &Rows<'_>) -> Option<Finding> {
    let slower = rows.case("two-different").measure("ratio");
    let (ring, leader) = slower.pair("ring", "leader")?;
    let ours = match slower.design("mbuma").median() {
        Some(ours) => format!("; ours {ours:.2}\u{d7}"),
        None => String::new(),
    };
    let here = format!(
        "a share by two CPUs takes, to one by one: ring {ring:.2}\u{d7}, leader {leader:.2}\u{d7}{ours}"
    );
    Some(Finding::at_least(here, ring / leader, 1.5, 1.1))
}

fn proxy(rows: &Rows<'_>) -> Option<Finding> {
    let (proxy, leader) = rows.case("splice").unit("Gbit/s").pair("proxy", "leader")?;
    let here = format!("{proxy:.0} and {leader:.0} Gbit/s");
    let ratio = proxy / leader;
    Some(Finding {
        ratio: Some(ratio),
        ..Finding::is(here, (0.8..1.25).contains(&ratio))
    })
}

fn allocation(rows: &Rows<'_>) -> Option<Finding> {
    let first = rows.case("first");
    let (proxy, leader) = first.pair("proxy", "leader")?;
    let here = format!("{proxy:.1} and {leader:.1} ns a first share");
    Some(Finding::at_least(here, proxy / leader, 1.1, 1.02))
}
