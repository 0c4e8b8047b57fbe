//! Typed zones: breaks when a value is not dropped exactly once, or its zone goes before it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use uma::{AllocError, RawZone, Zone, ZoneError};

struct Witness(Arc<AtomicUsize>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn values_are_dropped_once() {
    // Breaks when a box forgets its value, drops it twice, or loses it when the zone is full.
    let drops = Arc::new(AtomicUsize::new(0));
    let zone = Zone::build(Zone::<Witness>::builder("witness").limit(2)).unwrap();
    let a = zone.alloc(Witness(drops.clone())).unwrap();
    let b = zone.alloc(Witness(drops.clone())).unwrap();
    let refused = zone.alloc(Witness(drops.clone()));
    assert!(matches!(refused, Err(AllocError::Limit)));
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    drop(a);
    std::thread::spawn(move || drop(b)).join().unwrap();
    assert_eq!(drops.load(Ordering::Relaxed), 3);
    crate::common::assert_balance(zone.raw());
}

#[test]
fn a_value_that_panics_in_drop_frees_its_item() {
    // Breaks when unwinding out of a value's drop leaves its item live.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("as planned");
        }
    }
    let zone = Zone::<Bomb>::new("bomb").unwrap();
    let bomb = zone.alloc(Bomb).unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(bomb)));
    assert!(result.is_err());
    crate::common::assert_balance(zone.raw());
}

#[test]
fn a_box_keeps_its_zone() {
    // Breaks when the memory of a box goes with the last handle that its maker had.
    let zone = Zone::<[u64; 100]>::new("numbers").unwrap();
    let mut numbers = zone.alloc([3; 100]).unwrap();
    drop(zone);
    numbers[99] = 4;
    assert_eq!(numbers.iter().sum::<u64>(), 301);
}

#[test]
fn types_of_any_size_and_alignment_fit() {
    // Breaks when zero-sized or strictly aligned types get an item that does not suit them.
    #[derive(Debug)]
    #[repr(align(4096))]
    struct Page(u8);
    let (units, pages) = (
        Zone::<()>::new("unit").unwrap(),
        Zone::<Page>::new("page").unwrap(),
    );
    let kept: Vec<_> = (0..100)
        .map(|i| (units.alloc(()), pages.alloc(Page(i))))
        .collect();
    for (i, (unit, page)) in kept.iter().enumerate() {
        assert!(unit.is_ok());
        let page = page.as_ref().unwrap();
        assert_eq!(usize::from(page.0), i);
        assert_eq!((&raw const **page).addr() % 4096, 0);
    }
    drop(kept);
    crate::common::assert_balance(units.raw());
    crate::common::assert_balance(pages.raw());
}

#[test]
fn zones_of_impossible_layouts_are_refused() {
    // Breaks when a zone is made whose first allocation would have to fail or misalign.
    let build = |size, align| RawZone::builder("odd", crate::common::layout(size, align)).build();
    assert_eq!(build(2 << 20, 8).unwrap_err(), ZoneError::TooBig);
    assert_eq!(build(8, 128 << 10).unwrap_err(), ZoneError::Align);
}

#[test]
fn a_small_reservation_holds_what_it_can() {
    // Breaks when a reservation below one slab, or no multiple of one, is refused or overrun.
    for reserve in [0, 1, 64 << 10, 200_000] {
        let zone = crate::common::builder(2048, 2048)
            .reserve_bytes(reserve)
            .build()
            .unwrap();
        let mut items = Vec::new();
        let error = loop {
            match zone.alloc() {
                Ok(item) => items.push(item),
                Err(error) => break error,
            }
        };
        assert_eq!(error, AllocError::NoMemory);
        assert_eq!(items.len(), (reserve >> 16).max(1) * 32);
        items
            .into_iter()
            .for_each(|item| crate::common::free(&zone, item));
        crate::common::assert_balance(&zone);
    }
}
