//! What the user asked for, and what of it can be done.
//!
//! Called by: the tool, which fills in [`Options`]; `mod.rs`. Calls: nothing.

use super::{Case, Design};
use crate::Error;
use crate::harness::choice::chosen;
use crate::harness::effort::Effort;
use std::path::PathBuf;

/// What to compare, how long, and how to show it. Empty lists mean all.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of cases.
    pub cases: Vec<String>,
    /// Names of designs.
    pub designs: Vec<String>,
    /// How long each design is measured in each case on each number of CPUs, all rounds together; the case `mysql`
    /// takes as long as its queries do.
    pub seconds_per_case: f64,
    /// Rounds.
    pub reps: usize,
    /// Queries of each client in a round of the case `mysql`.
    pub queries: usize,
    /// JSON lines instead of tables.
    pub json: bool,
    /// Where to draw pictures.
    pub plot: Option<PathBuf>,
    /// Say on standard error how far it is, if that is a terminal.
    pub progress: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cases: Vec::new(),
            designs: Vec::new(),
            seconds_per_case: 0.3,
            reps: 11,
            queries: 1000,
            json: false,
            plot: None,
            progress: true,
        }
    }
}

/// What was chosen.
pub(crate) struct Choice {
    pub(crate) cases: Vec<Case>,
    pub(crate) designs: Vec<Design>,
    pub(crate) effort: Effort,
    pub(crate) queries: usize,
}

impl Options {
    /// Names to things.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        if self.queries == 0 {
            return Err(Error::Bad("a client asks at least once".to_owned()));
        }
        Ok(Choice {
            cases: chosen("case", &self.cases, &Case::ALL, |case| case.name())?,
            designs: chosen("design", &self.designs, &Design::ALL, |d| d.name())?,
            effort: Effort::new(self.reps, self.seconds_per_case)?,
            queries: self.queries,
        })
    }
}
