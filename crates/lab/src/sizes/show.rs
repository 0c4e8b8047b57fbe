//! The results as tables for people, each beside the seed's figure.

use super::Findings;
use super::calls::PATHS;
use super::designs::{MBUFS, MINI, SKB};
use super::histogram::{Bin, Bins};
use super::tally::{CLASSES, Tally};
use crate::harness::table::{self, Line};
use std::fmt::Write;

/// All blocks, an empty line between each two.
pub(super) fn text(found: &Findings) -> String {
    let blocks = [sizes(found), memory(found), classes(found), calls(found)];
    blocks.join("\n")
}

/// Columns of the longest bar of a histogram.
const BAR: u64 = 50;

fn sizes(found: &Findings) -> String {
    let trace = &found.trace;
    let packets = trace.frames.len();
    let mean = trace.bytes() / packets as u64;
    let mut out = format!(
        "packet sizes (figure 2): {packets} packets of {mean} bytes on average, {}\n",
        trace.source
    );
    for (bins, about) in [
        (Bins::Linear, "bytes"),
        (Bins::PowersOfTwo, "by powers of 2"),
    ] {
        let _ = writeln!(out, "  {about:<14} {:>9} {:>6}", "packets", "%");
        histogram(&mut out, &found.bins(bins), packets as u64);
    }
    let share = |n: usize| n as f64 * 100.0 / packets as f64;
    let [small, large] = found.modes().map(share);
    let between = 100.0 - small - large;
    let _ = writeln!(
        out,
        "  seed 004: sizes are bimodal. Here: {small:.0} % to 128 bytes, {large:.0} % over 1024, \
        {between:.0} % between."
    );
    out
}

fn histogram(out: &mut String, bins: &[Bin], packets: u64) {
    let most = bins.iter().map(|bin| bin.packets).max().unwrap_or(1).max(1);
    for bin in bins {
        let percent = bin.packets as f64 * 100.0 / packets as f64;
        // A size with any packet is seen.
        let bar = "#".repeat((bin.packets * BAR).div_ceil(most) as usize);
        let line = format!(
            "  {:<14} {:>9} {percent:>6.1}  {bar}",
            bin.label(),
            bin.packets
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn memory(found: &Findings) -> String {
    let title = format!(
        "memory (section 4): bytes a packet, how many are wasted, items; peak of {} packets at once",
        found.queue
    );
    let columns = ["alloc'd", "wasted", "wasted%", "items", "peak KB"].map(str::to_owned);
    let line = |tally: &Tally| Line {
        design: tally.design.name,
        figures: vec![
            tally.all.each(tally.all.allocated),
            tally.all.each(tally.all.wasted()),
            Some(tally.all.wasted_percent()),
            tally.all.each(tally.items),
            Some(tally.peak as f64 / 1024.0),
        ],
        note: tally.design.note,
    };
    let lines: Vec<Line<'_>> = found.tallies.iter().map(line).collect();
    table::grid(&title, &columns, &lines) + &judged(found)
}

/// The seed's claims about memory, with their verdicts.
fn judged(found: &Findings) -> String {
    let waste = |name: &str| found.tally(name).map_or(0.0, |t| t.all.wasted_percent());
    let idle = mbuf::MHLEN as f64 * 100.0 / (mbuf::MSIZE + (2 << 10)) as f64;
    let (mbufs, skb) = (waste(MBUFS.name), waste(SKB.name));
    let saved = match (found.tally(MBUFS.name), found.tally(MINI.name)) {
        (Some(mbufs), Some(mini)) => {
            100.0 - mini.all.allocated as f64 * 100.0 / mbufs.all.allocated as f64
        }
        _ => 0.0,
    };
    format!(
        "  seed 004: an mbuf idles about 6 % beside its 2 KiB cluster. Here: {idle:.1} % ({} of {} bytes).\n  \
        seed 004: that mbufs waste more than skbs is a myth. Here: mbufs {mbufs:.1} %, skbs {skb:.1} %.\n  \
        seed 004: mini-mbufs would likely waste less. Here: they take {:.1} % {} than mbufs.\n",
        mbuf::MHLEN,
        mbuf::MSIZE + (2 << 10),
        saved.abs(),
        if saved < 0.0 { "more" } else { "less" },
    )
}

fn classes(found: &Findings) -> String {
    let title = "wasted bytes a packet, by its size in bytes";
    let seen: Vec<usize> = (0..CLASSES.len())
        .filter(|&i| found.tallies.iter().any(|t| t.classes[i].packets > 0))
        .collect();
    let columns: Vec<String> = seen.iter().map(|&i| CLASSES[i].0.to_owned()).collect();
    let line = |tally: &Tally| Line {
        design: tally.design.name,
        figures: (seen.iter())
            .map(|&i| tally.classes[i].each(tally.classes[i].wasted()))
            .collect(),
        note: "",
    };
    let lines: Vec<Line<'_>> = found.tallies.iter().map(line).collect();
    table::grid(title, &columns, &lines)
}

fn calls(found: &Findings) -> String {
    let title = "calls (figure 3): of the buffer API, on four ways through a host";
    let columns = found.calls.first().map_or_else(Vec::new, |(_, calls)| {
        calls.named().map(|(name, _)| name.to_owned()).into()
    });
    let lines: Vec<Line<'_>> = (found.calls.iter())
        .map(|(path, calls)| Line {
            design: path.name,
            figures: calls.named().map(|(_, n)| Some(n as f64)).into(),
            note: "",
        })
        .collect();
    let mut out = table::grid(title, &columns, &lines);
    for path in PATHS {
        let _ = writeln!(out, "  {}: {}", path.name, path.about);
    }
    let usual = |name: &str| name == "echo" || name == "forward";
    let of_usual = found.calls.iter().filter(|(path, _)| usual(path.name));
    let (copied, pullups) = of_usual.fold((0, 0), |(copied, pullups), (_, calls)| {
        (copied + calls.copied, pullups + calls.pullup)
    });
    let _ = writeln!(
        out,
        "  seed 004: no m_pullup copied, 14239 m_getcl to 954 m_clget. Here: of {pullups} pullups on the ways\n  \
        echo and forward {copied} copied; a cluster always comes with its mbuf, so there is no m_clget."
    );
    out
}
