//! The way back: an item to this CPU's cache, a full bucket to the depot.
//!
//! Called by: `raw.rs`, `alloc.rs` (a constructor refused). Calls: `cache.rs`, `depot.rs`, the
//! hooks.
//!
//! The count is the last thing that touches the zone, under the lock under which the item was
//! put down: see `inner.rs`, "How live items are counted".

use crate::cache::Cache;
use crate::inner::Inner;
use core::ptr::NonNull;

impl Inner {
    /// Takes an item back from its caller.
    ///
    /// # Safety
    /// `item` came from an allocation of this zone, and nobody uses it any more.
    #[inline]
    pub(crate) unsafe fn free(&self, item: NonNull<u8>) {
        // SAFETY: the caller's promise is ours.
        unsafe { self.destruct(item) };
        self.put(item, Self::count_free);
    }

    /// Takes several items back, with each lock taken once a bucket.
    ///
    /// # Safety
    /// As for [`Inner::free`], for each of the items, all of them different.
    pub(crate) unsafe fn free_bulk(&self, items: &[NonNull<u8>]) {
        for &item in items {
            // SAFETY: the caller's promise is ours.
            unsafe { self.destruct(item) };
        }
        let mut rest = items;
        while !rest.is_empty() {
            rest = self.put_many(&mut self.lock_cache(), rest);
            if let Some((&stuck, others)) = rest.split_first() {
                self.put_slow(stuck, Self::count_free);
                rest = others;
            }
        }
    }

    /// Puts as many as go in without help from the slabs; those left over are the answer.
    fn put_many<'a>(&self, cache: &mut Cache, items: &'a [NonNull<u8>]) -> &'a [NonNull<u8>] {
        for (i, &item) in items.iter().enumerate() {
            if !self.push(cache, item) {
                return &items[i..];
            }
            self.count_free(cache);
        }
        &[]
    }

    /// Puts a free item down and counts it.
    #[inline]
    pub(crate) fn put(&self, item: NonNull<u8>, count: fn(&Self, &mut Cache)) {
        let mut cache = self.lock_cache();
        if self.push(&mut cache, item) {
            count(self, &mut cache);
            return;
        }
        drop(cache);
        self.put_slow(item, count);
    }

    /// Puts a free item into the cache, with a visit to the depot if need be.
    #[inline]
    fn push(&self, cache: &mut Cache, item: NonNull<u8>) -> bool {
        cache.push(item)
            || (cache.make_room(&mut self.depot.0.lock(), self.bucket_items) && cache.push(item))
    }

    /// The heap has no room for a bucket: the item goes to its slab at once.
    #[cold]
    fn put_slow(&self, item: NonNull<u8>, count: fn(&Self, &mut Cache)) {
        let transit = self.enter_transit();
        self.give_to_slabs(&[item], true);
        drop(transit);
        count(self, &mut self.lock_cache());
    }

    /// # Safety
    /// As for [`Inner::free`].
    #[inline]
    unsafe fn destruct(&self, item: NonNull<u8>) {
        #[cfg(debug_assertions)]
        self.arena.mark_freed(item, self.name);
        if let Some(hooks) = &self.hooks {
            // SAFETY: the item went through `ctor`, and its caller gave it up.
            unsafe { hooks.dtor(item) };
        }
    }
}

#[cfg(test)]
mod tests;
