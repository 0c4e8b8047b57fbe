//! The two pairs of functions of a zone's owner that run at an item's allocation and free.
//!
//! Source: seed 004 sections 5.3 and 5.4 (hooks may fail, and then the allocation fails cleanly).

use crate::HookFailed;
use core::ptr::NonNull;

#[cfg(feature = "extras")]
mod import;

#[cfg(feature = "extras")]
pub use import::{Import, Imported};

/// Called for items on their way out of and into a zone (seed 004, sections 5.3 and 5.4). All methods have empty
/// defaults.
///
/// ```text
///   slab --init--> [ CPU caches, depot ] --ctor--> the caller
///   slab <--fini-- [ CPU caches, depot ] <--dtor-- the caller
/// ```
///
/// `init` pays once for state that many pairs of alloc and free then find ready: items are type-stable
/// between `init` and `fini`. `ctor` and `dtor` run each time; they are called directly, not
/// through a table of functions, so that small ones dissolve into the caller.
///
/// A hook may allocate from other zones (a lock of this crate is never held around it), and may fail where it returns
/// a `Result`. A panic passes to the caller of the zone, and no item is lost: an item whose `init` panicked counts as
/// refused; an item whose `ctor` or `dtor` panicked goes through `fini` to its slab; an item whose `fini` panicked is
/// in its slab.
///
/// ```
/// use std::alloc::Layout;
/// use std::ptr::NonNull;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use uma::{HookFailed, Hooks, RawZone};
///
/// /// Items are zeroed once, and not at each allocation.
/// #[derive(Default)]
/// struct Zeroed {
///     in_use: AtomicUsize,
/// }
///
/// impl Hooks for Zeroed {
///     unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
///         // SAFETY: the item has 512 bytes, and the zone lends it to this call alone.
///         unsafe { item.write_bytes(0, 512) };
///         self.in_use.fetch_add(1, Ordering::Relaxed);
///         Ok(())
///     }
///
///     unsafe fn fini(&self, _: NonNull<u8>) {
///         self.in_use.fetch_sub(1, Ordering::Relaxed);
///     }
/// }
///
/// let builder = RawZone::builder("page", Layout::from_size_align(512, 8)?);
/// let zone = builder.limit(1000).hooks(Zeroed::default()).build()?;
/// let item = zone.alloc()?;
/// // SAFETY: the item came from this zone, and is not used again.
/// unsafe { zone.free(item) };
/// assert_eq!((zone.live(), zone.stats().used), (0, 0));
/// zone.drain(); // the items in the caches go through `fini` to their slabs
/// assert_eq!(zone.hooks().in_use.load(Ordering::Relaxed), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Hooks: Send + Sync + 'static {
    /// Sets an item up as it leaves its slab for the caches. The memory holds anything.
    ///
    /// # Errors
    /// [`HookFailed`] sends the item back to its slab, untouched by `fini`.
    ///
    /// # Safety
    /// `item` points to a free item of this zone that no other code uses during the call.
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let _ = item;
        Ok(())
    }

    /// Undoes `init`, as the item goes back to its slab.
    ///
    /// # Safety
    /// `item` went through `init` and no other code uses it during the call.
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
    /// `item` went through `init` and no other code uses it during the call.
    #[inline]
    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let _ = item;
        Ok(())
    }

    /// Undoes `ctor`; the state that `init` left must be there again afterwards.
    ///
    /// # Safety
    /// `item` went through `ctor`, its caller gave it up, no other code uses it during the call.
    #[inline]
    unsafe fn dtor(&self, item: NonNull<u8>) {
        let _ = item;
    }
}

/// No hooks: the default of a zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// Hooks chosen at run time.
impl<T: Hooks + ?Sized> Hooks for Box<T> {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // SAFETY: the caller promises the same.
        unsafe { (**self).init(item) }
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        // SAFETY: as above.
        unsafe { (**self).fini(item) }
    }

    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // SAFETY: as above.
        unsafe { (**self).ctor(item) }
    }

    unsafe fn dtor(&self, item: NonNull<u8>) {
        // SAFETY: as above.
        unsafe { (**self).dtor(item) }
    }
}
