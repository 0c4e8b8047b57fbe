//! The checks of the feature `invariants`: they find writes to free items, writes beyond live items, double frees and
//! foreign frees, and record which caller has each live item.
//!
//! ```text
//!   item of 20 bytes, 8 aligned        |<---- size ---->|<- redzone ->|
//!   live                               | the owner's    | 0xfd ...    |  checked at the free
//!   free, without contents             | 0xdeadc0de ... |             |  checked when taken
//!   free, as init left it (hooks)      | init's         |             |  trash only in the slab
//! ```
//!
//! *Trash* is written into an item when its contents end: at the free, if neither the
//! zone nor its master has hooks; else on the way into the slab, after `fini`. It is checked when
//! the item is taken again. Pages that went back to the system come back as zeros, so each part
//! of an item that lies on one page may be trash or zero, but not a mixture.
//!
//! The *ledger* has an entry for each item ever taken: whether it is live, since when and at which call site,
//! and where it was last freed.
//!
//! Locks: `uma ledger` (rank `STATS`), one of several by address, inside of any other.
//! Source: FreeBSD's `uma_dbg.c` (`trash_ctor`, `0xdeadc0de`), INVARIANTS, and redzone(9).

use crate::arena::Arena;
use crate::region;
use crate::sample::{AllocSample, Site, Where};
use crate::zone_inner::ZoneInner;
use core::ptr::NonNull;
use kern::lock::LockClass;
use kern::order;
use kern::prim::Mutex;
use std::collections::HashMap;
use std::thread::{self, Thread};
use std::time::Instant;

static LEDGER_CLASS: LockClass = LockClass::new("uma ledger", order::STATS);

/// The pattern that fills a free item.
const TRASH: [u8; 4] = 0xdead_c0de_u32.to_le_bytes();
/// The pattern behind an item.
const REDZONE: u8 = 0xfd;
/// Shards of the ledger.
const SHARDS: usize = 16;

/// Which items of the zones on one keg are live, and where each was allocated and freed.
pub(crate) struct Ledger([Mutex<HashMap<usize, LedgerEntry>>; SHARDS]);

/// A ledger, held for a fork.
#[cfg(not(any(loom, shuttle)))]
pub(crate) struct LedgerHeld<'a>(Vec<kern::MutexGuard<'a, HashMap<usize, LedgerEntry>>>);

#[cfg(not(any(loom, shuttle)))]
impl LedgerHeld<'_> {
    pub(crate) fn forget_others(&self) {
        self.0.iter().for_each(kern::MutexGuard::forget_waiters);
    }
}

#[cfg(not(any(loom, shuttle)))]
impl Ledger {
    /// Locks it beside those of other kegs, for a fork.
    pub(crate) fn hold(&self) -> LedgerHeld<'_> {
        LedgerHeld(self.0.iter().map(kern::Mutex::lock_for_fork).collect())
    }
}

struct LedgerEntry {
    live: Option<LiveItem>,
    /// Where it was freed last.
    freed_at: Option<Site>,
}

struct LiveItem {
    /// The address of the zone, as a name.
    zone: usize,
    zone_name: &'static str,
    site: Site,
    since: Instant,
    thread: Thread,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| {
            Mutex::new(&LEDGER_CLASS, HashMap::new())
        }))
    }

    fn shard(&self, item: NonNull<u8>) -> &Mutex<HashMap<usize, LedgerEntry>> {
        // Items are 8 bytes apart at least; the multiply mixes the bits that the stride leaves equal.
        let mixed = (item.addr().get() as u64 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.0[(mixed >> 60) as usize % SHARDS]
    }

    /// An item goes to a caller.
    fn take(&self, item: NonNull<u8>, zone: &ZoneInner, site: Site) {
        let live = LiveItem {
            zone: NonNull::from(zone).addr().get(),
            zone_name: zone.name,
            site,
            since: Instant::now(),
            thread: thread::current(),
        };
        let mut shard = self.shard(item).lock();
        let entry = shard.entry(item.addr().get()).or_insert(LedgerEntry {
            live: None,
            freed_at: None,
        });
        let before = entry.live.replace(live);
        drop(shard);
        if let Some(before) = before {
            panic!(
                "uma gave out {item:p} of zone '{}' twice: at {site}, and before at {}",
                zone.name, before.site
            );
        }
    }

    /// Records that an item comes back, or returns the report of an invalid free.
    fn free(&self, item: NonNull<u8>, zone: &ZoneInner, site: Site) {
        let mut shard = self.shard(item).lock();
        let Some(entry) = shard.get_mut(&item.addr().get()) else {
            drop(shard);
            zone.foreign(item)
        };
        let taken = entry.live.take();
        let before = entry.freed_at.replace(site);
        drop(shard);
        let name = zone.name;
        match taken {
            None => panic!(
                "double free: {item:p} of zone '{name}' is free already: freed at {site}, and \
                 before at {}",
                Where(before)
            ),
            Some(live) if live.zone != NonNull::from(zone).addr().get() => panic!(
                "foreign free: {item:p}, freed at {site} into zone '{name}', was taken at {} from \
                 zone '{}'",
                live.site, live.zone_name
            ),
            Some(_) => {}
        }
    }

    fn freed_at(&self, item: NonNull<u8>) -> Option<Site> {
        let shard = self.shard(item).lock();
        shard.get(&item.addr().get())?.freed_at
    }

    fn taken_at(&self, item: NonNull<u8>) -> Option<Site> {
        let shard = self.shard(item).lock();
        Some(shard.get(&item.addr().get())?.live.as_ref()?.site)
    }

    /// The live items of a zone.
    pub(crate) fn of_zone(&self, zone: NonNull<ZoneInner>) -> Vec<AllocSample> {
        let mut records = Vec::new();
        for shard in &self.0 {
            let shard = shard.lock();
            let live = shard.values().filter_map(|entry| entry.live.as_ref());
            let ours = live.filter(|live| live.zone == zone.addr().get());
            records.extend(ours.map(|live| AllocSample {
                site: live.site,
                since: live.since,
                thread: live.thread.clone(),
                weight: 1,
            }));
        }
        records
    }
}

impl ZoneInner {
    /// An item goes to a caller: the ledger says so, and it gets its redzone.
    pub(crate) fn note_taken(&self, item: NonNull<u8>, site: Site) {
        self.keg.ledger.take(item, self, site);
        if let Some((redzone, len)) = self.redzone_of(item) {
            // SAFETY: the redzone belongs to the item, which this thread has just taken.
            unsafe { redzone.write_bytes(REDZONE, len) };
        }
    }

    /// An item comes back from a caller.
    ///
    /// # Panics
    /// If that is wrong, or something was written behind it.
    pub(crate) fn note_freed(&self, item: NonNull<u8>, site: Site) {
        let taken_at = self.keg.ledger.taken_at(item);
        self.keg.ledger.free(item, self, site);
        let Some((redzone, len)) = self.redzone_of(item) else {
            return;
        };
        // SAFETY: the redzone belongs to the item, which its owner gave up; it was written when
        // the item was taken.
        let bytes = unsafe { core::slice::from_raw_parts(redzone.as_ptr(), len) };
        if let Some(at) = bytes.iter().position(|&byte| byte != REDZONE) {
            panic!(
                "overflow: {item:p} of zone '{}', {} bytes long, was written at offset {}: taken \
                 at {}, freed at {site}",
                self.name,
                self.layout.size(),
                self.layout.size() + at,
                Where(taken_at)
            );
        }
    }

    fn redzone_of(&self, item: NonNull<u8>) -> Option<(NonNull<u8>, usize)> {
        let len = self.keg.arena()?.geometry().redzone();
        // SAFETY: an item is followed by its redzone, within the same slab.
        let redzone = unsafe { item.add(self.layout.size()) };
        (len > 0).then_some((redzone, len))
    }

    /// Whether a cached item has no contents that must be kept.
    pub(crate) fn is_plain(&self) -> bool {
        self.keg.hooks.is_none() && !self.own_init && self.keg.arena().is_some()
    }

    /// Fills an item, which only this thread has, with trash.
    pub(crate) fn trash(&self, item: NonNull<u8>) {
        if self.keg.arena().is_none() {
            return;
        }
        let (whole, rest) = self.contents(item).as_chunks_mut();
        whole.fill(TRASH);
        let len = rest.len();
        rest.copy_from_slice(&TRASH[..len]);
    }

    /// Checks that no thread has written to an item while it was free.
    ///
    /// # Panics
    /// If so.
    pub(crate) fn check_trashed(&self, item: NonNull<u8>) {
        let Some(arena) = self.keg.arena() else {
            return;
        };
        let Some(at) = first_change(self.contents(item), item.addr().get()) else {
            return;
        };
        let bytes = &self.contents(item)[at..];
        panic!(
            "write after free: {item:p} of zone '{}' was changed at offset {at} (now {:02x?}) \
             after it was freed at {}{}",
            self.name,
            &bytes[..bytes.len().min(8)],
            Where(self.keg.ledger.freed_at(item)),
            place_in(arena, item)
        );
    }

    #[expect(clippy::mut_from_ref, reason = "of the item, not of the zone")]
    fn contents(&self, item: NonNull<u8>) -> &mut [u8] {
        // SAFETY: an item is that long, its bytes are initialised (mapped, and to zeroes at
        // first), and callers have it in their hands alone.
        unsafe { core::slice::from_raw_parts_mut(item.as_ptr(), self.layout.size()) }
    }
}

/// The first byte that is neither as trash has it nor of a page that came back as zeroes.
fn first_change(bytes: &[u8], address: usize) -> Option<usize> {
    let page = region::page_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes.len().min(at + page - (address + at) % page);
        let is_trash = |&i: &usize| bytes[i] == TRASH[i % TRASH.len()];
        let first = (at..end).find(|i| !is_trash(i));
        if let Some(first) = first {
            let zero_until = (at..end).find(|&i| bytes[i] != 0);
            match zero_until {
                // All of it is zero: a new page.
                None => {}
                // The longer of the two prefixes decides which pattern the part had.
                Some(other) => return Some(first.max(other)),
            }
        }
        at = end;
    }
    None
}

/// Where an item lies, for a reader of a core dump.
fn place_in(arena: &Arena, item: NonNull<u8>) -> String {
    let place = arena.place_of(item);
    format!("; slab {}, slot {}", place.slab, place.slot)
}

/// The red zone behind an item of this layout: the bytes that the alignment leaves, or a few more
/// if they cost little. Two bytes at least, or none.
pub(crate) fn redzone_for(layout: core::alloc::Layout) -> usize {
    const BYTES: usize = 16;
    let plain = layout.size().next_multiple_of(layout.align());
    let grown = (layout.size() + BYTES).next_multiple_of(layout.align());
    match layout.size() {
        0 => 0,
        size if grown - plain <= plain / 4 => (grown - size).min(2 * BYTES),
        size => (plain - size).min(BYTES),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
