//! Records of this experiment, for `--json` and for pictures.

use super::Findings;
use super::calls::Calls;
use super::histogram::{Bin, Bins};
use super::tally::{CLASSES, Tally};
use crate::Record;
use crate::harness::summary::Summary;

/// All results, a record for each figure.
pub(super) fn records(found: &Findings) -> Vec<Record> {
    let mut records = Vec::new();
    for (bins, case) in [
        (Bins::Linear, "histogram"),
        (Bins::PowersOfTwo, "histogram-log2"),
    ] {
        let of_bin = |bin: Bin| histogram(case, &bin);
        records.extend(found.bins(bins).into_iter().map(of_bin));
    }
    records.extend(found.tallies.iter().flat_map(memory));
    records.extend(found.tallies.iter().flat_map(classes));
    records.extend(found.calls.iter().flat_map(|(path, c)| calls(path.name, c)));
    records
}

/// The packets of a bin; its first size is the record's.
fn histogram(case: &'static str, bin: &Bin) -> Record {
    Record {
        size: bin.from as usize,
        bin: Some(u64::from(bin.from)),
        note: bin.label(),
        ..one(case, "trace", "packets", bin.packets as f64)
    }
}

/// The memory that a design takes.
fn memory(tally: &Tally) -> Vec<Record> {
    let (all, name) = (&tally.all, tally.design.name);
    let each = |bytes| all.each(bytes).unwrap_or(0.0);
    let figures = [
        ("allocated", "B/packet", each(all.allocated)),
        ("wasted", "B/packet", each(all.wasted())),
        ("wasted-percent", "%", all.wasted_percent()),
        ("items", "items/packet", each(tally.items)),
        ("peak", "B", tally.peak as f64),
    ];
    let mut records: Vec<Record> = figures
        .map(|(measure, unit, value)| Record {
            measure: Some(measure),
            ..one("memory", name, unit, value)
        })
        .into();
    // The only figure with a spread: over the packets.
    records.push(Record {
        measure: Some("wasted-each"),
        ..spread("memory", name, "B/packet", tally.wasted)
    });
    for record in &mut records {
        record.ours = tally.design.ours;
        record.note = tally.design.note.to_owned();
    }
    records
}

/// The memory that a design wastes, by the packets' sizes.
fn classes(tally: &Tally) -> Vec<Record> {
    let of_class = |(sum, (name, most)): (&super::tally::Sum, &(&'static str, u32))| {
        Some(Record {
            size: *most as usize,
            measure: Some(name),
            ours: tally.design.ours,
            ..one(
                "wasted-by-size",
                tally.design.name,
                "B/packet",
                sum.each(sum.wasted())?,
            )
        })
    };
    let classes = tally.classes.iter().zip(&CLASSES);
    classes.filter_map(of_class).collect()
}

fn calls(path: &'static str, calls: &Calls) -> Vec<Record> {
    let of_call = |(name, n): (&'static str, u64)| Record {
        measure: Some(name),
        ..one("calls", path, "calls", n as f64)
    };
    calls.named().map(of_call).into()
}

/// A figure that is the same in every run, so one reading is enough.
fn one(case: &'static str, design: &'static str, unit: &'static str, value: f64) -> Record {
    let summary = Summary {
        median: value,
        p25: value,
        p75: value,
        n: 1,
    };
    spread(case, design, unit, summary)
}

fn spread(
    case: &'static str,
    design: &'static str,
    unit: &'static str,
    summary: Summary,
) -> Record {
    let record = Record {
        experiment: "sizes",
        case,
        design,
        unit,
        ..Record::default()
    };
    record.with(summary)
}
