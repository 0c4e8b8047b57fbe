//! The list of experiments, which `cargo lab all` runs and the report describes.
//!
//! Invariant: every experiment of `cargo lab` is in it, each name once (tests).

use super::experiment::Experiment;
use crate::{
    alloc, epair, extpgs, giant, netisr, refs, run, sendfile, serve, sizes, splice, stream, unix,
    wan,
};

static EXPERIMENTS: [&Experiment; 14] = [
    &refs::report::EXPERIMENT,
    &extpgs::report::EXPERIMENT,
    &sendfile::report::EXPERIMENT,
    &splice::report::EXPERIMENT,
    &giant::report::EXPERIMENT,
    &netisr::report::EXPERIMENT,
    &epair::report::EXPERIMENT,
    &alloc::report::EXPERIMENT,
    &sizes::report::EXPERIMENT,
    &stream::report::EXPERIMENT,
    &unix::report::EXPERIMENT,
    &wan::report::EXPERIMENT,
    &run::report::EXPERIMENT,
    &serve::report::EXPERIMENT,
];

/// All experiments, in the order in which they run and are shown: that of the seeds, then those that have none.
#[must_use]
pub fn experiments() -> &'static [&'static Experiment] {
    &EXPERIMENTS
}

/// The one of this name.
pub(crate) fn find(name: &str) -> Option<&'static Experiment> {
    let mut all = experiments().iter().copied();
    all.find(|experiment| experiment.name == name)
}
