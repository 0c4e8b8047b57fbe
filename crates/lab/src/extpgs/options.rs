//! The options of the command, checked.

use super::catalog::{CATALOG, Case, Entry};
use super::phases::ROW;
use crate::harness::compare;
use crate::{Comparison, Error};

/// The designs and cases to compare, and with how many records.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab extpgs --list                        the cases and the designs
  cargo lab extpgs --case saved,mbufs
  cargo lab extpgs --records 40000 --reps 31 --json | jq .

Instructions and cache misses of one phase, where no counters are to be had:
  valgrind --tool=callgrind --cache-sim=yes --collect-atstart=no --toggle-collect='*walk_all*' \\
    cargo lab extpgs --design inline --records 2000 --reps 1")]
pub struct Options {
    /// The choice, and how to show it. A round takes the time that the records take.
    #[command(flatten)]
    pub common: Comparison,
    /// Records that are live at the same time
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub records: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Comparison::default(),
            records: 20_000,
        }
    }
}

/// The chosen designs and cases.
pub(crate) type Choice = compare::Choice<Case, Entry>;

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
        self.common.choose(&Case::ALL, CATALOG)
    }
}
