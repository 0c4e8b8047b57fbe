//! Paths on which other stacks were slow or stood still, each named after its fault.
//!
//! Of the other faults of that kind, `tests/tcp` has a receiver that reneges (`sack`), a smaller MTU in mid-flight
//! (`path_mtu`), blocks 2^31 away (`sack`), a repair that is lost (`rack`), and cookies that data overtakes
//! (`cookies`). `main` has reordering.

use std::sync::Arc;
use std::time::Duration;

use kern::{Clock, Time};
use mbuma::Config;
use sim::Faults;

use super::path::{Flow, Path, RATE_BPS, loss, run};

/// Goodput of a path that is full, in Mbit/s: frames of 1514 bytes carry 1448.
const FULL: f64 = 95.6;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn flow(path: &Path, secs: u64, tune: impl Fn(&mut Config)) -> Flow {
    let flow = run(path, 1, Duration::from_secs(secs), tune);
    let s = flow.stats;
    println!(
        "{:34} {:5.2} Mbit/s, again {}, recoveries {}, undone {}, timeouts {}, probes {}",
        path.name,
        flow.mbps,
        s.retransmitted_segments,
        s.fast_retransmits,
        s.spurious_recoveries,
        s.timeouts,
        s.tail_loss_probes
    );
    flow
}

/// A clock that shows only multiples of its grain.
#[derive(Debug)]
struct CoarseClock {
    inner: Arc<dyn Clock>,
    grain_ns: u64,
}

impl Clock for CoarseClock {
    fn now(&self) -> Time {
        // Rounded up, so that a due timer is due by this clock too.
        Time::from_nanos(self.inner.now().as_nanos().next_multiple_of(self.grain_ns))
    }
}

#[test]
fn a_path_that_drops_large_packets_in_silence_is_searched() {
    // RFC 8899 5.3: breaks when segments stay at the size that every path carries, or a probe that is lost shrinks the
    // window.
    let path = Path {
        mtu: 1400,
        ..Path::new("MTU 1400 without a report", 1.0, Faults::default())
    };
    let flow = flow(&path, 15, |_| {});
    let s = flow.stats;
    assert_eq!(s.black_holes, 1);
    assert!(s.mtu_probes_acked >= 2, "{s:?}");
    assert!(s.mtu_probes <= 24, "{s:?}");
    // The two timeouts are explained by then: the window grows by slow start, up to the queue's length.
    assert_eq!(s.timeouts, 2, "{s:?}");
    assert!(flow.mbps >= 0.9 * FULL, "{:.2}", flow.mbps);
    // A receiver whose window is smaller than the path and its queue: no queue overflows, so there is no congestion at
    // all.
    let flow = run(&path, 1, Duration::from_secs(3), |config| {
        config.tcp.recv_buffer = 512 << 10;
        config.tcp.recv_buffer_max = 512 << 10;
    });
    let s = flow.stats;
    assert!(s.mtu_probes > s.mtu_probes_acked, "{s:?}");
    assert_eq!((s.fast_retransmits, s.timeouts), (0, 2), "{s:?}");
}

#[test]
fn a_coarse_clock_costs_no_throughput() {
    // gVisor #9778, #6113: breaks when a clock whose grain is longer than the reordering window, or than the round
    // trip, makes each flight look lost or leaves the window at a few segments.
    for grain in [1, 10, 16] {
        for rtt_us in [100, 1_000, 50_000] {
            let path = Path {
                rtt: Duration::from_micros(rtt_us),
                // A queue of 64 full segments at least.
                queue: (64.0 * 1514.0 * 8.0 / RATE_BPS as f64 / (rtt_us as f64 / 1e6)).max(1.0),
                ..Path::new("coarse clock", 1.0, Faults::default())
            };
            let flow = flow(&path, 5, |config| {
                config.clock = Arc::new(CoarseClock {
                    inner: Arc::clone(&config.clock),
                    grain_ns: grain * 1_000_000,
                });
            });
            assert!(
                flow.mbps >= 0.9 * FULL,
                "{grain} ms, round trip {rtt_us} us"
            );
            assert_eq!(flow.timeouts, 0, "{grain} ms, round trip {rtt_us} us");
        }
    }
}

#[test]
fn jitter_does_not_ratchet_the_window_down() {
    // gVisor #14102: breaks when events that proved to be none leave the window smaller each time: 30 ms on 200 ms, for
    // a minute.
    let path = Path {
        rtt: ms(200),
        jitter: ms(30),
        ..Path::new("jitter of 30 ms", 1.0, Faults::default())
    };
    let flow = flow(&path, 60, |_| {});
    assert!(flow.mbps >= 0.9 * FULL, "{:.2} Mbit/s", flow.mbps);
}

#[test]
fn lost_acknowledgements_cost_little() {
    // Breaks when an acknowledgement that is lost costs a timeout, or growth is counted by acknowledgements.
    let path = Path {
        back: loss(0.3),
        ..Path::new("30 % of acknowledgements lost", 1.0, Faults::default())
    };
    let flow = flow(&path, 20, |_| {});
    assert!(flow.mbps >= 0.95 * FULL, "{:.2} Mbit/s", flow.mbps);
    assert_eq!(flow.timeouts, 0);
}

#[test]
fn acknowledgements_that_come_together_cost_nothing() {
    // Breaks when acknowledgements that a card or a link holds for 10 ms open bursts that the queue loses, or look like
    // a longer path.
    let path = Path {
        coalesce: ms(10),
        ..Path::new("acknowledgements every 10 ms", 1.0, Faults::default())
    };
    let flow = flow(&path, 20, |_| {});
    assert!(flow.mbps >= 0.95 * FULL, "{:.2} Mbit/s", flow.mbps);
    assert_eq!(flow.timeouts, 0);
}

#[test]
fn half_a_window_that_is_lost_at_once_is_repaired_without_a_timeout() {
    // Breaks when the loss of half a window is repaired a segment a round trip, or by the timer: all that is sent in 50
    // ms of a round trip of some 100, its queue included, every three seconds.
    let path = Path {
        outage: ms(50),
        ..Path::new("half a window lost at once", 1.0, Faults::default())
    };
    let flow = flow(&path, 30, |_| {});
    assert!(flow.stats.fast_retransmits >= 10, "{:?}", flow.stats);
    assert_eq!(flow.timeouts, 0);
    // After a loss in each window of three seconds CUBIC is on its way back to the rate (RFC 9438 4.2), and not there.
    assert!(flow.mbps >= 0.6 * FULL, "{:.2} Mbit/s", flow.mbps);
}

#[test]
fn a_token_bucket_is_no_faster_path() {
    // Breaks when 16 KiB that pass at once after a pause are taken for the rate of the path.
    let path = Path {
        burst_bytes: 16 << 10,
        ..Path::new("token bucket of 16 KiB", 0.2, Faults::default())
    };
    let flow = flow(&path, 20, |_| {});
    assert!(flow.mbps >= 0.75 * FULL, "{:.2} Mbit/s", flow.mbps);
    assert_eq!(flow.timeouts, 0);
}

#[test]
fn a_long_queue_is_not_flooded() {
    // HyStart++, RFC 9406: breaks when slow start fills a queue of ten bandwidth-delay products until it overflows.
    let path = Path::new("clean, queue 10 BDP", 10.0, Faults::default());
    let flow = flow(&path, 20, |_| {});
    let s = flow.stats;
    assert!(flow.mbps >= 0.97 * FULL, "{:.2} Mbit/s", flow.mbps);
    assert!(200 * s.retransmitted_segments < s.segments_out, "{s:?}");
}
