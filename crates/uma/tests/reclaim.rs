//! Memory goes back: breaks when a drain leaves pages, or takes some that are in use.

#![cfg(not(miri))]

mod common;

use common::{Dice, assert_balance, builder, free, read, write, zone};

/// Resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kbytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kbytes.expect("the kernel says how much is resident") * 1024
}

#[test]
fn a_spike_leaves_nothing_behind() {
    // Breaks when pages stay after a drain, or content of survivors goes with them.
    const ITEMS: usize = 32 << 10;
    let zone = zone(2048, 2048);
    let before = resident();
    let mut items: Vec<_> = (0..ITEMS)
        .map(|i| {
            let item = zone.alloc().unwrap();
            write(item, i as u64);
            item
        })
        .collect();
    let peak = resident();
    assert!(peak - before >= ITEMS * 2048, "the spike was not resident");

    // One in a thousand survives, at random.
    let mut dice = Dice::new(1);
    let mut survivors = Vec::new();
    items.retain(|&item| {
        let survives = dice.below(1000) == 0;
        if survives {
            survivors.push((item, read(item)));
        }
        !survives
    });
    items.drain(..).for_each(|item| free(&zone, item));
    zone.drain();
    let slabs = survivors.len() * (64 << 10);
    assert!(
        zone.stats().bytes <= slabs,
        "slabs without a live item are still there"
    );
    assert!(
        resident() < before + slabs + (4 << 20),
        "pages without a live item are still there"
    );
    assert!(
        survivors.iter().all(|&(item, value)| read(item) == value),
        "a survivor was purged"
    );

    // What went comes back, zeroed or not, and is usable.
    let again: Vec<_> = (0..ITEMS).map(|_| zone.alloc().unwrap()).collect();
    again.iter().for_each(|&item| write(item, 5));
    assert!(
        survivors.iter().all(|&(item, value)| read(item) == value),
        "two owners"
    );
    again.into_iter().for_each(|item| free(&zone, item));
    survivors
        .into_iter()
        .for_each(|(item, _)| free(&zone, item));
    assert_balance(&zone);
    assert!(
        resident() < before + (4 << 20),
        "the spike left pages behind"
    );
    assert!(zone.stats().bytes_peak >= ITEMS * 2048);
}

#[test]
fn live_items_gather_low() {
    // Breaks when new items come from the emptiest slab instead of the fullest.
    let zone = builder(2048, 2048).bucket_items(1).build().unwrap();
    let mut items: Vec<_> = (0..320).map(|_| zone.alloc().unwrap()).collect();
    items.sort();
    // The fourth slab of 32 has one item free, all others have one live.
    let stays = |i: usize| {
        if i / 32 == 3 {
            i % 32 != 9
        } else {
            i.is_multiple_of(32)
        }
    };
    let (keep, go): (Vec<_>, Vec<_>) = (0..320).partition(|&i| stays(i));
    go.iter().for_each(|&i| free(&zone, items[i]));
    zone.drain();
    let item = zone.alloc().unwrap();
    assert_eq!(item, items[3 * 32 + 9]);
    free(&zone, item);
    keep.iter().for_each(|&i| free(&zone, items[i]));
    assert_balance(&zone);
}
