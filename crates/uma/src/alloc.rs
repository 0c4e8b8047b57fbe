//! Allocation: from this CPU's bucket, or the depot's, or the slabs, or another CPU.
//!
//! ```text
//!   take             the top of this CPU's loaded bucket: nearly always all that is needed
//!   take_slow        0. an item whose allocation is recorded, if a sample is due (sample.rs)
//!                    1. this CPU's previous bucket, which becomes the loaded one
//!                    2. a filled bucket of the depot, for our empty one
//!                    3. a bucket filled from the slabs, through `init`
//!   take_built       4. where `init` refused: items that went through it before, on other CPUs
//!   take_from_all    5. close the keg (other CPUs' and zones' caches come back), take from it
//!   take_or_wait     6. sleep until something comes back (alloc/wait.rs)
//! ```
//!
//! In 2 and 3, and in 1 where the two buckets cannot be exchanged in one store, the thread owns the
//! bucket: it takes the caller's item first, and then puts the bucket into the CPU's slot. If it
//! migrates in between, the bucket goes to another CPU's slot or to the depot, which does no harm.

use crate::AllocError;
use crate::bucket::Owned;
use crate::caught::Caught;
use crate::depot::Refill;
use crate::keg::{LastAttempt, Urgency};
use crate::sample::Site;
use crate::zone_inner::ZoneInner;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::time::Duration;
use kern::prim::thread;

#[cfg(feature = "extras")]
mod wait;

/// How often to search again for items that other threads carry before giving up: a few turns of the scheduler, then
/// about 0.1 s in all. The items normally arrive long before; the bound ends the search of an `init` hook that
/// allocates from its own, exhausted zone.
const LOOKS_MAX: usize = 1000;
const YIELDS_MAX: usize = 50;
const NAP: Duration = Duration::from_micros(50);

impl ZoneInner {
    /// Takes a free item that has been through `init`.
    #[inline]
    pub(crate) fn take(
        &self,
        urgency: Urgency,
        site: Option<Site>,
    ) -> Result<NonNull<u8>, AllocError> {
        self.percpu.pop_or(|| self.take_slow(urgency, site))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn take_slow(
        &self,
        urgency: Urgency,
        site: Option<Site>,
    ) -> Result<NonNull<u8>, AllocError> {
        if let Some(item) = self.sample_or_swap(site) {
            return Ok(item);
        }
        let mut caught = Caught::default();
        // Without the reserve: urgent allocations get its items one by one, from a closed keg. In a CPU's cache, any
        // allocation could take them.
        let item = match self.refill_or_take_built(&mut caught) {
            Err(AllocError::Limit | AllocError::NoMemory) if !caught.is_some() => {
                self.take_from_all(urgency, &mut caught)
            }
            settled => settled,
        };
        caught.call(|| self.warn_if_high());
        if let Err(error) = item {
            caught.call(|| self.warn_of(error));
        }
        self.settled(item, caught)
    }

    /// The end of a slow path: on a panic it frees the item that the thread carries.
    fn settled(
        &self,
        item: Result<NonNull<u8>, AllocError>,
        caught: Caught,
    ) -> Result<NonNull<u8>, AllocError> {
        let item = match item {
            Ok(item) if caught.is_some() => {
                // SAFETY: it is as `init` left it, no caller has seen it, and a handle or a live item keeps the zone.
                unsafe { Self::put_back(NonNull::from(self), item) };
                Err(AllocError::Hook)
            }
            item => item,
        };
        if item.is_err() {
            self.counts.failures.inc();
        }
        caught.resume();
        item
    }

    /// Takes an item back that no caller has seen.
    ///
    /// # Safety
    /// The item was taken from this zone, which a handle or a live item keeps until the call, and is as `init` left
    /// it.
    #[cold]
    pub(crate) unsafe fn put_back(zone: NonNull<Self>, item: NonNull<u8>) {
        // SAFETY: the item keeps the zone.
        let inner = unsafe { zone.as_ref() };
        inner.counts.refused.inc();
        if inner.may_own(item) {
            // SAFETY: so says the caller.
            unsafe { Self::put(zone, item) };
        } else {
            inner.begin_free_sample(item, None);
            // SAFETY: it keeps the zone until the call.
            unsafe { Self::end_free_sample(zone, item) };
        }
    }

    /// As [`take`](Self::take), without steps 4 and 5: fails while free items are in other CPUs' caches. It waits for
    /// no other thread, so that a thread for which others wait may call it.
    pub(crate) fn take_near(&self, site: Site) -> Result<NonNull<u8>, AllocError> {
        self.percpu
            .pop_or(|| match self.sample_or_swap(Some(site)) {
                Some(item) => Ok(item),
                None => {
                    let mut caught = Caught::default();
                    let item = self.refill(&mut caught);
                    match caught.is_some() {
                        true => self.settled(item, caught),
                        false => item,
                    }
                }
            })
    }

    /// Steps 0 and 1, as far as this thread need not carry a bucket.
    fn sample_or_swap(&self, site: Option<Site>) -> Option<NonNull<u8>> {
        if let Some(item) = self.sample(site) {
            return Some(item);
        }
        self.percpu
            .swap_for_pop()
            .then(|| self.percpu.pop())
            .flatten()
    }

    /// Steps 1 to 3.
    fn refill(&self, caught: &mut Caught) -> Result<NonNull<u8>, AllocError> {
        let _inside = self.inside();
        self.counts.misses.inc();
        let empty = match self.percpu.exchange_previous(None) {
            Ok(Some(previous)) if !previous.is_empty() => {
                return Ok(self.take_and_load(previous, caught));
            }
            Ok(empty) | Err(empty) => empty,
        };
        let visit = {
            let mut depot = self.depot.lock();
            let visit = depot.refill(empty);
            self.note_cross_cpu(&depot);
            visit
        };
        match visit {
            Refill::Filled(bucket) => {
                bucket.prefetch();
                Ok(self.take_and_load(bucket, caught))
            }
            Refill::Empty(Some(bucket)) => self.import(bucket, caught),
            Refill::Empty(None) => Err(AllocError::NoMemory),
            Refill::Closed => self.take_directly(caught),
        }
    }

    /// One item past the buckets: the zone is shut.
    fn take_directly(&self, caught: &mut Caught) -> Result<NonNull<u8>, AllocError> {
        let mut one = [MaybeUninit::uninit()];
        self.keg.take(&mut one, Urgency::Normal)?;
        // SAFETY: `take` wrote as many as it says, which is not none.
        self.taken_directly(unsafe { one[0].assume_init() }, caught)
    }

    /// Fills a bucket from the slabs.
    fn import(&self, mut bucket: Owned, caught: &mut Caught) -> Result<NonNull<u8>, AllocError> {
        self.counts.imports.inc();
        let taken = caught.call(|| self.keg.take(bucket.spare(), Urgency::Normal));
        let taken = taken.unwrap_or(Err(AllocError::NoMemory));
        let good = taken.and_then(|taken| {
            self.count_out(taken);
            // SAFETY: the keg wrote that many into the front of the spare entries.
            unsafe { bucket.added(taken) };
            self.unpoison(bucket.items());
            self.initialise_bucket(&mut bucket, caught)
        });
        match good {
            Ok(()) => Ok(self.take_and_load(bucket, caught)),
            Err(error) => {
                self.depot.lock().push(bucket);
                Err(error)
            }
        }
    }

    /// Runs `init` over a new bucket; from the first item it refuses, items go back.
    fn initialise_bucket(&self, bucket: &mut Owned, caught: &mut Caught) -> Result<(), AllocError> {
        let good = self.initialise(bucket.items(), caught);
        let refused = &bucket.items()[good..];
        if !refused.is_empty() {
            self.give_to_keg(refused, false, caught);
            bucket.truncate(good);
        }
        if good == 0 {
            return Err(AllocError::Hook);
        }
        Ok(())
    }

    /// Takes one item from a bucket that has some, and leaves the others to this CPU.
    fn take_and_load(&self, mut bucket: Owned, caught: &mut Caught) -> NonNull<u8> {
        self.sampler.refilled(bucket.len());
        let Some(item) = bucket.pop() else {
            unreachable!("callers bring a bucket with items")
        };
        let left = match self.percpu.replace_empty(bucket) {
            Ok(None) => return item,
            Ok(Some(old)) => old,
            // Another thread has put a bucket there, or the caches are stopped.
            Err(bucket) => bucket,
        };
        self.shelve(left, caught);
        item
    }

    /// Puts `bucket` into this CPU's slot as the previous bucket, and the former previous bucket into the depot. A
    /// bucket that may be too small by now goes to the depot, which decides: otherwise two small buckets could stay in
    /// use here for ever.
    pub(crate) fn shelve(&self, bucket: Owned, caught: &mut Caught) {
        let left = if bucket.room() < self.bucket_items_max {
            bucket
        } else if let Ok(Some(left)) | Err(Some(left)) = self.percpu.exchange_previous(Some(bucket))
        {
            left
        } else {
            return;
        };
        let refused = self.depot.lock().put(left);
        if let Err(bucket) = refused {
            self.empty_into_keg(bucket, caught);
        }
    }

    /// Steps 1 to 4.
    fn refill_or_take_built(&self, caught: &mut Caught) -> Result<NonNull<u8>, AllocError> {
        match self.refill(caught) {
            Err(AllocError::Hook) if !caught.is_some() => self.take_built(caught),
            settled => settled,
        }
    }

    /// Step 4: free items of this zone on other CPUs may hold the memory that `init` did not get, or held it until
    /// their `fini` a moment ago.
    #[cold]
    fn take_built(&self, caught: &mut Caught) -> Result<NonNull<u8>, AllocError> {
        self.counts.shortages.inc();
        for looks in 0..LOOKS_MAX {
            let finalised = self.counts.finalised.get();
            match self.refill(caught) {
                Err(AllocError::Hook) if !caught.is_some() => {}
                settled => return settled,
            }
            if !self.gather_built() && self.counts.finalised.get() == finalised {
                break;
            }
            if looks > 0 {
                wait(looks);
            }
        }
        Err(AllocError::Hook)
    }

    /// Step 5: all free items come back to the keg; the items that are then out are live.
    #[cold]
    fn take_from_all(
        &self,
        urgency: Urgency,
        caught: &mut Caught,
    ) -> Result<NonNull<u8>, AllocError> {
        self.counts.shortages.inc();
        let mut reason = AllocError::NoMemory;
        for looks in 0..LOOKS_MAX {
            self.keg.close();
            match self.keg.take_last(urgency) {
                LastAttempt::Item(item) => return self.taken_directly(item, caught),
                LastAttempt::Failed(error) => return Err(error),
                LastAttempt::Again(error) => reason = error,
            }
            wait(looks);
        }
        Err(reason)
    }

    /// An item that came from the keg past the buckets.
    fn taken_directly(
        &self,
        item: NonNull<u8>,
        caught: &mut Caught,
    ) -> Result<NonNull<u8>, AllocError> {
        self.count_out(1);
        self.unpoison(&[item]);
        if self.initialise(&[item], caught) == 0 {
            self.give_to_keg(&[item], false, caught);
            return Err(AllocError::Hook);
        }
        self.counts.direct.inc();
        self.sampler.refilled(1);
        Ok(item)
    }

    fn unpoison(&self, items: &[NonNull<u8>]) {
        items.iter().for_each(|&item| self.unpoison_item(item));
        items.iter().for_each(|&item| self.check_trash(item));
    }

    #[cold]
    pub(crate) fn fail<T>(&self, error: AllocError) -> Result<T, AllocError> {
        self.counts.failures.inc();
        Err(error)
    }

    /// Counts this thread as inside until the result is dropped. The caller's zone must have a handle or a live item.
    pub(crate) fn inside(&self) -> Inside<'_> {
        self.enter();
        Inside(self)
    }
}

/// Counts a thread as inside a zone until it is dropped.
pub(crate) struct Inside<'a>(&'a ZoneInner);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // SAFETY: entered by `inside`; a handle or a live item keeps the zone for the borrow, so
        // this does not end it.
        unsafe { ZoneInner::leave(NonNull::from(self.0)) };
    }
}

/// Lets other threads run: yields in the first waits, naps in later ones, since a thread that carries free items may be
/// preempted on another CPU. The caller may hold locks, of a connection for example.
fn wait(looks: usize) {
    if looks <= YIELDS_MAX {
        thread::yield_now();
    } else {
        thread::nap(NAP);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_may_nap_while_its_caller_holds_a_lock() {
        // Breaks when WITNESS refuses the nap: a full pool on a loaded machine would end the process.
        static CLASS: kern::LockClass = kern::LockClass::new("lock of a caller", kern::order::CONN);
        let lock = kern::Mutex::new(&CLASS, ());
        let _held = lock.lock();
        wait(YIELDS_MAX + 1);
    }
}
