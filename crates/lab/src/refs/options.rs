//! What the user asked for, and what of it can be done.
//!
//! Called by: the tool, which fills in `Options`; `mod.rs`. Calls: the catalog.

use super::cases::Case;
use super::catalog::{CATALOG, Entry};
use crate::Error;
use crate::harness::choice::chosen;
use crate::harness::compare::Options;
use crate::harness::effort::Effort;

/// What was chosen.
pub(crate) struct Choice {
    /// In the order of [`Case::ALL`].
    pub(crate) cases: Vec<Case>,
    /// In the order of the catalog.
    pub(crate) entries: Vec<Entry>,
    /// How hard to measure.
    pub(crate) effort: Effort,
}

impl Choice {
    /// Names to things.
    pub(crate) fn of(options: &Options) -> Result<Self, Error> {
        Ok(Self {
            cases: chosen("case", &options.cases, &Case::ALL, |case| case.name())?,
            entries: chosen("design", &options.designs, CATALOG, |entry| entry.name)?,
            effort: Effort::new(options.reps, options.seconds_per_case)?,
        })
    }
}
