//! Breaks when a page goes while an item on it is in use, or stays although none is.

#![allow(clippy::single_range_in_vec_init)] // lists of one run are meant

use super::*;
use crate::geometry::{ArenaOptions, Geometry};
use crate::region::page_bytes;
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Items in one step of the model; Miri is slow.
const ITEMS_MAX: usize = if cfg!(miri) { 20 } else { 400 };
/// Bytes of an item that are written and looked at.
const STAMP_MAX: usize = if cfg!(miri) { 16 } else { 1 << 20 };
/// Steps of the model.
const STEPS_MAX: usize = if cfg!(miri) { 12 } else { 40 };

/// Slabs, and the knowledge of a user of them.
struct Rig {
    slabs: Slabs,
    arena: Arena,
    size: usize,
    /// Items taken, and the values written to them.
    live: BTreeMap<NonNull<u8>, u8>,
    stamp: u8,
}

impl Rig {
    fn new(layout: Layout, options: &ArenaOptions) -> Self {
        let geo = Geometry::new(layout, options).unwrap();
        Self {
            slabs: Slabs::new(geo),
            arena: Arena::reserve(geo, options).unwrap(),
            size: layout.size(),
            live: BTreeMap::new(),
            stamp: 0,
        }
    }

    fn of_clusters(refcounts: bool, reserve_bytes: usize) -> Self {
        let options = ArenaOptions {
            refcounts,
            reserve_bytes,
            ..ArenaOptions::default()
        };
        Self::new(Layout::from_size_align(2048, 2048).unwrap(), &options)
    }

    fn take(&mut self, want: usize) -> Vec<NonNull<u8>> {
        let mut out = vec![MaybeUninit::uninit(); want];
        let n = self.slabs.take(&self.arena, &mut out);
        // SAFETY: take wrote the first n.
        let items = out[..n].iter().map(|item| unsafe { item.assume_init() });
        let items: Vec<_> = items.collect();
        for &item in &items {
            self.stamp = self.stamp.wrapping_add(1);
            self.write(item, self.stamp);
            assert!(
                self.live.insert(item, self.stamp).is_none(),
                "given out twice"
            );
        }
        items
    }

    fn write(&self, item: NonNull<u8>, value: u8) {
        // SAFETY: the item is ours alone and has `size` bytes.
        unsafe { item.write_bytes(value, self.size.min(STAMP_MAX)) };
        if self.arena.is_counted() {
            // SAFETY: the item is live.
            let count = unsafe { self.arena.count_of(item) };
            count.store(u32::from(value), Ordering::Relaxed);
        }
    }

    fn give(&mut self, items: &[NonNull<u8>]) {
        for item in items {
            assert!(self.live.remove(item).is_some());
        }
        self.slabs.give(&self.arena, items);
    }

    /// Whether every live item has the bytes that were written to it.
    fn is_unharmed(&self) -> bool {
        self.live.iter().all(|(&item, &value)| {
            // SAFETY: live, and so many bytes were written.
            let bytes =
                unsafe { core::slice::from_raw_parts(item.as_ptr(), self.size.min(STAMP_MAX)) };
            let counted = || {
                // SAFETY: live.
                let count = unsafe { self.arena.count_of(item) };
                count.load(Ordering::Relaxed) == u32::from(value)
            };
            bytes.iter().all(|byte| *byte == value) && (!self.arena.is_counted() || counted())
        })
    }

    /// Whether no live item has a byte, or its count, in the ranges given back.
    fn is_apart(&self, purge: &Purge) -> bool {
        let base = self.arena.base().addr().get();
        let geo = self.arena.geometry();
        let meets = |runs: &[Range<usize>], start: usize, end: usize| {
            runs.iter().any(|run| run.start < end && start < run.end)
        };
        self.live.keys().all(|item| {
            let start = item.addr().get() - base;
            let count = geo.number_of(geo.place_of(start)) * COUNT_BYTES;
            !meets(&purge.items, start, start + self.size)
                && !meets(&purge.counts, count, count + COUNT_BYTES)
        })
    }

    fn purge_all(&mut self) -> Purged {
        let mut sum = Purged::default();
        loop {
            let purge = self.slabs.purge_begin(0, usize::MAX);
            if purge.is_empty() {
                self.slabs.purge_end(purge);
                return sum;
            }
            sum += purge.run(&self.arena);
            self.slabs.purge_end(purge);
        }
    }
}

const KINDS: &[&str] = match cfg!(miri) {
    true => &["plain", "colour"],
    false => &["plain", "huge", "colour", "guard"],
};
/// Small ones make many bits, which take Miri long to check.
const SIZES: Range<usize> = if cfg!(miri) { 1500..9000 } else { 1..9000 };

fn options() -> impl Strategy<Value = (Layout, ArenaOptions)> {
    let layout = (SIZES, 0u32..13).prop_filter_map("a layout", |(size, shift)| {
        Layout::from_size_align(size, 1 << shift).ok()
    });
    let kind = prop::sample::select(KINDS);
    (layout, kind, any::<bool>()).prop_map(|(layout, kind, refcounts)| {
        let options = ArenaOptions {
            reserve_bytes: 6 << if kind == "huge" { 21 } else { 16 },
            refcounts,
            huge: kind == "huge",
            colour: kind == "colour",
            guard: kind == "guard",
            sample_slabs: 2,
            redzone: None,
        };
        (layout, options)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 192 }))]
    #[test]
    fn slabs_stay_consistent_under_purges(
        (layout, options) in options(),
        steps in proptest::collection::vec((0usize..6, 1usize..ITEMS_MAX, any::<u64>()), 1..STEPS_MAX),
    ) {
        // Breaks when, after any series of takes, gives and purges that overlap them, an item on
        // a page in a purge is given out, a live item loses its bytes, or the sums are wrong.
        let mut rig = Rig::new(layout, &options);
        let mut running: Option<Purge> = None;
        for (kind, n, dice) in steps {
            match kind {
                0 | 1 => {
                    let items = rig.take(n);
                    prop_assert!(items.iter().all(|item| item.addr().get() % layout.align() == 0));
                    prop_assert!(items.iter().all(|&item| rig.arena.is_item(item)));
                }
                2 | 3 => {
                    // A stretch of items, or some everywhere.
                    let (skip, step) = (dice as usize % (rig.live.len() + 1), 1 + (dice >> 32) as usize % 4);
                    let items: Vec<_> = rig.live.keys().copied().skip(skip).step_by(step).take(n).collect();
                    rig.give(&items);
                }
                4 => {
                    let max = if dice % 2 == 0 { usize::MAX } else { n * 4096 };
                    let purge = rig.slabs.purge_begin(if dice % 3 == 0 { n * 512 } else { 0 }, max);
                    prop_assert!(rig.is_apart(&purge));
                    prop_assert!(rig.slabs.is_valid());
                    match running {
                        Some(_) => prop_assert!(purge.is_busy() && purge.is_empty()),
                        None if purge.is_empty() => rig.slabs.purge_end(purge),
                        None => running = Some(purge),
                    }
                }
                _ => if let Some(purge) = running.take() {
                    prop_assert!(rig.is_apart(&purge));
                    purge.run(&rig.arena);
                    rig.slabs.purge_end(purge);
                }
            }
            prop_assert!(rig.slabs.is_valid());
            prop_assert!(rig.is_unharmed());
            prop_assert_eq!(rig.slabs.out(), rig.live.len());
        }
        if let Some(purge) = running.take() {
            purge.run(&rig.arena);
            rig.slabs.purge_end(purge);
        }
        // At the end all items can be allocated, and all pages can go back.
        if !cfg!(miri) {
            let capacity = rig.slabs.capacity(&rig.arena);
            rig.take(capacity);
            prop_assert_eq!(rig.live.len(), capacity);
        }
        let items: Vec<_> = rig.live.keys().copied().collect();
        rig.give(&items);
        rig.purge_all();
        prop_assert_eq!((rig.slabs.bytes(), rig.slabs.free()), (0, 0));
        prop_assert!(rig.slabs.is_valid());
        #[cfg(not(miri))]
        prop_assert_eq!(resident(&rig.arena), 0);
    }
}

#[test]
fn neighbours_make_one_run() {
    // Breaks when empty slabs side by side are given back by a system call each.
    let mut rig = Rig::of_clusters(false, 8 * 65_536);
    let mut items = rig.take(256);
    items.sort();
    let kept = items.remove(100);
    rig.give(&items);
    let purge = rig.slabs.purge_begin(0, usize::MAX);
    // Slab 3, in which item 100 is on the third page, comes last.
    let slab = 65_536;
    let expected = [
        4 * slab..8 * slab,
        0..3 * slab + 8192,
        3 * slab + 12_288..4 * slab,
    ];
    assert_eq!(purge.items, expected);
    assert_eq!(purge.units(), 127);
    purge.run(&rig.arena);
    rig.slabs.purge_end(purge);
    assert_eq!(rig.slabs.bytes(), 4096);
    assert_eq!(rig.slabs.free(), 31);
    rig.give(&[kept]);
    assert!(rig.slabs.is_valid());
}

#[test]
fn a_purge_keeps_the_lowest_empty_slabs() {
    // Breaks when a purge takes more than it may, or not the highest of the empty slabs.
    let mut rig = Rig::of_clusters(false, 8 * 65_536);
    let items = rig.take(256);
    rig.give(&items);
    let purge = rig.slabs.purge_begin(3 * 65_536, 2 * 65_536);
    assert_eq!(purge.items, [6 * 65_536..8 * 65_536]);
    assert!(purge.has_more());
    rig.slabs.purge_end(purge);
    let purge = rig.slabs.purge_begin(3 * 65_536, usize::MAX);
    assert_eq!(purge.items, [3 * 65_536..6 * 65_536]);
    rig.slabs.purge_end(purge);
    assert_eq!(rig.slabs.bytes(), 3 * 65_536);
}

#[test]
fn counts_go_with_their_items() {
    // Breaks when a page of counts stays although no item of it is held, or goes although a new
    // slab has begun to use it.
    let mut rig = Rig::of_clusters(true, 8 * 65_536);
    // Slabs 0 and 1 share a page of counts, and so do 2 and 3; slab 3 does not exist yet.
    let items = rig.take(96);
    rig.give(&items);
    let purge = rig.slabs.purge_begin(0, usize::MAX);
    assert_eq!(purge.counts, [0..4096]);
    rig.slabs.purge_end(purge);
    assert_eq!(rig.slabs.touched.counts_len(), 1);
    // Slab 0 has an item, so the page stays; slab 3 comes, so that the other may go.
    let items = rig.take(128);
    rig.give(&items[..127]);
    rig.purge_all();
    assert_eq!(rig.slabs.touched.counts_len(), 1);
    assert!(rig.is_unharmed());
}

#[test]
fn sample_slabs_are_counted_apart() {
    // Breaks when sample slabs are counted among the others, or have no counts.
    let options = ArenaOptions {
        reserve_bytes: 4 * 65_536,
        refcounts: true,
        sample_slabs: 3,
        ..ArenaOptions::default()
    };
    let mut rig = Rig::new(Layout::from_size_align(256, 256).unwrap(), &options);
    assert_eq!(rig.take(2000).len(), 1024);
    assert_eq!(rig.arena.sample_range(), 4..7);
    assert_eq!(rig.arena.normal_len(), 4 * 65_536);
    assert_eq!(rig.arena.len(), 7 * 65_536);
    assert_eq!(rig.arena.open_samples(2), 2);
    let sample = rig
        .arena
        .item_at(crate::geometry::ItemPlace { slab: 5, slot: 255 });
    assert!(rig.arena.is_item(sample) && rig.arena.owns(sample));
    rig.write(sample, 7);
    assert!(rig.is_unharmed());
    assert_eq!(rig.arena.open_samples(9), 3);
}

#[cfg(not(miri))]
mod resident {
    //! Behaviour that only a real system shows.

    use super::*;
    use crate::region::VECTORS_WORK;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Held by the test that changes [`VECTORS_WORK`] and by the tests that count system calls.
    static COUNTS_CALLS: Mutex<()> = Mutex::new(());

    fn counts_calls() -> MutexGuard<'static, ()> {
        COUNTS_CALLS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn one_percent_of_survivors_keep_their_pages_only() {
        // Breaks when a free page beside a live item stays resident.
        let _alone = counts_calls();
        let mut rig = Rig::of_clusters(true, 512 << 20);
        let items = rig.take(262_144);
        let before = super::resident(&rig.arena);
        assert_eq!(before, 131_072);
        let (mut seed, mut freed) = (1u64, Vec::new());
        for item in items {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if (seed >> 33) % 100 != 0 {
                freed.push(item);
            }
        }
        rig.give(&freed);
        let purged = rig.purge_all();
        let (pages, survivors) = (super::resident(&rig.arena), rig.live.len());
        println!("{survivors} survivors on {pages} pages, {purged:?}");
        assert!(
            pages <= survivors,
            "{pages} pages for {survivors} survivors"
        );
        assert!(rig.is_unharmed());
        assert!(purged.calls < 64, "{} system calls", purged.calls);
    }

    #[test]
    #[ignore = "prints figures"]
    fn cost_of_a_page() {
        for (what, keep_one_in) in [
            ("all empty", usize::MAX),
            ("1 % left", 100),
            ("6 % left", 16),
        ] {
            for _ in 0..3 {
                let mut rig = Rig::of_clusters(false, 256 << 20);
                let items = rig.take(131_072);
                let kept = |i: &usize| {
                    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).is_multiple_of(keep_one_in)
                };
                let freed = items.iter().enumerate().filter(|(i, _)| !kept(i));
                let freed: Vec<_> = freed.map(|(_, item)| *item).collect();
                rig.give(&freed);
                print_cost(what, &mut rig);
            }
        }
    }

    fn print_cost(what: &str, rig: &mut Rig) {
        use std::time::{Duration, Instant};
        let (mut sum, mut locked, mut longest) =
            (Purged::default(), Duration::ZERO, Duration::ZERO);
        let start = Instant::now();
        loop {
            let begin = Instant::now();
            let purge = rig.slabs.purge_begin(0, 16 << 20);
            let hold = begin.elapsed();
            let done = purge.is_empty();
            sum += purge.run(&rig.arena);
            let end = Instant::now();
            rig.slabs.purge_end(purge);
            locked += hold + end.elapsed();
            longest = longest.max(hold).max(end.elapsed());
            if done {
                break;
            }
        }
        let each = |time: Duration| time.as_nanos() as f64 / sum.pages as f64;
        println!(
            "{what}: {:.0} ns/page, {:.1} of it locked, longest hold {longest:?}, {sum:?}",
            each(start.elapsed()),
            each(locked)
        );
    }

    #[test]
    fn huge_slabs_go_whole_or_not_at_all() {
        // Breaks when a part of a huge page is given back, which frees no memory.
        let options = ArenaOptions {
            reserve_bytes: 8 << 20,
            huge: true,
            ..ArenaOptions::default()
        };
        let mut rig = Rig::new(Layout::from_size_align(2048, 2048).unwrap(), &options);
        let items = rig.take(4096);
        let last = items[0];
        rig.give(&items[1..]);
        let purge = rig.slabs.purge_begin(0, 4096);
        assert_eq!(purge.items, [4 << 20..6 << 20]);
        purge.run(&rig.arena);
        rig.slabs.purge_end(purge);
        rig.purge_all();
        assert_eq!(rig.slabs.bytes(), 2 << 20);
        assert_eq!(super::resident(&rig.arena), (2 << 20) / page_bytes());
        rig.give(&[last]);
        rig.purge_all();
        assert_eq!((rig.slabs.bytes(), super::resident(&rig.arena)), (0, 0));
    }

    #[test]
    fn a_purge_stops_at_its_bounds() {
        // Breaks when the lists of a purge grow under the lock, or a unit that did not fit is forgotten.
        let mut rig = Rig::of_clusters(false, 64 << 20);
        let items = rig.take(16_384);
        // Every second page of every slab.
        let freed = items.iter().enumerate().filter(|(i, _)| i / 2 % 2 == 0);
        let freed: Vec<_> = freed.map(|(_, item)| *item).collect();
        rig.give(&freed);
        let purge = rig.slabs.purge_begin(0, usize::MAX);
        assert_eq!(
            (purge.units(), purge.items.capacity()),
            (RUNS_MAX, RUNS_MAX)
        );
        assert!(purge.has_more());
        rig.slabs.purge_end(purge);
        rig.purge_all();
        assert_eq!(rig.slabs.bytes(), (16_384 - freed.len()) * 2048);
        assert!(rig.is_unharmed());
    }

    #[test]
    fn a_purge_works_without_process_madvise() {
        // Breaks when pages stay where process_madvise is refused.
        let _alone = counts_calls();
        let mut rig = Rig::of_clusters(false, 8 << 20);
        let items = rig.take(4096);
        let freed: Vec<_> = items.iter().copied().step_by(4).collect();
        let also: Vec<_> = items.iter().copied().skip(1).step_by(4).collect();
        rig.give(&freed);
        rig.give(&also);
        let purge = rig.slabs.purge_begin(0, usize::MAX);
        VECTORS_WORK.store(false, Ordering::Relaxed);
        let purged = purge.run(&rig.arena);
        VECTORS_WORK.store(true, Ordering::Relaxed);
        let each_by_itself = Purged {
            pages: 1024,
            calls: 1024,
        };
        assert_eq!(purged, each_by_itself);
        rig.slabs.purge_end(purge);
        assert_eq!(super::resident(&rig.arena), 1024);
        assert!(rig.is_unharmed());
    }

    #[test]
    fn a_byte_behind_an_item_cannot_be_read() {
        // Breaks when the byte behind an item can be read.
        let options = ArenaOptions {
            reserve_bytes: 1 << 20,
            guard: true,
            ..ArenaOptions::default()
        };
        let mut rig = Rig::new(Layout::from_size_align(100, 4).unwrap(), &options);
        let items = rig.take(5);
        let page = page_bytes();
        for item in items {
            let end = item.addr().get() + 100;
            assert_eq!(end % page, 0);
            assert!(!is_readable(end) && is_readable(end - 1));
        }
    }

    /// Asks the kernel, which answers instead of killing us.
    fn is_readable(address: usize) -> bool {
        let mut pipe = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        // SAFETY: the kernel checks the address, and fails if it is not readable.
        let wrote = unsafe { libc::write(pipe[1], core::ptr::without_provenance(address), 1) };
        for fd in pipe {
            // SAFETY: made above.
            unsafe { libc::close(fd) };
        }
        wrote == 1
    }
}

/// Pages of items that are in memory, by the kernel's word.
#[cfg(not(miri))]
fn resident(arena: &Arena) -> usize {
    let mut pages = vec![0u8; arena.len() / page_bytes()];
    // SAFETY: a byte of room for each page of the range, which is mapped.
    let answer = unsafe {
        libc::mincore(
            arena.base().as_ptr().cast(),
            arena.len(),
            pages.as_mut_ptr(),
        )
    };
    assert_eq!(answer, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}
