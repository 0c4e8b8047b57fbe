//! Allocations and frees that are sampled: an item of the sample slabs goes out and comes back.
//!
//! The reason, the choice and the weights are in `sample.rs`.

use crate::arena::Arena;
use crate::asan;
use crate::caught::Caught;
use crate::depot::Room;
use crate::sample::{AllocSample, Misuse, NO_SLOTS, Site, SlotRecord, SlotState, Where};
use crate::zone_inner::ZoneInner;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// When a sample that lived this long is freed, another one follows it. Thus a slot costs a CPU at
/// most ten visits a second.
const OLD: Duration = Duration::from_millis(100);

impl ZoneInner {
    /// An item of the sample range, if it is this zone's turn, an item is free there, and the limit
    /// allows it; it went through `init` like any other.
    pub(crate) fn sample(&self, site: Option<Site>) -> Option<NonNull<u8>> {
        let samples = &self.keg.samples;
        let (site, arena) = (site?, self.keg.arena()?);
        let shift = samples.shift.load(Relaxed);
        if shift == NO_SLOTS {
            return None;
        }
        let (weight, may_hand_on) = self.sampler.claim(shift)?;
        let _inside = self.inside();
        let item = self.take_sample(arena, site, weight + 1, may_hand_on);
        if item.is_none() {
            self.sampler.hand_on(weight, shift);
        }
        item
    }

    fn take_sample(
        &self,
        arena: &Arena,
        site: Site,
        weight: u64,
        may_hand_on: bool,
    ) -> Option<NonNull<u8>> {
        if !self.keg.take_sample() {
            return None;
        }
        let sample = AllocSample {
            site,
            since: Instant::now(),
            thread: thread::current(),
            weight,
        };
        let record = SlotRecord {
            state: SlotState::Live,
            zone: NonNull::from(self).addr().get(),
            sample: Some(sample),
            freed_at: None,
            may_hand_on,
        };
        let Some(item) = self.keg.samples.take(arena, record) else {
            self.keg.give_sample();
            return None;
        };
        self.count_out(1);
        asan::unpoison(item, self.layout.size());
        self.check_trash(item);
        let mut caught = Caught::default();
        if self.initialise(&[item], &mut caught) == 0 {
            self.put_sample(arena, item, &mut caught);
            caught.resume();
            return None;
        }
        caught.resume();
        self.counts.direct.inc();
        Some(item)
    }

    /// Marks a sampled item as coming back. Panics with a report if it is not a live one.
    pub(crate) fn begin_free_sample(&self, item: NonNull<u8>, site: Option<Site>) {
        let Some(arena) = self.keg.arena().filter(|arena| arena.owns(item)) else {
            self.foreign(item)
        };
        let zone = NonNull::from(self).addr().get();
        let name = self.name;
        match self.keg.samples.begin_free(arena, item, zone, site) {
            Ok(()) => {}
            Err(Misuse::NotAnItem) => self.foreign(item),
            Err(Misuse::Twice(before)) => panic!(
                "double free: {item:p} of zone '{name}' is free already: freed at {}, and before \
                 at {}",
                Where(site),
                Where(before)
            ),
            Err(Misuse::OtherZone(taken)) => panic!(
                "foreign free: {item:p}, freed at {} into zone '{name}', was taken at {} from \
                 another zone on the same slabs",
                Where(site),
                Where(taken)
            ),
        }
    }

    /// Puts a sampled item back whose free has begun: through `fini`, into its slot.
    ///
    /// # Safety
    /// `item` is of `zone`, which it keeps until the call.
    #[cold]
    pub(crate) unsafe fn end_free_sample(zone: NonNull<Self>, item: NonNull<u8>) {
        // SAFETY: the item keeps the zone until its free, and from here on this thread does too.
        let inner = unsafe { zone.as_ref() };
        inner.enter();
        let mut caught = Caught::default();
        inner.finalise(item, &mut caught);
        let arena = inner.keg.arena();
        let freed = arena.and_then(|arena| inner.put_sample(arena, item, &mut caught));
        if let Some((sample, may_hand_on)) = freed {
            inner.follow(&sample, may_hand_on, &mut caught);
        }
        // SAFETY: entered above, and the zone is not used after.
        caught.call(|| unsafe { Self::leave(zone) });
        caught.resume();
    }

    /// An item that went through no `init`, or through `fini` since, goes back into its slot.
    fn put_sample(
        &self,
        arena: &Arena,
        item: NonNull<u8>,
        caught: &mut Caught,
    ) -> Option<(AllocSample, bool)> {
        self.fill_trash(item);
        asan::poison(item, self.layout.size());
        let sample = self.keg.samples.end_free(arena, item);
        caught.call(|| self.keg.give_sample());
        self.count_returned(1);
        sample
    }

    /// Lets another sample follow the freed one, if that improves the estimate.
    fn follow(&self, freed: &AllocSample, may_hand_on: bool, caught: &mut Caught) {
        let shift = self.keg.samples.shift.load(Relaxed);
        if freed.since.elapsed() >= OLD {
            self.sampler.hand_on(freed.weight, shift);
            self.put_bucket_aside(caught);
        } else if may_hand_on && self.sampler.unsampled() == 0 {
            // Freed before the next refill: it represents no item that stays.
            self.sampler.handed_on.store(1, Relaxed);
            self.sampler.hand_on(freed.weight, shift);
        }
    }

    /// Lets the next allocation on this CPU find its bucket empty, if the thread stays on it meanwhile; the bucket's
    /// items serve the allocations after that.
    fn put_bucket_aside(&self, caught: &mut Caught) {
        let Room::Bucket(mut bucket) = self.depot.lock().make_room(None) else {
            return;
        };
        let mut popped = 0;
        for place in bucket.spare() {
            let Some(item) = self.percpu.pop() else {
                break;
            };
            place.write(item);
            popped += 1;
        }
        // SAFETY: the first so many spare entries were just filled with free items.
        unsafe { bucket.added(popped) };
        // The bucket that they left counts them as allocated, but no caller has got them.
        self.counts.refused.add(popped as u64);
        self.shelve(bucket, caught);
    }
}
