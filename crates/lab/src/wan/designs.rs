//! The list of contestants.

use std::time::Duration;

use mbuma::Config;

use super::figures::Figures;
use super::path::Path;
use super::simulated;
use crate::harness::choice::{Absent, Kind};

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// NewReno (RFC 5681, RFC 6582).
    Reno,
}

impl Algorithm {
    /// Has a stack of ours use it.
    pub(crate) fn choose(self, config: &mut Config) {
        let _ = (self, config);
    }
}

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// What it is called everywhere.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// What it is, for `--list`.
    pub(crate) about: &'static str,
    run: fn(&Path, u64, Duration) -> Result<Figures, Absent>,
}

impl Entry {
    /// Runs it once, with this seed, and measures for `time` after a warm-up.
    pub(crate) fn run(&self, path: &Path, seed: u64, time: Duration) -> Result<Figures, Absent> {
        (self.run)(path, seed, time)
    }
}

/// All contestants, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[Entry {
    name: "sim-reno",
    kind: Kind::Ours,
    about: "ours at both ends, Reno, in virtual time",
    run: |path, seed, time| Ok(simulated::run(path, Algorithm::Reno, seed, time)),
}];
