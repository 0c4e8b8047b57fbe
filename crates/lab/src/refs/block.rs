//! A block: one case over all the designs that take part.
//!
//! Invariant: at the end of a block all items are back in their zones, so a design that is fast because it loses
//! buffers is found.

use super::cases::Case;
use super::catalog::Entry;
use super::subject::Subject;
use crate::Record;
use crate::harness::choice::Kind;
use crate::harness::effort::Effort;
use crate::harness::progress::Progress;
use crate::harness::record::of_group;
use crate::harness::rounds::{self, Contestant, Plan, Reading, Run};

/// A design that takes part.
struct Made {
    entry: Entry,
    subject: Box<dyn Subject>,
}

/// Measures a block. Designs that are absent have a record with the reason.
pub(crate) fn measure(
    case: Case,
    entries: &[Entry],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let (mut made, mut absent) = (Vec::new(), Vec::new());
    for entry in entries.iter().copied() {
        match (entry.make)(case.shape()) {
            Ok(subject) => made.push(Made { entry, subject }),
            Err(why) => absent.push(skipped(case, &entry, why.to_string())),
        }
    }
    let mut records = match case {
        Case::TwoDifferent => scaling(&made, effort, progress),
        Case::Splice => splice(&made, effort, progress),
        _ => {
            let readings = timed(case, &made, effort, progress, &effort.cpus);
            records(case, &made, &readings, |record| record)
        }
    };
    records.extend(absent);
    for one in &made {
        let live = one.subject.live();
        assert!(live.is_none(), "{} lost {live:?}", one.entry.name);
    }
    records
}

/// The readings of each design.
fn timed(
    case: Case,
    made: &[Made],
    effort: &Effort,
    progress: &mut Progress,
    cpus: &[usize],
) -> Vec<Vec<Reading>> {
    let contestant = |one| contestant(case, one, effort, cpus);
    let mut contestants: Vec<Contestant<'_>> = made.iter().map(contestant).collect();
    rounds::interleave(&mut contestants, &plan(case, effort), progress)
}

fn plan(case: Case, effort: &Effort) -> Plan {
    Plan {
        title: case.to_string(),
        reps: effort.reps,
        reading: effort.reading,
        crosses: effort.pair_of_cpus().filter(|_| case.crosses()),
    }
}

fn contestant<'a>(
    case: Case,
    one: &'a Made,
    effort: &'a Effort,
    cpus: &'a [usize],
) -> Contestant<'a> {
    let subject = &*one.subject;
    let cpu = effort.one_cpu();
    let run: Run<'a> = match case {
        Case::First => Box::new(move |n| subject.first(cpu, n)),
        Case::Window => Box::new(move |n| subject.window(cpu, n)),
        Case::More => Box::new(move |n| subject.again(cpu, true, n)),
        Case::Chain => Box::new(move |n| subject.again(cpu, false, n)),
        Case::TwoDifferent => Box::new(move |n| subject.different(cpus, n)),
        Case::TwoSame => Box::new(move |n| subject.same(cpus, n)),
        Case::Splice => Box::new(move |n| subject.splice(effort.two_cpus(), n)),
    };
    Contestant {
        name: one.entry.name,
        run,
    }
}

/// One thread and two, in turns, and how they compare: 1 is a design that scales.
fn scaling(made: &[Made], effort: &Effort, progress: &mut Progress) -> Vec<Record> {
    let case = Case::TwoDifferent;
    let mut contestants = Vec::new();
    for one in made {
        contestants.push(contestant(case, one, effort, &effort.cpus[..1]));
        contestants.push(contestant(case, one, effort, &effort.cpus));
    }
    let readings = rounds::interleave(&mut contestants, &plan(case, effort), progress);
    let (alone, both): (Vec<_>, Vec<_>) = readings
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .unzip();
    let ratios: Vec<Vec<Reading>> = alone
        .iter()
        .zip(&both)
        .map(|(alone, both)| alone.iter().zip(both).map(ratio).collect())
        .collect();
    let with_threads = |readings, threads| {
        records(case, made, readings, |record| Record {
            threads: Some(threads),
            ..record
        })
    };
    let mut all = with_threads(&alone, 1);
    all.extend(with_threads(&both, 2));
    all.extend(records(case, made, &ratios, |record| Record {
        unit: "x one thread",
        measure: Some("ratio"),
        ..record
    }));
    all
}

/// The time of a share in the second reading over that in the first, which is of the same round.
fn ratio((alone, both): (&Reading, &Reading)) -> Reading {
    Reading {
        ns: both.ns / alone.ns,
        xcore_ns: both.xcore_ns,
        disturbed: alone.disturbed || both.disturbed,
    }
}

/// The payload in a time, and the time of an item.
fn splice(made: &[Made], effort: &Effort, progress: &mut Progress) -> Vec<Record> {
    let case = Case::Splice;
    let readings = timed(case, made, effort, progress, &effort.cpus);
    let bits = (case.shape().bytes() * 8) as f64;
    let gbits = |reading: &Reading| Reading {
        ns: bits / reading.ns,
        ..*reading
    };
    let rates: Vec<Vec<Reading>> = readings
        .iter()
        .map(|readings| readings.iter().map(gbits).collect())
        .collect();
    let mut all = records(case, made, &rates, |record| record);
    all.extend(records(case, made, &readings, |record| Record {
        unit: "ns/item",
        measure: Some("cost"),
        ..record
    }));
    all
}

/// Records of readings, by the mode of the machine.
fn records(
    case: Case,
    made: &[Made],
    readings: &[Vec<Reading>],
    finish: impl Fn(Record) -> Record,
) -> Vec<Record> {
    let of_design = |(one, readings): (&Made, &Vec<Reading>)| {
        let groups = rounds::by_mode(readings);
        let record = |group| {
            let note = one.entry.note.to_owned();
            finish(of_group(skipped(case, &one.entry, note), group))
        };
        groups.iter().map(record).collect::<Vec<_>>()
    };
    made.iter().zip(readings).flat_map(of_design).collect()
}

/// A record without figures: why there are none.
pub(crate) fn skipped(case: Case, entry: &Entry, note: String) -> Record {
    Record {
        experiment: "refs",
        case: case.name(),
        design: entry.name,
        size: case.shape().bytes(),
        unit: case.unit(),
        note,
        ours: entry.kind == Kind::Ours,
        ..Record::default()
    }
}
