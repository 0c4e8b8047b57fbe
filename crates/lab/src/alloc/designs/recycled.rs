//! No allocator at all: the items of a ring, each used again when its slot is.
//!
//! It is the price of the ring alone in the producer and consumer case, and has no meaning in other cases: it is not
//! an allocator, since it hands out its items in turn whether they were freed or not. The ring lets a slot be written
//! only after its last item was consumed, and item n belongs to slot n.

use super::pages::Pages;
use crate::alloc::design::{Absent, Block, Design};
use crate::harness::ring::RING_ITEMS;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many items as the ring has slots, side by side from the first page on.
pub(crate) struct Recycled {
    pages: Pages,
    size: usize,
    next: AtomicUsize,
}

impl Design for Recycled {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let next = AtomicUsize::new(0);
        Ok(Self {
            pages: Pages::reserve()?,
            size,
            next,
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        // Only the producer comes here.
        let turn = self.next.load(Ordering::Relaxed);
        self.next.store(turn.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: 4096 items of at most 2 KiB end within the range.
        Block(unsafe { self.pages.address(0).add(turn % RING_ITEMS * self.size) })
    }

    #[inline]
    unsafe fn free(&self, _: Block) {}

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }
}
