//! Breaks when bitmaps, counts and shelves disagree, or slabs are chosen badly.

use super::*;
use crate::geometry::ArenaOptions;
use core::alloc::Layout;

fn slabs_of(size: usize, slabs: usize) -> (Slabs, Arena) {
    let layout = Layout::from_size_align(size, 8).unwrap();
    let options = ArenaOptions {
        reserve_bytes: slabs * 65_536,
        ..ArenaOptions::default()
    };
    let geo = Geometry::new(layout, &options).unwrap();
    let arena = Arena::reserve(geo, &options).unwrap();
    (Slabs::new(geo).named("test"), arena)
}

fn take(slabs: &mut Slabs, arena: &Arena, want: usize) -> Vec<NonNull<u8>> {
    let mut out = vec![MaybeUninit::uninit(); want];
    let n = slabs.take(arena, &mut out);
    // SAFETY: take wrote the first n.
    out[..n]
        .iter()
        .map(|item| unsafe { item.assume_init() })
        .collect()
}

#[test]
fn hands_the_lowest_out_first() {
    // Breaks when a bucket, emptied from its end, gives the highest address first, or a new slab
    // is opened early.
    let (mut slabs, arena) = slabs_of(2048, 4);
    let mut items = take(&mut slabs, &arena, 40);
    assert_eq!(items.len(), 40);
    items.reverse();
    assert!(items.is_sorted());
    assert_eq!(slabs.bytes(), 40 * 2048);
    assert_eq!((slabs.free(), slabs.out()), (24, 40));
}

#[test]
fn takes_from_the_fullest_slab() {
    // Breaks when a nearly empty slab is filled up instead of being left to empty.
    let (mut slabs, arena) = slabs_of(2048, 4);
    let mut items = take(&mut slabs, &arena, 96);
    items.sort();
    // Slab 0 is left with 1 item, slab 1 with 30, slab 2 with 16.
    slabs.give(&arena, &items[1..32]);
    slabs.give(&arena, &items[32..34]);
    slabs.give(&arena, &items[64..80]);
    let next = take(&mut slabs, &arena, 3);
    let from: Vec<_> = next
        .iter()
        .rev()
        .map(|&item| arena.place_of(item).slab)
        .collect();
    assert_eq!(from, [1, 1, 2]);
}

#[test]
fn ends_where_the_reservation_ends() {
    // Breaks when the capacity and the number of items that can be taken differ, or the next take after that panics.
    let (mut slabs, arena) = slabs_of(2048, 3);
    assert_eq!(slabs.capacity(&arena), 96);
    assert_eq!(take(&mut slabs, &arena, 100).len(), 96);
    assert_eq!(slabs.free(), 0);
    assert!(take(&mut slabs, &arena, 1).is_empty());
    assert!(slabs.is_valid());
}

#[test]
fn prepares_memory_and_keeps_it() {
    // Breaks when prepared pages are not resident, or a purge takes those below the floor.
    let (mut slabs, arena) = slabs_of(2048, 8);
    assert_eq!(slabs.prealloc(&arena, 100), 128);
    slabs.set_floor(100);
    assert_eq!((slabs.bytes(), slabs.free()), (4 * 65_536, 128));
    assert!(slabs.is_valid());
    let purge = slabs.purge_begin(0, usize::MAX);
    assert!(purge.is_empty());
    slabs.purge_end(purge);
    slabs.set_floor(40);
    let purge = slabs.purge_begin(0, usize::MAX);
    purge.run(&arena);
    slabs.purge_end(purge);
    assert_eq!(slabs.bytes(), 2 * 65_536);
    // One slab more than there are.
    assert_eq!(slabs.prealloc(&arena, 257), 256);
    assert!(slabs.is_valid());
}

#[test]
#[should_panic(expected = "of zone 'test' is in its slab already")]
fn a_second_put_of_an_item_is_refused() {
    // Breaks when one item would get two owners.
    let (mut slabs, arena) = slabs_of(2048, 4);
    let items = take(&mut slabs, &arena, 1);
    slabs.give(&arena, &items);
    slabs.give(&arena, &items);
}

#[test]
#[should_panic(expected = "double free")]
fn a_purge_does_not_hide_a_double_free() {
    // Breaks when a purge hides from a double free that the item is free.
    let (mut slabs, arena) = slabs_of(2048, 4);
    let items = take(&mut slabs, &arena, 4);
    slabs.give(&arena, &items);
    let _purge = slabs.purge_begin(0, usize::MAX);
    assert_eq!(slabs.held(), 32);
    slabs.give(&arena, &items[..1]);
}

#[test]
fn masks_cover_a_range() {
    // Breaks when a range that crosses or ends at a word loses bits.
    for (start, end) in [
        (0, 0),
        (0, 64),
        (3, 5),
        (60, 68),
        (64, 128),
        (1, 200),
        (70, 70),
    ] {
        let bits: Vec<usize> = masks(start..end)
            .flat_map(|(word, mask)| {
                (0..64)
                    .filter(move |bit| mask & (1 << bit) != 0)
                    .map(move |bit| word * 64 + bit)
            })
            .collect();
        assert_eq!(bits, (start..end).collect::<Vec<_>>());
    }
}

/// The three ways to lay 2 KiB items out that are worth comparing.
#[cfg(not(miri))]
fn cluster_layouts() -> [(&'static str, Slabs, Arena); 3] {
    [
        ("aligned to 2048", 2048, false),
        ("slabs coloured by 256", 256, true),
        ("stride of 2112", 8, true),
    ]
    .map(|(what, align, colour)| {
        let options = ArenaOptions {
            reserve_bytes: 640 << 20,
            colour,
            ..ArenaOptions::default()
        };
        let layout = Layout::from_size_align(2048, align).unwrap();
        let geo = Geometry::new(layout, &options).unwrap();
        let arena = Arena::reserve(geo, &options).unwrap();
        (what, Slabs::new(geo), arena)
    })
}

#[test]
#[ignore = "prints figures"]
#[cfg(not(miri))]
fn cost_of_aliasing() {
    use std::{hint::black_box, time::Instant};
    for (what, mut slabs, arena) in cluster_layouts() {
        for batch in [16, 32, 64, 128] {
            let items = take(&mut slabs, &arena, batch);
            let mut best = f64::MAX;
            for _ in 0..15 {
                let start = Instant::now();
                for _ in 0..20_000 {
                    for item in &items {
                        // SAFETY: the item is ours alone, aligned to 8 and long enough.
                        unsafe { item.cast::<u64>().write_volatile(black_box(7)) };
                    }
                    for item in &items {
                        // SAFETY: as above, and written.
                        black_box(unsafe { item.cast::<u64>().read_volatile() });
                    }
                }
                let each = start.elapsed().as_nanos() as f64 / 20_000.0 / batch as f64;
                best = best.min(each);
            }
            println!("{what}: batch of {batch}: {best:.2} ns to write and read 8 bytes");
            slabs.give(&arena, &items);
        }
    }
}

#[test]
#[ignore = "prints figures"]
#[cfg(not(miri))]
fn pages_without_live_items_go_back() {
    for (what, mut slabs, arena) in cluster_layouts() {
        let items = take(&mut slabs, &arena, 262_144);
        let mut seed = 1u64;
        let (kept, freed): (Vec<_>, Vec<_>) = items.into_iter().partition(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33).is_multiple_of(100)
        });
        slabs.give(&arena, &freed);
        let purge = slabs.purge_begin(0, usize::MAX);
        purge.run(&arena);
        let more = purge.has_more();
        slabs.purge_end(purge);
        if more {
            let purge = slabs.purge_begin(0, usize::MAX);
            purge.run(&arena);
            slabs.purge_end(purge);
        }
        let each = slabs.bytes() as f64 / 4096.0 / kept.len() as f64;
        println!(
            "{what}: {each:.2} pages for each of {} survivors",
            kept.len()
        );
    }
}

#[test]
#[ignore = "prints figures"]
#[cfg(not(miri))]
fn cost_of_take_and_give() {
    for size in [256usize, 2048] {
        let (mut slabs, arena) = slabs_of(size, 256);
        // Some disorder, so that slabs are on many shelves.
        let all = take(&mut slabs, &arena, 4096);
        let some: Vec<_> = all.iter().copied().step_by(3).collect();
        slabs.give(&arena, &some);
        let mut out = vec![MaybeUninit::uninit(); 64];
        let mut best = f64::MAX;
        for _ in 0..15 {
            let start = std::time::Instant::now();
            for _ in 0..2000 {
                let n = slabs.take(&arena, &mut out);
                // SAFETY: take wrote the first n.
                let items = out[..n].iter().map(|item| unsafe { item.assume_init() });
                let items: Vec<_> = items.collect();
                slabs.give(&arena, &items);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / 2000.0 / 64.0);
        }
        println!("{size}: {best:.1} ns to take an item and give it back, 64 at a time");
    }
}
