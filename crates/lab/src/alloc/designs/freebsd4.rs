//! FreeBSD 4.x: one list of free items for the whole machine, under one lock.
//!
//! Source: seed 004 section 3. There the code blocked the interrupts of the network (`splimp`) to guard the lists,
//! which excludes on one processor as a lock does on several. A free item's first word leads to the next one; when the
//! list is empty, a page is carved into items. No memory ever goes back to the system.
//! Locks: one.

use super::lock;
use super::pages::{PAGE, Pages};
use crate::alloc::design::{Absent, Block, Design, out_of_memory};
use crate::alloc::header;
use std::ptr::NonNull;
use std::sync::Mutex;

/// The one list.
pub(crate) struct Freebsd4 {
    list: Mutex<List>,
    pages: Pages,
    size: usize,
}

struct List {
    head: Option<NonNull<Free>>,
    /// Items that were ever carved.
    carved: usize,
    /// Items in the list (`mbstat.m_mbfree`).
    free: usize,
}

/// A free item.
struct Free {
    next: Option<NonNull<Free>>,
}

// SAFETY: free items belong to the list, which belongs to the lock holder.
unsafe impl Send for List {}

impl Freebsd4 {
    /// Carves a page into items (`m_mballoc`, `m_clalloc`).
    #[cold]
    #[inline(never)]
    fn carve(&self, list: &mut List) -> NonNull<Free> {
        let Some(page) = self.pages.take() else {
            out_of_memory("freebsd4")
        };
        let start = self.pages.address(page);
        for slot in (0..PAGE / self.size).rev() {
            // SAFETY: the slot is within the page.
            let item = unsafe { start.add(slot * self.size) }.cast::<Free>();
            // SAFETY: the page is ours alone, and aligned; a slot has room for a link.
            unsafe { item.write(Free { next: list.head }) };
            list.head = Some(item);
        }
        list.carved += PAGE / self.size;
        list.free += PAGE / self.size;
        start.cast()
    }
}

impl Design for Freebsd4 {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        Ok(Self {
            list: Mutex::new(List {
                head: None,
                carved: 0,
                free: 0,
            }),
            pages: Pages::reserve()?,
            size,
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        let mut list = lock(&self.list);
        let item = match list.head {
            Some(item) => item,
            None => self.carve(&mut list),
        };
        // SAFETY: an item in the list is free and holds a link.
        list.head = unsafe { item.read() }.next;
        list.free -= 1;
        drop(list);
        // SAFETY: the item is ours alone now, and of `size` bytes.
        unsafe { header::construct(item.cast()) };
        Block(item.cast())
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        let item = item.0.cast::<Free>();
        let mut list = lock(&self.list);
        // SAFETY: the caller gave the item up, and it has room for a link.
        unsafe { item.write(Free { next: list.head }) };
        list.head = Some(item);
        list.free += 1;
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }

    fn taken(&self) -> Option<usize> {
        Some(lock(&self.list).carved)
    }
}
