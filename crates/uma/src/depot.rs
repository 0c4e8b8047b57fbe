//! The depot: whole buckets between the CPU that fills them and the CPU that empties them.
//!
//! If one CPU allocates and another one frees, items pass through the depot a bucket at a time: the lock is taken
//! once for as many items as a bucket holds.
//!
//! - A CPU whose own buckets are here gets the last one, whose items are most likely still in its cache.
//! - Items that another CPU freed are in that CPU's cache, and each line must be fetched from there. So these buckets
//!   go first in, first out: much of the first one has been evicted to the shared cache, from which a line comes in
//!   half the time.
//!
//! Rejected: to keep a second-level cache full of fresh items back for that. A pipe of 512 items of 2 KiB, all of it
//! written and read, then takes 50 ns an item instead of 118; but TCP between two threads, whose socket buffers hold
//! enough items anyway, loses a fifth. Instead the freeing CPU claims the item's line (`cacheline.rs`), once the depot
//! has found that items go from CPU to CPU (`depot/cross_cpu.rs`).
//!
//! ```text
//!   a CPU that frees  --- full --->  [ filled ]  --- filled --->  a CPU that allocates
//!                     <-- room ----  [ empty  ]  <-- empty -----
//! ```
//!
//! Buckets start small, so that an idle zone holds little. They double when the depot is found locked, or has had
//! many visits since they last grew; a trim halves them if no thread has visited since the last one. The depot has a
//! budget of items: the surplus of a spike goes on to the slabs at once, where its pages can be given back.
//!
//! `models/exchange.rs` checks that no bucket is lost in an exchange, or in two places.
//!
//! # The cost of a visit
//!
//! Two CPUs that hand buckets to each other wait for every cache line that the other CPU has written: 33 ns each if
//! they share a cache, 160 ns if they don't. So all fields that every visit writes are on one line with the lock, also
//! the count of threads inside the zone; and buckets are on [lists](BucketList) that need only that line and the
//! buckets themselves. The fields behind that line change rarely.
//!
//! Invariants ([`Depot::is_valid`]): `all` names every bucket of the zone, wherever it is, and each knows
//! its place there. A closed depot takes no items.
//!
//! Locks: `uma depot` (rank `ZONE`), inside `uma keg members`, outside `uma keg`.
//! Source: seed 004 section 5.3 (the zone's bucket layer), Bonwick and Adams 2001 (working set).

use crate::bucket::{Bucket, BucketList, BucketStack, Owned, peek};
use crate::percpu::current_cpu;
#[cfg(not(any(loom, shuttle)))]
use core::mem::offset_of;
use core::ptr::NonNull;
use cross_cpu::CrossCpuDetector;
use kern::lock::LockClass;
use kern::order;
use kern::prim::{AtomicU64, Mutex, MutexGuard};
use seen_slots::SeenSlots;
pub(crate) use seen_slots::SlotUse;

mod cross_cpu;
mod seen_slots;

static DEPOT_CLASS: LockClass = LockClass::new("uma depot", order::ZONE);

/// The size of the first buckets.
const BUCKET_ITEMS_FIRST: usize = 16;
/// Visits after which buckets double.
const VISITS_TO_GROW: u32 = 64;

/// The part of a zone that several CPUs write, on cache lines of its own.
#[repr(C, align(128))]
pub(crate) struct DepotSlot {
    /// (a) The count that keeps the zone; see `zone_inner.rs`. A thread that visits the depot writes it too.
    pub(crate) holds: AtomicU64,
    depot: Mutex<Depot>,
}

/// The fields that every visit writes are on the first line.
#[cfg(not(any(loom, shuttle)))]
const _: () = {
    let before = offset_of!(DepotSlot, depot) + size_of::<Mutex<()>>();
    assert!(before + offset_of!(Depot, capacity) == 64);
};

impl DepotSlot {
    /// A depot without buckets. Buckets grow up to `bucket_items`, or `cross_cpu_items` where items go from CPU to
    /// CPU; about `items_max` items stay here. `holds` is the zone's initial count.
    pub(crate) fn new(
        bucket_items: usize,
        cross_cpu_items: usize,
        items_max: usize,
        holds: u64,
    ) -> Self {
        let depot = Depot::new(bucket_items, cross_cpu_items, items_max);
        Self {
            holds: AtomicU64::new(holds),
            depot: Mutex::new(&DEPOT_CLASS, depot),
        }
    }

    /// Locks the depot. If it is locked already, bigger buckets would pay, so they grow.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Depot> {
        if let Some(depot) = self.depot.try_lock() {
            return depot;
        }
        let mut depot = self.depot.lock();
        depot.contentions += 1;
        depot.grow();
        depot
    }
}

#[cfg(not(any(loom, shuttle)))]
impl DepotSlot {
    /// Locks the depot beside those of other zones, for a fork.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Depot> {
        self.depot.lock_for_fork()
    }
}

/// The result of a visit with an empty bucket.
#[must_use]
pub(crate) enum Refill {
    /// A bucket with items.
    Filled(Owned),
    /// No items here; a bucket to fill from the slabs, if there is memory for one.
    Empty(Option<Owned>),
    /// The zone is closed: the caller must go to the keg, without a bucket.
    Closed,
}

/// The result of a visit for room.
#[must_use]
pub(crate) enum Room {
    /// A bucket with room.
    Bucket(Owned),
    /// The depot holds enough: the items of this full bucket belong in the slabs, and then it has room.
    Spill(Owned),
    /// No memory for a bucket.
    Nothing,
    /// The zone is closed: the caller must bring the item, and those of this bucket, to the keg.
    Closed(Option<Owned>),
}

/// Buckets that belong to no CPU. The fields that every visit writes come first.
#[repr(C)]
pub(crate) struct Depot {
    filled: BucketList,
    empty: BucketStack,
    /// Visits so far, modulo 2^32.
    visits: u32,
    /// The CPU that last brought a full bucket.
    filler: u32,
    capacity: usize,
    capacity_max: usize,
    cross_cpu_max: usize,
    /// Items beyond which full buckets are emptied into the slabs.
    items_max: usize,
    /// The fewest filled buckets since the last trim: that many were not needed.
    filled_min: usize,
    closed: bool,
    cross_cpu: CrossCpuDetector,
    /// The visits when buckets last grew, and at the last trim.
    visits_at_growth: u32,
    visits_at_trim: u32,
    pub(crate) contentions: u64,
    /// Empty buckets that are too small by now. Their memory goes with the next trim.
    outgrown: BucketStack,
    /// Every bucket of the zone: the statistics add them up.
    all: Vec<NonNull<Bucket>>,
    /// Items handed out of buckets that are gone.
    popped_before: u64,
    seen: SeenSlots,
    /// Failures that a test has ordered.
    #[cfg(feature = "invariants")]
    pub(crate) bucket_point: crate::fail::Point,
}

// SAFETY: the lists own their buckets, which do not depend on a thread; `all` only names some, and is followed under
// the depot's lock alone, under which buckets are made and freed.
unsafe impl Send for Depot {}

impl Depot {
    fn new(capacity_max: usize, cross_cpu_max: usize, items_max: usize) -> Self {
        Self {
            filled: BucketList::new(),
            empty: BucketStack::new(),
            visits: 0,
            filler: 0,
            capacity: capacity_max.min(BUCKET_ITEMS_FIRST),
            capacity_max,
            cross_cpu_max,
            items_max,
            filled_min: 0,
            closed: false,
            cross_cpu: CrossCpuDetector::new(),
            visits_at_growth: 0,
            visits_at_trim: 0,
            contentions: 0,
            outgrown: BucketStack::new(),
            all: Vec::new(),
            popped_before: 0,
            seen: SeenSlots::default(),
            #[cfg(feature = "invariants")]
            bucket_point: crate::fail::Point::default(),
        }
    }

    /// Items that wait here.
    pub(crate) fn len(&self) -> usize {
        self.filled.items()
    }

    /// Items a new bucket holds.
    pub(crate) fn bucket_items(&self) -> usize {
        self.capacity
    }

    /// Closes the depot: it takes no items until it is opened.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Opens the depot.
    pub(crate) fn open(&mut self) {
        self.closed = false;
    }

    /// Whether the depot is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether nearly all items that come here are freed by one CPU and allocated by another.
    pub(crate) fn is_cross_cpu(&self) -> bool {
        self.cross_cpu.is_cross_cpu()
    }

    /// Whether no thread has visited the depot since the last call of [`excess`](Self::excess).
    pub(crate) fn is_idle(&self) -> bool {
        self.visits == self.visits_at_trim
    }

    /// An allocation's visit: an empty bucket for one with items.
    pub(crate) fn refill(&mut self, empty: Option<Owned>) -> Refill {
        self.visited();
        if let Some(filled) = self.next_filled(current_cpu()) {
            return Refill::Filled(self.outgrown(filled, empty));
        }
        if self.closed {
            self.keep_empty(empty);
            return Refill::Closed;
        }
        let bucket = self.with_room(empty);
        Refill::Empty(bucket)
    }

    /// Visit of a free: gives a bucket with room for a full one, if there is one.
    pub(crate) fn make_room(&mut self, full: Option<Owned>) -> Room {
        self.visited();
        if self.closed {
            return Room::Closed(full);
        }
        match full {
            Some(full) if self.len() >= self.items_max => return Room::Spill(full),
            Some(full) => {
                self.filler = current_cpu() as u32;
                self.push(full);
            }
            None => {}
        }
        self.with_room(None).map_or(Room::Nothing, Room::Bucket)
    }

    /// Stores a bucket, or returns it if it has items and the zone is closed.
    pub(crate) fn put(&mut self, bucket: Owned) -> Result<(), Owned> {
        if self.closed && !bucket.is_empty() {
            return Err(bucket);
        }
        self.push(bucket);
        Ok(())
    }

    /// Stores a bucket in any case: the drain that calls this empties the depot next.
    pub(crate) fn push(&mut self, bucket: Owned) {
        if bucket.is_empty() {
            self.empty.push(bucket);
        } else {
            self.filled.push_back(bucket);
        }
    }

    /// The filled bucket for a CPU: the last one if that CPU filled it, as its items are in the CPU's cache; else the
    /// first one, whose items have had the longest time to leave the other CPU's cache.
    fn next_filled(&mut self, cpu: usize) -> Option<Owned> {
        let own = self.filler as usize == cpu;
        let bucket = match own {
            true => self.filled.pop_back(),
            false => self.filled.pop_front(),
        }?;
        self.needed();
        self.cross_cpu.observe(!own);
        Some(bucket)
    }

    /// The filled bucket that came last.
    pub(crate) fn pop_filled(&mut self) -> Option<Owned> {
        let bucket = self.filled.pop_back();
        self.needed();
        bucket
    }

    /// Records the lowest number of filled buckets.
    fn needed(&mut self) {
        if self.filled.len() < self.filled_min {
            self.filled_min = self.filled.len();
        }
    }

    /// Begins a new measurement of the working set. Returns how many filled buckets were not needed since the last
    /// call. If no thread has visited since then, buckets shrink.
    pub(crate) fn excess(&mut self) -> usize {
        if self.is_idle() {
            self.cross_cpu = CrossCpuDetector::new();
            // They must grow again only after `VISITS_TO_GROW` more visits.
            self.visits_at_growth = self.visits;
            self.capacity = (self.capacity / 2).max(self.capacity_max.min(BUCKET_ITEMS_FIRST));
        }
        self.visits_at_trim = self.visits;
        core::mem::replace(&mut self.filled_min, self.filled.len())
    }

    /// Frees the memory of the empty buckets.
    pub(crate) fn free_empty(&mut self) {
        while let Some(bucket) = self.empty.pop().or_else(|| self.outgrown.pop()) {
            let place = bucket.place();
            self.all.swap_remove(place);
            if let Some(&moved) = self.all.get(place) {
                // SAFETY: the buckets that `all` names are alive, and the caller has locked the depot.
                unsafe { Owned::set_place(moved, place) };
            }
            self.popped_before += bucket.popped();
            bucket.free();
        }
        // A list as long as before would keep the memory of the spike.
        self.all.shrink_to_fit();
    }

    /// Whether a CPU has used its buckets since the last call.
    pub(crate) fn saw_again(&mut self, cpu: usize, buckets: [NonNull<Bucket>; 2]) -> SlotUse {
        // SAFETY: buckets are freed under this depot's lock, which the caller holds.
        unsafe { self.seen.compare(cpu, buckets) }
    }

    /// Items in all buckets of the zone, and all items ever taken from them. In a busy zone the two numbers are from
    /// slightly different moments.
    pub(crate) fn sums(&self) -> (usize, u64) {
        let each = self.all.iter().map(|&bucket| {
            // SAFETY: buckets are freed under this depot's lock, which the caller holds, and
            // leave `all` then.
            unsafe { peek(bucket) }
        });
        each.fold((0, self.popped_before), |(items, popped), (len, pops)| {
            (items + len, popped.wrapping_add(pops))
        })
    }

    /// Whether the count is right and every bucket is on the right list.
    pub(crate) fn is_valid(&self) -> bool {
        let places = || self.all.iter().enumerate();
        self.filled.lens().sum::<usize>() == self.filled.items()
            && self.filled.lens().all(|len| len > 0)
            && self.idle_lens().all(|len| len == 0)
            && self.filled.len() + self.idle_lens().count() <= self.all.len()
            // SAFETY: the buckets that `all` names are alive, and the caller has locked the depot.
            && places().all(|(place, &bucket)| unsafe { Owned::place_of(bucket) } == place)
    }

    /// Whether every bucket of the zone is here and empty.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(crate) fn has_all(&self) -> bool {
        self.filled.len() == 0 && self.idle_lens().count() == self.all.len()
    }

    /// How many buckets the zone has, wherever they are.
    #[cfg(all(test, not(any(loom, shuttle))))]
    fn buckets(&self) -> usize {
        self.all.len()
    }

    /// The number of items of each unused bucket.
    fn idle_lens(&self) -> impl Iterator<Item = usize> {
        self.empty.lens().chain(self.outgrown.lens())
    }

    fn keep_empty(&mut self, bucket: Option<Owned>) {
        if let Some(bucket) = bucket {
            debug_assert!(bucket.is_empty());
            self.empty.push(bucket);
        }
    }

    /// The bucket; or, if buckets have grown since it was made, its items in a bigger one.
    fn outgrown(&mut self, mut filled: Owned, empty: Option<Owned>) -> Owned {
        if filled.room() >= self.capacity {
            self.keep_empty(empty);
            return filled;
        }
        match self.with_room(empty) {
            Some(mut bigger) if bigger.room() > filled.room() => {
                bigger.pour(&mut filled);
                self.keep_empty(Some(filled));
                bigger
            }
            other => {
                self.keep_empty(other);
                filled
            }
        }
    }

    /// The given bucket, or an unused one, or a new one, of the present size.
    fn with_room(&mut self, bucket: Option<Owned>) -> Option<Owned> {
        let mut bucket = match bucket.or_else(|| self.empty.pop()) {
            None => self.make().or_else(|| self.outgrown.pop())?,
            Some(small) if small.room() < self.capacity => match self.make() {
                Some(bigger) => {
                    self.outgrown.push(small);
                    bigger
                }
                None => small,
            },
            Some(bucket) => bucket,
        };
        bucket.set_cap(self.capacity.min(bucket.room()));
        Some(bucket)
    }

    /// A new bucket, or none if the heap has no room for it or for its entry in `all`.
    fn make(&mut self) -> Option<Owned> {
        #[cfg(feature = "invariants")]
        if self.bucket_point.fails() {
            return None;
        }
        self.all.try_reserve(1).ok()?;
        let bucket = Owned::alloc(self.capacity, self.capacity)?;
        // SAFETY: made just now, by a caller that has locked the depot.
        unsafe { Owned::set_place(bucket.name(), self.all.len()) };
        self.all.push(bucket.name());
        Some(bucket)
    }

    fn visited(&mut self) {
        self.visits = self.visits.wrapping_add(1);
        if self.visits.wrapping_sub(self.visits_at_growth) >= VISITS_TO_GROW {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let max = match self.cross_cpu.is_cross_cpu() {
            true => self.cross_cpu_max,
            false => self.capacity_max,
        };
        if self.capacity < max {
            self.visits_at_growth = self.visits;
            self.capacity = (self.capacity * 2).min(max);
        } else if self.capacity > max {
            self.capacity = max;
        }
    }
}

impl Drop for Depot {
    fn drop(&mut self) {
        debug_assert!(self.filled.len() == 0, "a zone is drained before it ends");
        while let Some(mut bucket) = self.filled.pop_back() {
            bucket.truncate(0);
            self.empty.push(bucket);
        }
        while let Some(bucket) = self.empty.pop().or_else(|| self.outgrown.pop()) {
            bucket.free();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
