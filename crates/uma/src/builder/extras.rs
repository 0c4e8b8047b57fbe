//! Zones of more kinds (feature `extras`): on huge, coloured or guarded slabs, prepared, or without slabs.

use super::ZoneBuilder;
use crate::hooks::{Hooks, Import};
use crate::keg::Store;
use crate::{RawZone, ZoneError};

impl<H: Hooks> ZoneBuilder<H> {
    /// Allocates slabs and pages for this many items at the start.
    #[doc(alias = "uma_prealloc")]
    pub fn prealloc(mut self, items: usize) -> Self {
        self.prealloc = items;
        self
    }

    /// Slabs of huge pages: fewer page faults and a cheaper purge for a zone that fills and
    /// empties as a whole. One live item keeps 2 MiB.
    pub fn huge_pages(mut self) -> Self {
        self.arena.huge = true;
        self
    }

    /// Lets the first items of different slabs begin at different cache sets, at the price of one
    /// item a slab. It pays for items of a power of two of which mostly the head is touched.
    #[doc(alias = "UMA_ZONE_CACHESPREAD")]
    pub fn colour(mut self) -> Self {
        self.arena.colour = true;
        self
    }

    /// Puts each item on pages of its own, followed by a page that can't be written: a write beyond an item faults at
    /// once. Slow, and for some thousands of items only.
    #[doc(alias = "memguard")]
    pub fn guard_pages(mut self) -> Self {
        self.arena.guard = true;
        self
    }

    /// Makes a cache-only zone over `store`: without slabs, without reference counts.
    ///
    /// # Errors
    /// [`ZoneError`], as for [`build`](Self::build).
    #[doc(alias = "uma_zcache_create")]
    pub fn build_cache_only(self, store: impl Import) -> Result<RawZone<H>, ZoneError> {
        self.make_master(Store::Import(Box::new(store)), None)
    }
}
