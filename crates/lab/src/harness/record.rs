//! One result, from which a line of JSON and a row of a table are made.

use super::choice::Absent;
use super::rounds::{Grouped, Reading, by_mode};
use super::summary::Summary;
use serde::Serialize;

/// The result of one contestant in one case.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// The experiment, as in `cargo lab EXPERIMENT`.
    pub experiment: &'static str,
    /// The case.
    pub case: &'static str,
    /// The contestant.
    pub design: &'static str,
    /// Bytes of an item; 0 in a case without a size.
    pub size: usize,
    /// The unit of the figures.
    pub unit: &'static str,
    /// The middle of the readings; none if the contestant was skipped, and the note says why.
    pub median: Option<f64>,
    /// The lower quartile.
    pub p25: Option<f64>,
    /// The upper quartile.
    pub p75: Option<f64>,
    /// Readings.
    pub n: usize,
    /// How many of them were disturbed.
    #[serde(skip_serializing_if = "is_none")]
    pub disturbed: usize,
    /// One-way latency of a cache line between the two CPUs, beside these readings.
    pub xcore_ns: Option<f64>,
    /// Which mode of the machine that is: `near` or `far`.
    pub mode: Option<&'static str>,
    /// Threads, in the cases that vary them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Seconds after the event, in the cases that follow time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// Per cent of the items that stayed, in the cases that free most of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub survivors_percent: Option<f64>,
    /// The measure, if a case has several: `rss`, `cgroup`, `available`; `wasted`, `peak`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<&'static str>,
    /// In histograms, where the bin begins; the note says it for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bin: Option<u64>,
    /// A note for readers of this row.
    pub note: String,
    /// Whether it is one of the project's own designs.
    pub ours: bool,
}

impl Record {
    /// The line of JSON, without its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers, strings and options of them have no way to fail.
        serde_json::to_string(self).expect("a record is plain data")
    }

    /// The same, with the summary of its readings.
    pub(crate) fn with(self, summary: Summary) -> Self {
        Self {
            median: Some(summary.median),
            p25: Some(summary.p25),
            p75: Some(summary.p75),
            n: summary.n,
            ..self
        }
    }
}

/// Most records are undisturbed, and then do not say so.
fn is_none(disturbed: &usize) -> bool {
    *disturbed == 0
}

/// Records of readings of a rate or a time, by the machine's mode. A reading without data does not count; if there are
/// no others, the one record says so and has no figures.
pub(crate) fn of_readings(record: &Record, readings: &[Reading]) -> Vec<Record> {
    let taken: Vec<Reading> = readings.iter().filter(|r| r.is_one()).copied().collect();
    let missing = readings.len() - taken.len();
    let mut record = record.clone();
    if missing > 0 {
        let comma = if record.note.is_empty() { "" } else { ", " };
        record.note += &match taken.is_empty() {
            true => format!("{comma}no reading: no data was moved"),
            false => format!("{comma}no reading in {missing} of {}", readings.len()),
        };
    }
    if taken.is_empty() && missing > 0 {
        return vec![record];
    }
    let groups = by_mode(&taken);
    groups.iter().map(|g| of_group(record.clone(), g)).collect()
}

/// The records of a contestant: of its readings, or one that says why it is absent.
pub(crate) fn of_found(record: Record, found: Result<Vec<Reading>, Absent>) -> Vec<Record> {
    match found {
        Ok(readings) => of_readings(&record, &readings),
        Err(absent) => vec![Record {
            note: absent.to_string(),
            ..record
        }],
    }
}

/// With the summary of readings that were grouped by the machine's mode.
pub(crate) fn of_group(record: Record, group: &Grouped) -> Record {
    let mut record = record.with(group.summary);
    record.disturbed = group.disturbed;
    record.xcore_ns = group.xcore_ns;
    record.mode = group.mode.map(|mode| mode.name());
    if group.disturbed > 0 {
        let comma = if record.note.is_empty() { "" } else { ", " };
        record.note += &format!("{comma}{} of {} disturbed", group.disturbed, record.n);
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_without_data_does_not_count() {
        // Breaks when a contestant that failed is shown with 0.00, or when its failures lower the median of the rest.
        let reading = |ns| Reading {
            ns,
            xcore_ns: None,
            disturbed: false,
        };
        let of = |figures: &[f64]| {
            let readings: Vec<_> = figures.iter().copied().map(reading).collect();
            of_readings(&Record::default(), &readings)
        };
        let none = of(&[0.0, f64::NAN, 0.0]);
        let [none] = &none[..] else {
            panic!("{none:?}")
        };
        assert_eq!(none.median, None);
        assert!(none.note.contains("no reading"), "{}", none.note);
        let some = of(&[0.0, 30.0, 32.0]);
        assert_eq!((some[0].median, some[0].n), (Some(31.0), 2));
        assert_eq!(some[0].note, "no reading in 1 of 3");
        assert!(of(&[]).is_empty(), "what a case is not about");
    }
}
