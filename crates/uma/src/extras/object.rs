//! Objects that stay built while they are free: Bonwick's object cache, without `unsafe` for its
//! user.
//!
//! ```text
//!   slab --T::init--> [ caches: free, but built ] --T::ctor--> ObjectBox<T>
//!   slab <---drop---- [                         ] <--T::dtor-- dropped
//! ```
//!
//! A [`Zone`](crate::Zone) makes a new `T` with each allocation and drops it with each free. Here
//! the `T` is made when its memory comes into the caches, and dropped when that goes back to its
//! slab: its expensive parts (memory of its own, a lock, a table) are made once, and the next owner
//! finds them ready.
//!
//! Invariant: every item in the caches of an object zone, and in an [`ObjectBox`], holds a valid
//! `T`.
//!
//! Sources: Bonwick, *The Slab Allocator: An Object-Caching Kernel Memory Allocator* (1994),
//! section 2; seed 004 section 5.3.

use crate::hooks::Hooks;
use crate::raw::RawZone;
use crate::raw_ref::RawZoneRef;
use crate::{AllocError, HookFailed, ZoneBuilder, ZoneError, ZoneStats};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::time::Duration;

/// An object that an [`ObjectZone`] keeps built (Bonwick, "The Slab Allocator", 1994, section 2).
///
/// None of these is called with a lock of this crate held, and each may use other zones. An object whose
/// `ctor` or `dtor` panicked is dropped; its memory, and that of one whose drop panicked, serves again.
pub trait Object: Sized + Send + 'static {
    /// The argument of [`init`](Self::init): the zone of its parts, a configuration, or `()`.
    type Context: Send + Sync + 'static;

    /// Builds an object. It will be given out, taken back and given out again, and be dropped
    /// when the zone gives its memory back.
    ///
    /// # Errors
    /// [`HookFailed`] when a resource is missing; the allocation then fails with
    /// [`AllocError::Hook`], unless a free object is there, on any CPU.
    fn init(context: &Self::Context) -> Result<Self, HookFailed>;

    /// Readies a built object for its next owner.
    ///
    /// # Errors
    /// [`HookFailed`] fails the allocation; the object stays, without its `dtor`.
    #[inline]
    fn ctor(&mut self) -> Result<(), HookFailed> {
        Ok(())
    }

    /// Takes an object back from its owner, and removes data that the next owner must not see.
    #[inline]
    fn dtor(&mut self) {}
}

/// A zone of objects that stay built while they are free.
///
/// Here a request keeps the memory of its body: a thousand requests, one after the other, take
/// memory for a body as often as there are objects in a cache, and not a thousand times.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use uma::{HookFailed, Object, ObjectZone};
///
/// struct Request {
///     body: Vec<u8>,
/// }
///
/// impl Object for Request {
///     type Context = Arc<AtomicUsize>;
///
///     fn init(built: &Self::Context) -> Result<Self, HookFailed> {
///         built.fetch_add(1, Ordering::Relaxed);
///         Ok(Self { body: Vec::with_capacity(16 << 10) })
///     }
///
///     fn dtor(&mut self) {
///         self.body.clear(); // keeps the capacity
///     }
/// }
///
/// let built = Arc::new(AtomicUsize::new(0));
/// let requests = ObjectZone::<Request>::new("request", built.clone())?;
/// for i in 0..1000 {
///     let mut request = requests.alloc()?;
///     assert!(request.body.is_empty() && request.body.capacity() >= 16 << 10);
///     request.body.extend_from_slice(&[i as u8; 9000]);
/// }
/// assert!(built.load(Ordering::Relaxed) <= 16 * kern::cpu::count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ObjectZone<T: Object> {
    raw: RawZone<ObjectHooks<T>>,
}

/// The hooks of an object zone; [`ObjectZone::raw`] is generic over them.
pub struct ObjectHooks<T: Object> {
    context: T::Context,
    /// Makes and takes `T`s, and holds none.
    kind: PhantomData<fn(T) -> T>,
}

impl<T: Object> Hooks for ObjectHooks<T> {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let object = T::init(&self.context)?;
        // SAFETY: the item is free, has the layout of T (checked in `build`), and is ours alone.
        unsafe { item.cast::<T>().write(object) };
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        // SAFETY: the item went through `init`, so it holds a T, which is not used again.
        unsafe { item.cast::<T>().drop_in_place() };
    }

    #[inline]
    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // SAFETY: the item went through `init`, so it holds a T, and no other thread uses it.
        unsafe { item.cast::<T>().as_mut() }.ctor()
    }

    #[inline]
    unsafe fn dtor(&self, item: NonNull<u8>) {
        // SAFETY: as above.
        unsafe { item.cast::<T>().as_mut() }.dtor();
    }
}

impl<T: Object> ObjectZone<T> {
    /// A zone without a limit.
    ///
    /// # Errors
    /// [`ZoneError`] when `T` is too big or there is no address space.
    pub fn new(name: &'static str, context: T::Context) -> Result<Self, ZoneError> {
        Self::build(Self::builder(name), context)
    }

    /// Begins the description of a zone of `T`s; [`ObjectZone::build`] makes it.
    pub fn builder(name: &'static str) -> ZoneBuilder {
        RawZone::builder(name, Layout::new::<T>())
    }

    /// Makes the zone that [`ObjectZone::builder`] began.
    ///
    /// # Errors
    /// As [`ObjectZone::new`].
    ///
    /// # Panics
    /// If the builder was begun for another layout than that of `T`, or is for a secondary zone
    /// whose master has hooks, which own the contents of the items.
    pub fn build(builder: ZoneBuilder, context: T::Context) -> Result<Self, ZoneError> {
        let hooks = ObjectHooks {
            context,
            kind: PhantomData,
        };
        builder.assert_items_are_free_memory();
        let raw = builder.hooks(hooks).build()?;
        assert!(
            raw.layout() == Layout::new::<T>(),
            "the builder is for items of another layout"
        );
        Ok(Self { raw })
    }

    /// Allocates an object, in the state that `init` or the last `dtor`, and then `ctor`, left.
    ///
    /// # Errors
    /// [`AllocError`]: the limit is reached, memory has run out, or `init` or `ctor` refused.
    #[track_caller]
    #[inline]
    pub fn alloc(&self) -> Result<ObjectBox<T>, AllocError> {
        self.raw.alloc().map(|item| self.boxed(item))
    }

    /// As [`RawZone::alloc_urgent`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn alloc_urgent(&self) -> Result<ObjectBox<T>, AllocError> {
        self.raw.alloc_urgent().map(|item| self.boxed(item))
    }

    /// As [`RawZone::alloc_wait`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn alloc_wait(&self, timeout: Option<Duration>) -> Result<ObjectBox<T>, AllocError> {
        self.raw.alloc_wait(timeout).map(|item| self.boxed(item))
    }

    #[inline]
    fn boxed(&self, item: NonNull<u8>) -> ObjectBox<T> {
        ObjectBox {
            object: item.cast(),
            zone: self.raw.as_ref_ptr(),
            owns: PhantomData,
        }
    }

    /// The zone below, for its limit, its statistics and its drain.
    pub fn raw(&self) -> &RawZone<ObjectHooks<T>> {
        &self.raw
    }

    /// The argument of [`Object::init`].
    pub fn context(&self) -> &T::Context {
        &self.raw.hooks().context
    }

    /// As [`RawZone::stats`].
    pub fn stats(&self) -> ZoneStats {
        self.raw.stats()
    }
}

impl<T: Object> Clone for ObjectZone<T> {
    fn clone(&self) -> Self {
        Self {
            raw: self.raw.clone(),
        }
    }
}

impl<T: Object> fmt::Debug for ObjectZone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<T: Object> fmt::Debug for ObjectHooks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectHooks").finish_non_exhaustive()
    }
}

/// An object of an [`ObjectZone`]. Its drop returns the object to the zone, still built; until then it keeps the zone.
pub struct ObjectBox<T: Object> {
    object: NonNull<T>,
    /// Kept by the object.
    zone: RawZoneRef<ObjectHooks<T>>,
    owns: PhantomData<T>,
}

// SAFETY: it owns its T as a Box does, and the zone may be used from any thread.
unsafe impl<T: Object> Send for ObjectBox<T> {}
// SAFETY: `&ObjectBox<T>` gives only `&T`.
unsafe impl<T: Object + Sync> Sync for ObjectBox<T> {}

impl<T: Object> Deref for ObjectBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the item holds a valid T that this box owns.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Object> DerefMut for ObjectBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes the access the only one.
        unsafe { self.object.as_mut() }
    }
}

impl<T: Object> Drop for ObjectBox<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the item came from this zone, holds a valid T, and is not used again.
        unsafe { self.zone.free(self.object.cast()) };
    }
}

impl<T: Object + fmt::Debug> fmt::Debug for ObjectBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
