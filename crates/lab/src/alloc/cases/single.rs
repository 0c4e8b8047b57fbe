//! One pinned thread: pairs, and batches of 64.
//!
//! Called by: `subject.rs`. Calls: the design's loops. A thread of its own, so that the design's per-thread state is
//! set up and taken down as in a program. The clock is the thread's own: it counts what the thread ran, not what other
//! programs ran meanwhile on its CPU.

use crate::alloc::design::Design;
use crate::harness::rounds::Took;
use crate::harness::sys;
use std::panic::resume_unwind;
use std::thread;

/// Runs `work` on a thread that is pinned to `cpu`, and says how long it took.
pub(crate) fn timed<D: Design>(design: &D, cpu: usize, work: impl FnOnce(&D) + Send) -> Took {
    let run = || {
        let _ = sys::pin(&[cpu]);
        design.enter();
        let start = sys::thread_time();
        work(design);
        let elapsed = sys::thread_time() - start;
        design.leave();
        Took {
            time: elapsed,
            lost: 0.0,
        }
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| resume_unwind(panic))
}
