//! Pacing: data leaves at the rate of one window in a round trip, and not as fast as the device takes it. A window that
//! leaves at once fills the queue of the bottleneck link; spread over the round trip it needs no queue.
//!
//! ```text
//!   rate  = gain * cwnd / srtt     gain: 2 while slow start is far from its end, else 1.2
//!   burst = bytes of 1 ms at that rate; two segments at least, one packet of 64 KiB at most
//!
//!   turn   begin: may something leave yet?  sent: when may the next?  end: the timer, if that lies ahead
//! ```
//!
//! The time of the next packet is one of the connection's timers, [`TcpTimer::Pace`], which runs only while that time
//! is in the future. A late turn counts on from the time in the past, so that all packets due meanwhile leave at once:
//! the granularity of timers does not reduce the rate.
//!
//! | not paced | why |
//! |---|---|
//! | round trips below [`FAR`] | a burst has left before a timer could expire; on devices of this host pacing would only cost time |
//! | windows of slow start up to [`BURST_MAX`] | the first flight leaves at once (RFC 6928), and acknowledgements release the next ones at twice the rate of the path, so its queue holds half a window at most; pacing would make a short answer half a round trip longer |
//! | acknowledgements, probes, retransmissions after a timeout | the peer or the recovery waits for them |
//!
//! The queues of this host's devices need no bound here: a batch hands its packets to the device before it ends, and
//! our devices keep none.
//!
//! Locks: none; part of the connection.
//! Sources: A. Aggarwal, S. Savage, T. Anderson, *Understanding the performance of TCP pacing* (2000); the gains are
//! Linux's.

use std::time::Duration;

use kern::Time;

use super::pcb::Tcb;
use super::recv_state::FixedBuffers;
use super::recv_tuner::FAR;
use super::timers::fields::TcpTimer;
use crate::config::TcpConfig;

/// Percent of `cwnd / srtt`: for a window that doubles in each round trip, and for any other window, which may also
/// grow.
const GAIN_SLOW_START: u64 = 200;
const GAIN: u64 = 120;

/// Bursts of a second: one a millisecond, which is the tick of the timers.
const BURSTS: u64 = 1000;

/// The largest burst: a packet.
const BURST_MAX: u32 = 64 << 10;

/// The longest wait after a packet, in ns. A rate that was estimated while the peer's window was closed may be a byte
/// in some seconds, and only a packet shows that the path carries more. Linux's fq has the same bound.
const WAIT_MAX: u64 = 1_000_000_000;

/// Pacing in one turn to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pacing {
    now: Time,
    /// When the next packet may leave.
    next: Time,
    /// Bytes per second; `None`: not paced.
    rate: Option<u64>,
}

impl Pacing {
    pub(crate) fn begin(t: &Tcb, config: &TcpConfig, now: Time) -> Self {
        let rate = rate(t, config);
        let running = rate.and_then(|_| t.timers.get(TcpTimer::Pace));
        Self {
            now,
            next: running.unwrap_or(now),
            rate,
        }
    }

    /// Whether a packet may leave now.
    pub(crate) fn may_send(&self) -> bool {
        self.next <= self.now
    }

    /// Bytes that may leave at once.
    pub(crate) fn burst(&self, mss: u32) -> u32 {
        self.rate.map_or(u32::MAX, |rate| {
            let burst = u32::try_from(rate / BURSTS).unwrap_or(BURST_MAX);
            burst.min(BURST_MAX).max(2 * mss)
        })
    }

    /// A packet of `bytes` leaves.
    pub(crate) fn sent(&mut self, bytes: u32) {
        if let Some(rate) = self.rate {
            let nanos = u64::from(bytes).saturating_mul(1_000_000_000) / rate;
            self.next += Duration::from_nanos(nanos.min(WAIT_MAX));
        }
    }

    /// The turn is over. If the next packet must wait, the timer gives the connection another turn.
    pub(crate) fn end(self, t: &mut Tcb) {
        if t.conn.state.sends_data() {
            let ahead = self.next > self.now;
            t.timers.set(TcpTimer::Pace, ahead.then_some(self.next));
        }
    }
}

/// Bytes per second at which data leaves, if it is paced.
pub(crate) fn rate(t: &Tcb, config: &TcpConfig) -> Option<u64> {
    let path = if config.pacing { of_path(t) } else { None };
    let asked = t.conn.options.as_ref().and_then(|o| o.asked.pacing_max);
    match (path, asked) {
        (Some(path), Some(asked)) => Some(path.min(asked).max(1)),
        (path, asked) => path.or(asked).map(|rate| rate.max(1)),
    }
}

/// Whether the smallest round trip so far is longer than [`FAR`].
pub(super) fn is_far(t: &Tcb) -> bool {
    let min_rtt = t.send.reordering.min_rtt.get();
    min_rtt.is_some_and(|ns| ns > FAR.as_nanos() as u64)
}

fn of_path(t: &Tcb) -> Option<u64> {
    let s = &t.send;
    // Before the first flight arrives, only the SYN was delivered.
    if !is_far(t) || s.rate.delivered() <= 1 {
        return None;
    }
    if let Some(rate) = s.cc.rate(&s.window) {
        return Some(rate);
    }
    if s.window.in_slow_start() && s.window.cwnd <= BURST_MAX {
        return None;
    }
    let srtt = s.rtt.smoothed_ns().filter(|ns| *ns > 0)?;
    let gain = match s.window.cwnd < s.window.ssthresh / 2 {
        true => GAIN_SLOW_START,
        false => GAIN,
    };
    let window = u64::from(s.cwnd().max(s.sent.in_flight()));
    // The window has 30 bits, the factor 31.
    Some(window * gain * 10_000_000 / srtt)
}

/// Grows the send buffer of a connection to a far peer if the buffer held the program back: it must hold the window,
/// plus as much to send when the window is acknowledged (CUBIC needs 1.7 times the path's bandwidth-delay product). It
/// never shrinks; a program that sets its size ends that.
pub(crate) fn grow_send_buffer(t: &mut Tcb, config: &TcpConfig) {
    let s = &t.send;
    let wanted = (2 * s.cwnd() as usize).min(config.send_buffer_max);
    let is_fixed = t.recv.fixed.contains(FixedBuffers::SEND);
    if is_far(t) && !is_fixed && wanted > s.buf.hiwat() {
        t.send.buf.set_hiwat(wanted);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_sends_what_was_due() {
        // Breaks when the grain of timers, or a thread that comes late, takes something off the rate; or when what was
        // not due leaves too.
        let mut pace = Pacing {
            now: Time::from_millis(105),
            next: Time::from_millis(100),
            rate: Some(1_000_000),
        };
        let mut sent = 0;
        while pace.may_send() {
            pace.sent(1000);
            sent += 1;
        }
        assert_eq!(sent, 6, "of the 5 ms before, and of this one");
        assert_eq!(pace.next, Time::from_millis(106));
    }

    #[test]
    fn a_rate_of_nearly_nothing_holds_data_back_for_a_second_at_most() {
        // Breaks when a rate that was estimated from probes of a closed window stops a transfer for minutes after the
        // window has opened (BBR, seed 38867).
        let mut pace = Pacing {
            now: Time::from_secs(1),
            next: Time::from_secs(1),
            rate: Some(4),
        };
        pace.sent(2920);
        assert_eq!(pace.next, Time::from_secs(2));
    }

    #[test]
    fn a_burst_is_a_millisecond_of_the_rate_and_at_least_two_segments() {
        // Breaks when a slow path gets single segments, which its receiver acknowledges late, or a fast one more than a
        // packet.
        let burst = |rate| {
            let (now, next) = (Time::ZERO, Time::ZERO);
            Pacing { now, next, rate }.burst(1448)
        };
        assert_eq!(burst(Some(10_000)), 2896);
        assert_eq!(burst(Some(12_500_000)), 12_500);
        assert_eq!(burst(Some(u64::MAX)), BURST_MAX);
        assert_eq!(burst(None), u32::MAX);
    }
}
