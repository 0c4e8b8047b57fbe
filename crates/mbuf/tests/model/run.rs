//! Runs sequences by their seeds: for some time, a number of them, or one again.
//!
//! Pools are used again, one a thread and limits: making one takes longer than a sequence. All
//! items of a sequence are freed at its end, so the pool's history must not change a result; a test
//! runs sequences twice to check that.
//!
//! A failing sequence prints its seed at once, before any drop: the free of a broken list may end
//! the process. So a failed sequence's items are never freed. Then the runner removes operations as
//! long as the rest still fails, and prints the rest.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use mbuf::MbufPool;

use crate::common::pool_of;
use crate::crash::tell_seed;
use crate::ops::{Limits, Op, sequence};
use crate::world::{Failed, World};

/// How many sequences to run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Elapsed(Duration),
    Count(u64),
}

/// The counts of a run.
#[derive(Debug, Default)]
struct Totals {
    sequences: AtomicU64,
    steps: AtomicU64,
    /// Operations that found no buffers.
    failed: AtomicU64,
}

/// The current step of a thread, for the panic hook.
#[derive(Clone, Copy)]
struct Now {
    seed: Option<u64>,
    step: usize,
    quiet: bool,
}

thread_local! {
    static NOW: Cell<Now> = const { Cell::new(Now { seed: None, step: 0, quiet: false }) };
}

thread_local! {
    static POOLS: RefCell<HashMap<Limits, MbufPool>> = RefCell::default();
}

/// A pool in which nothing is live; no other test has it until it is given back.
fn take_pool(limits: Limits) -> MbufPool {
    let used = POOLS.with_borrow_mut(|pools| pools.remove(&limits));
    used.unwrap_or_else(|| pool_of(limits.mbufs_max, limits.cluster_bytes_max))
}

fn give_back(limits: Limits, pool: MbufPool) {
    POOLS.with_borrow_mut(|pools| pools.insert(limits, pool));
}

/// The sequence that this thread is in.
pub(crate) fn running() -> Option<u64> {
    NOW.get().seed
}

/// The command that replays a sequence.
pub(crate) fn how_to_replay(seed: u64) -> String {
    format!("MBUF_MODEL_SEED={seed} cargo test -p mbuma-mbuf --test model -- --nocapture")
}

/// Makes every panic, and every signal that ends the process, print the sequence in which it happened.
fn hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tell_seed();
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let now = NOW.get();
            if now.quiet {
                return;
            }
            if let Some(seed) = now.seed {
                let (step, how) = (now.step, how_to_replay(seed));
                eprintln!("sequence {seed}, step {step}; to replay it: {how}");
            }
            usual(info);
        }));
    });
}

/// Receives the steps of a sequence: each operation before it is done, then its outcome.
pub(crate) trait Trace {
    fn line(&mut self, line: fmt::Arguments<'_>);
}

/// Drops it, and makes no text.
impl Trace for () {
    fn line(&mut self, _: fmt::Arguments<'_>) {}
}

impl Trace for String {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        writeln!(self, "{line}").expect("strings take all");
    }
}

/// Prints it, in a replay.
pub(crate) struct Shown;

impl Trace for Shown {
    fn line(&mut self, line: fmt::Arguments<'_>) {
        println!("{line}");
    }
}

/// Runs one sequence; how many of its operations found no buffers, or the panic that it ended with.
pub(crate) fn play(limits: Limits, ops: &[Op], trace: &mut dyn Trace) -> thread::Result<usize> {
    let pool = ManuallyDrop::new(take_pool(limits));
    let mut world = ManuallyDrop::new(World::new(&pool, limits));
    let failed = panic::catch_unwind(AssertUnwindSafe(|| {
        let mut failed = 0;
        for (step, op) in ops.iter().enumerate() {
            NOW.set(Now { step, ..NOW.get() });
            trace.line(format_args!("{step}: {op:?}"));
            let done = world.step(op);
            trace.line(format_args!("   {done:?}:{}", *world));
            failed += usize::from(matches!(done, Err(Failed::Unchanged | Failed::Changed)));
            world.check();
        }
        failed
    }))?;
    let world = ManuallyDrop::into_inner(world);
    panic::catch_unwind(AssertUnwindSafe(|| world.end()))?;
    give_back(limits, ManuallyDrop::into_inner(pool));
    Ok(failed)
}

/// The same without the operations that it fails without.
fn shrink(limits: Limits, mut ops: Vec<Op>) -> Vec<Op> {
    NOW.set(Now {
        quiet: true,
        ..NOW.get()
    });
    for size in [16, 8, 4, 2, 1, 1] {
        let mut end = ops.len();
        while end > 0 {
            let begin = end.saturating_sub(size);
            let fewer = [&ops[..begin], &ops[end..]].concat();
            if play(limits, &fewer, &mut ()).is_err() {
                ops = fewer;
            }
            end = begin;
        }
    }
    NOW.set(Now {
        quiet: false,
        ..NOW.get()
    });
    ops
}

/// Runs the sequence of a seed.
///
/// # Panics
/// If it fails; with its operations, or those of a shorter one that fails too.
pub(crate) fn one(seed: u64, trace: &mut dyn Trace) -> (usize, usize) {
    hook();
    NOW.set(Now {
        seed: Some(seed),
        step: 0,
        quiet: false,
    });
    let (limits, ops) = sequence(seed);
    let failed = play(limits, &ops, trace).unwrap_or_else(|_| {
        let short = shrink(limits, ops.clone());
        let mut shown = format!(
            "with {limits:?}, {} of {} steps fail:\n",
            short.len(),
            ops.len()
        );
        for op in short {
            writeln!(shown, "  {op:?}").expect("strings take all");
        }
        panic!(
            "sequence {seed} failed.\n{shown}To replay it: {}",
            how_to_replay(seed)
        );
    });
    NOW.set(Now {
        seed: None,
        step: 0,
        quiet: false,
    });
    (ops.len(), failed)
}

/// Runs the sequences from `first` on, on both CPUs.
///
/// # Panics
/// As [`one`] does.
pub(crate) fn many(first: u64, until: Until, threads: usize) {
    let (totals, begun, stop) = (Totals::default(), Instant::now(), AtomicBool::new(false));
    let next = AtomicU64::new(0);
    let work = || {
        while !stop.load(Relaxed) {
            let n = next.fetch_add(1, Relaxed);
            let enough = match until {
                Until::Count(count) => n >= count,
                Until::Elapsed(time) => begun.elapsed() >= time,
            };
            if enough {
                break;
            }
            let seed = first.wrapping_add(n);
            let ran = panic::catch_unwind(|| one(seed, &mut ()));
            let (steps, failed) = ran.unwrap_or_else(|panic| {
                // The other thread need not go on.
                stop.store(true, Relaxed);
                panic::resume_unwind(panic)
            });
            totals.steps.fetch_add(steps as u64, Relaxed);
            totals.failed.fetch_add(failed as u64, Relaxed);
            let done = totals.sequences.fetch_add(1, Relaxed) + 1;
            if matches!(until, Until::Count(_)) && done.is_multiple_of(100_000) {
                say(&format!("{done} sequences in {:.1?}", begun.elapsed()));
            }
        }
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in running {
            if let Err(panic) = thread.join() {
                panic::resume_unwind(panic);
            }
        }
    });
    let (sequences, seconds) = (
        totals.sequences.load(Relaxed),
        begun.elapsed().as_secs_f64(),
    );
    say(&format!(
        "{sequences} sequences from seed {first} on, {} steps, of which {} found no buffers, in \
         {seconds:.1} s: {:.0} sequences/s",
        totals.steps.load(Relaxed),
        totals.failed.load(Relaxed),
        sequences as f64 / seconds,
    ));
}

/// Writes to the terminal, also where tests are captured.
fn say(line: &str) {
    // Without a terminal there is no failure.
    let _ = writeln!(io::stderr(), "model: {line}");
}
