//! The laboratory: each system of the seed documents, rebuilt, beside this project's system in its place.
//!
//! ```text
//!   harness the measuring: pinned threads, rounds that go over all contestants, medians
//!              with spread, the latency between two cores beside each run, tables, JSON lines, pictures
//!   epair      hand-offs between stacks: those that stalled, and ours
//!   alloc      the allocators: a BSD mbuf allocator of each age, ours, and those that programs use today
//!   sizes the memory of packets of real sizes in mbufs, and in the buffers of others
//!   giant      a stack under one lock, and without, on one CPU and on two
//!   extpgs     records in unmapped pages: the page list inside of the mbuf, beside it, and clusters instead
//!   sendfile   a file's records, described by page lists or read into clusters, plain and over TLS
//!   netisr     packets handled at once, by their flow's CPU, or later
//!   refs       sharing a cluster: a ring under a mutex, a proxy's count, a leader's, ours, Arc and Bytes
//!   splice     a TCP proxy spliced inside of the stack, beside programs that copy, and the kernel
//!   unix       UNIX-domain sockets between threads, beside the kernel's
//!   stream     TCP from stack to stack in one process, beside smoltcp, lwIP, gVisor's netstack and the kernel
//!   wan        TCP over bad paths in two namespaces and in virtual time, beside Linux's, smoltcp, lwIP, gVisor's netstack
//!   run the guest of `mbuma run`, beside pasta, slirp4netns and a veth pair
//!   serve      files over HTTP from inside of the stack, beside nginx
//! ```
//!
//! Invariants: contestants of one case run interleaved in one process, so that a disturbance of the machine affects
//! all of them alike; a figure never comes without its spread and its count; the output names each skipped design and
//! case.
//! Locks: those of the designs.
//!
//! # A new experiment
//!
//! It has a module here and a subcommand in the tool, which prints a [`Record`] a line with `--json`, and reports its
//! progress by `harness/progress.rs`. To be in `cargo lab all` and in its report it has one file more, `report.rs`,
//! with a [`report::Experiment`], and a line in `report/registry.rs` (a test of the tool complains of a
//! subcommand that is in no registry):
//!
//! ```ignore
//! pub(crate) static EXPERIMENT: Experiment = Experiment {
//!     name: "sample", // as in `cargo lab sample`
//!     arguments: ["--reps 3 --seconds-per-case 0.05", "", "--reps 31 --seconds-per-case 2"],
//!     claims: CLAIMS,
//!     // title, essay, reading, caveats: texts for a newcomer; seconds: for the estimate; about: a case in a line;
//!     // shows, shape: what the page leaves out, and its tables
//! };
//! const CLAIMS: &[Claim] = &[Claim {
//!     seed: "seed 002, the hint on net.isr.enable",
//!     says: "Direct dispatch lets \u{201c}inbound processing paths [\u{2026}] run in parallel\u{201d}.",
//!     figure: "more than deferred",
//!     judge: |rows| {
//!         let (direct, deferred) = rows.case("stream").threads(2).pair("direct", "deferred")?;
//!         let here = format!("{deferred:.1} \u{2192} {direct:.1} Gbit/s");
//!         Some(Finding::at_least(here, direct / deferred, 1.2, 1.02))
//!     },
//! }];
//! ```
//!
//! `unsafe` is in the designs, in the loops that hand their items back to them, in `epair/schemes/ring.rs`, and in
//! `harness/sys.rs`, `harness/process.rs`, `harness/ring.rs` and `harness/tap.rs`.

#![deny(unsafe_code)]

pub mod all;
pub mod alloc;
pub mod epair;
mod error;
pub mod extpgs;
pub mod giant;
mod harness;
pub mod netisr;
pub mod refs;
pub mod report;
pub mod run;
pub mod sendfile;
pub mod serve;
pub mod sizes;
pub mod splice;
pub mod stream;
pub mod unix;
pub mod wan;

pub use error::Error;
pub use harness::compare::Comparison;
pub use harness::record::Record;
