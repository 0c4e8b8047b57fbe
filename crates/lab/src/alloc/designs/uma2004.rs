//! UMA as it was in 2004: two buckets a CPU under that CPU's mutex, over a zone, over a keg of one-page slabs.
//!
//! Source: seed 004 sections 5.3 to 5.5; FreeBSD's `sys/vm/uma_core.c` of that summer.
//!
//! ```text
//!   CPU 0 [alloc][free]     one mutex each     alloc: the bucket that allocations take from
//!   CPU 1 [alloc][free]                        free: the bucket that frees put into; swapped when that helps
//!   zone  full buckets, empty buckets          one mutex, taken after a CPU's when a bucket runs out
//!   keg   partly used slabs, empty slabs       the same mutex
//! ```
//!
//! The number of items that a new bucket is made for grows by one each time a CPU finds the zone without a full
//! bucket, up to 128; buckets come in four sizes. Slabs are pages, described out of line. `reclaim` is `uma_reclaim`,
//! which the page daemon calls when memory is short: all buckets go back to the slabs, all empty slabs to the system.
//!
//! Invariants: an item is in one bucket or in its slab's free list or live. Locks: a CPU's before the zone's; none is
//! held in the constructor, nor while a bucket is made.

use super::pages::{PAGE, Pages};
use super::{Padded, lock};
use crate::alloc::design::{Absent, Block, Design, out_of_memory};
use crate::alloc::header;
use std::mem;
use std::ptr::NonNull;
use std::sync::Mutex;

/// A zone and its keg.
pub(crate) struct Uma2004 {
    cpus: Box<[Padded<Mutex<Cache>>]>,
    zone: Padded<Mutex<Zone>>,
    pages: Pages,
}

/// The buckets of a CPU.
#[derive(Default)]
struct Cache {
    alloc: Option<Bucket>,
    free: Option<Bucket>,
    allocs: u64,
    frees: u64,
}

struct Zone {
    full: Vec<Bucket>,
    empty: Vec<Bucket>,
    /// Items that the next new bucket is made for.
    bucket_items: usize,
    keg: Keg,
    /// The CPUs' counts at their last visit here.
    allocs: u64,
    frees: u64,
}

struct Bucket {
    items: Vec<NonNull<u8>>,
    room: usize,
}

/// The slabs.
struct Keg {
    per_slab: usize,
    size: usize,
    slabs: Vec<Slab>,
    /// Slabs with some items free.
    partial: Vec<u32>,
    /// Slabs with all items free.
    whole: Vec<u32>,
    /// Items that are in no slab.
    out: usize,
}

/// A page: which of its items are free.
#[derive(Clone, Default)]
struct Slab {
    free: u64,
    /// Where it is among the partly used ones, if it is one.
    place: u32,
}

// SAFETY: free items belong to the bucket or slab they are in, and that to the lock holder.
unsafe impl Send for Bucket {}

/// The sizes that buckets come in.
const BUCKET_SIZES: [usize; 4] = [16, 32, 64, 128];

impl Bucket {
    fn new(items: usize) -> Self {
        let fits = |room: &&usize| **room >= items;
        let room = *BUCKET_SIZES.iter().find(fits).unwrap_or(&128);
        Self {
            items: Vec::with_capacity(room),
            room,
        }
    }

    /// The caller made sure that there is room.
    #[inline]
    fn push(&mut self, item: NonNull<u8>) {
        if self.items.len() < self.items.capacity() {
            self.items.push(item);
        }
    }
}

impl Keg {
    /// Takes an item out of a slab; `None` if no slab has one.
    fn take(&mut self, pages: &Pages) -> Option<NonNull<u8>> {
        let number = match self.partial.last() {
            Some(&partial) => partial,
            None => match self.whole.pop() {
                Some(whole) => whole,
                None => self.open(pages)?,
            },
        };
        let all = self.all();
        let slab = &mut self.slabs[number as usize];
        let was_whole = slab.free == all;
        let slot = slab.free.trailing_zeros() as usize;
        slab.free &= slab.free - 1;
        let is_full = slab.free == 0;
        match (was_whole, is_full) {
            (true, false) => self.list_partial(number),
            (false, true) => self.unlist(number),
            _ => {}
        }
        self.out += 1;
        // SAFETY: the slot is within the page.
        Some(unsafe { pages.address(number as usize).add(slot * self.size) })
    }

    fn give(&mut self, pages: &Pages, item: NonNull<u8>) {
        let number = pages.number(item);
        let offset = item.as_ptr().addr() - pages.address(number).as_ptr().addr();
        let all = self.all();
        let slab = &mut self.slabs[number];
        let was_full = slab.free == 0;
        slab.free |= 1 << (offset / self.size);
        let is_whole = slab.free == all;
        self.out -= 1;
        let number = number as u32;
        if is_whole {
            if !was_full {
                self.unlist(number);
            }
            self.whole.push(number);
        } else if was_full {
            self.list_partial(number);
        }
    }

    /// A slab of a page without a live item; not in a list yet.
    fn open(&mut self, pages: &Pages) -> Option<u32> {
        let page = pages.take()?;
        if self.slabs.len() <= page {
            self.slabs.resize(page + 1, Slab::default());
        }
        self.slabs[page].free = self.all();
        u32::try_from(page).ok()
    }

    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.per_slab)
    }

    fn list_partial(&mut self, number: u32) {
        self.slabs[number as usize].place = self.partial.len() as u32;
        self.partial.push(number);
    }

    /// Takes a slab off the partly used ones.
    fn unlist(&mut self, number: u32) {
        let place = self.slabs[number as usize].place as usize;
        self.partial.swap_remove(place);
        if let Some(&moved) = self.partial.get(place) {
            self.slabs[moved as usize].place = place as u32;
        }
    }
}

impl Uma2004 {
    /// The slow path of an allocation that found both buckets of its CPU empty.
    #[cold]
    #[inline(never)]
    fn alloc_slow(&self, cpu: usize) -> NonNull<u8> {
        loop {
            let mut cache = lock(&self.cpus[cpu].0);
            let mut zone = lock(&self.zone.0);
            zone.allocs += mem::take(&mut cache.allocs);
            zone.frees += mem::take(&mut cache.frees);
            if let Some(full) = zone.full.pop() {
                zone.empty.extend(cache.alloc.replace(full));
                drop(zone);
                if let Some(item) = cache.pop() {
                    return item;
                }
                continue;
            }
            zone.empty.extend(cache.alloc.take());
            drop(cache);
            zone.bucket_items = (zone.bucket_items + 1).min(128);
            let wanted = zone.bucket_items;
            let bucket = zone.empty.pop();
            drop(zone);
            let bucket = bucket.unwrap_or_else(|| Bucket::new(wanted));
            if !self.fill(bucket, wanted) {
                out_of_memory("uma2004");
            }
        }
    }

    /// Puts a bucket of items from the slabs among the zone's full ones.
    fn fill(&self, mut bucket: Bucket, wanted: usize) -> bool {
        let mut zone = lock(&self.zone.0);
        let zone = &mut *zone;
        while bucket.items.len() < wanted.min(bucket.room) {
            let Some(item) = zone.keg.take(&self.pages) else {
                break;
            };
            bucket.push(item);
        }
        let some = !bucket.items.is_empty();
        if some {
            zone.full.push(bucket);
        } else {
            zone.empty.push(bucket);
        }
        some
    }

    /// The slow path of a free that found no room in either bucket of its CPU.
    #[cold]
    #[inline(never)]
    fn free_slow(&self, cpu: usize, item: NonNull<u8>) {
        loop {
            let mut cache = lock(&self.cpus[cpu].0);
            if cache.push(item) {
                return;
            }
            let mut zone = lock(&self.zone.0);
            zone.allocs += mem::take(&mut cache.allocs);
            zone.frees += mem::take(&mut cache.frees);
            zone.full.extend(cache.free.take());
            cache.free = zone.empty.pop();
            if cache.free.is_some() {
                continue;
            }
            let wanted = zone.bucket_items;
            drop(zone);
            drop(cache);
            let bucket = Bucket::new(wanted);
            lock(&self.zone.0).empty.push(bucket);
        }
    }
}

impl Cache {
    #[inline]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let mut item = self.alloc.as_mut().and_then(|b| b.items.pop());
        if item.is_none() && self.free.as_ref().is_some_and(|b| !b.items.is_empty()) {
            mem::swap(&mut self.alloc, &mut self.free);
            item = self.alloc.as_mut().and_then(|b| b.items.pop());
        }
        self.allocs += u64::from(item.is_some());
        item
    }

    #[inline]
    fn push(&mut self, item: NonNull<u8>) -> bool {
        let full = |b: &Option<Bucket>| b.as_ref().is_none_or(|b| b.items.len() == b.room);
        if full(&self.free) && !full(&self.alloc) {
            mem::swap(&mut self.alloc, &mut self.free);
        }
        match &mut self.free {
            Some(bucket) if bucket.items.len() < bucket.room => bucket.push(item),
            _ => return false,
        }
        self.frees += 1;
        true
    }
}

impl Design for Uma2004 {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let per_slab = PAGE / size;
        let cpus = 0..kern::cpu::count();
        Ok(Self {
            cpus: cpus.map(|_| Padded::default()).collect(),
            zone: Padded(Mutex::new(Zone {
                full: Vec::new(),
                empty: Vec::new(),
                bucket_items: per_slab,
                keg: Keg {
                    per_slab,
                    size,
                    slabs: Vec::new(),
                    partial: Vec::new(),
                    whole: Vec::new(),
                    out: 0,
                },
                allocs: 0,
                frees: 0,
            })),
            pages: Pages::reserve()?,
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        let cpu = kern::cpu::current();
        let cached = lock(&self.cpus[cpu].0).pop();
        let item = match cached {
            Some(item) => item,
            None => self.alloc_slow(cpu),
        };
        // SAFETY: the item is ours alone now, and of `size` bytes.
        unsafe { header::construct(item) };
        Block(item)
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        let cpu = kern::cpu::current();
        let done = lock(&self.cpus[cpu].0).push(item.0);
        if !done {
            self.free_slow(cpu, item.0);
        }
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }

    fn taken(&self) -> Option<usize> {
        Some(lock(&self.zone.0).keg.out)
    }

    fn reclaim(&self) {
        let mut caches: Vec<_> = self.cpus.iter().map(|cpu| lock(&cpu.0)).collect();
        let cached = caches
            .iter_mut()
            .flat_map(|cache| [cache.alloc.take(), cache.free.take()]);
        let mut buckets: Vec<Bucket> = cached.flatten().collect();
        drop(caches);
        let mut zone = lock(&self.zone.0);
        buckets.append(&mut zone.full);
        zone.empty.clear();
        let items = buckets.iter_mut().flat_map(|bucket| bucket.items.drain(..));
        items.for_each(|item| zone.keg.give(&self.pages, item));
        let whole = mem::take(&mut zone.keg.whole);
        drop(zone);
        // SAFETY: all items of these slabs are free, and in no bucket.
        unsafe { self.pages.give(whole) };
    }
}
