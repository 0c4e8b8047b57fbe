//! The depot: where whole buckets wait between the CPU that filled them and the one that empties
//! them.
//!
//! When one CPU allocates and another frees, items go round through here a bucket at a time: the
//! lock is taken once for as many items as a bucket holds. A CPU whose own buckets wait here gets
//! the last of them, which is as warm as can be. What another CPU freed is warm there, and each
//! line of it has to be taken out of that CPU's cache: it goes first in, first out, and by its turn
//! much of it has left that cache for the one that all share, from where it comes in half the time.
//! More could be kept back for that, a second-level cache full of fresh items: a pipe of 512 items of
//! 2 KiB, all of it written and read, then takes 50 ns an item in the place of 118. But TCP between
//! two threads, whose socket buffers keep enough of them on the way, loses a fifth. It was not kept.
//! What helps, without keeping anything back, is done where an item is freed (`cacheline.rs`), once the
//! depot has seen that items go that way (`ways.rs`).
//!
//! ```text
//!   a CPU that frees  --- full --->  [ filled ]  --- filled --->  a CPU that allocates
//!                     <-- room ----  [ empty  ]  <-- empty -----
//! ```
//!
//! Buckets start small, so that an idle zone holds little, and double when the depot is found
//! locked or was visited often since it last grew; a trim that finds nobody came halves them.
//! The depot keeps a budget of items: what a spike leaves beyond it goes on to the slabs at once,
//! where its pages can be found.
//!
//! `schedules/exchange.rs` checks that no bucket on its way round is lost, or in two places.
//!
//! # What a visit costs
//!
//! Two CPUs that hand buckets to each other wait for every cache line that the other one has written: 33 ns
//! each where they share a cache, 160 ns where they don't. So all that every visit writes, the count of who is
//! inside the zone with it, is on one line, beside the lock; and buckets wait in [lists](BucketList) that
//! need no more than that line and the buckets themselves. What is behind it changes rarely.
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

mod cross_cpu;

static DEPOT_CLASS: LockClass = LockClass::new("uma depot", order::ZONE);

/// What a bucket holds at first.
const BUCKET_ITEMS_FIRST: usize = 16;
/// Visits after which buckets double.
const VISITS_TO_GROW: u32 = 64;

/// Where CPUs meet, on cache lines of its own.
#[repr(C, align(128))]
pub(crate) struct DepotSlot {
    /// (a) What keeps the zone; see `zone_inner.rs`. Who visits the depot writes it too.
    pub(crate) holds: AtomicU64,
    depot: Mutex<Depot>,
}

/// What every visit writes ends with the first line.
#[cfg(not(any(loom, shuttle)))]
const _: () = {
    let before = offset_of!(DepotSlot, depot) + size_of::<Mutex<()>>();
    assert!(before + offset_of!(Depot, capacity) == 64);
};

impl DepotSlot {
    /// A depot without buckets, whose buckets grow up to `bucket_items`, or `cross_cpu_items` where items
    /// go from CPU to CPU, and that keeps about `items_max` items; of a zone that is kept so.
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

    /// Locks the depot. Finding it locked means that bigger buckets would pay.
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

/// A CPU's buckets, compared with what they were before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// The CPU has none.
    Nothing,
    /// The CPU has not used them.
    Same,
    /// The CPU has used them.
    Changed,
}

/// What came of a visit with an empty bucket.
#[must_use]
pub(crate) enum Refill {
    /// A bucket with items.
    Filled(Owned),
    /// No items here; a bucket to fill from the slabs, if there is memory for one.
    Empty(Option<Owned>),
    /// The zone is closed: to the keg, with no bucket.
    Closed,
}

/// What came of a visit for room.
#[must_use]
pub(crate) enum Room {
    /// A bucket with room.
    Bucket(Owned),
    /// The depot holds enough: this full bucket's items belong in the slabs, then it has room.
    Spill(Owned),
    /// No memory for a bucket.
    Nothing,
    /// The zone is closed: to the keg, with what the bucket brought along holds.
    Closed(Option<Owned>),
}

/// Buckets that belong to no CPU. What every visit writes comes first.
#[repr(C)]
pub(crate) struct Depot {
    filled: BucketList,
    empty: BucketStack,
    /// Visits so far, modulo 2^32.
    visits: u32,
    /// The CPU that brought a full one last.
    filler: u32,
    capacity: usize,
    capacity_max: usize,
    cross_cpu_max: usize,
    /// Items beyond which full buckets are emptied into the slabs.
    items_max: usize,
    /// The fewest filled buckets since the last trim: nobody needed those.
    filled_min: usize,
    closed: bool,
    cross_cpu: CrossCpuDetector,
    /// The visits when buckets last grew, and at the last trim.
    visits_at_growth: u32,
    visits_at_trim: u32,
    pub(crate) contentions: u64,
    /// Empty ones that are too small by now. Their memory goes with the next trim.
    outgrown: BucketStack,
    /// Every bucket of the zone: what the statistics add up.
    all: Vec<NonNull<Bucket>>,
    /// Items handed out of buckets that are gone.
    popped_before: u64,
    /// What each CPU's buckets looked like when they were last seen.
    seen: Vec<[u64; 2]>,
    /// What tests let fail.
    #[cfg(feature = "invariants")]
    pub(crate) bucket_point: crate::fail::Point,
}

// SAFETY: the lists own their buckets, in which nothing is tied to a thread; `all` only names some, and
// is followed under the depot's lock alone, under which buckets are made and freed.
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
            seen: Vec::new(),
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

    /// Takes no more items until opened.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Takes items again.
    pub(crate) fn open(&mut self) {
        self.closed = false;
    }

    /// Whether it takes none.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether nearly all items that come here are freed by one CPU and allocated by another.
    pub(crate) fn is_cross_cpu(&self) -> bool {
        self.cross_cpu.crossing()
    }

    /// Whether nobody came since [`excess`](Self::excess) was last asked.
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

    /// A free's visit: a full bucket, if there is one, for one with room.
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

    /// Puts a bucket down, or hands it back when it has items and the zone is closed.
    pub(crate) fn put(&mut self, bucket: Owned) -> Result<(), Owned> {
        if self.closed && !bucket.is_empty() {
            return Err(bucket);
        }
        self.push(bucket);
        Ok(())
    }

    /// Puts a bucket down in any case: a drain comes for it next.
    pub(crate) fn push(&mut self, bucket: Owned) {
        if bucket.is_empty() {
            self.empty.push(bucket);
        } else {
            self.filled.push_back(bucket);
        }
    }

    /// The filled bucket for a CPU: the last one, which is as warm as can be, if it came from
    /// there, else the first one, which has had the longest time to leave the other CPU's cache.
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

    /// Notes how few filled buckets there were.
    fn needed(&mut self) {
        if self.filled.len() < self.filled_min {
            self.filled_min = self.filled.len();
        }
    }

    /// Begins to measure the working set anew; says how many filled buckets nobody needed since
    /// the last time. If nobody came at all, buckets shrink.
    pub(crate) fn excess(&mut self) -> usize {
        if self.is_idle() {
            self.cross_cpu = CrossCpuDetector::new();
            // They grow again where that pays, not at the first visit.
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
                // SAFETY: those that `all` names are alive, and whoever has the depot has locked it.
                unsafe { Owned::set_place(moved, place) };
            }
            self.popped_before += bucket.popped();
            bucket.free();
        }
        // A list as long as before would be a memory of the spike.
        self.all.shrink_to_fit();
    }

    /// Compares a CPU's buckets with what they were at the last call.
    pub(crate) fn saw_again(&mut self, cpu: usize, buckets: [NonNull<Bucket>; 2]) -> SlotUse {
        let mut marks = [0; 2];
        for (mark, bucket) in marks.iter_mut().zip(buckets) {
            if bucket != Bucket::sentinel() {
                // SAFETY: buckets are freed under the depot's lock, which the caller holds.
                let (len, popped) = unsafe { peek(bucket) };
                // Bucket addresses are even, so this is never 0.
                *mark = (bucket.addr().get() as u64 | 1)
                    .wrapping_add((popped << 16 | len as u64).wrapping_mul(0x9E37_79B9_7F4A_7C16));
            }
        }
        if self.seen.len() <= cpu {
            self.seen.resize(cpu + 1, [0; 2]);
        }
        let before = core::mem::replace(&mut self.seen[cpu], marks);
        match marks {
            [0, 0] => SlotUse::Nothing,
            _ if before == marks => SlotUse::Same,
            _ => SlotUse::Changed,
        }
    }

    /// Items in all buckets of the zone, and those ever handed out of any. Of a busy zone the two
    /// are of slightly different moments.
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

    /// Whether the count is true and every bucket on the right list.
    pub(crate) fn is_valid(&self) -> bool {
        let places = || self.all.iter().enumerate();
        self.filled.lens().sum::<usize>() == self.filled.items()
            && self.filled.lens().all(|len| len > 0)
            && self.idle_lens().all(|len| len == 0)
            && self.filled.len() + self.idle_lens().count() <= self.all.len()
            // SAFETY: those that `all` names are alive, and whoever has the depot has locked it.
            && places().all(|(place, &bucket)| unsafe { Owned::place_of(bucket) } == place)
    }

    /// Whether every bucket of the zone is here, and empty.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(crate) fn has_all(&self) -> bool {
        self.filled.len() == 0 && self.idle_lens().count() == self.all.len()
    }

    /// Buckets of the zone, wherever they are.
    #[cfg(all(test, not(any(loom, shuttle))))]
    fn buckets(&self) -> usize {
        self.all.len()
    }

    /// Items in each bucket that has none.
    fn idle_lens(&self) -> impl Iterator<Item = usize> {
        self.empty.lens().chain(self.outgrown.lens())
    }

    fn keep_empty(&mut self, bucket: Option<Owned>) {
        if let Some(bucket) = bucket {
            debug_assert!(bucket.is_empty());
            self.empty.push(bucket);
        }
    }

    /// The bucket, or its items in a bigger one if buckets have grown meanwhile.
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

    /// The bucket given, or a used one, or a new one, of the size that buckets have by now.
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

    /// A new bucket, or nothing when the heap has no room for it or for its name.
    fn make(&mut self) -> Option<Owned> {
        #[cfg(feature = "invariants")]
        if self.bucket_point.fails() {
            return None;
        }
        self.all.try_reserve(1).ok()?;
        let bucket = Owned::alloc(self.capacity, self.capacity)?;
        // SAFETY: made just now, by whoever has locked the depot.
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
        let max = match self.cross_cpu.crossing() {
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
