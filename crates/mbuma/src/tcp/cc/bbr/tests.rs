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
            seen: Vec::new(),
        }
    }

    /// The round trip's queue in nanoseconds.
    fn waits(&self) -> u64 {
        u64::from(self.queue) * 1_000_000_000 / self.rate
    }

    /// One round trip: as much as the window allows is sent at the pacing rate, and acknowledged in ten parts; `lost` of a thousand
    /// bytes get lost.
    fn round(&mut self, lost: u32) {
        let rtt = RTT.as_nanos() as u64;
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
    // Section 5.6.2: breaks if the one number of a SYN, delivered within a round trip, becomes the bandwidth at which the first data
    // is paced: 20 bytes a second here.
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
fn losses_below_2_percent_change_nothing_and_more_bound_the_flight() {
    // Section 5.5.10: breaks if one loss in a hundred costs bandwidth, or a queue that overflows at each probe is filled for ever.
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
    // Section 5.5.10.3: breaks if a path that became narrower is overfilled until the maximum expires, or stays low for ever.
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
