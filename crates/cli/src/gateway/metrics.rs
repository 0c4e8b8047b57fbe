//! The figures as Prometheus reads them.
//!
//! Invariants: each series has a type and a help line once, before its samples.
//! Source: the Prometheus text exposition format, version 0.0.4.

use std::fmt::Write;

use kern::Unit;
use mbuma::TcpHistogram;

use super::figures::{Figures, MetricType, Sample};

impl Figures {
    /// The figures as Prometheus reads them.
    pub(super) fn to_prometheus(&self) -> String {
        let mut out = String::with_capacity(8 << 10);
        let samples = self.samples();
        for series in samples.chunk_by(|a, b| a.series.name == b.series.name) {
            series
                .first()
                .into_iter()
                .for_each(|sample| head(&mut out, sample));
            series.iter().for_each(|sample| line(&mut out, sample));
        }
        let version = self.version;
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "# HELP mbuma_build_info The version, as a label.\n# TYPE mbuma_build_info gauge\n\
             mbuma_build_info{{version=\"{version}\"}} 1\n"
        );
        let histograms = self.tcp_histograms.iter();
        histograms.for_each(|one| histogram(&mut out, one));
        out
    }
}

/// A histogram of TCP's: its buckets, then the sum and the number of all.
fn histogram(out: &mut String, one: &TcpHistogram) {
    let unit = match one.figure.unit {
        Unit::Count => "",
        Unit::Bytes => "_bytes",
        Unit::Seconds => "_seconds",
    };
    let (name, help) = (
        format!("mbuma_tcp_{}{unit}", one.figure.name),
        one.figure.help,
    );
    // Writing to a string cannot fail.
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} histogram\n");
    for (bound, count) in &one.buckets {
        let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {count}");
    }
    let (count, sum) = (one.count, one.sum);
    let _ = write!(
        out,
        "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}\n"
    );
}

fn head(out: &mut String, Sample { series, .. }: &Sample) {
    let kind = match series.kind {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
    };
    let (name, help) = (&series.name, series.help);
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "# HELP mbuma_{name} {help}\n# TYPE mbuma_{name} {kind}\n"
    );
}

fn line(out: &mut String, sample: &Sample) {
    let (name, value) = (&sample.series.name, sample.value);
    let _ = match sample.labels.as_ref() {
        "" => writeln!(out, "mbuma_{name} {value}"),
        labels => writeln!(out, "mbuma_{name}{{{labels}}} {value}"),
    };
}

#[cfg(test)]
mod tests;
