//! Storage outside of mbufs: clusters, and bytes that somebody lends.
//!
//! An [`Ext`] is one counted reference. The count lies with the storage (a cluster's in its zone's
//! side table, lent storage's in a header of its own), so no mbuf is a leader that must outlive the
//! others.
//!
//! ```text
//!   Ext --+--> cluster            refs in the zone's side table
//!   Ext --+
//!   Ext -----> Lent { head: refs, free | owner } --> the owner's bytes
//! ```
//!
//! # Who may do what
//!
//! - Whoever has a reference may make another ([`Ext::share`], Relaxed: the one it has keeps the
//!   storage) and drop its own (Release: what it read, it has read).
//! - A count of 1, loaded with Acquire, says that nobody else has one; nobody else can get one,
//!   since that takes one. So the holder may write ([`Ext::is_writable`]), and drop the storage
//!   without an atomic write. Acquire pairs with the Release of those that dropped theirs.
//! - Lent bytes are never written: their owner may show them elsewhere.
//!
//! Called by: `mbuf.rs`. Calls: the pool's cluster zones.
//! Sources: seed 000 (shared clusters), seed 004 section 5.4 (counts beside clusters).

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use uma::RawZoneRef;

use crate::error::NoBufs;
use crate::pool::{ClusterSize, Zones};

/// A sharer above this count is refused: far below overflow, so that a race of refusals can't wrap.
pub(crate) const REFS_MAX: u32 = u32::MAX / 2;

/// A reference to outside storage; dropping it gives the reference back.
///
/// Without padding: an mbuf's data may come to lie where one was.
#[doc(alias = "m_ext")]
#[repr(C)]
pub(crate) struct Ext {
    buf: *mut u8,
    refs: NonNull<AtomicU32>,
    home: Home,
    size: u32,
    _pad: u32,
}

/// Where the storage goes when its last reference is dropped.
#[repr(u64)]
#[derive(Clone, Copy)]
enum Home {
    Cluster(RawZoneRef),
    Owner(NonNull<LentHead>),
}

// SAFETY: a reference may be used and dropped on any thread: the count is atomic, zones are
// thread-safe, and an owner is Send and Sync.
unsafe impl Send for Ext {}
// SAFETY: as above; `&Ext` counts, and shows bytes that nobody writes while it is borrowed.
unsafe impl Sync for Ext {}

impl Ext {
    /// A fresh cluster.
    #[inline]
    #[track_caller]
    pub(crate) fn cluster(zones: &Zones, size: ClusterSize) -> Result<Self, NoBufs> {
        let (buf, refs, zone) = zones.alloc_cluster(size)?;
        let home = Home::Cluster(zone);
        Ok(Self {
            buf: buf.as_ptr(),
            refs,
            home,
            size: size.bytes() as u32,
            _pad: 0,
        })
    }

    /// The bytes that `owner` holds. They may be no more than fit 32 bits.
    pub(crate) fn lent<T>(owner: T) -> Result<Self, NoBufs>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        let head = LentHead {
            refs: AtomicU32::new(1),
            free: Lent::<T>::free,
        };
        // From here on the owner is reached through this pointer alone: moving a Box would say
        // that what was derived from it before is not used any more.
        let lent = NonNull::from(Box::leak(Box::new(Lent { head, owner })));
        let (refs, home) = (lent.cast(), Home::Owner(lent.cast()));
        // Before the owner is asked anything, so that it is dropped if it panics.
        let mut ext = Self {
            buf: NonNull::dangling().as_ptr(),
            refs,
            home,
            size: 0,
            _pad: 0,
        };
        // SAFETY: just leaked, so it lives; the count beside it is not covered by the reference.
        let owner = unsafe { &(*lent.as_ptr()).owner };
        let bytes = owner.as_ref();
        ext.size = u32::try_from(bytes.len()).map_err(|_| NoBufs)?;
        ext.buf = bytes.as_ptr().cast_mut();
        Ok(ext)
    }

    /// One more reference. Refused if there are absurdly many.
    #[inline]
    pub(crate) fn share(&self) -> Result<Self, NoBufs> {
        // Relaxed: we have a reference, so the storage can't go away meanwhile.
        if self.refs().fetch_add(1, Ordering::Relaxed) > REFS_MAX {
            self.refs().fetch_sub(1, Ordering::Relaxed);
            return Err(NoBufs);
        }
        Ok(Self {
            buf: self.buf,
            refs: self.refs,
            home: self.home,
            size: self.size,
            _pad: 0,
        })
    }

    /// The first byte. Only where [`Ext::is_writable`] may it be written.
    #[inline]
    pub(crate) fn buf(&self) -> *mut u8 {
        self.buf
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// True if nobody else can see the storage, and it is ours to write.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.home, Home::Cluster(_)) && self.refs().load(Ordering::Acquire) == 1
    }

    #[inline]
    pub(crate) fn refs(&self) -> &AtomicU32 {
        // SAFETY: the count lives as long as the storage, of which `self` is a reference.
        unsafe { self.refs.as_ref() }
    }
}

impl Drop for Ext {
    #[inline]
    fn drop(&mut self) {
        if self.refs().load(Ordering::Acquire) != 1 {
            if self.refs().fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        match self.home {
            Home::Cluster(zone) => {
                // SAFETY: a cluster that was allocated has an address.
                let buf = unsafe { NonNull::new_unchecked(self.buf) };
                // SAFETY: from this zone, and its last reference is the one that goes here.
                unsafe { zone.free(buf) };
            }
            Home::Owner(lent) => {
                // SAFETY: we hold the last reference, so it lives.
                let free = unsafe { (*lent.as_ptr()).free };
                // SAFETY: the function that was made for it, called once.
                unsafe { free(lent) };
            }
        }
    }
}

/// The header of lent storage.
#[repr(C)]
struct LentHead {
    refs: AtomicU32,
    /// Drops the [`Lent`] that begins with this header.
    #[doc(alias = "ext_free")]
    free: unsafe fn(NonNull<LentHead>),
}

/// Lent storage: dropping `owner` is the caller's free function. The count comes first in
/// [`LentHead`] and that first here: one address serves for all three.
#[repr(C)]
struct Lent<T> {
    head: LentHead,
    owner: T,
}

impl<T> Lent<T> {
    /// # Safety
    /// `head` begins a leaked box of this very type, and nobody uses it again.
    unsafe fn free(head: NonNull<LentHead>) {
        // SAFETY: as the caller says; the pointer is the box's own, cast.
        drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) });
    }
}
