//! The critical sections as loom runs them: the same steps, on a machine whose kernel is modelled.
//!
//! Each CPU has an *epoch*. A section begins by advancing the epoch of its CPU and recording it. Before each of
//! its steps the schedule checker may run any other thread. A step that finds the epoch
//! advanced, or the thread on another CPU, goes no further: the section was interrupted, and the kernel would
//! have sent it to its abort address. A thread that interrupts a section by one of its own on that CPU
//! advances the epoch, and so does a fence, on one CPU after the other.
//!
//! The model checks the order of events, on which the protocol of `percpu.rs` rests. It has no weak
//! memory: threads on one CPU see stores in program order, and the fence orders the others.
//!
//! Locks: none.
//! Invariant: all that happens between two [`point`]s is one step for the checker, as every point touches the same
//! object of its own.

use crate::bucket::{Bucket, POPPED, PUSHED, PushOutcome, peek};
use crate::percpu::slot::{LOADED, PREVIOUS};
use crate::percpu::{ABORTED, CpuSlot, FULL, Percpu, REFUSED, TWICE};
use core::cell::Cell;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use kern::prim::{self, lazy_static, thread_local};

/// How many CPUs the model has.
const CPUS: usize = 2;

/// The machine, made anew for every interleaving.
struct Machine {
    /// Every point touches it, so that loom tries every order of points.
    steps: prim::AtomicUsize,
    epochs: [AtomicUsize; CPUS],
    /// The planted bug: interrupted sections go on.
    blind: AtomicBool,
}

lazy_static! {
    static ref MACHINE: Machine = Machine {
        steps: prim::AtomicUsize::new(0),
        epochs: [const { AtomicUsize::new(0) }; CPUS],
        blind: AtomicBool::new(false),
    };
}

/// Where a thread runs.
#[derive(Clone, Copy)]
struct OffsetSlot {
    cpu: usize,
    /// The number of points after which the thread migrates, and the CPU to which.
    migration: Option<(usize, usize)>,
}

thread_local! {
    static PLACE: Cell<OffsetSlot> = Cell::new(OffsetSlot { cpu: 0, migration: None });
}

/// Changes where the calling thread runs. Returns its CPU after that.
fn change_place(change: impl FnOnce(&mut OffsetSlot)) -> usize {
    PLACE.with(|cell| {
        let mut place = cell.get();
        change(&mut place);
        cell.set(place);
        place.cpu
    })
}

/// Puts the calling thread on a CPU: for models of this crate and the crates above.
pub fn run_on(cpu: usize) {
    change_place(|place| place.cpu = cpu);
}

/// Moves the calling thread to a CPU after `steps` more steps, inside of a section or not.
#[cfg(all(test, loom))]
pub(crate) fn migrate_after(steps: usize, cpu: usize) {
    change_place(|place| place.migration = Some((steps, cpu)));
}

/// Plants the bug that the model must find: sections that are never interrupted.
#[cfg(test)]
pub(crate) fn blind() {
    MACHINE.blind.store(true, Relaxed);
}

/// A point between two steps: any other thread may run here, for any time.
pub(crate) fn point() {
    MACHINE.point();
}

impl Machine {
    /// A point. Returns the CPU of this thread after it.
    fn point(&self) -> usize {
        self.steps.fetch_add(1, SeqCst);
        change_place(|place| match place.migration.take() {
            Some((0, cpu)) => place.cpu = cpu,
            Some((steps, cpu)) => place.migration = Some((steps - 1, cpu)),
            None => {}
        })
    }
}

pub(crate) fn cpus() -> usize {
    CPUS
}

pub(crate) fn current_cpu() -> usize {
    PLACE.with(Cell::get).cpu
}

/// Not 0: sections are always used.
pub(crate) fn area_offset() -> Option<isize> {
    Some(1)
}

pub(crate) fn fence_available() -> bool {
    true
}

/// Interrupts the sections of all CPUs, one after the other.
pub(crate) fn fence() -> bool {
    for epoch in &MACHINE.epochs {
        point();
        epoch.fetch_add(1, Relaxed);
    }
    point();
    true
}

/// Why a section ended before its commit.
enum Stop {
    Refused,
    Aborted,
}

/// A section that has begun.
struct Section<'a> {
    /// Looked up once, because a checker looks its statics up in a map.
    machine: &'a Machine,
    slot: &'a CpuSlot,
    cpu: usize,
    epoch: usize,
}

impl<'a> Section<'a> {
    fn begin(percpu: &'a Percpu) -> Self {
        let machine: &Machine = &MACHINE;
        let cpu = machine.point();
        let epoch = machine.epochs[cpu].fetch_add(1, Relaxed) + 1;
        let slot = &percpu.places()[cpu].slot;
        Self {
            machine,
            slot,
            cpu,
            epoch,
        }
    }

    /// Goes to the next step, if no other thread ran on this CPU since. The commit is in the last one.
    fn step(&self) -> Result<(), Stop> {
        let here = self.machine.point() == self.cpu;
        let same = self.machine.epochs[self.cpu].load(Relaxed) == self.epoch;
        if here && same || self.machine.blind.load(Relaxed) {
            Ok(())
        } else {
            kern::rseq::ABORTS.fetch_add(1, Relaxed);
            Err(Stop::Aborted)
        }
    }

    fn check_stop(&self) -> Result<(), Stop> {
        self.step()?;
        if self.slot.is_stopped() {
            return Err(Stop::Refused);
        }
        Ok(())
    }

    fn bucket<const FIELD: usize>(&self) -> Result<NonNull<Bucket>, Stop> {
        self.step()?;
        Ok(self.slot.bucket::<FIELD>())
    }
}

/// The numbers that sections in assembly return.
fn number(got: Result<isize, Stop>, refused: isize) -> isize {
    match got {
        Ok(got) => got,
        Err(Stop::Refused) => refused,
        Err(Stop::Aborted) => ABORTED,
    }
}

fn pointer<T>(got: Result<NonNull<T>, Stop>) -> *mut T {
    match got {
        Ok(got) => got.as_ptr(),
        Err(Stop::Refused) => ptr::without_provenance_mut(REFUSED.cast_unsigned()),
        Err(Stop::Aborted) => ptr::without_provenance_mut(ABORTED.cast_unsigned()),
    }
}

#[cfg(feature = "extras")]
#[path = "modelled_bulk.rs"]
mod bulk;
#[cfg(feature = "extras")]
pub(crate) use bulk::*;

/// The top item of the loaded bucket; 0: there is none.
///
/// # Safety
///
/// None: as the real ones, so that they can be exchanged.
pub(crate) unsafe fn pop(percpu: &Percpu) -> *mut u8 {
    let pop = || {
        let section = Section::begin(percpu);
        let bucket = section.bucket::<LOADED>()?;
        section.step()?;
        // SAFETY: buckets of slots are alive.
        let (word, item) = unsafe { Bucket::top(bucket) }.ok_or(Stop::Refused)?;
        section.step()?;
        // SAFETY: alive; the slot is this CPU's, and this thread was not interrupted on it.
        unsafe { Bucket::commit(bucket, word.wrapping_add(POPPED)) };
        Ok(item)
    };
    pointer(pop())
}

/// Puts an item on the loaded bucket. Not negative: done.
///
/// # Safety
///
/// None: as the real ones, so that they can be exchanged.
pub(crate) unsafe fn push(percpu: &Percpu, item: NonNull<u8>) -> isize {
    let push = || {
        let section = Section::begin(percpu);
        let bucket = section.bucket::<LOADED>()?;
        section.step()?;
        // SAFETY: buckets of slots are alive.
        let word = match unsafe { Bucket::room_for(bucket, item) } {
            Ok(word) => word,
            Err(PushOutcome::Twice) => return Ok(TWICE),
            Err(_) => return Err(Stop::Refused),
        };
        section.step()?;
        // SAFETY: alive; the slot is this CPU's, and this thread was not interrupted on it.
        unsafe { Bucket::place(bucket, word, item) };
        section.step()?;
        // SAFETY: as above.
        unsafe { Bucket::commit(bucket, word.wrapping_add(PUSHED)) };
        Ok(0)
    };
    number(push(), FULL)
}

/// Exchanges the previous bucket; 0: stopped.
///
/// # Safety
///
/// `bucket` must be the caller's to give, or the sentinel.
pub(crate) unsafe fn exchange_previous(percpu: &Percpu, bucket: NonNull<Bucket>) -> *mut Bucket {
    let exchange = || {
        let section = Section::begin(percpu);
        section.check_stop()?;
        section.step()?;
        let old = section.slot.previous();
        section.step()?;
        section.slot.previous.store(bucket.as_ptr(), Relaxed);
        Ok(old)
    };
    pointer(exchange())
}

/// Exchanges the loaded bucket if it is empty; 0: it is not, or the slot is stopped.
///
/// # Safety
///
/// `bucket` must be the caller's to give.
pub(crate) unsafe fn replace_empty(percpu: &Percpu, bucket: NonNull<Bucket>) -> *mut Bucket {
    replace(percpu, bucket, |old| {
        // SAFETY: buckets of slots are alive.
        let (len, _) = unsafe { peek(old) };
        len == 0
    })
}

/// Exchanges the loaded bucket if it is full; 0: it is not, or the slot is stopped.
///
/// # Safety
///
/// `bucket` must be the caller's to give.
pub(crate) unsafe fn replace_full(percpu: &Percpu, bucket: NonNull<Bucket>) -> *mut Bucket {
    // SAFETY: buckets of slots are alive.
    replace(percpu, bucket, |old| unsafe { Bucket::is_full(old) })
}

fn replace(
    percpu: &Percpu,
    bucket: NonNull<Bucket>,
    ready: impl Fn(NonNull<Bucket>) -> bool,
) -> *mut Bucket {
    let replace = || {
        let section = Section::begin(percpu);
        section.check_stop()?;
        let old = section.bucket::<LOADED>()?;
        section.step()?;
        if !ready(old) {
            return Err(Stop::Refused);
        }
        section.step()?;
        section.slot.loaded.store(bucket.as_ptr(), Relaxed);
        Ok(old)
    };
    pointer(replace())
}

/// Exchanges the two buckets if the loaded one is empty and the previous one is not; 0: else, or the slot is stopped.
///
/// # Safety
///
/// None: as the real ones, so that they can be exchanged.
pub(crate) unsafe fn swap_for_pop(percpu: &Percpu) -> isize {
    swap(percpu, |bucket| {
        // SAFETY: buckets of slots are alive.
        let (len, _) = unsafe { peek(bucket) };
        len == 0
    })
}

/// Exchanges the two buckets if the loaded one is full and the previous one is not; 0: else, or the slot is stopped.
///
/// # Safety
///
/// None: as the real ones, so that they can be exchanged.
pub(crate) unsafe fn swap_for_push(percpu: &Percpu) -> isize {
    // SAFETY: buckets of slots are alive.
    swap(percpu, |bucket| unsafe { Bucket::is_full(bucket) })
}

fn swap(percpu: &Percpu, used_up: impl Fn(NonNull<Bucket>) -> bool) -> isize {
    let swap = || {
        let section = Section::begin(percpu);
        section.check_stop()?;
        let loaded = section.bucket::<LOADED>()?;
        let previous = section.bucket::<PREVIOUS>()?;
        section.step()?;
        if !used_up(loaded) || used_up(previous) {
            return Err(Stop::Refused);
        }
        section.step()?;
        section.slot.swap(loaded, previous);
        Ok(1)
    };
    number(swap(), REFUSED)
}
