//! The figures of one run.

/// The data of a run. Rates and shares are of the measured time; the others of the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Payload that arrived, in Mbit/s; of several flows that of the first.
    pub(crate) mbps: f64,
    /// The first flow's share of all bytes that arrived, in per cent.
    pub(crate) share: f64,
    /// Segments sent again, of 100 sent.
    pub(crate) resent_percent: f64,
    /// Retransmission timeouts, where the stack counts them.
    pub(crate) timeouts: Option<f64>,
    /// The mean round-trip time in milliseconds that the link gave: twice its delay, and the wait in the queue.
    pub(crate) rtt_ms: f64,
}

/// One of them: its name as a measure, its unit, its value.
pub(crate) struct Measure {
    pub(crate) name: Option<&'static str>,
    pub(crate) unit: &'static str,
    pub(crate) value: fn(&Figures) -> Option<f64>,
}

/// The measures of each run. The claims are about the first.
pub(crate) const MEASURES: &[Measure] = &[
    Measure {
        name: None,
        unit: "Mbit/s",
        value: |f| Some(f.mbps),
    },
    Measure {
        name: Some("share"),
        unit: "%",
        value: |f| Some(f.share),
    },
    Measure {
        name: Some("resent"),
        unit: "% of segments",
        value: |f| Some(f.resent_percent),
    },
    Measure {
        name: Some("timeouts"),
        unit: "timeouts",
        value: |f| f.timeouts,
    },
    Measure {
        name: Some("rtt"),
        unit: "ms",
        value: |f| Some(f.rtt_ms),
    },
];
