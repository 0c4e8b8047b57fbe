//! What the user asked for, and what of it can be done.
//!
//! Called by: the tool, which fills in [`Options`]; `mod.rs`. Calls: nothing.

use super::{CASES, Case, Design};
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
    /// How many workers a stack has.
    pub workers: Vec<usize>,
    /// How long each design is measured in each case, all rounds together.
    pub seconds_per_case: f64,
    /// Rounds.
    pub reps: usize,
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
            workers: vec![1, 2],
            seconds_per_case: 2.0,
            reps: 5,
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
}

impl Options {
    /// Names to things.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        if self.workers.is_empty() || self.workers.iter().any(|n| !(1..=64).contains(n)) {
            return Err(Error::Bad("a stack has 1 to 64 workers".to_owned()));
        }
        Ok(Choice {
            cases: chosen("case", &self.cases, &CASES, |case| case.name)?,
            designs: chosen("design", &self.designs, &Design::ALL, |design| {
                design.name()
            })?,
            effort: Effort::new(self.reps, self.seconds_per_case)?,
        })
    }
}
