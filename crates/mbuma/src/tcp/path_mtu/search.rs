//! The search for the largest segment that a path carries, by sending larger ones as probes.
//!
//! ```text
//!   low                    probe                 high
//!    |  known to arrive      |   not known         |  the interface's, or a size that got lost
//! ```
//!
//! A probe is one segment of new data, with five segments of the usual size after it. If it is acknowledged, `low`
//! becomes its size. If only the probe is lost, the reason is its size and not congestion: its data is retransmitted in
//! usual segments, and the window is not reduced (RFC 4821 7.6, RFC 8899 3). If others are lost too, the result says
//! nothing. After three losses `high` becomes its size. The search ends when both are close; it is repeated after
//! [`path_mtu_timeout`]. A search that could send no probe for that time ends too, and segments of the interface's MTU
//! are tried, so that a wrong suspicion does not last.
//!
//! A suspicion comes from timeouts, each of which reduced the window. Once the search has shown that a size does not
//! pass, it explains the timeouts: the former threshold is restored, and the window grows to it by slow start.
//!
//! [`path_mtu_timeout`]: crate::TcpConfig::path_mtu_timeout
//!
//! Locks: none; part of the connection. Sources: RFC 4821 7, RFC 8899 4 and 5.

use std::ops::Range;
use std::time::Duration;

use kern::Time;
use wire::SeqNum;

use crate::tcp::pcb::{SendState, Tcb};

/// Losses of one size after which it counts as too large.
#[doc(alias = "MAX_PROBES")]
const TRIES_MAX: u8 = 3;

/// The search ends when it would gain less.
const STEP_MIN: u32 = 16;

/// Segments that follow a probe, so that their arrival shows its loss.
const FOLLOWERS: u32 = 5;

/// Between two probes, while no round trip is known.
const RTT_UNKNOWN: Duration = Duration::from_secs(1);

/// The state of a search.
#[derive(Debug, Clone, Default)]
pub(crate) struct MtuSearch {
    /// The largest size that arrived, and the smallest one that did not or must not be used; 0: there is no search.
    low: u32,
    high: u32,
    /// `high` itself was not tried yet.
    tries_high: bool,
    tries: u8,
    /// The probe under way.
    probe: Option<Range<SeqNum>>,
    next_at: Time,
    is_due: bool,
    found: bool,
    /// A probe was sent since it began.
    probed: bool,
    /// Timeouts led to the search, and the window was not reduced for another reason since.
    after_timeouts: bool,
}

impl MtuSearch {
    /// Begins a search between two sizes. `tries_high`: the larger one may pass.
    pub(super) fn begin(&mut self, low: u32, high: u32, tries_high: bool) {
        *self = Self {
            low,
            high,
            tries_high,
            found: self.found,
            after_timeouts: !tries_high,
            ..Self::default()
        };
    }

    pub(in crate::tcp) fn is_on(&self) -> bool {
        self.low > 0
    }

    /// Whether the search found the size in use.
    pub(super) fn has_found(&self) -> bool {
        self.found
    }

    /// Whether the search is on and could send no probe, because the connection has too little data or a too small
    /// window.
    pub(super) fn is_held_up(&self) -> bool {
        self.size().is_some() && !self.probed
    }

    /// The next size, unless the search is over.
    fn size(&self) -> Option<u32> {
        let size = match self.tries_high {
            true => self.high,
            false => self.low + self.high.saturating_sub(self.low) / 2,
        };
        (self.is_on() && size >= self.low + STEP_MIN).then_some(size)
    }

    /// Before a turn to send.
    pub(super) fn prepare(&mut self, now: Time) {
        self.is_due = self.probe.is_none() && self.size().is_some() && self.next_at <= now;
    }

    /// A probe is sent; the next one must not be sent before `next_at`.
    fn on_sent(&mut self, range: Range<SeqNum>, next_at: Time) {
        (self.is_due, self.probed) = (false, true);
        (self.probe, self.next_at) = (Some(range), next_at);
    }

    /// All data before `una` has arrived. Returns the size that is thereby found.
    pub(super) fn on_ack(&mut self, una: SeqNum) -> Option<u32> {
        let probe = self.probe.take_if(|probe| una.at_or_after(probe.end))?;
        let size = probe.end.since(probe.start);
        (self.low, self.tries, self.tries_high, self.found) = (size, 0, false, true);
        Some(size)
    }

    /// Later losses say nothing about the probe under way.
    pub(in crate::tcp) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// The window was reduced again, for another reason.
    pub(in crate::tcp) fn on_congestion(&mut self) {
        self.after_timeouts = false;
    }

    /// True if the result explains the earlier timeouts.
    fn on_lost(&mut self, size: u32) -> bool {
        self.tries += 1;
        if self.tries < TRIES_MAX {
            return false;
        }
        (self.high, self.tries, self.tries_high) = (size, 0, false);
        std::mem::take(&mut self.after_timeouts)
    }
}

impl SendState {
    /// How many of the `lost` bytes indicate congestion: none if only a probe is lost.
    pub(in crate::tcp) fn without_probe(&mut self, lost: u32, now: Time) -> u32 {
        let Some(path) = self.path.as_deref_mut().filter(|_| lost > 0) else {
            return lost;
        };
        let Some(probe) = path.search.probe.take() else {
            return lost;
        };
        let size = probe.end.since(probe.start);
        if lost == size && self.sent.next_lost() == Some(probe) {
            if path.search.on_lost(size) {
                self.restore_threshold(now);
            }
            return 0;
        }
        lost
    }
}

/// The size of a probe to send now, if `waiting` bytes of data wait, the peer's window has `offered` bytes and the
/// congestion window allows it. The segments after it are sent as acknowledgements make room: a probe that waited for
/// room for all of them would wait for ever if each acknowledgement makes room for two segments.
#[cold]
pub(crate) fn probe_len(t: &Tcb, waiting: u32, offered: u32, window: u32) -> Option<u32> {
    let path = t.send.path.as_deref()?;
    let size = path.search.size().filter(|_| path.search.is_due)?;
    let follow = size + FOLLOWERS * t.send.mss;
    let is_quiet = !t.send.recovery.phase().is_repair() && t.send.sent.lost() == 0;
    let is_followed = waiting.min(offered).min(t.send.cwnd()) >= follow;
    (is_quiet && is_followed && window >= size).then_some(size)
}

/// It is sent. A round trip lies between two probes.
pub(crate) fn on_probe_sent(t: &mut Tcb, range: Range<SeqNum>, now: Time) {
    let rtt = t.send.rtt.smoothed().unwrap_or(RTT_UNKNOWN);
    if let Some(path) = &mut t.send.path {
        path.search.on_sent(range, now + rtt);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::config::TcpConfig;
    use crate::tcp::pcb::PathMtu;
    use crate::tcp::sent::SentRecord;

    /// Runs a search on a path that carries `carries` bytes; the size that it finds, and the probes that it takes.
    fn run(low: u32, high: u32, carries: u32, tries_high: bool) -> (u32, u32) {
        let mut search = MtuSearch::default();
        search.begin(low, high, tries_high);
        let (mut probes, mut at) = (0, SeqNum(u32::MAX - 3000));
        while let Some(size) = search.size() {
            probes += 1;
            assert!(probes < 100, "no end: {search:?}");
            search.probe = Some(at..at + size);
            if size <= carries {
                assert_eq!(search.on_ack(at + size - 1), None);
                assert_eq!(search.on_ack(at + size), Some(size));
            } else {
                search.probe = None;
                search.on_lost(size);
            }
            at += size;
        }
        (search.low, probes)
    }

    #[test]
    fn it_finds_the_largest_size_that_passes() {
        // RFC 8899 5.3: breaks if the search ends early, passes the path's size, or has no end.
        for carries in [1148, 1200, 1340, 1380, 1440, 1448] {
            let (found, probes) = run(1148, 1448, carries, false);
            assert!(
                found <= carries && found + 2 * STEP_MIN > carries,
                "{carries}: {found}"
            );
            assert!(probes <= 5 * u32::from(TRIES_MAX), "{carries}: {probes}");
        }
        assert_eq!(run(1148, 1448, 1448, true), (1448, 1));
        assert_eq!(run(1148, 1148, 1448, true), (1148, 0));
    }

    #[test]
    fn one_loss_says_nothing_of_the_size() {
        // RFC 8899 5.1.2, MAX_PROBES: breaks if a probe that was lost to congestion ends the search below the path's
        // size.
        let mut search = MtuSearch::default();
        search.begin(1148, 1448, true);
        assert!(!search.on_lost(1448) && !search.on_lost(1448));
        assert_eq!(search.size(), Some(1448));
        assert!(!search.on_lost(1448), "no timeout led to it");
        assert_eq!(search.size(), Some(1298));
    }

    #[test]
    fn a_size_that_does_not_pass_explains_the_timeouts_once() {
        // RFC 8899 4.3: breaks when the threshold of before comes back though the window has shrunk since for another
        // reason, or twice.
        let lost = |congested: bool| {
            let mut search = MtuSearch::default();
            search.begin(1148, 1448, false);
            if congested {
                search.on_congestion();
            }
            let size = search.size().unwrap();
            (0..6).filter(|_| search.on_lost(size)).count()
        };
        assert_eq!((lost(false), lost(true)), (1, 0));
    }

    #[test]
    fn a_round_trip_lies_between_two_probes() {
        // RFC 8899 3: breaks if probes follow each other faster than their answers, or if a turn that sends none puts
        // the next one off.
        let mut search = MtuSearch::default();
        search.begin(1148, 1448, false);
        let is_due_at = |search: &mut MtuSearch, millis| {
            search.prepare(Time::from_millis(millis));
            search.is_due
        };
        assert!(is_due_at(&mut search, 100) && is_due_at(&mut search, 101));
        search.on_sent(SeqNum(0)..SeqNum(1298), Time::from_millis(150));
        assert!(!is_due_at(&mut search, 900), "one is under way");
        search.forget_probe();
        assert!(!is_due_at(&mut search, 149) && is_due_at(&mut search, 150));
    }

    #[test]
    fn a_timeout_ends_the_probe_and_the_explanation() {
        // RFC 8899 3: breaks if the acknowledgement of smaller segments, which repair a probe that was lost with all
        // others, counts as the probe's, or if the search explains a reduction that had another reason.
        let now = Time::from_secs(1);
        let mut send = SendState::new(&TcpConfig::default(), SeqNum(0), 1000, now);
        (send.una, send.nxt) = (SeqNum(1), SeqNum(3001));
        let stamp = send.rate.on_send(now, 0);
        send.sent
            .push(SentRecord::new(SeqNum(1)..SeqNum(1451), now, stamp));
        send.sent
            .push(SentRecord::new(SeqNum(1451)..SeqNum(3001), now, stamp));
        let mut path = PathMtu::new(1450, now);
        path.search.begin(1000, 1450, false);
        path.search.probe = Some(SeqNum(1)..SeqNum(1451));
        send.path = Some(Box::new(path));
        send.on_timeout(now, true, true);
        let search = &send.path.as_ref().expect("it stays").search;
        assert_eq!((&search.probe, search.after_timeouts), (&None, false));
    }
}
