//! mballoc, FreeBSD 5.0 to 5.2: a list of buckets for each CPU, over a general list of buckets.
//!
//! Source: seed 004 section 5.2; FreeBSD's `sys/kern/subr_mbuf.c`, 2001 to 2004.
//!
//! ```text
//!   CPU 0 [bucket]-[bucket]-...     one lock each        a bucket is a page: the addresses of its free
//!   CPU 1 [bucket]-...                                   items, their number, and whose it is
//!   general [bucket]-...            one lock
//! ```
//!
//! An allocation takes from the first bucket of its CPU; else it moves a bucket over from the general list; else it
//! makes a bucket of a new page. A free finds the item's bucket by the page number and goes to the list that owns it,
//! whichever CPU's that is, and so takes the lock of the CPU that allocated. A list with more free items than its
//! high mark moves a bucket to the general list. No page ever goes back to the system (seed 004 section 5.5).
//!
//! The code for a full map (waking sleepers, searching the other lists) has no part in any case here, and is left out.
//!
//! Invariants: a bucket with free items is in the list of its owner; one without is in no list, and its owner's word
//! carries [`EMPTY`]. All of a bucket but that word belongs to the holder of its owner's lock; the word is changed
//! only with that lock held, and read without to learn which lock that is. Locks: a CPU's before the general one.

use super::pages::{PAGE, Pages};
use super::{Padded, lock};
use crate::alloc::design::{Absent, Block, Design, out_of_memory};
use crate::alloc::header;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The lists of all CPUs, and the general one.
pub(crate) struct Mballoc {
    cpus: Box<[Padded<Mutex<List>>]>,
    general: Padded<Mutex<List>>,
    /// The bucket of each page (`ml_btable`).
    buckets: Box<[AtomicPtr<Bucket>]>,
    pages: Pages,
    size: usize,
    high_mark: usize,
    carved: AtomicUsize,
}

/// A list of buckets that have free items (`mb_container`).
#[derive(Default)]
struct List {
    first: Option<NonNull<Bucket>>,
    free: usize,
}

// SAFETY: the buckets of a list belong to the holder of its lock.
unsafe impl Send for List {}

/// The state of a page. The addresses of its free items lie behind it, as many as the page has items.
#[repr(C)]
struct Bucket {
    /// A CPU's number or [`GENERAL`], and [`EMPTY`].
    owner: AtomicU32,
    inside: UnsafeCell<Inside>,
    items: [UnsafeCell<*mut u8>; 0],
}

struct Inside {
    next: Option<NonNull<Bucket>>,
    free: usize,
}

/// The owner of buckets in the general list.
const GENERAL: u32 = 1 << 30;
/// The bucket has no free item and is in no list (`MB_BUCKET_FREE`).
const EMPTY: u32 = 1 << 31;
/// `mbuf_limit` and `clust_limit`: the most free items that a CPU keeps.
const HIGH_MARK_MBUFS: usize = 512;
const HIGH_MARK_CLUSTERS: usize = 128;

impl Bucket {
    /// The layout of a bucket for `items` items.
    fn layout(items: usize) -> Layout {
        let entries = Layout::array::<*mut u8>(items);
        let whole = entries.and_then(|entries| Layout::new::<Bucket>().extend(entries));
        whole.expect("a page has few items").0
    }

    /// Where the address of the nth free item is.
    ///
    /// # Safety
    /// The bucket was made for more than `n` items.
    #[inline]
    unsafe fn entry(bucket: NonNull<Bucket>, n: usize) -> *mut *mut u8 {
        // SAFETY: the entries begin where the bucket ends, which is aligned for them.
        let entries = unsafe { bucket.add(1) }.cast::<*mut u8>();
        // SAFETY: the caller says that there are more than n.
        unsafe { entries.add(n) }.as_ptr()
    }
}

impl List {
    fn insert(&mut self, bucket: NonNull<Bucket>, inside: &mut Inside) {
        inside.next = self.first.replace(bucket);
    }
}

impl Mballoc {
    /// Takes an item from the first bucket of a list whose lock is held (`MB_GET_OBJECT`).
    ///
    /// # Safety
    /// `bucket` is the first of `list`, and `owner` is the list's.
    #[inline]
    unsafe fn pop(list: &mut List, bucket: NonNull<Bucket>, owner: u32) -> *mut u8 {
        // SAFETY: buckets live as long as the design.
        let known = unsafe { bucket.as_ref() };
        // SAFETY: the list's lock is held, so its content is ours.
        let inside = unsafe { &mut *known.inside.get() };
        inside.free -= 1;
        list.free -= 1;
        // SAFETY: the number of free items was in range, and is one less now.
        let entry = unsafe { Bucket::entry(bucket, inside.free) };
        // SAFETY: entries below the number of free items are written.
        let item = unsafe { entry.read() };
        if inside.free == 0 {
            list.first = inside.next.take();
            // Relaxed: read without the lock only to choose a lock, and checked again under it.
            known.owner.store(owner | EMPTY, Ordering::Relaxed);
        }
        item
    }

    /// An item for a CPU whose list is empty: from the general list, else from a new page.
    #[cold]
    #[inline(never)]
    fn refill(&self, cpu: usize, mut list: MutexGuard<'_, List>) -> *mut u8 {
        let owner = cpu as u32;
        let mut general = lock(&self.general.0);
        let found = general.first;
        if let Some(bucket) = found {
            // SAFETY: buckets live as long as the design.
            let moved = unsafe { bucket.as_ref() };
            // SAFETY: the general list's lock is held.
            let inside = unsafe { &mut *moved.inside.get() };
            general.first = inside.next.take();
            general.free -= inside.free;
            list.free += inside.free;
            list.insert(bucket, inside);
            moved.owner.store(owner, Ordering::Relaxed);
        }
        drop(general);
        let Some(bucket) = found else {
            return self.refill_from_page(cpu, list);
        };
        // SAFETY: it was put there as the first.
        unsafe { Self::pop(&mut list, bucket, owner) }
    }

    /// Makes a bucket of a new page; the list's lock is let go meanwhile (`mb_pop_cont`).
    fn refill_from_page(&self, cpu: usize, list: MutexGuard<'_, List>) -> *mut u8 {
        drop(list);
        let Some(page) = self.pages.take() else {
            out_of_memory("mballoc")
        };
        let bucket = self.bucket_of(page, cpu);
        self.buckets[page].store(bucket.as_ptr(), Ordering::Release);
        let mut list = lock(&self.cpus[cpu].0);
        // SAFETY: buckets live as long as the design.
        let fresh = unsafe { bucket.as_ref() };
        // SAFETY: the bucket is new, and the list's lock is held.
        let inside = unsafe { &mut *fresh.inside.get() };
        list.insert(bucket, inside);
        list.free += inside.free;
        // SAFETY: it was put there as the first.
        unsafe { Self::pop(&mut list, bucket, cpu as u32) }
    }

    /// A bucket of all the items of a page, which is in no list yet.
    fn bucket_of(&self, page: usize, cpu: usize) -> NonNull<Bucket> {
        let count = PAGE / self.size;
        // SAFETY: a bucket is not empty of bytes.
        let bucket = unsafe { alloc(Bucket::layout(count)) };
        let Some(bucket) = NonNull::new(bucket.cast::<Bucket>()) else {
            out_of_memory("mballoc")
        };
        let head = Bucket {
            owner: AtomicU32::new(cpu as u32),
            inside: UnsafeCell::new(Inside {
                next: None,
                free: count,
            }),
            items: [],
        };
        // SAFETY: it was just allocated with the layout of a bucket.
        unsafe { bucket.write(head) };
        for slot in 0..count {
            // SAFETY: the bucket was made for this many.
            let entry = unsafe { Bucket::entry(bucket, slot) };
            let item = self
                .pages
                .address(page)
                .as_ptr()
                .wrapping_add(slot * self.size);
            // SAFETY: as above.
            unsafe { entry.write(item) };
        }
        self.carved.fetch_add(count, Ordering::Relaxed);
        bucket
    }

    /// The list that owns a bucket, locked.
    #[inline]
    fn owner_of(&self, bucket: &Bucket) -> (u32, MutexGuard<'_, List>) {
        loop {
            let owner = bucket.owner.load(Ordering::Relaxed) & !EMPTY;
            let list = match self.cpus.get(owner as usize) {
                Some(cpu) => lock(&cpu.0),
                None => lock(&self.general.0),
            };
            // The bucket may have moved to another list while this thread waited.
            if bucket.owner.load(Ordering::Relaxed) & !EMPTY == owner {
                return (owner, list);
            }
        }
    }

    /// Moves a bucket from a CPU's list, which is above its mark, to the general one.
    #[cold]
    #[inline(never)]
    fn overflow(&self, list: &mut List) {
        let Some(first) = list.first else { return };
        // SAFETY: buckets live as long as the design.
        let bucket = unsafe { first.as_ref() };
        // SAFETY: the lock of the list that it is in is held.
        let inside = unsafe { &mut *bucket.inside.get() };
        let mut general = lock(&self.general.0);
        list.first = inside.next.take();
        list.free -= inside.free;
        general.free += inside.free;
        general.insert(first, inside);
        bucket.owner.store(GENERAL, Ordering::Relaxed);
    }
}

impl Design for Mballoc {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let cpus = 0..kern::cpu::count();
        Ok(Self {
            cpus: cpus.map(|_| Padded::default()).collect(),
            general: Padded::default(),
            buckets: (0..Pages::count())
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect(),
            pages: Pages::reserve()?,
            size,
            high_mark: if size < 1024 {
                HIGH_MARK_MBUFS
            } else {
                HIGH_MARK_CLUSTERS
            },
            carved: AtomicUsize::new(0),
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        let cpu = kern::cpu::current();
        let mut list = lock(&self.cpus[cpu].0);
        let item = match list.first {
            Some(bucket) => {
                // SAFETY: it is the first of this CPU's list, whose lock is held.
                let item = unsafe { Self::pop(&mut list, bucket, cpu as u32) };
                drop(list);
                item
            }
            None => self.refill(cpu, list),
        };
        let Some(item) = NonNull::new(item) else {
            out_of_memory("mballoc")
        };
        // SAFETY: the item is ours alone now, and of `size` bytes.
        unsafe { header::construct(item) };
        Block(item)
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        let found = self.buckets[self.pages.number(item.0)].load(Ordering::Acquire);
        // SAFETY: the item came from this design, so its page has a bucket.
        let found = unsafe { NonNull::new_unchecked(found) };
        // SAFETY: buckets live as long as the design.
        let bucket = unsafe { found.as_ref() };
        let (owner, mut list) = self.owner_of(bucket);
        // SAFETY: the lock of the bucket's owner is held.
        let inside = unsafe { &mut *bucket.inside.get() };
        // SAFETY: an item was out, so there is room for its address.
        let entry = unsafe { Bucket::entry(found, inside.free) };
        // SAFETY: the entry is the bucket's, whose owner's lock is held.
        unsafe { entry.write(item.0.as_ptr()) };
        inside.free += 1;
        list.free += 1;
        if inside.free == 1 {
            list.insert(found, inside);
            bucket.owner.store(owner, Ordering::Relaxed);
        }
        if owner != GENERAL && list.free > self.high_mark {
            self.overflow(&mut list);
        }
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }

    fn taken(&self) -> Option<usize> {
        Some(self.carved.load(Ordering::Relaxed))
    }
}

impl Drop for Mballoc {
    fn drop(&mut self) {
        for bucket in &mut self.buckets {
            let bucket = *bucket.get_mut();
            if !bucket.is_null() {
                // SAFETY: allocated with this layout, and the design is not used any more.
                unsafe { dealloc(bucket.cast(), Bucket::layout(PAGE / self.size)) };
            }
        }
    }
}
