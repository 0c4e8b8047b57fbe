//! The options of the command, checked.

use super::case::{CASES, Case};
use super::designs::{CATALOG, Entry};
use crate::harness::compare;
use crate::{Comparison, Error};
use std::ffi::OsString;
use std::path::PathBuf;

/// The designs and cases to compare.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The options of every comparison.
    #[command(flatten)]
    pub common: Comparison,
    /// The MTU of the guest's interface, 576 to 65520
    #[arg(long, value_name = "N", default_value_t = MTU_MAX)]
    pub mtu: u16,
    /// A program and arguments that come to [`child`](super::child) once a job follows: each design has processes in
    /// namespaces of their own. Empty: all designs are skipped.
    #[arg(skip)]
    pub child: Vec<OsString>,
    /// The tool to measure.
    #[arg(skip)]
    pub tool: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Comparison {
                seconds_per_case: 3.0,
                reps: 3,
                ..Comparison::default()
            },
            mtu: MTU_MAX,
            child: Vec::new(),
            tool: PathBuf::from("mbuma"),
        }
    }
}

/// The chosen designs and cases.
pub(crate) type Choice = compare::Choice<Case, Entry>;

impl Options {
    /// The names, looked up.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return Err(Error::Bad(format!(
                "the MTU is {MTU_MIN} to {MTU_MAX}, as all of the tools take it"
            )));
        }
        self.common.choose(CASES, CATALOG)
    }
}

const MTU_MIN: u16 = 576;
const MTU_MAX: u16 = 65_520;
