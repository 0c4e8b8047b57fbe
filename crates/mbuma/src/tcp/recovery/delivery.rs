//! The data that an acknowledgement newly delivers, and the samples of round trip and rate that follow.
//!
//! Sources: RFC 6298 3, RFC 7323 4 and appendix G, RFC 8985 6.2.

use std::ops::Range;

use kern::Time;
use wire::SeqNum;

use super::Acknowledgement;
use super::blocks::Blocks;
use crate::tcp::cc::RateSample;
use crate::tcp::pcb::SendState;
use crate::tcp::rack::{AckArrival, Rack, nanos_since};
use crate::tcp::rate::LastSent;
use crate::tcp::sent::SentRecord;

/// The data in flight before an acknowledgement or a timer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriorFlight {
    pub(super) una: SeqNum,
    /// Bytes not acknowledged and not sacked.
    pub(super) outstanding: u32,
    /// Bytes not acknowledged, without those that limited transmit sent beyond the window (RFC 5681 3.2 step 2).
    #[doc(alias = "FlightSize")]
    pub(super) flight_size: u32,
    pub(super) in_flight: u32,
}

/// The data that an acknowledgement newly delivers.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pub(super) acked: u32,
    pub(super) sacked: u32,
    /// The send time of the oldest record that was sent once.
    pub(super) oldest_acked: Option<Time>,
    pub(super) oldest_sacked: Option<Time>,
    /// The send time of the newest record of which it is known which transmission the acknowledgement answers.
    pub(super) newest: Option<Time>,
    /// It covers a retransmitted record.
    pub(super) resent_acked: bool,
    /// It covers data from before the event that was not retransmitted.
    pub(super) original: bool,
    /// The first data that it covers, if that was retransmitted but the first transmission arrived.
    pub(super) late: Option<Range<SeqNum>>,
    pub(super) last: LastSent,
    /// Bytes in flight when the last of it was sent.
    pub(super) sent_flight: u32,
}

impl SendState {
    /// Marks what has arrived.
    pub(super) fn deliver(&mut self, a: &Acknowledgement<'_>, blocks: &Blocks) -> Delivery {
        let mut d = Delivery::default();
        let mut rack = self.sent.rack().unwrap_or(Rack::new(self.una));
        let in_order = AckArrival {
            now: a.now,
            echoed_ms: a.echoed_ms,
            fack: rack.fack(),
            mss: self.mss,
        };
        let beyond = AckArrival {
            echoed_ms: None,
            ..in_order
        };
        let Self {
            sent,
            reordering,
            rate,
            recovery,
            mss,
            mss_passes,
            ..
        } = self;
        let recovery = &*recovery;
        let (una, mss) = (self.una, *mss);
        let mut each = |d: &mut Delivery, r: &SentRecord, arrival: &AckArrival| {
            if rate.on_delivered(a.now, r.len(), r.sent_at, r.stamp, &mut d.last) {
                d.sent_flight = r.flight;
            }
            rack.on_delivered(r, arrival, reordering);
            *mss_passes |= r.len() >= mss;
            if !r.resent || arrival.is_of_last_transmission(r) == Some(true) {
                d.newest = d.newest.max(Some(r.sent_at));
            }
            if !r.resent {
                d.original |= r.end.at_or_before(recovery.recover);
            }
        };
        sent.ack(a.ack, |r| {
            each(&mut d, r, &in_order);
            d.acked += r.len();
            d.resent_acked |= r.resent;
            let before = |ms: u64| ms < r.sent_at.as_millis();
            if r.start == una && r.resent && a.echoed_ms.is_some_and(before) {
                d.late = Some(r.start..r.end);
            }
            // Karn's rule has two parts. The acknowledgement of a retransmission is no sample (`resent_acked`). And
            // data that was sent before the last retransmission may have waited for the repaired hole, and may be
            // acknowledged in parts.
            if r.start.at_or_after(recovery.resent_at) {
                d.oldest_acked.get_or_insert(r.sent_at);
            }
        });
        for range in blocks.above.iter().flatten() {
            sent.sack(range.clone(), mss, |r| {
                each(&mut d, r, &beyond);
                d.sacked += r.len();
                if !r.resent {
                    d.oldest_sacked.get_or_insert(r.sent_at);
                }
            });
        }
        rack.on_una(self.una.max(a.ack));
        self.sent.set_rack(rack);
        d
    }

    /// RFC 6298 3 and RFC 7323 4: a sample of data that was sent once; otherwise by the echoed timestamp.
    pub(super) fn sample_round_trip(
        &mut self,
        a: &Acknowledgement<'_>,
        d: &Delivery,
        before: &PriorFlight,
        advanced: bool,
    ) -> Option<u64> {
        let acked = d.oldest_acked.filter(|_| !d.resent_acked);
        let exact = acked.or(d.oldest_sacked).map(|at| nanos_since(a.now, at));
        let echoed = a.echoed_ms.filter(|_| advanced && d.resent_acked);
        let echoed = echoed.map(|ms| a.now.as_millis().saturating_sub(ms) * 1_000_000);
        let rtt = exact.or(echoed)?;
        // Many samples in a round trip would shorten the estimator's memory (RFC 7323 appendix G).
        let each = 2 * self.mss.max(1);
        let samples = match before.in_flight <= each {
            true => 1,
            false => before.in_flight.div_ceil(each),
        };
        self.rtt.sample(rtt, samples);
        self.probe.on_sample();
        if let Some(newest) = d.newest {
            self.reordering
                .min_rtt
                .sample(nanos_since(a.now, newest), a.now);
        }
        exact
    }

    pub(super) fn rate_sample(
        &mut self,
        a: &Acknowledgement<'_>,
        d: &Delivery,
        before: &PriorFlight,
        rtt: Option<u64>,
    ) -> RateSample {
        let mut sample = RateSample {
            now: a.now,
            rtt,
            min_rtt: self.reordering.min_rtt.get().unwrap_or(0),
            srtt: self.rtt.smoothed_ns().unwrap_or(0),
            // Data that was sacked before was counted then.
            acked: d.acked.min(a.data) + d.sacked,
            sacked: d.sacked,
            ce: a.ce,
            sent_flight: d.sent_flight,
            prior_flight: before.in_flight,
            ..RateSample::default()
        };
        self.rate.finish(d.last, &self.window, &mut sample);
        let per_ms = sample.delivered.saturating_mul(1_000_000);
        if let Some(rate) = per_ms.checked_div(sample.interval) {
            self.recovery.last_rate = rate.min(u32::MAX.into()) as u32;
        }
        sample
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::TcpConfig;

    #[test]
    fn many_samples_in_a_round_trip_keep_the_memory_long() {
        // RFC 7323 appendix G: breaks if each acknowledgement of a large flight weighs as much as that of a small one,
        // so that the estimator forgets within a part of a round trip.
        let (sent, now) = (Time::from_millis(1000), Time::from_millis(1200));
        let smoothed = |in_flight| {
            let mut send = SendState::new(&TcpConfig::default(), SeqNum(0), 1000, sent);
            send.rtt.sample(100_000_000, 1);
            let a = Acknowledgement {
                now,
                ack: SeqNum(1),
                blocks: &[],
                sack_on: true,
                is_duplicate: false,
                echoed_ms: None,
                data: 1000,
                marked: false,
                ce: 0,
            };
            let delivery = Delivery {
                oldest_acked: Some(sent),
                ..Delivery::default()
            };
            let before = PriorFlight {
                una: SeqNum(0),
                outstanding: in_flight,
                flight_size: in_flight,
                in_flight,
            };
            send.sample_round_trip(&a, &delivery, &before, true);
            send.rtt.smoothed().expect("samples")
        };
        assert_eq!(smoothed(1000), Duration::from_micros(112_500));
        assert_eq!(smoothed(40_000), Duration::from_micros(100_625));
    }
}
