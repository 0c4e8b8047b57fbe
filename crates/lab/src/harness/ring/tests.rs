//! Tests of the ring.

use super::*;

#[test]
fn all_items_come_out_once_and_in_order() {
    // Breaks when a batch is lost, doubled or seen before it was written.
    let mut ring = Ring::<_, RING_BATCH>::new();
    let (mut producer, mut consumer) = ring.ends();
    let batches = 200;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = 0u64;
            for _ in 0..batches {
                producer.put_batch(|| {
                    next += 1;
                    Box::new(next)
                });
            }
        });
        let mut seen = 0u64;
        while seen < (batches * RING_BATCH) as u64 {
            consumer.take_batch(|item| {
                seen += 1;
                assert_eq!(*item, seen);
            });
        }
    });
}

#[test]
fn a_dropped_ring_drops_its_items() {
    // Breaks when the ring leaks its items.
    let counted = std::sync::Arc::new(());
    let mut ring = Ring::<_, RING_BATCH>::new();
    ring.ends().0.put_batch(|| counted.clone());
    drop(ring);
    assert_eq!(std::sync::Arc::strong_count(&counted), 1);
}
