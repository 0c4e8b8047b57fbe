//! Histograms of connections at their end: round trips, window sizes, retransmissions.
//!
//! A sum over all connections hides the few bad ones, and a list of open connections misses the short ones. Each
//! connection that has measured a round trip counts once.
//!
//! Locks: none; each CPU counts for itself.

use std::time::Duration;

use kern::{Counter, Figure, Time, Unit};

use super::pcb::Tcb;

/// Upper bounds of a histogram; beyond the last there is one bin more.
const BOUNDS: usize = 10;

/// A histogram's declaration.
struct Declared {
    figure: Figure,
    /// In its unit, or in millionths of it.
    bounds: [u64; BOUNDS],
    /// A value is in millionths of the unit.
    is_micro: bool,
}

const fn figure(name: &'static str, unit: Unit, help: &'static str) -> Figure {
    Figure { name, unit, help }
}

/// A histogram of times from a millisecond to an hour.
const fn of_time(name: &'static str, help: &'static str) -> Declared {
    const SECOND: u64 = 1_000_000;
    Declared {
        figure: figure(name, Unit::Seconds, help),
        bounds: [
            1_000,
            10_000,
            50_000,
            200_000,
            SECOND,
            5 * SECOND,
            20 * SECOND,
            60 * SECOND,
            600 * SECOND,
            3600 * SECOND,
        ],
        is_micro: true,
    }
}

/// All of them, in the order of [`Values`].
const DECLARED: [Declared; 7] = [
    Declared {
        figure: figure(
            "connection_rtt",
            Unit::Seconds,
            "Smoothed round trips of connections at their end.",
        ),
        bounds: [
            100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000,
        ],
        is_micro: true,
    },
    Declared {
        figure: figure(
            "connection_cwnd",
            Unit::Bytes,
            "Congestion windows of connections at their end.",
        ),
        bounds: [
            3_000, 10_000, 20_000, 50_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000,
            30_000_000,
        ],
        is_micro: false,
    },
    Declared {
        figure: figure(
            "connection_retransmitted",
            Unit::Bytes,
            "Bytes that connections had sent again at their end.",
        ),
        bounds: [
            0, 1_500, 5_000, 15_000, 50_000, 150_000, 500_000, 1_500_000, 5_000_000, 50_000_000,
        ],
        is_micro: false,
    },
    Declared {
        figure: figure(
            "connection_reordering",
            Unit::Count,
            "Segments by which data of connections was overtaken at most.",
        ),
        bounds: [0, 1, 2, 3, 5, 10, 20, 50, 100, 200],
        is_micro: false,
    },
    of_time(
        "connection_busy",
        "Time in which connections had data to send or unacknowledged, at their end.",
    ),
    of_time(
        "connection_window_limited",
        "Time in which the peer's window held back data of connections, at their end.",
    ),
    of_time(
        "connection_buffer_limited",
        "Time in which the send buffer limited connections, at their end.",
    ),
];

/// The values of one connection, by [`DECLARED`].
type Values = [u64; DECLARED.len()];

/// The histograms of a stack.
#[derive(Debug, Default)]
pub(crate) struct EndHistograms {
    of: [Bins; DECLARED.len()],
}

#[derive(Debug, Default)]
struct Bins {
    counts: [Counter; BOUNDS + 1],
    sum: Counter,
}

/// One histogram, as Prometheus has them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TcpHistogram {
    /// Its name, unit and meaning.
    pub figure: Figure,
    /// Upper bounds in the unit, each with the number of connections whose value is not larger; so they ascend both.
    pub buckets: Vec<(f64, u64)>,
    /// Connections in all.
    pub count: u64,
    /// The sum of their values, in the unit.
    pub sum: f64,
}

/// The values of a connection that has measured a round trip.
#[cold]
pub(crate) fn values(t: &Tcb, now: Time) -> Option<Values> {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let rtt = micros(t.send.rtt.smoothed()?);
    let times = t.send.times(now);
    let cwnd = u64::from(t.send.window.cwnd);
    Some([
        rtt,
        cwnd,
        t.send.recovery.resent_bytes(),
        t.send.reordering.degree().into(),
        micros(times.busy),
        micros(times.peer_window),
        micros(times.send_buffer),
    ])
}

impl EndHistograms {
    /// A connection has ended.
    pub(crate) fn record(&self, values: Values) {
        for ((bins, declared), value) in self.of.iter().zip(&DECLARED).zip(values) {
            let bin = declared.bounds.partition_point(|bound| *bound < value);
            if let Some(count) = bins.counts.get(bin) {
                count.inc();
            }
            bins.sum.add(value);
        }
    }

    /// What was counted so far.
    pub(crate) fn get(&self) -> Vec<TcpHistogram> {
        let all = self.of.iter().zip(&DECLARED);
        all.map(|(bins, declared)| bins.get(declared)).collect()
    }
}

impl Bins {
    fn get(&self, declared: &Declared) -> TcpHistogram {
        let in_unit = |value: u64| match declared.is_micro {
            true => value as f64 / 1e6,
            false => value as f64,
        };
        let mut count = 0;
        let mut upto = |bin: usize| {
            count += self.counts[bin].get();
            count
        };
        let bounds = declared.bounds.iter().enumerate();
        let buckets = bounds.map(|(bin, bound)| (in_unit(*bound), upto(bin)));
        let buckets = buckets.collect();
        TcpHistogram {
            figure: declared.figure,
            buckets,
            count: upto(BOUNDS),
            sum: in_unit(self.sum.get()),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_its_bucket_and_all_larger_ones() {
        // Breaks when a bound does not belong to its bucket, or buckets are not cumulative: quantiles are wrong then.
        let histograms = EndHistograms::default();
        for rtt in [100, 101, 5_000_000] {
            histograms.record([rtt, 14_480, 0, 0, 0, 0, 0]);
        }
        let [rtt, cwnd, again, ..] = &histograms.get()[..] else {
            panic!("seven are declared");
        };
        assert_eq!(rtt.buckets[..3], [(0.0001, 1), (0.0003, 2), (0.001, 2)]);
        assert_eq!((rtt.buckets[9], rtt.count), ((3.0, 2), 3));
        assert!((rtt.sum - 5.000_201).abs() < 1e-9, "{}", rtt.sum);
        assert_eq!(cwnd.buckets[1..3], [(10_000.0, 0), (20_000.0, 3)]);
        assert_eq!((again.buckets[0], again.sum), ((0.0, 3), 0.0));
    }
}
