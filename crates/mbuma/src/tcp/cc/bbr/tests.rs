use super::*;

const MSS: u32 = 1000;
const RTT: Duration = Duration::from_millis(50);
/// Bytes per second: 100 Mbit/s.
const RATE: u64 = 12_500_000;
const PRODUCT: u32 = 625_000;

/// A path of a fixed rate, in steps of a round trip: what is beyond its product waits in a queue.
struct Trip {
    bbr: Bbr,
    w: Window,
    now: Time,
    queue: u32,
    rate: u64,
    rtt: Duration,
    /// The phases in their order, with the rate at the begin of each.
    seen: Vec<(BbrPhase, u64)>,
}

impl Trip {
    fn new() -> Self {
        let w = Window::new(MSS, 10);
        Self {
            bbr: Bbr::default(),
            w,
            now: Time::from_secs(1),
            queue: 0,
            rate: RATE,
            rtt: RTT,
            seen: Vec::new(),
        }
    }

    /// The round trip's queue in nanoseconds.
    fn waits(&self) -> u64 {
        u64::from(self.queue) * 1_000_000_000 / self.rate
    }

    /// One round trip: as much as the window allows is sent at the pacing rate, and acknowledged in ten parts; `lost`
    /// of a thousand bytes get lost.
    fn round(&mut self, lost: u32) {
        let rtt = self.rtt.as_nanos() as u64;
        let pace = self.bbr.rate(&self.w).unwrap_or(u64::MAX);
        let paced = u32::try_from(u128::from(pace) * u128::from(rtt) / 1_000_000_000);
        let flight = self.w.cwnd.min(paced.unwrap_or(u32::MAX).max(4 * MSS));
        let product = (self.rate * rtt / 1_000_000_000) as u32;
        let carried = flight.min(product);
        self.queue = (self.queue + flight).saturating_sub(product).min(product);
        let rtt = rtt + self.waits();
        let parts = 10;
        for part in 0..parts {
            self.now += Duration::from_nanos(rtt / parts);
            let bad = flight / 1000 * lost / parts as u32;
            let sample = RateSample {
                now: self.now,
                delivered: u64::from(carried),
                interval: rtt - self.waits().min(rtt / 2),
                rtt: Some(rtt),
                min_rtt: RTT.as_nanos() as u64,
                srtt: rtt,
                acked: flight / parts as u32 - bad,
                lost: bad,
                sent_flight: flight,
                prior_flight: flight,
                flight: if part == parts - 1 {
                    flight.min(product)
                } else {
                    flight
                },
                cwnd_limited: flight >= self.w.cwnd,
                ..RateSample::default()
            };
            if bad > 0 {
                let event = CongestionEvent::new(Why::Loss, self.now, flight);
                self.bbr.on_congestion(&mut self.w, &event);
            }
            self.bbr.on_ack(&mut self.w, &sample);
            let phase = self.bbr.phase;
            if self.seen.last().is_none_or(|(last, _)| *last != phase) {
                self.seen.push((phase, self.bbr.rate(&self.w).unwrap_or(0)));
            }
            assert!(self.w.cwnd >= 4 * MSS, "{:?}", self.bbr);
        }
    }

    /// Runs until the phase is reached, for at most `rounds` rounds.
    fn until(&mut self, phase: BbrPhase, rounds: u32) {
        for _ in 0..rounds {
            if self.bbr.phase == phase {
                return;
            }
            self.round(0);
        }
        panic!("{phase:?} was not reached: {:?}", self.bbr);
    }
}

#[test]
fn a_handshake_is_no_measure_of_the_path() {
    // Section 5.6.2: breaks if the one number of a SYN, delivered within a round trip, becomes the bandwidth at which
    // the first data is paced: 20 bytes a second here.
    let mut trip = Trip::new();
    trip.bbr.on_ack(
        &mut trip.w,
        &RateSample {
            now: trip.now,
            delivered: 1,
            interval: RTT.as_nanos() as u64,
            rtt: Some(RTT.as_nanos() as u64),
            min_rtt: RTT.as_nanos() as u64,
            srtt: RTT.as_nanos() as u64,
            app_limited: true,
            ..RateSample::default()
        },
    );
    let rate = trip.bbr.rate(&trip.w);
    assert!(rate >= Some(10 * u64::from(MSS) * 20), "{rate:?}");
}

#[test]
fn startup_finds_the_bandwidth_and_drains_its_queue() {
    // Section 5.3.1: breaks if STARTUP ends before the pipe is full, never ends, or leaves its queue standing.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Cruise, 30);
    let bandwidth = trip.bbr.bandwidth();
    assert!(bandwidth.abs_diff(RATE) < RATE / 10, "{bandwidth}");
    assert!(trip.bbr.model.is_full());
}

#[test]
fn the_cycle_probes_and_comes_back() {
    // Section 5.3.3: breaks if the phases have another order, or the rate does not follow them.
    let mut trip = Trip::new();
    for _ in 0..200 {
        trip.round(0);
    }
    let share = |percent: u64| RATE * percent / 100;
    for (phase, rate) in &trip.seen {
        match phase {
            BbrPhase::Cruise => assert!(*rate < share(112), "{:?}", trip.seen),
            BbrPhase::Up => assert!(*rate > share(112), "{:?}", trip.seen),
            _ => {}
        }
    }
    let seen: Vec<BbrPhase> = trip.seen.iter().map(|(phase, _)| *phase).collect();
    assert_eq!(seen[..2], [BbrPhase::Startup, BbrPhase::Drain], "{seen:?}");
    let next = |phase| match phase {
        BbrPhase::Cruise => &[BbrPhase::Refill, BbrPhase::ProbeRtt][..],
        BbrPhase::Down => &[BbrPhase::Cruise, BbrPhase::Refill, BbrPhase::ProbeRtt],
        BbrPhase::Refill => &[BbrPhase::Up, BbrPhase::ProbeRtt],
        BbrPhase::Up => &[BbrPhase::Down, BbrPhase::Cruise, BbrPhase::ProbeRtt],
        BbrPhase::ProbeRtt => &[BbrPhase::Cruise],
        BbrPhase::Startup => &[BbrPhase::Drain],
        BbrPhase::Drain => &[BbrPhase::Down, BbrPhase::Cruise],
    };
    for pair in seen.windows(2) {
        assert!(next(pair[0]).contains(&pair[1]), "{seen:?}");
    }
    let probes = seen.iter().filter(|phase| **phase == BbrPhase::Up).count();
    assert!(probes >= 2, "{seen:?}");
}

#[test]
fn a_path_without_a_smaller_round_trip_is_left_nearly_empty_each_5_s() {
    // Section 5.3.4: breaks if a queue of our own hides the round trip for ever, or the pause does not end.
    let mut trip = Trip::new();
    trip.until(BbrPhase::ProbeRtt, 130);
    trip.round(0);
    assert!(trip.w.cwnd <= PRODUCT * 55 / 100, "{}", trip.w.cwnd);
    trip.until(BbrPhase::Cruise, 8);
    trip.round(0);
    assert!(trip.w.cwnd > PRODUCT, "{}", trip.w.cwnd);
}

#[test]
fn a_flow_that_begins_again_does_not_begin_with_probe_rtt() {
    // Section 5.4.1: breaks if each request after a pause, in which no round trip was measured, is sent with half of
    // the window.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Cruise, 60);
    trip.now += Duration::from_secs(9);
    trip.bbr.on_idle(&mut trip.w, Duration::from_secs(9), MSS);
    trip.round(0);
    assert_ne!(trip.bbr.phase, BbrPhase::ProbeRtt);
}

#[test]
fn a_path_that_became_longer_is_filled_again() {
    // Section 5.5.7: breaks if the smallest round trip counts for ever, as of a flow that has another route now.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Cruise, 60);
    trip.rtt = 4 * RTT;
    let until = trip.now + Duration::from_secs(20);
    while trip.now < until {
        trip.round(0);
    }
    trip.until(BbrPhase::Cruise, 60);
    trip.round(0);
    assert!(trip.w.cwnd > 4 * PRODUCT, "{}", trip.w.cwnd);
}

#[test]
fn a_probe_comes_after_as_many_rounds_as_reno_would_need() {
    // Section 5.3.3.5: breaks if a flow with a window of ten segments waits for seconds, in which Reno beside it takes
    // its share.
    let mut trip = Trip::new();
    (trip.rate, trip.rtt) = (500_000, Duration::from_millis(20));
    trip.until(BbrPhase::Cruise, 60);
    trip.seen.clear();
    let until = trip.now + Duration::from_secs(4);
    while trip.now < until {
        trip.round(0);
    }
    let probes = trip.seen.iter().filter(|(phase, _)| *phase == BbrPhase::Up);
    assert!(probes.count() >= 4, "{:?}", trip.seen);
}

#[test]
fn a_flow_that_cruises_leaves_a_part_of_the_bound_to_others() {
    // Section 5.5.10.1: breaks if a flow keeps the queue that overflowed full, and a new flow finds no room.
    for phase in [BbrPhase::Cruise, BbrPhase::Down] {
        let mut trip = Trip::new();
        trip.until(BbrPhase::Cruise, 60);
        trip.bbr.enter(phase);
        trip.bbr.bounds.flight_high = 100 * MSS;
        let sample = RateSample {
            now: trip.now,
            ..RateSample::default()
        };
        trip.bbr.set_cwnd(&mut trip.w, &sample);
        let kept = if phase == BbrPhase::Cruise { 85 } else { 100 };
        assert_eq!(trip.w.cwnd, kept * MSS, "{phase:?}");
    }
}

#[test]
fn a_program_with_little_data_does_not_end_startup() {
    // Section 5.3.1.2: breaks if some requests of a few bytes show that the pipe is full, and the answer that follows
    // grows by a segment in each of its round trips.
    let mut trip = Trip::new();
    for _ in 0..6 {
        trip.now += RTT;
        let sample = RateSample {
            now: trip.now,
            delivered: u64::from(MSS),
            interval: RTT.as_nanos() as u64,
            rtt: Some(RTT.as_nanos() as u64),
            acked: MSS,
            sent_flight: MSS,
            app_limited: true,
            ..RateSample::default()
        };
        trip.bbr.on_ack(&mut trip.w, &sample);
    }
    assert_eq!(trip.bbr.phase, BbrPhase::Startup);
}

#[test]
fn losses_end_startup() {
    // Section 5.3.1.3: breaks if a flow whose losses go on for a round trip doubles its window until its rate stops
    // growing. One loss is none.
    let mut trip = Trip::new();
    while trip.w.cwnd < PRODUCT / 4 {
        trip.round(0);
    }
    trip.round(1);
    trip.round(1);
    assert_eq!(trip.bbr.phase, BbrPhase::Startup);
    trip.round(100);
    trip.round(100);
    assert_ne!(trip.bbr.phase, BbrPhase::Startup);
    assert!(trip.bbr.bounds.flight_high < u32::MAX);
}

#[test]
fn a_long_probe_has_a_bounded_slope() {
    // Section 5.3.3.6: breaks if the growth of a probe that its bound limits in each round overflows.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Up, 150);
    trip.bbr.bounds.flight_high = 4 * MSS;
    for _ in 0..400 {
        trip.now += RTT / 8;
        let sample = RateSample {
            now: trip.now,
            delivered: 4 * u64::from(MSS),
            interval: RTT.as_nanos() as u64,
            acked: MSS / 2,
            sent_flight: 4 * MSS,
            cwnd_limited: true,
            ..RateSample::default()
        };
        trip.bbr.on_ack(&mut trip.w, &sample);
    }
    assert_eq!(trip.bbr.phase, BbrPhase::Up);
}

#[test]
fn losses_below_2_percent_change_nothing_and_more_bound_the_flight() {
    // Section 5.5.10: breaks if one loss in a hundred costs bandwidth, or a queue that overflows at each probe is
    // filled for ever.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Up, 150);
    let before = trip.bbr.bounds.flight_high;
    trip.round(5);
    assert_eq!(trip.bbr.bounds.flight_high, before);
    let mut trip = Trip::new();
    trip.until(BbrPhase::Up, 150);
    for _ in 0..4 {
        trip.round(60);
    }
    assert!(trip.bbr.bounds.flight_high < u32::MAX);
    assert_ne!(trip.bbr.phase, BbrPhase::Up);
    assert!(trip.bbr.bounds.flight_high >= PRODUCT * 6 / 10);
}

#[test]
fn losses_between_probes_lower_the_model_until_the_next() {
    // Section 5.5.10.3: breaks if a path that became narrower is overfilled until the maximum expires, or stays low for
    // ever.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Cruise, 60);
    trip.rate /= 2;
    for _ in 0..5 {
        trip.round(30);
    }
    let low = trip.bbr.bounds.bandwidth_low;
    assert!(low <= RATE * 7 / 10, "{low}");
    trip.until(BbrPhase::Refill, 200);
    assert_eq!(trip.bbr.bounds.bandwidth_low, u64::MAX);
}

#[test]
fn a_loss_in_probe_rtt_does_not_replace_the_saved_window() {
    // Section 5.6.4.4: breaks if the small window of PROBE_RTT, saved at a loss, is that with which the flow goes on. A
    // path with 1 % of random loss then carries two thirds as much.
    let mut trip = Trip::new();
    trip.until(BbrPhase::ProbeRtt, 130);
    trip.round(10);
    trip.bbr.on_recovered(&mut trip.w);
    trip.until(BbrPhase::Cruise, 8);
    assert!(trip.w.cwnd > PRODUCT, "{}", trip.w.cwnd);
}

#[test]
fn probe_rtt_is_no_probe_of_the_bandwidth() {
    // Section 5.3.4.3: breaks if the low samples of PROBE_RTT end a cycle, and the bandwidth of the last probe is
    // forgotten.
    let mut trip = Trip::new();
    trip.until(BbrPhase::ProbeRtt, 130);
    trip.until(BbrPhase::Cruise, 8);
    let bandwidth = trip.bbr.model.bandwidth();
    for _ in 0..2 {
        trip.rate = RATE / 2;
        trip.round(0);
    }
    assert_eq!(trip.bbr.model.bandwidth(), bandwidth);
}

#[test]
fn a_loss_is_judged_by_the_round_trip_that_it_begins() {
    // Section 5.5.10.3: breaks if a loss in the first round trip of a pipe that fills again lowers the bandwidth to
    // that round's.
    let (mut bounds, mut model, w) = (
        FlightBounds::default(),
        PathModel::default(),
        Window::new(MSS, 10),
    );
    let mut ack = |bounds: &mut FlightBounds, rate: u64, lost: u32| {
        let sample = RateSample {
            acked: 10 * MSS,
            delivered: 40 * u64::from(MSS),
            interval: 40 * u64::from(MSS) * 1_000_000_000 / rate,
            lost,
            sent_flight: 40 * MSS,
            ..RateSample::default()
        };
        model.on_ack(&w, &mut sample.clone(), BbrPhase::Cruise, RATE);
        bounds.on_ack(&w, &sample, &model, BbrPhase::Cruise);
        bounds.end_ack(&sample);
    };
    for _ in 0..8 {
        ack(&mut bounds, RATE, 0);
    }
    for n in 0..3 {
        ack(&mut bounds, RATE / 4, if n == 0 { MSS } else { 0 });
    }
    assert_eq!(
        bounds.bandwidth_low,
        u64::MAX,
        "the round trip has not ended"
    );
    for _ in 0..4 {
        ack(&mut bounds, RATE * 99 / 100, 0);
    }
    let low = bounds.bandwidth_low;
    assert!(low.abs_diff(RATE) < RATE / 50, "{low}");
}

#[test]
fn the_bound_is_where_too_much_began_to_be_lost() {
    // Section 5.5.10.2 (BBRInflightAtLoss): breaks if one acknowledgement that shows many losses sets the bound to all
    // that was in flight, with the lost segments.
    for (lost, high) in [(100_000, 918_367), (30_000, 989_795), (0, 1_000_000)] {
        let mut bounds = FlightBounds::default();
        let model = PathModel::default();
        let sample = RateSample {
            lost,
            sent_flight: 1_000_000,
            ..RateSample::default()
        };
        let w = Window::new(MSS, 10);
        bounds.on_ack(&w, &sample, &model, BbrPhase::Up);
        // A program without data has not found where the path ends.
        let limited = RateSample {
            app_limited: true,
            ..sample
        };
        bounds.cut(&limited, 0);
        assert_eq!(bounds.flight_high, u32::MAX, "{lost} bytes lost");
        bounds.cut(&sample, 0);
        assert_eq!(bounds.flight_high, high, "{lost} bytes lost");
    }
    // What was lost before leaves less room.
    let mut bounds = FlightBounds::default();
    let model = PathModel::default();
    let w = Window::new(MSS, 10);
    let sample = RateSample {
        lost: 15_000,
        sent_flight: 1_000_000,
        ..RateSample::default()
    };
    for _ in 0..2 {
        bounds.on_ack(&w, &sample, &model, BbrPhase::Up);
    }
    bounds.cut(&sample, 0);
    assert_eq!(bounds.flight_high, 985_000 + 4_700 * 100 / 98);
}

/// One acknowledgement of a whole window.
fn ack_of_all(trip: &mut Trip, lost: u32, flight: u32) {
    trip.now += RTT;
    let sample = RateSample {
        now: trip.now,
        delivered: u64::from(PRODUCT),
        interval: RTT.as_nanos() as u64,
        min_rtt: RTT.as_nanos() as u64,
        srtt: RTT.as_nanos() as u64,
        acked: PRODUCT,
        lost,
        sent_flight: PRODUCT,
        flight,
        ..RateSample::default()
    };
    trip.bbr.on_ack(&mut trip.w, &sample);
}

#[test]
fn the_losses_of_a_probe_do_not_count_after_it() {
    // Section 5.3.3.9: breaks if DOWN begins with the losses that ended UP, and lowers the bandwidth for them once
    // more.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Up, 150);
    ack_of_all(&mut trip, PRODUCT / 10, PRODUCT);
    assert_eq!(trip.bbr.phase, BbrPhase::Down);
    for _ in 0..3 {
        ack_of_all(&mut trip, 0, PRODUCT);
    }
    assert_eq!(trip.bbr.bounds.bandwidth_low, u64::MAX);
}

#[test]
fn drain_ends_after_three_round_trips() {
    // Section 5.3.2: breaks if a bandwidth that was estimated beside another flow keeps DRAIN from its end for ever.
    let mut trip = Trip::new();
    trip.bbr.model.set_full(true);
    for _ in 0..4 {
        ack_of_all(&mut trip, 0, 10 * PRODUCT);
        assert_eq!(trip.bbr.phase, BbrPhase::Drain);
    }
    ack_of_all(&mut trip, 0, 10 * PRODUCT);
    assert_ne!(trip.bbr.phase, BbrPhase::Drain);
}

#[test]
fn after_a_probe_that_lost_too_much_comes_a_short_one_and_then_a_long_one() {
    // Section 5.3.3.6: breaks if a flow stays for a round trip at the flight at which the queue overflowed before, or
    // if it waits for seconds although the short probe lost nothing.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Up, 150);
    while trip.bbr.phase == BbrPhase::Up {
        trip.round(60);
    }
    trip.until(BbrPhase::Up, 150);
    trip.bbr.bounds.flight_high = trip.w.cwnd.min(PRODUCT);
    trip.seen.clear();
    for _ in 0..8 {
        trip.round(0);
    }
    let seen: Vec<BbrPhase> = trip.seen.iter().map(|(phase, _)| *phase).collect();
    let again = [BbrPhase::Down, BbrPhase::Refill, BbrPhase::Up];
    assert!(seen.starts_with(&again), "{seen:?}");
}

#[test]
fn a_probe_that_a_spurious_event_ended_goes_on() {
    // Section 5.5.11.2: breaks if a path that reorders ends STARTUP for good at a tenth of its bandwidth.
    let mut trip = Trip::new();
    for _ in 0..4 {
        trip.round(0);
    }
    assert_eq!(trip.bbr.phase, BbrPhase::Startup);
    let event = CongestionEvent::new(Why::Loss, trip.now, trip.w.cwnd);
    trip.bbr.on_congestion(&mut trip.w, &event);
    trip.bbr.probe_lost = Some(BbrPhase::Startup);
    trip.bbr.model.set_full(true);
    trip.bbr.enter(BbrPhase::Drain);
    trip.bbr.on_undo(&mut trip.w, trip.now);
    assert_eq!(trip.bbr.phase, BbrPhase::Startup);
    assert!(!trip.bbr.model.is_full());
    trip.until(BbrPhase::Up, 150);
    trip.bbr.on_congestion(&mut trip.w, &event);
    trip.bbr.probe_lost = Some(BbrPhase::Up);
    trip.bbr.start_down(trip.now);
    trip.bbr.on_undo(&mut trip.w, trip.now);
    assert_eq!(trip.bbr.phase, BbrPhase::Refill);
}

#[test]
fn a_recovery_ends_with_the_window_before_it_and_may_be_undone_later() {
    // Sections 5.6.4.4 and 5.5.11.2: breaks if a flow grows from one segment again after a timeout, or if the report of
    // a duplicate that follows a recovery does not restore the bounds.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Cruise, 60);
    let (cwnd, high) = (trip.w.cwnd, trip.bbr.bounds.flight_high);
    let event = CongestionEvent::new(Why::Timeout, trip.now, cwnd);
    trip.bbr.on_congestion(&mut trip.w, &event);
    assert_eq!(trip.w.cwnd, MSS);
    trip.bbr.bounds.flight_high = 10 * MSS;
    trip.bbr.on_recovered(&mut trip.w);
    assert_eq!(trip.w.cwnd, cwnd);
    trip.bbr.on_undo(&mut trip.w, trip.now);
    assert_eq!(trip.bbr.bounds.flight_high, high);
}

#[test]
fn losses_count_from_the_time_that_the_arrived_data_was_sent() {
    // Section 5.5.10.2: breaks if the losses of an earlier flight, or only those since a round trip began, are set
    // against this flight.
    let mut losses = losses::RecentLosses::default();
    for (delivered, bytes) in [(10, 1), (20, 2), (20, 4), (30, 8)] {
        losses.note(delivered, bytes);
    }
    assert_eq!(losses.since(0), 15);
    assert_eq!(losses.since(10), 14);
    assert_eq!(losses.since(19), 14);
    assert_eq!(losses.since(20), 8);
    for n in 100..1000 {
        losses.note(n, 1);
    }
    assert_eq!(losses.since(30), 900);
}

#[test]
fn an_event_that_was_none_is_undone_and_a_timeout_leaves_a_segment() {
    // Breaks if the bounds of a spurious event stay, or a timeout permits to send the whole window again at once.
    let mut trip = Trip::new();
    trip.until(BbrPhase::Cruise, 60);
    let cwnd = trip.w.cwnd;
    let event = CongestionEvent::new(Why::Timeout, trip.now, cwnd);
    trip.bbr.on_congestion(&mut trip.w, &event);
    assert_eq!(trip.w.cwnd, MSS);
    let high = trip.bbr.bounds.flight_high;
    trip.bbr.bounds.flight_high = 10 * MSS;
    let second = CongestionEvent {
        continues: true,
        ..event
    };
    trip.bbr.on_congestion(&mut trip.w, &second);
    trip.bbr.on_undo(&mut trip.w, trip.now);
    assert_eq!((trip.w.cwnd, trip.bbr.bounds.flight_high), (cwnd, high));
}

#[test]
fn no_sample_of_any_size_overflows_bbr() {
    // Breaks if a sample of any size, 0 included, makes BBR panic or leaves no window.
    let (mut bbr, mut w) = (Bbr::default(), Window::new(MSS, 10));
    for n in 0..2000_u64 {
        let huge = if n % 3 == 0 { u32::MAX / 4 } else { n as u32 };
        let sample = RateSample {
            now: Time::from_millis(n * n),
            delivered: u64::from(huge),
            interval: n % 5,
            rtt: (n % 7 > 0).then_some(n % 7),
            acked: huge,
            lost: huge / 2,
            sent_flight: huge,
            flight: huge,
            cwnd_limited: true,
            ..RateSample::default()
        };
        bbr.on_ack(&mut w, &sample);
        assert!(w.cwnd >= 4 * MSS && w.cwnd <= 65_535 << 14);
    }
    bbr.on_idle(&mut w, Duration::from_secs(9), MSS);
}
