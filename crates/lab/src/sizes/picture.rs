//! The histogram of packet sizes as a picture: seed 004's figure 2.

use super::histogram::{Bin, Bins};
use super::{Findings, trace::Trace};
use crate::Error;
use crate::harness::plot::{failed, stroke, words};
use plotters::prelude::*;
use std::fs;
use std::path::Path;

const WIDE: i32 = 900;
const HIGH: i32 = 420;
const LEFT: i32 = 70;
const RIGHT: i32 = 20;
const TOP: i32 = 50;
const BOTTOM: i32 = 50;
const BAR: RGBColor = RGBColor(32, 100, 170);

/// Draws the histogram into `dir`, which is there.
pub(super) fn draw(dir: &Path, found: &Findings) -> Result<(), Error> {
    let path = dir.join("sizes-histogram.svg");
    let picture = svg(&found.trace, &found.bins(Bins::Linear));
    fs::write(&path, picture).map_err(|source| failed(&path, source))
}

fn svg(trace: &Trace, bins: &[Bin]) -> String {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDE as u32, HIGH as u32)).into_drawing_area();
    // A backend that writes to a string does not fail; nor do the other calls like this one.
    let _ = root.fill(&WHITE);
    let title = format!(
        "packets by size in bytes: {} packets, {}",
        trace.frames.len(),
        trace.source
    );
    words(&root, &title, (10, 20), false);
    let most = bins.iter().map(|bin| bin.packets).max().unwrap_or(1).max(1);
    let (bottom, high) = (HIGH - BOTTOM, HIGH - BOTTOM - TOP);
    let y = |packets: f64| bottom - (packets / most as f64 * f64::from(high)) as i32;
    for quarter in 0..=4 {
        let packets = most as f64 * f64::from(quarter) / 4.0;
        let at = y(packets);
        stroke(
            &root,
            vec![(LEFT, at), (WIDE - RIGHT, at)],
            RGBColor(220, 220, 220),
        );
        words(&root, &format!("{packets:.0}"), (LEFT - 6, at), true);
    }
    let step = (WIDE - LEFT - RIGHT) / (bins.len().max(1) as i32);
    for (bin, nth) in bins.iter().zip(0..) {
        let left = LEFT + nth * step;
        let corners = [(left + 2, y(bin.packets as f64)), (left + step - 2, bottom)];
        let _ = root.draw(&Rectangle::new(corners, BAR.filled()));
        words(&root, &bin.from.to_string(), (left, bottom + 16), false);
    }
    let _ = root.present();
    drop(root);
    svg
}
