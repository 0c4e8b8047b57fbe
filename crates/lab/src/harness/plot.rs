//! Records as pictures: bars for each case, lines for measures over time.

mod bars;
mod lines;

use super::record::Record;
use crate::Error;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// The surface of a picture.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Makes the directory of the pictures, if necessary: before the measurement, so that an error does not come after it.
pub(crate) fn make(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(|source| failed(dir, source))
}

/// Draws every block into a file of its own in `dir`, which [`make`] made.
pub(crate) fn draw(dir: &Path, records: &[Record]) -> Result<(), Error> {
    let measured: Vec<Record> = records
        .iter()
        .filter(|r| r.median.is_some())
        .cloned()
        .collect();
    let mut drawn = BTreeSet::new();
    for first in &measured {
        let name = picture(first);
        if drawn.contains(&name) {
            continue;
        }
        let of_picture = |record: &&Record| picture(record) == name;
        let block: Vec<Record> = measured.iter().filter(of_picture).cloned().collect();
        let svg = match first.at_s {
            Some(_) => lines::svg(&block),
            None => bars::svg(&block),
        };
        let path = dir.join(format!("{name}.svg"));
        fs::write(&path, svg).map_err(|source| failed(&path, source))?;
        drawn.insert(name);
    }
    Ok(())
}

/// The file name of a record's picture.
fn picture(of: &Record) -> String {
    let threads = of.threads.map(|threads| format!("-{threads}-threads"));
    let survivors = of
        .survivors_percent
        .map(|percent| format!("-{percent}-percent"));
    let measure = of.measure.map(|measure| format!("-{measure}"));
    let unit = (of.unit == "ns/page").then(|| "-cost".to_owned());
    let parts: String = [threads, survivors, measure, unit]
        .into_iter()
        .flatten()
        .collect();
    let size = sized(of, |size| format!("-{size}"));
    format!("{}-{}{size}{parts}", of.experiment, of.case)
}

/// The title of a picture.
fn title(of: &Record) -> String {
    let threads = of.threads.map(|threads| format!(", {threads} threads"));
    let survivors = of
        .survivors_percent
        .map(|percent| format!(", {percent} % stay"));
    let measure = of.measure.map(|measure| format!(", {measure}"));
    let parts: String = [threads, survivors, measure]
        .into_iter()
        .flatten()
        .collect();
    let size = sized(of, |size| format!(" of {size} B"));
    format!("{}{size}{parts}: {}", of.case, of.unit)
}

/// Words about the size; none where a record is about no size.
fn sized(of: &Record, words: impl FnOnce(usize) -> String) -> String {
    match of.size {
        0 => String::new(),
        size => words(size),
    }
}

pub(crate) fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io {
        doing: format!("writing {}", path.display()),
        source,
    }
}

/// Words at a point; `right` puts their end there, not their beginning.
pub(crate) fn words(root: &Area<'_>, text: &str, at: (i32, i32), right: bool) {
    let side = if right { HPos::Right } else { HPos::Left };
    let style = ("sans-serif", 14)
        .into_font()
        .into_text_style(root)
        .pos(Pos::new(side, VPos::Center));
    // A backend that writes to a string does not fail; nor do the other calls like this one.
    let _ = root.draw(&Text::new(text.to_owned(), at, style));
}

pub(crate) fn stroke(root: &Area<'_>, points: Vec<(i32, i32)>, style: impl Into<ShapeStyle>) {
    let _ = root.draw(&PathElement::new(points, style));
}
