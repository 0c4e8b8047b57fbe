//! A bar with whiskers for each record of a block.

use super::{Area, stroke, title, words};
use crate::harness::record::Record;
use crate::harness::table::figure;
use plotters::prelude::*;

const WIDE: i32 = 900;
const ROW: i32 = 26;
/// Room for names on the left, for figures on the right, for the title above.
const LEFT: i32 = 170;
const RIGHT: i32 = 120;
const TOP: i32 = 50;
const OURS: RGBColor = RGBColor(32, 100, 170);
const THEIRS: RGBColor = RGBColor(170, 170, 170);

/// The picture of a block.
pub(super) fn svg(block: &[Record]) -> String {
    let mut svg = String::new();
    let high = TOP + ROW * (block.len() as i32 + 1);
    let root = SVGBackend::with_string(&mut svg, (WIDE as u32, high as u32)).into_drawing_area();
    let _ = root.fill(&WHITE);
    words(
        &root,
        &format!("{} (median; whiskers: quartiles)", title(&block[0])),
        (10, 20),
        false,
    );
    let most = block
        .iter()
        .filter_map(|r| r.p75.or(r.median))
        .fold(0.0, f64::max)
        .max(f64::MIN_POSITIVE);
    for (record, row) in block.iter().zip(0..) {
        bar(&root, record, TOP + row * ROW, most);
    }
    let _ = root.present();
    drop(root);
    svg
}

fn bar(root: &Area<'_>, record: &Record, top: i32, most: f64) {
    let Some(median) = record.median else {
        return;
    };
    // A figure that is not spread has no whiskers.
    let (p25, p75) = record.p25.zip(record.p75).unwrap_or((median, median));
    let x = |value: f64| LEFT + (value.max(0.0) / most * f64::from(WIDE - LEFT - RIGHT)) as i32;
    let middle = top + ROW / 2 - 3;
    let colour = if record.ours { OURS } else { THEIRS };
    let name = match record.mode {
        Some(mode) => format!("{} ({mode})", record.design),
        None => record.design.to_owned(),
    };
    words(root, &name, (LEFT - 8, middle), true);
    let _ = root.draw(&Rectangle::new(
        [(LEFT, top), (x(median), top + ROW - 6)],
        colour.filled(),
    ));
    stroke(root, vec![(x(p25), middle), (x(p75), middle)], BLACK);
    stroke(
        root,
        vec![(x(p25), middle - 4), (x(p25), middle + 4)],
        BLACK,
    );
    stroke(
        root,
        vec![(x(p75), middle - 4), (x(p75), middle + 4)],
        BLACK,
    );
    words(
        root,
        &figure(Some(median)),
        (x(p75.max(median)) + 8, middle),
        false,
    );
}
