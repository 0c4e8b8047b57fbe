//! A keg that closes and opens: allocations and sleepers find every free item, without spinning.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use uma::{AllocError, Import, Imported, RawZone};

#[test]
fn a_sleeper_gets_what_another_zone_caches() {
    // Breaks if a keg that a sleeper has just closed opens before the sleeper is counted: it would
    // close it again, for ever.
    let layout = Layout::new::<u64>();
    let zone = RawZone::builder("waits", layout).limit(8).build().unwrap();
    let second = zone.secondary("caches").build().unwrap();
    let items: Vec<_> = (0..8).map(|_| second.alloc().unwrap()).collect();
    for item in items {
        // SAFETY: from this zone, and not used any more.
        unsafe { second.free(item) };
    }
    let timeout = Some(Duration::from_secs(10));
    let items: Vec<_> = (0..8).map(|_| zone.alloc_wait(timeout).unwrap()).collect();
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    for item in items {
        // SAFETY: as above.
        unsafe { zone.free(item) };
    }
}

/// A store without items, which counts its calls.
struct Nothing(Arc<AtomicUsize>);

impl Import for Nothing {
    fn import(&self, _: &mut Imported<'_>) {
        self.0.fetch_add(1, Relaxed);
    }

    // SAFETY: nothing was imported, so this is not called.
    unsafe fn release(&self, _: &[NonNull<u8>]) {}
}

#[test]
fn an_empty_store_is_not_asked_again_and_again() {
    // Breaks if a keg opens for items that its store has just refused: the allocation that closed
    // it would try for a tenth of a second before it fails.
    let asked = Arc::new(AtomicUsize::new(0));
    let store = Nothing(asked.clone());
    let builder = RawZone::builder("empty", Layout::new::<u64>());
    let zone = builder.build_cache_only(store).unwrap();
    assert_eq!(zone.alloc(), Err(AllocError::NoMemory));
    assert!(
        asked.load(Relaxed) <= 4,
        "asked {} times",
        asked.load(Relaxed)
    );
}
