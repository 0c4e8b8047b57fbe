//! How a zone is described before it is made.
//!
//! Called by: users, `zone.rs`. Calls: `geometry.rs`, `arena.rs`, `inner.rs`.

use crate::arena::Arena;
use crate::geometry::Geometry;
use crate::hooks::Hooks;
use crate::inner::{Inner, NO_LIMIT, Plan};
use crate::{RawZone, ZoneError};
use core::alloc::Layout;

/// The address space a zone reserves unless told otherwise.
pub const RESERVE_BYTES_DEFAULT: usize = if cfg!(miri) { 4 << 20 } else { 8 << 30 };
/// The most items that a bucket may hold.
pub const BUCKET_ITEMS_MAX: usize = 4096;

/// Describes a zone; [`build`](ZoneBuilder::build) makes it. From
/// [`RawZone::builder`] or [`Zone::builder`](crate::Zone::builder).
#[must_use = "a builder does nothing until build()"]
pub struct ZoneBuilder {
    name: &'static str,
    layout: Layout,
    limit: usize,
    counted: bool,
    reserve_bytes: usize,
    bucket_items: Option<usize>,
    hooks: Option<Box<dyn Hooks>>,
}

impl ZoneBuilder {
    pub(crate) fn new(name: &'static str, layout: Layout) -> Self {
        Self {
            name,
            layout,
            limit: NO_LIMIT,
            counted: false,
            reserve_bytes: RESERVE_BYTES_DEFAULT,
            bucket_items: None,
            hooks: None,
        }
    }

    /// At most `items` may be live. Without it only the reservation bounds the zone.
    /// [`RawZone::set_limit`] changes it later.
    #[doc(alias = "uma_zone_set_max")]
    pub fn limit(mut self, items: usize) -> Self {
        self.limit = items;
        self
    }

    /// Gives each item a reference count beside it, on a cache line of its own: see
    /// [`RawZone::refcount`].
    #[doc(alias = "UMA_ZONE_REFCNT")]
    pub fn refcounts(mut self) -> Self {
        self.counted = true;
        self
    }

    /// Reserves this much address space, which bounds the memory of the zone for ever; default
    /// [`RESERVE_BYTES_DEFAULT`]. Reserving costs no memory. When the address space is limited
    /// (`ulimit -v`) a zone takes at most an eighth of what is left of it; when there is no room, half of what
    /// was asked is tried, and so on.
    pub fn reserve_bytes(mut self, bytes: usize) -> Self {
        self.reserve_bytes = bytes;
        self
    }

    /// Items that a bucket holds, from 1 to [`BUCKET_ITEMS_MAX`]; each CPU caches up to two
    /// buckets. By default so many that a bucket is not more than 128 KiB, and at most 128.
    pub fn bucket_items(mut self, items: usize) -> Self {
        self.bucket_items = Some(items);
        self
    }

    /// Hangs code on the way of each item.
    #[doc(alias = "uma_ctor")]
    #[doc(alias = "uma_init")]
    pub fn hooks(mut self, hooks: Box<dyn Hooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Makes the zone. It takes memory only with the first allocation.
    ///
    /// # Errors
    /// [`ZoneError`] when the layout does not suit a slab allocator, or when there is no address
    /// space.
    #[doc(alias = "uma_zcreate")]
    pub fn build(self) -> Result<RawZone, ZoneError> {
        let geo = Geometry::new(self.layout)?;
        let items = self
            .bucket_items
            .unwrap_or_else(|| bucket_items_for(geo.stride()));
        Ok(RawZone::from_inner(Inner::new(Plan {
            name: self.name,
            layout: self.layout,
            geo,
            arena: Arena::reserve(geo, self.reserve_bytes, self.counted)?,
            limit: self.limit,
            bucket_items: items.clamp(1, BUCKET_ITEMS_MAX),
            hooks: self.hooks,
        })))
    }
}

/// Two buckets a CPU of 2 KiB clusters are 256 KiB: they fit the second-level cache together.
const BUCKET_BYTES: usize = 128 << 10;

fn bucket_items_for(stride: usize) -> usize {
    (BUCKET_BYTES / stride).clamp(2, 128)
}
