//! A comparison: its options, the choice that they make, and a run of each case.

use super::choice::{Listed, chosen};
use super::effort::Effort;
use super::progress::Progress;
use crate::error::written;
use crate::{Error, Record};
use std::io::Write;

/// The designs and cases to compare, for how long, and how to show them. Empty lists mean all.
#[derive(Clone, Debug, clap::Args)]
pub struct Comparison {
    /// Time for which each design is measured in each case, all rounds together
    #[arg(long, value_name = "S", default_value_t = 0.3)]
    pub seconds_per_case: f64,
    /// Only these cases
    #[arg(long = "case", value_name = "NAME", value_delimiter = ',')]
    pub cases: Vec<String>,
    /// Only these designs
    #[arg(long = "design", value_name = "NAME", value_delimiter = ',')]
    pub designs: Vec<String>,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 11)]
    pub reps: usize,
    /// One line of JSON for each figure, instead of tables
    #[arg(long)]
    pub json: bool,
    /// List the cases and the designs, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// Report the progress on standard error, if that is a terminal.
    #[arg(skip = true)]
    pub progress: bool,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            cases: Vec::new(),
            designs: Vec::new(),
            seconds_per_case: 0.3,
            reps: 11,
            json: false,
            list: false,
            progress: true,
        }
    }
}

#[cfg(test)]
impl Comparison {
    /// So many rounds of so long, for a test: without a line of progress.
    pub(crate) fn short(seconds_per_case: f64, reps: usize) -> Self {
        Self {
            seconds_per_case,
            reps,
            progress: false,
            ..Self::default()
        }
    }
}

/// The chosen designs and cases, and the effort.
pub(crate) struct Choice<C, D> {
    /// In the order in which there are.
    pub(crate) cases: Vec<C>,
    /// Likewise.
    pub(crate) designs: Vec<D>,
    pub(crate) effort: Effort,
}

impl Comparison {
    /// The names, looked up.
    ///
    /// # Errors
    /// [`Error`]: an unknown name, or a number that will not do.
    pub(crate) fn choose<C: Listed, D: Listed>(
        &self,
        cases: &[C],
        designs: &[D],
    ) -> Result<Choice<C, D>, Error> {
        Ok(Choice {
            cases: chosen("case", &self.cases, cases)?,
            designs: chosen("design", &self.designs, designs)?,
            effort: Effort::new(self.reps, self.seconds_per_case)?,
        })
    }

    /// Measures each case, and writes its results.
    ///
    /// # Errors
    /// [`Error`]: `out` cannot be written.
    pub(crate) fn each<C>(
        &self,
        cases: impl IntoIterator<Item = C>,
        out: &mut dyn Write,
        mut measure: impl FnMut(C, &mut Progress) -> String,
    ) -> Result<(), Error> {
        let mut progress = Progress::new(self.progress);
        for case in cases {
            let text = measure(case, &mut progress);
            progress.clear();
            written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
        }
        Ok(())
    }
}

/// Records as a program reads them, or as `text` shows them.
pub(crate) fn shown(json: bool, records: &[Record], text: impl FnOnce() -> String) -> String {
    match json {
        true => lines_of(records),
        false => text(),
    }
}

/// Records, one in a line.
pub(crate) fn lines_of(records: &[Record]) -> String {
    let line = |record: &Record| record.to_json() + "\n";
    records.iter().map(line).collect()
}

/// The list of choices: names, and a line about each.
pub(crate) fn list(cases: &[impl Listed], designs: &[impl Listed]) -> String {
    format!("cases:\n{}\ndesigns:\n{}", lines(cases), lines(designs))
}

fn lines<T: Listed>(things: &[T]) -> String {
    let wide = things.iter().map(|one| one.name().len()).max();
    let wide = wide.unwrap_or(0) + 1;
    let line = |one: &T| format!("  {:<wide$} {}\n", one.name(), one.about());
    things.iter().map(line).collect()
}
