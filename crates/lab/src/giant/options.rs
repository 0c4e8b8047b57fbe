//! The options of the command, checked.

use super::{Case, Design};
use crate::harness::compare;
use crate::{Comparison, Error};

/// The designs and cases to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// The options of every comparison. The time is that of each design in each case on each number of CPUs; the case
    /// `mysql` takes as long as its queries do.
    pub common: Comparison,
    /// Queries of each client in a round of the case `mysql`.
    pub queries: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Comparison::default(),
            queries: 1000,
        }
    }
}

/// The chosen designs and cases.
pub(crate) type Choice = compare::Choice<Case, Design>;

impl Options {
    /// The names, looked up.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        if self.queries == 0 {
            return Err(Error::Bad("a client asks at least once".to_owned()));
        }
        let (cases, designs) = (&Case::ALL, &Design::ALL);
        self.common.choose(cases, designs)
    }
}
