//! The options of the command, and the experiments that they choose.

use crate::Error;
use crate::report::registry::experiments;
use crate::report::{Experiment, Pace};
use std::ffi::OsString;
use std::path::PathBuf;

/// The experiments to run, the effort, and the directory of the report. Empty lists mean all, and none.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab all                                  about 20 minutes; then open report/index.html
  cargo lab all --effort quick --out try         seconds: does everything run here?
  cargo lab all --only refs,epair --out some
  cargo lab all --from report/results.jsonl the page again, from the saved results

Run no other program meanwhile, and build with --release: the figures of a busy machine are of its load.")]
pub struct Options {
    /// Write the report into this directory
    #[arg(long, value_name = "DIR", default_value = "report")]
    pub out: PathBuf,
    /// How hard to measure
    #[arg(long = "effort", value_name = "EFFORT", value_enum, default_value_t = Pace::Normal)]
    pub pace: Pace,
    /// Only these experiments
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Not these experiments
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// Make the report from these saved results, without a measurement
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pace", "only", "skip"])]
    pub from: Option<PathBuf>,
    /// One line of JSON for each figure, instead of the verdicts
    #[arg(long)]
    pub json: bool,
    /// A program and arguments that, with an experiment's name and arguments, run it.
    #[arg(skip)]
    pub program: Vec<OsString>,
    /// Version and commit of the program.
    #[arg(skip)]
    pub build: String,
    /// Report the progress on standard error.
    #[arg(skip)]
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
