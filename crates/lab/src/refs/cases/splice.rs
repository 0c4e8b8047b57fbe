//! Shaped like a splice: one CPU fills clusters and sends views of them to another, which reads and releases them,
//! while the first keeps its own for a while, as a send buffer does until the data is acknowledged.
//!
//! ```text
//!   near   fresh, filled -> share ------> ring of 4096, 16 at a time ------> far   read, release
//!              '-> kept for 64 more, released
//! ```
//!
//! The batch of views is small: if both threads keep up, the kept views outlive the sent ones, as in a send buffer; if
//! the far thread is behind, its views outlive them and it frees. Timed from the first fill to the last release.
//! Source: seed 000, whose test is socket splicing.

use crate::harness::pinned::{self, Meeting, Span};
use crate::harness::ring::{Consumer, Producer, Ring};
use crate::harness::rounds::Took;
use crate::refs::design::{Design, Shape, first_word};
use std::collections::VecDeque;

/// Views that change hands at once.
const BATCH: usize = 16;
/// How many more views are sent before the kept view of one is released.
const KEPT: usize = 64;

/// Sends `n` clusters, rounded up to batches, from one CPU to the other.
pub(crate) fn run<D: Design>(design: &D, cpus: (usize, usize), shape: Shape, n: u64) -> Took {
    let batches = n.div_ceil(BATCH as u64);
    let mut ring = Ring::new();
    let (mut producer, mut consumer) = ring.ends();
    let meeting = &Meeting::of(2);
    let near: Work<'_> = Box::new(|| {
        Span::of(meeting, || {
            send(design, &mut producer, shape, batches);
        })
    });
    let far: Work<'_> = Box::new(|| {
        Span::of(meeting, || {
            receive(design, &mut consumer, batches);
        })
    });
    Span::together(&pinned::all([(cpus.0, near), (cpus.1, far)]))
}

/// The work of one side.
type Work<'a> = Box<dyn FnOnce() -> Span + Send + 'a>;

fn send<D: Design>(design: &D, to: &mut Producer<'_, D::View, BATCH>, shape: Shape, batches: u64) {
    let mut payload = vec![1; shape.bytes()];
    let mut kept = VecDeque::with_capacity(KEPT + 1);
    for batch in 0..batches {
        payload[..8].copy_from_slice(&batch.to_ne_bytes());
        to.put_batch(|| {
            let mut view = design.fresh(&payload);
            // SAFETY: it came from this design.
            let share = unsafe { design.share(&mut view) };
            kept.push_back(view);
            if kept.len() > KEPT
                && let Some(view) = kept.pop_front()
            {
                // SAFETY: as above.
                unsafe { design.release(view) };
            }
            share
        });
    }
    for view in kept {
        // SAFETY: as above.
        unsafe { design.release(view) };
    }
}

fn receive<D: Design>(design: &D, from: &mut Consumer<'_, D::View, BATCH>, batches: u64) {
    let mut taken = 0;
    let mut sum = 0u64;
    while taken < batches * BATCH as u64 {
        from.take_batch(|view| {
            sum = sum.wrapping_add(first_word::<D>(&view));
            taken += 1;
            // SAFETY: it came from this design, by way of the ring.
            unsafe { design.release(view) };
        });
    }
    assert_eq!(
        sum,
        sum_of(batches),
        "the far side did not see the near side's writes"
    );
}

/// The sum that must have been read: each batch's number, once a view.
fn sum_of(batches: u64) -> u64 {
    (0..batches).fold(0, |sum, batch| {
        sum.wrapping_add(batch.wrapping_mul(BATCH as u64))
    })
}
