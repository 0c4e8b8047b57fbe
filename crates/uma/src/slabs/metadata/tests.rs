//! Breaks when the metadata of a used slab is freed, or the lists stay long.

use super::*;
use crate::arena::Arena;
use crate::geometry::{ArenaOptions, Geometry};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

const SLABS: usize = 600;
const PER_SLAB: usize = 32;

fn slabs(refcounts: bool) -> (Slabs, Arena) {
    let layout = Layout::from_size_align(2048, 8).unwrap();
    let options = ArenaOptions {
        reserve_bytes: SLABS << 16,
        refcounts,
        ..ArenaOptions::default()
    };
    let geo = Geometry::new(layout, &options).unwrap();
    let arena = Arena::reserve(geo, &options).unwrap();
    (Slabs::new(geo), arena)
}

fn take_all(slabs: &mut Slabs, arena: &Arena) -> Vec<NonNull<u8>> {
    let mut out = vec![MaybeUninit::uninit(); SLABS * PER_SLAB + 1];
    let n = slabs.take(arena, &mut out);
    // SAFETY: take wrote the first n.
    let items = out[..n].iter().map(|item| unsafe { item.assume_init() });
    let mut items: Vec<_> = items.collect();
    items.sort();
    items
}

fn purge(slabs: &mut Slabs, arena: &Arena) {
    loop {
        let purge = slabs.purge_begin(0, usize::MAX);
        slabs.forget_tail();
        let more = purge.has_more();
        let _ = purge.run(arena);
        slabs.purge_end(purge);
        if !more {
            break;
        }
    }
    slabs.forget_tail();
    assert!(slabs.is_valid());
}

#[test]
#[cfg_attr(miri, ignore = "reserves much")]
fn a_long_tail_is_forgotten() {
    // Breaks when the lists outlast the spike, or a slab with a live item is forgotten.
    for refcounts in [false, true] {
        let (mut slabs, arena) = slabs(refcounts);
        for live in [0, 1, 500] {
            let items = take_all(&mut slabs, &arena);
            assert_eq!(items.len(), SLABS * PER_SLAB);
            slabs.give(&arena, &items[live..]);
            purge(&mut slabs, &arena);
            assert_eq!(slabs.slabs.len(), live.div_ceil(PER_SLAB));
            assert_eq!(slabs.out(), live);
            assert!(slabs.slabs.capacity() * size_of::<crate::slab::Slab>() <= 4096);
            slabs.give(&arena, &items[..live]);
        }
        purge(&mut slabs, &arena);
        assert_eq!(slabs.bytes(), 0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "reserves much")]
fn a_live_high_slab_keeps_the_metadata_below_it() {
    // Breaks when a slab is forgotten from the middle, or does not come back when needed.
    let (mut slabs, arena) = slabs(true);
    let items = take_all(&mut slabs, &arena);
    let (last, others) = items.split_last().unwrap();
    slabs.give(&arena, others);
    purge(&mut slabs, &arena);
    assert_eq!((slabs.slabs.len(), slabs.out()), (SLABS, 1));
    assert!(slabs.touched.counts_len() <= 2, "unneeded counts stay");
    slabs.give(&arena, &[*last]);
    purge(&mut slabs, &arena);
    assert_eq!(slabs.slabs.len(), 0);
    // All of it comes back.
    assert_eq!(take_all(&mut slabs, &arena).len(), SLABS * PER_SLAB);
    assert!(slabs.is_valid());
}

#[test]
#[should_panic(expected = "double free")]
#[cfg_attr(miri, ignore = "reserves much")]
fn a_double_free_into_a_forgotten_slab_is_caught() {
    // Breaks when an allocation does not check whether the slab of an item is known.
    let (mut slabs, arena) = slabs(false);
    let items = take_all(&mut slabs, &arena);
    slabs.give(&arena, &items);
    purge(&mut slabs, &arena);
    slabs.give(&arena, &items[..1]);
}

#[test]
fn lists_grow_by_steps_and_shrink() {
    // Breaks when a long list grows by copies of itself, or keeps its greatest capacity.
    let mut list: Vec<u64> = Vec::new();
    let mut capacities = 0;
    for i in 0..200_000 {
        let before = list.capacity();
        make_room(&mut list, 1).unwrap();
        capacities += usize::from(list.capacity() != before);
        list.push(i);
    }
    assert!(capacities < 20, "it grew {capacities} times");
    cut(&mut list, 10);
    assert_eq!(list.len(), 10);
    assert!(list.capacity() < 100);
}
