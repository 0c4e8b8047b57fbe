//! A comparison: what is asked of it, case after case of it, and what it can be asked for.
//!
//! Called by: the experiments. Calls: [`Progress`], [`plot`].

use super::plot;
use super::progress::Progress;
use crate::error::written;
use crate::{Error, Record};
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What to compare, how long, and how to show it. Empty lists mean all.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of cases.
    pub cases: Vec<String>,
    /// Names of designs.
    pub designs: Vec<String>,
    /// How long each design is measured in each case, all rounds together.
    pub seconds_per_case: f64,
    /// Rounds.
    pub reps: usize,
    /// JSON lines instead of tables.
    pub json: bool,
    /// Where to draw pictures.
    pub plot: Option<PathBuf>,
    /// Say on standard error how far it is, if that is a terminal.
    pub progress: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cases: Vec::new(),
            designs: Vec::new(),
            seconds_per_case: 0.3,
            reps: 11,
            json: false,
            plot: None,
            progress: true,
        }
    }
}

/// Measures case after case, writes what each has to say, and draws all of it in the end.
pub(crate) fn each<C>(
    cases: impl IntoIterator<Item = C>,
    progress: bool,
    plot: Option<&Path>,
    out: &mut dyn Write,
    mut measure: impl FnMut(C, &mut Progress) -> (Vec<Record>, String),
) -> Result<(), Error> {
    let mut progress = Progress::new(progress);
    let mut all = Vec::new();
    for case in cases {
        let (records, text) = measure(case, &mut progress);
        progress.clear();
        written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
        all.extend(records);
    }
    plot.map_or(Ok(()), |dir| plot::draw(dir, &all))
}

/// Records as a program reads them, or as `text` shows them.
pub(crate) fn shown(json: bool, records: &[Record], text: impl FnOnce() -> String) -> String {
    if json {
        let line = |record: &Record| record.to_json() + "\n";
        return records.iter().map(line).collect();
    }
    text()
}

/// Writes what there is to choose from: names, and a line about each.
pub(crate) fn list<C: Display, D: Display>(
    out: &mut dyn Write,
    cases: impl IntoIterator<Item = (&'static str, C)>,
    designs: impl IntoIterator<Item = (&'static str, D)>,
) -> Result<(), Error> {
    let text = format!("cases:\n{}\ndesigns:\n{}", lines(cases), lines(designs));
    written(out.write_all(text.as_bytes()))
}

fn lines<D: Display>(things: impl IntoIterator<Item = (&'static str, D)>) -> String {
    let things: Vec<_> = things.into_iter().collect();
    let wide = things.iter().map(|(name, _)| name.len()).max();
    let wide = wide.unwrap_or(0) + 1;
    let line = |(name, about): &(_, D)| format!("  {name:<wide$} {about}\n");
    things.iter().map(line).collect()
}
