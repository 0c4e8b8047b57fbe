//! `cargo lab epair`: the hand-offs of seed 003, side by side: two rings with an index, before and after their first
//! fix, and a queue with a mutex and a state, which is ours.
//!
//! ```text
//!   scheme.rs   what a hand-off looks like          schemes/      one file each
//!   waits.rs    how long packets wait in it         histogram.rs  as the seed shows it
//!   http.rs     connect, get, close between stacks  joined.rs     two stacks, joined by any of them
//!   stream.rs   one TCP stream                      device.rs     a scheme as a device
//!   programs.rs real programs, in namespaces        schedules.rs  shuttle finds what is wrong (a test)
//! ```
//!
//! Sources: seed 003.

mod device;
mod histogram;
mod http;
mod joined;
mod options;
mod programs;
pub(crate) mod report;
mod result;
mod runner;
#[cfg(all(test, shuttle))]
mod schedules;
mod scheme;
mod schemes;
mod stream;
mod waits;

pub use options::Options;
pub use programs::child;

use crate::Error;
use crate::harness::choice::listed;
use crate::harness::compare;
use crate::harness::progress::Progress;
use crate::harness::record::of_readings;
use crate::harness::rounds::Reading;
use crate::harness::warmup;
use histogram::Histogram;
use options::Choice;
use result::{Shown, bins, measured, times};
use schemes::{Always, MutexState, TwoRings, TwoRingsFlags};
use std::io::Write;
use std::time::Duration;

/// A hand-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// Ours.
    Mbuma,
    /// The scheme before its first fix.
    TwoRings,
    /// The scheme after it.
    TwoRingsFlags,
    /// The control: the scheduler's delays alone.
    Control,
}

impl Design {
    pub(crate) const ALL: [Self; 4] = [
        Self::Mbuma,
        Self::TwoRings,
        Self::TwoRingsFlags,
        Self::Control,
    ];

    pub(crate) fn name(self) -> &'static str {
        use scheme::Scheme;
        match self {
            Self::Mbuma => <MutexState<u64> as Scheme<u64>>::NAME,
            Self::TwoRings => <TwoRings<u64> as Scheme<u64>>::NAME,
            Self::TwoRingsFlags => <TwoRingsFlags<u64> as Scheme<u64>>::NAME,
            Self::Control => <Always<u64> as Scheme<u64>>::NAME,
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Mbuma => "ours: a row under a mutex, with the task's state",
            Self::TwoRings => {
                "seed 003: two rings, a transmitter that finds one empty schedules the task"
            }
            Self::TwoRingsFlags => "seed 003: the same after its first fix, scheduled by two flags",
            Self::Control => {
                "the task is scheduled for every packet: its waits are the scheduler's"
            }
        }
    }

    fn waits(self, wakeups: u64, at_most: Duration, seed: u64) -> waits::Waits {
        match self {
            Self::Mbuma => waits::run::<MutexState<u64>>(wakeups, at_most, seed),
            Self::TwoRings => waits::run::<TwoRings<u64>>(wakeups, at_most, seed),
            Self::TwoRingsFlags => waits::run::<TwoRingsFlags<u64>>(wakeups, at_most, seed),
            Self::Control => waits::run::<Always<u64>>(wakeups, at_most, seed),
        }
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// How long packets wait.
    Waits,
    /// Connect, get, close.
    Http,
    /// One TCP stream.
    Stream,
    /// Real programs.
    Programs,
}

impl Case {
    pub(crate) const ALL: [Self; 4] = [Self::Waits, Self::Http, Self::Stream, Self::Programs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Http => "http",
            Self::Stream => "stream",
            Self::Programs => "programs",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Waits => {
                "two transmitters send bursts of 1 to 4 packets and wait for them to arrive"
            }
            Self::Http => "connect, get 600 bytes, close, between two stacks",
            Self::Stream => "one TCP stream from stack to stack, at MTU 1500",
            Self::Programs => {
                "a web server and a client in namespaces, each behind its TAP, our epair between"
            }
        }
    }
}

/// Runs the comparison and writes the results to `out`: tables and histograms, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose()?;
    let common = &options.common;
    common.each(choice.cases.iter().copied(), out, |case, progress| {
        measure(case, options, &choice, progress).text(case, common.json)
    })
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(&Case::ALL, &Design::ALL)
}

listed!(Case: |case| case.name(), case.about());
listed!(Design: |design| design.name(), design.about());

fn measure(case: Case, options: &Options, choice: &Choice, progress: &mut Progress) -> Shown {
    match case {
        Case::Waits => waits(options, choice, progress),
        Case::Http => http(choice, progress),
        Case::Stream => stream(choice, progress),
        Case::Programs => programs::measure(options, progress),
    }
}

/// Goes over all designs in each round, so that a disturbance of the machine affects all of them alike.
fn rounds(
    case: Case,
    choice: &Choice,
    progress: &mut Progress,
    mut run: impl FnMut(usize, Design, usize),
) {
    let reps = choice.effort.reps;
    for round in 1..=reps {
        for (nth, &design) in choice.designs.iter().enumerate() {
            let (case, name) = (case.name(), design.name());
            progress.say(&format!("{case}: round {round} of {reps}, {name}"));
            run(nth, design, round);
        }
    }
}

fn waits(options: &Options, choice: &Choice, progress: &mut Progress) -> Shown {
    let mut all = vec![(Histogram::new(), 0, 0); choice.designs.len()];
    let wakeups = options.wakeups.div_ceil(choice.effort.reps as u64);
    rounds(Case::Waits, choice, progress, |nth, design, round| {
        let seen = design.waits(wakeups, WAITS_AT_MOST, round as u64);
        let (waited, woken, lost) = &mut all[nth];
        waited.merge(&seen.waited);
        *woken += seen.wakeups;
        *lost += seen.lost;
    });
    let mut shown = Shown::default();
    for (&design, (waited, woken, lost)) in choice.designs.iter().zip(&all) {
        let note = format!("{woken} wakeups, {lost} lost");
        shown
            .records
            .extend(times(Case::Waits, design, waited, &note));
        shown.records.push(measured(
            Case::Waits,
            design,
            "wakeups",
            *woken as f64,
            "lost",
            *lost as f64,
        ));
        shown.records.extend(bins(Case::Waits, design, waited));
        shown.histograms.push((design.name(), waited.clone()));
    }
    shown
}

fn http(choice: &Choice, progress: &mut Progress) -> Shown {
    let mut all = vec![(Histogram::new(), 0, 0); choice.designs.len()];
    rounds(Case::Http, choice, progress, |nth, design, _| {
        let seen = http::run(design, choice.effort.reading);
        let (took, failed, woken) = &mut all[nth];
        took.merge(&seen.took);
        *failed += seen.failed;
        *woken += seen.wakeups;
    });
    let mut shown = Shown::default();
    for (&design, (took, failed, woken)) in choice.designs.iter().zip(&all) {
        let note = format!("{} loops, {failed} failed, {woken} wakeups", took.total());
        shown.records.extend(times(Case::Http, design, took, &note));
        shown.records.extend(bins(Case::Http, design, took));
        shown.histograms.push((design.name(), took.clone()));
    }
    shown
}

fn stream(choice: &Choice, progress: &mut Progress) -> Shown {
    let mut all = vec![Vec::new(); choice.designs.len()];
    let mut warm = |&design: &Design| {
        progress.say(&format!(
            "{}: warming up {}",
            Case::Stream.name(),
            design.name()
        ));
        warmup::length_for(choice.effort.reading, |time| {
            stream::run(design, 1500, time)
        })
    };
    let times: Vec<Duration> = choice.designs.iter().map(&mut warm).collect();
    rounds(Case::Stream, choice, progress, |nth, design, _| {
        let gbits = stream::run(design, 1500, times[nth]);
        all[nth].push(Reading::once(gbits, None));
    });
    let mut shown = Shown::default();
    for (&design, speeds) in choice.designs.iter().zip(&all) {
        let record = result::empty(Case::Stream, design, "Gbit/s");
        shown.records.extend(of_readings(&record, speeds));
    }
    shown
}

/// How long a round of the case `waits` is at most: a scheme that strands packets waits for most of it.
const WAITS_AT_MOST: Duration = Duration::from_secs(60);

#[cfg(all(test, not(shuttle)))]
mod tests;
