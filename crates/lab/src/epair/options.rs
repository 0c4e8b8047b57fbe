//! The options of the command, checked.

use super::{Case, Design};
use crate::harness::compare;
use crate::{Comparison, Error};
use std::ffi::OsString;

/// The designs and cases to compare.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The options of every comparison. The time is for each case but `waits` and `programs`.
    #[command(flatten)]
    pub common: Comparison,
    /// Wakeups of each design's receiver in the case `waits`, all rounds together
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub wakeups: u64,
    /// Pages that the client gets in the case `programs`
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub pages: u64,
    /// A program and arguments that come to [`child`](super::child), for the case `programs`, which needs a
    /// process in a namespace of its own; empty: it is skipped.
    #[arg(skip)]
    pub child: Vec<OsString>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Comparison {
                seconds_per_case: 5.0,
                reps: 5,
                ..Comparison::default()
            },
            wakeups: 100_000,
            pages: 500,
            child: Vec::new(),
        }
    }
}

/// The chosen designs and cases.
pub(crate) type Choice = compare::Choice<Case, Design>;

impl Options {
    /// The names, looked up.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        if self.wakeups == 0 {
            return Err(Error::Bad("it takes at least one wakeup".to_owned()));
        }
        let (cases, designs) = (&Case::ALL, &Design::ALL);
        self.common.choose(cases, designs)
    }
}
