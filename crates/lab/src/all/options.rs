//! The options of the command, and the experiments that they choose.

use crate::Error;
use crate::report::registry::experiments;
use crate::report::{Experiment, Pace};
use std::ffi::OsString;
use std::path::PathBuf;

/// The experiments to run, the effort, and the directory of the report. Empty lists mean all, and none.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory of the report, which is made if need be.
    pub out: PathBuf,
    /// How hard to measure.
    pub pace: Pace,
    /// Names of experiments.
    pub only: Vec<String>,
    /// Names of experiments that are not to run.
    pub skip: Vec<String>,
    /// Saved results to make the report from, instead of measuring.
    pub from: Option<PathBuf>,
    /// JSON lines instead of a summary.
    pub json: bool,
    /// A program and arguments that, with an experiment's name and arguments, run it.
    pub program: Vec<OsString>,
    /// Version and commit of the program.
    pub build: String,
    /// Report the progress on standard error.
    pub progress: bool,
}

impl Options {
    /// Names to experiments, in the order of the registry.
    pub(crate) fn choose(&self) -> Result<Vec<&'static Experiment>, Error> {
        let is_known = |name: &&String| experiments().iter().any(|one| one.name == **name);
        let mut named = self.only.iter().chain(&self.skip);
        if let Some(name) = named.find(|name| !is_known(name)) {
            return Err(Error::Unknown {
                what: "experiment",
                name: name.clone(),
                known: experiments().iter().map(|one| one.name).collect(),
            });
        }
        let has = |names: &[String], one: &Experiment| names.iter().any(|n| n == one.name);
        let wanted = |one: &&'static Experiment| {
            (self.only.is_empty() || has(&self.only, one)) && !has(&self.skip, one)
        };
        let chosen: Vec<_> = experiments().iter().copied().filter(wanted).collect();
        match chosen.is_empty() {
            true => Err(Error::Bad("no experiment is left to run".to_owned())),
            false => Ok(chosen),
        }
    }
}
