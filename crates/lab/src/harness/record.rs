//! One result: what a line of JSON, a row of a table and a bar of a picture are made from.
//!
//! Called by: the experiments, which make them, and the three ways of showing them. Calls: serde.

use super::rounds::Grouped;
use super::summary::Summary;
use serde::Serialize;

/// What one contestant did in one case.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Record {
    /// The experiment, as in `cargo lab EXPERIMENT`.
    pub experiment: &'static str,
    /// The case.
    pub case: &'static str,
    /// The contestant.
    pub design: &'static str,
    /// Bytes of an item; 0 in what is about no size.
    pub size: usize,
    /// What the figures are in.
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
    /// Which of several things was measured: `rss`, `cgroup`, `available`; `wasted`, `peak`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<&'static str>,
    /// In histograms, where the bin begins; the note says it for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bin: Option<u64>,
    /// What a reader should know about this row.
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

    /// The same, with what its readings come to.
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

/// With what readings say that were grouped by the machine's mode.
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
