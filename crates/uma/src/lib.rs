//! The Universal Memory Allocator: items of one size, made on one CPU and freed on another.
//!
//! A *zone* hands out items of one layout. Ask it for an item, and this is the way it comes;
//! freed, it goes the same way back:
//!
//! ```text
//!   alloc                free
//!     ^                    |          ctor ^  v dtor
//!     |                    v
//!   +------------------------+
//!   | CPU cache              |   one per CPU, one short lock that only this CPU takes:
//!   | [loaded] [previous]    |   two buckets of pointers to free items        (cache.rs, bucket.rs)
//!   +------------------------+
//!     ^  a filled bucket   |
//!     |                    v     a full one
//!   +------------------------+
//!   | depot  [b] [b] [b] ... |   whole buckets between the CPU that frees
//!   +------------------------+   and the CPU that allocates                   (depot.rs)
//!     ^  a bucket's worth  |
//!     |             init ^ v fini     only when the working set grows, or on drain
//!   +------------------------+
//!   | keg                    |   which items of which slabs are free:
//!   | slab 0  slab 1  slab 2 |   the fullest slab first, the lowest address  (keg.rs, slab.rs)
//!   +------------------------+
//!     ^  pages             |
//!     |                    v     the pages of empty slabs, on drain
//!   +------------------------+
//!   | arena                  |   one reserved range of address space:
//!   | |64K|64K|64K|......... |   slab n at base + n * 64 KiB                  (arena.rs, region.rs)
//!   +------------------------+
//! ```
//!
//! # What it promises
//!
//! - An allocation under a limit fails with [`AllocError::Limit`] exactly when that many items
//!   are live, and with [`AllocError::NoMemory`] only when no free item is to be had from any
//!   CPU, the depot, a slab, or the system.
//! - An item that went through [`Hooks::init`] keeps what that did through any number of frees,
//!   until [`Hooks::fini`]. Hooks run with no lock of this crate held, and may fail.
//! - [`RawZone::drain`] returns what no live item needs. All that describes slabs is kept away
//!   from them, and nothing is written into free items, so that pages go and come unnoticed.
//! - A zone lives as long as its handles and its items, whichever is longer.
//!
//! # Where to begin
//!
//! [`Zone`] for items of a type; [`RawZone`] for raw ones, with reference counts beside them
//! if asked for; [`RawZoneRef`] where an item must find the way back by eight bytes.
//!
//! ```
//! use uma::{AllocError, Zone};
//!
//! #[derive(Debug)]
//! struct Connection { port: u16 }
//!
//! let connections = Zone::<Connection>::build(Zone::<Connection>::builder("connection").limit(2))?;
//! let a = connections.alloc(Connection { port: 80 })?;
//! let b = connections.alloc(Connection { port: 443 })?;
//! assert_eq!(connections.alloc(Connection { port: 22 }).unwrap_err(), AllocError::Limit);
//!
//! // Made here, dropped there: its bucket travels back by way of the depot.
//! std::thread::spawn(move || assert_eq!(a.port, 80)).join().unwrap();
//! assert_eq!(b.port, 443);
//! assert_eq!(connections.raw().live(), 1);
//!
//! println!("{}\n{}", uma::ZoneStats::header(), connections.stats());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading order
//!
//! `geometry.rs` (how an address becomes an item), `bucket.rs`, `cache.rs`, `depot.rs`,
//! `slab.rs`, `keg.rs`, `arena.rs`, `region.rs`; then the ways of an item: `alloc.rs`, `free.rs`,
//! `reclaim.rs`; then `inner.rs` (what is shared, how live items are counted, how a zone ends)
//! and the handles, `raw.rs` and `zone.rs`.
//!
//! Source: Bosko Milekic, *Network Buffer Allocation in the FreeBSD Operating System* (seed 004),
//! sections 5.3 to 5.5.

mod alloc;
mod arena;
mod asan;
mod bitset;
mod bucket;
mod builder;
mod depot;
mod error;
mod free;
mod geometry;
mod hooks;
mod inner;
mod keg;
mod local;
mod percpu;
mod purge;
mod raw;
mod reclaim;
mod region;
mod slab;
mod slabs;
mod stats;
mod touched;
mod zone;

pub use builder::{BUCKET_ITEMS_MAX, RESERVE_BYTES_DEFAULT, ZoneBuilder};
pub use error::{AllocError, HookFailed, ZoneError};
pub use geometry::{ITEM_ALIGN_MAX, ITEM_BYTES_MAX};
pub use hooks::{Hooks, Import, NoHooks};
pub use inner::leaked_zones;
pub use local::LocalCache;
pub use percpu::Backend;
pub use purge::Purged;
pub use raw::{RawZone, RawZoneRef};
pub use stats::ZoneStats;
pub use zone::{Zone, ZoneBox};
