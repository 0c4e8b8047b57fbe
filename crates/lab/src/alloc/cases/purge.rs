//! The cost to other threads of giving a spike's memory back to the system, and the time of a page.
//!
//! One thread allocates and frees without end on one CPU and records the time after each number of pairs. On the other
//! CPU the spike is allocated, freed, left alone for a while, and purged: in one call, or by the design's own reclaim,
//! which is started then. The first thread's throughput during the purge, against that before: the dip.

use crate::alloc::catalog::PurgedBy;
use crate::alloc::child::Job;
use crate::alloc::design::{Design, mark};
use crate::harness::memory::{self, Memory};
use crate::harness::rounds::Took;
use crate::harness::sys;
use serde::{Deserialize, Serialize};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The results of a purge.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Purge {
    /// The loss of the other thread's rate meanwhile, in per cent of its rate before.
    pub(crate) dip_percent: f64,
    /// Nanoseconds for each page that was given back.
    pub(crate) ns_per_page: f64,
    /// Pages that went.
    pub(crate) pages: u64,
    /// Another program had the loop's CPU for long meanwhile.
    pub(crate) disturbed: bool,
}

/// The times at which the pair loop had done another [`CHUNK`].
type Diary = Vec<Instant>;
/// Pairs between two notes: about 20 us.
const CHUNK: u64 = 4096;
/// The largest number of notes; the loop ends when they are used up.
const NOTES_MAX: usize = 1 << 20;
/// How long the loop runs undisturbed by the purge, before it, at most.
const BEFORE: Duration = Duration::from_millis(250);

/// A purge: its begin and end, and the pages that went.
struct Purged {
    /// The idle time before that.
    quiet: Duration,
    begin: Instant,
    end: Instant,
    /// The part of that time that the CPU spent on it.
    busy: Duration,
    bytes: u64,
    disturbed: bool,
}

/// Runs a spike beside a loop, and purges it.
pub(crate) fn run<D: Design>(design: &D, job: &Job) -> Purge {
    let over = &AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let looping = scope.spawn(move || pairs(design, job.cpus.0, &tell, over));
        let purging = scope.spawn(move || {
            let looping = told.recv().unwrap_or_default();
            let purged = purge(design, job, looping);
            // Relaxed: only a request to stop.
            over.store(true, Ordering::Relaxed);
            purged
        });
        let purged = purging.join().unwrap_or_else(|panic| resume_unwind(panic));
        let diary = looping.join().unwrap_or_else(|panic| resume_unwind(panic));
        evaluate(&diary, &purged)
    })
}

fn pairs<D: Design>(design: &D, cpu: usize, tell: &Sender<i32>, over: &AtomicBool) -> Diary {
    let _ = sys::pin(&[cpu]);
    design.enter();
    // The other thread checks it soon, or has ended.
    let _ = tell.send(sys::thread_id());
    let mut diary = Vec::with_capacity(NOTES_MAX);
    while !over.load(Ordering::Relaxed) && diary.len() < NOTES_MAX {
        design.pairs(CHUNK);
        diary.push(Instant::now());
    }
    design.leave();
    diary
}

fn purge<D: Design>(design: &D, job: &Job, looping: i32) -> Purged {
    let _ = sys::pin(&[job.cpus.1]);
    design.enter();
    let items = (job.megabytes << 20) / job.size;
    let mut spike = Vec::with_capacity(items);
    for _ in 0..items {
        let mut item = design.alloc();
        mark(D::bytes(&mut item), 1);
        spike.push(item);
    }
    for item in spike {
        // SAFETY: it came from this design, in the loop above.
        unsafe { design.free(item) };
    }
    let quiet = BEFORE.min(Duration::from_secs_f64(job.seconds) / 4);
    thread::sleep(quiet);
    let full = Memory::now();
    let waited = sys::waited(looping);
    thread::sleep(quiet);
    let begin = Instant::now();
    let (end, busy) = match job.purge {
        PurgedBy::Attended => wait(design, quiet),
        _ => at_once(design),
    };
    let waited = sys::waited(looping) - waited;
    let bytes = full.rss.saturating_sub(Memory::now().rss);
    design.leave();
    Purged {
        quiet,
        begin,
        end,
        busy,
        bytes,
        disturbed: Took::with_wait(end - begin + quiet, waited).is_disturbed(),
    }
}

fn at_once<D: Design>(design: &D) -> (Instant, Duration) {
    let begin = Instant::now();
    design.reclaim();
    let end = Instant::now();
    (end, end - begin)
}

/// Lets the design's own reclaim do it, until memory has not fallen for a while.
fn wait<D: Design>(design: &D, quiet: Duration) -> (Instant, Duration) {
    let attendant = design.attend();
    let begin = Instant::now();
    let (mut least, mut end) = (memory::resident(), begin);
    while end.elapsed() < quiet * 2 && begin.elapsed() < quiet * 20 {
        thread::sleep(LOOK);
        let now = memory::resident();
        if now + LEAST < least {
            (least, end) = (now, Instant::now());
        }
    }
    (
        end.max(begin + LOOK),
        attendant.map_or(Duration::ZERO, |one| one.busy()),
    )
}

/// How often memory is looked at while it falls, and by how much it must.
const LOOK: Duration = Duration::from_millis(5);
const LEAST: u64 = 1 << 20;

fn evaluate(diary: &[Instant], purged: &Purged) -> Purge {
    let pages = purged.bytes / memory::PAGE;
    let before = rate(diary, purged.begin - purged.quiet, purged.begin);
    let during = rate(diary, purged.begin, purged.end);
    Purge {
        dip_percent: 100.0 * (1.0 - during / before),
        ns_per_page: purged.busy.as_nanos() as f64 / pages.max(1) as f64,
        pages,
        disturbed: purged.disturbed,
    }
}

/// Chunks a second from one moment to another; a chunk that is only partly within counts for that part.
fn rate(diary: &[Instant], from: Instant, to: Instant) -> f64 {
    let parts = diary.windows(2).map(|pair| {
        let within = pair[1].min(to).saturating_duration_since(pair[0].max(from));
        within.as_secs_f64() / (pair[1] - pair[0]).as_secs_f64().max(f64::MIN_POSITIVE)
    });
    parts.sum::<f64>() / (to - from).as_secs_f64()
}

#[cfg(test)]
mod tests;
