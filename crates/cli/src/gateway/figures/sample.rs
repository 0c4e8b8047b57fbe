//! One figure at one moment, with all that is needed to show it.

use std::borrow::Cow;

use kern::Unit;

/// Whether a figure only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum MetricType {
    /// It only grows.
    Counter,
    /// It grows and shrinks.
    Gauge,
}

/// A metric of Prometheus: samples that differ in their labels alone.
#[derive(Clone, Debug)]
pub(in super::super) struct Series {
    /// Without the prefix that all have.
    pub(in super::super) name: Cow<'static, str>,
    pub(in super::super) kind: MetricType,
    pub(in super::super) unit: Unit,
    pub(in super::super) help: &'static str,
}

/// A figure and its value.
#[derive(Clone, Debug)]
pub(in super::super) struct Sample {
    /// Its name in templates and tables; empty for one of many of a kind, such as a zone's.
    pub(in super::super) name: Cow<'static, str>,
    pub(in super::super) series: Series,
    /// `key="value"`, separated by commas; empty where the series has one sample.
    pub(in super::super) labels: Cow<'static, str>,
    pub(in super::super) value: f64,
}

impl Sample {
    /// The only sample of a series.
    pub(super) fn single(name: impl Into<Cow<'static, str>>, series: Series, value: f64) -> Sample {
        Sample {
            name: name.into(),
            series,
            labels: "".into(),
            value,
        }
    }

    /// One of several samples of a series.
    pub(super) fn labelled(series: Series, labels: String, value: f64) -> Sample {
        Sample {
            name: "".into(),
            series,
            labels: labels.into(),
            value,
        }
    }
}
