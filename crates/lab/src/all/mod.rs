//! `cargo lab all`: every experiment, each in a process of its own, and one report of it all.
//!
//! ```text
//!   options.rs  what to run        child.rs  one experiment, and what it says
//!   progress.rs how far it is      mod.rs    results.jsonl, line by line, and the page from it
//! ```
//!
//! Records are saved as they come, so an interrupted run gives a report of its finished part. The page is always made
//! from the saved file, so `--from` makes the same page later.
//!
//! Invariants: an experiment that fails ends neither the run nor the report; the report says so, and so does the exit
//! status.

mod child;
mod options;
mod progress;

pub use options::Options;

use crate::Error;
use crate::error::{unwritable, written};
use crate::report::Experiment;
use crate::report::machine::{Machine, now};
use crate::report::page::{self, judged};
use crate::report::results::{self, Ended, FORMAT, Head, Results};
use child::Said;
use progress::RunProgress;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs the chosen experiments and writes the report; returns the names of those that failed.
///
/// # Errors
/// [`Error`]: an unknown name, saved results that are none, or a file that cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let saved = match &options.from {
        Some(file) => file.clone(),
        None => measure(options, out)?,
    };
    let results = Results::read(&saved)?;
    fs::create_dir_all(&options.out).map_err(|source| unwritable(&options.out, source))?;
    let index = options.out.join("index.html");
    fs::write(&index, page::render(&results)).map_err(|source| unwritable(&index, source))?;
    if !options.json {
        written(out.write_all(summary(&results, &index).as_bytes()))?;
    }
    let ended = results.sections.iter().filter_map(|s| s.ended.as_ref());
    let failed = ended.filter(|ended| ended.failed.is_some());
    Ok(failed.map(|ended| ended.experiment.clone()).collect())
}

/// Runs the experiments and saves their records; returns the file.
fn measure(options: &Options, out: &mut dyn Write) -> Result<PathBuf, Error> {
    let chosen = options.choose()?;
    fs::create_dir_all(&options.out).map_err(|source| unwritable(&options.out, source))?;
    let path = options.out.join("results.jsonl");
    let file = File::create(&path).map_err(|source| unwritable(&path, source))?;
    let mut saved = Saved { file, path };
    saved.line(&results::line("report", &head(options)))?;
    let mut progress = RunProgress::new(options.progress, &chosen, options.pace);
    for experiment in chosen {
        one(experiment, options, &mut saved, &mut progress, out)?;
    }
    Ok(saved.path)
}

/// Runs one and saves its records. Only a failed write is an error here.
fn one(
    experiment: &Experiment,
    options: &Options,
    saved: &mut Saved,
    progress: &mut RunProgress,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let arguments = options.pace.pick(experiment.arguments);
    let words = [experiment.name, "--json"].into_iter();
    let words = words
        .chain(arguments.split_whitespace())
        .map(OsString::from);
    let command: Vec<OsString> = options.program.iter().cloned().chain(words).collect();
    let at_most = Duration::from_secs(options.pace.pick(experiment.seconds) * 10 + 60);
    progress.begin(experiment);
    let began = Instant::now();
    let mut records = 0;
    let mut broken = Ok(());
    let ran = child::run(&command, at_most, |said| {
        match said {
            Said::Result(line) => {
                results::record(line, experiment.name)?;
                records += 1;
                broken = keep(line, options, saved, out);
                if broken.is_err() {
                    return Err("its results cannot be written".to_owned());
                }
            }
            Said::Progress(text) => progress.hear(Some(text)),
            Said::Nothing => progress.hear(None),
        }
        Ok(())
    });
    broken?;
    let failed = ran.err();
    progress.end(records, failed.as_deref());
    let ended = Ended {
        experiment: experiment.name.to_owned(),
        command: format!("cargo lab {} {arguments}", experiment.name)
            .trim_end()
            .to_owned(),
        seconds: began.elapsed().as_secs_f64(),
        failed,
    };
    saved.line(&results::line("ended", &ended))
}

/// Saves a record, and prints it if a program reads.
fn keep(
    line: &str,
    options: &Options,
    saved: &mut Saved,
    out: &mut dyn Write,
) -> Result<(), Error> {
    saved.line(line)?;
    match options.json {
        true => written(writeln!(out, "{line}").and_then(|()| out.flush())),
        false => Ok(()),
    }
}

fn head(options: &Options) -> Head {
    Head {
        format: FORMAT,
        began: now(),
        build: options.build.clone(),
        optimised: !cfg!(debug_assertions),
        peers: cfg!(feature = "peers"),
        pace: options.pace.name().to_owned(),
        machine: Machine::look(),
    }
}

/// The file that results are saved in.
struct Saved {
    file: File,
    path: PathBuf,
}

impl Saved {
    fn line(&mut self, line: &str) -> Result<(), Error> {
        writeln!(self.file, "{line}").map_err(|source| unwritable(&self.path, source))
    }
}

/// The claims and their verdicts, for a terminal.
fn summary(results: &Results, index: &Path) -> String {
    let mut text = String::new();
    for section in &results.sections {
        // An experiment that was not chosen has no records.
        let claims = section.ended.iter().flat_map(|_| section.experiment.claims);
        for claim in claims {
            let (verdict, here) = match judged(section, claim) {
                Some(found) => (found.verdict.words(), found.here),
                None => ("not measured", section.why_unjudged()),
            };
            let (name, figure) = (section.experiment.name, claim.figure);
            let _ = writeln!(text, "{verdict:<15}  {name:<7} {figure}; here: {here}");
        }
        if let Some(failed) = section
            .ended
            .as_ref()
            .and_then(|ended| ended.failed.as_ref())
        {
            let _ = writeln!(
                text,
                "{:<15}  {:<7} {failed}",
                "failed", section.experiment.name
            );
        }
    }
    text + &format!("\nthe report: {}\n", index.display())
}

#[cfg(test)]
mod tests;
