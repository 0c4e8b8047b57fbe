//! Wires.

use std::time::Duration;

use kern::{Random, Time};

use super::Wire;
use crate::frame::Frame;
use mbuma::device::impair::LinkEvent;
use mbuma::device::impair::{Faults, Lateness, LinkConfig};

fn wire(link: LinkConfig, seed: u64) -> Wire {
    let mut wire = Wire::new(link, Random::from_seed(seed));
    wire.add_end();
    wire.add_end();
    wire
}

/// A frame of IPv4 by its type, with a number in it.
fn frame(n: u32, len: usize) -> Frame {
    let mut bytes = vec![0; len.max(18)];
    bytes[12] = 8;
    bytes[14..18].copy_from_slice(&n.to_be_bytes());
    Frame::new(bytes)
}

fn run(wire: &mut Wire, frames: u32, gap: Duration) -> Vec<(Time, Frame)> {
    let (mut out, mut log) = (Vec::new(), Vec::new());
    for n in 0..frames {
        wire.send(Time::ZERO + gap * n, 0, &frame(n, 100), &mut out, &mut log);
    }
    let mut got: Vec<_> = out.into_iter().map(|d| (d.at, d.frame)).collect();
    got.sort_by_key(|(at, _)| *at);
    got
}

#[test]
fn a_perfect_wire_keeps_everything_in_order_even_with_jitter() {
    // Breaks when jitter lets frames overtake each other: then it would be reordering.
    let jitter = Duration::from_millis(50);
    let mut w = wire(
        LinkConfig {
            jitter,
            ..LinkConfig::delay(Duration::from_millis(5))
        },
        1,
    );
    let got = run(&mut w, 500, Duration::from_millis(1));
    let want: Vec<_> = (0..500).map(|n| frame(n, 100)).collect();
    assert!(got.iter().map(|(_, f)| f).eq(&want));
}

#[test]
fn faults_have_their_rates_and_are_counted() {
    // Breaks when a rate is not applied, is applied to the wrong fault, or is not counted.
    let faults = Faults {
        loss: 0.2,
        duplicate: 0.1,
        reorder: 0.3,
        late: Lateness::UpTo(Duration::from_millis(30)),
        corrupt: 0.05,
        truncate: 0.02,
        burst: None,
    };
    let mut w = wire(
        LinkConfig {
            faults,
            ..LinkConfig::PERFECT
        },
        2,
    );
    let got = run(&mut w, 20_000, Duration::from_millis(1));
    let c = w.counts(0);
    let share = |deed| c.of(deed) as f64 / c.sent as f64;
    assert!((share(LinkEvent::Lost) - 0.2).abs() < 0.02, "{c:?}");
    assert!((share(LinkEvent::Duplicated) - 0.08).abs() < 0.01, "{c:?}");
    assert!((share(LinkEvent::Corrupted) - 0.04).abs() < 0.01, "{c:?}");
    assert!((share(LinkEvent::Truncated) - 0.016).abs() < 0.005, "{c:?}");
    assert!(
        (share(LinkEvent::Reordered) - 0.88 * 0.3).abs() < 0.02,
        "{c:?}"
    );
    assert_eq!(c.of(LinkEvent::Delivered), got.len() as u64);
    assert_eq!(
        c.of(LinkEvent::Lost) + c.of(LinkEvent::Delivered) - c.of(LinkEvent::Duplicated),
        20_000
    );
    let damaged = got.iter().filter(|(_, f)| {
        let n = f
            .bytes
            .get(14..18)
            .map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        f.bytes.len() == 100 && f.bytes != frame(n, 100).bytes
    });
    assert!(damaged.count() > 0);
    assert_eq!(w.counts(1).sent, 0);
}

#[test]
fn a_seed_decides_everything() {
    // Breaks when the result depends on anything but the seed.
    let faults = Faults {
        loss: 0.3,
        reorder: 0.3,
        corrupt: 0.1,
        ..Faults::default()
    };
    let link = LinkConfig {
        faults,
        jitter: Duration::from_millis(9),
        ..LinkConfig::PERFECT
    };
    let of = |seed| run(&mut wire(link, seed), 300, Duration::from_millis(1));
    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
}

#[test]
fn the_rate_spaces_frames_and_a_full_queue_drops() {
    // Breaks when serialization time or the queue's bound is computed wrongly.
    let link = LinkConfig {
        rate_bps: 800_000,
        queue_bytes: 1000,
        ..LinkConfig::PERFECT
    };
    let mut w = wire(link, 3);
    let got = run(&mut w, 100, Duration::ZERO);
    // 100 bytes take 1 ms. The queue counts the frames that are not sent yet: 10 frames of 100
    // bytes, and one more, because only the frames before it can refuse a frame.
    assert_eq!(got.len(), 11);
    for (i, (at, _)) in got.iter().enumerate() {
        assert_eq!(*at, Time::from_millis(i as u64 + 1));
    }
    assert_eq!(w.counts(0).of(LinkEvent::Overflowed), 89);
}

#[test]
fn frames_above_the_mtu_do_not_pass() {
    // Breaks when the wire passes frames that are too long.
    let mut w = wire(
        LinkConfig {
            mtu: 86,
            ..LinkConfig::PERFECT
        },
        4,
    );
    assert_eq!(run(&mut w, 1, Duration::ZERO).len(), 1);
    w.set_link(
        0,
        LinkConfig {
            mtu: 85,
            ..LinkConfig::PERFECT
        },
    );
    assert_eq!(run(&mut w, 1, Duration::ZERO).len(), 0);
    assert_eq!(w.counts(0).of(LinkEvent::TooBig), 1);
}
