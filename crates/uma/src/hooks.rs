//! The two pairs of functions that a zone's owner may hang on the way of an item.
//!
//! Called by: `alloc.rs` (init, ctor), `free.rs` (dtor), `reclaim.rs` (fini).
//! Calls: the owner's code, never with a lock of this crate held.
//! Source: seed 004 sections 5.3 and 5.4 (hooks may fail, and then the allocation fails cleanly).

use crate::HookFailed;
use core::ptr::NonNull;

/// What is done to an item on its way out of and into a zone. All methods default to nothing.
///
/// ```text
///   slab --init--> [ CPU caches, depot ] --ctor--> the caller
///   slab <--fini-- [ CPU caches, depot ] <--dtor-- the caller
/// ```
///
/// `init` pays once for what many alloc and free pairs then find ready: items are type-stable
/// between `init` and `fini`. `ctor` and `dtor` run each time.
///
/// A hook may allocate from other zones (a lock of this crate is never held around it), may fail
/// where it returns a `Result`, and must not unwind: an item whose hook panicked is lost until
/// the zone is.
pub trait Hooks: Send + Sync {
    /// Sets an item up as it leaves its slab for the caches. The memory holds anything.
    ///
    /// # Errors
    /// [`HookFailed`] sends the item back to its slab, untouched by `fini`.
    ///
    /// # Safety
    /// `item` points to a free item of this zone that nothing else uses during the call.
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let _ = item;
        Ok(())
    }

    /// Takes back what `init` did, as the item goes back to its slab.
    ///
    /// # Safety
    /// `item` went through `init` and nothing else uses it during the call.
    unsafe fn fini(&self, item: NonNull<u8>) {
        let _ = item;
    }

    /// Makes an item ready for its caller.
    ///
    /// # Errors
    /// [`HookFailed`] sends the item back to the cache, untouched by `dtor`, and fails the
    /// allocation.
    ///
    /// # Safety
    /// `item` went through `init` and nothing else uses it during the call.
    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let _ = item;
        Ok(())
    }

    /// Takes back what `ctor` did; what `init` did must be there again afterwards.
    ///
    /// # Safety
    /// `item` went through `ctor`, its caller gave it up, nothing else uses it during the call.
    unsafe fn dtor(&self, item: NonNull<u8>) {
        let _ = item;
    }
}
