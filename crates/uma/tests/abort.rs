//! Interruptions at the critical places: before every instruction of every critical section, at the commit, and right
//! after it. Breaks when an aborted section has changed data, or a committed one runs again: an item lost, or with two
//! holders, or a wrong count.
//!
//! Chance can't stop a section at a chosen place, but a breakpoint can. The linker tells where the descriptors of all
//! sections of this program are; a decoder, where in them an instruction begins; there goes an `int3`. The thread that
//! steps on it gets a signal, and so the kernel aborts the section, as it would for any other signal. The handler finds
//! the abort address in the interrupted context (or, after the commit, the breakpoint), puts the instruction back,
//! allocates and frees on its own account, perhaps moves to another CPU, and returns.
//!
//! A play of allocations and frees goes on over that, checking each item's owner, and in the end
//! every item and every count.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri), not(loom)))]
// Trash is written into free items there, where this test keeps their owners; and items may come
// from elsewhere than the sections.
#![cfg(not(feature = "invariants"))]

mod common;

#[path = "abort/breakpoint.rs"]
mod breakpoint;
#[path = "abort/section.rs"]
mod section;

use breakpoint::{Breakpoints, Mode};
use common::{assert_balance, builder, pin};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use section::{Kind, Section};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use uma::{Backend, HookFailed, Hooks, RawZone};

/// Threads that run sections would step on each other's breakpoints.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const ITEMS: usize = 48;
const BUCKET_ITEMS: usize = 6;
const FREE: u64 = 0;
const HELD: u64 = 1;
const HANDLER: u64 = 2;

/// Refuses an item from time to time, so that the test covers the return of refused items.
struct Moody(AtomicU64);

impl Hooks for Moody {
    unsafe fn ctor(&self, _: NonNull<u8>) -> Result<(), HookFailed> {
        match self.0.fetch_add(1, Relaxed) % 11 {
            10 => Err(HookFailed),
            _ => Ok(()),
        }
    }
}

/// A zone and the items that the test holds. The handler's data is in atomics.
struct Play {
    zone: RawZone,
    moody: RawZone<Moody>,
    held: Vec<NonNull<u8>>,
    allocs: u64,
    ops: usize,
    /// Before which operation the breakpoints are set.
    arm_at: usize,
    breakpoints: Breakpoints,
}

/// For the handler: the zone, how many of its items are live before the operation that goes on
/// now, and whether that is a single allocation or free, of which the handler knows the effect.
static ZONE: AtomicPtr<RawZone> = AtomicPtr::new(core::ptr::null_mut());
static LIVE_BEFORE: AtomicI64 = AtomicI64::new(0);
static SINGLE: AtomicUsize = AtomicUsize::new(0);
/// The items that the handler keeps, and a record of its actions.
static KEPT: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static HANDLER_ALLOCS: AtomicU64 = AtomicU64::new(0);
/// Items that were not where their word said, and counts that were wrong at a breakpoint.
static FAULTS: AtomicU64 = AtomicU64::new(0);

fn zone(backend: Backend) -> RawZone {
    builder(64, 8)
        .backend(backend)
        .limit(ITEMS)
        .reserve_bytes(1 << 20)
        .bucket_items(BUCKET_ITEMS)
        .sample_every(0)
        .build()
        .expect("there is address space")
}

fn pass(item: NonNull<u8>, from: u64, to: u64) {
    // SAFETY: items are aligned and accessible, and their first word is an atomic to all.
    let word = unsafe { item.cast::<AtomicU64>().as_ref() };
    if word.swap(to, Relaxed) != from {
        FAULTS.fetch_add(1, Relaxed);
    }
}

impl Play {
    fn new(breakpoints: Breakpoints, arm_at: usize) -> Self {
        let zone = zone(Backend::Rseq);
        let moody = builder(64, 8)
            .backend(Backend::Rseq)
            .reserve_bytes(1 << 20)
            .bucket_items(BUCKET_ITEMS)
            .sample_every(0)
            .hooks(Moody(AtomicU64::new(0)))
            .build()
            .expect("there is address space");
        Self {
            zone,
            moody,
            held: Vec::new(),
            allocs: 0,
            ops: 0,
            arm_at,
            breakpoints,
        }
    }

    /// Runs all operations; returns how often a breakpoint was met.
    fn run(mut self) -> Met {
        FAULTS.store(0, Relaxed);
        HANDLER_ALLOCS.store(0, Relaxed);
        ZONE.store(&raw mut self.zone, Relaxed);
        let aborts = kern::rseq::aborts();
        let before = breakpoint::met();
        // Up and down through previous buckets, depot and slabs; never so many that the handler
        // could not have three more.
        for most in [3, 20, 7, 40] {
            while self.held.len() < most {
                self.alloc();
            }
            while self.held.len() > most / 4 {
                self.free();
            }
        }
        for (taken, given) in [
            (13, 9),
            (1, 1),
            (7, 7),
            (4, 4),
            (20, 9),
            (5, 6),
            (6, 2),
            (3, 8),
            (8, 5),
            (2, 11),
        ] {
            self.alloc_bulk(taken);
            self.free_bulk(given);
        }
        for _ in 0..10 {
            self.alloc();
            self.free();
        }
        while !self.held.is_empty() {
            self.free();
        }
        self.others();
        self.settle();
        let after = breakpoint::met();
        let met = Met {
            inside: after.inside - before.inside,
            behind: after.behind - before.behind,
            aborts: kern::rseq::aborts() - aborts,
        };
        ZONE.store(core::ptr::null_mut(), Relaxed);
        assert_eq!(
            FAULTS.load(Relaxed),
            0,
            "an item was in two places, or a count was wrong"
        );
        met
    }

    /// Comes before each operation. `change` is that of the number of live items, for a single
    /// one.
    fn next(&mut self, change: Option<i64>) {
        if self.ops == self.arm_at {
            self.breakpoints.arm();
        } else if self.ops == self.arm_at + 1 && self.breakpoints.mode() == Mode::Stay {
            self.breakpoints.disarm();
        }
        self.ops += 1;
        let kept = !KEPT.load(Relaxed).is_null();
        LIVE_BEFORE.store(self.held.len() as i64 + i64::from(kept), Relaxed);
        SINGLE.store(change.map_or(0, |change| (change + 2) as usize), Relaxed);
    }

    fn take(&mut self, item: NonNull<u8>) {
        pass(item, FREE, HELD);
        self.held.push(item);
        self.allocs += 1;
    }

    fn give(&mut self) -> NonNull<u8> {
        let item = self.held.pop().expect("the play holds some");
        pass(item, HELD, FREE);
        item
    }

    fn alloc(&mut self) {
        self.next(Some(1));
        let item = alloc(&self.zone);
        self.take(item);
    }

    fn free(&mut self) {
        self.next(Some(-1));
        let item = self.give();
        free(&self.zone, item);
        self.take_kept();
    }

    /// Frees the items that the handler kept.
    fn take_kept(&mut self) {
        let kept = KEPT.swap(core::ptr::null_mut(), Relaxed);
        if let Some(item) = NonNull::new(kept) {
            SINGLE.store(0, Relaxed);
            pass(item, HANDLER, FREE);
            free(&self.zone, item);
        }
    }

    fn alloc_bulk(&mut self, items: usize) {
        self.next(None);
        let mut out = [MaybeUninit::uninit(); ITEMS];
        let got = self.zone.alloc_bulk(&mut out[..items]);
        assert_eq!(got, items);
        for entry in &out[..items] {
            // SAFETY: all of these were written.
            self.take(unsafe { entry.assume_init() });
        }
    }

    fn free_bulk(&mut self, items: usize) {
        self.next(None);
        let items: Vec<_> = (0..items).map(|_| self.give()).collect();
        // SAFETY: they were held, and are not any more.
        unsafe { self.zone.free_bulk(&items) };
    }

    /// The less usual ways, which have copies of the sections of their own.
    fn others(&mut self) {
        for _ in 0..8 {
            self.next(None);
            let item = self.zone.alloc_urgent().expect("there are some");
            self.take(item);
            self.next(None);
            let item = self.zone.alloc_wait(None).expect("there are some");
            self.take(item);
            self.next(None);
            if let Some(item) = self.zone.pop_fast() {
                self.take(item);
                self.next(None);
                let item = self.give();
                // SAFETY: it was held, and is not any more.
                if !unsafe { self.zone.push_fast(item) } {
                    free(&self.zone, item);
                }
            }
        }
        while !self.held.is_empty() {
            self.free();
        }
        let mut moody = Vec::new();
        for _ in 0..30 {
            self.next(None);
            moody.extend(self.moody.alloc());
        }
        assert_eq!(moody.len(), 28, "two of thirty are refused");
        for item in moody {
            self.next(None);
            // SAFETY: it was just allocated.
            unsafe { self.moody.free(item) };
        }
    }

    /// No item is live, all operations were counted, and every item is there once.
    fn settle(&mut self) {
        self.breakpoints.disarm();
        self.take_kept();
        let stats = self.zone.stats();
        let allocs = self.allocs + HANDLER_ALLOCS.load(Relaxed);
        assert_eq!(
            (stats.used, stats.requests, stats.frees),
            (0, allocs, allocs)
        );
        let mut items: Vec<_> = (0..ITEMS).map(|_| alloc(&self.zone)).collect();
        assert!(self.zone.alloc().is_err());
        items.sort_unstable();
        items.dedup();
        assert_eq!(items.len(), ITEMS);
        items.iter().for_each(|&item| pass(item, FREE, FREE));
        items.iter().for_each(|&item| free(&self.zone, item));
        assert_balance(&self.zone);
        assert_balance(&self.moody);
    }
}

#[inline(never)]
fn alloc(zone: &RawZone) -> NonNull<u8> {
    zone.alloc().expect("the play never takes them all")
}

#[inline(never)]
fn free(zone: &RawZone, item: NonNull<u8>) {
    // SAFETY: the caller had the item.
    unsafe { zone.free(item) }
}

/// How often a breakpoint was met inside a section and right behind one, and the counter of aborts.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    inside: u64,
    behind: u64,
    aborts: u64,
}

/// The handler's work between: it checks whether the section has committed, and allocates and frees
/// itself. It runs at a known place, where no lock is held.
fn meanwhile(kind: Kind, inside: bool) {
    let zone = ZONE.load(Relaxed);
    if zone.is_null() {
        return;
    }
    // SAFETY: the play that set it is being interrupted.
    let zone = unsafe { &*zone };
    let change = SINGLE.swap(0, Relaxed) as i64 - 2;
    if change.abs() == 1 && (kind == Kind::Pop || kind == Kind::Push) {
        let before = LIVE_BEFORE.load(Relaxed);
        let now = zone.live() as i64;
        // Behind the section it may also have been refused.
        if now != before && (inside || now != before + change) {
            FAULTS.fetch_add(1, Relaxed);
        }
    }
    let mut mine = [const { None::<NonNull<u8>> }; 3];
    for place in &mut mine {
        *place = zone.alloc().ok();
    }
    for (n, item) in mine.into_iter().flatten().enumerate() {
        HANDLER_ALLOCS.fetch_add(1, Relaxed);
        pass(item, FREE, HANDLER);
        if n == 0 && KEPT.load(Relaxed).is_null() {
            KEPT.store(item.as_ptr(), Relaxed);
            continue;
        }
        pass(item, HANDLER, FREE);
        // SAFETY: it was just allocated.
        unsafe { zone.free(item) };
    }
}

/// The sections of this program, if they are in use here.
fn sections() -> Option<(MutexGuard<'static, ()>, Vec<Section>)> {
    let guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    // Where they are switched off, these would be the same tests as where they are not.
    if Backend::choose() != Backend::Rseq {
        skip(kern::rseq::reason());
        return None;
    }
    if !breakpoint::make_code_writable() {
        skip("code cannot be made writable");
        return None;
    }
    breakpoint::on_breakpoint(meanwhile);
    let sections = section::all();
    assert!(!sections.is_empty());
    Some((guard, sections))
}

/// Counts the cases that this machine cannot run, if the runner asks for it.
fn skip(why: &str) {
    use std::io::Write as _;
    println!("skipped: aborts at every instruction: {why}");
    let file = std::env::var_os("MBUMA_SKIPS").and_then(|path| {
        let mut options = std::fs::OpenOptions::new();
        options.append(true).create(true).open(path).ok()
    });
    if let Some(mut file) = file {
        let _ = writeln!(file, "aborts at every instruction: {why}");
    }
}

/// Before which operations breakpoints are set: in several states of the buckets.
const ARM_AT: [usize; 7] = [0, 17, 60, 130, 165, 5, 33];
/// More than a play has operations.
const OPS_MAX: usize = 300;
/// In how many of them a breakpoint is to be met, if they are as many.
const STATES_ENOUGH: usize = 2;

/// Plays with a breakpoint at `at` (and one at each of `first`), from several states on; says in
/// how many of them it was met.
fn interrupt(target: &Section, at: usize, first: &[(Section, usize)], mode: Mode) -> usize {
    let behind = at == target.end();
    let mut met_in = 0;
    let all_states = (0..OPS_MAX).filter(|_| !first.is_empty());
    for arm_at in ARM_AT.into_iter().chain(all_states) {
        if met_in >= STATES_ENOUGH {
            break;
        }
        let mut breakpoints = Breakpoints::new(mode);
        breakpoints.add(target, at);
        for (section, at) in first {
            breakpoints.add_quiet(section, *at);
        }
        // A clock tick may abort a section besides; not always.
        let met = (0..5)
            .map(|_| Play::new(breakpoints.clone(), arm_at).run())
            .inspect(|met| assert!(met.aborts >= met.inside, "{met:?}"))
            .find(|met| met.aborts == met.inside)
            .expect("aborts are counted once each");
        let others = first.len() as u64;
        assert!(
            met.inside <= 1 + others && met.behind <= 1 + others,
            "{met:?}"
        );
        met_in += usize::from(breakpoint::was_met(at));
        assert!(!behind || met.inside <= others);
    }
    met_in
}

#[test]
fn an_abort_before_any_instruction_has_no_effect() {
    // Breaks when anything that another could see is written before the commit, an input is
    // changed before a restart, or an abort leads to the wrong place.
    every_boundary(Mode::Once);
}

#[test]
fn a_thread_that_wakes_on_another_cpu_starts_there() {
    // Breaks when a section keeps the slot of the CPU it was on.
    if breakpoint::allowed_cpus().len() > 1 {
        every_boundary(Mode::OnceAndMove);
    } else {
        skip("there is one CPU");
    }
}

fn every_boundary(mode: Mode) {
    let Some((_guard, sections)) = sections() else {
        return;
    };
    pin(0);
    let mut missed: BTreeMap<usize, (Section, BTreeSet<usize>)> = BTreeMap::new();
    let mut reached: Vec<Section> = Vec::new();
    let mut places = 0;
    for section in &sections {
        let unmet: BTreeSet<_> = section
            .boundaries()
            .filter(|&at| interrupt(section, at, &[], mode) == 0)
            .collect();
        // Other paths also lead to the instruction behind a section.
        if !unmet.contains(&section.start()) {
            places += section.boundaries().count() - unmet.len();
            reached.push(section.clone());
        }
        if !unmet.is_empty() {
            missed.insert(section.start(), (section.clone(), unmet));
        }
    }
    // Copies that run only when another one was aborted.
    for (section, unmet) in missed.values_mut() {
        let first: Vec<_> = reached
            .iter()
            .filter(|other| other.kind == section.kind && other.start() != section.start())
            .map(|other| (other.clone(), other.commit()))
            .collect();
        let before = unmet.len();
        unmet.retain(|&at| first.is_empty() || interrupt(section, at, &first, mode) == 0);
        places += before - unmet.len();
    }
    missed.retain(|_, (_, unmet)| !unmet.is_empty());
    for (section, unmet) in missed.values() {
        let is_in_no_play = unmet.contains(&section.start());
        assert!(is_in_no_play, "{section:x?}: {unmet:x?} were never met");
    }
    for kind in Kind::ALL {
        let copies = |kind| {
            reached
                .iter()
                .filter(move |section| section.kind == kind)
                .count()
        };
        println!("{kind:?}: {} copies in use", copies(kind));
        assert!(copies(kind) > 0, "no {kind:?} was interrupted");
    }
    println!(
        "{places} places in {} sections; {} copies are in no play",
        sections.len() - missed.len(),
        missed.len()
    );
}

#[test]
fn after_some_aborts_an_operation_goes_the_slow_way() {
    // Breaks when a thread that is interrupted at every try (a debugger's single steps) never
    // gets its item, or an exchange that was given up loses the bucket.
    const TRIES: u64 = 4;
    let Some((_guard, sections)) = sections() else {
        return;
    };
    pin(0);
    for kind in Kind::ALL {
        let mut interrupted = 0;
        for arm_at in (0..OPS_MAX).step_by(3) {
            let mut breakpoints = Breakpoints::new(Mode::Stay);
            for section in sections.iter().filter(|section| section.kind == kind) {
                breakpoints.add(section, section.commit());
            }
            // An operation may need several sections, each of which is tried as often; unless a
            // clock tick was one of the aborts.
            let met = (0..5)
                .map(|_| Play::new(breakpoints.clone(), arm_at).run())
                .find(|met| met.inside.is_multiple_of(TRIES))
                .expect("every section is tried as often");
            interrupted += met.inside;
        }
        assert!(interrupted > 0, "no {kind:?} was interrupted");
        println!("{kind:?}: {interrupted} aborts");
    }
}

#[test]
fn a_thread_that_the_kernel_does_not_know_goes_past_the_caches() {
    // Breaks when the CPU of a thread without an area (-1) is taken for one.
    let Some((_guard, _)) = sections() else {
        return;
    };
    let zone = zone(Backend::Rseq);
    let registered = breakpoint::area();
    if !registered.unregister() {
        return skip("the area cannot be unregistered");
    }
    let mut items = Vec::new();
    for _ in 0..3 {
        items.extend((0..ITEMS).map(|_| zone.alloc().expect("there are as many")));
        assert!(zone.alloc().is_err());
        items.drain(..).for_each(|item| free(&zone, item));
    }
    assert_eq!(zone.stats().cached_by_cpus, 0);
    registered.register();
    let item = zone.alloc().expect("there are some");
    free(&zone, item);
    assert_eq!(zone.stats().requests, 3 * ITEMS as u64 + 1);
    assert_balance(&zone);
}
