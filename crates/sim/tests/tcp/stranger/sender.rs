//! The sender of a station: places count from its first byte on.

use super::manners::Manners;
use crate::common::*;
use kern::{Random, Time};
use sim::{Pattern, Segment};
use wire::SeqNum;

/// The bytes that it sends.
pub const BYTES: Pattern = Pattern::new(1);

/// After so long without progress it repairs.
const PATIENCE_MS: u64 = 300;

#[derive(Debug)]
pub struct Sender {
    first: SeqNum,
    /// The place of its FIN.
    total: u64,
    una: u64,
    nxt: u64,
    max: u64,
    /// The right edge of the stack's window.
    right: u64,
    shift: u8,
    duplicates: u32,
    /// The end of the repair.
    recover: u64,
    resend: bool,
    progress: Time,
    /// When it sent data last.
    sent: Time,
    /// The highest acknowledgement that the stack sent, whether or not it arrived.
    pub heard: u64,
}

impl Sender {
    pub fn new(first: SeqNum, total: u64, window: u16, shift: u8, now: Time) -> Self {
        Self {
            first,
            total,
            una: 0,
            nxt: 0,
            max: 0,
            right: u64::from(window),
            shift,
            duplicates: 0,
            recover: 0,
            resend: false,
            progress: now,
            sent: Time::ZERO,
            heard: 0,
        }
    }

    /// Its FIN is acknowledged.
    pub fn is_done(&self) -> bool {
        self.una > self.total
    }

    /// The place behind all bytes that it sent, within the stack's window.
    pub fn place(&self) -> SeqNum {
        self.first + self.max.min(self.right.max(self.una)) as u32
    }

    pub fn hear(&mut self, seg: &Segment) {
        if seg.ack.at_or_after(self.first) {
            self.heard = self.heard.max(u64::from(seg.ack.since(self.first)));
        }
    }

    pub fn acknowledged(&mut self, manners: &Manners, now: Time, seg: &Segment) {
        if seg.ack.before(self.first + self.una as u32) {
            return;
        }
        let ack = u64::from(seg.ack.since(self.first));
        assert!(ack <= self.total + 1, "it acknowledges what was never sent");
        let right = ack + (u64::from(seg.window) << self.shift);
        if ack > self.una {
            (self.una, self.duplicates, self.progress) = (ack, 0, now);
            self.nxt = self.nxt.max(ack);
            self.resend = ack < self.recover;
        } else if seg.data.is_empty() && right == self.right {
            self.duplicates += 1;
        }
        self.right = right;
        if self.duplicates == 3 {
            self.repair(manners);
        }
    }

    fn repair(&mut self, manners: &Manners) {
        self.duplicates = 0;
        if manners.goes_back {
            self.nxt = self.una;
        } else {
            (self.recover, self.resend) = (self.nxt, true);
        }
    }

    /// The segment that it sends now.
    pub fn segments(
        &mut self,
        manners: &Manners,
        r: &mut Random,
        now: Time,
        hand: &Hand,
    ) -> Vec<Segment> {
        let late = now - self.progress > ms(PATIENCE_MS) && !self.is_done();
        if late {
            self.progress = now;
            self.repair(manners);
        }
        let mut out = Vec::new();
        if std::mem::take(&mut self.resend) && self.una < self.nxt {
            out.push(self.segment(manners, r, hand, self.una, self.nxt));
        }
        let limit = (self.right + manners.overrun).min(self.una + manners.flight * manners.longest);
        while self.nxt < limit && self.nxt <= self.total && now - self.sent >= manners.pause {
            self.sent = now;
            let segment = self.segment(manners, r, hand, self.nxt, limit);
            self.nxt = u64::from(segment.end().since(self.first));
            out.push(segment);
        }
        self.max = self.max.max(self.nxt);
        if late && out.is_empty() {
            // A probe of a closed window.
            out.push(self.segment(manners, r, hand, self.una, self.una + 1));
        }
        out
    }

    /// A segment from `from` on, before `limit` but for a FIN.
    fn segment(
        &self,
        manners: &Manners,
        r: &mut Random,
        hand: &Hand,
        from: u64,
        limit: u64,
    ) -> Segment {
        let alone = from == self.total && manners.fin_brings_byte;
        let from = from - u64::from(alone && from > 0);
        let max = (limit.min(self.total).saturating_sub(from)).min(manners.longest);
        let len = match manners.full {
            true => max,
            false => (1 + r.below(max)).min(max),
        };
        let mut data = vec![0; len as usize];
        BYTES.fill(from, &mut data);
        let fin =
            from + len == self.total && (alone || len == 0 || r.chance(manners.fin_with_data));
        let flags = if fin { ACK | FIN } else { ACK };
        Segment {
            seq: self.first + from as u32,
            data,
            ..hand.segment(flags)
        }
    }
}
