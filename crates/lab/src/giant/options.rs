//! The options of the command, checked.

use super::{Case, Design};
use crate::harness::compare;
use crate::{Comparison, Error};

/// The designs and cases to compare.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab giant --list                         the cases and the designs
  cargo lab giant --case mysql --reps 31
  cargo lab giant --design mp,giant --json | jq .

FreeBSD saw two CPUs do 1.07 times the queries of one under Giant and 1.42 times without, 30 to
40 % from removing it, and no change on loopback TCP and UDP, whose packets went to another
thread (deferred dispatch) with it and without. UNIX sockets have no packets to defer.
`switches` are context switches, `waits` are locks that were not free, `waited` is the time that
all threads together waited for them: each for one query, one request, or 64 KiB of a stream.")]
pub struct Options {
    /// The options of every comparison. The time is that of each design in each case on each number of CPUs; the case
    /// `mysql` takes as long as its queries do.
    #[command(flatten)]
    pub common: Comparison,
    /// Queries of each of the 11 clients in a round of the case `mysql`
    #[arg(long, value_name = "N", default_value_t = 1000)]
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
