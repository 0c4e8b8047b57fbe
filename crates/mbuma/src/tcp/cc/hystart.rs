//! HyStart++: leaves the first slow start when round trips grow, before a queue overflows (RFC 9406).
//!
//! ```text
//!   slow start  --- smallest RTT of this round >= that of the last + threshold --->  conservative slow start (CSS)
//!   slow start  <-- smallest RTT fell below what it was at the change ------------   CSS: a quarter of the growth
//!                                                      CSS, after 5 round trips --->  congestion avoidance
//! ```
//!
//! Only the smallest RTT of a round trip counts, so jitter of a loaded CPU or a radio link seldom ends slow start.

use super::RateSample;

#[cfg(all(test, not(shuttle)))]
mod tests;

/// Bounds of the threshold in microseconds (RFC 9406 4.3: MIN_RTT_THRESH, MAX_RTT_THRESH).
const THRESHOLD: std::ops::RangeInclusive<u32> = 4_000..=16_000;
/// The threshold is this part of the last round's RTT (MIN_RTT_DIVISOR).
const RTT_DIVISOR: u32 = 8;
/// RTT samples that a round needs to be judged (N_RTT_SAMPLE).
const SAMPLES_MIN: u8 = 8;
/// CSS grows by this part of slow start's growth (CSS_GROWTH_DIVISOR).
const GROWTH_DIVISOR: u32 = 4;
/// Round trips of CSS before congestion avoidance (CSS_ROUNDS).
const ROUNDS: u8 = 5;
/// No RTT yet.
const NONE: u32 = u32::MAX;

/// The state of one slow start. RTTs are microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HyStart {
    last_min: u32,
    current_min: u32,
    samples: u8,
    css: Option<Css>,
}

/// Conservative slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Css {
    /// The smallest RTT of the round in which it began.
    baseline: u32,
    rounds: u8,
}

/// The next phase of slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Growth {
    /// By so many bytes.
    By(u32),
    /// Not: congestion avoidance begins.
    Done,
}

impl Default for HyStart {
    fn default() -> Self {
        Self {
            last_min: NONE,
            current_min: NONE,
            samples: 0,
            css: None,
        }
    }
}

impl HyStart {
    /// An acknowledgement in slow start.
    pub(super) fn on_ack(&mut self, s: &RateSample) -> Growth {
        if s.round_start && self.next_round() {
            return Growth::Done;
        }
        if let Some(rtt) = s.rtt {
            self.rtt(u32::try_from(rtt / 1_000).unwrap_or(NONE));
        }
        Growth::By(match self.css {
            None => s.acked,
            Some(_) => s.acked / GROWTH_DIVISOR,
        })
    }

    /// Returns true if it was the last one of CSS.
    fn next_round(&mut self) -> bool {
        self.last_min = self.current_min;
        self.current_min = NONE;
        self.samples = 0;
        self.css.as_mut().is_some_and(|css| {
            css.rounds += 1;
            css.rounds >= ROUNDS
        })
    }

    fn rtt(&mut self, rtt: u32) {
        self.current_min = self.current_min.min(rtt);
        self.samples = self.samples.saturating_add(1);
        if self.samples < SAMPLES_MIN {
            return;
        }
        match self.css {
            None if self.has_grown() => {
                self.css = Some(Css {
                    baseline: self.current_min,
                    rounds: 0,
                });
            }
            // It was jitter.
            Some(css) if self.current_min < css.baseline => self.css = None,
            _ => {}
        }
    }

    fn has_grown(&self) -> bool {
        let threshold = (self.last_min / RTT_DIVISOR).clamp(*THRESHOLD.start(), *THRESHOLD.end());
        self.last_min != NONE && self.current_min >= self.last_min.saturating_add(threshold)
    }
}
