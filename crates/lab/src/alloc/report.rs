//! The text, cases and claims of this experiment in the report.
//!
//! Source: seed 004.

use super::cases::Case;
use crate::report::{Claim, Experiment, Finding, Rows, Shape};

/// `cargo lab alloc`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "alloc",
    title: "Allocators of network buffers, 1998 to today",
    essay: "A network stack allocates and frees a buffer or two for each packet, so its allocator is on the path \
        of every one of them. FreeBSD 4 had one list of free buffers under one lock: simple, and fast with one CPU. \
        With several, all of them wait for that lock, and memory that a burst of packets once took never goes back.\n\n\
        FreeBSD 5 went two steps. mballoc gave each CPU a bucket of free buffers, so that most allocations touch no \
        memory that another CPU uses. Then UMA, the allocator for everything else, learned enough about \
        network buffers to replace it: the same buckets, and free memory goes back to the system. That is \
        mbuma, whose name this project has.\n\n\
        The paper ends with a hope: that the per-CPU mutex, taken on each allocation though no other CPU wants it, \
        can be replaced by a way without cost. Ours does so, in user space: a restartable sequence is a few \
        instructions that a thread begins again if the kernel preempted it inside. Beside it stand the allocators \
        of today\u{2019}s programs.",
    reading: "`get`, `pair`, `batch64` and `batch2048` are one thread alone; in `prodcons` one CPU allocates and \
        another frees, as in a real stack; `threads32` is many threads on two CPUs. `held` counts the items that \
        the caches keep. `spike` follows memory after a burst was freed: a line that falls is memory given back. \
        `purge-dip` is the cost of giving it back, for other threads. The BSD designs are written down here \
        from the paper and the sources of their time, as a library in user space.",
    caveats: "The allocators of others run only in a build with `--features peers`; DPDK only if it is \
        installed, with memory in huge pages where the machine has 512 MiB of them free. glibc and jemalloc run \
        with larger caches for each thread than by default, DPDK gets and puts batches 64 at once; the notes say \
        which settings. Two CPUs are few: the cost of a global lock grows with their number. glibc\u{2019}s malloc \
        differs by two or three times from one process to the next at 2048 bytes. `cgroup` also counts other \
        programs of the control group.",
    claims: CLAIMS,
    arguments: [
        "--case pair,threads32 --size 256 --design mbuma-rseq,mbuma-lock,uma2004,mballoc,freebsd4 --reps 3 \
            --seconds-per-case 0.03",
        "--spike-mb 256",
        "--reps 31 --seconds-per-case 1.5",
    ],
    seconds: [4, 420, 1800],
    about: |case| {
        let case = Case::ALL.into_iter().find(|one| one.name() == case);
        case.map_or_else(String::new, |case| case.about().to_owned())
    },
    shows: |row| row.measure.as_deref() != Some("available"),
    shape: |case| match case {
        "held" => Shape::Grid,
        _ => Shape::Bars,
    },
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: "seed 004, section 5",
        says: "The new allocator scales with the number of CPUs, where FreeBSD 4\u{2019}s global lists \
            \u{201c}bottleneck\u{201d} (section 3); to compare the two was left to future work (section 5.6).",
        figure: "better than FreeBSD 4",
        judge: scaling,
    },
    Claim {
        seed: "seed 004, section 5",
        says: "It does so \u{201c}while maintaining comparable performance for the single-processor case\u{201d}.",
        figure: "about 1\u{d7} FreeBSD 4",
        judge: single,
    },
    Claim {
        seed: "seed 004, section 5.5, figure 8",
        says: "Its throughput \u{201c}was about equivalent\u{201d} to that of mballoc: 241 and 251 Mbit/s.",
        figure: "within 5 %",
        judge: equivalent,
    },
    Claim {
        seed: "seed 004, section 5.6",
        says: "Without the per-CPU mutex the common case should be \u{201c}significantly superior\u{201d}: \
            \u{201c}current evidence [\u{2026}] seems to suggest that it will be\u{201d}.",
        figure: "faster without",
        judge: lockless,
    },
    Claim {
        seed: "seed 004, section 5.5, figure 7",
        says: "After a spike mbuma hands memory back to the system, and mballoc keeps it.",
        figure: "mballoc keeps, mbuma gives back",
        judge: spike,
    },
];

fn scaling(rows: &Rows<'_>) -> Option<Finding> {
    let threads = rows.case("threads32").size(256);
    let (freebsd4, uma) = threads.pair("freebsd4", "uma2004")?;
    let here = format!("FreeBSD 4 {freebsd4:.1}, UMA {uma:.1} CPU-ns a pair on two CPUs");
    let here = here + &ours(&threads);
    Some(Finding::at_least(here, freebsd4 / uma, 1.5, 1.05))
}

/// Our figure, beside those that the claim is about: it has no part in the verdict.
fn ours(rows: &Rows<'_>) -> String {
    let ours = rows.design("mbuma-rseq").median();
    ours.map_or_else(String::new, |ours| format!("; ours {ours:.1}"))
}

fn single(rows: &Rows<'_>) -> Option<Finding> {
    let pair = rows.case("pair").size(256);
    let (freebsd4, uma) = pair.pair("freebsd4", "uma2004")?;
    let here = format!("FreeBSD 4 {freebsd4:.1}, UMA {uma:.1} ns a pair") + &ours(&pair);
    Some(Finding::at_least(here, freebsd4 / uma, 0.8, 0.5))
}

fn equivalent(rows: &Rows<'_>) -> Option<Finding> {
    let pair = rows.case("pair").size(256);
    let (mballoc, uma) = pair.pair("mballoc", "uma2004")?;
    let here = format!("mballoc {mballoc:.1}, UMA {uma:.1} ns a pair, nothing else in the loop");
    Some(Finding::at_least(here, mballoc / uma, 0.8, 0.5))
}

fn lockless(rows: &Rows<'_>) -> Option<Finding> {
    let (lock, rseq) = rows
        .case("pair")
        .size(256)
        .pair("mbuma-lock", "mbuma-rseq")?;
    let here = format!("{lock:.1} \u{2192} {rseq:.1} ns a pair");
    Some(Finding::at_least(here, lock / rseq, 1.2, 1.02))
}

fn spike(rows: &Rows<'_>) -> Option<Finding> {
    let all = rows.case("spike").measure("rss");
    let all = all.only(|row| row.survivors_percent == Some(0.0));
    let last = all.iter().filter_map(|row| row.at_s).fold(0.0, f64::max);
    let at = |design: &str, at_s: f64| {
        all.design(design)
            .only(|row| row.at_s == Some(at_s))
            .median()
    };
    let (mballoc, ours) = (at("mballoc", last)?, at("mbuma-rseq", last)?);
    let (uma, peak) = (at("uma2004", last)?, at("mballoc", 0.0)?);
    let here = format!(
        "of {peak:.0} MB after {last} s: mballoc {mballoc:.0}, UMA {uma:.0}, ours {ours:.0} MB"
    );
    Some(Finding::is(here, uma < peak / 4.0 && mballoc > peak / 2.0))
}
