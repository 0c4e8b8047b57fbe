//! Breaks when bitmaps, counts and shelves of a keg disagree, or slabs are chosen badly.

use super::*;
use core::alloc::Layout;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn keg_of(size: usize, slabs: usize) -> (Keg, Arena) {
    let geo = Geometry::new(Layout::from_size_align(size, 8).unwrap()).unwrap();
    let arena = Arena::reserve(geo, slabs * geo.slab_bytes(), false).unwrap();
    (Keg::new(geo), arena)
}

fn take(keg: &mut Keg, arena: &Arena, want: usize) -> Vec<NonNull<u8>> {
    let mut bucket = Bucket::with_capacity(want.max(1)).unwrap();
    keg.take(arena, &mut bucket, want);
    bucket.items().to_vec()
}

proptest! {
    #[test]
    fn stays_sound(
        steps in proptest::collection::vec((0usize..4, 1usize..90), 1..60),
        size in prop::sample::select(&[200usize, 2048, 7000, 20_000]),
    ) {
        // Breaks when a slab is on the wrong shelf after any series of takes, gives and leaves.
        let (mut keg, arena) = keg_of(size, 12);
        let mut out = BTreeSet::new();
        for (kind, n) in steps {
            match kind {
                0 | 1 => {
                    for item in take(&mut keg, &arena, n) {
                        prop_assert!(out.insert(item), "given out twice");
                    }
                }
                2 => {
                    let items: Vec<_> = out.iter().copied().step_by(3).take(n).collect();
                    items.iter().for_each(|item| { out.remove(item); });
                    keg.give(&arena, &items);
                }
                _ => {
                    let runs = keg.leave();
                    prop_assert!(keg.is_valid());
                    keg.left(&runs);
                }
            }
            prop_assert!(keg.is_valid());
            prop_assert_eq!(keg.free() + out.len(), keg.bytes() / keg.geo.slab_bytes() * keg.geo.per_slab());
        }
    }
}

#[test]
fn takes_the_lowest_first() {
    // Breaks when a bucket hands the highest address out first, or a new slab is opened early.
    let (mut keg, arena) = keg_of(2048, 4);
    let mut items = take(&mut keg, &arena, 40);
    assert_eq!(items.len(), 40);
    items.reverse();
    assert!(items.is_sorted());
    assert_eq!(keg.bytes(), 2 * keg.geo.slab_bytes());
}

#[test]
fn takes_from_the_fullest_slab() {
    // Breaks when a nearly empty slab is filled up instead of being left to empty.
    let (mut keg, arena) = keg_of(2048, 4);
    let mut items = take(&mut keg, &arena, 96);
    items.sort();
    // Slab 0 is left with 1 item, slab 1 with 30, slab 2 with 16.
    keg.give(&arena, &items[1..32]);
    keg.give(&arena, &items[32..34]);
    keg.give(&arena, &items[64..80]);
    let next = take(&mut keg, &arena, 3);
    let slabs: Vec<_> = next
        .iter()
        .rev()
        .map(|&item| arena.place_of(item).slab)
        .collect();
    assert_eq!(slabs, [1, 1, 2]);
}

#[test]
fn leaves_in_runs() {
    // Breaks when neighbouring empty slabs are given back by a system call each.
    let (mut keg, arena) = keg_of(2048, 8);
    let mut items = take(&mut keg, &arena, 256);
    items.sort();
    let kept = items[100];
    items.retain(|&item| item != kept);
    keg.give(&arena, &items);
    assert_eq!(keg.leave(), [0..3, 4..8]);
    keg.left(&[0..3, 4..8]);
    assert!(keg.is_valid());
    assert_eq!(keg.bytes(), keg.geo.slab_bytes());
    assert_eq!(keg.free(), 31);
    assert!(keg.has_items());
}

#[test]
#[should_panic(expected = "double free")]
fn refuses_an_item_that_is_there() {
    // Breaks when one item would get two owners.
    let (mut keg, arena) = keg_of(2048, 4);
    let items = take(&mut keg, &arena, 1);
    keg.give(&arena, &items);
    keg.give(&arena, &items);
}
