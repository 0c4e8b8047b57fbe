//! The options of the command, checked.

use super::catalog::{CATALOG, Case, Entry};
use super::phases::ROW;
use crate::Error;
use crate::harness::choice::chosen;

/// The designs and cases to compare, how often, and how to show them. Empty lists mean all.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of cases.
    pub cases: Vec<String>,
    /// Names of designs.
    pub designs: Vec<String>,
    /// Records that are live at once.
    pub records: usize,
    /// Rounds.
    pub reps: usize,
    /// JSON lines instead of tables.
    pub json: bool,
    /// Report the progress on standard error, if that is a terminal.
    pub progress: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cases: Vec::new(),
            designs: Vec::new(),
            records: 20_000,
            reps: 11,
            json: false,
            progress: true,
        }
    }
}

/// The chosen designs and cases.
pub(crate) struct Choice {
    /// In the order of [`Case::ALL`].
    pub(crate) cases: Vec<Case>,
    /// In the order of the catalog.
    pub(crate) entries: Vec<Entry>,
}

/// The most records: nine clusters each are 900 MiB.
const RECORDS_MAX: usize = 50_000;

impl Options {
    /// The names, looked up.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        if !(ROW..=RECORDS_MAX).contains(&self.records) {
            let text = format!(
                "it takes {ROW} to {RECORDS_MAX} records, not {}",
                self.records
            );
            return Err(Error::Bad(text));
        }
        if self.reps == 0 {
            return Err(Error::Bad("it takes at least one round".to_owned()));
        }
        Ok(Choice {
            cases: chosen("case", &self.cases, &Case::ALL)?,
            entries: chosen("design", &self.designs, CATALOG)?,
        })
    }
}
