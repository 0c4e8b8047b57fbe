//! The case `spike`: each design in a process of its own, with 0 and with 1 % of the items left.

use super::cases::Case;
use super::cases::spike::{MOMENTS_S, Sample};
use super::catalog::{Entry, PurgedBy};
use super::options::Effort;
use super::result::{record, skipped};
use crate::Record;
use crate::harness::progress::Progress;
use crate::harness::summary::Summary;
use crate::harness::table::{self, Line};

/// How much stays, in per cent.
const SURVIVORS: [f64; 2] = [0.0, 1.0];
/// A measure: its name, its text in a title, and its place in a sample.
const MEASURES: [(&str, &str, Pick); 3] = [
    ("rss", "resident", |sample| Some(sample.rss)),
    ("cgroup", "of the control group", |sample| sample.cgroup),
    ("available", "of MemAvailable gone", |sample| {
        sample.available
    }),
];

type Pick = fn(&Sample) -> Option<i64>;

/// Measures the block: all rounds of a design one after the other would do, but rounds go over all of them here too.
pub(crate) fn measure(
    size: usize,
    entries: &[Entry],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let mut records = Vec::new();
    for survivors_percent in SURVIVORS {
        let mut readings = vec![Vec::new(); entries.len()];
        let mut whys = vec![None; entries.len()];
        for round in 1..=effort.spike_rounds() {
            for ((entry, readings), why) in entries.iter().zip(&mut readings).zip(&mut whys) {
                progress.say(&format!(
                    "spike {size}, {survivors_percent} % stay: round {round}, {}",
                    entry.name
                ));
                let job = effort.job(Case::Spike, size, survivors_percent, entry);
                match job.ask::<Vec<Sample>>(&effort.child) {
                    Ok(samples) => readings.push(samples),
                    Err(error) => *why = Some(error),
                }
            }
        }
        for ((entry, readings), why) in entries.iter().zip(&readings).zip(whys) {
            let of_design = match why {
                Some(why) => vec![skipped(Case::Spike, size, entry, why)],
                None => over_time(size, entry, readings),
            };
            let with_survivors = |record| Record {
                survivors_percent: Some(survivors_percent),
                ..record
            };
            records.extend(of_design.into_iter().map(with_survivors));
        }
    }
    records
}

/// Records of one design: for each measure, for each moment.
fn over_time(size: usize, entry: &Entry, rounds: &[Vec<Sample>]) -> Vec<Record> {
    let mut records = Vec::new();
    for (measure, _, pick) in MEASURES {
        for at_s in MOMENTS_S {
            let at = rounds.iter().flatten().filter(|sample| sample.at_s == at_s);
            let megabytes = at.filter_map(pick).map(|bytes| bytes as f64 / MEGABYTE);
            let Some(summary) = Summary::of(megabytes) else {
                continue;
            };
            let mut record = record(Case::Spike, size, entry, summary);
            record.measure = Some(measure);
            record.at_s = Some(at_s);
            record.note = note(entry, rounds);
            records.push(record);
        }
    }
    records
}

fn note(entry: &Entry, rounds: &[Vec<Sample>]) -> String {
    let last = rounds.iter().filter_map(|samples| samples.last());
    let lazy = last
        .map(|sample| sample.lazy as f64 / MEGABYTE)
        .fold(0.0, f64::max);
    match lazy > 1.0 {
        true => format!("{lazy:.0} of it LazyFree"),
        false => match entry.purge {
            PurgedBy::Own => String::new(),
            PurgedBy::Told => "a call each 50 ms".to_owned(),
            PurgedBy::Attended => "a Reclaimer runs".to_owned(),
        },
    }
}

const MEGABYTE: f64 = (1 << 20) as f64;

/// The block as tables: a row for each design, a column for each moment. The system's free memory is shown only
/// without a control group, since it counts other programs too.
pub(crate) fn table(size: usize, megabytes: usize, records: &[Record]) -> String {
    let mut out = String::new();
    for survivors in SURVIVORS {
        for (measure, what, _) in MEASURES {
            let of_table = |r: &&Record| {
                r.survivors_percent == Some(survivors)
                    && (r.measure == Some(measure) || (r.measure.is_none() && measure == "rss"))
            };
            let rows: Vec<&Record> = records.iter().filter(of_table).collect();
            let measured = |measure| records.iter().any(|r| r.measure == Some(measure));
            if rows.is_empty() || (measure == "available" && measured("cgroup")) {
                continue;
            }
            let title = format!(
                "spike, {size} B: MB {what} above the start, after {megabytes} MB were freed, {survivors} % stay"
            );
            let columns = MOMENTS_S.map(|at| format!("{at} s"));
            let by_design = rows.chunk_by(|a, b| a.design == b.design);
            let lines: Vec<Line<'_>> = by_design.map(line).collect();
            out += &table::grid(&title, &columns, &lines);
            out += "\n";
        }
    }
    out.trim_end().to_owned() + "\n"
}

fn line<'a>(of_design: &[&'a Record]) -> Line<'a> {
    let at = |at_s| {
        of_design
            .iter()
            .find(|r| r.at_s == Some(at_s))
            .and_then(|r| r.median)
    };
    Line {
        design: of_design[0].design,
        figures: MOMENTS_S.map(at).to_vec(),
        note: &of_design[0].note,
    }
}
