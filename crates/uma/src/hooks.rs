//! The two pairs of functions of a zone's owner that run at an item's allocation and free.
//!
//! Source: seed 004 sections 5.3 and 5.4 (hooks may fail, and then the allocation fails cleanly).

use crate::HookFailed;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Called for items on their way out of and into a zone. All methods have empty defaults.
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

/// Where the items of a cache-only zone come from and go to
/// ([`ZoneBuilder::build_cache_only`](crate::ZoneBuilder::build_cache_only)).
///
/// Such a zone has the caches, the depot, the hooks, the limit and the statistics of any other,
/// and in place of slabs these two functions: over another allocator, a device's ring, a file.
#[doc(alias = "uma_zcache_create")]
pub trait Import: Send + Sync + 'static {
    /// Pushes items onto `items` until that is full or there are no more. No lock of this crate is
    /// held.
    fn import(&self, items: &mut Imported<'_>);

    /// Takes items back.
    ///
    /// # Safety
    /// [`import`](Self::import) pushed them, and no code uses them any more.
    unsafe fn release(&self, items: &[NonNull<u8>]);
}

/// The items that an [`Import`] brings, and room for more. It counts the items that were written, so that the zone
/// trusts no number of the import.
#[derive(Debug)]
pub struct Imported<'a> {
    out: &'a mut [MaybeUninit<NonNull<u8>>],
    /// Entries written, from the front.
    len: usize,
}

impl<'a> Imported<'a> {
    pub(crate) fn new(out: &'a mut [MaybeUninit<NonNull<u8>>]) -> Self {
        Self { out, len: 0 }
    }

    /// Items that were pushed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no item was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more items fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.out.len() - self.len
    }

    /// Gives an item to the zone.
    ///
    /// # Panics
    /// If there is no [room](Self::room), or the address is above `isize::MAX`.
    ///
    /// # Safety
    /// Until [`Import::release`] gets it back, `item` is valid for the zone's hooks and users (memory of the zone's
    /// layout, or a name for a resource if they never access it as memory), it is theirs alone, and it is not pushed
    /// again.
    pub unsafe fn push(&mut self, item: NonNull<u8>) {
        // A section returns an item as a number, of which those below 0 are not items.
        assert!(
            item.addr().get().cast_signed() > 0,
            "an item's address is positive"
        );
        self.out[self.len].write(item);
        self.len += 1;
    }

    /// The items that were pushed.
    pub(crate) fn items(&self) -> &[NonNull<u8>] {
        // SAFETY: `push` alone raises `len`, past an entry that it has written.
        unsafe { self.out[..self.len].assume_init_ref() }
    }
}
