//! Another allocator behind a zone's caches (feature `extras`).

use core::mem::MaybeUninit;
use core::ptr::NonNull;

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
