//! Whole zones under a schedule checker: under loom every order of two threads' steps, as far as
//! it is bounded; under shuttle random orders of more threads and rounds.
//!
//! The zones are real, with real slabs; only locks, sleeping and the atomics of a protocol are the
//! checker's, and with [`Backend::Rseq`] the sections are those of `percpu/modelled.rs`. Each scenario
//! is run again with each mistake of `faults.rs` that it is there to find, and must then fail.
//!
//! | file | protocol |
//! |---|---|
//! | `models/percpu.rs` | sections on the modelled machine; loom only |
//! | `models/exchange.rs` | items from CPU to CPU by way of previous bucket and depot, with a drain |
//! | `models/limit.rs` | a keg closes: an allocation fails only if live = limit |
//! | `models/sleep.rs` | no wakeup is lost |
//! | `models/end.rs` | a zone ends once, and not before its last item is freed |
//! | `models/crowd.rs` | all of it at once: several threads, two zones, drains, limits, sleepers |
//!
//! Bounds under loom: two threads, at most [`switches`](Case::switches) preemptions in one run (blocking and
//! ending are free), two CPUs of the model, buckets of 1 or 2 items, 1 to 4 items in all. Each is enough to
//! find the mistakes of its scenario, and takes seconds; `MODEL_MORE_SWITCHES` widens the search by hand.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p mbuma-uma --lib models`
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p mbuma-uma --lib models`

use crate::percpu::{Backend, run_on};
use kern::fault::plant;

use crate::faults::ZoneFault;
use crate::life::{forget_buckets, free_buckets};
use crate::zone_inner::{ended_zones, forget_ended_zones};
use crate::{AllocError, RawZone, RawZoneRef};
use core::alloc::Layout;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use kern::model::Model;
#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

#[cfg(shuttle)]
mod crowd;
mod end;
mod exchange;
mod limit;
#[cfg(loom)]
mod percpu;
mod sleep;

/// Eight items a slab, and one slab.
const ITEM_BYTES: usize = 8 << 10;
const RESERVE_BYTES: usize = 64 << 10;

/// How a scenario is run.
#[derive(Clone, Copy)]
struct Case {
    /// The mistake that it is to find.
    bug: Option<ZoneFault>,
    /// How often threads are switched in one run, beside where they wait or end.
    switches: usize,
}

/// Runs a scenario in every order within the bounds, or in as many random ones.
fn check(name: &str, case: Case, scenario: impl Fn() + Send + Sync + 'static) {
    forget_buckets();
    forget_ended_zones();
    let _planted = case.bug.map(plant);
    Model::new(name)
        .switches(case.switches)
        .runs(2500)
        .seed(4)
        .check(scenario);
}

/// A scenario without mistakes.
fn holds(name: &str, switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
    check(
        name,
        Case {
            bug: None,
            switches,
        },
        scenario,
    );
}

/// A scenario with one, which must be found.
fn finds(bug: ZoneFault, switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let name = format!("{bug:?}, not found");
    let bug = Some(bug);
    check(&name, Case { bug, switches }, scenario);
}

/// Runs two threads to their ends, the second one on the CPU that is named.
fn beside(cpu: usize, other: impl FnOnce() + Send + 'static, this: impl FnOnce()) {
    let other = thread::spawn(move || {
        run_on(cpu);
        other();
    });
    // shuttle switches before an operation, and the first one may be all that `this` has.
    #[cfg(shuttle)]
    kern::prim::AtomicUsize::new(0).fetch_add(1, Relaxed);
    this();
    other.join().expect("no panic");
}

/// A zone, and which of its items the threads have.
#[derive(Clone)]
struct World {
    zone: Handle,
    live: Arc<Live>,
    allocs: Arc<AtomicUsize>,
}

/// A handle that a checker may drop after it has found a mistake: its machine has stopped by then.
#[derive(Clone)]
struct Handle(ManuallyDrop<RawZone>);

impl Handle {
    fn new(zone: RawZone) -> Self {
        Self(ManuallyDrop::new(zone))
    }
}

impl core::ops::Deref for Handle {
    type Target = RawZone;

    fn deref(&self) -> &RawZone {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped here, and not used after.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// The addresses of the items that threads have.
#[derive(Default)]
struct Live(Mutex<BTreeSet<usize>>);

/// An item that a thread has.
#[derive(Clone, Copy)]
struct Item(NonNull<u8>);

// SAFETY: an item is not bound to a thread.
unsafe impl Send for Item {}
// SAFETY: as above; it is only an address here.
unsafe impl Sync for Item {}

impl World {
    fn new(backend: Backend, bucket_items: usize, limit: usize) -> Self {
        let layout = Layout::from_size_align(ITEM_BYTES, 64).expect("a layout");
        let zone = RawZone::builder("modelled", layout)
            .reserve_bytes(RESERVE_BYTES)
            .bucket_items(bucket_items)
            .backend(backend)
            .limit(limit)
            .build();
        Self {
            zone: Handle::new(zone.expect("room for a slab")),
            live: Arc::default(),
            allocs: Arc::default(),
        }
    }

    /// A zone on the same slabs.
    fn secondary(&self, backend: Backend) -> Self {
        let zone = self.zone.secondary("second").bucket_items(1);
        let zone = zone.backend(backend).build();
        Self {
            zone: Handle::new(zone.expect("nothing to reserve")),
            live: self.live.clone(),
            allocs: Arc::default(),
        }
    }

    /// Takes the free items out of the caches.
    fn drain(&self) {
        let inner = self.zone.inner();
        let _inside = inner.inside();
        inner.drain_caches();
    }

    /// The other thread drains, on the CPU that is named; then nothing is lost.
    fn finish_beside_drain(self, cpu: usize, this: impl FnOnce(&Self)) {
        let theirs = self.clone();
        beside(cpu, move || theirs.drain(), || this(&self));
        self.finish();
    }

    fn alloc_and_free(&self) {
        let item = self.alloc();
        self.free(item);
    }

    fn try_alloc(&self) -> Result<Item, AllocError> {
        self.zone.alloc().map(|item| self.came(item))
    }

    fn alloc(&self) -> Item {
        self.try_alloc().expect("fewer are live than may be")
    }

    fn wait(&self) -> Item {
        let item = self.zone.alloc_wait(None).expect("a sleeper gets an item");
        self.came(item)
    }

    /// As many at once as there are, up to `items`.
    fn alloc_bulk(&self, items: usize) -> Vec<Item> {
        let mut out = vec![MaybeUninit::uninit(); items];
        let got = self.zone.alloc_bulk(&mut out);
        // SAFETY: this many were written.
        let taken = out[..got].iter().map(|item| unsafe { item.assume_init() });
        taken.map(|item| self.came(item)).collect()
    }

    fn free_bulk(&self, items: Vec<Item>) {
        free_bulk_without_handle(self.zone.as_ref_ptr(), &self.live, items);
    }

    fn came(&self, item: NonNull<u8>) -> Item {
        self.allocs.fetch_add(1, Relaxed);
        self.live.came(item)
    }

    fn free(&self, item: Item) {
        self.live.goes(item);
        // SAFETY: from this zone, and no thread has it any more.
        unsafe { self.zone.free(item.0) };
    }

    /// Leaves `items` free items with this thread's CPU.
    fn warm(&self, items: usize) {
        let warm: Vec<Item> = (0..items).map(|_| self.alloc()).collect();
        warm.into_iter().for_each(|item| self.free(item));
    }

    /// All allocated items have come back, and no other item is missing; then the zone ends.
    fn finish(self) {
        let Self { zone, live, allocs } = self;
        assert!(live.0.lock().expect("no panic").is_empty());
        assert_eq!(zone.live(), 0, "an item was lost");
        assert_eq!(zone.stats().requests, allocs.load(Relaxed) as u64);
        let inner = zone.inner();
        {
            let _inside = inner.inside();
            inner.drain_caches();
        }
        assert_eq!(inner.out(), 0, "an item was lost in a cache");
        assert!(zone.is_valid());
        drop(zone);
        assert_ended(1);
    }
}

/// This many zones have ended since the last call, and lost no buckets.
fn assert_ended(zones: usize) {
    free_buckets();
    let ended_zones = ended_zones();
    assert_eq!(ended_zones.len(), zones, "a zone did not end");
    assert!(ended_zones.iter().all(|zone| zone.depot.lock().has_all()));
}

impl Live {
    fn came(&self, item: NonNull<u8>) -> Item {
        let addr = item.addr().get();
        let fresh = self.0.lock().expect("no panic").insert(addr);
        assert!(fresh, "an item was given out twice");
        Item(item)
    }

    fn goes(&self, item: Item) {
        let addr = item.0.addr().get();
        let was_live = self.0.lock().expect("no panic").remove(&addr);
        assert!(was_live, "the test freed an item twice");
    }
}

/// Frees an item without a handle: it alone keeps the zone.
fn free_without_handle(zone: RawZoneRef, live: &Live, item: Item) {
    live.goes(item);
    // SAFETY: from this zone, and no thread has it any more.
    unsafe { zone.free(item.0) };
}

/// Frees items at once without a handle: they alone keep the zone.
fn free_bulk_without_handle(zone: RawZoneRef, live: &Live, items: Vec<Item>) {
    items.iter().for_each(|&item| live.goes(item));
    let items: Vec<_> = items.into_iter().map(|item| item.0).collect();
    // SAFETY: from this zone, and no thread has them any more.
    unsafe { zone.free_bulk(&items) };
}
