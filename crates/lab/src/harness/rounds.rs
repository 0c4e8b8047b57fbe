//! Rounds over all contestants of a case, so that a disturbance of the machine affects all of them alike.
//!
//! Each contestant is first *calibrated*: it runs longer and longer until one run takes the time of a reading. Then it
//! is *warmed up*: it runs until two runs agree ([`warmup`]). Then each round gives each contestant a short run, which
//! brings its data back into the caches that the others used meanwhile, and a run that counts.

use super::progress::Progress;
use super::summary::Summary;
use super::warmup;
use super::xcore::{self, Mode};
use std::time::Duration;

/// Runs a number of operations. Returns their time.
pub(crate) type Run<'a> = Box<dyn FnMut(u64) -> Took + 'a>;

/// How long a run took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    /// By the clock of the case.
    pub(crate) time: Duration,
    /// The part of the run in which other programs used a CPU that the run needed.
    pub(crate) lost: f64,
}

impl Took {
    /// A run of this length, in which a thread that should have run throughout waited this long for its CPU.
    pub(crate) fn with_wait(time: Duration, waited: Duration) -> Self {
        let lost = waited.as_secs_f64() / time.as_secs_f64().max(f64::MIN_POSITIVE);
        Self { time, lost }
    }

    /// Whether it must be repeated.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.lost > LOST_MAX
    }
}

/// One of those that are compared.
pub(crate) struct Contestant<'a> {
    /// Its name.
    pub(crate) name: &'static str,
    /// Runs it.
    pub(crate) run: Run<'a>,
}

/// How a case is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The beginning of progress lines.
    pub(crate) title: String,
    /// Rounds.
    pub(crate) reps: usize,
    /// The length of one reading.
    pub(crate) reading: Duration,
    /// The CPUs that data crosses between, if it does: their latency is sampled before each reading.
    pub(crate) crosses: Option<(usize, usize)>,
}

/// One run that counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Nanoseconds of one operation.
    pub(crate) ns: f64,
    /// One-way latency between the CPUs right before.
    pub(crate) xcore_ns: Option<f64>,
    /// It was disturbed, and so were the other attempts at it.
    pub(crate) disturbed: bool,
}

impl Reading {
    /// A figure that was read once, of which is not known whether it was disturbed.
    pub(crate) fn once(ns: f64, xcore_ns: Option<f64>) -> Self {
        Self {
            ns,
            xcore_ns,
            disturbed: false,
        }
    }

    /// Whether data was moved: a rate or a time without data is not a reading.
    pub(crate) fn is_one(&self) -> bool {
        self.ns.is_finite() && self.ns > 0.0
    }
}

/// The readings of each contestant, in the order of the contestants.
pub(crate) fn interleave(
    contestants: &mut [Contestant<'_>],
    plan: &Plan,
    progress: &mut Progress,
) -> Vec<Vec<Reading>> {
    let mut ops = Vec::new();
    for contestant in &mut *contestants {
        progress.say(&format!("{}: warming up {}", plan.title, contestant.name));
        let one = calibrate(&mut contestant.run, plan.reading);
        warmup::settle(|| (contestant.run)(one).time.as_secs_f64());
        ops.push(one);
    }
    let mut readings = vec![Vec::with_capacity(plan.reps); contestants.len()];
    for round in 1..=plan.reps {
        for ((contestant, &ops), readings) in contestants.iter_mut().zip(&ops).zip(&mut readings) {
            progress.say(&format!(
                "{}: round {round} of {}, {}",
                plan.title, plan.reps, contestant.name
            ));
            readings.push(reading(&mut contestant.run, ops, plan));
        }
    }
    readings
}

/// One reading: the least disturbed of some attempts, and the first that is not disturbed ends them.
fn reading(run: &mut Run<'_>, ops: u64, plan: &Plan) -> Reading {
    let mut best: Option<(Took, Option<f64>)> = None;
    for _ in 0..ATTEMPTS_MAX {
        run(ops / 8 + 1);
        let xcore_ns = plan
            .crosses
            .map(|cpus| xcore::one_way_ns(cpus, plan.reading));
        let took = run(ops);
        if best.is_none_or(|(best, _)| took.lost < best.lost) {
            best = Some((took, xcore_ns));
        }
        if !took.is_disturbed() {
            break;
        }
    }
    let (took, xcore_ns) = best.unwrap_or_default();
    Reading {
        ns: took.time.as_nanos() as f64 / ops as f64,
        xcore_ns,
        disturbed: took.is_disturbed(),
    }
}

/// The number of operations that take about this time. The first run does not count, because threads start in it, and
/// pages are touched for the first time. After that a number is accepted if it follows from a run of at least half as
/// many.
fn calibrate(run: &mut Run<'_>, reading: Duration) -> u64 {
    let mut ops = OPS_MIN;
    run(ops);
    loop {
        let elapsed = run(ops).time.max(Duration::from_nanos(1));
        let wanted = (ops as f64 * reading.as_secs_f64() / elapsed.as_secs_f64()) as u64;
        if wanted <= ops * 2 {
            return wanted.max(OPS_MIN);
        }
        ops = wanted.min(ops * 4);
    }
}

/// Readings of one mode of the machine.
pub(crate) struct Grouped {
    /// The mode, where data crossed CPUs.
    pub(crate) mode: Option<Mode>,
    /// The summary of the readings.
    pub(crate) summary: Summary,
    /// The median latency between the CPUs.
    pub(crate) xcore_ns: Option<f64>,
    /// How many of them were disturbed.
    pub(crate) disturbed: usize,
}

/// Readings by the mode in which the machine was: one group, or two if it changed.
pub(crate) fn by_mode(readings: &[Reading]) -> Vec<Grouped> {
    [None, Some(Mode::Near), Some(Mode::Far)]
        .into_iter()
        .filter_map(|mode| {
            let group: Vec<Reading> = readings
                .iter()
                .filter(|r| r.xcore_ns.map(Mode::of) == mode)
                .copied()
                .collect();
            Some(Grouped {
                mode,
                disturbed: group.iter().filter(|r| r.disturbed).count(),
                summary: Summary::of(group.iter().map(|r| r.ns))?,
                xcore_ns: Summary::of(group.iter().filter_map(|r| r.xcore_ns)).map(|s| s.median),
            })
        })
        .collect()
}

/// The part of a run's time that others may have had.
const LOST_MAX: f64 = 0.02;
/// How often a disturbed reading is repeated.
const ATTEMPTS_MAX: usize = 4;
/// The fewest operations of a run.
const OPS_MIN: u64 = 4096;

#[cfg(test)]
mod tests;
