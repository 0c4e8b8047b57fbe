//! More functions of a zone's handle: sleep for an item, register a callback, prepare memory, make a local cache.
//!
//! Locks: none of its own.

use crate::extras::local::LocalCache;
use crate::hooks::Hooks;
use crate::{AllocError, RawZone};
use core::panic::Location;
use core::ptr::NonNull;
use core::time::Duration;
use std::time::Instant;

impl<H: Hooks> RawZone<H> {
    /// As [`alloc`](Self::alloc), but sleeps while there is no item, for `timeout` if one is given. Each item that
    /// comes back wakes a sleeper. The caller must hold no lock.
    ///
    /// # Errors
    /// As there, once the time is up; or a hook refused.
    #[doc(alias = "M_WAITOK")]
    #[track_caller]
    pub fn alloc_wait(&self, timeout: Option<Duration>) -> Result<NonNull<u8>, AllocError> {
        let site = Location::caller();
        if timeout.is_some() {
            self.as_ref_ptr().consult()?;
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let item = self.inner().take_or_wait(deadline, site)?;
        self.as_ref_ptr().constructed(item, site)
    }

    /// Has `callback` called once, by the thread that brings an item back, when an allocation may succeed again.
    /// Returns `false`, and drops the callback, if one may succeed now: the caller must then try again.
    ///
    /// To be called after an allocation failed. The callback does not promise an item: another thread may allocate it
    /// first; then call this again. The callback runs during another thread's free. It may wake the thread that wants
    /// the item, and must not allocate from this zone.
    #[must_use = "when it returns false the callback will not be called"]
    pub fn call_when_available(&self, callback: impl FnOnce() + Send + 'static) -> bool {
        self.inner().keg.call_back(Box::new(callback))
    }

    /// A cache for the caller alone, without any synchronisation: for a worker pinned to its CPU. It takes and gives
    /// back `batch` items at a time; items that it holds count as live.
    #[must_use]
    pub fn local(&self, batch: usize) -> LocalCache<H> {
        LocalCache::new(self.clone(), batch)
    }

    /// Prepares slabs and pages for `items` items, so that no allocation of that many fails for want of memory. Returns
    /// for how many there was room.
    #[doc(alias = "uma_prealloc")]
    pub fn prealloc(&self, items: usize) -> usize {
        self.inner().keg.prealloc(items)
    }
}
