//! A block of a case that is timed: one size, over all the designs that take part.

use super::cases::Case;
use super::catalog::Entry;
use super::design::THREADS;
use super::options::Effort;
use super::result::{of_group, record, skipped};
use super::subject::Subject;
use crate::Record;
use crate::harness::progress::Progress;
use crate::harness::rounds::{self, Contestant, Plan, Run};

/// A design that takes part.
struct Made {
    entry: Entry,
    subject: Box<dyn Subject>,
}

/// Measures a block. Designs that are absent have a record with the reason.
pub(crate) fn measure(
    case: Case,
    size: usize,
    entries: &[Entry],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let (mut made, mut absent) = (Vec::new(), Vec::new());
    for entry in entries.iter().copied() {
        match (entry.make)(size) {
            Ok(subject) => made.push(Made { entry, subject }),
            Err(why) => absent.push(skipped(case, size, &entry, why.to_string())),
        }
    }
    let mut records = timed(case, size, &made, effort, progress);
    records.extend(absent);
    records
}

fn timed(
    case: Case,
    size: usize,
    made: &[Made],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let contestant = |one| contestant(case, one, effort);
    let mut contestants: Vec<Contestant<'_>> = made.iter().map(contestant).collect();
    let plan = Plan {
        title: format!("{case} {size}"),
        reps: effort.timing.reps,
        reading: effort.timing.reading
            * if matches!(case, Case::Threads2 | Case::Threads32) {
                LONGER
            } else {
                1
            },
        crosses: effort.timing.pair_of_cpus().filter(|_| case.crosses()),
    };
    let readings = rounds::interleave(&mut contestants, &plan, progress);
    let mut records = Vec::new();
    for (one, readings) in made.iter().zip(&readings) {
        for group in rounds::by_mode(readings) {
            let record = record(case, size, &one.entry, group.summary);
            records.push(of_group(record, &group));
        }
    }
    records
}

/// A reading of many threads is longer, so that they share the CPUs instead of running one after the other.
const LONGER: u32 = 4;

fn contestant<'a>(case: Case, one: &'a Made, effort: &'a Effort) -> Contestant<'a> {
    let subject = &*one.subject;
    let cpu = effort.timing.one_cpu();
    let two = effort.timing.two_cpus();
    let run: Run<'a> = match case {
        Case::Get => Box::new(move |n| subject.get(cpu, n)),
        Case::Pair => Box::new(move |n| subject.pair(cpu, n)),
        Case::Batch64 => Box::new(move |n| subject.batch(cpu, n)),
        Case::Batch2048 => Box::new(move |n| subject.many(cpu, n)),
        Case::ProdCons => Box::new(move |n| subject.prodcons(two, n)),
        Case::Threads2 => Box::new(move |n| subject.threads(&effort.timing.cpus, 2, n)),
        _ => Box::new(move |n| subject.threads(&effort.timing.cpus, THREADS, n)),
    };
    Contestant {
        name: one.entry.name,
        run,
    }
}
