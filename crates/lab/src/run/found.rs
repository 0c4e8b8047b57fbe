//! The results of a reading.

use super::bulk::{Got, Span};
use super::downloads::Shares;
use serde::{Deserialize, Serialize};

/// The results of a reading; measures that a case does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Found {
    /// Payload of bulk streams.
    pub(crate) gbps: Option<f64>,
    /// All bytes, also before and after the time over which the speed is taken.
    pub(crate) bytes: u64,
    /// Round trips, or how long connections take to be made: 50 and 99 of a hundred.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    /// Connections, or requests.
    pub(crate) per_s: Option<f64>,
    /// The same for each second of the tool's CPU time.
    pub(crate) per_cpu_s: Option<f64>,
    /// Connections that failed.
    pub(crate) failed: u64,
    /// Jain's index of downloads, and per cent of them that moved in every second.
    pub(crate) jain: Option<f64>,
    pub(crate) moving_percent: Option<f64>,
    /// The speed, in per cent of the speed without a disturbance.
    pub(crate) kept_percent: Option<f64>,
    /// The client's CPU time, in per cent of one CPU.
    pub(crate) client_percent: Option<f64>,
    /// The most memory that the tool ever had, in MB.
    pub(crate) peak_mb: Option<f64>,
    /// The tool's CPU time during all of it, for 10^9 bytes.
    pub(crate) cpu_s_per_gb: Option<f64>,
}

impl Found {
    pub(crate) fn of_stream(got: &[Got], span: Span) -> Self {
        let counted: u64 = got.iter().map(|got| got.counted).sum();
        let speed = counted as f64 * 8.0 / span.counted.as_nanos().max(1) as f64;
        Self {
            gbps: (!got.is_empty()).then_some(speed),
            bytes: got.iter().map(|got| got.all).sum(),
            ..Self::default()
        }
    }

    /// Of times in nanoseconds, and of the stream beside them.
    pub(crate) fn of_round_trips(ns: Vec<u32>, beside: &[Got], span: Span) -> Self {
        Self::of_stream(beside, span).with_times(ns)
    }

    /// With the quantiles of these times.
    fn with_times(mut self, mut ns: Vec<u32>) -> Self {
        ns.sort_unstable();
        let quantile = |part: f64| {
            let at = (ns.len() as f64 * part) as usize;
            ns.get(at).map(|ns| f64::from(*ns) / 1e3)
        };
        (self.p50_us, self.p99_us) = (quantile(0.5), quantile(0.99));
        self
    }

    /// Of how long commands or leases took, in nanoseconds.
    pub(crate) fn of_times(ns: Vec<u32>) -> Self {
        Self::default().with_times(ns)
    }

    /// The same beside a disturbance that `alone` was without.
    pub(crate) fn compared_with(self, alone: &Self) -> Self {
        let of = |(beside, alone)| 100.0 * beside / f64::max(alone, f64::MIN_POSITIVE);
        Self {
            kept_percent: self.gbps.zip(alone.gbps).map(of),
            bytes: self.bytes + alone.bytes,
            ..self
        }
    }

    pub(crate) fn of_downloads(shares: &Shares) -> Self {
        Self {
            gbps: Some(shares.gbps()),
            bytes: shares.bytes(),
            jain: Some(shares.jain()),
            moving_percent: Some(shares.moving_percent()),
            ..Self::default()
        }
    }

    /// Of the times that connections took to be made, in nanoseconds.
    pub(crate) fn of_connects(ns: Vec<u32>, failed: u64, span: Span) -> Self {
        let done = ns.len() as f64;
        let found = Self {
            per_s: Some(done / span.counted.as_secs_f64().max(f64::MIN_POSITIVE)),
            failed,
            ..Self::default()
        };
        found.with_times(ns)
    }
}
