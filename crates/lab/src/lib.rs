//! The laboratory: each system of the seed documents, honestly rebuilt, beside what this project has in its place.
//!
//! Called by: `mbuma lab`. Calls: the crates that are measured, and in each `designs` what they are measured against.
//!
//! ```text
//!   harness    how anything is measured: pinned threads, rounds that go over all contestants, medians
//!              with spread, the latency between two cores beside each run, tables, JSON lines, pictures
//!   epair      hand-offs between stacks: those that stalled, and ours
//!   alloc      the allocators: a BSD mbuf allocator of each age, ours, and those that programs use today
//!   sizes      what packets of real sizes take in mbufs, and in the buffers of others
//!   giant      a stack under one lock, and without, on one CPU and on two
//!   extpgs     records in unmapped pages: the page list inside of the mbuf, beside it, and clusters instead
//!   refs       sharing a cluster: a ring under a mutex, a proxy's count, a leader's, ours, Arc and Bytes
//!   unix       UNIX-domain sockets between threads, beside the kernel's
//!   stream     TCP from stack to stack in one process, beside smoltcp, lwIP, gVisor's netstack and the kernel
//! ```
//!
//! Invariants: contestants of one case run interleaved in one process, so that what disturbs the machine disturbs
//! all of them alike; a figure never comes without its spread and its count; nothing that was skipped goes unsaid.
//! Locks: those of the designs.
//! `unsafe` is in the designs, in the loops that hand their items back to them, in `epair/schemes/ring.rs`, and in
//! `harness/sys.rs`, `harness/ring.rs` and `harness/tap.rs`.

#![deny(unsafe_code)]

pub mod alloc;
pub mod epair;
mod error;
pub mod extpgs;
pub mod giant;
mod harness;
pub mod refs;
pub mod sizes;
pub mod stream;
pub mod unix;

pub use error::Error;
pub use harness::record::Record;
