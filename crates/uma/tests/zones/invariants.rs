//! The feature `invariants` must find each planted bug: breaks when a bug goes unseen, or its
//! report lacks the site that did it.

#![cfg(feature = "invariants")]

use crate::common::{assert_balance, builder, free, zone};
use core::ptr::NonNull;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use uma::{HookFailed, Hooks, RawZone, Warning};

/// The report of a planted bug.
fn message(bug: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(bug)).expect_err("the bug was not found");
    *panic.downcast::<String>().expect("a message with facts")
}

/// Writes a byte where the caller should not.
fn poke(item: NonNull<u8>, offset: usize, byte: u8) {
    // SAFETY: not sound by the zone's rules, which is the point; the memory is mapped.
    let at = unsafe { item.add(offset) };
    // SAFETY: as above.
    unsafe { at.write(byte) };
}

const FREE_A: u32 = line!() + 3;
fn free_a<H: Hooks>(zone: &RawZone<H>, item: NonNull<u8>) {
    // SAFETY: each test argues for its use.
    unsafe { zone.free(item) }
}

const FREE_B: u32 = line!() + 3;
fn free_b<H: Hooks>(zone: &RawZone<H>, item: NonNull<u8>) {
    // SAFETY: as above.
    unsafe { zone.free(item) }
}

const TAKE: u32 = line!() + 2;
fn take<H: Hooks>(zone: &RawZone<H>) -> NonNull<u8> {
    zone.alloc().unwrap()
}

fn names(text: &str, line: u32) -> bool {
    text.contains(&format!("invariants.rs:{line}:"))
}

/// Something to do, so that cached items belong to the hooks.
struct Init;

impl Hooks for Init {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        crate::common::write(item, 7);
        Ok(())
    }

    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        assert_eq!(crate::common::read(item), 7, "the data of init was trashed");
        Ok(())
    }
}

#[test]
fn a_write_after_free_is_found_in_a_cache() {
    // Breaks when the trash is not looked at when an item goes from free to alloc on one CPU.
    for (offset, byte) in [(0, 1), (7, 0), (100, 0), (255, 0xff)] {
        let zone = zone(256, 8);
        let item = take(&zone);
        free_a(&zone, item);
        poke(item, offset, byte);
        let text = message(|| {
            (0..100).for_each(|_| {
                take(&zone);
            })
        });
        assert!(text.contains("write after free"), "{text}");
        assert!(text.contains(&format!("{item:p} of zone 'test'")), "{text}");
        assert!(text.contains(&format!("at offset {offset} ")), "{text}");
        assert!(names(&text, FREE_A), "{text}");
    }
}

#[test]
fn a_write_after_free_is_found_in_a_slab() {
    // Breaks when an item whose cached contents belong to hooks is not trashed on its way into
    // the slab, or not looked at on its way out; or when a purged page hides the write.
    let zone = builder(256, 8).hooks(Init).build().unwrap();
    let items: Vec<_> = (0..100).map(|_| take(&zone)).collect();
    let victim = items[50];
    // A neighbour keeps the page.
    let kept = items[51];
    let others = items.into_iter().filter(|&item| item != kept);
    others.for_each(|item| free_a(&zone, item));
    zone.drain();
    poke(victim, 17, 1);
    let text = message(|| {
        (0..100).for_each(|_| {
            take(&zone);
        })
    });
    assert!(text.contains("write after free"), "{text}");
    assert!(
        text.contains("at offset 17 ") && names(&text, FREE_A),
        "{text}"
    );
}

#[test]
fn a_write_into_a_purged_page_is_found() {
    // Breaks when zeroes are taken for a new page wherever they are.
    let zone = zone(256, 8);
    let item = take(&zone);
    free_a(&zone, item);
    zone.drain();
    poke(item, 9, 1);
    let text = message(|| {
        (0..100).for_each(|_| {
            take(&zone);
        })
    });
    assert!(text.contains("at offset 9 "), "{text}");
}

#[test]
fn a_purged_and_reused_item_is_not_reported() {
    // Breaks when a page that came back, or the trash of a neighbour's, is taken for a write.
    for (size, align) in [
        (1, 1),
        (20, 4),
        (256, 256),
        (2048, 2048),
        (5000, 8),
        (9000, 4096),
    ] {
        let zone = zone(size, align);
        let mut items: Vec<_> = (0..200).map(|_| take(&zone)).collect();
        for round in 0..6 {
            let rest = items.split_off(100);
            rest.into_iter().for_each(|item| free(&zone, item));
            items.rotate_left(round * 13);
            zone.drain();
            items.extend((0..100).map(|_| take(&zone)));
            for &item in &items {
                // SAFETY: live items of this size, that this test owns.
                unsafe { item.write_bytes(round as u8, size) };
            }
        }
        items.into_iter().for_each(|item| free(&zone, item));
        assert_balance(&zone);
    }
}

#[test]
fn a_write_behind_an_item_is_found() {
    // Breaks when the redzone is not there, or not looked at when the item is freed.
    for (size, align, redzone) in [(20, 8, None), (500, 4, None), (2048, 2048, Some(1))] {
        let zone = builder(size, align).sample_every(1);
        let zone = match redzone {
            Some(bytes) => zone.redzone(bytes),
            None => zone,
        };
        let zone = zone.build().unwrap();
        // Some of these are samples, which have redzones too.
        for _ in 0..40 {
            let good = take(&zone);
            // SAFETY: the item is live and this long.
            unsafe { good.write_bytes(1, size) };
            let bad = take(&zone);
            poke(bad, size, 1);
            free(&zone, good);
            let text = message(|| free_b(&zone, bad));
            assert!(text.contains("overflow"), "{text}");
            assert!(text.contains(&format!("at offset {size}:")), "{text}");
            assert!(names(&text, TAKE) && names(&text, FREE_B), "{text}");
        }
    }
}

#[test]
fn a_double_free_is_found_however_late() {
    // Breaks when only the last item freed, or an item still in a cache, is recognised.
    let zone = zone(64, 8);
    let item = take(&zone);
    free_a(&zone, item);
    for _ in 0..5 {
        let items: Vec<_> = (0..5000).map(|_| zone.alloc().unwrap()).collect();
        items.into_iter().for_each(|item| free(&zone, item));
        zone.drain();
    }
    let late = crate::common::Item(item);
    let other = zone.clone();
    let elsewhere = thread::spawn(move || {
        let late = late;
        message(|| free_b(&other, late.0))
    });
    let text = elsewhere.join().expect("found");
    assert!(
        text.contains("double free") && names(&text, FREE_B),
        "{text}"
    );
    // In between it was freed elsewhere, last in the loop above.
    assert!(text.contains("before at"), "{text}");
    assert_balance(&zone);
}

#[test]
fn a_double_free_names_both_sites() {
    // Breaks when the report does not name the site of the first free.
    let zone = zone(64, 8);
    let (item, between) = (take(&zone), take(&zone));
    free_a(&zone, item);
    free(&zone, between);
    let text = message(|| free_b(&zone, item));
    assert!(names(&text, FREE_A) && names(&text, FREE_B), "{text}");
}

#[test]
fn a_free_into_the_wrong_zone_is_found() {
    // Breaks when two zones on the same slabs take each other's items, past the right hooks.
    let master = zone(64, 8);
    let second = master.secondary("second").build().unwrap();
    let item = take(&second);
    let text = message(|| free_b(&master, item));
    assert!(
        text.contains("foreign free") && text.contains("'second'"),
        "{text}"
    );
    assert!(names(&text, TAKE) && names(&text, FREE_B), "{text}");
}

#[test]
fn a_leak_is_named_by_site() {
    // Breaks when items that are live at the end of the last handle are not listed by call site.
    let heard = Arc::new(Mutex::new(Vec::<Warning>::new()));
    let ear = heard.clone();
    let zone = builder(64, 8)
        .warn(move |warning| ear.lock().unwrap().push(warning.clone()))
        .build()
        .unwrap();
    let back = zone.as_ref_ptr();
    let mut items: Vec<_> = (0..3).map(|_| take(&zone)).collect();
    items.push(zone.alloc().unwrap());
    drop(zone);
    let warnings = heard.lock().unwrap();
    let census = &warnings[0].census;
    assert!(census.exact);
    let held: Vec<_> = census
        .holders
        .iter()
        .map(|h| (h.site.line(), h.items))
        .collect();
    assert_eq!(held.len(), 2);
    assert_eq!(held[0], (TAKE, 3));
    assert_eq!((held[1].1, census.unaccounted), (1, 0));
    // SAFETY: they are live, of this zone, and different.
    unsafe { back.free_bulk(&items) };
}

#[test]
fn a_redzone_without_end_is_refused() {
    // Breaks when the item's size and its redzone together wrap around, and two items share memory.
    for redzone in [usize::MAX - 62, usize::MAX, uma::ITEM_BYTES_MAX] {
        let built = builder(64, 8).redzone(redzone).build();
        assert_eq!(built.err(), Some(uma::ZoneError::TooBig), "{redzone}");
    }
}
