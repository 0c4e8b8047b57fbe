//! The text, cases and claims of this experiment in the report.
//!
//! Source: issue 5, its targets.

use super::CASES;
use crate::harness::choice::about;
use crate::report::{Claim, Experiment, Finding, OUR_TARGET, Rows, Shape};

/// `cargo lab unix`.
pub(crate) static EXPERIMENT: Experiment = Experiment {
    name: "unix",
    title: "Local sockets, in the process and in the kernel",
    essay: "Programs on one machine often talk through UNIX-domain sockets: a web server and its workers, a database \
        and its clients. No packets are made; each side reads the bytes that the other writes. In the kernel that is a \
        system call on each side, two copies, and a thread to wake.\n\n\
        This stack has such sockets too, for threads of one process. They save the system calls, and where the \
        sender gives its buffer away (`mbuma-ref`) the copies as well; a thread that sleeps must still be woken, \
        and only the kernel can do that. Seed 002 measured a load of this shape, with 11 workers, to show the cost \
        of Giant: hence the 11 pairs.",
    reading: "`pp` is 64 bytes there and back, by 1 pair of threads or by 11 at once; `st64k` is one way, 64 KiB at a \
        time. `same` keeps both threads of a pair on one CPU, `cross` has them on two; without either, the system \
        places them. `mbuma` copies in and out as the kernel does; the verdict is on it.",
    caveats: "The kernel\u{2019}s sockets join any two processes, ours threads of one: a program whose peer is another \
        process has no gain. Neither side passes descriptors or looks at credentials here. Between two CPUs our \
        threads spin for up to 50 \u{b5}s before they sleep, and the kernel\u{2019}s sleep at once: where a wakeup \
        is slow, as on virtual machines, that is nearly all of the difference in ping-pong. With 11 pairs, \
        pairs that are answered at once keep both CPUs for some hundred microseconds before they let others have \
        them: more round trips in all, and a longer wait for some.",
    claims: CLAIMS,
    arguments: [
        "--reps 2 --seconds-per-case 0.1",
        "--reps 7 --seconds-per-case 2",
        "--reps 31 --seconds-per-case 10",
    ],
    seconds: [4, 60, 300],
    about: |case| about(CASES, case),
    shows: |_| true,
    shape: |_| Shape::Bars,
};

const CLAIMS: &[Claim] = &[
    Claim {
        seed: OUR_TARGET,
        says: "One pair of threads makes at least as many round trips as over the kernel\u{2019}s sockets.",
        figure: "at least 1.0\u{d7} the kernel",
        judge: |rows| against_kernel(rows, ["pp1", "pp1-same", "pp1-cross"], 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "So do eleven pairs at once.",
        figure: "at least 1.0\u{d7} the kernel",
        judge: |rows| against_kernel(rows, ["pp11", "pp11-same", "pp11-cross"], 1.0),
    },
    Claim {
        seed: OUR_TARGET,
        says: "The slowest of a hundred round trips of eleven pairs on two CPUs takes no longer.",
        figure: "at most the kernel\u{2019}s time: a ratio of 1.0",
        judge: |rows| {
            let rows = rows.case("pp11-cross").measure("p99");
            let of = [("two CPUs", rows.ratio("kernel", "mbuma")?)];
            Finding::over("the kernel\u{2019}s time to ours", &of, 1.0)
        },
    },
    Claim {
        seed: OUR_TARGET,
        says: "A stream of 64 KiB at a time is at least twice as fast as over the kernel\u{2019}s sockets.",
        figure: "at least 2\u{d7} the kernel",
        judge: |rows| against_kernel(rows, ["st64k", "st64k-same", "st64k-cross"], 2.0),
    },
];

/// The same at each place of the threads: where the system has them, on one CPU, on two.
fn against_kernel(rows: &Rows<'_>, cases: [&str; 3], target: f64) -> Option<Finding> {
    let ratio = |case| {
        let rows = rows.case(case).only(|row| row.measure.is_none());
        rows.ratio("mbuma", "kernel")
    };
    let [free, same, cross] = cases.map(ratio);
    let of = [("free", free?), ("same CPU", same?), ("two CPUs", cross?)];
    Finding::over("ours to the kernel\u{2019}s", &of, target)
}
