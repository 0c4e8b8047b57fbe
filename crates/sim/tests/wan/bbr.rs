//! BBRv3 over the paths of the other algorithms; Linux's BBRv1 in brackets.

use std::time::Duration;

use mbuma::Config;
use mbuma::congestion::CongestionControl;
use sim::Faults;

use super::path::{Path, loss, run_beside};
use super::{CLEAN_LINUX, row_with};

fn bbr(config: &mut Config) {
    config.tcp.congestion = CongestionControl::Bbr;
}

#[test]
fn bbr_fills_a_clean_path_with_a_queue_of_any_size() {
    // Breaks when the model of the path is too small, a queue of a tenth of the product ends each probe for good, or a
    // deep one is filled for ever.
    for (name, queue, linux, least) in [
        ("bbr, queue 1 BDP", 1.0, "93.0", 0.9),
        ("bbr, queue 0.1 BDP", 0.1, "90 / 88", 0.8),
        ("bbr, queue 10 BDP", 10.0, "92.9", 0.9),
    ] {
        let path = Path::new(name, queue, Faults::default());
        let mbps = row_with(bbr, &path, 1, 10, linux, |seed, flow| {
            assert_eq!(flow.timeouts, 0, "seed {seed}");
        });
        assert!(mbps >= least * CLEAN_LINUX, "{name}: {mbps:.2} Mbit/s");
    }
}

#[test]
fn bbr_takes_no_random_loss_for_congestion() {
    // Breaks when a loss by itself shrinks the window: CUBIC carries 2.2 and 1.1 Mbit/s here.
    for (p, linux, least) in [
        (0.001, "92 / 94", 80.0),
        (0.01, "92 / 88", 66.0),
        (0.03, "90 / 92", 4.0),
    ] {
        let path = Path::new("bbr, random loss", 1.0, loss(p));
        let mbps = row_with(bbr, &path, 1, 10, linux, |_, _| {});
        assert!(mbps >= least, "loss {p}: {mbps:.2} Mbit/s");
    }
}

#[test]
fn bbr_and_cubic_share_a_queue() {
    // Breaks when either starves beside the other in a queue of one product.
    let path = Path::new("bbr beside cubic", 1.0, Faults::default());
    let both = [CongestionControl::Bbr, CongestionControl::Cubic];
    let [bbr, cubic] = run_beside(&path, 1, Duration::from_secs(30), both);
    let share = bbr / (bbr + cubic);
    println!("bbr {bbr:.1}, cubic {cubic:.1} Mbit/s: share {share:.2}");
    assert!(bbr + cubic >= 0.85 * CLEAN_LINUX);
    assert!((0.15..=0.85).contains(&share), "{share:.2}");
}
