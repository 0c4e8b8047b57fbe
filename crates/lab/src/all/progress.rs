//! The progress of all experiments: a line on a terminal, two lines for each experiment in a pipe.
//!
//! The plan has about the time of each experiment on a machine of two cores ([`Experiment::seconds`]). The estimate of
//! the rest is corrected by the real times of the experiments that have ended.

use crate::harness::progress::Progress;
use crate::report::{Experiment, Pace};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How far it is.
pub(crate) struct RunProgress {
    wanted: bool,
    on_terminal: bool,
    line: Progress,
    schedule: Schedule,
    running: Option<Running>,
}

struct Running {
    name: &'static str,
    since: Instant,
    /// Its last text.
    text: String,
}

impl RunProgress {
    /// Of these experiments.
    pub(crate) fn new(wanted: bool, experiments: &[&Experiment], pace: Pace) -> Self {
        Self {
            wanted,
            on_terminal: wanted && io::stderr().is_terminal(),
            line: Progress::new(wanted),
            schedule: Schedule::new(experiments.iter().map(|one| pace.pick(one.seconds))),
            running: None,
        }
    }

    /// The next experiment begins.
    pub(crate) fn begin(&mut self, experiment: &Experiment) {
        let name = experiment.name;
        if !self.on_terminal {
            let (at, of) = self.schedule.place();
            let about = short(self.schedule.expected(Duration::ZERO));
            self.tell(&format!("{name} ({at} of {of}): begins, about {about}"));
        }
        self.running = Some(Running {
            name,
            since: Instant::now(),
            text: String::new(),
        });
        self.show();
    }

    /// A line of progress, or none after a pause.
    pub(crate) fn hear(&mut self, text: Option<&str>) {
        if let (Some(running), Some(text)) = (&mut self.running, text) {
            running.text = text.to_owned();
        }
        self.show();
    }

    /// It has ended.
    pub(crate) fn end(&mut self, records: usize, failed: Option<&str>) {
        let Some(Running { name, since, .. }) = self.running.take() else {
            return;
        };
        let took = since.elapsed();
        self.schedule.ended(took);
        let what = match failed {
            None => format!("{name}: {records} records in {}", short(took)),
            Some(why) => format!("{name}: failed after {}: {why}", short(took)),
        };
        self.tell(&what);
    }

    fn show(&mut self) {
        let Some(running) = self.running.as_ref().filter(|_| self.on_terminal) else {
            return;
        };
        let (at, of) = self.schedule.place();
        let left = short(self.schedule.left(running.since.elapsed()));
        let about = match running.text.starts_with(running.name) {
            true => running.text.clone(),
            false => format!("{} {}", running.name, running.text),
        };
        let text = format!("{at} of {of}, about {left} left: {about}");
        self.line.say(&text);
    }

    fn tell(&mut self, text: &str) {
        if self.wanted {
            self.line.clear();
            // A closed standard error does not end the measurement.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

/// The plan and the real times, in seconds.
struct Schedule {
    planned: Vec<f64>,
    /// How long those that have ended took.
    took: Vec<f64>,
}

impl Schedule {
    fn new(planned: impl Iterator<Item = u64>) -> Self {
        Self {
            planned: planned.map(|seconds| seconds.max(1) as f64).collect(),
            took: Vec::new(),
        }
    }

    fn ended(&mut self, took: Duration) {
        self.took.push(took.as_secs_f64());
    }

    /// The number of the running one, from 1, and of all.
    fn place(&self) -> (usize, usize) {
        (self.took.len() + 1, self.planned.len())
    }

    /// The factor by which this machine is slower than planned.
    fn scale(&self) -> f64 {
        let planned: f64 = self.planned.iter().take(self.took.len()).sum();
        match planned > 0.0 {
            true => self.took.iter().sum::<f64>() / planned,
            false => 1.0,
        }
    }

    /// How much of the running experiment is left, if it has run for this time: never 0.
    fn expected(&self, elapsed: Duration) -> Duration {
        let planned = self.planned.get(self.took.len()).copied().unwrap_or(0.0) * self.scale();
        Duration::from_secs_f64((planned - elapsed.as_secs_f64()).max(planned / 20.0))
    }

    /// How much of all is left.
    fn left(&self, elapsed: Duration) -> Duration {
        let later: f64 = self.planned.iter().skip(self.took.len() + 1).sum();
        self.expected(elapsed) + Duration::from_secs_f64(later * self.scale())
    }
}

fn short(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_the_times_of_finished_experiments() {
        // Breaks when no time is left while experiments are, or the plan is believed against the clock.
        let mut schedule = Schedule::new([10, 30, 60].into_iter());
        let seconds = Duration::from_secs;
        assert_eq!(schedule.left(seconds(0)), seconds(100));
        schedule.ended(seconds(20));
        assert_eq!(schedule.place(), (2, 3));
        assert_eq!(schedule.left(seconds(30)), seconds(30 + 120));
        assert_eq!(schedule.left(seconds(500)), seconds(3 + 120));
    }
}
