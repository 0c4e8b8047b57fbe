#![doc = include_str!("../README.md")]
//! # Where to begin
//!
//! [`Zone`] for items of a type; [`RawZone`] for raw items, optionally with reference counts beside them;
//! [`RawZoneRef`] if an item must find its zone by eight bytes; [`Reclaimer`] to have memory given back.
#![cfg_attr(
    feature = "extras",
    doc = "[`ObjectZone`] for objects that stay built while they are free (feature `extras`)."
)]
//!
//! # The way of an item
//!
//! This is the way on which an item comes; freed, it goes the same way back:
//!
//! ```text
//!   alloc                free
//!     ^                    |          ctor ^  v dtor
//!     |                    v
//!   +------------------------+
//!   | CPU cache              |   two buckets of pointers to free items for each CPU. A pop or a
//!   | [loaded] [previous]    |   push is a dozen instructions that end in one plain store: no
//!   +------------------------+   lock, no atomic                    (percpu.rs, bucket.rs)
//!     ^  a filled bucket   |
//!     |                    v     a full one
//!   +------------------------+
//!   | depot  [b] [b] [b] ... |   whole buckets, from the CPU that frees to the CPU that
//!   +------------------------+   allocates: one lock for as many items as they hold (depot.rs)
//!     ^  a bucket's worth  |
//!     |             init ^ v fini     only when the working set grows or shrinks
//!   +------------------------+
//!   | keg                    |   how many items may be out, and threads that wait     (keg.rs)
//!   | slab 0  slab 1  slab 2 |   which items are free: the fullest slab first, the
//!   +------------------------+   lowest address                       (slabs.rs, slab.rs)
//!     ^  pages             |
//!     |                    v     free pages, on a tick or under pressure        (reclaim/)
//!   +------------------------+
//!   | arena                  |   one reserved range of address space:
//!   | |64K|64K|64K|......... |   slab n at base + n * 64 KiB          (arena.rs, region.rs)
//!   +------------------------+
//! ```
//!
//! # Slab allocation in five steps
//!
//! 1. *Items of one size need no search.* A slab is a run of pages cut into equal items; a bit an
//!    item says which are free. No splitting, no joining, no fragmentation between sizes.
//! 2. *Freed items are the best ones to hand out.* They are warm in this CPU's cache, and an item
//!    that an `init` hook has initialised stays initialised. So frees go onto a stack, and
//!    allocations come from its top.
//! 3. *A stack for each CPU needs no lock.* The thread tells the kernel where the few instructions
//!    of a pop begin and end (a restartable sequence). If the kernel preempts the thread inside,
//!    the thread begins them again. No step has to be undone, because only the last instruction
//!    writes.
//! 4. *Items move in buckets.* A program that allocates on one CPU and frees on another moves its
//!    items by the hundred: a full bucket goes to the depot, the other CPU takes it. The cost is that of moving
//!    cache lines, which depends on which CPUs have copies (`cacheline.rs` shows the states).
//! 5. *Memory goes back.* Items that were not needed for a while go from buckets to slabs, and pages
//!    without a live item go to the system, even inside slabs that have live items. The data that describes
//!    slabs lies apart, and free items hold no links, so giving pages back touches none of them.
//!
//! # Promises
//!
//! - An allocation under a limit fails with [`AllocError::Limit`] exactly when that many items are live, and with
//!   [`AllocError::NoMemory`] only when no CPU, no depot, no slab has a free item and the system has no memory. Where
//!   `init` refuses, it fails with [`AllocError::Hook`] only when the zone has no free item that has been through it.
//! - Where threads wait for items (feature `extras`), each free wakes one.
//! - An item that went through [`Hooks::init`] keeps its state through any number of frees,
//!   until [`Hooks::fini`]. Hooks run with no lock of this crate held, and may fail.
//! - A thread that dies, sleeps or is starved keeps no items: caches belong to CPUs, and other
//!   threads can empty them. 256 threads cache as much as 2 do.
//! - A zone lives as long as its handles and its items, whichever is longer.
//!
//! # Features of a zone
//!
//! | | |
//! |---|---|
//! | a limit, changed at any time | [`ZoneBuilder::limit`] |
//! | items for callers that must not fail | [`ZoneBuilder::reserve`], [`RawZone::alloc_urgent`] |
//! | two kinds of item from the same slabs (a packet: an mbuf with a cluster attached) | [`RawZone::secondary`] |
//! | reference counts found from the address | [`ZoneBuilder::refcounts`] |
//! | which call site holds how many items, and since when | [`RawZone::census`], [`RawZone::stats`] |
//! | memory back | [`RawZone::trim`], [`RawZone::drain`], [`Reclaimer`] |
//! | faults found: double frees, foreign frees, writes after free and beyond the end | [`RawZone::free`]; the feature `invariants` |
#![cfg_attr(
    feature = "extras",
    doc = "| (`extras`, to the end) an allocation that sleeps until an item is free | [`RawZone::alloc_wait`] |",
    doc = "| a call when items are free | [`RawZone::call_when_available`] |",
    doc = "| many at once, for a fraction of the price each | [`RawZone::alloc_bulk`] |",
    doc = "| a cache for one pinned worker | [`RawZone::local`] |",
    doc = "| caches over the items of another allocator | [`ZoneBuilder::build_cache_only`] |",
    doc = "| a page after each item that can't be written | [`ZoneBuilder::guard_pages`] |"
)]
//!
//! # The statistics
//!
//! One line a zone, as `vmstat -z` has it ([`ZoneStats`], which is JSON for programs):
//! `USED` are live. `CPUS`, `DEPOT` and `SLABS` say where the free ones are. `REQ` counts
//! allocations that succeeded, `FAIL` that failed, `SLEEP` that waited. `MISS` counts visits to the
//! depot: far below `REQ`, or the buckets are too small. `KBYTES` is the memory of the slabs. None
//! of it is counted per allocation: the store that takes an item out of a bucket also counts it,
//! and the rest is arithmetic (`stats.rs`).
//!
//! # The modules, top to bottom
//!
//! A module uses those below it and those of its own layer; `cargo xtask tidy` checks that. Read from the bottom.
//!
//! | layer | modules |
//! |---|---|
//! | typed handles | `zone.rs`; `extras/`: a feature that is off by default |
//! | memory given back | `reclaim.rs`: a thread or an event loop that trims zones |
//! | raw handles | `builder.rs`, `raw.rs`, `raw_ref.rs` (eight bytes) |
//! | paths of an item | `alloc.rs`, `free.rs`, `sampling.rs`; `fork.rs` |
//! | a zone and its keg | `zone_inner.rs`, `weak.rs`; `keg.rs`, `keg/closed.rs` (the limit); reports: `census.rs`, `stats.rs`, `warning.rs`, `invariants.rs` |
//! | samples | `sample.rs`: which allocations are recorded |
//! | caches | `depot.rs`, then `percpu.rs` and the sections of each machine, then `bucket.rs` |
//! | slabs | `slabs.rs` with `slabs/purge.rs`, then `arena.rs`, `geometry.rs` (how an address becomes an item), `region.rs` |
//! | leaves | `slab.rs`, `bitset.rs`, `cacheline.rs`, `hooks.rs`, `error.rs`, `caught.rs`; for checks `asan.rs`, `fail.rs`, `faults.rs`, `life.rs` |
//!
//! Sources: Bosko Milekic, *Network Buffer Allocation in the FreeBSD Operating System* (seed 004),
//! sections 5.3 to 5.6: zones, kegs, secondary zones, hooks that fail, reference counts, and the
//! question whether a critical section would beat a lock for each CPU (it does; `cargo lab alloc`
//! measures by how much on your machine). Jeff Bonwick, *The Slab Allocator* (1994); Bonwick and Adams,
//! *Magazines and Vmem* (2001).
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::missing_errors_doc)]

#[cfg(feature = "extras")]
mod extras;
mod zone;

mod reclaim;

mod builder;
mod raw;
mod raw_ref;

mod alloc;
#[cfg(not(any(loom, shuttle)))]
mod fork;
mod free;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod sampling;

mod census;
#[cfg(feature = "invariants")]
mod invariants;
mod keg;
mod stats;
mod warning;
mod weak;
mod zone_inner;

mod sample;

mod depot;

mod percpu;

mod bucket;

mod slabs;

mod arena;

mod geometry;

mod region;

mod asan;
mod bitset;
mod cacheline;
mod caught;
mod error;
#[cfg(feature = "invariants")]
mod fail;
mod faults;
mod hooks;
mod life;
mod slab;

pub use builder::{BUCKET_ITEMS_MAX, ZoneBuilder};
pub use census::{Census, Holder};
pub use error::{AllocError, HookFailed, ZoneError};
#[cfg(feature = "extras")]
pub use extras::local::LocalCache;
#[cfg(feature = "extras")]
pub use extras::object::{Object, ObjectBox, ObjectHooks, ObjectZone};
#[cfg(feature = "invariants")]
pub use fail::{FailPlan, FailPoint};
pub use geometry::{ITEM_ALIGN_MAX, ITEM_BYTES_MAX, RESERVE_BYTES_DEFAULT};
pub use hooks::{Hooks, NoHooks};
#[cfg(feature = "extras")]
pub use hooks::{Import, Imported};
pub use percpu::Backend;
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use percpu::run_on;
#[cfg(feature = "stretched")]
#[doc(hidden)]
pub use percpu::{ARMED, STRETCH};
pub use raw::RawZone;
pub use raw_ref::RawZoneRef;
pub use reclaim::event_loop::{LoopReclaimer, Pace};
pub use reclaim::pressure::PressureSource;
pub use reclaim::set::{ReclaimSet, Tick};
pub use reclaim::thread::{RECLAIM_INTERVAL, ReclaimStats, Reclaimer};
pub use region::Purged;
pub use stats::ZoneStats;
pub use warning::{Warning, WarningKind};
pub use zone::{Zone, ZoneBox};
pub use zone_inner::leaked_zones;
