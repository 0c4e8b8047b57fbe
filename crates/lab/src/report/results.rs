//! `results.jsonl`: all that a report is made from, written line by line while it is measured.
//!
//! ```text
//!   {"report": Head}               one, the first: which run, and where
//!   {"experiment": "refs", ...}    records, as `cargo lab refs --json` prints them
//!   {"ended": Ended}               behind those of an experiment
//! ```
//!
//! Invariants: a file that ends early gives a report of its complete lines; a file of another kind is refused with the
//! line's number.

use super::experiment::Experiment;
use super::machine::Machine;
use super::registry::{experiments, find};
use super::rows::Row;
use crate::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The description of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Head {
    /// Of this format: [`FORMAT`].
    pub(crate) format: u32,
    /// When it began, in seconds since 1970.
    pub(crate) began: u64,
    /// Version and commit of the program.
    pub(crate) build: String,
    /// It was built with optimisation.
    pub(crate) optimised: bool,
    /// The allocators of others are built in.
    pub(crate) peers: bool,
    /// How hard was measured.
    pub(crate) pace: String,
    pub(crate) machine: Machine,
}

/// How an experiment ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Ended {
    pub(crate) experiment: String,
    /// The command line, or an equal one.
    pub(crate) command: String,
    pub(crate) seconds: f64,
    /// The reason of a failure.
    pub(crate) failed: Option<String>,
}

/// The saved records of an experiment.
pub(crate) struct Section {
    pub(crate) experiment: &'static Experiment,
    pub(crate) rows: Vec<Row>,
    /// None: it was not run, or was interrupted.
    pub(crate) ended: Option<Ended>,
}

impl Section {
    /// Why a claim has no verdict.
    pub(crate) fn why_unjudged(&self) -> String {
        let missing = || "a design that the claim is about has no reading".to_owned();
        self.trouble().unwrap_or_else(missing)
    }

    /// Why a part of it is missing.
    pub(crate) fn trouble(&self) -> Option<String> {
        match (&self.ended, self.rows.is_empty()) {
            (Some(ended), _) if ended.failed.is_some() => ended.failed.clone(),
            (Some(_), true) => Some("it has no measurement".to_owned()),
            (None, true) => Some("it was not run".to_owned()),
            (None, false) => Some("it was interrupted".to_owned()),
            (Some(_), false) if self.rows.iter().all(|row| row.median.is_none()) => {
                Some(format!("unavailable here: {}", self.rows[0].note))
            }
            (Some(_), false) => None,
        }
    }
}

/// A file that was read.
pub(crate) struct Results {
    pub(crate) head: Head,
    /// A section for each experiment that there is, in their order.
    pub(crate) sections: Vec<Section>,
}

impl Results {
    /// From a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let doing = || format!("reading {}", path.display());
        let text = fs::read_to_string(path).map_err(|source| Error::Io {
            doing: doing(),
            source,
        })?;
        Self::parse(&text).map_err(|why| Error::Bad(format!("{}:{why}", path.display())))
    }

    /// From text; the error begins with the number of the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let head = head(first).map_err(|why| format!("1: {why}"))?;
        let empty = |experiment: &&'static Experiment| Section {
            experiment,
            rows: Vec::new(),
            ended: None,
        };
        let mut results = Self {
            head,
            sections: experiments().iter().map(empty).collect(),
        };
        for (nth, line) in lines {
            let taken = results.take(line);
            taken.map_err(|why| format!("{}: {why}", nth + 1))?;
        }
        Ok(results)
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let value = object(line)?;
        if let Some(ended) = value.get("ended") {
            let ended: Ended = typed(ended)?;
            let section = self.section(&ended.experiment)?;
            section.ended = Some(ended);
        } else if value.get("experiment").is_some() {
            let row: Row = typed(&value)?;
            self.section(&row.experiment)?.rows.push(row);
        } else {
            return Err("neither a record nor the end of an experiment".to_owned());
        }
        Ok(())
    }

    fn section(&mut self, name: &str) -> Result<&mut Section, String> {
        let mut all = self.sections.iter_mut();
        all.find(|section| section.experiment.name == name)
            .ok_or_else(|| format!("there is no experiment `{name}` in this version"))
    }
}

/// A record of this experiment, or why it is none.
pub(crate) fn record(line: &str, experiment: &str) -> Result<Row, String> {
    let row: Row = typed(&object(line)?)?;
    match row.experiment == experiment && find(experiment).is_some() {
        true => Ok(row),
        false => Err(format!("a record of `{}`", row.experiment)),
    }
}

fn head(line: &str) -> Result<Head, String> {
    let value = object(line)?;
    let head = value.get("report").ok_or("no results of `cargo lab all`")?;
    match head.get("format").and_then(Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => typed(head),
        _ => Err(format!(
            "another format than {FORMAT}, the one of this version"
        )),
    }
}

fn object(line: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match value.is_object() {
        true => Ok(value),
        false => Err("no JSON object".to_owned()),
    }
}

fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

/// A line for the file, without its end.
pub(crate) fn line(name: &str, value: &impl Serialize) -> String {
    // Numbers, strings and options of them have no way to fail.
    serde_json::json!({ name: value }).to_string()
}

/// The format that this version writes and reads.
pub(crate) const FORMAT: u32 = 1;

#[cfg(test)]
mod tests;
