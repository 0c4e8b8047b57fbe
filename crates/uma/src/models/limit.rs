//! An allocation fails only if as many items are live as the limit allows, wherever the free items
//! are: in another CPU's bucket, in another zone, with a thread that carries them, or counted by an
//! import that then brings none.
//!
//! Locks: none.

use super::*;
use crate::HookFailed;
use crate::hooks::{Hooks, Import, Imported};

/// As many items as threads, all free and on one CPU: each thread that allocates one item gets one.
fn one_each(backend: Backend) {
    let world = World::new(backend, 1, 2);
    world.warm(2);
    let theirs = world.clone();
    beside(
        1,
        move || {
            let item = theirs.alloc();
            theirs.free(item);
        },
        || {
            let item = world.alloc();
            world.free(item);
        },
    );
    world.finish();
}

#[test]
fn an_allocation_fails_only_at_the_limit() {
    // Breaks if a search misses a free item: on another CPU, or carried by a thread.
    holds("limit, sections", 3, || one_each(Backend::Rseq));
    holds("limit, locked", 2, || one_each(Backend::Locked));
}

/// The only item is free, and a drain carries it for a while.
fn one_in_a_drain(backend: Backend) {
    let world = World::new(backend, 1, 1);
    world.warm(1);
    world.finish_beside_drain(1, World::alloc_and_free);
}

#[test]
fn an_allocation_waits_for_a_drain() {
    // Breaks if items on their way from a cache to the keg are overlooked.
    holds("limit, drain, sections", 3, || {
        one_in_a_drain(Backend::Rseq)
    });
    holds("limit, drain, locked", 2, || {
        one_in_a_drain(Backend::Locked)
    });
}

#[test]
#[should_panic(expected = "fewer are live than may be")]
fn finds_a_failure_that_ignores_items_in_transit() {
    // Breaks if the scenario is blind to items in transit.
    finds(ZoneFault::Transit, 3, || one_in_a_drain(Backend::Rseq));
}

/// The last free item lies with a secondary zone, whose last handle goes.
fn a_zone_that_ends(backend: Backend) {
    let world = World::new(backend, 1, 1);
    let second = world.secondary(backend);
    second.warm(1);
    beside(
        1,
        move || drop(second),
        || {
            let item = world.alloc();
            world.free(item);
        },
    );
    assert_ended(1);
    world.finish();
}

#[test]
fn an_allocation_waits_for_the_items_of_a_retiring_zone() {
    // Breaks if items that a retiring zone carries home are not waited for.
    holds("limit, retiring", 3, || a_zone_that_ends(Backend::Rseq));
    holds("limit, retiring, locked", 2, || {
        a_zone_that_ends(Backend::Locked)
    });
}

#[test]
#[should_panic(expected = "fewer are live than may be")]
fn finds_a_failure_that_ignores_a_retiring_zone() {
    // Breaks if the scenario does not find the items that a retiring zone carries.
    finds(ZoneFault::Retire, 2, || a_zone_that_ends(Backend::Locked));
}

/// Free items that hold one of `items` each.
struct Holds(Handle);

impl Hooks for Holds {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let held = self.0.alloc_near().map_err(|_| HookFailed)?;
        // SAFETY: the item is large enough, and ours during the call.
        unsafe { item.cast().write(held) };
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        // SAFETY: as `init` left it.
        let held = unsafe { item.cast().read() };
        // SAFETY: it came from there, and no other thread knows it.
        unsafe { self.0.free(held) };
    }
}

/// A zone on another keg whose items hold the world's. In a function of its own: loom's stacks are small, and making
/// a zone takes most of one.
#[inline(never)]
fn holder_in(world: &World, backend: Backend) -> Arc<ManuallyDrop<RawZone<Holds>>> {
    let layout = Layout::from_size_align(ITEM_BYTES, 64).expect("a layout");
    let holder = RawZone::builder("holder", layout)
        .reserve_bytes(RESERVE_BYTES)
        .bucket_items(1)
        .backend(backend)
        .holds_items_of(&world.zone)
        .hooks(Holds(world.zone.clone()))
        .build();
    Arc::new(ManuallyDrop::new(holder.expect("room for a slab")))
}

/// The only item is held by a free item of a zone on another keg, and that is in a drain's hands for
/// a while.
fn one_in_a_holder(backend: Backend) {
    let world = World::new(backend, 1, 1);
    let holder = holder_in(&world, backend);
    let item = holder.alloc().expect("no item is held");
    // SAFETY: from there, and not used any more.
    unsafe { holder.free(item) };
    let theirs = holder.clone();
    beside(
        1,
        move || {
            let inner = theirs.inner();
            let _inside = inner.inside();
            inner.drain_caches();
        },
        || {
            let item = world.alloc();
            world.free(item);
        },
    );
    let Ok(holder) = Arc::try_unwrap(holder) else {
        unreachable!("the other thread has ended")
    };
    drop(ManuallyDrop::into_inner(holder));
    assert_ended(1);
    // An item that `init` took is no allocation of the world's.
    world.allocs.fetch_add(1, Relaxed);
    world.finish();
}

#[test]
fn an_allocation_waits_for_what_holds_the_items() {
    // Breaks if free items that free items of another zone hold are overlooked.
    holds("limit, holder, sections", 2, || {
        one_in_a_holder(Backend::Rseq)
    });
    holds("limit, holder, locked", 1, || {
        one_in_a_holder(Backend::Locked)
    });
}

#[test]
#[should_panic(expected = "fewer are live than may be")]
fn finds_a_holder_that_is_not_waited_for() {
    // Breaks if the scenario does not find items on their way out of a holder.
    finds(ZoneFault::Holder, 2, || one_in_a_holder(Backend::Rseq));
}

/// `init` for one item at a time, and no more.
struct Once(kern::prim::AtomicUsize);

impl Hooks for Once {
    unsafe fn init(&self, _: NonNull<u8>) -> Result<(), HookFailed> {
        match self.0.fetch_add(1, Relaxed) {
            0 => Ok(()),
            _ => {
                self.0.fetch_sub(1, Relaxed);
                Err(HookFailed)
            }
        }
    }

    unsafe fn fini(&self, _: NonNull<u8>) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A zone of which one item may be built, and is. By itself, for loom's stacks.
#[inline(never)]
fn one_built(backend: Backend) -> Arc<ManuallyDrop<RawZone<Once>>> {
    let layout = Layout::from_size_align(ITEM_BYTES, 64).expect("a layout");
    let zone = RawZone::builder("built", layout)
        .reserve_bytes(RESERVE_BYTES)
        .bucket_items(1)
        .backend(backend)
        .hooks(Once(kern::prim::AtomicUsize::new(0)))
        .build();
    let zone = Arc::new(ManuallyDrop::new(zone.expect("room for a slab")));
    take_and_free(&zone);
    zone
}

fn take_and_free(zone: &RawZone<Once>) {
    let item = zone.alloc().expect("the only one that is built is free");
    // SAFETY: from there, and not used any more.
    unsafe { zone.free(item) };
}

/// The only item that has been built is free, and a thread on another CPU gathers the free items.
fn one_that_is_built(backend: Backend) {
    let zone = one_built(backend);
    let theirs = zone.clone();
    beside(
        1,
        move || {
            let inner = theirs.inner();
            let _inside = inner.inside();
            let bucket = inner
                .gather_built()
                .then(|| inner.depot.lock().pop_filled());
            // The bucket goes back to the caches, without `fini`; until then this thread counts as in transit.
            if let Some(bucket) = bucket.flatten() {
                let mut caught = crate::caught::Caught::default();
                inner.shelve(bucket, &mut caught);
                caught.resume();
            }
        },
        || take_and_free(&zone),
    );
    let Ok(zone) = Arc::try_unwrap(zone) else {
        unreachable!("the other thread has ended")
    };
    assert_eq!(zone.live(), 0);
    drop(ManuallyDrop::into_inner(zone));
    assert_ended(1);
}

#[test]
fn an_init_failure_waits_for_free_initialised_items() {
    // Breaks if the failure of `init` decides although an item that went through it is free.
    holds("limit, built, sections", 2, || {
        one_that_is_built(Backend::Rseq)
    });
    holds("limit, built, locked", 2, || {
        one_that_is_built(Backend::Locked)
    });
}

#[test]
#[should_panic(expected = "the only one that is built is free")]
fn finds_an_init_failure_that_does_not_wait() {
    // Breaks if the scenario does not find items that another thread carries.
    finds(ZoneFault::Refusal, 2, || one_that_is_built(Backend::Rseq));
}

/// A store without items.
struct Nothing(kern::prim::AtomicUsize);

impl Import for Nothing {
    fn import(&self, _: &mut Imported<'_>) {
        // Others may run meanwhile.
        self.0.fetch_add(1, Relaxed);
    }

    unsafe fn release(&self, _: &[NonNull<u8>]) {}
}

/// Two threads ask it; a limit of one keeps the second away while the first does.
fn a_store_without_items() {
    let store = Nothing(kern::prim::AtomicUsize::new(0));
    let zone = RawZone::builder("imported", Layout::new::<u64>())
        .bucket_items(1)
        .backend(Backend::Locked)
        .limit(1)
        .build_cache_only(store);
    let zone = Handle::new(zone.expect("nothing to reserve"));
    let theirs = zone.clone();
    let ask = |zone: &RawZone| assert_eq!(zone.alloc().err(), Some(AllocError::NoMemory));
    beside(1, move || ask(&theirs), || ask(&zone));
    drop(zone);
    assert_ended(1);
}

#[test]
fn an_import_without_items_does_not_count_as_live() {
    // Breaks if items that an import did not bring count as live.
    holds("limit, import", 2, a_store_without_items);
}

#[test]
#[should_panic]
fn finds_a_short_import_that_wakes_no_sleeper() {
    // Breaks if the scenario does not find an allocation that is refused while an import is under way.
    finds(ZoneFault::SilentImport, 2, a_store_without_items);
}
