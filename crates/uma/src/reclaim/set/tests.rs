//! Drains whose pieces are smaller than the free memory of each zone.

use super::*;
use crate::ZoneBuilder;
use core::alloc::Layout;

/// One tick gives back 16 pages of the some 500 that each test leaves free.
const PIECE: usize = 64 << 10;
const FREE_BYTES: usize = 2 << 20;
const ITEM: usize = 2048;

fn zone(name: &'static str) -> RawZone {
    let layout = Layout::from_size_align(ITEM, ITEM).unwrap();
    ZoneBuilder::new(name, layout).build().unwrap()
}

/// A set in the middle of a long window, in which no measurement restores the turn of a zone that lost it.
fn in_a_window(zones: &[&RawZone]) -> ReclaimSet {
    let mut set = ReclaimSet::new(Duration::from_millis(1)).window(Duration::from_secs(3600));
    set.set_piece_bytes(PIECE);
    zones.iter().for_each(|zone| set.watch(zone));
    let _ = set.tick(Time::ZERO);
    zones.iter().for_each(|zone| leave_free(zone));
    set
}

fn leave_free(zone: &RawZone) {
    let items: Vec<_> = (0..FREE_BYTES / ITEM)
        .map(|_| zone.alloc().unwrap())
        .collect();
    for item in items {
        // SAFETY: from this zone, and not used any more.
        unsafe { zone.free(item) };
    }
}

/// Gives all back in pieces; the pages of each tick.
fn drain(set: &mut ReclaimSet) -> Vec<usize> {
    let mut now = Time::from_secs(1);
    set.drain_in_pieces(now);
    let mut pages = Vec::new();
    while set.has_more() {
        let tick = set.tick(now);
        pages.push(tick.purged.pages);
        assert!(pages.len() < 1000, "no end: {pages:?}");
        now = tick.next;
    }
    assert!(now <= set.window_ends);
    pages
}

#[test]
#[cfg_attr(miri, ignore = "gives pages back")]
fn a_zone_that_finds_the_piece_used_up_keeps_its_turn() {
    // Breaks when a zone that finds the tick's piece used up counts as a zone without free memory.
    let zones = [zone("first"), zone("second"), zone("third")];
    let mut set = in_a_window(&[&zones[0], &zones[1], &zones[2]]);
    let pages = drain(&mut set);
    let left = zones.each_ref().map(|zone| zone.stats().bytes);
    assert_eq!(left, [0; 3], "{pages:?}");
    // Whole slabs go, with pages that were never touched, so that a tick may pass its bound.
    let most = pages.iter().max();
    assert!(most.is_some_and(|&pages| pages <= 64), "{pages:?}");
}

#[test]
#[cfg_attr(miri, ignore = "gives pages back")]
fn a_keg_is_given_back_whichever_of_its_zones_is_visited_first() {
    // Breaks when a zone without free memory ends the turn of another zone on the same keg.
    let master = zone("master");
    let second = master.secondary("second").build().unwrap();
    let mut set = in_a_window(&[&master, &second]);
    let pages = drain(&mut set);
    assert_eq!(master.stats().bytes, 0, "{pages:?}");
}

#[test]
#[cfg_attr(miri, ignore = "gives pages back")]
fn no_zone_has_the_piece_of_each_tick() {
    // Breaks when one large zone has all pieces, and the spare memory of the others stays until it is done.
    let zones = [zone("first"), zone("second")];
    let mut set = in_a_window(&[&zones[0], &zones[1]]);
    set.drain_in_pieces(Time::from_secs(1));
    let before = zones.each_ref().map(|zone| zone.stats().bytes);
    let mut now = Time::from_secs(1);
    for _ in 0..4 {
        now = set.tick(now).next;
    }
    let left = zones.each_ref().map(|zone| zone.stats().bytes);
    assert!(
        left[0] < before[0] && left[1] < before[1],
        "{before:?}, {left:?}"
    );
}
