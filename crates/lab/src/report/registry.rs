//! The list of experiments, which `cargo lab all` runs and the report describes.
//!
//! Invariant: every experiment of `cargo lab` is in it, each name once (tests).

use super::experiment::Experiment;
use crate::{
    alloc, epair, extpgs, giant, netisr, refs, run, sendfile, serve, sizes, splice, stream, unix,
    wan,
};

/// All experiments, in the order in which they run and are shown: that of the seeds, then those that have none.
#[must_use]
pub fn experiments() -> &'static [&'static dyn Experiment] {
    &[
        &refs::report::Refs,
        &extpgs::report::Extpgs,
        &sendfile::report::Sendfile,
        &splice::report::Splice,
        &giant::report::Giant,
        &netisr::report::Netisr,
        &epair::report::Epair,
        &alloc::report::Alloc,
        &sizes::report::Sizes,
        &stream::report::Stream,
        &unix::report::Unix,
        &wan::report::Wan,
        &run::report::Run,
        &serve::report::Serve,
    ]
}

/// The one of this name.
pub(crate) fn find(name: &str) -> Option<&'static dyn Experiment> {
    let mut all = experiments().iter().copied();
    all.find(|experiment| experiment.name() == name)
}
