//! Not an allocator: a few items that go back to the producer by a ring of pointers, oldest first.
//!
//! It is the least that any pool moves between the two CPUs in the producer and consumer case. It has neither caches
//! nor slabs nor a lock nor statistics, and serves one producer and one consumer. It has our constructor, whose stores
//! go to a line that the other CPU has. In a second row the consumer writes to each item before it gives it back, as
//! ours do: it takes the line from the producer while no thread waits for it.
//!
//! Invariants: an item is in the row, in the ring of the case, or in use. Only the producer writes
//! `taken`, only the consumer `given`; `shown` is the part of `given` that the producer may take.

use super::Padded;
use super::pages::Pages;
use crate::alloc::design::{Absent, Block, Design};
use crate::alloc::header;
use crate::harness::ring::{RING_BATCH, wait_until};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The number of items: twice those in flight.
const ITEMS: usize = 4 * RING_BATCH;
/// Items that are given back at once: a bucket of ours.
const SHOWN: usize = 64;

/// The items, and the row in which they come back.
pub(crate) struct Returned<const OWN: bool> {
    row: Box<[AtomicPtr<u8>]>,
    taken: Padded<AtomicUsize>,
    given: Padded<AtomicUsize>,
    shown: Padded<AtomicUsize>,
    /// Where the items are.
    _pages: Pages,
}

const _: () = assert!(RING_BATCH.is_multiple_of(SHOWN), "all come back");

impl<const OWN: bool> Design for Returned<OWN> {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let pages = Pages::reserve()?;
        let first = pages.address(0);
        // SAFETY: 4096 items of at most 2 KiB end within the range.
        let item = |turn| unsafe { first.add(turn * size) };
        Ok(Self {
            row: (0..ITEMS)
                .map(|turn| AtomicPtr::new(item(turn).as_ptr()))
                .collect(),
            taken: Padded::default(),
            given: Padded(AtomicUsize::new(ITEMS)),
            shown: Padded(AtomicUsize::new(ITEMS)),
            _pages: pages,
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        // Only the producer calls this.
        let turn = self.taken.0.load(Ordering::Relaxed);
        if turn.is_multiple_of(SHOWN) {
            // Acquire: pairs with the consumer's Release, so its writes to the row and the items are visible.
            wait_until(|| self.shown.0.load(Ordering::Acquire) > turn);
        }
        self.taken.0.store(turn + 1, Ordering::Relaxed);
        let item = self.row[turn % ITEMS].load(Ordering::Relaxed);
        // SAFETY: the row begins with items, and only items are put into it.
        let item = unsafe { NonNull::new_unchecked(item) };
        // SAFETY: it was given back, or never given out.
        unsafe { header::construct(item) };
        Block(item)
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        if OWN {
            let word = item.0.cast::<u64>();
            // SAFETY: the producer wrote it, and the consumer has not given the item back yet.
            let same = unsafe { word.read_volatile() };
            // SAFETY: as above.
            unsafe { word.write_volatile(same) };
        }
        // Only the consumer calls this; the slot is free, because there are as many free slots as items in use.
        let turn = self.given.0.load(Ordering::Relaxed);
        self.row[turn % ITEMS].store(item.0.as_ptr(), Ordering::Relaxed);
        self.given.0.store(turn + 1, Ordering::Relaxed);
        if (turn + 1).is_multiple_of(SHOWN) {
            self.shown.0.store(turn + 1, Ordering::Release);
        }
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }
}
