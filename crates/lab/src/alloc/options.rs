//! The options of the command, checked.

use super::cases::Case;
use super::catalog::{CATALOG, Entry};
use super::child::Job;
use super::design::ALIGN;
use crate::harness::effort;
use crate::{Comparison, Error};
use std::ffi::OsString;

/// The designs and cases to compare.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The options of every comparison. The time is that of each design in each case of each size.
    #[command(flatten)]
    pub common: Comparison,
    /// Bytes of an item
    #[arg(
        long = "size",
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "256,2048"
    )]
    pub sizes: Vec<usize>,
    /// The size of a spike, in the cases that follow memory
    #[arg(long = "spike-mb", value_name = "MB", default_value_t = 512)]
    pub spike_megabytes: usize,
    /// The time for which memory is observed after a spike, at most 5 s.
    #[arg(skip = 5.0)]
    pub spike_seconds: f64,
    /// A program and arguments that, with one more, come to [`child`](super::child); empty: no process is started, and
    /// memory left by one design shows in the next one's figure.
    #[arg(skip)]
    pub child: Vec<OsString>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            common: Comparison::default(),
            sizes: vec![256, 2048],
            spike_megabytes: 512,
            spike_seconds: 5.0,
            child: Vec::new(),
        }
    }
}

/// The chosen designs and cases.
pub(crate) struct Choice {
    /// In the order of [`Case::ALL`].
    pub(crate) cases: Vec<Case>,
    /// In the order of the catalog.
    pub(crate) entries: Vec<Entry>,
    /// As given.
    pub(crate) sizes: Vec<usize>,
    /// How hard to measure.
    pub(crate) effort: Effort,
}

/// How hard to measure, and where.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// The options of every experiment.
    pub(crate) timing: effort::Effort,
    /// Of a spike.
    pub(crate) megabytes: usize,
    /// After a spike.
    pub(crate) spike_seconds: f64,
    /// How to start a process of this program, if a process is used.
    pub(crate) child: Vec<OsString>,
}

impl Effort {
    /// Rounds of the case `spike`, which takes long and spreads little.
    pub(crate) fn spike_rounds(&self) -> usize {
        self.timing.reps.div_ceil(11)
    }

    /// A job for a design.
    pub(crate) fn job(
        &self,
        case: Case,
        size: usize,
        survivors_percent: f64,
        entry: &Entry,
    ) -> Job {
        Job {
            case,
            design: entry.name.to_owned(),
            size,
            megabytes: self.megabytes,
            survivors_percent,
            cpus: self.timing.two_cpus(),
            seconds: self.spike_seconds,
            purge: entry.purge,
        }
    }
}

impl Options {
    /// The names, looked up.
    pub(crate) fn choose(&self) -> Result<Choice, Error> {
        let cases = &Case::ALL;
        let chosen = self.common.choose(cases, CATALOG)?;
        for &size in &self.sizes {
            if !(SIZE_MIN..=SIZE_MAX).contains(&size) || !size.is_power_of_two() {
                return Err(Error::Bad(format!(
                    "a size is a power of two from {SIZE_MIN} to {SIZE_MAX}, not {size}"
                )));
            }
        }
        if !(1..=2048).contains(&self.spike_megabytes) {
            return Err(Error::Bad("a spike is of 1 to 2048 MB".to_owned()));
        }
        let effort = Effort {
            timing: chosen.effort,
            megabytes: self.spike_megabytes,
            spike_seconds: self.spike_seconds,
            child: self.child.clone(),
        };
        Ok(Choice {
            cases: chosen.cases,
            entries: chosen.designs,
            sizes: self.sizes.clone(),
            effort,
        })
    }
}

/// Sizes that every design can do: room for the header and a word, and two items to a page.
const SIZE_MIN: usize = 64;
const SIZE_MAX: usize = 2048;

const _: () =
    assert!(SIZE_MIN >= super::header::HEADER_BYTES + 8 && SIZE_MIN.is_multiple_of(ALIGN));
