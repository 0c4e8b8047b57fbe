//! The way out: an item from this CPU's cache, or the depot, or a slab, or another CPU.
//!
//! Called by: `raw.rs`. Calls: `cache.rs`, `depot.rs`, `keg.rs`, the hooks.
//!
//! ```text
//!   alloc: lock this CPU's cache, pop                                      (nearly always)
//!          + lock the depot, trade an empty bucket for a filled one        (once a bucket)
//!   alloc_slow: take a bucket's worth from the keg, init each              (working set grew)
//!               rob another CPU's cache or the depot                       (memory has run out)
//! ```
//!
//! The common case takes one lock, that of a cache which this CPU alone uses, and writes only
//! what that lock covers.

use crate::AllocError;
use crate::bucket::Bucket;
use crate::cache::Cache;
use crate::inner::{Inner, NO_LIMIT, Transit};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::thread;

/// How often to wait for items that are in another thread's hands before giving up: a few turns
/// of the scheduler, then about 0.1 s in all. They come long before that; the bound is for an
/// `init` hook that allocates from its own, exhausted zone.
const WAITS_MAX: usize = 1000;
const YIELDS_MAX: usize = 50;
const NAP: Duration = Duration::from_micros(50);

/// What a cache had to say.
#[must_use]
enum Taken {
    Item(NonNull<u8>),
    /// No free item on this CPU nor in the depot.
    Empty,
    /// As many are live as may be.
    Limit,
}

/// Why no item was found anywhere.
#[must_use]
enum Shortage {
    /// Other threads carry free items: look again.
    Wait,
    /// There is none.
    Final(AllocError),
}

impl Inner {
    /// An item that has been through `ctor`.
    #[inline]
    pub(crate) fn alloc(&self) -> Result<NonNull<u8>, AllocError> {
        let taken = self.take(&mut self.lock_cache());
        let item = match taken {
            Taken::Item(item) => item,
            Taken::Empty => self.alloc_slow()?,
            Taken::Limit => return self.fail(AllocError::Limit),
        };
        self.construct(item)?;
        Ok(item)
    }

    /// As many items as there are, up to the length of `out`, each through `ctor`; they are the
    /// first of `out`. Takes each lock once a bucket, not once an item.
    pub(crate) fn alloc_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let taken = self.take_bulk(out);
        let mut constructed = 0;
        while constructed < taken {
            // SAFETY: take_bulk wrote the first `taken` entries.
            let item = unsafe { out[constructed].assume_init() };
            if self.construct(item).is_err() {
                break;
            }
            constructed += 1;
        }
        // The one that failed has gone back by itself; those behind it have not been tried.
        for entry in out.iter().take(taken).skip(constructed + 1) {
            // SAFETY: as above.
            let item = unsafe { entry.assume_init() };
            self.put_back(item);
        }
        constructed
    }

    fn take_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let mut done = 0;
        while done < out.len() {
            let stop = self.take_many(out, &mut done);
            let slow = match stop {
                None => break,
                Some(Taken::Limit) => self.fail(AllocError::Limit),
                Some(_) => self.alloc_slow(),
            };
            let Ok(item) = slow else { break };
            out[done].write(item);
            done += 1;
        }
        done
    }

    /// Takes what this CPU and the depot have; says what stopped it before `out` was full.
    fn take_many(&self, out: &mut [MaybeUninit<NonNull<u8>>], done: &mut usize) -> Option<Taken> {
        let mut cache = self.lock_cache();
        for entry in out.iter_mut().skip(*done) {
            match self.take(&mut cache) {
                Taken::Item(item) => entry.write(item),
                stop => return Some(stop),
            };
            *done += 1;
        }
        None
    }

    /// Takes an item from this CPU or the depot.
    #[inline]
    fn take(&self, cache: &mut Cache) -> Taken {
        if cache.is_empty() {
            // Before anything moves: at the limit there is nothing to fetch items for.
            if !self.may_grow() {
                return Taken::Limit;
            }
            if !cache.refill_from(&mut self.depot.0.lock()) {
                return Taken::Empty;
            }
        }
        if !self.count_alloc(cache) {
            return Taken::Limit;
        }
        match cache.pop() {
            Some(item) => Taken::Item(item),
            None => unreachable!("the cache was not empty, and we have held its lock since"),
        }
    }

    /// Finds a bucket of free items, takes one for the caller and leaves the rest to this CPU.
    #[cold]
    fn alloc_slow(&self) -> Result<NonNull<u8>, AllocError> {
        let mut waits = 0;
        let (bucket, transit) = loop {
            match self.find_bucket() {
                Ok(found) => break found,
                Err(Shortage::Final(error)) => return self.fail(error),
                Err(Shortage::Wait) if waits == WAITS_MAX => {
                    return self.fail(AllocError::NoMemory);
                }
                Err(Shortage::Wait) => waits += 1,
            }
            wait(waits);
        };
        let item = self.take_and_deposit(bucket);
        drop(transit);
        item.map_or_else(|| self.fail(AllocError::Limit), Ok)
    }

    /// Takes one item of the bucket, unless the limit forbids it, and deposits the others here.
    fn take_and_deposit(&self, mut bucket: Bucket) -> Option<NonNull<u8>> {
        let mut homeless = Bucket::NONE;
        let mut item = None;
        {
            let mut cache = self.lock_cache();
            if self.count_alloc(&mut cache) {
                item = bucket.pop();
                debug_assert!(item.is_some(), "find_bucket brings a bucket with items");
            }
            let mut depot = self.depot.0.lock();
            if bucket.is_empty() {
                depot.keep_empty(bucket);
            } else if let Err(bucket) = cache.deposit(bucket, &mut depot) {
                homeless = bucket;
            }
        }
        self.give_bucket_to_slabs(&homeless);
        item
    }

    /// A bucket with at least one free item that went through `init`.
    fn find_bucket(&self) -> Result<(Bucket, Transit<'_>), Shortage> {
        let transit = self.enter_transit();
        match self.import() {
            Ok(bucket) => Ok((bucket, transit)),
            Err(error) => {
                // Our own hands are empty: do not wait for ourselves.
                drop(transit);
                self.rob(error)
            }
        }
    }

    /// A bucket of items fresh from the slabs.
    fn import(&self) -> Result<Bucket, AllocError> {
        let bucket = self.depot.0.lock().empty_bucket(self.bucket_items);
        let mut bucket = bucket.ok_or(AllocError::NoMemory)?;
        // A small zone does not fill a bucket with items that can never all be live.
        let want = self
            .bucket_items
            .min(self.limit.load(Ordering::Relaxed))
            .max(1);
        self.slab_visits.inc();
        self.keg.0.lock().take(&self.arena, &mut bucket, want);
        let refused = self.initialise(&mut bucket);
        match bucket.is_empty() {
            false => Ok(bucket),
            true if refused => Err(AllocError::Hook),
            true => Err(AllocError::NoMemory),
        }
    }

    /// Runs `init` over a bucket; from the first item it refuses, items go back to their slabs.
    fn initialise(&self, bucket: &mut Bucket) -> bool {
        let Some(hooks) = &self.hooks else {
            return false;
        };
        // SAFETY: the item was just taken from its slab and is in our hands alone.
        let refuses = |&item: &NonNull<u8>| unsafe { hooks.init(item) }.is_err();
        let Some(good) = bucket.items().iter().position(refuses) else {
            return false;
        };
        self.give_to_slabs(&bucket.items()[good..], false);
        bucket.truncate(good);
        true
    }

    /// Takes a bucket from another CPU or the depot. With all caches locked no item moves, so
    /// what is found missing is missing: either it is live, or a thread that is in transit has
    /// it and will put it down soon.
    #[cold]
    fn rob(&self, error: AllocError) -> Result<(Bucket, Transit<'_>), Shortage> {
        self.robberies.inc();
        let mut caches = self.lock_all();
        let mut depot = self.depot.0.lock();
        let found = caches.iter_mut().find_map(|cache| cache.surrender());
        if let Some(bucket) = found.or_else(|| depot.pop_filled()) {
            return Ok((bucket, self.enter_transit()));
        }
        // A drain may have brought items to their slabs after we looked there. Who takes items
        // from the keg is in transit before, and who brings them until after: so with its lock
        // held too, nobody slips through between the two questions.
        let keg = self.keg.0.lock();
        let in_slabs = error == AllocError::NoMemory && keg.has_items();
        if in_slabs || self.in_transit.0.load(Ordering::Acquire) > 0 {
            return Err(Shortage::Wait);
        }
        Err(Shortage::Final(error))
    }

    /// Runs `ctor`; an item it refuses goes back to the cache.
    #[inline]
    fn construct(&self, item: NonNull<u8>) -> Result<(), AllocError> {
        if let Some(hooks) = &self.hooks {
            // SAFETY: the item came through `init` into a cache and is in our hands alone.
            let constructed = unsafe { hooks.ctor(item) };
            if constructed.is_err() {
                self.put_back(item);
                return self.fail(AllocError::Hook);
            }
        }
        #[cfg(debug_assertions)]
        self.arena.mark_taken(item);
        Ok(())
    }

    /// Takes an item back that no caller has seen, as if it had never been given out.
    #[cold]
    fn put_back(&self, item: NonNull<u8>) {
        self.put(item, Self::uncount_alloc);
    }

    #[cold]
    fn fail<T>(&self, error: AllocError) -> Result<T, AllocError> {
        self.failures.inc();
        Err(error)
    }
}

/// Lets other threads go on, the more patiently the longer it takes.
fn wait(waits: usize) {
    if waits <= YIELDS_MAX {
        thread::yield_now();
    } else {
        thread::sleep(NAP);
    }
}

// `import` relies on `NO_LIMIT` being the greatest number: `min` with it changes nothing.
const _: () = assert!(NO_LIMIT == usize::MAX);

#[cfg(test)]
mod tests;
