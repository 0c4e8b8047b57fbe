//! Tail loss probes: if the last segments of a flight are lost, no arrival shows that. So the sender repeats the last
//! one, or sends a new one, after two round trips, long before the retransmission timer (RFC 8985 7).
//!
//! During a recovery RFC 8985 7.2 asks for no probe, because RACK's timer and F-RTO serve the same end. They do not
//! where a repair is lost and nothing that was sent after it arrives. So after two round trips without an
//! acknowledgement the sender repeats the repair of the first hole. Its acknowledgement tells RACK of the rest. QUIC
//! probes in each state as well (RFC 9002 6.2).
//!
//! Invariants: one probe is outstanding at most; another one takes a measured round trip.
//! Locks: none; part of the connection.

use wire::SeqNum;

/// The smallest time to a probe in ns, so that a peer's scheduling or the granularity of timers does not look like a
/// loss.
const PTO_MIN: u64 = 10_000_000;

/// The time for which a peer may delay the acknowledgement of a single segment, in ns: Linux's bound.
const MAX_ACK_DELAY: u64 = 200_000_000;

/// Before there was a round trip (RFC 8985 7.2), in ns.
const PTO_INITIAL: u64 = 1_000_000_000;

/// The probe that is outstanding.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TailProbe {
    /// SND.NXT behind it, if `outstanding`; and whether it was sent before.
    end: SeqNum,
    outstanding: bool,
    again: bool,
    /// A round trip was measured since the last one.
    rearmed: bool,
}

/// The result of a probe, according to an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum ProbeOutcome {
    Nothing,
    /// The probe repaired a loss, for which the window must shrink (RFC 8985 7.4.2 case 2).
    Repaired,
}

impl TailProbe {
    /// The time from a transmission or an acknowledgement to the probe, in ns as in [`Rtt`](super::rtt::Rtt).
    #[doc(alias = "PTO")]
    pub(crate) fn timeout(srtt: Option<u64>, single: bool) -> u64 {
        let Some(srtt) = srtt else {
            return PTO_INITIAL;
        };
        let delay = if single { MAX_ACK_DELAY } else { 0 };
        srtt.saturating_mul(2).max(PTO_MIN).saturating_add(delay)
    }

    pub(crate) fn may_send(&self) -> bool {
        !self.outstanding && self.rearmed
    }

    pub(crate) fn is_outstanding(&self) -> bool {
        self.outstanding
    }

    /// A probe was sent; `nxt` is SND.NXT behind it.
    pub(crate) fn on_sent(&mut self, nxt: SeqNum, again: bool) {
        (self.end, self.outstanding, self.again) = (nxt, true, again);
        self.rearmed = false;
    }

    /// A repair was sent once more in a probe's place.
    pub(crate) fn on_repair_repeated(&mut self) {
        self.rearmed = false;
    }

    /// A round trip was measured: another probe may follow.
    pub(crate) fn on_sample(&mut self) {
        self.rearmed = true;
    }

    /// A recovery began, and makes the probe needless.
    pub(crate) fn forget(&mut self) {
        self.outstanding = false;
    }

    /// RFC 8985 7.4.2.
    pub(crate) fn on_ack(
        &mut self,
        ack: SeqNum,
        dsack: bool,
        plain_duplicate: bool,
    ) -> ProbeOutcome {
        let Self { end, again, .. } = *self;
        if !self.outstanding || ack.before(end) {
            return ProbeOutcome::Nothing;
        }
        if !again || dsack {
            // New data arrived; or both the probe and what it repeated.
            self.outstanding = false;
        } else if ack.after(end) {
            self.outstanding = false;
            return ProbeOutcome::Repaired;
        } else if plain_duplicate {
            self.outstanding = false;
        }
        ProbeOutcome::Nothing
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_probe_waits_two_round_trips_and_for_a_delayed_acknowledgement() {
        // RFC 8985 7.2: breaks when a probe comes before the answer can.
        let ms = |ms: u64| ms * 1_000_000;
        assert_eq!(TailProbe::timeout(None, true), ms(1000));
        assert_eq!(TailProbe::timeout(Some(ms(50)), false), ms(100));
        assert_eq!(TailProbe::timeout(Some(ms(50)), true), ms(300));
        assert_eq!(TailProbe::timeout(Some(30_000), false), ms(10));
    }

    #[test]
    fn what_a_probe_repaired_counts_as_a_loss_once() {
        // RFC 8985 7.4.2: breaks when a repaired loss leaves the window as it was, or a duplicate shrinks it.
        let probed = |again| {
            let mut probe = TailProbe::default();
            probe.on_sent(SeqNum(100), again);
            probe
        };
        assert_eq!(
            probed(true).on_ack(SeqNum(99), false, true),
            ProbeOutcome::Nothing
        );
        let mut probe = probed(true);
        assert_eq!(
            probe.on_ack(SeqNum(100), false, false),
            ProbeOutcome::Nothing,
            "not yet told"
        );
        assert_eq!(
            probe.on_ack(SeqNum(101), false, false),
            ProbeOutcome::Repaired
        );
        assert_eq!(
            probe.on_ack(SeqNum(102), false, false),
            ProbeOutcome::Nothing
        );
        let mut probe = probed(true);
        assert_eq!(
            probe.on_ack(SeqNum(100), true, false),
            ProbeOutcome::Nothing
        );
        assert_eq!(
            probe.on_ack(SeqNum(101), false, false),
            ProbeOutcome::Nothing,
            "both arrived"
        );
        let mut probe = probed(false);
        assert_eq!(
            probe.on_ack(SeqNum(101), false, false),
            ProbeOutcome::Nothing,
            "it was new"
        );
        assert!(!probe.may_send(), "no round trip was measured since");
        probe.on_sample();
        assert!(probe.may_send());
    }
}
