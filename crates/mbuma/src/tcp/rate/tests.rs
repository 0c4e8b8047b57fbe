use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MSS: u32 = 1000;
const MS: u64 = 1_000_000;

fn window(segments: u32) -> Window {
    Window {
        cwnd: segments * MSS,
        ssthresh: MSS,
        mss: MSS,
    }
}

/// A sender of segments, in milliseconds; acknowledgements come in order.
struct Flow {
    rate: DeliveryRate,
    window: Window,
    sent: VecDeque<(Time, SendStamp)>,
}

impl Flow {
    fn new(segments: u32) -> Self {
        Self {
            rate: DeliveryRate::default(),
            window: window(segments),
            sent: VecDeque::new(),
        }
    }

    fn flight(&self) -> u32 {
        self.sent.len() as u32 * MSS
    }

    fn send(&mut self, ms: u64, segments: u32, waiting: bool) {
        let now = Time::from_millis(ms);
        for _ in 0..segments {
            let stamp = self.rate.on_send(now, self.flight());
            self.sent.push_back((now, stamp));
        }
        self.rate.after_output(self.flight(), &self.window, waiting);
    }

    fn ack(&mut self, ms: u64, segments: u32) -> RateSample {
        let now = Time::from_millis(ms);
        let mut last = LastSent::default();
        for _ in 0..segments {
            let (sent_at, stamp) = self.sent.pop_front().unwrap();
            self.rate.on_delivered(now, MSS, sent_at, stamp, &mut last);
        }
        let mut sample = RateSample {
            now,
            min_rtt: 10 * MS,
            ..RateSample::default()
        };
        self.rate.finish(last, &self.window, &mut sample);
        sample
    }
}

/// Breaks when a steady flow of a segment each millisecond is measured at another rate.
#[test]
fn a_steady_flow_is_measured_at_its_rate() {
    let mut flow = Flow::new(10);
    for ms in 0..10 {
        flow.send(ms, 1, true);
    }
    for ms in 10..50 {
        let sample = flow.ack(ms, 1);
        // Until the pipe is full, an interval begins with the first segment.
        let (segments, interval) = if ms < 20 { (ms - 9, ms) } else { (10, 10) };
        assert_eq!(sample.delivered, segments * u64::from(MSS), "{ms}");
        assert_eq!(sample.interval, interval * MS, "{ms}");
        flow.send(ms, 1, true);
    }
}

/// Breaks when acknowledgements that come in a burst look like a faster path (draft 2.2.2).
#[test]
fn bursts_of_acknowledgements_are_no_rate() {
    let mut flow = Flow::new(20);
    for ms in 0..20 {
        flow.send(ms, 1, true);
    }
    // A segment a millisecond is delivered, but the acknowledgements wait for ten.
    let first = flow.ack(20, 10);
    assert_eq!((first.delivered, first.interval), (10_000, 20 * MS));
    let second = flow.ack(30, 10);
    assert!(
        second.delivered * MS <= second.interval * u64::from(MSS),
        "{second:?}"
    );
}

/// Breaks when a sender that has nothing to send passes for one that the path held back, or for ever for one that has
/// not.
#[test]
fn samples_of_a_sender_without_data_are_marked() {
    let mut flow = Flow::new(10);
    flow.send(0, 2, false);
    flow.send(1, 2, true);
    assert!(!flow.ack(10, 2).app_limited, "sent before it was known");
    assert!(flow.ack(11, 2).app_limited);
    flow.send(12, 10, true);
    assert!(!flow.ack(22, 10).app_limited);
}

/// Breaks when a window counts as used that was not, or one that was used in the round trip before is forgotten.
#[test]
fn a_window_counts_as_used_only_if_it_was_the_limit() {
    let mut flow = Flow::new(10);
    flow.send(0, 4, false);
    assert!(!flow.ack(10, 4).cwnd_limited);
    flow.send(10, 10, true);
    assert!(flow.ack(20, 1).cwnd_limited);
    assert!(flow.ack(21, 9).cwnd_limited);
    flow.send(22, 2, false);
    assert!(!flow.ack(32, 2).cwnd_limited);
}

/// Breaks when slow start stops growing a window that is used by half.
#[test]
fn slow_start_doubles_what_is_used() {
    let mut flow = Flow::new(10);
    flow.window.ssthresh = u32::MAX;
    flow.send(0, 6, false);
    assert!(flow.ack(10, 6).cwnd_limited);
    let mut flow = Flow::new(10);
    flow.window.ssthresh = u32::MAX;
    flow.send(0, 5, false);
    assert!(!flow.ack(10, 5).cwnd_limited);
}

/// Breaks when a round trip is counted twice, or not at all.
#[test]
fn each_round_trip_is_counted_once() {
    let mut flow = Flow::new(4);
    flow.send(0, 4, true);
    let starts: Vec<_> = (0..4).map(|n| flow.ack(10 + n, 1).round_start).collect();
    assert_eq!(starts, [true, false, false, false]);
    flow.send(14, 4, true);
    let starts: Vec<_> = (0..4).map(|n| flow.ack(24 + n, 1).round_start).collect();
    assert_eq!(starts, [true, false, false, false]);
}

/// Breaks when an acknowledgement that comes sooner than any round trip gives a rate (draft 3.3).
#[test]
fn an_acknowledgement_before_any_round_trip_gives_no_rate() {
    let mut flow = Flow::new(4);
    flow.send(0, 1, true);
    assert_eq!(flow.ack(9, 1).delivered, 0);
}

proptest! {
    /// Breaks when a sample exceeds the rate of a bottleneck, however the sender bursts and the acknowledgements bunch.
    #[test]
    fn never_above_the_bottleneck(
        turns in prop::collection::vec((1u32..20, 1u64..8), 1..60),
        bunch in 1u64..10,
    ) {
        // The bottleneck delivers a segment a millisecond, 10 ms away; acknowledgements leave each `bunch` ms.
        let mut flow = Flow::new(1000);
        let (mut now, mut free_at) = (0, 0);
        let mut arrivals: VecDeque<u64> = VecDeque::new();
        for (segments, wait) in turns {
            flow.send(now, segments, true);
            for _ in 0..segments {
                free_at = free_at.max(now) + 1;
                arrivals.push_back((free_at + 10).next_multiple_of(bunch));
            }
            for _ in 0..wait {
                now += 1;
                let due = arrivals.iter().take_while(|at| **at <= now).count();
                arrivals.drain(..due);
                if due > 0 {
                    let sample = flow.ack(now, due as u32);
                    // A bunch may hold `bunch` segments more than its time does, once in the interval.
                    let bound = (sample.interval / MS + bunch) * u64::from(MSS);
                    prop_assert!(sample.delivered <= bound, "{sample:?}");
                }
            }
        }
    }
}

#[test]
fn an_undone_window_does_not_grow_by_the_use_of_the_smaller_one() {
    // RFC 7661: breaks when a window that was filled after an event, and is larger again because the event was none,
    // grows although the larger one is not used: a path that reorders then made it larger at each event.
    let mut flow = Flow::new(2);
    flow.send(0, 2, true);
    assert!(flow.ack(10, 1).cwnd_limited);
    flow.window.cwnd = 20 * MSS;
    flow.rate.on_undo();
    assert!(!flow.ack(11, 1).cwnd_limited);
    flow.send(12, 20, true);
    assert!(flow.ack(22, 20).cwnd_limited);
}
