//! A pool in a bounded lock-free queue (crossbeam's ArrayQueue), as object pools are usually written.
//!
//! An empty queue makes a new item on the heap; a full one sends the item back there. No constructor.

use crate::alloc::design::{ALIGN, Absent, Block, Design, out_of_memory};
use crossbeam_queue::ArrayQueue;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The pool.
pub(crate) struct Pool {
    queue: ArrayQueue<Block>,
    layout: Layout,
    made: AtomicUsize,
}

/// Room for the items that the cases have in flight.
const ROOM: usize = 1 << 15;

impl Pool {
    #[cold]
    #[inline(never)]
    fn make(&self) -> Block {
        self.made.fetch_add(1, Ordering::Relaxed);
        // SAFETY: sizes are not zero (checked when they are parsed).
        match NonNull::new(unsafe { System.alloc(self.layout) }) {
            Some(item) => Block(item),
            None => out_of_memory("arrayqueue"),
        }
    }

    #[cold]
    #[inline(never)]
    fn unmake(&self, item: Block) {
        self.made.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: made by `make`, and not in use.
        unsafe { System.dealloc(item.0.as_ptr(), self.layout) };
    }
}

impl Design for Pool {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        Ok(Self {
            queue: ArrayQueue::new(ROOM),
            layout: Layout::from_size_align(size, ALIGN).map_err(|e| Absent(e.to_string()))?,
            made: AtomicUsize::new(0),
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        self.queue.pop().unwrap_or_else(|| self.make())
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        if let Err(item) = self.queue.push(item) {
            self.unmake(item);
        }
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }

    fn taken(&self) -> Option<usize> {
        Some(self.made.load(Ordering::Relaxed))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        while let Some(item) = self.queue.pop() {
            self.unmake(item);
        }
    }
}
