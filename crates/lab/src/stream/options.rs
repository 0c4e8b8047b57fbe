//! What the user asked for, and what of it can be done.
//!
//! Called by: the tool, which fills in [`Options`]; `mod.rs`. Calls: the catalog.

use super::case::{CASES, Case};
use super::designs::{CATALOG, Entry, Outside};
use super::programs;
use crate::Error;
use crate::harness::choice::chosen;
use crate::harness::effort::Effort;
use std::ffi::OsString;
use std::path::PathBuf;

/// What to compare, how long, and how to show it. Empty lists mean all.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of cases.
    pub cases: Vec<String>,
    /// Names of designs.
    pub designs: Vec<String>,
    /// How long each design is measured in each case, all rounds together.
    pub seconds_per_case: f64,
    /// Rounds.
    pub reps: usize,
    /// Where the peers' programs are.
    pub peers: Option<PathBuf>,
    /// A program and arguments that come to [`bench`](super::bench) once a design's name and `--bench` with its words
    /// follow, for a design that needs a namespace of its own; empty: it is skipped.
    pub child: Vec<OsString>,
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
            seconds_per_case: 5.0,
            reps: 5,
            peers: None,
            child: Vec::new(),
            json: false,
            plot: None,
            progress: true,
        }
    }
}

/// What was chosen.
pub(crate) struct Choice {
    pub(crate) cases: Vec<Case>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) effort: Effort,
    pub(crate) outside: Outside,
}

impl Options {
    /// Names to things.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        Ok(Choice {
            cases: chosen("case", &self.cases, CASES, |case| case.name)?,
            entries: chosen("design", &self.designs, CATALOG, |entry| entry.name)?,
            effort: Effort::new(self.reps, self.seconds_per_case)?,
            outside: Outside {
                peers: programs::directory(self.peers.as_deref()),
                child: self.child.clone(),
            },
        })
    }
}
