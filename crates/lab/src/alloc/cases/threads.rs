//! Many threads on few CPUs: their speed, and the memory of the design that they keep.
//!
//! The threads take the time themselves, from the first start to the last end: a clock outside would begin when most
//! of the work is done, since on two CPUs some threads run to their end before others have begun. The CPUs' time is
//! our threads', or idle because our threads waited for each other, or other programs': much of the last disturbs the
//! run.

use crate::alloc::design::{BATCH, Design};
use crate::harness::rounds::Took;
use crate::harness::sys;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The run of a thread: its begin and end, and its CPU time.
struct Share {
    start: Instant,
    end: Instant,
    ran: Duration,
}

/// `n` items in batches, shared out over `threads` threads on `cpus`. The time is that of all CPUs together.
pub(crate) fn run<D: Design>(design: &D, cpus: &[usize], threads: usize, n: u64) -> Took {
    let share = n.div_ceil(threads as u64);
    let all_there = &Barrier::new(threads);
    let work = move || {
        let _ = sys::pin(cpus);
        design.enter();
        design.batches::<BATCH>(1);
        all_there.wait();
        let (start, had) = (Instant::now(), sys::thread_time());
        design.batches::<BATCH>(share);
        let (end, ran) = (Instant::now(), sys::thread_time() - had);
        // The frees at a thread's end are not part of this, and no thread ends early.
        all_there.wait();
        design.leave();
        Share { start, end, ran }
    };
    let idle = sys::idle_time(cpus);
    let shares: Vec<Share> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        running.into_iter().map(join).collect()
    });
    took(&shares, cpus.len(), sys::idle_time(cpus) - idle)
}

fn took(shares: &[Share], cpus: usize, idle: Duration) -> Took {
    let start = shares.iter().map(|share| share.start).min();
    let end = shares.iter().map(|share| share.end).max();
    let (Some(start), Some(end)) = (start, end) else {
        return Took::default();
    };
    let time = end.duration_since(start) * u32::try_from(cpus).unwrap_or(1);
    let ran: Duration = shares.iter().map(|share| share.ran).sum();
    let others = time.saturating_sub(ran).saturating_sub(idle);
    Took::with_wait(time, others.saturating_sub(IDLE_ERROR))
}

/// The error of the clock of idle time, for two CPUs at both ends.
const IDLE_ERROR: Duration = Duration::from_millis(40);
