//! How an item is freed: to this CPU's bucket, a full bucket to the depot, the surplus to the slabs.
//!
//! ```text
//!   put           onto this CPU's loaded bucket: nearly always all that is needed
//!   put_slow      1. into this CPU's previous bucket, which becomes the loaded one (put_again, where
//!                    the two can change places in one store)
//!                 2. into an empty bucket of the depot, which gets our full one
//!                 3. the depot has enough: the full bucket's items go to their slabs
//!                 4. the keg is closed, or no memory for a bucket: straight to the slab
//! ```
//!
//! The item may be the last thing that keeps the zone. So on the fast path the thread accesses no field of the zone
//! after the section that frees the item; on the slow path it counts itself as inside first and leaves last (see
//! `zone_inner.rs`).

use crate::caught::Caught;
use crate::depot::Room;
use crate::faults::{ZoneFault, planted};
use crate::percpu::PushOutcome;
use crate::zone_inner::ZoneInner;
use core::ptr::NonNull;

impl ZoneInner {
    /// Frees an item.
    ///
    /// # Safety
    /// `item` is of `zone`, which it keeps until the call, is as `init` left it, and its owner has
    /// given it up.
    #[inline]
    pub(crate) unsafe fn put(zone: NonNull<Self>, item: NonNull<u8>) {
        // SAFETY: the item keeps the zone until its free commits. The reference is not used after that. All fields
        // that change have interior mutability, so the reference does not promise that the zone stays until the call
        // returns.
        let pushed = unsafe { zone.as_ref() }.percpu.push(item);
        if let Err(outcome) = pushed {
            // SAFETY: the item was not freed, so it still keeps the zone.
            unsafe { Self::put_again(zone, item, outcome) }
        }
    }

    /// # Safety
    /// As for [`put`](Self::put), whose attempt ended with `outcome`.
    #[cold]
    #[inline(never)]
    unsafe fn put_again(zone: NonNull<Self>, item: NonNull<u8>, outcome: isize) {
        // SAFETY: as in `put`; the caches are not used after the item is down.
        let percpu = &unsafe { zone.as_ref() }.percpu;
        let pushed = match percpu.push_again(item, outcome) {
            // The item was not freed: it still keeps the zone.
            PushOutcome::Full if percpu.swap_for_push() => percpu.push_whole(item),
            pushed => pushed,
        };
        match pushed {
            PushOutcome::Done => {}
            // SAFETY: the item was not freed, so it still keeps the zone.
            PushOutcome::Full => unsafe { Self::put_slow(zone, item) }.resume(),
            // SAFETY: as above.
            PushOutcome::Twice => unsafe { zone.as_ref() }.freed_twice(item),
        }
    }

    /// # Safety
    /// As for [`put`](Self::put).
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn put_slow(zone: NonNull<Self>, item: NonNull<u8>) -> Caught {
        // SAFETY: the item keeps the zone until it is put down, and from here on so do we.
        let inner = unsafe { zone.as_ref() };
        let mut caught = Caught::default();
        if planted(ZoneFault::Entry) {
            inner.put_down(item, &mut caught);
            return caught;
        }
        inner.enter();
        inner.put_down(item, &mut caught);
        // SAFETY: entered above, and the zone is not used after.
        caught.call(|| unsafe { Self::leave(zone) });
        caught
    }

    /// Takes an item back whose `ctor` or `dtor` panicked: its content is unknown, so it goes through `fini` to its
    /// slab. Called while the panic unwinds.
    ///
    /// # Safety
    /// As for [`put`](Self::put), but for the item's contents.
    #[cold]
    pub(crate) unsafe fn discard(zone: NonNull<Self>, item: NonNull<u8>) {
        // SAFETY: the item keeps the zone until it is put down, and from here on so do we.
        let inner = unsafe { zone.as_ref() };
        inner.enter();
        let mut caught = Caught::default();
        inner.put_directly(item, &mut caught);
        // SAFETY: entered above, and the zone is not used after.
        caught.call(|| unsafe { Self::leave(zone) });
        caught.resume();
    }

    /// Steps 1 to 4.
    fn put_down(&self, item: NonNull<u8>, caught: &mut Caught) {
        let full = match self.percpu.exchange_previous(None) {
            Ok(Some(mut previous)) => match previous.push(item) {
                PushOutcome::Done => return self.load_with_room(previous, caught),
                PushOutcome::Full => Some(previous),
                PushOutcome::Twice => self.freed_twice(item),
            },
            Ok(None) | Err(_) => None,
        };
        let visit = self.depot.lock().make_room(full);
        let mut bucket = match visit {
            Room::Bucket(bucket) => bucket,
            Room::Spill(full) => self.emptied(full, caught),
            Room::Nothing => return self.put_directly(item, caught),
            Room::Closed(full) => {
                if let Some(full) = full {
                    self.empty_into_keg(full, caught);
                }
                return self.put_directly(item, caught);
            }
        };
        let pushed = bucket.push(item);
        debug_assert_eq!(pushed, PushOutcome::Done, "the bucket was empty");
        self.load_with_room(bucket, caught);
    }

    /// Gives this CPU a bucket with room for the full one it has.
    fn load_with_room(&self, bucket: crate::bucket::Owned, caught: &mut Caught) {
        match self.percpu.replace_full(bucket) {
            Ok(None) => {}
            // The full bucket that was replaced; or `bucket` itself, because another thread made room first.
            Ok(Some(left)) | Err(left) => self.shelve(left, caught),
        }
    }

    fn put_directly(&self, item: NonNull<u8>, caught: &mut Caught) {
        self.give_to_keg(&[item], true, caught);
    }

    #[cold]
    fn freed_twice(&self, item: NonNull<u8>) -> ! {
        panic!(
            "double free: {item:p} of zone '{}' is free already",
            self.name
        )
    }

    /// The report of an item outside the range of this zone, which is no sample either.
    #[cold]
    pub(crate) fn foreign(&self, item: NonNull<u8>) -> ! {
        panic!(
            "foreign free: {item:p} is not an item of zone '{}'",
            self.name
        )
    }
}
