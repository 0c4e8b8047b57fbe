use std::time::Duration;

use kern::Random;
use proptest::prelude::*;

use super::*;

const MSS: u32 = 1_000;
const MS: u64 = 1_000_000;

/// A connection in virtual time. Acknowledgements of a segment each come evenly over a round trip.
struct Flow {
    cubic: Cubic,
    w: Window,
    /// Nanoseconds.
    now: u64,
    rtt: u64,
}

impl Flow {
    fn new(segments: u32, rtt_ms: u64) -> Self {
        Self {
            cubic: Cubic::default(),
            w: Window {
                cwnd: segments * MSS,
                ssthresh: u32::MAX,
                mss: MSS,
            },
            now: 1_000 * MS,
            rtt: rtt_ms * MS,
        }
    }

    /// In congestion avoidance after a loss at a window of `segments` segments.
    fn after_loss(segments: u32, rtt_ms: u64) -> Self {
        let mut flow = Self::new(segments, rtt_ms);
        flow.congestion(Why::Loss);
        flow.cubic.on_recovered(&mut flow.w);
        flow
    }

    fn segments(&self) -> f64 {
        f64::from(self.w.cwnd) / f64::from(MSS)
    }

    fn sample(&self, acked: u32, cwnd_limited: bool) -> RateSample {
        RateSample {
            now: Time::from_nanos(self.now),
            acked,
            srtt: self.rtt,
            min_rtt: self.rtt,
            rtt: Some(self.rtt),
            cwnd_limited,
            ..RateSample::default()
        }
    }

    fn ack(&mut self) {
        self.now += self.rtt * u64::from(MSS) / u64::from(self.w.cwnd);
        let sample = self.sample(MSS, true);
        self.cubic.on_ack(&mut self.w, &sample);
    }

    fn run(&mut self, ms: u64) {
        let end = self.now + ms * MS;
        while self.now < end {
            self.ack();
        }
    }

    fn event(&self, why: Why) -> CongestionEvent {
        CongestionEvent::new(why, Time::from_nanos(self.now), self.w.cwnd)
    }

    fn congestion(&mut self, why: Why) {
        let event = self.event(why);
        self.cubic.on_congestion(&mut self.w, &event);
    }
}

/// RFC 9438's window in segments, `t` seconds after a loss at `w_max` segments: the formula as it stands there.
fn reference(w_max: f64, t: f64) -> f64 {
    let k = (w_max * (1.0 - 0.7) / 0.4).powf(1.0 / 3.0);
    0.4 * (t - k).powi(3) + w_max
}

/// Breaks when the window leaves RFC 9438's curve (equations 1 and 2), on either side of the plateau.
#[test]
fn follows_the_curve() {
    for w_max in [200, 1_000, 5_000] {
        let mut flow = Flow::after_loss(w_max, 100);
        let begin = flow.now;
        for _ in 0..150 {
            flow.run(100);
            let t = (flow.now - begin) as f64 / 1e9;
            // The window aims a round trip ahead, and a round trip later it is there.
            let (low, high) = (
                reference(w_max.into(), t - 0.1),
                reference(w_max.into(), t + 0.1),
            );
            let slack = 0.01 * f64::from(w_max);
            let at = flow.segments();
            assert!(
                low - slack <= at && at <= high + slack,
                "{w_max} {t}: {low} {at} {high}"
            );
        }
    }
}

/// Breaks when a short path's window grows slower than Reno's of the same average (RFC 9438 4.3): 0.53 segments a round
/// trip up to the window before the loss, 1 from there on.
#[test]
fn is_reno_friendly() {
    let mut flow = Flow::after_loss(100, 1);
    flow.run(40);
    assert!(
        (flow.segments() - (70.0 + 0.53 * 40.0)).abs() < 1.5,
        "{}",
        flow.segments()
    );
    flow.run(17 + 20);
    assert!((flow.segments() - 120.0).abs() < 2.0, "{}", flow.segments());
}

/// Breaks when a window above the last plateau makes K imaginary, or divides by it (nginx #443).
#[test]
fn window_above_the_plateau() {
    let mut flow = Flow::after_loss(100, 50);
    flow.w.cwnd = 400 * MSS;
    flow.w.ssthresh = 300 * MSS;
    flow.run(2_000);
    let expected = 400.0 + 0.4 * 2f64.powi(3);
    assert!(
        (flow.segments() - expected).abs() < 40.0,
        "{}",
        flow.segments()
    );
}

/// Breaks when t^3 of an hour without acknowledgements makes the window jump, or overflow (FreeBSD D19118).
#[test]
fn hours_of_silence_are_no_time() {
    let mut flow = Flow::after_loss(100, 50);
    flow.run(500);
    let before = flow.segments();
    flow.now += 3_600_000 * MS;
    flow.run(100);
    assert!(
        flow.segments() < before + 5.0,
        "{before} {}",
        flow.segments()
    );
}

/// Breaks when the time of a sender that did not fill its window counts (RFC 9438 4.2).
#[test]
fn application_limited_time_is_no_time() {
    let (mut a, mut b) = (Flow::after_loss(500, 50), Flow::after_loss(500, 50));
    a.run(1_000);
    b.run(1_000);
    for _ in 0..36_000 {
        b.now += 100 * MS;
        let sample = b.sample(MSS, false);
        b.cubic.on_ack(&mut b.w, &sample);
    }
    assert_eq!(a.w, b.w);
    a.run(1_000);
    b.run(1_000);
    assert!((a.segments() - b.segments()).abs() < 1.0);
}

/// Breaks when one slow acknowledgement moves the target: only the smoothed round trip may.
#[test]
fn single_round_trips_do_not_count() {
    let (mut a, mut b) = (Flow::after_loss(500, 50), Flow::after_loss(500, 50));
    for flow in [&mut a, &mut b] {
        flow.run(3_000);
    }
    let mut sample = a.sample(MSS, true);
    a.cubic.on_ack(&mut a.w, &sample);
    sample.rtt = Some(10_000 * MS);
    b.cubic.on_ack(&mut b.w, &sample);
    assert_eq!(a.w, b.w);
}

/// Breaks when a second loss below the plateau does not lower the plateau further (fast convergence, RFC 9438 4.7).
#[test]
fn a_second_loss_below_the_plateau_lowers_it() {
    let mut flow = Flow::after_loss(1_000, 50);
    assert_eq!(flow.cubic.w_max, 1_000 * MSS);
    flow.congestion(Why::Loss);
    assert_eq!(flow.w.ssthresh, 490 * MSS);
    assert_eq!(flow.cubic.w_max, 595 * MSS);
}

/// Breaks when a mark costs as much as a loss (RFC 8511), or a timeout leaves more than a segment.
#[test]
fn a_mark_costs_less_than_a_loss_and_a_timeout_leaves_one_segment() {
    for (why, cwnd, ssthresh) in [
        (Why::Loss, 70, 70),
        (Why::Ecn, 85, 85),
        (Why::Timeout, 1, 70),
    ] {
        let mut flow = Flow::new(100, 50);
        flow.congestion(why);
        assert_eq!(
            (flow.w.cwnd, flow.w.ssthresh),
            (cwnd * MSS, ssthresh * MSS),
            "{why:?}"
        );
    }
}

/// Breaks when a window that was not filled sets the threshold (RFC 9438 4.6).
#[test]
fn unused_window_is_no_threshold() {
    let mut flow = Flow::new(100, 50);
    let event = CongestionEvent {
        flight: 20 * MSS,
        ..flow.event(Why::Loss)
    };
    flow.cubic.on_congestion(&mut flow.w, &event);
    assert_eq!(flow.w.ssthresh, 14 * MSS);
}

/// Breaks when the estimate of Reno's window outlives the window: the first acknowledgement after each pause then
/// brings back what the pause took, and a little more each time (RFC 5681 4.1, RFC 9438 4.3).
#[test]
fn a_window_that_began_anew_grows_from_there() {
    let mut flow = Flow::after_loss(4, 50);
    for _ in 0..50 {
        flow.now += 1_000 * MS;
        let restart = 2 * MSS;
        flow.cubic
            .on_idle(&mut flow.w, Duration::from_secs(1), restart);
        assert_eq!(flow.w.cwnd, restart);
        let sample = flow.sample(2 * MSS, true);
        flow.cubic.on_ack(&mut flow.w, &sample);
        assert!(flow.w.cwnd <= 4 * MSS, "{:?}", flow.w);
    }
}

/// Breaks when the timer's second expiry for the same data lowers the threshold again, or loses what an undo restores.
#[test]
fn a_second_timeout_for_the_same_data_keeps_the_threshold() {
    let mut flow = Flow::after_loss(100, 50);
    let (window, before) = (flow.w, flow.cubic.w_max);
    flow.congestion(Why::Timeout);
    let ssthresh = flow.w.ssthresh;
    let again = CongestionEvent {
        again: true,
        ..flow.event(Why::Timeout)
    };
    flow.cubic.on_congestion(&mut flow.w, &again);
    assert_eq!((flow.w.cwnd, flow.w.ssthresh), (MSS, ssthresh));
    flow.cubic.on_undo(&mut flow.w, Time::from_nanos(flow.now));
    assert_eq!((flow.w, flow.cubic.w_max), (window, before));
}

/// Breaks when an undone event leaves another curve behind (RFC 9438 4.9; Linux restores the window only).
#[test]
fn undo_restores_the_epoch() {
    // On a path of 1 ms Reno's slope counts, which is that of before the earlier loss.
    let far = [0, 500, 4_000, 12_000].map(|ms| (500, 50, ms, 8_000));
    for (segments, rtt, ms, more) in far.into_iter().chain([(100, 1, 20, 20)]) {
        let (mut a, mut b) = (
            Flow::after_loss(segments, rtt),
            Flow::after_loss(segments, rtt),
        );
        a.run(ms);
        b.run(ms);
        b.congestion(Why::Loss);
        b.cubic.on_undo(&mut b.w, Time::from_nanos(b.now));
        assert_eq!(a.w, b.w);
        a.run(more);
        b.run(more);
        let (a, b) = (a.segments(), b.segments());
        assert!((a - b).abs() < 0.01 * a, "{rtt} ms, {ms}: {a} {b}");
    }
}

/// Breaks when the undo of a recovery in which the window shrank twice restores only the window before its second
/// reduction (RFC 4015 4), or that of a recovery the window before an earlier one.
#[test]
fn undo_restores_the_state_before_the_recovery() {
    for why in [Why::Loss, Why::Timeout] {
        let mut flow = Flow::after_loss(100, 50);
        flow.congestion(Why::Loss);
        flow.run(500);
        let (window, before) = (flow.w, flow.cubic.w_max);
        flow.congestion(Why::Loss);
        let second = CongestionEvent {
            continues: true,
            ..flow.event(why)
        };
        flow.cubic.on_congestion(&mut flow.w, &second);
        assert!(flow.w.ssthresh < window.ssthresh);
        flow.cubic.on_undo(&mut flow.w, Time::from_nanos(flow.now));
        assert_eq!((flow.w, flow.cubic.w_max), (window, before));
    }
}

/// Breaks when the window after a timeout climbs towards the plateau of before it (RFC 9438 4.8: K is 0).
#[test]
fn no_plateau_after_a_timeout() {
    let mut flow = Flow::after_loss(500, 100);
    flow.congestion(Why::Timeout);
    let ssthresh = flow.w.ssthresh;
    while flow.w.in_slow_start() {
        flow.ack();
    }
    flow.run(1_000);
    let grown = flow.segments() - f64::from(ssthresh / MSS);
    // Reno's 0.53 segments in each of ten round trips; from the old plateau's curve it would be tens.
    assert!((0.0..8.0).contains(&grown), "{grown}");
}

/// Breaks when slow start that ended without a loss is followed by a wait for a plateau that never was (RFC 9438 4.10).
#[test]
fn no_plateau_after_slow_start() {
    let mut flow = Flow::new(100, 100);
    flow.w.ssthresh = flow.w.cwnd;
    flow.run(5_000);
    assert!(
        flow.segments() >= 100.0 + 0.4 * 4.8f64.powi(3),
        "{}",
        flow.segments()
    );
}

/// Breaks when a smaller MSS leaves the cube where it was: the window, which has shrunk, would jump to half of its
/// distance to the plateau. It must lead there as that of a flow which begins an epoch with small segments.
#[test]
fn a_smaller_mss_leaves_the_plateau_in_place() {
    let (mut flow, mut small) = (Flow::after_loss(500, 50), Flow::after_loss(500, 50));
    flow.run(1_000);
    for flow in [&mut flow, &mut small] {
        flow.w.set_mss(MSS / 2);
        flow.cubic.on_mss(&mut flow.w);
    }
    (small.w, small.now) = (flow.w, flow.now);
    let begin = flow.w.cwnd;
    flow.run(3_000);
    small.run(3_000);
    assert_eq!(flow.w, small.w);
    assert!(flow.w.cwnd > begin);
}

/// Breaks when a window far below the plateau of a long path grows by the whole distance in one round trip (RFC 9438
/// 4.2: by half of itself).
#[test]
fn a_window_grows_by_half_in_a_round_trip() {
    let mut flow = Flow::after_loss(10_000, 5_000);
    (flow.w.cwnd, flow.w.ssthresh) = (10 * MSS, 5 * MSS);
    for _ in 0..10 {
        flow.ack();
    }
    assert!(
        (14.0..=15.0).contains(&flow.segments()),
        "{}",
        flow.segments()
    );
}

/// Breaks when the cube root is wrong.
#[test]
fn cube_roots_are_exact_enough() {
    for x in [0.0, 1e-9, 0.5, 1.0, 8.0, 1e6, 4.2e9, 1e18] {
        let root = cube_root(x);
        assert!((root * root * root - x).abs() <= 1e-12 * x, "{x} {root}");
    }
}

/// The average window in segments of a flow that loses each segment with chance `p`, over so many losses; `regular`:
/// each 1/p-th instead.
fn average(p: f64, rtt_ms: u64, losses: u32, regular: bool) -> f64 {
    let mut random = Random::from_seed(9438);
    let mut flow = Flow::after_loss((1.2 / p.sqrt()) as u32 + 10, rtt_ms);
    let (mut sum, mut time, mut sent, mut lost) = (0.0, 0.0, 0u64, 0);
    while lost < losses {
        let before = flow.now;
        flow.ack();
        let passed = (flow.now - before) as f64;
        (sum, time, sent) = (sum + flow.segments() * passed, time + passed, sent + 1);
        let hit = match regular {
            true => sent as f64 * p >= 1.0,
            false => f64::from(random.next_u32()) < p * f64::from(u32::MAX),
        };
        if hit {
            flow.congestion(Why::Loss);
            flow.cubic.on_recovered(&mut flow.w);
            (sent, lost) = (0, lost + 1);
        }
    }
    sum / time
}

/// Breaks when the average window is not RFC 9438 5's: 1.054 RTT^0.75 / p^0.75 with losses at regular distances, or
/// Reno's 1.22 / sqrt(p) where that is more (near the crossing of the two, the larger of both windows at each time
/// exceeds both averages). Random losses leave less: they come in groups.
#[test]
fn the_average_window_is_that_of_the_rfc() {
    for (p, rtt_ms) in [
        (1e-4, 10),
        (1e-3, 100),
        (1e-4, 100),
        (1e-5, 100),
        (1e-4, 200),
    ] {
        let cubic = 1.054 * (rtt_ms as f64 / 1e3 / p).powf(0.75);
        let expected = cubic.max(1.22 / p.sqrt());
        let regular = average(p, rtt_ms, 40, true) / expected;
        assert!((0.85..1.3).contains(&regular), "{p} {rtt_ms}: {regular}");
        let random = average(p, rtt_ms, 200, false) / expected;
        assert!((0.65..1.3).contains(&random), "{p} {rtt_ms}: {random}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Ack {
        acked: u32,
        limited: bool,
        srtt: u64,
    },
    Wait(u64),
    Congestion(u8, u32, bool),
    Recovered,
    Undo,
    Idle,
    Mss(u32),
}

fn congestion() -> impl Strategy<Value = Step> {
    (0u8..3, any::<u32>(), any::<bool>())
        .prop_map(|(why, flight, again)| Step::Congestion(why, flight, again))
}

fn step() -> impl Strategy<Value = Step> {
    let srtt = prop_oneof![
        Just(0),
        Just(1_000),
        0..100 * MS,
        Just(60_000 * MS),
        Just(u64::MAX)
    ];
    prop_oneof![
        8 => (any::<u32>(), any::<bool>(), srtt)
            .prop_map(|(acked, limited, srtt)| Step::Ack { acked: acked >> 12, limited, srtt }),
        4 => prop_oneof![0..100 * MS, Just(86_400_000 * MS), Just(u64::MAX)].prop_map(Step::Wait),
        2 => congestion(),
        1 => Just(Step::Recovered),
        1 => Just(Step::Undo),
        1 => Just(Step::Idle),
        1 => (64u32..9_000).prop_map(Step::Mss),
    ]
}

fn apply(cubic: &mut Cubic, w: &mut Window, now: &mut Time, step: &Step) {
    let before = w.cwnd;
    match *step {
        Step::Ack {
            acked,
            limited,
            srtt,
        } => {
            let sample = RateSample {
                now: *now,
                acked,
                srtt,
                rtt: Some(srtt),
                cwnd_limited: limited,
                round_start: acked % 7 == 0,
                ..RateSample::default()
            };
            cubic.on_ack(w, &sample);
            assert!(w.cwnd >= before, "an acknowledgement lowered the window");
            assert!(
                limited || w.cwnd == before,
                "a window grew that was not used"
            );
        }
        Step::Wait(nanos) => *now += Duration::from_nanos(nanos),
        Step::Congestion(why, flight, again) => {
            let why = [Why::Loss, Why::Ecn, Why::Timeout][usize::from(why)];
            let (now, again) = (*now, again && why == Why::Timeout);
            let event = CongestionEvent {
                again,
                continues: flight % 2 == 0,
                ..CongestionEvent::new(why, now, flight)
            };
            cubic.on_congestion(w, &event);
        }
        Step::Recovered => cubic.on_recovered(w),
        Step::Undo => cubic.on_undo(w, *now),
        Step::Idle => cubic.on_idle(w, Duration::from_secs(1), 10 * w.mss),
        Step::Mss(mss) => {
            w.set_mss(mss);
            cubic.on_mss(w);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Breaks when any order of acknowledgements, silence and events panics, lowers the window at an acknowledgement,
    /// or leaves it below a segment or above what TCP can announce (gVisor 5f8c66e26, FreeBSD D19118).
    #[test]
    fn stays_in_bounds(steps in prop::collection::vec(step(), 1..80)) {
        let (mut cubic, mut w) = (Cubic::default(), Window::new(MSS, 10));
        let mut now = Time::from_secs(1);
        for step in &steps {
            apply(&mut cubic, &mut w, &mut now, step);
            prop_assert!(w.cwnd >= w.mss.min(64), "{w:?}");
            prop_assert!(w.cwnd <= 65_535 << 14, "{w:?}");
            prop_assert!(w.ssthresh >= w.mss, "{w:?}");
        }
    }
}

#[test]
fn an_undone_first_event_leaves_the_first_slow_start() {
    // RFC 9406: breaks when slow start goes on without HyStart++ after an event that was none, and fills the queue.
    let (mut cubic, mut w) = (Cubic::default(), Window::new(MSS, 10));
    let event = CongestionEvent::new(Why::Loss, Time::from_secs(1), w.cwnd);
    cubic.on_congestion(&mut w, &event);
    cubic.on_undo(&mut w, Time::from_secs(2));
    assert_eq!(w.ssthresh, u32::MAX);
    assert!(matches!(cubic.stage, Stage::First(_)));
}

#[test]
fn a_slow_start_after_an_idle_time_has_no_hystart() {
    // RFC 9406 4.3: breaks when HyStart++, which ended the first slow start, ends each later one in its first round
    // trip; or when its count of round trips overflows.
    let mut flow = Flow::new(10, 100);
    for round in 0..40 {
        let sample = RateSample {
            round_start: true,
            ..flow.sample(MSS, true)
        };
        flow.cubic.on_ack(&mut flow.w, &sample);
        // From the tenth round trip on a queue grows.
        flow.rtt += if round >= 10 { 30 * MS } else { 0 };
        for _ in 0..16 {
            flow.ack();
        }
    }
    let grown = flow.w.cwnd;
    assert_eq!((flow.w.in_slow_start(), grown > 20 * MSS), (false, true));
    for _ in 0..300 {
        let threshold = flow.w.ssthresh;
        flow.cubic
            .on_idle(&mut flow.w, Duration::from_secs(9), 10 * MSS);
        let sample = RateSample {
            round_start: true,
            ..flow.sample(MSS, true)
        };
        flow.cubic.on_ack(&mut flow.w, &sample);
        assert_eq!((flow.w.cwnd, flow.w.ssthresh), (11 * MSS, threshold));
    }
}
