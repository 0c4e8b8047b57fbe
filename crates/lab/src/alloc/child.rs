//! Jobs that run in a process of their own, so that memory left by one design does not count for another.
//!
//! A job is one line of words, and its result one line of JSON on standard output. Invariant: a job that is written
//! down and read again is the same job.

use super::cases::Case;
use super::catalog::{CATALOG, PurgedBy};
use crate::Error;
use crate::error::written;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::process::{Command, Stdio};
use std::str::FromStr;

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    /// [`Case::Spike`] or [`Case::PurgeDip`].
    pub(crate) case: Case,
    /// The design.
    pub(crate) design: String,
    /// Bytes of an item.
    pub(crate) size: usize,
    /// The size of the spike.
    pub(crate) megabytes: usize,
    /// How much of it stays.
    pub(crate) survivors_percent: f64,
    /// The CPU that allocates, and the CPU that frees.
    pub(crate) cpus: (usize, usize),
    /// The time for which memory is observed.
    pub(crate) seconds: f64,
    /// The trigger by which the design gives memory back.
    pub(crate) purge: PurgedBy,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            case,
            design,
            size,
            megabytes,
            survivors_percent,
            cpus,
            seconds,
            purge,
        } = self;
        write!(
            f,
            "{case} {design} {size} {megabytes} {survivors_percent} {} {} {seconds} {purge}",
            cpus.0, cpus.1
        )
    }
}

impl FromStr for Job {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        read(text).ok_or_else(|| Error::Bad(format!("`{text}` is no job")))
    }
}

fn read(text: &str) -> Option<Job> {
    let words: Vec<&str> = text.split(' ').collect();
    let &[
        case,
        design,
        size,
        megabytes,
        survivors,
        one,
        other,
        seconds,
        purge,
    ] = words.as_slice()
    else {
        return None;
    };
    Some(Job {
        case: Case::ALL.into_iter().find(|one| one.name() == case)?,
        design: design.to_owned(),
        size: size.parse().ok()?,
        megabytes: megabytes.parse().ok()?,
        survivors_percent: survivors.parse().ok()?,
        cpus: (one.parse().ok()?, other.parse().ok()?),
        seconds: seconds.parse().ok()?,
        purge: purge.parse().ok()?,
    })
}

/// Does a job that a parent wrote down, and writes its result to `out`.
///
/// # Errors
/// [`Error`] if it is no job, or `out` cannot be written.
pub fn child(job: &str, out: &mut dyn Write) -> Result<(), Error> {
    let result = job.parse::<Job>()?.run().map_err(Error::Bad)?;
    written(writeln!(out, "{result}"))
}

impl Job {
    /// Does the job here. Returns the line of JSON, or the error.
    fn run(&self) -> Result<String, String> {
        let entry = CATALOG.iter().find(|entry| entry.name == self.design);
        let make = entry.ok_or("there is no such design")?.make;
        let subject = make(self.size).map_err(|why| why.to_string())?;
        let result = match self.case {
            Case::Spike => serde_json::to_string(&subject.spike(self)),
            Case::PurgeDip => serde_json::to_string(&subject.purge(self)),
            _ => return Err("this case has no process of its own".to_owned()),
        };
        result.map_err(|error| error.to_string())
    }

    /// Runs the job: by `command` with the job as its last argument, or here if there is none.
    pub(crate) fn ask<T: DeserializeOwned>(&self, command: &[OsString]) -> Result<T, String> {
        let Some((program, args)) = command.split_first() else {
            return parsed(self.run()?.as_bytes());
        };
        let output = Command::new(program)
            .args(args)
            .arg(self.to_string())
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| format!("failed: its process did not start: {error}"))?;
        match output.status.success() {
            true => parsed(&output.stdout),
            false => Err(why(&output.stderr)),
        }
    }
}

fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| format!("failed: its result is not one: {error}"))
}

/// The reason of a failure, from the process's last line: an absent design reports its own reason.
fn why(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let mut lines = said
        .lines()
        .rev()
        .filter(|line| !line.starts_with("note: "));
    let last = lines.next().unwrap_or("its process ended");
    match last.find("skipped: ") {
        Some(at) => last[at..].to_owned(),
        None => format!("failed: {last}"),
    }
}

#[cfg(test)]
mod tests;
