//! One bulk flow over a long path, in virtual time: the figures of theory, of other stacks, and ours.
//!
//! Goodput in Mbit/s over a path of 100 Mbit/s and 50 ms round trip, behind a drop-tail queue; Linux's with the same
//! algorithm in brackets. `cargo test -p mbuma-sim --test wan -- --nocapture` prints all runs, each with its seed;
//! `WAN_SEED=n` begins with another one.

use std::time::Duration;

use mbuma::congestion::CongestionControl;
use mbuma::{AccEcnOptionUse, Config, EcnMode};
use path::{Flow, Path, RTT, loss, reordering, run, seeds};
use sim::Faults;

mod bbr;
mod faults;
mod fetch;
mod large_frames;
mod path;
mod tail;

/// Payload bytes of a segment with timestamps.
const MSS: f64 = 1448.0;

/// Runs a path with Reno and each seed, prints the row, and returns the mean.
fn row(path: &Path, count: u64, secs: u64, beside: &str, check: impl Fn(u64, &Flow)) -> f64 {
    let reno = |config: &mut Config| config.tcp.congestion = CongestionControl::Reno;
    row_with(reno, path, count, secs, beside, check)
}

/// The same with the default algorithm, CUBIC.
fn cubic_row(path: &Path, secs: u64, beside: &str, check: impl Fn(u64, &Flow)) -> f64 {
    row_with(|_| {}, path, 1, secs, beside, check)
}

fn row_with(
    tune: fn(&mut Config),
    path: &Path,
    count: u64,
    secs: u64,
    beside: &str,
    check: impl Fn(u64, &Flow),
) -> f64 {
    let mut sum = 0.0;
    for seed in seeds(count) {
        let flow = run(path, seed, Duration::from_secs(secs), tune);
        let s = flow.stats;
        println!(
            "{:22} seed {seed}: {:5.2} Mbit/s ({beside}), again {}, recoveries {}, undone {}, timeouts {}, probes {}",
            path.name,
            flow.mbps,
            s.retransmitted_segments,
            s.fast_retransmits,
            s.spurious_recoveries,
            s.timeouts,
            s.tail_loss_probes,
        );
        check(seed, &flow);
        sum += flow.mbps;
    }
    sum / count as f64
}

/// Mathis, Semke, Mahdavi, Ott (1997): the rate of Reno at random loss `p`, in Mbit/s.
fn mathis(p: f64) -> f64 {
    MSS * 8.0 / RTT.as_secs_f64() * 1.22 / p.sqrt() / 1e6
}

/// Linux's figures for Reno, over such a path between two namespaces; each is the mean of two seeds.
const CLEAN_LINUX: f64 = 95.6;
const SHALLOW_LINUX: f64 = 63.5;

#[test]
fn a_clean_path_is_filled() {
    // Breaks when an overshoot of slow start is repaired a segment a round trip (RFC 6582), as without SACK: 0.4
    // Mbit/s; or when a recovery pauses or begins again.
    let clean = Path::new("clean, queue 1 BDP", 1.0, Faults::default());
    let check = |seed, flow: &Flow| assert_eq!(flow.stats.timeouts, 0, "seed {seed}");
    let mbps = row(&clean, 1, 30, "95.5", check);
    assert!(mbps >= 0.99 * CLEAN_LINUX, "{mbps:.2} Mbit/s");
    let shallow = Path::new("clean, queue 0.1 BDP", 0.1, Faults::default());
    let mbps = row(&shallow, 1, 30, "70 / 57", check);
    assert!(mbps >= SHALLOW_LINUX, "{mbps:.2} Mbit/s");
}

#[test]
fn buffers_grow_to_the_path() {
    // Breaks when a send buffer that is smaller than the path's product holds the flow back for ever: 64 KiB over 50 ms
    // are 10 Mbit/s.
    let small: fn(&mut Config) = |config| {
        config.tcp.send_buffer = 64 << 10;
        config.tcp.recv_buffer = 64 << 10;
    };
    let clean = Path::new("clean, buffers of 64 KiB", 1.0, Faults::default());
    let mbps = row_with(small, &clean, 1, 20, "none", |_, _| {});
    assert!(mbps >= 0.97 * CLEAN_LINUX, "{mbps:.2} Mbit/s");
}

#[test]
fn random_loss_costs_what_theory_says() {
    // Breaks when a loss is repaired late, or counts more than once; or when a repair that is lost waits for the timer,
    // alone or with all that was sent after it.
    for (p, seeds, linux, share) in [
        (0.001, 3, "8.6 / 9.4", 0.90),
        (0.01, 5, "2.5 / 2.2", 0.80),
        (0.03, 5, "1.4 / 1.1", 0.65),
    ] {
        let path = Path::new("random loss", 1.0, loss(p));
        let mbps = row(&path, seeds, 60, linux, |seed, flow| {
            assert_eq!(flow.timeouts, 0, "loss {p}, seed {seed}");
        });
        println!("loss {p}: {mbps:.2} Mbit/s, Mathis {:.2}", mathis(p));
        assert!(mbps >= share * mathis(p), "loss {p}: {mbps:.2} Mbit/s");
    }
}

#[test]
fn reordering_is_no_loss() {
    // Breaks when what was overtaken is taken for lost (without RACK 1.5 to 3.4 Mbit/s), when what is late is dropped
    // as too old because a repair was faster or is not reported (CUBIC 59 and 49), or when an event that was none is
    // not undone.
    let reno: fn(&mut Config) = |config| config.tcp.congestion = CongestionControl::Reno;
    for (algorithm, tune) in [("CUBIC", (|_| {}) as fn(&mut Config)), ("Reno", reno)] {
        for (reorder, late, linux) in [
            (0.01, 5, "CUBIC 88 / 95, Reno 89 / 95"),
            (0.05, 5, "CUBIC 54 / 74, Reno 84 / 84"),
            (0.05, 25, "CUBIC 44 / 49, Reno 80 / 70"),
        ] {
            let faults = reordering(reorder, Duration::from_millis(late));
            let path = Path::new("reordering", 1.0, faults);
            let mbps = row_with(tune, &path, 2, 10, linux, |seed, flow| {
                assert_eq!(flow.stats.timeouts, 0, "seed {seed}");
            });
            println!("{algorithm}, reordering {reorder} by {late} ms: {mbps:.2} Mbit/s");
            assert!(
                mbps >= 0.9 * CLEAN_LINUX,
                "{algorithm}, {reorder}, {late} ms: {mbps:.2} Mbit/s"
            );
        }
    }
}

#[test]
fn a_queue_that_marks_loses_nothing() {
    // RFC 3168, 8511, 9768: breaks when a sender that could know of congestion by marks fills the queue until it loses,
    // or shrinks its window more than once for one window of data.
    let cubic: fn(&mut Config) = |config| config.tcp.ecn = EcnMode::Offer;
    let accurate: fn(&mut Config) = |config| config.tcp.ecn = EcnMode::OfferAccurate;
    let control: fn(&mut Config) = |config| {
        config.tcp.ecn = EcnMode::OfferAccurate;
        config.tcp.accecn_option = AccEcnOptionUse::Always;
        config.tcp.ecn_control_packets = true;
    };
    let reno: fn(&mut Config) = |config| {
        config.tcp.ecn = EcnMode::Offer;
        config.tcp.congestion = CongestionControl::Reno;
    };
    for (name, tune) in [
        ("CUBIC, marks", cubic),
        ("CUBIC, AccECN", accurate),
        ("CUBIC, ECN++", control),
        ("Reno, marks", reno),
    ] {
        let path = Path {
            marked_from: Some(0.5),
            ..Path::new(name, 3.0, Faults::default())
        };
        let mbps = row_with(tune, &path, 1, 20, "none", |seed, flow| {
            let s = flow.stats;
            assert!(s.ecn_reductions > 0, "seed {seed}");
            assert_eq!(
                (s.retransmitted_segments, s.timeouts),
                (0, 0),
                "seed {seed}"
            );
        });
        assert!(mbps >= 0.95 * CLEAN_LINUX, "{name}: {mbps:.2} Mbit/s");
    }
}

#[test]
fn cubic_fills_a_clean_path() {
    // Breaks when CUBIC's curve stands still after a recovery.
    let check = |seed, flow: &Flow| assert_eq!(flow.stats.timeouts, 0, "seed {seed}");
    for (name, queue, linux, least) in [
        ("clean, queue 1 BDP", 1.0, "95.6", 0.99 * CLEAN_LINUX),
        ("clean, queue 0.1 BDP", 0.1, "81 / 63", 72.0),
    ] {
        let path = Path::new(name, queue, Faults::default());
        let mbps = cubic_row(&path, 30, linux, check);
        assert!(mbps >= least, "{name}: {mbps:.2} Mbit/s");
    }
}
