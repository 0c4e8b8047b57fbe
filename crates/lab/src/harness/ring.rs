//! A ring between one producer and one consumer, which share a line only once per batch.
//!
//! ```text
//!   slots   [ ][ ][x][x][x][x][ ][ ]       head: the consumer's, published when a batch was taken
//!                  ^head       ^tail       tail: the producer's, published when a batch was put in
//! ```
//!
//! Invariants: slots from head to tail hold items; only the producer writes there and only before it publishes
//! `tail`; only the consumer reads there and only before it publishes `head`. The Release store of either word pairs
//! with the Acquire load of the other side, so that the next user of a slot sees its contents.

use std::cell::UnsafeCell;
use std::hint;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Slots of a ring.
pub(crate) const RING_ITEMS: usize = 4096;
/// Items that are published, and given back, at once, where only throughput matters.
pub(crate) const RING_BATCH: usize = 256;

/// The ring, of which `BATCH` items change hands at once; [`Ring::ends`] gives its two ends.
pub(crate) struct Ring<T, const BATCH: usize> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    head: Line,
    tail: Line,
}

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicUsize);

// SAFETY: a slot is used by one side at a time, which the two words hand over (see the head of this file).
unsafe impl<T: Send, const BATCH: usize> Sync for Ring<T, BATCH> {}

impl<T, const BATCH: usize> Ring<T, BATCH> {
    /// An empty ring.
    pub(crate) fn new() -> Self {
        const { assert!(RING_ITEMS.is_multiple_of(BATCH), "a batch never wraps") };
        let slot = |_| UnsafeCell::new(MaybeUninit::uninit());
        Self {
            slots: (0..RING_ITEMS).map(slot).collect(),
            head: Line::default(),
            tail: Line::default(),
        }
    }

    /// The two ends, of which each is for one thread.
    pub(crate) fn ends(&mut self) -> (Producer<'_, T, BATCH>, Consumer<'_, T, BATCH>) {
        let ring = &*self;
        (
            Producer {
                ring,
                tail: ring.tail.0.load(Ordering::Relaxed),
            },
            Consumer {
                ring,
                head: ring.head.0.load(Ordering::Relaxed),
            },
        )
    }
}

impl<T, const BATCH: usize> Drop for Ring<T, BATCH> {
    fn drop(&mut self) {
        let (_, mut consumer) = self.ends();
        consumer.take_published(drop);
    }
}

/// Where items go in.
pub(crate) struct Producer<'a, T, const BATCH: usize> {
    ring: &'a Ring<T, BATCH>,
    tail: usize,
}

impl<T, const BATCH: usize> Producer<'_, T, BATCH> {
    /// Waits until a batch has room, fills it by `make`, and publishes it. The first item is made only when its slot,
    /// and the former item in it, are the producer's.
    pub(crate) fn put_batch(&mut self, mut make: impl FnMut() -> T) {
        wait_until(|| self.tail - self.ring.head.0.load(Ordering::Acquire) <= RING_ITEMS - BATCH);
        for slot in &self.ring.slots[self.tail % RING_ITEMS..][..BATCH] {
            let item = make();
            // SAFETY: there is room for a batch, so the slot is ours until `tail` is published.
            unsafe { (*slot.get()).write(item) };
        }
        self.tail += BATCH;
        self.ring.tail.0.store(self.tail, Ordering::Release);
    }
}

/// Where items come out.
pub(crate) struct Consumer<'a, T, const BATCH: usize> {
    ring: &'a Ring<T, BATCH>,
    head: usize,
}

impl<T, const BATCH: usize> Consumer<'_, T, BATCH> {
    /// Waits for a batch, takes its items, and gives its room back.
    pub(crate) fn take_batch(&mut self, take: impl FnMut(T)) {
        wait_until(|| self.ring.tail.0.load(Ordering::Acquire) != self.head);
        self.take_published(take);
    }

    fn take_published(&mut self, mut take: impl FnMut(T)) {
        let tail = self.ring.tail.0.load(Ordering::Acquire);
        while self.head != tail {
            let slots = &self.ring.slots[self.head % RING_ITEMS..][..BATCH];
            // Before `take` runs: if it panics, the rest of the batch is lost, and no item is taken twice.
            self.head += BATCH;
            for slot in slots {
                // SAFETY: the producer published the slot, so it is ours until `head` is published.
                let slot = unsafe { &*slot.get() };
                // SAFETY: a published slot holds an item; it is not read again before it was written again.
                take(unsafe { slot.assume_init_read() });
            }
            self.ring.head.0.store(self.head, Ordering::Release);
        }
    }
}

impl<T, const BATCH: usize> Drop for Consumer<'_, T, BATCH> {
    fn drop(&mut self) {
        self.ring.head.0.store(self.head, Ordering::Release);
    }
}

/// Spins; the other side has a CPU of its own, unless another program took it.
pub(crate) fn wait_until(ready: impl Fn() -> bool) {
    let mut spins = 0u32;
    while !ready() {
        spins += 1;
        if spins.is_multiple_of(1 << 14) {
            thread::yield_now();
        }
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests;
