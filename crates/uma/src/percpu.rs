//! The buckets that each CPU keeps at hand, and the critical sections that work on them.
//!
//! ```text
//!   slot of CPU 0           slot of CPU 1            128 bytes each, lines of their own
//!   +--------------+        +--------------+
//!   | loaded   ----+--> [ | | | ]          |    pop and push work on the top of this bucket
//!   | previous ----+--> [ | | | ]          |    exchanged with loaded when that runs empty or full
//!   | stop         |        |              |    set: buckets may not be exchanged
//!   | lock         |        |              |    for the locked backend
//!   +--------------+        +--------------+
//! ```
//!
//! Threads access a slot in one of two ways. *Sections* (restartable sequences, see
//! [`kern::rseq`]): only threads that run on the slot's CPU access it. A section changes the slot
//! by a single store, its last instruction; a thread that the kernel interrupts before that store
//! begins the section again, perhaps on another CPU. *Locked*: a thread takes the try-lock of a
//! slot, of any CPU. The caller sees no difference but speed.
//!
//! # Why the two buckets are exchanged in one store
//!
//! The alternative is to take the previous bucket out and put it back as the loaded one. Between the two steps the
//! thread would carry a bucket, and a thread that closes the keg must find all buckets. So the carrying thread would
//! count itself in and out on a line that all CPUs share: four writes in a batch that spans both buckets, 160 ns each
//! if another socket's CPU has the line. With one store of the whole pair no thread carries a bucket: the section
//! writes only the slot, and the caller tries its operation again.
//!
//! The 16-byte store only has to be atomic against preemption on this CPU: remote readers use a fence first, or read
//! statistics. x86-64 has such a store. aarch64 does not have one in all its versions (`stp` may be interrupted
//! between its halves), so the pair is never exchanged there, and the slow path does it bucket by bucket.
//!
//! # The owner of a bucket
//!
//! A bucket belongs to the slot that points to it or to the thread that holds it as an [`Owned`]. A
//! section takes a bucket out of a slot only by putting another bucket in (the
//! [sentinel](Bucket::sentinel) stands for none), in one store. So a thread that is interrupted
//! between two exchanges loses no bucket: it owns the bucket that it took, on whichever CPU it
//! continues.
//!
//! `models/percpu.rs` checks the sections and `models/exchange.rs` the exchange between CPUs, in every order of two
//! threads.
//!
//! `percpu/drain.rs` says how a thread takes the buckets of another CPU while that CPU uses them.
//! Invariants: `loaded` and `previous` are never null and point to live buckets; a bucket is in one slot once.
//! Locks: none that wait, but for a drain of the locked backend.
//! Sources: Bonwick and Adams, *Magazines and Vmem* (2001), for loaded and previous; seed 004 sections 5.3 and 5.6
//! (the question whether a critical section beats a lock for each CPU).

use crate::bucket::{Bucket, Owned};
use core::ptr::NonNull;
#[cfg(feature = "stretched")]
use core::sync::atomic::{AtomicU32, AtomicU64};

pub(crate) use crate::bucket::PushOutcome;
pub use backend::Backend;
use core::mem::offset_of;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use locked::SlotsHeld;
use slot::{CpuSlot, OffsetSlot};
#[cfg(any(loom, shuttle))]
pub use sys::run_on;
pub(crate) use sys::*;

mod backend;
#[cfg(feature = "extras")]
mod bulk;
mod drain;
mod locked;
mod slot;
mod sys;

/// How often a section that was aborted is begun again. After that the caller takes the slow path, which always ends: a
/// debugger that steps through a section aborts it at every step.
const RESTARTS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 3 };

/// The result of a section that stopped because of the state it found: no item, no room, the slot stopped, or a
/// thread whose CPU is not known. Where a count or a length is returned, full.
const REFUSED: isize = 0;
/// The result of a section that the kernel aborted.
const ABORTED: isize = -1;
/// The results of a push that failed, which returns a length otherwise.
const FULL: isize = -2;
const TWICE: isize = -3;

/// Pauses between the last load and the commit of every section, so that a test aborts a section
/// within seconds, and not once in a million operations.
#[cfg(feature = "stretched")]
pub static STRETCH: AtomicU32 = AtomicU32::new(0);

/// All ones: threads announce sections to the kernel. 0: they do not; then the same test must find
/// corrupt buckets, which shows that it can find a mistake.
#[cfg(feature = "stretched")]
pub static ARMED: AtomicU64 = AtomicU64::new(u64::MAX);

/// The slots of all CPUs.
pub(crate) struct Percpu {
    /// The first of them, in the first of its places, which are a box that this owns.
    slots: NonNull<CpuSlot>,
    /// The number of slots: one for each configured CPU.
    cpus: usize,
    /// The offset of a thread's rseq area from the thread pointer; 0: slots are locked. (On every processor libc's own
    /// data is at offset 0.)
    area: isize,
}

// SAFETY: it owns its slots, whose fields are atomics, and the buckets that they point to.
unsafe impl Send for Percpu {}
// SAFETY: any thread may access the slots, by the protocols of this module.
unsafe impl Sync for Percpu {}

impl Percpu {
    /// Slots without buckets. If `backend` is sections and they do not work, the slots are locked;
    /// see [`backend`](Self::backend).
    pub(crate) fn new(backend: Backend) -> Self {
        let places: Box<[OffsetSlot]> = (0..cpus()).map(|_| OffsetSlot::new()).collect();
        let cpus = places.len();
        let places = NonNull::from(Box::leak(places)).cast::<OffsetSlot>();
        Self {
            // SAFETY: there is at least one CPU, so a first place, and its slot is inside of it.
            slots: unsafe { places.byte_add(offset_of!(OffsetSlot, slot)) }.cast(),
            cpus,
            area: match backend {
                Backend::Rseq if fence_available() => area_offset().unwrap_or(0),
                Backend::Rseq => 0,
                Backend::Locked => 0,
            },
        }
    }

    /// How threads access the slots.
    pub(crate) fn backend(&self) -> Backend {
        if self.area == 0 {
            Backend::Locked
        } else {
            Backend::Rseq
        }
    }

    /// How many slots there are: one for each configured CPU.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// The box that `new` leaked.
    fn leaked(&self) -> NonNull<[OffsetSlot]> {
        // SAFETY: `new` came from there by the same distance.
        let first = unsafe { self.slots.byte_sub(offset_of!(OffsetSlot, slot)) };
        NonNull::slice_from_raw_parts(first.cast(), self.cpus)
    }

    fn places(&self) -> &[OffsetSlot] {
        // SAFETY: it is owned by `self`.
        unsafe { self.leaked().as_ref() }
    }

    /// The top item of this CPU's loaded bucket, counted as popped. None: the bucket is empty, or
    /// the section could not run; the caller takes the slow path.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<u8>> {
        self.pop_or(|| Err(())).ok()
    }

    /// As [`pop`](Self::pop), or the result of `slow`. One function does both, so that the likely path has one
    /// comparison and not one in each layer.
    #[inline]
    pub(crate) fn pop_or<E>(
        &self,
        slow: impl FnOnce() -> Result<NonNull<u8>, E>,
    ) -> Result<NonNull<u8>, E> {
        let mut outcome = ABORTED;
        if self.area != 0 {
            // SAFETY: `area` is not 0.
            let item = unsafe { section::pop(self) };
            outcome = item.addr().cast_signed();
            if outcome > REFUSED {
                // SAFETY: just compared with 0.
                return Ok(unsafe { NonNull::new_unchecked(item) });
            }
        }
        match self.pop_again(outcome) {
            Some(item) => Ok(item),
            None => slow(),
        }
    }

    #[cold]
    #[inline(never)]
    fn pop_again(&self, outcome: isize) -> Option<NonNull<u8>> {
        if self.area == 0 {
            return locked::pop(self);
        }
        if outcome == REFUSED {
            return None;
        }
        // SAFETY: `area` is not 0.
        let item = restart(RESTARTS, || unsafe { section::pop(self) }, <*mut u8>::addr);
        if item.addr().cast_signed() == ABORTED {
            return None;
        }
        NonNull::new(item)
    }

    /// Puts a free item on top of this CPU's loaded bucket, if that succeeds at the first attempt. On another outcome
    /// the caller calls [`push_again`](Self::push_again). The two functions are apart so that the likely path, which
    /// is inlined into every caller, makes no call and saves no registers.
    #[inline]
    pub(crate) fn push(&self, item: NonNull<u8>) -> Result<(), isize> {
        if self.area == 0 {
            return Err(ABORTED);
        }
        // SAFETY: `area` is not 0.
        match unsafe { section::push(self, item) } {
            0.. => Ok(()),
            outcome => Err(outcome),
        }
    }

    /// Continues after [`push`](Self::push) returned `outcome`.
    pub(crate) fn push_again(&self, item: NonNull<u8>, outcome: isize) -> PushOutcome {
        if outcome != ABORTED {
            return pushed(outcome);
        }
        if self.area == 0 {
            return locked::push(self, item);
        }
        // SAFETY: `area` is not 0.
        pushed(restart(
            RESTARTS,
            || unsafe { section::push(self, item) },
            isize::cast_unsigned,
        ))
    }

    /// [`push`](Self::push), and [`push_again`](Self::push_again) if it gave up.
    pub(crate) fn push_whole(&self, item: NonNull<u8>) -> PushOutcome {
        match self.push(item) {
            Ok(()) => PushOutcome::Done,
            Err(outcome) => self.push_again(item, outcome),
        }
    }

    /// Exchanges this CPU's two buckets if the loaded bucket is empty and the previous one is not. Returns whether it
    /// did. The caller carries no bucket at any time.
    pub(crate) fn swap_for_pop(&self) -> bool {
        // SAFETY: `section` is called where there is an area.
        unsafe { self.swap(section::swap_for_pop, locked::swap_for_pop) }
    }

    /// Exchanges this CPU's two buckets if the loaded bucket is full and the previous one is not. Returns whether it
    /// did.
    pub(crate) fn swap_for_push(&self) -> bool {
        // SAFETY: as above.
        unsafe { self.swap(section::swap_for_push, locked::swap_for_push) }
    }

    /// # Safety
    ///
    /// `section` must require nothing but that `area` is not 0.
    unsafe fn swap(&self, section: unsafe fn(&Self) -> isize, locked: fn(&Self) -> bool) -> bool {
        if self.area == 0 {
            return locked(self);
        }
        // SAFETY: `area` is not 0.
        let swap = || unsafe { section(self) };
        restart(1 + RESTARTS, swap, isize::cast_unsigned) > REFUSED
    }

    /// Replaces this CPU's previous bucket by another one. An error returns the argument: the
    /// slot is stopped, or the section could not run.
    pub(crate) fn exchange_previous(
        &self,
        bucket: Option<Owned>,
    ) -> Result<Option<Owned>, Option<Owned>> {
        // SAFETY: the section exchanges only if it returns the old bucket.
        unsafe {
            self.exchange(
                Owned::into_slot(bucket),
                section::exchange_previous,
                locked::exchange_previous,
            )
        }
        .map_err(|bucket| {
            // SAFETY: it is the argument, and was not given away.
            unsafe { Owned::from_slot(bucket) }
        })
    }

    /// Exchanges this CPU's loaded bucket for `bucket` if the loaded one is empty and the slot is
    /// not stopped; else returns the argument.
    pub(crate) fn replace_empty(&self, bucket: Owned) -> Result<Option<Owned>, Owned> {
        // SAFETY: the section exchanges only if it returns the old bucket.
        unsafe {
            self.exchange(
                bucket.into_ptr(),
                section::replace_empty,
                locked::replace_empty,
            )
        }
        .map_err(|bucket| {
            // SAFETY: it is the argument, and was not given away.
            unsafe { Owned::from_ptr(bucket) }
        })
    }

    /// Exchanges this CPU's loaded bucket for `bucket` if the loaded one is full and the slot is
    /// not stopped; else returns the argument.
    pub(crate) fn replace_full(&self, bucket: Owned) -> Result<Option<Owned>, Owned> {
        // SAFETY: the section exchanges only if it returns the old bucket.
        unsafe {
            self.exchange(
                bucket.into_ptr(),
                section::replace_full,
                locked::replace_full,
            )
        }
        .map_err(|bucket| {
            // SAFETY: it is the argument, and was not given away.
            unsafe { Owned::from_ptr(bucket) }
        })
    }

    /// Runs one of the three exchanges. An error hands `bucket` back.
    ///
    /// # Safety
    ///
    /// `bucket` must be the caller's to give away, or the sentinel. Both functions must either put
    /// it into a slot and return the bucket that was there, or return a value that is not positive
    /// (null).
    unsafe fn exchange(
        &self,
        bucket: NonNull<Bucket>,
        section: unsafe fn(&Self, NonNull<Bucket>) -> *mut Bucket,
        locked: fn(&Self, NonNull<Bucket>) -> Option<NonNull<Bucket>>,
    ) -> Result<Option<Owned>, NonNull<Bucket>> {
        let old = if self.area == 0 {
            locked(self, bucket)
        } else {
            // SAFETY: `area` is not 0, and `bucket` is ours.
            let old = restart(
                1 + RESTARTS,
                || unsafe { section(self, bucket) },
                <*mut Bucket>::addr,
            );
            let exchanged = old.addr().cast_signed() > REFUSED;
            NonNull::new(old).filter(|_| exchanged)
        };
        // SAFETY: a slot gave it up, so it is ours; a slot holds buckets and the sentinel.
        old.map(|old| unsafe { Owned::from_slot(old) })
            .ok_or(bucket)
    }
}

kern::impl_debug!(Percpu |this| backend: this.backend(), cpus: this.cpus);

impl Drop for Percpu {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking()
                || self.places().iter().all(|OffsetSlot { slot, .. }| {
                    slot.loaded() == Bucket::sentinel() && slot.previous() == Bucket::sentinel()
                }),
            "buckets would leak: drain first"
        );
        // SAFETY: `new` leaked this box, and no reference to the slots is left.
        drop(unsafe { Box::from_raw(self.leaked().as_ptr()) });
    }
}

/// Runs a section until one run is not aborted, up to `tries` times. `word` is its result as a number.
#[inline]
fn restart<T: Copy>(tries: usize, mut section: impl FnMut() -> T, word: impl Fn(T) -> usize) -> T {
    let mut got = section();
    for _ in 1..tries {
        if word(got).cast_signed() != ABORTED {
            break;
        }
        got = section();
    }
    got
}

/// The meaning of a push's number. Aborted too often: as if full.
fn pushed(got: isize) -> PushOutcome {
    match got {
        0.. => PushOutcome::Done,
        TWICE => PushOutcome::Twice,
        _ => PushOutcome::Full,
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests;
