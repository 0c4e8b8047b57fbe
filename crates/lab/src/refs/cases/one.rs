//! One pinned thread: shares of storage that is shared already, and first shares.
//!
//! A cluster that was shared once may cost less from then on (a proxy has its record), so first shares are measured on
//! fresh clusters, [`WINDOW`] at a time: they are filled beforehand and dropped afterwards, off the clock.

use super::{pair, pairs};
use crate::harness::rounds::Took;
use crate::harness::{pinned, sys};
use crate::refs::design::{Design, Shape};
use std::hint;
use std::time::{Duration, Instant};

/// Clusters that are ready before the clock starts: half a megabyte.
const WINDOW: usize = 256;

/// `n` shares of the same view, of which there is another one meanwhile if `others`. The clock is the thread's own.
pub(crate) fn again<D: Design>(design: &D, cpu: usize, shape: Shape, others: bool, n: u64) -> Took {
    let from = vec![1; shape.bytes()];
    let time = pinned::run(cpu, || {
        let mut view = design.fresh(&from);
        // SAFETY: it came from this design.
        let other = others.then(|| unsafe { design.share(&mut view) });
        let start = sys::thread_time();
        // SAFETY: as above.
        unsafe { pairs(design, &mut view, n) };
        let time = sys::thread_time() - start;
        for view in other.into_iter().chain([view]) {
            // SAFETY: as above.
            unsafe { design.release(view) };
        }
        time
    });
    Took { time, lost: 0.0 }
}

/// `n` first shares, each released before the next is made.
pub(crate) fn first<D: Design>(design: &D, cpu: usize, shape: Shape, n: u64) -> Took {
    fresh_windows(design, cpu, shape, n, |views, _| {
        for view in views {
            // SAFETY: it came from this design.
            unsafe { pair(design, view) };
        }
    })
}

/// `n` first shares, released when a window of them is made, in the order in which they were.
pub(crate) fn window<D: Design>(design: &D, cpu: usize, shape: Shape, n: u64) -> Took {
    fresh_windows(design, cpu, shape, n, |views, shares| {
        for view in views {
            // SAFETY: it came from this design.
            shares.push(unsafe { design.share(view) });
        }
        for share in shares.drain(..) {
            // SAFETY: as above.
            unsafe { design.release(share) };
        }
    })
}

/// Does `work` on windows of fresh views, `n` altogether. Its second argument is empty, and has room for a window.
fn fresh_windows<D: Design>(
    design: &D,
    cpu: usize,
    shape: Shape,
    n: u64,
    work: impl Fn(&mut [D::View], &mut Vec<D::View>) + Sync,
) -> Took {
    let from = vec![1; shape.bytes()];
    pinned::run(cpu, || {
        let mut views = Vec::with_capacity(WINDOW);
        let mut shares = Vec::with_capacity(WINDOW);
        let mut time = Duration::ZERO;
        let (begin, waited) = (Instant::now(), sys::waited(sys::thread_id()));
        let mut left = n;
        while left > 0 {
            let now = left.min(WINDOW as u64);
            views.extend((0..now).map(|_| design.fresh(&from)));
            let start = Instant::now();
            work(hint::black_box(&mut views), &mut shares);
            time += start.elapsed();
            for view in views.drain(..) {
                // SAFETY: it came from this design.
                unsafe { design.release(view) };
            }
            left -= now;
        }
        let waited = sys::waited(sys::thread_id()) - waited;
        // The thread's waits fall into timed and untimed parts alike.
        let lost = Took::with_wait(begin.elapsed(), waited).lost;
        Took { time, lost }
    })
}
