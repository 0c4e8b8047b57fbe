//! The phases: STARTUP and DRAIN, the cycle of PROBE_BW, and PROBE_RTT.
//!
//! Source: draft-ietf-ccwg-bbr sections 5.3.1 to 5.3.4.

use std::time::Duration;

use kern::Time;

use super::model::rate_of;
use super::{Bbr, BbrPhase, SEGMENTS_MIN};
use crate::tcp::cc::{RateSample, Window};

/// The time between two probes is this, and up to a second more.
const PROBE_WAIT: Duration = Duration::from_secs(2);

/// Rounds after which there is a probe anyway: so a flow of Reno beside it, which would have grown by as many segments,
/// gets its share.
const ROUNDS_MAX: u64 = 63;

/// Rounds after which DRAIN ends anyway.
const DRAIN_ROUNDS_MAX: u64 = 3;

/// How long PROBE_RTT lasts.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// The data that is acknowledged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum AckPhase {
    #[default]
    Init,
    /// Of data before a probe began.
    Starting,
    /// Of a probe.
    Feedback,
    /// Of data before it ended.
    Stopping,
}

/// The place in the cycle.
#[derive(Debug, Default)]
pub(super) struct Cycle {
    since: Time,
    wait: Duration,
    rounds_at: u64,
    acks: AckPhase,
    /// Samples are of a probe.
    samples: bool,
    /// The last probe lost too much; and the last one was short for that.
    was_too_high: bool,
    was_short: bool,
    /// Doublings of the growth of a probe, the bytes for one segment more, and those acknowledged for it.
    up_rounds: u8,
    up_every: u32,
    up_acked: u32,
    /// When PROBE_RTT ends, once little is in flight; and whether a round trip has passed since.
    rtt_until: Option<Time>,
    rtt_round: bool,
    /// The state of a generator, so that flows do not probe at the same time.
    noise: u64,
}

impl Bbr {
    pub(super) fn check_startup(&mut self, s: &RateSample) {
        if self.phase != BbrPhase::Startup {
            return;
        }
        if self.bounds.ends_startup(s) {
            self.probe_lost = Some(BbrPhase::Startup);
            self.model.set_full(true);
            self.bounds.cut_startup(self.product(100));
        }
        if self.model.is_full() {
            self.cycle.rounds_at = self.model.rounds();
            self.enter(BbrPhase::Drain);
        }
    }

    pub(super) fn check_drain(&mut self, s: &RateSample) {
        if self.phase != BbrPhase::Drain {
            return;
        }
        // Beside other flows the bandwidth may be too high an estimate.
        let late = self.model.rounds() > self.cycle.rounds_at + DRAIN_ROUNDS_MAX;
        if late || s.flight <= self.product(100) {
            self.start_down(s.now);
        }
    }

    /// The rest of an acknowledgement in PROBE_BW.
    pub(super) fn advance_cycle(&mut self, w: &Window, s: &RateSample) {
        if !self.model.is_full() {
            return;
        }
        if self.adapt(w, s) {
            return;
        }
        match self.phase {
            BbrPhase::Down | BbrPhase::Cruise if self.is_time_to_probe(w, s) => {
                self.start_refill();
            }
            BbrPhase::Down if self.has_drained(w, s) => self.enter(BbrPhase::Cruise),
            BbrPhase::Refill if self.model.round_start => self.start_up(w, s),
            BbrPhase::Up => self.end_probe(w, s),
            _ => {}
        }
    }

    /// Adjusts the bound of the flight to the result of a probe. True if the next phase has begun.
    fn adapt(&mut self, w: &Window, s: &RateSample) -> bool {
        let starts = self.model.round_start;
        match self.cycle.acks {
            AckPhase::Starting if starts => self.cycle.acks = AckPhase::Feedback,
            AckPhase::Stopping if starts => {
                (self.cycle.samples, self.cycle.acks) = (false, AckPhase::Init);
                if self.phase.is_probe_bw() && !s.app_limited {
                    self.model.next_cycle();
                }
                if self.phase.is_probe_bw() && self.cycle.was_short && !self.cycle.was_too_high {
                    self.start_refill();
                    return true;
                }
            }
            _ => {}
        }
        if self.bounds.is_too_high(s) {
            return std::mem::take(&mut self.cycle.samples) && self.end_lossy_probe(w, s);
        }
        self.bounds.raise(s);
        if self.phase == BbrPhase::Up {
            self.probe_up(w, s);
        }
        false
    }

    /// Too much of a probe was lost. True if the next phase has begun.
    fn end_lossy_probe(&mut self, w: &Window, s: &RateSample) -> bool {
        self.cycle.was_too_high = true;
        let target = self.product(100).min(w.cwnd);
        self.bounds.cut(s, target);
        if self.phase != BbrPhase::Up {
            return false;
        }
        self.probe_lost = Some(BbrPhase::Up);
        self.start_down(s.now);
        true
    }

    /// The losses that ended a probe were none: the probe goes on (section 5.5.11.2).
    pub(super) fn resume_probe(&mut self) {
        match self.probe_lost.take() {
            Some(BbrPhase::Startup) if self.phase != BbrPhase::Startup => {
                self.model.set_full(false);
                if self.phase != BbrPhase::ProbeRtt {
                    self.enter(BbrPhase::Startup);
                }
            }
            Some(BbrPhase::Up) if !matches!(self.phase, BbrPhase::Up | BbrPhase::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }

    /// A probe that fills the bound moves it, faster with each round trip.
    fn probe_up(&mut self, w: &Window, s: &RateSample) {
        let bound = self.bounds.flight_high;
        if bound == u32::MAX || !s.cwnd_limited || w.cwnd < bound {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.up_acked = cycle.up_acked.saturating_add(s.acked);
        let every = cycle.up_every.max(1);
        let segments = cycle.up_acked / every;
        cycle.up_acked -= segments * every;
        self.bounds.flight_high = bound.saturating_add(segments.saturating_mul(w.mss));
        if self.model.round_start {
            self.raise_slope(w);
        }
    }

    fn raise_slope(&mut self, w: &Window) {
        let cycle = &mut self.cycle;
        let growth = 1_u32 << cycle.up_rounds;
        cycle.up_rounds = (cycle.up_rounds + 1).min(30);
        cycle.up_every = (w.cwnd / growth).max(w.mss);
    }

    fn is_time_to_probe(&self, w: &Window, s: &RateSample) -> bool {
        let target = self.product(100).min(w.cwnd);
        let segments = u64::from(target / w.mss.max(1));
        let rounds = self.model.rounds().saturating_sub(self.cycle.rounds_at);
        s.now >= self.cycle.since + self.cycle.wait || rounds >= segments.clamp(1, ROUNDS_MAX)
    }

    fn has_drained(&self, w: &Window, s: &RateSample) -> bool {
        let product = self.model.product(self.model.bandwidth(), 100);
        let product = product.max(SEGMENTS_MIN * w.mss);
        s.flight <= self.bounds.with_headroom(w) && s.flight <= product
    }

    /// A probe is over once the pipe is full again. A probe that the bound limits does not measure the path. After one
    /// that lost too much, the next one ends where its bound is reached; if nothing is lost there, a longer one follows
    /// (section 5.3.3.6).
    fn end_probe(&mut self, w: &Window, s: &RateSample) {
        let is_risky = self.cycle.was_too_high && s.flight >= self.bounds.flight_high;
        self.cycle.was_short |= is_risky;
        if is_risky {
            self.cycle.was_too_high = false;
            self.start_down(s.now);
        } else if s.cwnd_limited && w.cwnd >= self.bounds.flight_high {
            self.model.reset_full(rate_of(s).unwrap_or(0));
        } else if self.model.is_full_now {
            self.cycle.was_too_high = false;
            self.start_down(s.now);
        }
    }

    pub(super) fn start_down(&mut self, now: Time) {
        self.bounds.forget_losses();
        // So that flows that began together do not probe together.
        let noise = self.noise(now);
        self.cycle.wait = PROBE_WAIT + Duration::from_millis(noise % 1000);
        self.cycle.rounds_at = self.model.rounds().saturating_sub(noise >> 32 & 1);
        self.cycle.since = now;
        self.cycle.up_every = u32::MAX;
        self.cycle.acks = AckPhase::Stopping;
        self.model.begin_round();
        self.enter(BbrPhase::Down);
    }

    fn start_refill(&mut self) {
        self.bounds.forget_low();
        self.cycle.was_short = false;
        (self.cycle.up_rounds, self.cycle.up_acked) = (0, 0);
        self.cycle.acks = AckPhase::Init;
        self.model.begin_round();
        self.enter(BbrPhase::Refill);
    }

    fn start_up(&mut self, w: &Window, s: &RateSample) {
        self.cycle.samples = true;
        self.cycle.acks = AckPhase::Starting;
        self.cycle.since = s.now;
        self.model.begin_round();
        self.model.reset_full(rate_of(s).unwrap_or(0));
        self.enter(BbrPhase::Up);
        self.raise_slope(w);
    }

    pub(super) fn check_probe_rtt(&mut self, w: &mut Window, s: &RateSample) {
        let restarts = self.restarts;
        if s.acked > 0 {
            self.restarts = false;
        }
        if self.phase != BbrPhase::ProbeRtt {
            if self.model.is_rtt_old && !restarts {
                self.save_cwnd(w, !self.recovers);
                (self.cycle.rtt_until, self.cycle.rtt_round) = (None, false);
                self.cycle.acks = AckPhase::Stopping;
                self.model.begin_round();
                self.enter(BbrPhase::ProbeRtt);
            }
            return;
        }
        self.model.note_limited(s.flight);
        match self.cycle.rtt_until {
            None if s.flight <= self.flight_of_probe_rtt(w) => {
                self.cycle.rtt_until = Some(s.now + PROBE_RTT_TIME);
                self.model.begin_round();
            }
            None => {}
            Some(until) => {
                self.cycle.rtt_round |= self.model.round_start;
                if self.cycle.rtt_round && s.now >= until {
                    self.end_probe_rtt(w, s.now);
                }
            }
        }
    }

    fn end_probe_rtt(&mut self, w: &mut Window, now: Time) {
        self.model.probe_rtt_at = now;
        w.cwnd = w.cwnd.max(self.prior_cwnd);
        self.bounds.forget_low();
        match self.model.is_full() {
            true => {
                self.start_down(now);
                self.enter(BbrPhase::Cruise);
            }
            false => self.enter(BbrPhase::Startup),
        }
    }

    /// The next number of a generator that begins with the time (Marsaglia's xorshift).
    fn noise(&mut self, now: Time) -> u64 {
        let mut n = self.cycle.noise ^ now.as_nanos() | 1;
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
        self.cycle.noise = n;
        n
    }
}
