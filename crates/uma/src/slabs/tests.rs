//! Breaks when bitmaps, counts and shelves disagree, or slabs are chosen badly.

use super::*;
use crate::arena::ArenaOptions;
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
    // Breaks when capacity and what can be taken differ, or the next take after that panics.
    let (mut slabs, arena) = slabs_of(2048, 3);
    assert_eq!(slabs.capacity(&arena), 96);
    assert_eq!(take(&mut slabs, &arena, 100).len(), 96);
    assert!(!slabs.has_items());
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
fn refuses_an_item_that_is_there() {
    // Breaks when one item would get two owners.
    let (mut slabs, arena) = slabs_of(2048, 4);
    let items = take(&mut slabs, &arena, 1);
    slabs.give(&arena, &items);
    slabs.give(&arena, &items);
}

#[test]
#[should_panic(expected = "double free")]
fn refuses_an_item_that_is_held() {
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
