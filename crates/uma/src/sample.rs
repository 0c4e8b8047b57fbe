//! Samples: a few items whose allocation is recorded, so that a [census](crate::Census) can tell
//! which call sites hold how many items, and how long, in a program that runs at full speed.
//!
//! An item that a bucket gives out leaves no trace: that is what makes it cheap. So some items are
//! made of other stuff. The arena keeps a few slabs behind its normal range; an item from there
//! fails the range check that every free makes anyway, and the cold branch behind that check, where
//! otherwise a foreign pointer is reported, is where a sampled item comes back:
//!
//! ```text
//!   | slab 0 | slab 1 | ...            | sample slab | sample slab |
//!   |<------- may_own: the fast way -->|<-- a record for each item: site, time, thread, weight
//! ```
//!
//! An item is sampled only in the slow path, when a CPU's bucket is empty: once in a given number of
//! refills ([`ZoneBuilder::sample_every`](crate::ZoneBuilder::sample_every)). A thread that
//! frees what it takes never gets there, and neither pays nor is sampled; a thread that takes more than it
//! frees is sampled in proportion. The *weight* of a sample is the number of items that
//! refills have brought since the sample before it.
//!
//! Two effects would distort the census. First, the allocation that empties a bucket is more often one that is freed
//! at once than one that stays. So a sample that is freed before the next refill passes its turn, and its weight, to
//! the next allocation, once. Bias remains for threads whose runs of allocations and frees are longer than the set
//! that stays: the census reports their share as unaccounted for. Second, samples that stay use the slots up. So each
//! time half of the remaining slots are taken, samples become half as frequent and weigh twice as much.
//!
//! A queue that one thread fills and empties lives on what its CPU has cached, and its old samples
//! die while no refill brings new ones. So a sample that grew old ([`OLD`]) is followed by another:
//! the CPU's bucket is put aside, and the next allocation there is the sample, with the same weight.
//!
//! Being few and exact, samples also find double frees and frees into the wrong zone at once, with
//! both sites.
//!
//! ```text
//!   sample.rs   an item's way    sample/turn.rs   when it is a zone's turn    sample/table.rs   what is known of each
//! ```
//!
//! Invariants: a sampled item is never in a bucket or a slab's bitmap; it counts in `out` of the keg and `holds` of
//! its zone like any other; a record is live exactly as long as its item is.
//! Locks: `uma samples` (rank `STATS`), taken inside of any other, held for a few stores.
//! Sources: tcmalloc's sampled page heap and GWP-ASan, for the address range that identifies a sample; seed 004
//! section 5.4 (if a limit is reached, there must be a way to find the call site).

use crate::arena::Arena;
use crate::asan;
use crate::caught::Caught;
use crate::depot::Room;
use crate::geometry::Geometry;
use crate::zone_inner::ZoneInner;
use core::panic::Location;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};
use table::{Misuse, NO_SLOTS, SlotRecord, SlotState};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use table::TableHeld;
pub(crate) use table::{Sample, Samples};
pub(crate) use turn::Sampler;

mod table;
mod turn;

/// Where in a program something was asked for.
pub(crate) type Site = &'static Location<'static>;

/// Every so many refills an item is sampled, unless the builder says otherwise. Interpreters and
/// schedule checkers pay for reserved memory, and do without.
pub(crate) const SAMPLE_EVERY_DEFAULT: u32 = if cfg!(any(miri, loom)) { 0 } else { 16 };
/// Samples that may be live at once, if their slabs are not larger than the next.
const SLOTS_WANTED: usize = 256;
/// Address space for samples.
const SLABS_BYTES_MAX: usize = 1 << 20;

/// How many slabs to reserve for samples of items that lie so. Huge pages would come whole for one
/// sample, so there are none then.
pub(crate) fn sample_slabs(geo: &Geometry) -> usize {
    match geo.huge() {
        true => 0,
        false => (SLOTS_WANTED.div_ceil(geo.per_slab())).min(SLABS_BYTES_MAX / geo.slab_bytes()),
    }
}

/// A sample that lived so long is followed by another. Thus a slot costs a CPU at most ten visits
/// a second.
const OLD: Duration = Duration::from_millis(100);

impl ZoneInner {
    /// An item of the sample range, if it is this zone's turn, one is free there, and the limit
    /// allows it; been through `init` like any other.
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
        let sample = Sample {
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

    /// Marks a sampled item as coming back. What is not one ends in a panic that says what it is.
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
    /// `zone` is kept by something until the call, at least by `item`.
    #[cold]
    pub(crate) unsafe fn end_free_sample(zone: NonNull<Self>, item: NonNull<u8>) {
        // SAFETY: the item keeps the zone until it is put down, and from here on so do we.
        let inner = unsafe { zone.as_ref() };
        inner.enter();
        let mut caught = Caught::default();
        inner.finalise(item, &mut caught);
        let arena = inner.keg.arena();
        let freed = arena.and_then(|arena| inner.put_sample(arena, item, &mut caught));
        if let Some((sample, may_hand_on)) = freed {
            inner.follow(&sample, may_hand_on, &mut caught);
        }
        // SAFETY: entered above; nothing is used after.
        caught.call(|| unsafe { Self::leave(zone) });
        caught.resume();
    }

    /// An item that went through no `init`, or through `fini` since, goes back into its slot.
    fn put_sample(
        &self,
        arena: &Arena,
        item: NonNull<u8>,
        caught: &mut Caught,
    ) -> Option<(Sample, bool)> {
        self.fill_trash(item);
        asan::poison(item, self.layout.size());
        let sample = self.keg.samples.end_free(arena, item);
        caught.call(|| self.keg.give_sample());
        self.count_returned(1);
        sample
    }

    /// Lets another sample follow the one that was freed, if that tells more.
    fn follow(&self, freed: &Sample, may_hand_on: bool, caught: &mut Caught) {
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

    /// Lets the next allocation on this CPU find its bucket empty: what it holds is for the one
    /// after that.
    fn put_bucket_aside(&self, caught: &mut Caught) {
        let Room::Bucket(mut bucket) = self.depot.lock().make_room(None) else {
            return;
        };
        let popped = self.percpu.pop_loaded(bucket.spare());
        // SAFETY: pop_loaded wrote that many into the front of the spare entries.
        unsafe { bucket.added(popped) };
        // The bucket they left counts them as given out; no caller has seen them.
        self.counts.refused.add(popped as u64);
        self.shelve(bucket, caught);
    }
}

/// A site, or that it is not known.
pub(crate) struct Where(pub(crate) Option<Site>);

impl core::fmt::Display for Where {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(site) => write!(f, "{site}"),
            None => f.write_str("a place that was not noted"),
        }
    }
}

#[cfg(test)]
mod tests;
