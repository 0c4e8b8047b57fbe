//! Records as they come back from a line of JSON, and questions to them.
//!
//! Invariant: [`Record::to_json`](crate::Record::to_json) wrote the row.

use serde::{Deserialize, Serialize};

/// The result of one contestant in one case: a [`Record`](crate::Record) that was written and read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The experiment.
    pub experiment: String,
    /// The case.
    pub case: String,
    /// The contestant.
    pub design: String,
    /// Bytes of an item; 0 in a case without a size.
    #[serde(default)]
    pub size: u64,
    /// The unit of the figures.
    pub unit: String,
    /// The middle of the readings; none if the contestant was skipped, and the note says why.
    pub median: Option<f64>,
    /// The lower quartile.
    pub p25: Option<f64>,
    /// The upper quartile.
    pub p75: Option<f64>,
    /// Readings.
    #[serde(default)]
    pub n: u64,
    /// How many of them were disturbed.
    #[serde(default)]
    pub disturbed: u64,
    /// One-way latency of a cache line between the two CPUs.
    pub xcore_ns: Option<f64>,
    /// `near` or `far`.
    pub mode: Option<String>,
    /// Threads.
    pub threads: Option<u64>,
    /// Seconds after the event.
    pub at_s: Option<f64>,
    /// Per cent of the items that stayed.
    pub survivors_percent: Option<f64>,
    /// The measure, if a case has several.
    pub measure: Option<String>,
    /// In histograms, where the bin begins; the note says it for people.
    pub bin: Option<u64>,
    /// A note for readers.
    #[serde(default)]
    pub note: String,
    /// Whether it is one of the project's own designs.
    #[serde(default)]
    pub ours: bool,
}

/// Some of the rows of an experiment; each method leaves those that fit.
#[derive(Clone, Debug)]
pub struct Rows<'a>(Vec<&'a Row>);

impl<'a> Rows<'a> {
    /// Of these.
    pub fn of(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        Self(rows.into_iter().collect())
    }

    /// Those of a case.
    #[must_use]
    pub fn case(&self, case: &str) -> Self {
        self.only(|row| row.case == case)
    }

    /// Those of a design.
    #[must_use]
    pub fn design(&self, design: &str) -> Self {
        self.only(|row| row.design == design)
    }

    /// Those of a measure.
    #[must_use]
    pub fn measure(&self, measure: &str) -> Self {
        self.only(|row| row.measure.as_deref() == Some(measure))
    }

    /// Those in a unit.
    #[must_use]
    pub fn unit(&self, unit: &str) -> Self {
        self.only(|row| row.unit == unit)
    }

    /// Those of a size.
    #[must_use]
    pub fn size(&self, size: u64) -> Self {
        self.only(|row| row.size == size)
    }

    /// The rows with this many threads.
    #[must_use]
    pub fn threads(&self, threads: u64) -> Self {
        self.only(|row| row.threads == Some(threads))
    }

    /// Whatever fits.
    #[must_use]
    pub fn only(&self, fits: impl Fn(&Row) -> bool) -> Self {
        Self(self.0.iter().copied().filter(|row| fits(row)).collect())
    }

    /// All that are left.
    pub fn iter(&self) -> impl Iterator<Item = &'a Row> + '_ {
        self.0.iter().copied()
    }

    /// The median of the row with the most readings.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        self.most_readings()?.median
    }

    /// The medians of two designs, as [`Rows::medians_beside`] has them.
    #[must_use]
    pub fn pair(&self, one: &str, other: &str) -> Option<(f64, f64)> {
        self.design(one).medians_beside(&self.design(other))
    }

    /// The medians of these rows and of others, from rows of one mode of the machine: the mode that both have the most
    /// readings in. They are compared with each other, so there is none where either has no data: 0 against 0 is not a
    /// result.
    #[must_use]
    pub fn medians_beside(&self, others: &Rows<'_>) -> Option<(f64, f64)> {
        let both = |row: &Row| {
            let other = others.only(|other| other.mode == row.mode);
            let other = other.most_readings()?;
            let both = [row.median?, other.median?];
            let is_something = both.iter().all(|one| one.is_finite() && *one > 0.0);
            is_something.then_some((row.n.min(other.n), both[0], both[1]))
        };
        let pairs = self.iter().filter_map(both);
        let (_, one, other) = pairs.max_by_key(|(n, ..)| *n)?;
        Some((one, other))
    }

    /// How many times as large the figure of `one` is as that of `other`.
    #[must_use]
    pub fn ratio(&self, one: &str, other: &str) -> Option<f64> {
        let (one, other) = self.pair(one, other)?;
        Some(one / other)
    }

    fn most_readings(&self) -> Option<&'a Row> {
        let measured = self.0.iter().filter(|row| row.median.is_some());
        measured.max_by_key(|row| row.n).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(design: &str, mode: &str, n: u64, median: f64) -> Row {
        Row {
            design: design.to_owned(),
            mode: Some(mode.to_owned()),
            n,
            median: Some(median),
            ..Row::default()
        }
    }

    #[test]
    fn a_pair_is_of_one_mode() {
        // Breaks when a reading taken while the CPUs were near is held against one taken while they were far.
        let rows = [
            row("a", "near", 3, 10.0),
            row("a", "far", 8, 100.0),
            row("b", "near", 9, 5.0),
            row("b", "far", 2, 50.0),
        ];
        let rows = Rows::of(&rows);
        assert_eq!(rows.pair("a", "b"), Some((10.0, 5.0)));
        assert_eq!(rows.ratio("b", "a"), Some(0.5));
        assert_eq!(rows.design("a").median(), Some(100.0));
        assert_eq!(rows.pair("a", "c"), None);
    }

    #[test]
    fn zero_against_zero_is_no_result() {
        // Breaks when a claim holds because neither side was measured, or because its peer failed.
        for (one, other) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (f64::NAN, 1.0)] {
            let rows = [row("a", "near", 3, one), row("b", "near", 3, other)];
            assert_eq!(Rows::of(&rows).pair("a", "b"), None, "{one} and {other}");
            assert_eq!(Rows::of(&rows).ratio("a", "b"), None, "{one} and {other}");
        }
    }

    #[test]
    fn a_row_equals_its_record() {
        // Breaks when a field of a record is lost on its way into the report.
        let record = crate::Record {
            experiment: "alloc",
            case: "spike",
            design: "x",
            size: 2048,
            unit: "MB",
            median: Some(1.0),
            p25: Some(0.5),
            p75: Some(1.5),
            n: 3,
            disturbed: 2,
            xcore_ns: Some(60.0),
            mode: Some("near"),
            threads: Some(2),
            at_s: Some(0.5),
            survivors_percent: Some(1.0),
            measure: Some("rss"),
            bin: Some(4),
            note: "note".to_owned(),
            ours: true,
        };
        let row: Row = serde_json::from_str(&record.to_json()).expect("a row");
        let again = serde_json::to_value(&row).expect("json");
        let first: serde_json::Value = serde_json::from_str(&record.to_json()).expect("json");
        assert_eq!(again, first);
    }
}
