//! Samples: a few items whose allocation is remembered, so that a [census](crate::Census) can say
//! who holds what, and how long, in a program that runs at full speed.
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
//! A sampled item is handed out in the slow path only, where a CPU's bucket was empty: once in so
//! many refills ([`ZoneBuilder::sample_every`](crate::ZoneBuilder::sample_every)). A thread that
//! frees what it takes never gets there, and neither pays nor is sampled; who takes more than he
//! gives back is sampled in proportion. The *weight* of a sample is the number of items that
//! refills have brought since the sample before it: it stands for those.
//!
//! Two things would bend the picture. An allocation that is freed at once is the one that empties
//! the bucket, more often than one that stays: therefore a sample that dies before the next refill
//! hands its turn, and its weight, to the next allocation, once. (Who takes and frees in runs
//! longer than what stays between them still stands before the others: then much of the census is
//! unaccounted for, and it says so.) And samples that stay use the slots up: each time half of
//! those left are gone, samples become half as many and weigh twice as much.
//!
//! A queue that one thread fills and empties lives on what its CPU has cached, and its old samples
//! die while no refill brings new ones. So a sample that grew old ([`OLD`]) is followed by another:
//! the CPU's bucket is put aside, and the next allocation there is the sample, with the same weight.
//!
//! Being few and exact, samples also find double frees and frees into the wrong zone at once, with
//! both sites.
//!
//! Called by: `alloc.rs`, `raw_ref.rs`, `local.rs`, `reclaim.rs`, `census.rs`. Calls: `arena.rs`,
//! `keg.rs`, hooks.
//! Invariants: a sampled item is never in a bucket or a slab's bitmap; it counts in `out` of the
//! keg and `holds` of its zone like any other; a record is live exactly as long as its item is.
//! Locks: `uma samples` (rank `STATS`), taken inside of any other, held for a few stores.
//! Sources: tcmalloc's sampled page heap and GWP-ASan, for the range that tells a sample; seed 004
//! section 5.4 (limits are reached, and somebody must find out by whom).

use crate::arena::Arena;
use crate::asan;
use crate::bitset::Bitset;
use crate::depot::Room;
use crate::geometry::{Geometry, Place};
use crate::inner::Inner;
use crate::purge::Purged;
use core::panic::Location;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use kern::lock::LockClass;
use kern::order;
use kern::prim::Mutex;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

static SAMPLES_CLASS: LockClass = LockClass::new("uma samples", order::STATS);

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

/// When it is a zone's turn.
pub(crate) struct Sampler {
    /// Refills between samples; 0: never.
    every: u32,
    /// Since the last sample: refills in the low bits, items they brought above. Relaxed: numbers
    /// that order nothing; whoever sets it to 0 has the turn.
    since: AtomicU64,
    /// 1: the turn was handed on by a sample that died young. It may not be handed on again.
    handed_on: AtomicU32,
}

const REFILL_BITS: u32 = 24;
const REFILLS: u64 = (1 << REFILL_BITS) - 1;

impl Sampler {
    pub(crate) fn new(every: u32) -> Self {
        Self {
            every,
            since: AtomicU64::new(0),
            handed_on: AtomicU32::new(0),
        }
    }

    /// Notes that `items` came from behind a CPU's buckets.
    #[inline]
    pub(crate) fn refilled(&self, items: usize) {
        if self.every == 0 || self.since.load(Relaxed) & REFILLS == REFILLS {
            return;
        }
        self.since
            .fetch_add((items as u64) << REFILL_BITS | 1, Relaxed);
    }

    /// Items that no sample stands for yet.
    pub(crate) fn unsampled(&self) -> u64 {
        self.since.load(Relaxed) >> REFILL_BITS
    }

    /// Takes the turn, if it is one: the weight of the sample, and whether it may hand it on.
    fn claim(&self, shift: u32) -> Option<(u64, bool)> {
        let since = self.since.load(Relaxed);
        if self.every == 0 || since & REFILLS < self.threshold(shift) {
            return None;
        }
        self.since
            .compare_exchange(since, 0, Relaxed, Relaxed)
            .ok()?;
        let was_handed_on = self.handed_on.swap(0, Relaxed) != 0;
        Some((since >> REFILL_BITS, !was_handed_on))
    }

    /// Hands a turn on to whoever needs a refill next.
    fn hand_on(&self, weight: u64, shift: u32) {
        let turn = weight << REFILL_BITS | self.threshold(shift);
        self.since.fetch_add(turn, Relaxed);
    }

    fn threshold(&self, shift: u32) -> u64 {
        (u64::from(self.every) << shift.min(16)).min(REFILLS / 2)
    }
}

/// The samples of the zones on one keg.
pub(crate) struct Samples {
    slots: usize,
    /// How often the free slots have halved; [`NO_SLOTS`]: there are none. Written under the lock.
    shift: AtomicU32,
    table: Mutex<Table>,
}

const NO_SLOTS: u32 = u32::MAX;

#[derive(Default)]
struct Table {
    /// One for each slot, once the slabs are open.
    records: Vec<Record>,
    free: Bitset,
    /// Slots whose memory may be resident: those below.
    touched: usize,
    /// Memory is being given back: no slot may be taken.
    purging: bool,
    /// A slot was taken since somebody last asked whether they lie idle.
    used: bool,
}

/// What is known of one slot.
#[derive(Clone, Default)]
struct Record {
    state: State,
    /// The address of the zone, as a name.
    zone: usize,
    sample: Option<Sample>,
    /// Where the item that was here before was freed.
    freed_at: Option<Site>,
    may_hand_on: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    Live,
    /// Between the caller's free and the end of the hooks.
    Ending,
}

/// A sampled item's life so far.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) site: Site,
    pub(crate) since: Instant,
    pub(crate) thread: Thread,
    /// Items that it stands for.
    pub(crate) weight: u64,
}

/// What is wrong with the free of something in the range of the samples.
enum Misuse {
    NotAnItem,
    /// Where it was freed.
    Twice(Option<Site>),
    /// Where it was taken.
    OtherZone(Option<Site>),
}

impl Samples {
    /// No samples yet, in the sample slabs of an arena, if there is one.
    pub(crate) fn new(arena: Option<&Arena>) -> Self {
        let slots = arena.map_or(0, |a| a.sample_range().len() * a.geometry().per_slab());
        Self {
            slots,
            shift: AtomicU32::new(if slots == 0 { NO_SLOTS } else { 0 }),
            table: Mutex::new(&SAMPLES_CLASS, Table::default()),
        }
    }

    /// Whether there can be any.
    pub(crate) fn has_slots(&self) -> bool {
        self.slots > 0
    }

    /// The lowest free slot.
    fn take(&self, arena: &Arena, record: Record) -> Option<NonNull<u8>> {
        let mut table = self.table.lock();
        if table.records.is_empty() && !table.open(arena, self.slots) {
            // Where the system has no memory for samples it is not asked again.
            self.shift.store(NO_SLOTS, Relaxed);
            return None;
        }
        let slot = table.free.first().filter(|_| !table.purging)?;
        table.free.remove(slot);
        table.touched = table.touched.max(slot + 1);
        table.used = true;
        let freed_at = table.records[slot].freed_at;
        table.records[slot] = Record { freed_at, ..record };
        self.shift.store(self.shift_of(table.free.len()), Relaxed);
        Some(arena.item_at(place_of(arena, slot)))
    }

    fn shift_of(&self, free: usize) -> u32 {
        self.slots.checked_div(free).map_or(NO_SLOTS, usize::ilog2)
    }

    /// Marks the item as on its way back, or says what is wrong with that.
    fn begin_free(
        &self,
        arena: &Arena,
        item: NonNull<u8>,
        zone: usize,
        freed_at: Option<Site>,
    ) -> Result<(), Misuse> {
        if !arena.is_item(item) {
            return Err(Misuse::NotAnItem);
        }
        let slot = slot_of(arena, item);
        let mut table = self.table.lock();
        let record = table.records.get_mut(slot).ok_or(Misuse::NotAnItem)?;
        if record.state != State::Live {
            return Err(Misuse::Twice(record.freed_at));
        }
        if record.zone != zone {
            return Err(Misuse::OtherZone(record.sample.as_ref().map(|s| s.site)));
        }
        record.state = State::Ending;
        record.freed_at = freed_at;
        Ok(())
    }

    /// The slot is free again. The sample, and whether it may hand its turn on.
    fn end_free(&self, arena: &Arena, item: NonNull<u8>) -> Option<(Sample, bool)> {
        let slot = slot_of(arena, item);
        let mut table = self.table.lock();
        table.free.insert(slot);
        self.shift.store(self.shift_of(table.free.len()), Relaxed);
        let record = &mut table.records[slot];
        record.state = State::Free;
        let sample = record.sample.take()?;
        Some((sample, record.may_hand_on))
    }

    /// The live samples of a zone.
    #[cfg(not(feature = "invariants"))]
    pub(crate) fn of_zone(&self, zone: NonNull<Inner>) -> Vec<Sample> {
        let table = self.table.lock();
        let live = table
            .records
            .iter()
            .filter(|record| record.state == State::Live && record.zone == zone.addr().get());
        live.filter_map(|record| record.sample.clone()).collect()
    }

    /// Bytes that samples may have made resident.
    pub(crate) fn bytes(&self, arena: &Arena) -> usize {
        let touched = self.table.lock().touched;
        (touched * arena.geometry().footprint()).next_multiple_of(arena.geometry().unit_bytes())
            * usize::from(touched > 0)
    }

    /// As [`purge`](Self::purge), if no sample was taken since the last time.
    pub(crate) fn purge_idle(&self, arena: &Arena) -> Purged {
        if core::mem::take(&mut self.table.lock().used) {
            return Purged::default();
        }
        self.purge(arena)
    }

    /// Gives the pages of slabs behind the last sample back.
    pub(crate) fn purge(&self, arena: &Arena) -> Purged {
        let per_slab = arena.geometry().per_slab();
        let (keep, touched) = {
            let mut table = self.table.lock();
            let used = table.records.iter().rposition(|r| r.state != State::Free);
            let keep = used.map_or(0, |slot| slot / per_slab + 1);
            if table.purging || table.touched <= keep * per_slab {
                return Purged::default();
            }
            table.purging = true;
            (keep, table.touched.div_ceil(per_slab))
        };
        let first = arena.sample_range().start;
        let slab_bytes = arena.geometry().slab_bytes();
        let run = (first + keep) * slab_bytes..(first + touched) * slab_bytes;
        // SAFETY: no slot there was in use, and `purging` keeps them from being taken.
        let purged = unsafe { arena.give_back(&[run], &[]) };
        let mut table = self.table.lock();
        table.purging = false;
        table.touched = keep * per_slab;
        purged
    }
}

impl Table {
    /// Gets the slabs and the records; says whether there was memory for both.
    fn open(&mut self, arena: &Arena, slots: usize) -> bool {
        let slabs = arena.sample_range().len();
        if self.free.grow(slots).is_err()
            || self.records.try_reserve_exact(slots).is_err()
            || arena.open_samples(slabs) < slabs
        {
            return false;
        }
        self.records.resize(slots, Record::default());
        (0..slots).for_each(|slot| self.free.insert(slot));
        true
    }
}

fn place_of(arena: &Arena, slot: usize) -> Place {
    let per_slab = arena.geometry().per_slab();
    Place {
        slab: arena.sample_range().start + slot / per_slab,
        slot: slot % per_slab,
    }
}

/// The item is one of the sample slabs.
fn slot_of(arena: &Arena, item: NonNull<u8>) -> usize {
    let place = arena.place_of(item);
    (place.slab - arena.sample_range().start) * arena.geometry().per_slab() + place.slot
}

impl Inner {
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
        let record = Record {
            state: State::Live,
            zone: NonNull::from(self).addr().get(),
            sample: Some(sample),
            freed_at: None,
            may_hand_on,
        };
        let Some(item) = self.keg.samples.take(arena, record) else {
            self.keg.give_sample();
            return None;
        };
        self.took(1);
        asan::unpoison(item, self.layout.size());
        self.check_trash(item);
        if self.initialise(&[item]) == 0 {
            self.put_sample(arena, item);
            return None;
        }
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
        inner.finalise(item);
        let arena = inner.keg.arena();
        let freed = arena.and_then(|arena| inner.put_sample(arena, item));
        if let Some((sample, may_hand_on)) = freed {
            inner.follow(&sample, may_hand_on);
        }
        // SAFETY: entered above; nothing is used after.
        unsafe { Self::leave(zone) };
    }

    /// An item that went through no `init`, or through `fini` since, goes back into its slot.
    fn put_sample(&self, arena: &Arena, item: NonNull<u8>) -> Option<(Sample, bool)> {
        self.fill_trash(item);
        asan::poison(item, self.layout.size());
        let sample = self.keg.samples.end_free(arena, item);
        self.keg.give_sample();
        self.gave(1);
        sample
    }

    /// Lets another sample follow the one that was freed, if that tells more.
    fn follow(&self, freed: &Sample, may_hand_on: bool) {
        let shift = self.keg.samples.shift.load(Relaxed);
        if freed.since.elapsed() >= OLD {
            self.sampler.hand_on(freed.weight, shift);
            self.put_bucket_aside();
        } else if may_hand_on && self.sampler.unsampled() == 0 {
            // Dead before the next refill: it stood for nobody who stays.
            self.sampler.handed_on.store(1, Relaxed);
            self.sampler.hand_on(freed.weight, shift);
        }
    }

    /// Lets the next allocation on this CPU find its bucket empty: what it holds is for the one
    /// after that.
    fn put_bucket_aside(&self) {
        let Room::Bucket(mut bucket) = self.depot.lock().make_room(None) else {
            return;
        };
        let popped = self.percpu.pop_loaded(bucket.spare());
        // SAFETY: pop_loaded wrote that many into the front of the spare entries.
        unsafe { bucket.added(popped) };
        // The bucket they left counts them as given out; no caller has seen them.
        self.counts.refused.add(popped as u64);
        self.shelve(bucket);
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
