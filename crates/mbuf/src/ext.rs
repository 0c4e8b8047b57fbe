//! Storage outside of mbufs: clusters, and bytes that an owner lends.
//!
//! An [`Ext`] is one counted reference. The count lies with the storage (a cluster's in its zone's
//! side table, lent storage's in a header of its own), so no mbuf is a leader that must outlive the
//! others.
//!
//! ```text
//!   Ext --+--> cluster            refs in the zone's side table
//!   Ext --+
//!   Ext -----> Lent { head: refs, free | owner } --> the owner's bytes
//!   Ext -----> LentPages { head, source | owner } -> pages, by number (ext/pages.rs)
//! ```
//!
//! `refs.rs` says which operations the holder of a reference may do, and why. In addition, no holder writes lent
//! bytes, since their owner may show them elsewhere.
//!
//! The tests in `models/refs.rs` check the counting, those in `models/` references to real
//! clusters under random and under all orders of threads, `tests/packets/threads.rs` real threads.
//!
//! Sources: seed 000 (shared clusters), seed 004 section 5.4 (counts beside clusters).

use core::mem::offset_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::{Ordering, fence};

use uma::RawZoneRef;

use crate::error::NoBufs;
use crate::faults::{MbufFault, planted};
use crate::pool::{ClusterSize, Fresh, Zones};
use crate::refs::{Refs, Release};

mod pages;
mod source;

pub use source::{PageSource, Pages};

/// A reference to outside storage; its drop releases the reference.
///
/// Without padding, because an mbuf's data may later take its place.
#[doc(alias = "m_ext")]
#[repr(C)]
pub(crate) struct Ext {
    /// First, because it is read soon after it is written, and processors forward the beginning of
    /// a wide store to a load faster than its middle: 4 ns of a share and release.
    refs: NonNull<Refs>,
    buf: *mut u8,
    /// The zone that a cluster is freed to. None: the storage is lent, and the count is the first field of the
    /// [`LentHead`], which has the function that gives it back.
    zone: Option<RawZoneRef>,
    size: u32,
    _spare: u32,
}

// SAFETY: a reference may be used and dropped on any thread: the count is atomic, zones are
// thread-safe, and an owner is Send and Sync.
unsafe impl Send for Ext {}
// SAFETY: as above; `&Ext` counts, and shows bytes that are not written while it is borrowed.
unsafe impl Sync for Ext {}

impl Ext {
    /// A fresh cluster. Refused only if all clusters within the limit are in use.
    #[inline]
    #[track_caller]
    pub(crate) fn cluster(zones: &Zones, size: ClusterSize) -> Result<Self, NoBufs> {
        Ok(Self::over(zones.alloc_cluster(size)?, size))
    }

    /// As `cluster`, for a packet on its way to its zone's caches, for which other threads wait: may be refused while
    /// clusters are free elsewhere.
    pub(crate) fn cluster_near(zones: &Zones, size: ClusterSize) -> Result<Self, NoBufs> {
        Ok(Self::over(zones.alloc_cluster_near(size)?, size))
    }

    #[inline]
    fn over((buf, refs, zone): Fresh, size: ClusterSize) -> Self {
        Self {
            buf: buf.as_ptr(),
            refs,
            zone: Some(zone),
            size: size.bytes() as u32,
            _spare: 0,
        }
    }

    /// The bytes of `owner`, whose length must fit 32 bits.
    pub(crate) fn lent<T>(owner: T) -> Result<Self, NoBufs>
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        let head = LentHead {
            refs: Refs::one(),
            shows: Shows::Bytes,
            free: Lent::<T>::free,
        };
        // From here on only this pointer is used to access the owner: a later move of a Box would invalidate pointers
        // that were derived from it.
        let lent = NonNull::from(Box::leak(Box::new(Lent { head, owner })));
        // Before the first call of the owner, so that it is dropped if that call panics.
        let mut ext = Self {
            buf: NonNull::dangling().as_ptr(),
            refs: lent.cast(),
            zone: None,
            size: 0,
            _spare: 0,
        };
        // SAFETY: just leaked, so it lives; the count beside it is not covered by the reference.
        let owner = unsafe { &(*lent.as_ptr()).owner };
        let bytes = owner.as_ref();
        ext.size = u32::try_from(bytes.len()).map_err(|_| NoBufs)?;
        ext.buf = bytes.as_ptr().cast_mut();
        Ok(ext)
    }

    /// Marks the place of a dropped reference as empty.
    ///
    /// # Safety
    /// `place` is where a dropped reference was, unchanged, and is the caller's to write.
    pub(crate) unsafe fn set_gone(place: *mut Self) {
        let buf = place.cast::<u8>().wrapping_add(offset_of!(Ext, buf));
        // SAFETY: a field of the storage that the caller describes.
        unsafe { buf.cast::<*mut u8>().write(ptr::null_mut()) };
    }

    /// Whether [`Ext::set_gone`] marked the place.
    ///
    /// # Safety
    /// A reference lies at `place`, or did until [`Ext::set_gone`].
    #[inline]
    pub(crate) unsafe fn is_gone(place: *const Self) -> bool {
        let buf = place.cast::<u8>().wrapping_add(offset_of!(Ext, buf));
        // SAFETY: a field of the storage that the caller describes. No storage is at address 0.
        unsafe { buf.cast::<*mut u8>().read() }.is_null()
    }

    /// One more reference. Refused above [`REFS_MAX`](crate::refs::REFS_MAX) references.
    #[inline]
    pub(crate) fn share(&self) -> Result<Self, NoBufs> {
        self.refs().share()?;
        Ok(self.twin())
    }

    /// Makes one more reference, without an atomic read-modify-write if this is the only one: the
    /// unique borrow proves that no other thread makes a reference from it meanwhile. Refused above
    /// [`REFS_MAX`](crate::refs::REFS_MAX) references.
    #[inline]
    pub(crate) fn share_mut(&mut self) -> Result<Self, NoBufs> {
        self.refs().share_sole()?;
        Ok(self.twin())
    }

    /// The same, written to `place`.
    ///
    /// # Safety
    /// `place` is the caller's to write. It holds a reference if this succeeds.
    #[inline(always)]
    pub(crate) unsafe fn share_to(&mut self, place: *mut Self) -> Result<(), NoBufs> {
        self.refs().share_sole()?;
        // SAFETY: a second reference was counted; both have the same fields. One copy of the whole,
        // because each share executes it.
        unsafe { ptr::copy_nonoverlapping(self, place, 1) };
        Ok(())
    }

    /// The second of two references, which the caller has counted.
    fn twin(&self) -> Self {
        Self {
            buf: self.buf,
            refs: self.refs,
            zone: self.zone,
            size: self.size,
            _spare: 0,
        }
    }

    /// Whether both are references to the same bytes. References to mapped pages have a count in common, and a page
    /// each.
    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.refs, self.buf, self.size) == (other.refs, other.buf, other.size)
    }

    /// Requests that the last release, by whichever holder, overwrites the storage with zeros.
    /// False if the storage is lent: then only its owner may write it.
    #[doc(alias = "m_zero")]
    pub(crate) fn zeroize(&self) -> bool {
        if let Some(source) = self.source() {
            return source.zeroize();
        }
        self.refs().request_zeros();
        self.is_cluster()
    }

    /// Whether zeros were requested for the last free. A copy must request the same.
    pub(crate) fn is_secret(&self) -> bool {
        self.refs().wants_zeros()
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

    /// True if this is the only reference and the storage may be written.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.is_cluster() && (self.refs().is_unique() || planted(MbufFault::TwoWriters))
    }

    /// True if this is the only reference and no zeros were requested: then a packet goes back to
    /// its zone with its cluster.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.refs().is_plain()
    }

    /// Whether the storage is a cluster, not lent.
    #[inline]
    fn is_cluster(&self) -> bool {
        self.zone.is_some()
    }

    /// The header of lent storage.
    #[inline]
    fn lent_head(&self) -> Option<NonNull<LentHead>> {
        // It begins with the count.
        (!self.is_cluster()).then_some(self.refs.cast())
    }

    #[inline]
    pub(crate) fn refs(&self) -> &Refs {
        // SAFETY: the count lives as long as the storage, of which `self` is a reference.
        unsafe { self.refs.as_ref() }
    }
}

impl Drop for Ext {
    #[inline(always)]
    fn drop(&mut self) {
        if let Release::Last { zero } = self.refs().release() {
            self.free_storage(zero);
        }
    }
}

impl Ext {
    /// Frees the storage after the release of the last reference.
    #[inline(never)]
    pub(crate) fn free_storage(&self, zero: bool) {
        let Some(zone) = self.zone else {
            return self.free_lent();
        };
        // SAFETY: a cluster that was allocated has an address.
        let buf = unsafe { NonNull::new_unchecked(self.buf) };
        if zero {
            // SAFETY: the whole cluster, to which no other reference exists.
            unsafe { wipe(buf, self.size as usize) };
        }
        // SAFETY: from this zone, and no reference to it exists.
        unsafe { zone.free(buf) };
    }

    /// Gives lent storage back to its owner.
    fn free_lent(&self) {
        let Some(lent) = self.lent_head() else {
            unreachable!("a cluster goes to its zone")
        };
        // SAFETY: not freed yet: this was the last reference.
        let free = unsafe { (*lent.as_ptr()).free };
        // SAFETY: the function that was made for it, called once.
        unsafe { free(lent) };
    }
}

/// Overwrites `len` bytes with zeros, so that the optimiser can't drop the stores as dead.
///
/// # Safety
/// They are the caller's to write.
#[doc(alias = "explicit_bzero")]
#[cold]
pub(crate) unsafe fn wipe(buf: NonNull<u8>, len: usize) {
    // SAFETY: as the caller says.
    unsafe { buf.write_bytes(0, len) };
    // An opaque use of the bytes: the compiler must assume that it reads them.
    core::hint::black_box(buf);
    fence(Ordering::SeqCst);
}

/// The header of lent storage.
#[repr(C)]
struct LentHead {
    refs: Refs,
    /// The kind of owner; it takes the place of padding.
    shows: Shows,
    /// Drops the [`Lent`] or [`LentPages`](pages::LentPages) that begins with this header.
    #[doc(alias = "ext_free")]
    free: unsafe fn(NonNull<LentHead>),
}

/// The kind of storage that an owner shows.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// Bytes at one address: a [`Lent`].
    Bytes,
    /// Pages by their numbers: a [`LentPages`](pages::LentPages).
    Pages,
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
    /// `head` begins a leaked box of this type, and is not used again.
    unsafe fn free(head: NonNull<LentHead>) {
        // SAFETY: as the caller says; the pointer is the box's own, cast.
        drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) });
    }
}
