//! Figure 7 of seed 004: memory after a spike.
//!
//! One thread allocates items and writes to each; another frees them in random order, but for some per cent that stay.
//! From then on both allocate and free one item a millisecond, as a quiet network would, since some allocators give
//! memory back only when they are called; a design that gives memory back on a call gets that call every 50 ms; a
//! design with its own reclaim runs it all the time. Memory is read at some moments, and reported as the difference to
//! its value before the spike.

use crate::alloc::catalog::PurgedBy;
use crate::alloc::child::Job;
use crate::alloc::design::{Design, mark};
use crate::harness::memory::Memory;
use crate::harness::sys;
use kern::random::Random;
use serde::{Deserialize, Serialize};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// When memory is read, in seconds after the last item was freed.
pub(crate) const MOMENTS_S: [f64; 8] = [0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0];
/// The interval of the calls for designs that give memory back on a call.
const TICK: Duration = Duration::from_millis(50);

/// Memory at a moment, in bytes more than before the spike.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    /// Seconds after the last item was freed.
    pub(crate) at_s: f64,
    /// Resident.
    pub(crate) rss: i64,
    /// Of that, given up and not yet taken by the system.
    pub(crate) lazy: i64,
    /// The loss of the system's free memory.
    pub(crate) available: Option<i64>,
    /// The growth of the control group.
    pub(crate) cgroup: Option<i64>,
}

/// The items to allocate, and the order of their frees.
struct Stock<D: Design> {
    slots: Vec<Option<D::Item>>,
    order: Vec<u32>,
    survivors: usize,
}

impl<D: Design> Stock<D> {
    /// Room for the items, touched, so that it counts as memory before the spike.
    fn new(job: &Job) -> Self {
        let items = (job.megabytes << 20) / job.size;
        let mut order: Vec<u32> = (0..items as u32).collect();
        let mut random = Random::from_seed(7);
        for last in (1..items).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        Self {
            slots: (0..items).map(|_| None).collect(),
            order,
            survivors: (items as f64 * job.survivors_percent / 100.0) as usize,
        }
    }

    fn allocate(&mut self, design: &D) {
        for slot in &mut self.slots {
            let mut item = design.alloc();
            mark(D::bytes(&mut item), 1);
            *slot = Some(item);
        }
    }

    fn free(&mut self, design: &D, from: usize) {
        for &at in &self.order[from..] {
            if let Some(item) = self.slots[at as usize].take() {
                // SAFETY: it came from this design, in `allocate`.
                unsafe { design.free(item) };
            }
        }
    }
}

/// Runs a spike, and follows memory after it.
pub(crate) fn run<D: Design>(design: &D, job: &Job) -> Vec<Sample> {
    let _attendant = (job.purge == PurgedBy::Attended).then(|| design.attend());
    let stock = Stock::<D>::new(job);
    let before = Memory::now();
    let over = &AtomicBool::new(false);
    let (hand_over, taken_over) = mpsc::channel();
    let (freed, is_freed) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || allocate(design, job.cpus.0, stock, &hand_over, over));
        scope.spawn(move || free(design, job.cpus.1, &taken_over, &freed, over));
        let follow = scope.spawn(move || {
            let freed_at = is_freed.recv().unwrap_or_else(|_| Instant::now());
            let samples = follow(&before, freed_at, job, || design.reclaim());
            // Relaxed: only a request to stop.
            over.store(true, Ordering::Relaxed);
            samples
        });
        follow.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn allocate<D: Design>(
    design: &D,
    cpu: usize,
    mut stock: Stock<D>,
    to: &Sender<Stock<D>>,
    over: &AtomicBool,
) {
    let _ = sys::pin(&[cpu]);
    design.enter();
    stock.allocate(design);
    // If the other thread has ended, the experiment has failed.
    let _ = to.send(stock);
    trickle(design, over);
    design.leave();
}

fn free<D: Design>(
    design: &D,
    cpu: usize,
    from: &Receiver<Stock<D>>,
    to: &Sender<Instant>,
    over: &AtomicBool,
) {
    let _ = sys::pin(&[cpu]);
    design.enter();
    if let Ok(mut stock) = from.recv() {
        stock.free(design, stock.survivors);
        let _ = to.send(Instant::now());
        trickle(design, over);
        stock.free(design, 0);
    }
    design.leave();
}

/// Hardly any traffic.
fn trickle<D: Design>(design: &D, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        design.pairs(1);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reads memory at the moments, and between them tells the design to give some back.
fn follow(before: &Memory, freed_at: Instant, job: &Job, reclaim: impl Fn()) -> Vec<Sample> {
    let mut next_tick = TICK / 2;
    let moments = MOMENTS_S.iter().filter(|at| **at <= job.seconds);
    moments
        .map(|&at_s| {
            let at = Duration::from_secs_f64(at_s);
            while next_tick < at {
                sleep_until(freed_at + next_tick);
                if job.purge == PurgedBy::Told {
                    reclaim();
                }
                next_tick += TICK;
            }
            sleep_until(freed_at + at);
            sample(before, at_s)
        })
        .collect()
}

fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn sample(before: &Memory, at_s: f64) -> Sample {
    let now = Memory::now();
    let more = |now: u64, before: u64| now as i64 - before as i64;
    Sample {
        at_s,
        rss: more(now.rss, before.rss),
        lazy: more(now.lazy, before.lazy),
        available: now
            .available
            .zip(before.available)
            .map(|(now, before)| more(before, now)),
        cgroup: now
            .cgroup
            .zip(before.cgroup)
            .map(|(now, before)| more(now, before)),
    }
}
