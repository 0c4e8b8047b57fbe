//! How long to measure, and on which CPUs: the options of every experiment.

use super::sys;
use crate::Error;
use std::time::Duration;

/// How hard to measure, and where.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    /// Rounds.
    pub(crate) reps: usize,
    /// Of one reading.
    pub(crate) reading: Duration,
    /// At most two CPUs.
    pub(crate) cpus: Vec<usize>,
}

impl Effort {
    /// This many rounds, which together take this time for each design in each case.
    ///
    /// # Errors
    /// [`Error::Bad`]: no round, or no time, or too much of it.
    pub(crate) fn new(reps: usize, seconds: f64) -> Result<Self, Error> {
        if reps == 0 || !(seconds > 0.0 && seconds < 3600.0) {
            return Err(Error::Bad(
                "it takes at least one round, and a time from 0 to 3600 seconds".to_owned(),
            ));
        }
        Ok(Self {
            reps,
            reading: Duration::from_secs_f64(seconds / reps as f64),
            cpus: sys::allowed_cpus().into_iter().take(2).collect(),
        })
    }

    /// The CPU of a measurement with one thread.
    pub(crate) fn one_cpu(&self) -> usize {
        self.cpus.first().copied().unwrap_or(0)
    }

    /// The two CPUs that data crosses between, if there are two.
    pub(crate) fn pair_of_cpus(&self) -> Option<(usize, usize)> {
        Some((*self.cpus.first()?, *self.cpus.get(1)?))
    }

    /// The same, or one CPU twice.
    pub(crate) fn two_cpus(&self) -> (usize, usize) {
        let cpu = self.one_cpu();
        self.pair_of_cpus().unwrap_or((cpu, cpu))
    }
}
