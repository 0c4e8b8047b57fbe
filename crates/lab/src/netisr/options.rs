//! The options of the command, checked.

use super::{CASES, Case, Design};
use crate::harness::compare;
use crate::{Comparison, Error};

/// The designs and cases to compare.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo lab netisr --list                        the cases and the designs
  cargo lab netisr --case udp-rr-epair,tcp-rr-epair
  cargo lab netisr --workers 2 --design direct,deferred --json | jq .

`moved` is the part of the packets that were queued for another CPU than that of their
arrival. Packets to ourselves are always queued; directly dispatched ones are then handled by the
thread that queued them.")]
pub struct Options {
    /// The options of every comparison.
    #[command(flatten)]
    pub common: Comparison,
    /// Workers, and so CPUs, of a stack
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2")]
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
