//! One pinned thread: pairs, batches of 64, and the control with as many
//! items live as 32 threads have.
//!
//! The clock is the thread's own: it counts the thread's CPU time, not that of other programs on its CPU.

use crate::alloc::design::Design;
use crate::harness::rounds::Took;
use crate::harness::{pinned, sys};

/// Runs `work` on a thread that is pinned to `cpu`. Returns its time.
pub(crate) fn timed<D: Design>(design: &D, cpu: usize, work: impl FnOnce(&D) + Send) -> Took {
    pinned::run(cpu, || {
        design.enter();
        let start = sys::thread_time();
        work(design);
        let elapsed = sys::thread_time() - start;
        design.leave();
        Took {
            time: elapsed,
            lost: 0.0,
        }
    })
}
