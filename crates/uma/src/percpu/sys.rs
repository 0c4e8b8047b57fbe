//! The machine below the caches: the CPU that a thread runs on, its sections, fences on other CPUs.
//!
//! One of four files has the sections: two are assembly, `none.rs` never has any, and `modelled.rs` is the machine that
//! a schedule checker runs, with CPUs of its own.
//!
//! Locks: none.

#[cfg(not(any(loom, shuttle)))]
mod machine {
    pub(crate) use kern::cpu::{count as cpus, current as current_cpu};
    pub(in crate::percpu) use kern::rseq::{area_offset, fence, fence_available};
}

#[cfg(not(any(loom, shuttle)))]
pub(crate) use machine::*;
#[cfg(any(loom, shuttle))]
pub use section::*;

#[cfg(any(loom, shuttle))]
#[path = "modelled.rs"]
pub(crate) mod section;
#[cfg(all(
    not(any(loom, shuttle)),
    target_os = "linux",
    target_pointer_width = "64",
    target_arch = "x86_64"
))]
#[path = "x86_64.rs"]
pub(crate) mod section;
#[cfg(all(not(any(loom, shuttle)), target_os = "linux", target_arch = "aarch64"))]
#[path = "aarch64.rs"]
pub(crate) mod section;
#[cfg(not(any(
    loom,
    shuttle,
    all(
        target_os = "linux",
        target_pointer_width = "64",
        target_arch = "x86_64"
    ),
    all(target_os = "linux", target_arch = "aarch64")
)))]
#[path = "none.rs"]
pub(crate) mod section;
