//! A bounded lock-free ring for any number of threads on both sides, from which the two-ring schemes are built.
//!
//! Each slot has a number that tells whose turn it is: a producer's that counts `at`, then the consumer's that counts
//! `at`, then the producer's one lap later. The thread that moves the counter has the slot until it moves the number
//! on.
//!
//! Sources: D. Vyukov's bounded queue; it stands for the buf_ring of FreeBSD, whose producers wait for each
//! other in the end, which these need not.

use kern::prim::{AtomicUsize, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// A ring of a power of two of slots.
pub(super) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// Written by consumers, AcqRel.
    head: Line,
    /// Written by producers, AcqRel.
    tail: Line,
}

/// A counter in a cache line of its own.
#[repr(align(128))]
struct Line(AtomicUsize);

struct Slot<T> {
    /// Release when the item was written or read; Acquire by whose turn it then is.
    turn: AtomicUsize,
    item: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: an item is moved in by one thread and out by another, which `T: Send` allows; the turn of a slot decides
// which thread touches it.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    pub(super) fn new(size: usize) -> Self {
        let slot = |at| Slot {
            turn: AtomicUsize::new(at),
            item: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Self {
            slots: (0..size.next_power_of_two()).map(slot).collect(),
            head: Line(AtomicUsize::new(0)),
            tail: Line(AtomicUsize::new(0)),
        }
    }

    fn slot(&self, at: usize) -> &Slot<T> {
        &self.slots[at & (self.slots.len() - 1)]
    }

    /// Adds an item; gives it back if there is no room.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        let mut at = self.tail.0.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(at);
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == at {
                match self.won(&self.tail, at) {
                    Ok(()) => {
                        // SAFETY: it is turn `at`, and only the thread that moved the tail on from `at` writes then.
                        unsafe { slot.item.get().write(MaybeUninit::new(item)) };
                        slot.turn.store(at + 1, Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => at = now,
                }
            } else if turn < at {
                return Err(item);
            } else {
                at = self.tail.0.load(Ordering::Relaxed);
            }
        }
    }

    /// Takes the first item.
    pub(super) fn pop(&self) -> Option<T> {
        let mut at = self.head.0.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(at);
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == at + 1 {
                match self.won(&self.head, at) {
                    Ok(()) => {
                        // SAFETY: it is turn `at + 1`: the item is there, and only the thread that moved the head on
                        // from `at` reads it.
                        let item = unsafe { slot.item.get().read() };
                        slot.turn.store(at + self.slots.len(), Ordering::Release);
                        // SAFETY: `push` wrote it whole before it gave the turn on.
                        return Some(unsafe { item.assume_init() });
                    }
                    Err(now) => at = now,
                }
            } else if turn <= at {
                return None;
            } else {
                at = self.head.0.load(Ordering::Relaxed);
            }
        }
    }

    /// The ring is empty at this moment.
    pub(super) fn is_empty(&self) -> bool {
        let at = self.head.0.load(Ordering::Acquire);
        self.slot(at).turn.load(Ordering::Acquire) <= at
    }

    /// Moves a counter on from `at`, or says where it is.
    fn won(&self, counter: &Line, at: usize) -> Result<(), usize> {
        let (ok, not) = (Ordering::AcqRel, Ordering::Relaxed);
        counter.0.compare_exchange(at, at + 1, ok, not).map(|_| ())
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
