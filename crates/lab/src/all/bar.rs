//! The progress of all experiments: a bar on a terminal, two lines for each experiment in a pipe.
//!
//! The bar's length is in seconds: about the time of each experiment on a machine of two cores
//! ([`Experiment::seconds`]). The estimate of the rest is corrected by the real times of the experiments that have
//! ended.

use crate::report::{Experiment, Pace};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How far it is.
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    /// Lines of progress, where there is no terminal for a bar.
    lines: bool,
    schedule: Schedule,
    running: Option<Running>,
}

struct Running {
    name: &'static str,
    since: Instant,
    /// Its last text.
    text: String,
}

impl Bar {
    /// Of these experiments.
    pub(crate) fn new(wanted: bool, experiments: &[&Experiment], pace: Pace) -> Self {
        let schedule = Schedule::new(experiments.iter().map(|one| pace.pick(one.seconds)));
        let on_terminal = wanted && io::stderr().is_terminal();
        let bar = on_terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:20} {wide_msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self {
            bar,
            lines: wanted && !on_terminal,
            schedule,
            running: None,
        }
    }

    /// The next experiment begins.
    pub(crate) fn begin(&mut self, experiment: &Experiment) {
        let (at, of) = self.schedule.place();
        let about = self.schedule.expected(Duration::ZERO);
        let name = experiment.name;
        self.line(&format!(
            "{name} ({at} of {of}): begins, about {}",
            short(about)
        ));
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
        match &self.bar {
            Some(bar) => bar.println(&what),
            None => self.line(&what),
        }
    }

    fn show(&self) {
        let (Some(bar), Some(running)) = (&self.bar, &self.running) else {
            return;
        };
        let (at, of) = self.schedule.place();
        let elapsed = running.since.elapsed();
        let left = short(self.schedule.left(elapsed));
        bar.set_position((self.schedule.part(elapsed) * 1000.0) as u64);
        let about = if running.text.starts_with(running.name) {
            running.text.clone()
        } else {
            format!("{} {}", running.name, running.text)
        };
        bar.set_message(format!("{at} of {of}, about {left} left: {about}"));
    }

    fn line(&self, text: &str) {
        if self.lines {
            // A closed standard error does not end the measurement.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
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

    /// The part of all that is done.
    fn part(&self, elapsed: Duration) -> f64 {
        let done = self.took.iter().sum::<f64>() + elapsed.as_secs_f64();
        done / (done + self.left(elapsed).as_secs_f64())
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
        // Breaks when the bar stands at its end while experiments are left, or believes the plan against the clock.
        let mut schedule = Schedule::new([10, 30, 60].into_iter());
        let seconds = Duration::from_secs;
        assert_eq!(schedule.left(seconds(0)), seconds(100));
        schedule.ended(seconds(20));
        assert_eq!(schedule.place(), (2, 3));
        assert_eq!(schedule.left(seconds(30)), seconds(30 + 120));
        assert_eq!(schedule.left(seconds(500)), seconds(3 + 120));
        let parts = [0, 30, 60, 600].map(|elapsed| schedule.part(seconds(elapsed)));
        assert!(parts.is_sorted() && parts[3] < 1.0, "{parts:?}");
    }
}
