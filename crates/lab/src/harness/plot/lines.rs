//! A line for each contestant of a block with a measure over time.
//!
//! The moments are spaced evenly, not by time: the first tenth of a second matters as much as the seconds after it.

use super::{Area, stroke, title, words};
use crate::harness::record::Record;
use plotters::prelude::*;

const WIDE: i32 = 900;
const HIGH: i32 = 460;
const LEFT: i32 = 60;
const RIGHT: i32 = 190;
const TOP: i32 = 50;
const BOTTOM: i32 = 40;
/// The least distance of two names beside the ends of their lines.
const NAME: i32 = 17;

/// The picture of a block.
pub(super) fn svg(block: &[Record]) -> String {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDE as u32, HIGH as u32)).into_drawing_area();
    let _ = root.fill(&WHITE);
    words(&root, &title(&block[0]), (10, 20), false);
    let scale = Scale::of(block);
    axes(&root, &scale);
    let mut ends = Vec::new();
    for (line, nth) in block.chunk_by(|a, b| a.design == b.design).zip(0..) {
        let colour = colour(nth);
        let thick = if line[0].ours { 3 } else { 1 };
        let points: Vec<(i32, i32)> = line
            .iter()
            .filter_map(|record| scale.point(record))
            .collect();
        ends.extend(points.last().map(|end| (end.1, line[0].design, colour)));
        stroke(&root, points, colour.stroke_width(thick));
    }
    names(&root, ends);
    let _ = root.present();
    drop(root);
    svg
}

/// From a record to a point.
struct Scale {
    moments_s: Vec<f64>,
    most: f64,
}

impl Scale {
    fn of(block: &[Record]) -> Self {
        let mut moments_s: Vec<f64> = block.iter().filter_map(|r| r.at_s).collect();
        moments_s.sort_by(f64::total_cmp);
        moments_s.dedup();
        let most = block.iter().filter_map(|r| r.median).fold(1.0, f64::max);
        Self { moments_s, most }
    }

    fn x(&self, nth: usize) -> i32 {
        LEFT + (WIDE - LEFT - RIGHT) * nth as i32 / (self.moments_s.len().max(2) as i32 - 1)
    }

    fn y(&self, value: f64) -> i32 {
        HIGH - BOTTOM - (value.max(0.0) / self.most * f64::from(HIGH - TOP - BOTTOM)) as i32
    }

    fn point(&self, record: &Record) -> Option<(i32, i32)> {
        let nth = self
            .moments_s
            .iter()
            .position(|at| Some(*at) == record.at_s)?;
        Some((self.x(nth), self.y(record.median?)))
    }
}

fn axes(root: &Area<'_>, scale: &Scale) {
    let (right, bottom) = (WIDE - RIGHT, HIGH - BOTTOM);
    for quarter in 0..=4 {
        let value = scale.most * f64::from(quarter) / 4.0;
        let y = scale.y(value);
        stroke(root, vec![(LEFT, y), (right, y)], RGBColor(220, 220, 220));
        words(root, &format!("{value:.0}"), (LEFT - 6, y), true);
    }
    for (at, nth) in scale.moments_s.iter().zip(0..) {
        words(
            root,
            &format!("{at} s"),
            (scale.x(nth) - 10, bottom + 16),
            false,
        );
    }
    stroke(
        root,
        vec![(LEFT, TOP), (LEFT, bottom), (right, bottom)],
        BLACK,
    );
}

/// Names beside the ends of their lines, pushed apart where lines end together: first downwards, then up again where
/// that went beyond the picture.
fn names(root: &Area<'_>, mut ends: Vec<(i32, &str, RGBColor)>) {
    ends.sort_by_key(|(y, ..)| *y);
    let mut places = Vec::with_capacity(ends.len());
    let mut least = TOP - 10;
    for (y, ..) in &ends {
        least = least.max(*y);
        places.push(least);
        least += NAME;
    }
    let mut most = HIGH - 10;
    for place in places.iter_mut().rev() {
        *place = most.min(*place);
        most = *place - NAME;
    }
    for ((y, name, colour), at) in ends.into_iter().zip(places) {
        let from = WIDE - RIGHT;
        stroke(root, vec![(from + 2, y), (from + 14, at)], colour);
        words(root, name, (from + 18, at), false);
    }
}

/// Colours that stay apart for colour-blind readers (Okabe and Ito).
fn colour(nth: usize) -> RGBColor {
    const COLOURS: [RGBColor; 8] = [
        RGBColor(0, 114, 178),
        RGBColor(213, 94, 0),
        RGBColor(0, 158, 115),
        RGBColor(204, 121, 167),
        RGBColor(230, 159, 0),
        RGBColor(86, 180, 233),
        RGBColor(120, 120, 120),
        RGBColor(0, 0, 0),
    ];
    COLOURS[nth % COLOURS.len()]
}
