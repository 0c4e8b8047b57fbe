//! The figures of a run: as the programs of `peers` print them, and as this program reads them.

use serde_json::Value;
use std::time::Duration;

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figures {
    /// Of a stream.
    Stream {
        /// Payload that was received, in Gbit/s.
        gbps: f64,
        /// The time of all CPUs, in seconds for 10^9 bytes.
        cpu_s_per_gb: f64,
    },
    /// Of requests and responses.
    Rr {
        /// Round trips a second.
        per_s: f64,
        /// The 50, 99 and 99.9 of a hundred that took the least, in microseconds.
        us: [f64; 3],
    },
}

impl Figures {
    /// From bytes, time and CPU time.
    pub(crate) fn of_stream(bytes: u64, took: Duration, cpu: Duration) -> Self {
        Self::Stream {
            gbps: bytes as f64 * 8.0 / took.as_nanos().max(1) as f64,
            cpu_s_per_gb: cpu.as_nanos() as f64 / bytes.max(1) as f64,
        }
    }

    /// From round trips in nanoseconds, and the time.
    pub(crate) fn of_rr(mut ns: Vec<u32>, took: Duration) -> Self {
        ns.sort_unstable();
        let quantile = |part: f64| {
            let at = (ns.len() as f64 * part) as usize;
            let ns = ns.get(at).or(ns.last()).copied();
            f64::from(ns.unwrap_or(0)) / 1e3
        };
        Self::Rr {
            per_s: ns.len() as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE),
            us: [0.5, 0.99, 0.999].map(quantile),
        }
    }

    /// The figure by which contestants are compared, and its unit.
    pub(crate) fn main(&self) -> f64 {
        match self {
            Self::Stream { gbps, .. } => *gbps,
            Self::Rr { us, .. } => us[0],
        }
    }

    /// The line that `peers/bench_inproc.sh` parses.
    pub(crate) fn to_json(self) -> String {
        match self {
            Self::Stream { gbps, cpu_s_per_gb } => {
                format!("{{\"gbps\":{gbps:.2},\"cpu_s_per_GB\":{cpu_s_per_gb:.3}}}")
            }
            Self::Rr {
                per_s,
                us: [p50, p99, p999],
            } => format!(
                "{{\"rr_s\":{per_s:.0},\"p50_us\":{p50:.2},\"p99_us\":{p99:.2},\"p999_us\":{p999:.2}}}"
            ),
        }
    }

    /// From such a line.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        match number("gbps") {
            Some(gbps) => Some(Self::Stream {
                gbps,
                cpu_s_per_gb: number("cpu_s_per_GB")?,
            }),
            None => Some(Self::Rr {
                per_s: number("rr_s")?,
                us: [number("p50_us")?, number("p99_us")?, number("p999_us")?],
            }),
        }
    }
}
