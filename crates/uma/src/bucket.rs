//! A bucket: a bounded stack of free items, the unit in which items travel between the layers.
//!
//! Called by: `cache.rs`, `depot.rs`, `keg.rs`, the allocation and free paths. Calls: nothing.
//!
//! Invariant: a bucket never grows beyond the capacity it was made with. [`Bucket::NONE`], the
//! bucket that a cache starts with, is empty and full at once: nothing to take, no room to put.

use core::ptr::NonNull;

/// A stack of pointers to free items, which the bucket owns.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    items: Vec<NonNull<u8>>,
}

// SAFETY: the pointers are to free items that only the holder of the bucket may touch, so moving
// the bucket to another thread moves that right with it; nothing in it is tied to a thread.
unsafe impl Send for Bucket {}

impl Bucket {
    /// No bucket at all: capacity zero, no memory.
    pub(crate) const NONE: Self = Self { items: Vec::new() };

    /// An empty bucket for `capacity` items, or nothing when the heap has no room for it.
    pub(crate) fn with_capacity(capacity: usize) -> Option<Self> {
        let mut items = Vec::new();
        items.try_reserve_exact(capacity).ok()?;
        Some(Self { items })
    }

    /// The item put in last.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NonNull<u8>> {
        self.items.pop()
    }

    /// Puts an item in; says whether there was room.
    #[inline]
    #[must_use]
    pub(crate) fn push(&mut self, item: NonNull<u8>) -> bool {
        let fits = !self.is_full();
        if fits {
            self.items.push(item);
        }
        fits
    }

    /// Items inside.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is inside.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether nothing more fits.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() == self.items.capacity()
    }

    /// Whether this is a real bucket and not [`Bucket::NONE`].
    pub(crate) fn is_some(&self) -> bool {
        self.items.capacity() > 0
    }

    /// The items, for a layer that takes them one by one.
    pub(crate) fn items(&self) -> &[NonNull<u8>] {
        &self.items
    }

    /// The items to be set in another order.
    pub(crate) fn items_mut(&mut self) -> &mut [NonNull<u8>] {
        &mut self.items
    }

    /// Forgets the items from `len` on; their owner took them over.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }
}
