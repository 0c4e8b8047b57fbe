//! Memory after a spike, as the system sees it: breaks when a page stays that is not needed, or
//! when other threads are slowed down as it goes.

// The checks of `invariants` have a ledger of live items, which stays as long as it once was; a
// sanitizer has its own notes about every page.
#![cfg(not(any(miri, uma_asan, feature = "invariants")))]

mod common;

use common::{Dice, Item, assert_balance, builder, free, pin, read, write, zone};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use uma::{RECLAIM_INTERVAL, RawZone, Reclaimer};

/// Tests that look at the resident size take turns.
static TURNS: Mutex<()> = Mutex::new(());

const SPIKE_ITEMS: usize = 512 << 9;
const MB: f64 = 1048576.0;

/// Resident bytes of this process, from the page tables: the cheaper counters lag behind.
fn resident() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux has a /proc");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kbytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kbytes.expect("the kernel says how much is resident") * 1024
}

fn until(time: Duration, what: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !what() && began.elapsed() < time {
        thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

#[test]
fn memory_goes_back_after_a_spike() {
    // Breaks when pages stay after a drain, or content of survivors goes with them.
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    const ITEMS: usize = 32 << 10;
    let zone = zone(2048, 2048);
    let before = resident();
    let mut items: Vec<_> = (0..ITEMS)
        .map(|i| {
            let item = zone.alloc().unwrap();
            write(item, i as u64);
            item
        })
        .collect();
    let peak = resident();
    assert!(peak - before >= ITEMS * 2048, "the spike was not resident");

    // One in a thousand survives, at random.
    let mut dice = Dice::new(1);
    let mut survivors = Vec::new();
    items.retain(|&item| {
        let survives = dice.below(1000) == 0;
        if survives {
            survivors.push((item, read(item)));
        }
        !survives
    });
    items.drain(..).for_each(|item| free(&zone, item));
    zone.drain();
    let slabs = survivors.len() * (64 << 10);
    assert!(
        zone.stats().bytes <= slabs,
        "slabs without a live item are still there"
    );
    assert!(
        resident() < before + slabs + (4 << 20),
        "pages without a live item are still there"
    );
    assert!(
        survivors.iter().all(|&(item, value)| read(item) == value),
        "a survivor was purged"
    );

    // Pages that went back are usable again, zeroed or not.
    let again: Vec<_> = (0..ITEMS).map(|_| zone.alloc().unwrap()).collect();
    again.iter().for_each(|&item| write(item, 5));
    assert!(
        survivors.iter().all(|&(item, value)| read(item) == value),
        "two owners"
    );
    again.into_iter().for_each(|item| free(&zone, item));
    survivors
        .into_iter()
        .for_each(|(item, _)| free(&zone, item));
    assert_balance(&zone);
    assert!(
        resident() < before + (4 << 20),
        "the spike left pages behind"
    );
    assert!(zone.stats().bytes_peak >= ITEMS * 2048);
}

/// Allocates 512 MB here, frees all but some of it on another thread.
fn spike(zone: &RawZone, items: &mut Vec<Item>, survives: impl Fn(usize) -> bool + Sync) {
    items.extend((0..SPIKE_ITEMS).map(|i| {
        let item = zone.alloc().unwrap();
        common::write(item, i as u64);
        Item(item)
    }));
    let mut dice = Dice::new(7);
    for i in (1..items.len()).rev() {
        items.swap(i, dice.below(i + 1));
    }
    thread::scope(|scope| {
        let items = &mut *items;
        let survives = &survives;
        scope.spawn(move || {
            let mut i = 0;
            items.retain(|&Item(item)| {
                i += 1;
                let stays = survives(i);
                if !stays {
                    free(zone, item);
                }
                stays
            });
        });
    });
}

/// The bytes that may stay: a tenth of the memory before the spike, and a thousandth of the spike for its metadata.
fn slack(base: usize) -> usize {
    base / 10 + SPIKE_ITEMS * 2048 / 1024
}

fn spike_and_report(survives: impl Fn(usize) -> bool + Sync) -> (usize, usize, usize) {
    let mut items = Vec::with_capacity(SPIKE_ITEMS);
    // The list is the test's own, so it is there before.
    items.extend((0..SPIKE_ITEMS).map(|_| Item(core::ptr::NonNull::dangling())));
    items.clear();
    let reclaimer = Reclaimer::start(RECLAIM_INTERVAL).unwrap();
    let zone = zone(2048, 2048);
    reclaimer.watch(&zone);
    free(&zone, zone.alloc().unwrap());
    let base = resident();
    spike(&zone, &mut items, survives);
    let peak = resident();
    assert!(
        peak > base + SPIKE_ITEMS * 2048 / 2,
        "the spike was not seen"
    );
    let target = base + slack(base) + items.len() * 4096;
    let ticks = reclaimer.stats().ticks;
    let took = until(Duration::from_secs(60), || resident() <= target);
    let left = resident();
    let stats = reclaimer.stats();
    // On a busy machine ticks come late. Then their number says whether a second is enough.
    let second = Duration::from_secs(1);
    let ticks = stats.ticks - ticks;
    assert!(
        took <= second || RECLAIM_INTERVAL * ticks as u32 <= second,
        "{took:?} and {ticks} ticks"
    );
    println!(
        "base {:.1} MB, peak {:.1}, after {:.3} s {:.1}; zone {:.1}; {} pages in {} calls, {:.0} ns a page",
        base as f64 / MB,
        peak as f64 / MB,
        took.as_secs_f64(),
        left as f64 / MB,
        zone.stats().bytes as f64 / MB,
        stats.purged.pages,
        stats.purged.calls,
        stats.busy.as_nanos() as f64 / stats.purged.pages.max(1) as f64,
    );
    let survivors = items.len();
    items.into_iter().for_each(|Item(item)| free(&zone, item));
    (base, left, survivors)
}

#[test]
fn a_spike_is_gone_within_a_second() {
    // Breaks when anything stays resident that the spike brought: items, buckets, lists, tables.
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let (base, left, _) = spike_and_report(|_| false);
    assert!(
        left <= base + slack(base),
        "{left} bytes are left, of {base} before"
    );
}

#[test]
fn one_in_a_hundred_pins_a_page_each() {
    // Breaks when pages between survivors stay.
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let (base, left, survivors) = spike_and_report(|i| i % 100 == 0);
    assert!(survivors > 2600);
    assert!(
        left < base + (16 << 20),
        "{} bytes above the base",
        left - base
    );
}

/// A worker's count of operations, and its CPU time.
#[derive(Default)]
struct Work {
    pairs: AtomicU64,
    cpu_ns: AtomicU64,
    done: AtomicBool,
}

impl Work {
    /// Allocates and frees until told to stop.
    fn run(&self, zone: &RawZone) {
        while !self.done.load(Relaxed) {
            for _ in 0..10_000 {
                let item = zone.alloc().unwrap();
                write(item, 1);
                free(zone, item);
            }
            self.pairs.fetch_add(10_000, Relaxed);
            self.cpu_ns.store(cpu_ns(), Relaxed);
        }
    }

    /// Pairs in a second of the worker's CPU, over the next `millis` ms. The time of other programs
    /// on the CPU does not count; a slower CPU does.
    fn rate(&self, millis: u64) -> f64 {
        let now = || (self.pairs.load(Relaxed), self.cpu_ns.load(Relaxed));
        let (pairs, ns) = now();
        thread::sleep(Duration::from_millis(millis));
        let (pairs_after, ns_after) = now();
        (pairs_after - pairs) as f64 / (ns_after - ns).max(1) as f64 * 1e9
    }
}

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write into.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

#[test]
#[ignore = "a measurement, for a quiet machine and a release build"]
fn giving_back_slows_a_worker_by_a_twentieth_at_most() {
    // Breaks when a worker on another CPU loses more than a twentieth of its throughput while
    // 512 MB are given back.
    let _turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    let work = Work::default();
    let busy = builder(256, 64).build().unwrap();
    let zone = zone(2048, 2048);
    let mut items = Vec::with_capacity(SPIKE_ITEMS);
    pin(1);
    let reclaimer = Reclaimer::start(RECLAIM_INTERVAL).unwrap();
    reclaimer.watch(&zone);
    reclaimer.watch(&busy);
    let mut shares = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            work.run(&busy);
        });
        for _ in 0..15 {
            spike(&zone, &mut items, |_| false);
            items.clear();
            let (mut quiet, mut purging) = (Vec::new(), Vec::new());
            let (before, began) = (reclaimer.stats(), Instant::now());
            let mut gone = None;
            while began.elapsed() < Duration::from_millis(1200) {
                let pages = reclaimer.stats().purged.pages;
                let rate = work.rate(50);
                match reclaimer.stats().purged.pages > pages {
                    true => purging.push(rate),
                    false => quiet.push(rate),
                }
                if zone.stats().bytes < 1 << 20 {
                    gone.get_or_insert(began.elapsed());
                }
            }
            let after = reclaimer.stats();
            let pages = after.purged.pages - before.purged.pages;
            let windows = purging.len();
            let share = median(purging) / median(quiet);
            println!(
                "{:.1} % of the throughput in {windows} windows with purges; gone after {gone:?}; \
                 {:.0} ns a page, {} calls for {pages} pages",
                100.0 * share,
                (after.busy - before.busy).as_nanos() as f64 / pages as f64,
                after.purged.calls - before.purged.calls,
            );
            shares.push(share);
        }
        work.done.store(true, Relaxed);
    });
    let share = median(shares);
    println!("median {:.1} %", 100.0 * share);
    assert!(share > 0.95);
}
