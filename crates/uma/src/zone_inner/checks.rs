//! What builds with checks, and AddressSanitizer, are told of the items of a zone. In other builds nothing.

use super::ZoneInner;
use crate::asan;
use crate::sample::Site;
use core::ptr::NonNull;

impl ZoneInner {
    /// In builds with checks: records that an item goes to a caller.
    #[inline]
    pub(crate) fn mark_taken(&self, item: NonNull<u8>, site: Site) {
        #[cfg(feature = "invariants")]
        self.note_taken(item, site);
        #[cfg(any(debug_assertions, feature = "invariants"))]
        if let Some(arena) = self.keg.arena() {
            arena.mark_taken(item);
        }
        let _ = (item, site);
    }

    /// In builds with checks: records that an item comes back, or reports an invalid free.
    #[inline]
    pub(crate) fn mark_freed(&self, item: NonNull<u8>, site: Site) {
        #[cfg(feature = "invariants")]
        self.note_freed(item, site);
        #[cfg(any(debug_assertions, feature = "invariants"))]
        if let Some(arena) = self.keg.arena() {
            arena.mark_freed(item, self.name);
        }
        let _ = (item, site);
    }

    /// In builds with checks: fills a freed item with a pattern, where no hook keeps anything in it.
    #[inline]
    pub(crate) fn trash_plain(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        if self.is_plain() {
            self.trash(item);
        }
        let _ = item;
    }

    /// The same for an item that returns to its slab and in which hooks kept data.
    pub(crate) fn fill_trash(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        if !self.is_plain() {
            self.trash(item);
        }
        let _ = item;
    }

    /// Tells AddressSanitizer that the item is free. Not for items of an import: they are their owner's, or not
    /// memory.
    #[inline]
    pub(crate) fn poison_item(&self, item: NonNull<u8>) {
        if self.keg.arena().is_some() {
            asan::poison(item, self.layout.size());
        }
    }

    /// Tells AddressSanitizer that the item is in use.
    #[inline]
    pub(crate) fn unpoison_item(&self, item: NonNull<u8>) {
        if self.keg.arena().is_some() {
            asan::unpoison(item, self.layout.size());
        }
    }

    /// In builds with checks: reports if an item from a slab was written to while it was free.
    pub(crate) fn check_trash(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        self.check_trashed(item);
        let _ = item;
    }
}
