//! The time of our locks beside std's: alternating rounds in one process, the median of the ratios.
//!
//! `cargo run --release -p mbuma-kern --example locks`
//!
//! Below 1.00 ours is faster. Figures of different runs, or of a machine that does other things meanwhile, cannot be
//! compared.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use kern::lock::RawMutex;
use kern::{Counter, LockClass, Mutex, RmLock, lock_stats, order, rseq};

static CLASS: LockClass = LockClass::new("bench", order::STATS);
static RAW: LockClass = LockClass::new("bench raw", order::STATS);

/// Many short rounds: most of them fall between two interruptions.
const ROUNDS: usize = 101;
const ALONE: u64 = 20_000;
/// Longer, so that the threads meet.
const TOGETHER: u64 = 200_000;

fn main() {
    let (ours, theirs) = (Mutex::new(&CLASS, 0_u64), std::sync::Mutex::new(0_u64));
    let raw = RawMutex::new();
    let rm = RmLock::new(&CLASS, 0_u64);
    let std_rw = std::sync::RwLock::new(0_u64);
    let lock = || *black_box(&ours).lock() += 1;
    let raw_lock = || {
        black_box(&raw).lock(&RAW);
        raw.unlock();
    };
    let std_lock = || *black_box(&theirs).lock().expect("no poison") += 1;
    let read = || _ = black_box(*black_box(&rm).read());
    let std_read = || _ = black_box(*black_box(&std_rw).read().expect("no poison"));
    let write = || *black_box(&rm).write() += 1;
    let std_write = || *black_box(&std_rw).write().expect("no poison") += 1;

    println!("one thread");
    compare("  mutex", || alone(lock), || alone(std_lock));
    compare("  raw mutex", || alone(raw_lock), || alone(std_lock));
    compare("  read", || alone(read), || alone(std_read));
    compare("  write", || alone(write), || alone(std_write));
    for threads in [2, 4] {
        println!("{threads} threads on one lock");
        let run = |act: &(dyn Fn() + Sync)| together(threads, act);
        compare("  mutex", || run(&lock), || run(&std_lock));
        compare("  read", || run(&read), || run(&std_read));
        compare("  write", || run(&write), || run(&std_write));
    }
    in_sections();
    print!("\n{}", lock_stats());
}

/// What a read-mostly lock would cost if readers counted in restartable sections, as counters do, and a writer had to
/// interrupt all CPUs.
fn in_sections() {
    let (rm, readers) = (RmLock::new(&CLASS, 0_u64), Counter::new());
    let read = || _ = black_box(*black_box(&rm).read());
    let write = || *black_box(&rm).write() += 1;
    let sections = || {
        black_box(&readers).inc();
        black_box(&readers).inc();
    };
    let interrupt = || assert!(rseq::fence(), "membarrier");
    println!("sections beside a read-mostly lock");
    beside("a read", "  one thread", || alone(sections), || alone(read));
    for threads in [2, 4] {
        let run = |act: &(dyn Fn() + Sync)| together(threads, act);
        let name = format!("  {threads} threads");
        beside("a read", &name, || run(&sections), || run(&read));
    }
    if rseq::fence_available() {
        let busy = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                while busy.load(Relaxed) {
                    read();
                }
            });
            beside(
                "a write",
                "  membarrier",
                || alone(interrupt),
                || alone(write),
            );
            busy.store(false, Relaxed);
        });
    }
}

fn compare(name: &str, ours: impl Fn() -> f64, theirs: impl Fn() -> f64) {
    beside("std", name, ours, theirs);
}

/// Nanoseconds of each, in turn, so that what else goes on meets both.
fn beside(other: &str, name: &str, ours: impl Fn() -> f64, theirs: impl Fn() -> f64) {
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let (ours, theirs) = (ours(), theirs());
            (ours / theirs, ours, theirs)
        })
        .collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, ours, theirs) = rounds[ROUNDS / 2];
    let (low, high) = (rounds[ROUNDS / 4].0, rounds[ROUNDS * 3 / 4].0);
    println!(
        "{name:12} {ratio:5.2} of {other} ({low:.2} to {high:.2}); {ours:6.1} ns to {theirs:6.1} ns"
    );
}

fn alone(act: impl Fn()) -> f64 {
    let begin = Instant::now();
    (0..ALONE).for_each(|_| act());
    begin.elapsed().as_nanos() as f64 / ALONE as f64
}

/// The longest of the threads' times, each by its own clock: this one may sleep through it all.
fn together(threads: u64, act: &(dyn Fn() + Sync)) -> f64 {
    let start = &Barrier::new(threads as usize);
    let run = || {
        start.wait();
        let begin = Instant::now();
        (0..TOGETHER).for_each(|_| act());
        begin.elapsed()
    };
    let longest = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let times = running.into_iter().map(|t| t.join().expect("no panic"));
        times.max().unwrap_or_default()
    });
    longest.as_nanos() as f64 / (threads * TOGETHER) as f64
}
