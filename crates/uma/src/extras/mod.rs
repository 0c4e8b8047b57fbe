//! What BSD's allocator offers to kernels and this product does not use: the feature `extras`, off by default.
//!
//! | | where |
//! |---|---|
//! | objects that stay built while they are free | [`object`] |
//! | several items in one call | [`bulk`]; `bucket/bulk.rs`, `percpu/bulk.rs` and the sections `percpu/*_bulk.rs` below it |
//! | a cache for one pinned worker | [`local`] |
//! | an allocation that sleeps, a callback, memory ahead of time | `raw.rs`; `alloc/wait.rs` and `keg/sleepers.rs` below it |
//! | caches over the items of another allocator | `builder/extras.rs`; `hooks/import.rs` and `keg/import.rs` below it |
//! | slabs of huge pages, coloured slabs, guard pages | `builder/extras.rs`; constants in `geometry.rs` without the feature |
//!
//! Each has tests, models and rows of the lab; these turn the feature on.

mod bulk;
pub(crate) mod local;
pub(crate) mod object;
mod raw;
