//! The options of the command, checked.

use super::{CASES, Case, Design};
use crate::harness::compare;
use crate::{Comparison, Error};

/// The designs and cases to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The options of every comparison.
    pub common: Comparison,
    /// How many workers a stack has.
    pub workers: Vec<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Comparison {
                seconds_per_case: 2.0,
                reps: 5,
                ..Comparison::default()
            },
            workers: vec![1, 2],
        }
    }
}

/// The chosen designs and cases.
pub(crate) type Choice = compare::Choice<Case, Design>;

impl Options {
    /// The names, looked up.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        if self.workers.is_empty() || self.workers.iter().any(|n| !(1..=64).contains(n)) {
            return Err(Error::Bad("a stack has 1 to 64 workers".to_owned()));
        }
        let designs = &Design::ALL;
        self.common.choose(&CASES, designs)
    }
}
