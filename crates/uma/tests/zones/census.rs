//! Samples and the census made of them: breaks when a holder is not named, a sampled item is not
//! an item like any other, or a misuse of one passes.

use crate::common::{Dice, Item, assert_balance, builder, free, layout, pin, read, write};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use uma::{AllocError, Census, HookFailed, Hooks, RawZone};

const EXACT: bool = cfg!(feature = "invariants");

fn site_a(zone: &RawZone) -> NonNull<u8> {
    zone.alloc().unwrap()
}

fn site_b(zone: &RawZone) -> NonNull<u8> {
    zone.alloc().unwrap()
}

fn site_c(zone: &RawZone) -> NonNull<u8> {
    zone.alloc().unwrap()
}

/// Items of each site of three in a row, in the order of their lines.
fn by_line(census: &Census) -> Vec<usize> {
    let mut holders: Vec<_> = census.holders.iter().collect();
    holders.sort_by_key(|holder| holder.site.line());
    holders.iter().map(|holder| holder.items).collect()
}

#[test]
fn the_leaking_sites_are_named_in_proportion() {
    // Breaks when a weight is lost or doubled, or when a thread that takes and frees at once is taken for a
    // holder because it empties the buckets.
    let zone = builder(64, 8).build().unwrap();
    let mut dice = Dice::new(11);
    let mut items = Vec::new();
    let mut held = [0usize; 3];
    let count = if cfg!(miri) { 700 } else { 400_000 };
    while items.len() < count {
        let (site, take): (_, fn(&RawZone) -> _) = match dice.below(7) {
            0 => (0, site_a),
            1 | 2 => (1, site_b),
            _ => (2, site_c),
        };
        items.push(take(&zone));
        held[site] += 1;
        // Takes one item more than is needed, and gives it back.
        free(&zone, zone.alloc().unwrap());
    }
    let census = zone.census();
    assert_eq!((census.live, census.exact), (items.len(), EXACT));
    if !cfg!(miri) {
        assert!(census.unaccounted < items.len() / 4, "{census}");
        let estimates = by_line(&census);
        assert_eq!(estimates.len(), 3, "{census}");
        for (estimate, held) in estimates.into_iter().zip(held) {
            let off = (estimate as f64 / held as f64 - 1.0).abs();
            // So many of the samples fall to it by chance; which, a change of the CPU draws anew.
            let share = held as f64 / items.len() as f64;
            let deviation = ((1.0 - share) / (census.sampled_live as f64 * share)).sqrt();
            assert!(off < 4.5 * deviation, "{estimate} for {held}\n{census}");
        }
        assert!(census.holders[0].items >= census.holders[2].items);
        assert!(census.holders[0].oldest >= census.holders[0].youngest);
        assert!(census.holders[0].bytes == census.holders[0].items * 64);
    }
    items.into_iter().for_each(|item| free(&zone, item));
    assert_eq!(zone.census().sampled_live, 0);
    assert_balance(&zone);
}

#[test]
fn a_census_of_a_queue_follows_its_present_items() {
    // Breaks when samples of items that left the queue stay, or no sample follows of items that
    // came since, because they came from the CPU's cache.
    let zone = builder(256, 8).build().unwrap();
    let len = if cfg!(miri) { 100 } else { 20_000 };
    let mut queue: VecDeque<_> = (0..len).map(|_| zone.alloc().unwrap()).collect();
    thread::sleep(Duration::from_millis(110));
    let begun = Instant::now();
    for _ in 0..len {
        free(&zone, queue.pop_front().unwrap());
        queue.push_back(site_a(&zone));
    }
    if !cfg!(miri) {
        let census = zone.census();
        assert_eq!(census.holders.len(), 1, "{census}");
        let holder = &census.holders[0];
        assert!((15_000..=20_000).contains(&holder.items), "{census}");
        let since = begun.elapsed() + Duration::from_millis(100);
        assert!(holder.oldest < since, "{census}");
        assert!(holder.thread.contains("a_census_of_a_queue"));
    }
    queue.into_iter().for_each(|item| free(&zone, item));
    assert_balance(&zone);
}

/// The first item that the census knows of; those before it are put into `others`.
fn sampled<H: Hooks>(zone: &RawZone<H>, others: &mut Vec<NonNull<u8>>) -> NonNull<u8> {
    let known = zone.census().sampled_live;
    loop {
        let item = zone.alloc().unwrap();
        if zone.census().sampled_live > known {
            return item;
        }
        others.push(item);
    }
}

fn message(of: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(of)).expect_err("this must panic");
    *panic.downcast::<String>().expect("a message with facts")
}

#[test]
fn a_double_free_of_a_sample_names_both_sites() {
    // Breaks when the free of a freed sample passes, or with the wrong line.
    let zone = builder(256, 8).sample_every(1).build().unwrap();
    let mut others = Vec::new();
    let item = sampled(&zone, &mut others);
    free_here(&zone, item);
    let text = message(|| free_again(&zone, item));
    assert!(text.contains("double free"), "{text}");
    for line in [FREE_HERE, FREE_AGAIN] {
        assert!(text.contains(&format!("census.rs:{line}:")), "{text}");
    }
    others.into_iter().for_each(|item| free(&zone, item));
    assert_balance(&zone);
}

const FREE_HERE: u32 = line!() + 3;
fn free_here(zone: &RawZone, item: NonNull<u8>) {
    // SAFETY: the test's item, freed the first time.
    unsafe { zone.free(item) }
}

const FREE_AGAIN: u32 = line!() + 3;
fn free_again(zone: &RawZone, item: NonNull<u8>) {
    // SAFETY: none: it is freed the second time, and a panic is expected.
    unsafe { zone.free(item) }
}

#[test]
fn a_sample_freed_into_another_zone_is_caught() {
    // Breaks when an item of the master gets through the hooks of a secondary zone.
    let master = builder(256, 8).sample_every(1).build().unwrap();
    let second = master.secondary("second").build().unwrap();
    let mut others = Vec::new();
    let item = sampled(&master, &mut others);
    let text = message(|| free_again(&second, item));
    assert!(text.contains("foreign free"), "{text}");
    if !EXACT {
        // The ledger of a build with invariants has taken its note already.
        free(&master, item);
        others.into_iter().for_each(|item| free(&master, item));
        assert_balance(&master);
    }
}

#[test]
fn a_free_between_two_samples_is_caught() {
    // Breaks when an address between or behind the samples is taken for one.
    let zone = builder(256, 256).sample_every(1).build().unwrap();
    let mut others = Vec::new();
    let item = sampled(&zone, &mut others);
    // SAFETY: 8 is within the item.
    let inside = unsafe { item.add(8) };
    assert!(message(|| free_again(&zone, inside)).contains("foreign free"));
    others.into_iter().for_each(|item| free(&zone, item));
    free(&zone, item);
    assert_balance(&zone);
}

#[test]
fn samples_count_against_the_limit() {
    // Breaks when a sampled item is one more than the limit allows, or one less.
    for limit in [1, 2, 7, 33, 100] {
        let zone = builder(256, 8)
            .sample_every(1)
            .bucket_items(3)
            .limit(limit)
            .build()
            .unwrap();
        let mut items = Vec::new();
        let error = loop {
            match zone.alloc() {
                Ok(item) => items.push(item),
                Err(error) => break error,
            }
        };
        assert_eq!((error, items.len()), (AllocError::Limit, limit));
        assert_eq!(zone.live(), limit);
        // A sample that comes back may be allocated again, whichever it is.
        for item in &mut items {
            free(&zone, *item);
            *item = zone.alloc().expect("one is free");
        }
        items.into_iter().for_each(|item| free(&zone, item));
        assert_balance(&zone);
    }
}

#[test]
fn a_sleeper_wakes_for_a_sample() {
    // Breaks when the free of a sampled item reaches no sleeper.
    let zone = builder(256, 8).sample_every(1).limit(20).build().unwrap();
    let mut others = Vec::new();
    let item = sampled(&zone, &mut others);
    others.extend((others.len() + 1..20).map(|_| zone.alloc().unwrap()));
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| zone.alloc_wait(Some(Duration::from_secs(60))).map(Item));
        while zone.stats().sleeps == 0 {
            thread::yield_now();
        }
        free(&zone, item);
        let woken = sleeper.join().unwrap().expect("an item came back");
        free(&zone, woken.0);
    });
    others.into_iter().for_each(|item| free(&zone, item));
    assert_balance(&zone);
}

/// Refuses every so many items, and counts.
#[derive(Default)]
struct Fussy(Mutex<[i64; 2]>, u64);

impl Hooks for Fussy {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let mut balance = self.0.lock().unwrap();
        if self.1 > 0 && balance[0] as u64 % self.1 == self.1 - 1 {
            balance[0] += 1 << 20;
            return Err(HookFailed);
        }
        balance[0] += 1;
        write(item, 0x1417);
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        self.0.lock().unwrap()[0] -= 1;
        assert_eq!(read(item), 0x1417);
    }

    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        assert_eq!(read(item), 0x1417, "init is missing");
        let mut balance = self.0.lock().unwrap();
        balance[1] += 1;
        if balance[1] % 5 == 4 {
            return Err(HookFailed);
        }
        Ok(())
    }

    unsafe fn dtor(&self, item: NonNull<u8>) {
        assert_eq!(read(item), 0x1417);
    }
}

#[test]
fn samples_go_through_the_hooks() {
    // Breaks when init or fini of a sampled item is left out, or an item that its constructor
    // refused stays counted.
    let zone = builder(256, 8)
        .sample_every(1)
        .bucket_items(1)
        .hooks(Fussy(Mutex::default(), 7))
        .build()
        .unwrap();
    let mut items: Vec<_> = (0..200).filter_map(|_| zone.alloc().ok()).collect();
    let mut out = [MaybeUninit::uninit(); 50];
    let got = zone.alloc_bulk(&mut out);
    // SAFETY: the first `got` were written.
    items.extend(
        out[..got]
            .iter()
            .map(|entry| unsafe { entry.assume_init() }),
    );
    assert_eq!(zone.live(), items.len());
    // SAFETY: all are live, of this zone, and different.
    unsafe { zone.free_bulk(&items) };
    assert_balance(&zone);
    assert_eq!(
        zone.hooks().0.lock().unwrap()[0] % (1 << 20),
        0,
        "init and fini"
    );
}

#[test]
fn a_storm_of_samples_balances() {
    // Breaks when a sampled item gets into a bucket, is given out twice, or lost: nearly every
    // second allocation here is one.
    let zone = builder(128, 8)
        .sample_every(1)
        .bucket_items(2)
        .refcounts()
        .build()
        .unwrap();
    let rounds = if cfg!(miri) { 50 } else { 20_000 };
    thread::scope(|scope| {
        for me in 0..4u64 {
            let zone = &zone;
            scope.spawn(move || storm(zone, me, rounds));
        }
        scope.spawn(|| (0..50).for_each(|_| drop((zone.drain(), zone.trim(), zone.census()))));
    });
    assert_balance(&zone);
}

fn storm(zone: &RawZone, me: u64, rounds: u64) {
    pin(me);
    let mut dice = Dice::new(me + 5);
    let mut local = zone.local(4);
    let mut mine: Vec<(NonNull<u8>, u64)> = Vec::new();
    for round in 0..rounds {
        let name = me << 32 | round;
        match dice.below(8) {
            0 | 1 => mine.push((zone.alloc().unwrap(), name)),
            2 => mine.push((local.alloc().unwrap(), name)),
            3 => {
                let mut out = [MaybeUninit::uninit(); 5];
                assert_eq!(zone.alloc_bulk(&mut out), 5);
                // SAFETY: all were written.
                mine.extend(out.map(|entry| (unsafe { entry.assume_init() }, name)));
            }
            _ => continue_free(zone, &mut local, &mut mine, &mut dice),
        }
        for &(item, name) in mine.iter().filter(|(_, of)| *of == name) {
            write(item, name);
            // SAFETY: the item is live and of this zone.
            unsafe { zone.refcount(item) }.store(name as u32, Relaxed);
        }
    }
    for (item, name) in mine {
        check(zone, item, name);
        free(zone, item);
    }
}

fn check(zone: &RawZone, item: NonNull<u8>, name: u64) {
    assert_eq!(read(item), name, "another owner has this item");
    // SAFETY: the item is live and of this zone.
    assert_eq!(unsafe { zone.refcount(item) }.load(Relaxed), name as u32);
}

fn continue_free(
    zone: &RawZone,
    local: &mut uma::LocalCache,
    mine: &mut Vec<(NonNull<u8>, u64)>,
    dice: &mut Dice,
) {
    let n = dice.below(4).min(mine.len());
    let gone = mine.split_off(mine.len() - n);
    gone.iter()
        .for_each(|&(item, name)| check(zone, item, name));
    let items: Vec<_> = gone.into_iter().map(|(item, _)| item).collect();
    match dice.below(3) {
        // SAFETY: they are live, of this zone, and different.
        0 => unsafe { zone.free_bulk(&items) },
        // SAFETY: as above.
        1 => items
            .into_iter()
            .for_each(|item| unsafe { local.free(item) }),
        _ => items.into_iter().for_each(|item| free(zone, item)),
    }
}

#[test]
fn samples_keep_their_zone() {
    // Breaks when the last handle ends a zone whose only live items are samples.
    let zone = builder(256, 8).sample_every(1).build().unwrap();
    let back = zone.as_ref_ptr();
    let mut others = Vec::new();
    let item = sampled(&zone, &mut others);
    others.into_iter().for_each(|item| free(&zone, item));
    drop(zone);
    write(item, 77);
    assert_eq!(read(item), 77);
    // SAFETY: it is live and of this zone, and the last.
    unsafe { back.free(item) };
}

#[test]
fn a_pair_is_not_sampled() {
    // Breaks when a thread that frees its items at once pays for samples.
    let zone = builder(256, 8).sample_every(1).build().unwrap();
    free(&zone, zone.alloc().unwrap());
    pin(0);
    let before = zone.stats();
    (0..10_000).for_each(|_| free(&zone, zone.alloc().unwrap()));
    let after = zone.stats();
    assert!(after.misses - before.misses <= 4, "{after:?}");
}

#[test]
fn big_and_huge_zones_do_without() {
    // Breaks when a sample would cost megabytes, or a zone without sample slabs looks for one.
    let big = RawZone::builder("big", layout(1 << 20, 4096)).sample_every(1);
    let huge = builder(2048, 2048).huge_pages().sample_every(1);
    for zone in [big.build().unwrap(), huge.build().unwrap()] {
        let items: Vec<_> = (0..40).map(|_| zone.alloc().unwrap()).collect();
        let census = zone.census();
        assert_eq!(census.sampled_live, if EXACT { 40 } else { 0 });
        items.into_iter().for_each(|item| free(&zone, item));
    }
}

#[test]
fn a_census_is_readable() {
    // Breaks when the table or the JSON loses a column, or the JSON is none.
    let zone = builder(256, 8).sample_every(1).build().unwrap();
    let mut others = Vec::new();
    let item = sampled(&zone, &mut others);
    let census = zone.census();
    let table = census.to_string();
    let json = serde_json::to_string(&census).unwrap();
    assert!(
        table.contains("census.rs:") && table.contains("unaccounted for"),
        "{table}"
    );
    assert!(
        json.starts_with("{\"zone\":\"test\",") && json.contains("\"live\":"),
        "{json}"
    );
    assert!(
        json.contains("\"thread\":\"census::a_census_is_readable\""),
        "{json}"
    );
    others.into_iter().for_each(|item| free(&zone, item));
    free(&zone, item);
    assert_balance(&zone);
}
