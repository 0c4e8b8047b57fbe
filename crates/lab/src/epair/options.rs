//! What the user asked for, and what of it can be done.
//!
//! Called by: the tool, which fills in [`Options`]; `mod.rs`. Calls: nothing.

use super::{Case, Design};
use crate::Error;
use std::ffi::OsString;
use std::path::PathBuf;

/// What to compare, how long, and how to show it. Empty lists mean all.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of cases.
    pub cases: Vec<String>,
    /// Names of designs.
    pub designs: Vec<String>,
    /// How often each design's task is woken in the case `waits`, all rounds together.
    pub wakeups: u64,
    /// How long each design is measured in each of the other cases, all rounds together.
    pub seconds_per_case: f64,
    /// Rounds.
    pub reps: usize,
    /// Pages that the client gets in the case `programs`.
    pub pages: u64,
    /// A program and arguments that come to [`child`](super::child), for the case `programs`, which needs a
    /// process in a namespace of its own; empty: it is skipped.
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
            wakeups: 100_000,
            seconds_per_case: 5.0,
            reps: 5,
            pages: 500,
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
    pub(crate) designs: Vec<Design>,
}

impl Options {
    /// Names to things.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        let seconds = self.seconds_per_case;
        if self.reps == 0 || self.wakeups == 0 || !(seconds > 0.0 && seconds < 3600.0) {
            return Err(Error::Bad(
                "it takes at least one round and one wakeup, and a time from 0 to 3600 seconds"
                    .to_owned(),
            ));
        }
        Ok(Choice {
            cases: chosen("case", &self.cases, &Case::ALL, Case::name)?,
            designs: chosen("design", &self.designs, &Design::ALL, Design::name)?,
        })
    }
}

/// The ones of `all` whose names are in `names`, or all if there are no names.
fn chosen<T: Copy>(
    what: &'static str,
    names: &[String],
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> Result<Vec<T>, Error> {
    let is_known = |name: &&String| all.iter().any(|&one| name_of(one) == *name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(Error::Unknown {
            what,
            name: name.clone(),
            known: all.iter().map(|&one| name_of(one)).collect(),
        });
    }
    let wanted = |one: &&T| names.is_empty() || names.iter().any(|name| name == name_of(**one));
    Ok(all.iter().filter(wanted).copied().collect())
}
