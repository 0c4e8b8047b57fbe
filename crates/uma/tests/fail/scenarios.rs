//! The operations of programs on zones, written as programs are: an error ends an operation, and
//! the items that it had taken go back by drop.

use super::common::{Dice, Item, builder, free, read, write};
use super::world::{Attach, Held, Outcome, Scenario, World, bulk, many, one};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use uma::{
    AllocError, Backend, HookFailed, Import, Imported, Object, ObjectZone, RawZone, ReclaimSet,
    Zone, ZoneBuilder,
};

pub(crate) const ALL: &[(&str, Scenario)] = &[
    ("one", |w| one(&w.zone(b())).map(drop)),
    ("one of a zone without hooks", |w| {
        one(&w.plain(b())).map(drop)
    }),
    ("stack order", |w| {
        let zone = w.zone(b());
        let mut items = many(&zone, 20)?;
        while items.pop().is_some() {}
        Ok(())
    }),
    ("queue order", |w| many(&w.zone(b()), 20).map(drop)),
    ("random order", random_order),
    ("half stays", half_stays),
    ("what could be had", what_could_be_had),
    ("bulk", |w| bulk_of(w, 16)),
    ("bulk beyond a bucket", |w| bulk_of(w, 40)),
    ("bulk, freed one by one", |w| {
        let zone = w.zone(b());
        bulk(&zone, 20)
            .into_iter()
            .for_each(|item| free(&zone, item));
        Ok(())
    }),
    ("one by one, freed in bulk", singles_then_bulk),
    ("bulk of what the limit allows", bulk_at_limit),
    ("local cache", local_cache),
    ("local cache, prefilled", local_prefilled),
    ("local cache, flushed between", local_flushed),
    ("local cache, dropped first", local_dropped_first),
    ("local cache of the zone's items", local_foreign),
    ("secondary zone", secondary),
    ("packets with clusters", packets),
    ("packets, drained between", packets_drained),
    ("packets in bulk", packets_bulk),
    ("packets at the clusters' limit", packets_at_limit),
    ("secondary zone shares the limit", secondary_limit),
    ("master's handle goes first", master_first),
    ("cache-only zone", |w| cache_only(w, b(), 30)),
    ("cache-only zone that runs dry", |w| cache_only(w, b(), 7)),
    ("cache-only zone with a limit", |w| {
        cache_only(w, b().limit(9), 30)
    }),
    ("cache-only zone, dry below its limit", |w| {
        cache_only(w, b().limit(20), 7)
    }),
    ("waits in vain", waits_in_vain),
    ("waits and is woken", waits_and_wakes),
    ("registers a callback", called_back),
    ("urgent", urgent),
    ("drain in the middle", drain_between),
    ("trim in the middle", trim_between),
    ("drain after each", drain_after_each),
    ("limit lowered", limit_lowered),
    ("limit raised when reached", limit_raised),
    ("limit of none", limit_of_none),
    ("zone dropped first", dropped_first),
    ("zone dropped between clones", dropped_between),
    ("shared clusters", shared_clusters),
    ("huge pages", |w| {
        many(&w.zone(b().huge_pages()), 20).map(drop)
    }),
    ("guard pages", |w| {
        many(&w.zone(b().guard_pages()), 12).map(drop)
    }),
    ("colour", |w| many(&w.zone(b().colour()), 20).map(drop)),
    ("buckets of one", |w| {
        many(&w.zone(b().bucket_items(1)), 12).map(drop)
    }),
    ("at the end of the reservation", reservation_end),
    ("values in boxes", boxes),
    ("objects", objects),
    ("from thread to thread", thread_to_thread),
    ("preallocated", preallocated),
    ("every refill sampled", sampled),
    ("warnings", warnings),
    ("locked caches", |w| {
        many(&w.zone(b().backend(Backend::Locked)), 20).map(drop)
    }),
    ("reclaimed by ticks", reclaimed),
    ("two zones, both or none", both_or_none),
    ("a stack of layers", layers),
];

fn b() -> ZoneBuilder {
    // Warnings make a census, and keep the report of zones dropped too early off the screen.
    builder(64, 8).bucket_items(8).warn(|_| {})
}

fn random_order(w: &World) -> Outcome {
    let zone = w.zone(b());
    let mut dice = Dice::new(3);
    let mut items = Vec::new();
    for _ in 0..40 {
        if dice.below(3) > 0 {
            items.push(one(&zone)?);
        } else if !items.is_empty() {
            items.swap_remove(dice.below(items.len()));
        }
    }
    Ok(())
}

fn half_stays(w: &World) -> Outcome {
    let zone = w.zone(b());
    let mut items = many(&zone, 20)?;
    items.truncate(10);
    items.extend(many(&zone, 15)?);
    Ok(())
}

fn what_could_be_had(w: &World) -> Outcome {
    let zone = w.zone(b());
    let had: Vec<_> = (0..20).filter_map(|_| one(&zone).ok()).collect();
    assert_eq!(zone.live(), had.len());
    Ok(())
}

fn bulk_of(w: &World, n: usize) -> Outcome {
    let zone = w.zone(b());
    for _ in 0..2 {
        let items = bulk(&zone, n);
        assert_eq!(zone.live(), items.len());
        // SAFETY: they are live, of this zone, and different.
        unsafe { zone.free_bulk(&items) };
    }
    Ok(())
}

fn singles_then_bulk(w: &World) -> Outcome {
    let zone = w.zone(b());
    let items: Vec<_> = (0..20).map_while(|_| zone.alloc().ok()).collect();
    // SAFETY: they are live, of this zone, and different.
    unsafe { zone.free_bulk(&items) };
    Ok(())
}

fn bulk_at_limit(w: &World) -> Outcome {
    let zone = w.zone(b().limit(10));
    let items = bulk(&zone, 16);
    assert!(items.len() <= 10);
    // SAFETY: they are live, of this zone, and different.
    unsafe { zone.free_bulk(&items) };
    one(&zone).map(drop)
}

fn local_cache(w: &World) -> Outcome {
    w.has_local.set(true);
    let zone = w.zone(b());
    let mut cache = zone.local(4);
    let mut items = Vec::new();
    let mut outcome = Ok(());
    for round in 0..30 {
        match cache.alloc() {
            Ok(item) => items.push(item),
            Err(error) => outcome = Err(error),
        }
        if round % 3 == 2 && !items.is_empty() {
            // SAFETY: it is live, of this zone, and gone from the list.
            unsafe { cache.free(items.swap_remove(0)) };
        }
    }
    // SAFETY: as above.
    items.drain(..).for_each(|item| unsafe { cache.free(item) });
    outcome
}

fn local_prefilled(w: &World) -> Outcome {
    w.has_local.set(true);
    let zone = w.zone(b());
    let mut cache = zone.local(8);
    let ready = cache.prefill(12);
    assert_eq!(ready, cache.len());
    for _ in 0..ready {
        let item = cache.alloc()?;
        // SAFETY: it is live and of this zone.
        unsafe { cache.free(item) };
    }
    Ok(())
}

fn local_flushed(w: &World) -> Outcome {
    w.has_local.set(true);
    let zone = w.zone(b());
    let mut cache = zone.local(4);
    for _ in 0..6 {
        let item = cache.alloc()?;
        cache.flush();
        assert!(cache.is_empty());
        // SAFETY: it is live and of this zone.
        unsafe { cache.free(item) };
    }
    Ok(())
}

fn local_dropped_first(w: &World) -> Outcome {
    w.has_local.set(true);
    let zone = w.zone(b());
    let mut cache = zone.local(4);
    let items: Vec<_> = (0..10).map_while(|_| cache.alloc().ok()).collect();
    drop(cache);
    items.into_iter().for_each(|item| free(&zone, item));
    Ok(())
}

fn local_foreign(w: &World) -> Outcome {
    w.has_local.set(true);
    let zone = w.zone(b());
    let mut cache = zone.local(3);
    let items: Vec<_> = (0..12).map_while(|_| zone.alloc().ok()).collect();
    // SAFETY: they are live and of this zone.
    items
        .into_iter()
        .for_each(|item| unsafe { cache.free(item) });
    Ok(())
}

fn secondary(w: &World) -> Outcome {
    let master = w.zone(b());
    let second = master.secondary("second").bucket_items(4).hooks(w.tally());
    let second = w.join(second.build().expect("it has a keg"));
    let mut items = Vec::new();
    for _ in 0..8 {
        items.push(one(&master)?);
        // Both masters of the mark: the second writes it again.
        drop(one(&second)?);
    }
    Ok(())
}

/// An mbuf zone, its clusters, and packets: mbufs that keep a cluster. When there is no item for
/// one of them, the work of the mbuf zone's `init` is undone.
fn packet_zones(w: &World, clusters_max: usize) -> (RawZone<super::world::Tally>, RawZone<Attach>) {
    let clusters = w.zone(builder(2048, 2048).bucket_items(4).limit(clusters_max));
    let mbufs = w.zone(b());
    let hooks = Attach {
        clusters: clusters.clone(),
        tally: w.tally(),
    };
    let packets = mbufs.secondary("packet").bucket_items(4).hooks(hooks);
    (clusters, w.join(packets.build().expect("it has a keg")))
}

fn packets(w: &World) -> Outcome {
    let (clusters, packets) = packet_zones(w, 100);
    let held = many(&packets, 10)?;
    assert!(clusters.live() >= held.len());
    drop(held);
    many(&packets, 12).map(drop)
}

fn packets_drained(w: &World) -> Outcome {
    let (clusters, packets) = packet_zones(w, 100);
    for _ in 0..3 {
        let held = many(&packets, 5)?;
        packets.drain();
        assert_eq!(clusters.live(), held.len());
    }
    Ok(())
}

fn packets_bulk(w: &World) -> Outcome {
    let (_clusters, packets) = packet_zones(w, 100);
    let items = bulk(&packets, 18);
    // SAFETY: they are live, of this zone, and different.
    unsafe { packets.free_bulk(&items) };
    Ok(())
}

fn packets_at_limit(w: &World) -> Outcome {
    let (_clusters, packets) = packet_zones(w, 6);
    let held: Vec<_> = (0..10).filter_map(|_| one(&packets).ok()).collect();
    assert!(held.len() <= 6);
    Ok(())
}

fn secondary_limit(w: &World) -> Outcome {
    let master = w.plain(b().limit(12));
    let second = w.join(master.secondary("second").build().expect("it has a keg"));
    let here = many(&master, 6)?;
    let there = many(&second, 6)?;
    assert!(one(&master).is_err());
    drop(here);
    let more = many(&second, 6)?;
    drop((there, more));
    Ok(())
}

fn master_first(w: &World) -> Outcome {
    let master = w.zone(b());
    let second = w.join(master.secondary("second").build().expect("it has a keg"));
    let item = master.alloc();
    let items: Vec<_> = (0..5).map_while(|_| second.alloc().ok()).collect();
    w.forget();
    let back = master.as_ref_ptr();
    drop(master);
    // SAFETY: the live item keeps the zone.
    item.into_iter().for_each(|item| unsafe { back.free(item) });
    items.into_iter().for_each(|item| free(&second, item));
    Ok(())
}

/// Items out of boxes, some of them.
struct Boxes(AtomicUsize, Arc<AtomicUsize>);

impl Import for Boxes {
    fn import(&self, items: &mut Imported<'_>) {
        // At most three at a time: fewer than asked is no error.
        for _ in 0..items.room().min(3) {
            let take = |left: usize| left.checked_sub(1);
            if self.0.fetch_update(SeqCst, SeqCst, take).is_err() {
                break;
            }
            let item = NonNull::from(Box::leak(Box::new([0u64; 8]))).cast();
            // SAFETY: a new box, which `release` frees.
            unsafe { items.push(item) };
            self.1.fetch_add(1, SeqCst);
        }
    }

    unsafe fn release(&self, items: &[NonNull<u8>]) {
        for item in items {
            // SAFETY: it came from `import`, a box of this type.
            drop(unsafe { Box::from_raw(item.cast::<[u64; 8]>().as_ptr()) });
            self.0.fetch_add(1, SeqCst);
            self.1.fetch_sub(1, SeqCst);
        }
    }
}

fn cache_only(w: &World, builder: ZoneBuilder, stock: usize) -> Outcome {
    let out = Arc::new(AtomicUsize::new(0));
    let store = Boxes(AtomicUsize::new(stock), out.clone());
    let zone = builder.hooks(w.tally()).build_cache_only(store);
    let zone = w.join(zone.expect("it has no slabs to make"));
    let held: Vec<_> = (0..20).filter_map(|_| one(&zone).ok()).collect();
    let items = bulk(&zone, 5);
    assert!(zone.live() <= stock);
    if zone.live() == stock && zone.stats().limit.is_none_or(|limit| limit > stock) {
        // The store is empty: items that it did not give do not count as out.
        assert_eq!(zone.alloc(), Err(AllocError::NoMemory));
    }
    // SAFETY: they are live, of this zone, and different.
    unsafe { zone.free_bulk(&items) };
    drop(held);
    zone.drain();
    assert_eq!(out.load(SeqCst), 0, "not all went back");
    one(&zone).map(drop)
}

fn waits_in_vain(w: &World) -> Outcome {
    let zone = w.zone(b().limit(3));
    let held = many(&zone, 3)?;
    assert!(zone.alloc_wait(Some(Duration::from_micros(100))).is_err());
    drop(held);
    let item = zone.alloc_wait(Some(Duration::from_secs(60)))?;
    free(&zone, item);
    Ok(())
}

fn waits_and_wakes(w: &World) -> Outcome {
    let zone = w.zone(b().limit(2));
    let held = many(&zone, 2)?;
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| zone.alloc_wait(Some(Duration::from_secs(60))).map(Item));
        thread::yield_now();
        drop(held);
        let woken = sleeper.join().expect("no panic");
        woken.map(|item| free(&zone, item.0))
    })
}

fn called_back(w: &World) -> Outcome {
    let zone = w.zone(b().limit(2));
    let mut held = many(&zone, 2)?;
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let waits = zone.call_when_available(move || {
        count.fetch_add(1, SeqCst);
    });
    assert!(waits);
    held.pop();
    assert_eq!(called.load(SeqCst), 1);
    assert!(!zone.call_when_available(|| {}));
    one(&zone).map(drop)
}

fn preallocated(w: &World) -> Outcome {
    w.keeps_memory.set(true);
    many(&w.zone(b().prealloc(50)), 20).map(drop)
}

fn urgent(w: &World) -> Outcome {
    w.keeps_memory.set(true);
    let zone = w.zone(b().limit(6).reserve(2));
    let held: Vec<_> = (0..8).map_while(|_| one(&zone).ok()).collect();
    assert!(held.len() <= 4);
    let first = zone.alloc_urgent().map(|item| Held(&zone, item))?;
    let second = zone.alloc_urgent().map(|item| Held(&zone, item))?;
    drop((first, held, second));
    Ok(())
}

fn drain_between(w: &World) -> Outcome {
    let zone = w.zone(b());
    let mut items = many(&zone, 12)?;
    items.truncate(5);
    zone.drain();
    items.extend(many(&zone, 12)?);
    zone.drain();
    Ok(())
}

fn trim_between(w: &World) -> Outcome {
    let zone = w.zone(b());
    for _ in 0..3 {
        let items = many(&zone, 10)?;
        zone.trim();
        drop(items);
        zone.trim();
    }
    Ok(())
}

fn drain_after_each(w: &World) -> Outcome {
    let zone = w.zone(b());
    for _ in 0..8 {
        let item = one(&zone);
        zone.drain();
        item?;
    }
    Ok(())
}

fn limit_lowered(w: &World) -> Outcome {
    let zone = w.zone(b().limit(20));
    let mut items = many(&zone, 10)?;
    zone.set_limit(Some(5));
    assert!(one(&zone).is_err());
    items.truncate(3);
    items.push(one(&zone)?);
    zone.set_limit(None);
    items.extend(many(&zone, 10)?);
    Ok(())
}

fn limit_raised(w: &World) -> Outcome {
    let zone = w.zone(b().limit(4));
    let mut items: Vec<_> = (0..6).filter_map(|_| one(&zone).ok()).collect();
    zone.set_limit(Some(12));
    items.extend(many(&zone, 6)?);
    Ok(())
}

fn limit_of_none(w: &World) -> Outcome {
    let zone = w.zone(b().limit(0));
    assert!(one(&zone).is_err());
    zone.set_limit(Some(1));
    one(&zone).map(drop)
}

fn dropped_first(w: &World) -> Outcome {
    let zone = w.zone(b());
    let items: Vec<_> = (0..10).map_while(|_| zone.alloc().ok()).collect();
    let back = zone.as_ref_ptr();
    w.forget();
    drop(zone);
    // SAFETY: a live item keeps the zone, and each is freed once.
    items
        .into_iter()
        .for_each(|item| unsafe { back.free(item) });
    Ok(())
}

fn dropped_between(w: &World) -> Outcome {
    let zone = w.zone(b());
    let clone = zone.clone();
    let items: Vec<_> = (0..6).map_while(|_| zone.alloc().ok()).collect();
    w.forget();
    drop(zone);
    items.into_iter().for_each(|item| free(&clone, item));
    let again = one(&clone).map(drop);
    drop(clone);
    again
}

fn shared_clusters(w: &World) -> Outcome {
    let clusters = w.plain(builder(2048, 2048).bucket_items(4).refcounts());
    let mbufs = w.zone(b());
    let mut queue = VecDeque::new();
    let outcome = (0..6).try_for_each(|_| {
        let cluster = clusters.alloc()?;
        // SAFETY: it is live and of this zone.
        let count = unsafe { clusters.refcount(cluster) };
        count.store(1, SeqCst);
        for _ in 0..2 {
            // Each share needs an mbuf; without one the share does not happen.
            if let Ok(mbuf) = one(&mbufs) {
                count.fetch_add(1, SeqCst);
                queue.push_back((mbuf, cluster));
            }
        }
        let is_last = count.fetch_sub(1, SeqCst) == 1;
        if is_last {
            free(&clusters, cluster);
        }
        Ok(())
    });
    for (mbuf, cluster) in queue {
        drop(mbuf);
        // SAFETY: each entry of the queue has a reference.
        if unsafe { clusters.refcount(cluster) }.fetch_sub(1, SeqCst) == 1 {
            free(&clusters, cluster);
        }
    }
    outcome
}

fn reservation_end(w: &World) -> Outcome {
    let zone = w.zone(builder(4096, 4096).bucket_items(2).reserve_bytes(64 << 10));
    let items: Vec<_> = (0..20).filter_map(|_| one(&zone).ok()).collect();
    assert!(items.len() <= 16);
    drop(items);
    many(&zone, 3).map(drop)
}

fn boxes(w: &World) -> Outcome {
    let zone = Zone::<Vec<u8>>::build(Zone::<Vec<u8>>::builder("boxes").bucket_items(4));
    let zone = zone.expect("there is address space");
    w.join(zone.raw().clone());
    let mut boxes = Vec::new();
    for n in 0..12 {
        boxes.push(zone.alloc(vec![1; n])?);
    }
    boxes.drain(..6);
    boxes.push(zone.alloc(vec![2])?);
    Ok(())
}

/// An object whose making may fail.
struct Fragile(#[allow(dead_code, reason = "to be dropped")] Vec<u8>);

impl Object for Fragile {
    type Context = ();

    fn init((): &()) -> Result<Self, HookFailed> {
        Ok(Self(vec![0; 10]))
    }
}

fn objects(w: &World) -> Outcome {
    let zone = ObjectZone::<Fragile>::new("fragile", ()).expect("there is address space");
    w.join(zone.raw().clone());
    let mut objects = Vec::new();
    for _ in 0..12 {
        objects.push(zone.alloc()?);
    }
    objects.clear();
    zone.raw().drain();
    zone.alloc().map(drop)
}

fn thread_to_thread(w: &World) -> Outcome {
    let zone = w.zone(b());
    let queue = Mutex::new(VecDeque::new());
    thread::scope(|scope| {
        let maker = scope.spawn(|| {
            (0..20).try_for_each(|n| {
                let item = zone.alloc()?;
                // SAFETY: items have 64 bytes, and the second word is ours.
                write(unsafe { item.add(8) }, n);
                queue.lock().expect("sound").push_back(Item(item));
                Ok(())
            })
        });
        let outcome = maker.join().expect("no panic");
        let taker = scope.spawn(|| {
            for (n, item) in queue.lock().expect("sound").drain(..).enumerate() {
                // SAFETY: as above.
                assert_eq!(read(unsafe { item.0.add(8) }), n as u64);
                free(&zone, item.0);
            }
        });
        taker.join().expect("no panic");
        outcome
    })
}

fn sampled(w: &World) -> Outcome {
    let zone = w.zone(b().bucket_items(1).sample_every(1));
    let mut items = many(&zone, 12)?;
    items.truncate(4);
    let more = bulk(&zone, 9);
    assert!(zone.census().live >= more.len());
    // SAFETY: they are live, of this zone, and different.
    unsafe { zone.free_bulk(&more) };
    items.extend(many(&zone, 4)?);
    Ok(())
}

fn warnings(w: &World) -> Outcome {
    let warned = Arc::new(AtomicUsize::new(0));
    let count = warned.clone();
    let warn = move |_: &uma::Warning| {
        count.fetch_add(1, SeqCst);
    };
    let zone = w.zone(b().limit(5).high_water(3).warn(warn));
    let held: Vec<_> = (0..8).filter_map(|_| one(&zone).ok()).collect();
    assert!(held.len() <= 5);
    Ok(())
}

fn reclaimed(w: &World) -> Outcome {
    let zone = w.zone(b());
    let mut set = ReclaimSet::new(Duration::from_millis(1));
    set.watch(&zone);
    for n in 0..6 {
        let items = many(&zone, 6)?;
        let _ = set.tick(kern::Time::from_millis(n));
        drop(items);
    }
    Ok(())
}

fn both_or_none(w: &World) -> Outcome {
    let (heads, bodies) = (w.zone(b()), w.plain(builder(512, 64).bucket_items(2)));
    let mut messages = Vec::new();
    for _ in 0..10 {
        let Ok(pair) = one(&heads).and_then(|head| Ok((head, one(&bodies)?))) else {
            continue;
        };
        messages.push(pair);
    }
    assert!(heads.live() == messages.len() && bodies.live() == messages.len());
    Ok(())
}

/// Each layer takes an item before it calls the next, and frees it if that fails.
fn layers(w: &World) -> Outcome {
    fn descend(zones: &[RawZone<super::world::Tally>], depth: usize) -> Outcome {
        let Some(zone) = zones.get(depth % 3).filter(|_| depth < 12) else {
            return Ok(());
        };
        let _mine = one(zone)?;
        descend(zones, depth + 1)
    }
    let zones = [(); 3].map(|()| w.zone(b().bucket_items(2)));
    descend(&zones, 0)?;
    descend(&zones, 3)
}
