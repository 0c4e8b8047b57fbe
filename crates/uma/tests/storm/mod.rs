//! A storm over one keg: threads that bounce between the CPUs, signals whose handler allocates,
//! drains from afar, a limit that moves, zones that come and go. Every item carries a word that
//! that names its owner, swapped each time the item changes hands: two owners meet in it at once.

#![allow(unreachable_pub, reason = "two crates take this file in")]
#![allow(dead_code, reason = "each uses a part of it")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::thread;
use std::time::{Duration, Instant};
use uma::{AllocError, Backend, RawZone};

mod sys;

/// Bytes of an item, and the address space for all of them: 4,096 items.
const ITEM_BYTES: usize = 256;
const RESERVE_BYTES: usize = 1 << 20;
/// Small enough that buckets travel all the time.
const BUCKET_ITEMS: usize = 32;
/// The most items that a thread holds, beyond one bulk.
const HELD_MAX: usize = 48;
const BULK_MAX: usize = 24;
/// Items that wait for a thread that did not allocate them, for each zone.
const MAILBOXES: usize = 64;
const STASH: usize = 8;
const DRAIN_EVERY: Duration = Duration::from_micros(100);

/// The owner of an item, in its first word. A page that was purged is zero, so a free item is too.
const FREE: u64 = 0;
const IN_MAILBOX: u64 = u64::MAX;
/// Set beside a thread's number when it is its handler that holds the item.
const HANDLER: u64 = 1 << 32;

/// The settings of a storm.
#[derive(Clone, Debug)]
pub struct Config {
    pub backend: Backend,
    pub threads: usize,
    pub time: Duration,
    /// After at least `time`, go on until this many items were allocated or freed.
    pub ops: u64,
    /// Pauses before each commit; needs the feature `stretched`.
    pub stretch: u32,
    /// Off: the negative control; needs the feature `stretched`.
    pub armed: bool,
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backend: Backend::choose(),
            threads: 16,
            time: Duration::from_secs(1),
            ops: 0,
            stretch: 0,
            armed: true,
            seed: 1,
        }
    }
}

/// The counts of operations and findings.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub backend: String,
    pub time: Duration,
    /// Items allocated, and items freed.
    pub ops: u64,
    pub aborts: u64,
    /// Items taken or put down inside signal handlers.
    pub handled: u64,
    pub migrations: u64,
    pub drains: u64,
    pub closings: u64,
    /// Allocations refused: at the limit, or with the reservation used up.
    pub refusals: u64,
    /// Zones that ended while items of theirs were live.
    pub zones: u64,
    /// Items found with two holders.
    pub duplicated: u64,
    pub lost: u64,
}

impl Outcome {
    pub fn is_clean(&self) -> bool {
        self.duplicated == 0 && self.lost == 0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} for {:.1?}: {} operations ({} in handlers), {} aborts, {} migrations, {} drains, \
             {} closings, {} refusals, {} zones: {} lost, {} duplicated",
            self.backend,
            self.time,
            self.ops,
            self.handled,
            self.aborts,
            self.migrations,
            self.drains,
            self.closings,
            self.refusals,
            self.zones,
            self.lost,
            self.duplicated,
        )
    }
}

/// Runs it. The caller decides whether the outcome is a failure.
///
/// # Panics
/// If the zone itself finds a fault, or its counts do not balance.
pub fn run(config: &Config) -> Outcome {
    set_stretch(config);
    let aborts_before = kern::rseq::aborts();
    let begin = Instant::now();
    let storm = Storm::new(config);
    let capacity = storm.take_all().len();
    SHARED.store(ptr::from_ref(&storm).cast_mut(), Release);
    sys::on_usr1(handler);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..config.threads)
            .map(|me| {
                let storm = &storm;
                scope.spawn(move || Worker::new(storm, me).work())
            })
            .collect();
        scope.spawn(|| storm.signal());
        scope.spawn(|| storm.drain());
        scope.spawn(|| storm.move_limit());
        scope.spawn(|| storm.let_zones_end());
        storm.wait(config, begin);
        for worker in workers {
            worker.join().expect("a worker panicked");
        }
    });
    SHARED.store(ptr::null_mut(), Release);
    // A section of an unarmed run may hang or crash from here on; that it corrupted is known.
    let left = if storm.duplicated.load(Relaxed) == 0 || config.armed {
        storm.audit()
    } else {
        capacity
    };
    let stats = storm.zones[0].stats();
    Outcome {
        backend: stats.backend.to_string(),
        time: begin.elapsed(),
        ops: storm.ops.load(Relaxed),
        aborts: kern::rseq::aborts() - aborts_before,
        handled: storm.handled.load(Relaxed),
        migrations: storm.migrations.load(Relaxed),
        drains: storm.drains.load(Relaxed),
        closings: stats.closings,
        refusals: storm.refusals.load(Relaxed),
        zones: storm.ended.load(Relaxed),
        duplicated: storm.duplicated.load(Relaxed),
        lost: capacity.abs_diff(left) as u64,
    }
}

/// For a process that is expected to corrupt itself: it ends with status 3 for any sign of corruption, and with 4 if it
/// hangs without one.
pub fn corruption_is_exit_3(time: Duration) {
    extern "C" fn crashed(_: i32) {
        sys::exit_now(3);
    }
    sys::on_crash(crashed);
    std::panic::set_hook(Box::new(|_| sys::exit_now(3)));
    thread::spawn(move || {
        thread::sleep(time + Duration::from_secs(20));
        sys::exit_now(4);
    });
}

/// Ends the process without looking at anything that may be torn.
pub fn exit(code: i32) -> ! {
    sys::exit_now(code)
}

#[cfg(feature = "stretched")]
fn set_stretch(config: &Config) {
    uma::STRETCH.store(config.stretch, Relaxed);
    uma::ARMED.store(if config.armed { u64::MAX } else { 0 }, Relaxed);
}

#[cfg(not(feature = "stretched"))]
fn set_stretch(config: &Config) {
    assert!(
        config.stretch == 0 && config.armed,
        "built without the feature `stretched`"
    );
}

/// For the handler, which has no argument for it.
static SHARED: AtomicPtr<Storm> = AtomicPtr::new(ptr::null_mut());

/// The state that all threads share.
struct Storm {
    /// The master and a secondary zone.
    zones: [RawZone; 2],
    mail: [[AtomicPtr<u8>; MAILBOXES]; 2],
    /// The threads, for the thread that sends signals; 0: not there.
    tids: Vec<AtomicI32>,
    cpus: Vec<usize>,
    seed: u64,
    over: AtomicBool,
    ops: AtomicU64,
    handled: AtomicU64,
    migrations: AtomicU64,
    drains: AtomicU64,
    refusals: AtomicU64,
    ended: AtomicU64,
    duplicated: AtomicU64,
    sleepers: AtomicUsize,
}

impl Storm {
    fn new(config: &Config) -> Self {
        let layout = Layout::from_size_align(ITEM_BYTES, 64).expect("a power of two");
        let master = RawZone::builder("storm", layout)
            .reserve_bytes(RESERVE_BYTES)
            .bucket_items(BUCKET_ITEMS)
            .backend(config.backend)
            .build()
            .expect("there is address space");
        let second = master
            .secondary("storm second")
            .backend(config.backend)
            .bucket_items(BUCKET_ITEMS / 2)
            .build()
            .expect("there is a keg");
        Self {
            zones: [master, second],
            mail: [const { [const { AtomicPtr::new(ptr::null_mut()) }; MAILBOXES] }; 2],
            tids: (0..config.threads).map(|_| AtomicI32::new(0)).collect(),
            cpus: sys::allowed_cpus(),
            seed: config.seed,
            over: AtomicBool::new(false),
            ops: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            migrations: AtomicU64::new(0),
            drains: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            duplicated: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
        }
    }

    /// Moves an item from one holder to another. If the item was not in the place that the record
    /// names, it is in two places.
    fn pass(&self, item: NonNull<u8>, from: u64, to: u64) {
        if owner(item).swap(to, AcqRel) != from {
            self.duplicated.fetch_add(1, Relaxed);
            self.over.store(true, Release);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    fn wait(&self, config: &Config, begin: Instant) {
        while !self.is_over()
            && (begin.elapsed() < config.time || self.ops.load(Relaxed) < config.ops)
        {
            thread::sleep(Duration::from_millis(1));
        }
        self.over.store(true, Release);
    }

    /// Interrupts one thread after the other.
    fn signal(&self) {
        while !self.is_over() {
            for tid in &self.tids {
                sys::send_usr1(tid.load(Relaxed));
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Takes the caches back from afar.
    fn drain(&self) {
        while !self.is_over() {
            let turn = self.drains.fetch_add(1, Relaxed);
            let zone = &self.zones[usize::from(turn & 1 != 0)];
            if turn & 6 == 0 {
                zone.trim();
            } else {
                zone.drain();
            }
            if turn & 63 == 0 {
                assert!(zone.stats().used <= RESERVE_BYTES / ITEM_BYTES);
                assert!(zone.is_valid());
            }
            thread::sleep(DRAIN_EVERY);
        }
    }

    /// Lowers the limit below the number of live items, which closes the keg, and removes it again.
    fn move_limit(&self) {
        let mut dice = Dice::new(self.seed ^ 0x11);
        while !self.is_over() {
            thread::sleep(Duration::from_millis(dice.below(40) as u64));
            self.zones[0].set_limit(Some(dice.below(600)));
            thread::sleep(Duration::from_micros(dice.below(500) as u64));
            self.zones[1].set_limit(None);
        }
        self.zones[0].set_limit(None);
    }

    /// Makes zones and drops their handles while items are live, in the hands of this thread.
    fn let_zones_end(&self) {
        let mut dice = Dice::new(self.seed ^ 0x22);
        while !self.is_over() {
            let zone = self.zones[0]
                .secondary("storm for a while")
                .backend(self.zones[0].stats().backend)
                .build()
                .expect("there is a keg");
            let back = zone.as_ref_ptr();
            let items: Vec<_> = (0..dice.below(40))
                .filter_map(|_| zone.alloc().ok())
                .collect();
            for &item in &items {
                self.pass(item, FREE, HANDLER);
            }
            let again = items.len() / 3;
            for &item in &items[..again] {
                self.pass(item, HANDLER, FREE);
                // SAFETY: it is live, and ours alone.
                unsafe { zone.free(item) };
            }
            drop(zone);
            for &item in &items[again..] {
                self.pass(item, HANDLER, FREE);
                // SAFETY: it is live, ours alone, and keeps its zone.
                unsafe { back.free(item) };
            }
            self.ended.fetch_add(1, Relaxed);
            self.ops.fetch_add(2 * items.len() as u64, Relaxed);
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Everything comes back and is there once; how many items that is.
    fn audit(&self) -> usize {
        for (zone, mail) in self.zones.iter().zip(&self.mail) {
            for mailbox in mail {
                if let Some(item) = NonNull::new(mailbox.swap(ptr::null_mut(), AcqRel)) {
                    self.pass(item, IN_MAILBOX, FREE);
                    // SAFETY: it was in the mailbox alone, so it is live and ours.
                    unsafe { zone.free(item) };
                }
            }
        }
        for zone in &self.zones {
            let stats = zone.stats();
            assert_eq!((stats.used, stats.requests), (0, stats.frees), "{stats}");
        }
        let mut items = self.take_all();
        let count = items.len();
        items.sort_unstable();
        items.dedup();
        self.duplicated
            .fetch_add((count - items.len()) as u64, Relaxed);
        for zone in &self.zones {
            zone.drain();
            let stats = zone.stats();
            assert_eq!((stats.used, stats.cached()), (0, 0), "{stats}");
            assert!(zone.is_valid());
        }
        assert_eq!(
            self.zones[0].stats().bytes,
            0,
            "pages stay without an item live"
        );
        items.len()
    }

    /// Takes every item there is, from both zones in turn, and gives all back.
    fn take_all(&self) -> Vec<NonNull<u8>> {
        let mut of = [Vec::new(), Vec::new()];
        for turn in 0.. {
            match self.zones[turn % 2].alloc() {
                Ok(item) => of[turn % 2].push(item),
                Err(error) => {
                    assert_eq!(error, AllocError::NoMemory);
                    break;
                }
            }
        }
        for (zone, items) in self.zones.iter().zip(&of) {
            for &item in items {
                self.pass(item, FREE, IN_MAILBOX);
            }
            for &item in items {
                self.pass(item, IN_MAILBOX, FREE);
            }
            // SAFETY: all were just allocated from this zone.
            unsafe { zone.free_bulk(items) };
        }
        of.concat()
    }
}

/// The word that names the owner of an item.
fn owner<'a>(item: NonNull<u8>) -> &'a AtomicU64 {
    // SAFETY: items are aligned, accessible as long as the zone is, and this word of theirs is
    // accessed as an atomic alone.
    unsafe { item.cast::<AtomicU64>().as_ref() }
}

/// A thread that allocates and frees.
struct Worker<'a> {
    storm: &'a Storm,
    me: u64,
    dice: Dice,
    held: [Vec<NonNull<u8>>; 2],
    ops: u64,
}

impl<'a> Worker<'a> {
    fn new(storm: &'a Storm, me: usize) -> Self {
        Self {
            storm,
            me: me as u64 + 1,
            dice: Dice::new(storm.seed.wrapping_add(me as u64 * 7919)),
            held: [Vec::new(), Vec::new()],
            ops: 0,
        }
    }

    fn work(mut self) {
        ME.set(self.me);
        let tid = &self.storm.tids[self.me as usize - 1];
        tid.store(sys::gettid(), Relaxed);
        while !self.storm.is_over() {
            for _ in 0..256 {
                self.step();
            }
            self.storm
                .ops
                .fetch_add(core::mem::take(&mut self.ops), Relaxed);
            if self.dice.below(4) == 0 {
                let to = self.storm.cpus[self.dice.below(self.storm.cpus.len())];
                sys::run_on(&[to]);
                self.storm.migrations.fetch_add(1, Relaxed);
            } else if self.dice.below(8) == 0 {
                sys::run_on(&self.storm.cpus);
            }
        }
        tid.store(0, Relaxed);
        sys::block_usr1();
        self.put_everything_down();
    }

    fn step(&mut self) {
        let z = self.dice.below(2);
        match self.dice.below(64) {
            0..24 if self.held[z].len() < HELD_MAX => self.alloc(z),
            0..48 => self.free(z),
            48..52 if self.held[z].len() < HELD_MAX => self.alloc_bulk(z),
            48..56 => self.free_bulk(z),
            56..62 => self.exchange_mail(z),
            62 => self.alloc_or_wait(z),
            _ if self.dice.below(64) == 0 => thread::yield_now(),
            _ => {}
        }
    }

    fn took(&mut self, z: usize, item: NonNull<u8>) {
        self.storm.pass(item, FREE, self.me);
        self.held[z].push(item);
        self.ops += 1;
    }

    fn alloc(&mut self, z: usize) {
        // Most runs are of several, as packets come.
        for _ in 0..=self.dice.below(8) {
            let zone = &self.storm.zones[z];
            match zone.alloc() {
                Ok(item) => self.took(z, item),
                Err(_) => return self.refused(),
            }
        }
    }

    fn refused(&mut self) {
        self.storm.refusals.fetch_add(1, Relaxed);
    }

    /// Waits at times, one thread at a time: the keg stays closed while any thread does.
    fn alloc_or_wait(&mut self, z: usize) {
        let zone = &self.storm.zones[z];
        let item = if self.storm.sleepers.fetch_add(1, Relaxed) == 0 && self.dice.below(16) == 0 {
            zone.alloc_wait(Some(Duration::from_micros(200)))
        } else {
            zone.alloc_urgent()
        };
        self.storm.sleepers.fetch_sub(1, Relaxed);
        match item {
            Ok(item) => self.took(z, item),
            Err(_) => self.refused(),
        }
    }

    fn free(&mut self, z: usize) {
        for _ in 0..=self.dice.below(8) {
            let Some(item) = self.held[z].pop() else {
                return;
            };
            self.put_down(z, item);
        }
    }

    fn put_down(&mut self, z: usize, item: NonNull<u8>) {
        self.storm.pass(item, self.me, FREE);
        // SAFETY: it was live and ours alone, which its word proved.
        unsafe { self.storm.zones[z].free(item) };
        self.ops += 1;
    }

    fn alloc_bulk(&mut self, z: usize) {
        let mut out = [MaybeUninit::uninit(); BULK_MAX];
        let want = 1 + self.dice.below(BULK_MAX);
        let got = self.storm.zones[z].alloc_bulk(&mut out[..want]);
        for entry in &out[..got] {
            // SAFETY: that many were written.
            self.took(z, unsafe { entry.assume_init() });
        }
        if got < want {
            self.refused();
        }
    }

    fn free_bulk(&mut self, z: usize) {
        let from = self.held[z]
            .len()
            .saturating_sub(1 + self.dice.below(BULK_MAX));
        let items = self.held[z].split_off(from);
        for &item in &items {
            self.storm.pass(item, self.me, FREE);
        }
        // SAFETY: they were live and ours alone, which their words proved.
        unsafe { self.storm.zones[z].free_bulk(&items) };
        self.ops += items.len() as u64;
    }

    /// Leaves an item for another thread to free, and frees an item that another thread left.
    fn exchange_mail(&mut self, z: usize) {
        let mailbox = &self.storm.mail[z][self.dice.below(MAILBOXES)];
        let mine = self.held[z].pop();
        if let Some(item) = mine {
            self.storm.pass(item, self.me, IN_MAILBOX);
        }
        let mine = mine.map_or(ptr::null_mut(), NonNull::as_ptr);
        if let Some(item) = NonNull::new(mailbox.swap(mine, AcqRel)) {
            self.storm.pass(item, IN_MAILBOX, self.me);
            self.put_down(z, item);
        }
    }

    fn put_everything_down(&mut self) {
        for z in 0..2 {
            while let Some(item) = self.held[z].pop() {
                self.put_down(z, item);
            }
            while let Some(item) = unstash(z) {
                self.storm.pass(item, self.me | HANDLER, FREE);
                // SAFETY: the handler held it, and runs no more.
                unsafe { self.storm.zones[z].free(item) };
                self.ops += 1;
            }
        }
        self.storm
            .ops
            .fetch_add(core::mem::take(&mut self.ops), Relaxed);
    }
}

thread_local! {
    /// This thread's number; 0: not a worker.
    static ME: Cell<u64> = const { Cell::new(0) };
    /// Items that its handler holds, for each zone.
    static STASHED: [Cell<[*mut u8; STASH]>; 2] =
        const { [const { Cell::new([ptr::null_mut(); STASH]) }; 2] };
}

/// Allocates and frees items, in the middle of any operation.
extern "C" fn handler(_: i32) {
    let storm = SHARED.load(Acquire);
    let me = ME.get();
    if storm.is_null() || me == 0 {
        return;
    }
    // SAFETY: it is there until all workers, whose handler this is, are joined.
    let storm = unsafe { &*storm };
    let mut handled = 0;
    for (z, zone) in storm.zones.iter().enumerate() {
        // Up to four out, then up to four in, of which some may be older.
        for _ in 0..4 {
            if stash_is_full(z) {
                break;
            }
            let Some(item) = zone.pop_fast() else { break };
            storm.pass(item, FREE, me | HANDLER);
            stash(z, item);
            handled += 1;
        }
        for _ in 0..4 {
            let Some(item) = unstash(z) else { break };
            storm.pass(item, me | HANDLER, FREE);
            // SAFETY: it was live and the handler's alone.
            if !unsafe { zone.push_fast(item) } {
                storm.pass(item, FREE, me | HANDLER);
                stash(z, item);
                break;
            }
            handled += 1;
        }
    }
    storm.handled.fetch_add(handled, Relaxed);
    storm.ops.fetch_add(handled, Relaxed);
}

fn stash_is_full(z: usize) -> bool {
    STASHED.with(|stashed| stashed[z].get().iter().all(|place| !place.is_null()))
}

fn stash(z: usize, item: NonNull<u8>) {
    STASHED.with(|stashed| {
        let mut places = stashed[z].get();
        if let Some(place) = places.iter_mut().find(|place| place.is_null()) {
            *place = item.as_ptr();
        }
        stashed[z].set(places);
    });
}

fn unstash(z: usize) -> Option<NonNull<u8>> {
    STASHED.with(|stashed| {
        let mut places = stashed[z].get();
        let place = places.iter_mut().find(|place| !place.is_null())?;
        let item = core::mem::replace(place, ptr::null_mut());
        stashed[z].set(places);
        NonNull::new(item)
    })
}

/// xorshift64*: the same on every machine, so that a seed can be replayed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}
