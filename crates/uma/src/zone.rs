//! Zones of a type: items are made and dropped by Rust's rules.
//!
//! Invariant: every [`ZoneBox`] owns one live item that holds a valid `T`.

use crate::{AllocError, RawZone, RawZoneRef, ZoneBuilder, ZoneError, ZoneStats};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A zone whose items are of type `T`.
///
/// ```
/// use uma::Zone;
///
/// let sockets = Zone::<[u32; 8]>::new("socket")?;
/// let mut socket = sockets.alloc([0; 8])?;
/// socket[3] = 7;
/// assert_eq!(sockets.raw().live(), 1);
/// drop(socket);
/// assert_eq!(sockets.raw().live(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Zone<T> {
    raw: RawZone,
    /// A zone allocates and frees `T`s, and owns none.
    kind: PhantomData<fn(T) -> T>,
}

impl<T> Zone<T> {
    /// A zone without a limit.
    ///
    /// # Errors
    /// [`ZoneError`] when `T` is too big or there is no address space.
    pub fn new(name: &'static str) -> Result<Self, ZoneError> {
        Self::build(Self::builder(name))
    }

    /// Begins the description of a zone of `T`s; [`Zone::build`] makes it. Hooks see the item
    /// before the `T` is moved in and after it was dropped.
    pub fn builder(name: &'static str) -> ZoneBuilder {
        RawZone::builder(name, Layout::new::<T>())
    }

    /// Makes the zone that [`Zone::builder`] began.
    ///
    /// # Errors
    /// As [`Zone::new`].
    ///
    /// # Panics
    /// If the builder was begun for another layout than that of `T`, or is for a secondary zone
    /// whose master has hooks, which own the contents of the items.
    pub fn build(builder: ZoneBuilder) -> Result<Self, ZoneError> {
        builder.assert_items_are_free_memory();
        let raw = builder.build()?;
        assert!(
            raw.layout() == Layout::new::<T>(),
            "the builder is for items of another layout"
        );
        Ok(Self {
            raw,
            kind: PhantomData,
        })
    }

    /// Moves `value` into an item of the zone.
    ///
    /// # Errors
    /// [`AllocError`]; `value` is dropped then.
    #[track_caller]
    #[inline]
    pub fn alloc(&self, value: T) -> Result<ZoneBox<T>, AllocError> {
        let item = self.raw.alloc()?.cast::<T>();
        // SAFETY: a new item has the size and alignment of T (checked in `build`) and is ours.
        unsafe { item.write(value) };
        Ok(ZoneBox {
            item,
            zone: self.raw.as_ref_ptr(),
            owns: PhantomData,
        })
    }

    /// The zone below, for its limit, its statistics and its drain.
    pub fn raw(&self) -> &RawZone {
        &self.raw
    }

    /// As [`RawZone::stats`].
    pub fn stats(&self) -> ZoneStats {
        self.raw.stats()
    }
}

impl<T> Clone for Zone<T> {
    fn clone(&self) -> Self {
        Self {
            raw: self.raw.clone(),
            kind: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Zone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// An item of a [`Zone`]: a `Box` whose memory comes from the zone, and that keeps it.
pub struct ZoneBox<T> {
    item: NonNull<T>,
    /// Kept by the item.
    zone: RawZoneRef,
    owns: PhantomData<T>,
}

// SAFETY: it owns its T as a Box does, and the zone may be used from any thread.
unsafe impl<T: Send> Send for ZoneBox<T> {}
// SAFETY: `&ZoneBox<T>` gives only `&T`.
unsafe impl<T: Sync> Sync for ZoneBox<T> {}

impl<T> Deref for ZoneBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the item holds a valid T that this box owns.
        unsafe { self.item.as_ref() }
    }
}

impl<T> DerefMut for ZoneBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes the access the only one.
        unsafe { self.item.as_mut() }
    }
}

impl<T> Drop for ZoneBox<T> {
    #[inline]
    fn drop(&mut self) {
        /// Frees the item even if the T's drop panics.
        struct Free(RawZoneRef, NonNull<u8>);
        impl Drop for Free {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the item came from this zone, and its box is being dropped.
                unsafe { self.0.free(self.1) };
            }
        }
        let _free = Free(self.zone, self.item.cast());
        // SAFETY: the item holds a valid T, which is not used again.
        unsafe { self.item.drop_in_place() };
    }
}

impl<T: fmt::Debug> fmt::Debug for ZoneBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
