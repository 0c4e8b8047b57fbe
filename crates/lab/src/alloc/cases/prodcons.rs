//! A producer on one CPU, a ring, a consumer on another: an item is allocated here and freed there.
//!
//! The producer writes 8 bytes to each item and the consumer reads them, so that a line of each item crosses too, as it
//! does in anything that hands data over. Timed from the producer's first item to the consumer's last; a run in which
//! one of them lost its CPU for long is disturbed, because the other one waited meanwhile.

use crate::alloc::design::{Design, mark, marked};
use crate::harness::ring::{RING_BATCH, Ring};
use crate::harness::rounds::Took;
use crate::harness::sys;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Sends `n` items, rounded up to batches of the ring, from one CPU to the other.
pub(crate) fn run<D: Design>(design: &D, cpus: (usize, usize), n: u64) -> Took {
    let batches = n.div_ceil(RING_BATCH as u64);
    let mut ring = Ring::<_, RING_BATCH>::new();
    let (mut producer, mut consumer) = ring.ends();
    let both_there = &Barrier::new(2);
    thread::scope(|scope| {
        let produce = scope.spawn(move || {
            let _ = sys::pin(&[cpus.0]);
            design.enter();
            both_there.wait();
            let waited = sys::waited(sys::thread_id());
            let start = Instant::now();
            for batch in 0..batches {
                producer.put_batch(|| {
                    let mut item = design.alloc();
                    mark(D::bytes(&mut item), batch);
                    item
                });
            }
            let waited = sys::waited(sys::thread_id()) - waited;
            both_there.wait();
            design.leave();
            (start, waited)
        });
        let consume = scope.spawn(move || {
            let _ = sys::pin(&[cpus.1]);
            design.enter();
            both_there.wait();
            let waited = sys::waited(sys::thread_id());
            let mut taken = 0;
            let mut sum = 0u64;
            while taken < batches * RING_BATCH as u64 {
                consumer.take_batch(|mut item| {
                    sum = sum.wrapping_add(marked(D::bytes(&mut item)));
                    taken += 1;
                    // SAFETY: it came from this design, by way of the ring.
                    unsafe { design.free(item) };
                });
            }
            let end = Instant::now();
            let waited = sys::waited(sys::thread_id()) - waited;
            both_there.wait();
            design.leave();
            assert_eq!(
                sum,
                sum_of(batches),
                "the consumer did not see the producer's writes"
            );
            (end, waited)
        });
        let (start, one) = produce.join().unwrap_or_else(|panic| resume_unwind(panic));
        let (end, other) = consume.join().unwrap_or_else(|panic| resume_unwind(panic));
        Took::with_wait(end.duration_since(start), one.max(other))
    })
}

/// The sum that the consumer must have read: each batch's number, once an item.
fn sum_of(batches: u64) -> u64 {
    (0..batches).fold(0, |sum, batch| {
        sum.wrapping_add(batch.wrapping_mul(RING_BATCH as u64))
    })
}
