//! The case `purge-dip`: each design that can give memory back on a call, in a process of its own.

use super::cases::Case;
use super::cases::purge::Purge;
use super::catalog::Entry;
use super::options::Effort;
use super::result::{of_group, record, skipped};
use crate::Record;
use crate::harness::progress::Progress;
use crate::harness::rounds::{self, Reading};
use crate::harness::xcore;

/// Rounds, at most: each takes a spike of memory.
const ROUNDS_MAX: usize = 5;
/// How often a disturbed purge is repeated.
const ATTEMPTS_MAX: usize = 3;

/// The results of one design: its dips, and the time of its pages.
#[derive(Default)]
struct Readings {
    dips: Vec<Reading>,
    costs: Vec<Reading>,
    why: Option<String>,
}

/// Measures the block: two records a design, the dip and the cost of a page.
pub(crate) fn measure(
    size: usize,
    entries: &[Entry],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let mut readings: Vec<Readings> = entries.iter().map(|_| Readings::default()).collect();
    let rounds = effort.timing.reps.min(ROUNDS_MAX);
    for round in 1..=rounds {
        for (entry, readings) in entries.iter().zip(&mut readings) {
            progress.say(&format!(
                "purge-dip {size}: round {round} of {rounds}, {}",
                entry.name
            ));
            one(size, entry, effort, readings);
        }
    }
    let dips = entries
        .iter()
        .zip(&readings)
        .flat_map(|(entry, all)| records(size, entry, all, &all.dips, "%"));
    let costs = entries
        .iter()
        .zip(&readings)
        .flat_map(|(entry, all)| records(size, entry, all, &all.costs, "ns/page"));
    dips.chain(costs).collect()
}

fn one(size: usize, entry: &Entry, effort: &Effort, readings: &mut Readings) {
    let job = effort.job(Case::PurgeDip, size, 0.0, entry);
    for attempt in 1..=ATTEMPTS_MAX {
        let xcore_ns = effort
            .timing
            .pair_of_cpus()
            .map(|cpus| xcore::one_way_ns(cpus, effort.timing.reading));
        match job.ask::<Purge>(&effort.child) {
            Ok(purge) if purge.disturbed && attempt < ATTEMPTS_MAX => {}
            Ok(purge) => {
                let reading = |ns| Reading {
                    ns,
                    xcore_ns,
                    disturbed: purge.disturbed,
                };
                readings.dips.push(reading(purge.dip_percent));
                readings.costs.push(reading(purge.ns_per_page));
                return;
            }
            Err(why) => {
                readings.why = Some(why);
                return;
            }
        }
    }
}

fn records(
    size: usize,
    entry: &Entry,
    all: &Readings,
    readings: &[Reading],
    unit: &'static str,
) -> Vec<Record> {
    if let Some(why) = &all.why {
        return vec![Record {
            unit,
            ..skipped(Case::PurgeDip, size, entry, why.clone())
        }];
    }
    let groups = rounds::by_mode(readings).into_iter();
    groups
        .map(|group| {
            let record = record(Case::PurgeDip, size, entry, group.summary);
            Record {
                unit,
                ..of_group(record, &group)
            }
        })
        .collect()
}
