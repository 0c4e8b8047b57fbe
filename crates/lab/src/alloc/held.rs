//! The case `held`: items that a design takes from its slabs to serve 2, then 32, then 256 threads.
//!
//! The number of caches grows with the threads in a design with a cache for each thread, and not in a design with a
//! cache for each CPU. This case shows the difference.

use super::cases::Case;
use super::catalog::Entry;
use super::options::Effort;
use super::result::{record, skipped};
use super::subject::Subject;
use crate::Record;
use crate::harness::progress::Progress;
use crate::harness::summary::Summary;
use crate::harness::table::{self, Line};

/// Threads, one number after the other.
const HELD: [usize; 3] = [2, 32, 256];

/// Each round makes new designs, since the held memory never shrinks.
pub(crate) fn measure(
    size: usize,
    entries: &[Entry],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let rounds = effort.timing.reps.min(HELD_ROUNDS);
    let mut readings = vec![[const { Vec::new() }; HELD.len()]; entries.len()];
    let mut absent = Vec::new();
    for round in 1..=rounds {
        for (entry, readings) in entries.iter().zip(&mut readings) {
            progress.say(&format!(
                "held {size}: round {round} of {rounds}, {}",
                entry.name
            ));
            match (entry.make)(size) {
                Ok(subject) => hold(&*subject, readings, effort),
                Err(why) if round == 1 => {
                    absent.push(skipped(Case::Held, size, entry, why.to_string()))
                }
                Err(_) => {}
            }
        }
    }
    let mut records = Vec::new();
    for (threads, at) in HELD.iter().zip(0..) {
        for (entry, readings) in entries.iter().zip(&readings) {
            let Some(summary) = Summary::of(readings[at].iter().copied()) else {
                continue;
            };
            records.push(Record {
                threads: Some(*threads),
                ..record(Case::Held, size, entry, summary)
            });
        }
    }
    records.extend(absent);
    records
}

fn hold(subject: &dyn Subject, readings: &mut [Vec<f64>; HELD.len()], effort: &Effort) {
    let items = (effort.timing.reading.as_secs_f64() * ITEMS_A_SECOND) as u64;
    for (threads, readings) in HELD.iter().zip(readings) {
        subject.threads(&effort.timing.cpus, *threads, items);
        readings.extend(subject.taken().map(|items| items as f64));
    }
}

/// Rounds of the case `held`, at most: each is the same.
const HELD_ROUNDS: usize = 5;
/// Items that all threads together allocate, for each second that a reading takes: some million.
const ITEMS_A_SECOND: f64 = 1e8;

/// The block as a table: a row for each design, a column for each number of threads.
pub(crate) fn table(size: usize, records: &[Record]) -> String {
    let title = format!("{}, {size} B: {}", Case::Held, Case::Held.about());
    let columns = HELD.map(|threads| threads.to_string());
    let mut designs: Vec<&'static str> = records.iter().map(|record| record.design).collect();
    designs.sort_by_key(|design| records.iter().position(|r| r.design == *design));
    designs.dedup();
    let line = |design: &'static str| {
        let of_design = records.iter().filter(move |r| r.design == design);
        let of_threads = |threads| of_design.clone().find(|r| r.threads == Some(threads));
        Line {
            design,
            figures: HELD
                .map(|threads| of_threads(threads).and_then(|r| r.median))
                .to_vec(),
            note: of_design.clone().next().map_or("", |r| &r.note),
        }
    };
    let lines: Vec<Line<'_>> = designs.into_iter().map(line).collect();
    table::grid(&title, &columns, &lines)
}
