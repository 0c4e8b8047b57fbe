//! CUBIC: the window grows with the cube of the time since the last congestion event, towards and beyond the window at
//! which that happened (RFC 9438).
//!
//! ```text
//!   window                            W(t) = C (t - K)^3 + w_max          C = 0.4 segments / s^3
//!     |             |      ,'
//!     |    ______--------'    w_max   concave up to the plateau, convex beyond it
//!     |  ,'         |
//!     | /           |
//!     +-------------+--------- t
//!     begin         K
//! ```
//!
//! Where Reno would have a larger window (`w_est`), that is on short or slow paths, the window is Reno's. The first
//! slow start is [HyStart++](super::hystart)'s.
//!
//! Invariants: windows are bytes. Time is counted from the plateau (`phase` = t - K), only while the window is the
//! limit of sending. All arithmetic is addition, multiplication and division of f64: a seed gives the same run on every
//! machine.

use kern::Time;

use super::hystart::{Growth, HyStart};
use super::{Algorithm, CongestionEvent, RateSample, Why, Window};

#[cfg(all(test, not(shuttle)))]
mod tests;

/// The cube's factor in segments per second cubed (RFC 9438 5).
const C: f64 = 0.4;
/// The share of the window that a loss leaves (RFC 9438 4.6).
const BETA: f64 = 0.7;
/// The share that a congestion mark leaves: the queue that marks is short (RFC 8511 3.1).
const BETA_ECN: f64 = 0.85;
/// Segments that `w_est` grows by in a round trip, up to the window before the event: as fast as Reno, which loses
/// half, has it on the average (RFC 9438 4.3: 3 (1 - BETA) / (1 + BETA)).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// No epoch has begun: the next acknowledgement in congestion avoidance begins one.
const NO_EPOCH: i64 = i64::MIN;

/// CUBIC's state.
#[derive(Debug, Clone, Copy)]
pub struct Cubic {
    /// When the last acknowledgement in congestion avoidance arrived.
    acked_at: Time,
    /// Nanoseconds since the plateau; negative before it.
    phase: i64,
    /// The window of the plateau.
    w_max: u32,
    /// Reno's window in this epoch, and a fraction of a byte.
    w_est: u32,
    w_est_fraction: f32,
    /// The window before the last congestion event.
    cwnd_prior: u32,
    /// The fraction of a byte by which the window did not grow yet.
    cwnd_fraction: f32,
    stage: Stage,
}

/// The two are never needed at the same time, and share memory.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Before the first congestion event.
    First(HyStart),
    /// Since then: the values that the event which began the last recovery replaced.
    After(Option<Before>),
}

/// The values that an undo restores.
#[derive(Debug, Clone, Copy)]
struct Before {
    cwnd: u32,
    ssthresh: u32,
    w_max: u32,
    w_est: u32,
    cwnd_prior: u32,
    /// Seconds since the plateau; NaN if there was no epoch.
    phase: f32,
}

impl Default for Cubic {
    fn default() -> Self {
        Self {
            acked_at: Time::ZERO,
            phase: NO_EPOCH,
            w_max: 0,
            w_est: 0,
            w_est_fraction: 0.0,
            cwnd_prior: 0,
            cwnd_fraction: 0.0,
            stage: Stage::First(HyStart::default()),
        }
    }
}

impl Algorithm for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn on_ack(&mut self, w: &mut Window, s: &RateSample) {
        if w.in_slow_start() {
            self.slow_start(w, s);
        } else {
            self.avoid_congestion(w, s);
        }
    }

    fn on_congestion(&mut self, w: &mut Window, event: &CongestionEvent) {
        if !event.again {
            if !(event.continues && matches!(self.stage, Stage::After(Some(_)))) {
                self.stage = Stage::After(Some(self.before(w)));
            }
            self.reduce(w, event);
        }
        w.cwnd = match event.why {
            Why::Timeout => w.mss,
            Why::Loss | Why::Ecn => w.ssthresh,
        };
    }

    fn on_undo(&mut self, w: &mut Window, now: Time) {
        let Stage::After(before) = &mut self.stage else {
            return;
        };
        let Some(before) = before.take() else {
            return;
        };
        w.cwnd = w.cwnd.max(before.cwnd);
        w.ssthresh = before.ssthresh.max(w.floor());
        self.w_max = before.w_max;
        self.w_est = before.w_est;
        self.cwnd_prior = before.cwnd_prior;
        self.acked_at = now;
        self.phase = match before.phase.is_nan() {
            true => NO_EPOCH,
            false => nanos(f64::from(before.phase)),
        };
        if w.ssthresh == u32::MAX {
            // There was no congestion event yet, so this is the first slow start still.
            self.stage = Stage::First(HyStart::default());
        }
    }

    fn on_mss(&mut self, _: &mut Window) {
        // The cube is in segments: a new epoch leads from here to the same plateau.
        self.phase = NO_EPOCH;
    }
}

impl Cubic {
    fn slow_start(&mut self, w: &mut Window, s: &RateSample) {
        let growth = match &mut self.stage {
            Stage::First(hystart) => hystart.on_ack(s),
            Stage::After(_) => Growth::By(s.acked),
        };
        match growth {
            Growth::By(bytes) if s.cwnd_limited => w.grow(bytes),
            Growth::By(_) => {}
            Growth::Done => {
                w.ssthresh = w.cwnd;
                // HyStart++ is for the first slow start alone (RFC 9406 4.3): a later one, after an idle time, would
                // end at once.
                self.stage = Stage::After(None);
            }
        }
    }

    /// RFC 9438 4.2 to 4.5.
    fn avoid_congestion(&mut self, w: &mut Window, s: &RateSample) {
        if self.phase == NO_EPOCH {
            self.begin_epoch(w, s.now);
        }
        let passed = span(self.acked_at, s.now);
        self.acked_at = s.now;
        if !s.cwnd_limited {
            return;
        }
        // While the window is the limit, acknowledgements come in each round trip. A longer pause was idle time, which
        // does not count (RFC 9438 4.2).
        let passed = passed.min(s.srtt.saturating_mul(2));
        // An idle connection restarted with a smaller window (RFC 5681 4.1), and Reno would grow from there.
        self.w_est = self.w_est.min(w.cwnd);
        self.phase = self
            .phase
            .saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        self.grow_estimate(w, s.acked);
        let now = seconds(self.phase);
        if self.cube(now, w.mss) < f64::from(self.w_est) {
            // RFC 9438 4.3: where Reno is faster.
            w.grow(self.w_est.saturating_sub(w.cwnd));
            return;
        }
        let cwnd = f64::from(w.cwnd);
        let target = self.cube(now + s.srtt as f64 / 1e9, w.mss);
        let target = target.clamp(cwnd, 1.5 * cwnd);
        let bytes = (target - cwnd) / cwnd * f64::from(s.acked);
        w.grow(whole(&mut self.cwnd_fraction, bytes));
    }

    /// Congestion avoidance begins: the plateau is where the last event was, or here if that is higher.
    fn begin_epoch(&mut self, w: &Window, now: Time) {
        self.w_max = self.w_max.max(w.cwnd);
        let below = f64::from(self.w_max - w.cwnd) / f64::from(w.mss);
        self.phase = nanos(-cube_root(below / C));
        self.acked_at = now;
        self.w_est = w.cwnd;
        (self.w_est_fraction, self.cwnd_fraction) = (0.0, 0.0);
    }

    /// W(t) in bytes, so many seconds after the plateau (RFC 9438 equation 1).
    fn cube(&self, phase: f64, mss: u32) -> f64 {
        C * phase * phase * phase * f64::from(mss) + f64::from(self.w_max)
    }

    /// RFC 9438 equation 4.
    fn grow_estimate(&mut self, w: &Window, acked: u32) {
        let alpha = if self.w_est < self.cwnd_prior {
            ALPHA
        } else {
            1.0
        };
        let bytes = alpha * f64::from(w.mss) * f64::from(acked) / f64::from(w.cwnd);
        let bytes = whole(&mut self.w_est_fraction, bytes);
        self.w_est = self.w_est.saturating_add(bytes);
    }

    /// RFC 9438 4.6 and 4.7.
    fn reduce(&mut self, w: &mut Window, event: &CongestionEvent) {
        let beta = match event.why {
            Why::Ecn => BETA_ECN,
            Why::Loss | Why::Timeout => BETA,
        };
        // Below the last plateau: other flows need room, so the next one is lower still (fast convergence).
        self.w_max = match w.cwnd < self.w_max {
            true => part(w.cwnd, (1.0 + beta) / 2.0),
            false => w.cwnd,
        };
        self.cwnd_prior = w.cwnd;
        self.phase = NO_EPOCH;
        // The bytes in flight, if they were fewer, because a window that was not filled is not validated.
        let used = event.flight.min(w.cwnd);
        w.ssthresh = part(used, beta).max(w.floor());
        if event.why == Why::Timeout {
            // The plateau is where slow start ends (RFC 9438 4.8): so much was lost that the path may be another one.
            self.w_max = 0;
        }
    }

    fn before(&self, w: &Window) -> Before {
        Before {
            cwnd: w.cwnd,
            ssthresh: w.ssthresh,
            w_max: self.w_max,
            w_est: self.w_est,
            cwnd_prior: self.cwnd_prior,
            phase: match self.phase {
                NO_EPOCH => f32::NAN,
                phase => seconds(phase) as f32,
            },
        }
    }
}

/// A fraction of a window.
fn part(bytes: u32, part: f64) -> u32 {
    (f64::from(bytes) * part).round() as u32
}

/// The whole bytes of `fraction` and `bytes`; the rest stays in `fraction`.
fn whole(fraction: &mut f32, bytes: f64) -> u32 {
    let sum = f64::from(*fraction) + bytes;
    let whole = sum as u32;
    // Above 2^32 bytes at once, the rest is lost.
    *fraction = (sum - f64::from(whole)).clamp(0.0, 1.0) as f32;
    whole
}

/// The cube root of a number that is not negative, by Newton's iteration.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent: within a few per cent.
    const BIAS: u64 = 0x2A9F_7893 << 32;
    let mut root = f64::from_bits(x.to_bits() / 3 + BIAS);
    for _ in 0..4 {
        root -= (root - x / (root * root)) / 3.0;
    }
    root
}

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// Nanoseconds from one instant to a later one.
fn span(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}
