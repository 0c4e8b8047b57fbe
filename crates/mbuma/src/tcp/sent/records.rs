//! Many records: the list, the queue of retransmitted ranges, and the marks.
//!
//! Each is found by binary search; [`sent`](super) has the invariants and the cost.

use std::collections::VecDeque;
use std::ops::Range;

use kern::Time;
use wire::SeqNum;

use super::SentRecord;
use super::lost_runs::LostRuns;
use crate::tcp::rack::Rack;
use crate::tcp::rate::SendStamp;

/// Records of one connection that blocks of a peer may split, or that segments smaller than the maximum may make.
pub(super) const RECORDS_MAX: usize = 16_384;

/// Records for each segment that blocks may make; a receiver's are at the ends of segments. And some more, so that a
/// short flight of segments that were cut smaller on the path is marked in full.
const SPLITS: u32 = 4;
const SPLITS_FREE: u32 = 64;

/// Any number of records, at least one.
#[derive(Debug)]
pub(crate) struct Records {
    pub(super) list: VecDeque<SentRecord>,
    /// Ranges that were sent again, oldest transmission first.
    pub(super) resent: VecDeque<(Range<SeqNum>, Time)>,
    pub(super) sacked: u32,
    pub(super) lost: u32,
    pub(super) fresh: SeqNum,
    pub(super) lost_runs: LostRuns,
    pub(super) rack: Rack,
    /// Records looked at, for the test of the cost.
    #[cfg(all(test, not(shuttle)))]
    pub(super) visited: usize,
}

impl Records {
    pub(super) fn new(start: SeqNum) -> Self {
        Self {
            list: VecDeque::new(),
            resent: VecDeque::new(),
            sacked: 0,
            lost: 0,
            fresh: start,
            lost_runs: LostRuns::default(),
            rack: Rack::new(start),
            #[cfg(all(test, not(shuttle)))]
            visited: 0,
        }
    }

    pub(super) fn total(&self) -> u32 {
        match (self.list.front(), self.list.back()) {
            (Some(first), Some(last)) => last.end.since(first.start),
            _ => 0,
        }
    }

    /// See [`SentMap::resent`](super::SentMap::resent).
    pub(super) fn resent_bytes(&self) -> u32 {
        if self.resent.is_empty() {
            return 0;
        }
        let again = self.list.iter().filter(|r| r.resent && r.in_flight());
        again.map(SentRecord::len).sum()
    }

    /// See [`SentMap::is_in_order`](super::SentMap::is_in_order). By invariant 3 the first record is the oldest
    /// transmission.
    #[inline]
    pub(super) fn is_in_order(&self) -> bool {
        let first = self.list.front();
        self.sacked == 0
            && self.lost == 0
            && self.resent.is_empty()
            && first.is_some_and(|first| self.rack.is_before(first))
    }

    /// The index of the first record that ends after `seq`.
    fn find(&self, seq: SeqNum) -> usize {
        self.list.partition_point(|r| r.end.at_or_before(seq))
    }

    #[inline(always)]
    pub(super) fn push(&mut self, record: SentRecord) {
        if record.resent {
            (self.resent).push_back((record.start..record.end, record.sent_at));
        }
        let full = self.list.len() >= RECORDS_MAX;
        match self.list.back_mut() {
            // Treats all of it as sent at the later time: so it is marked lost late rather than too early.
            Some(last) if full && last.in_flight() && !last.resent => {
                *last = SentRecord {
                    start: last.start,
                    ..record
                }
            }
            _ => self.list.push_back(record),
        }
    }

    pub(super) fn ack(&mut self, una: SeqNum, mut delivered: impl FnMut(&SentRecord)) {
        if self.lost > 0
            && let Some(first) = self.list.front()
        {
            self.lost_runs.remove(&(first.start..una));
        }
        while let Some(first) = self.list.front_mut()
            && first.start.before(una)
        {
            let all = first.end.at_or_before(una);
            let len = first.end.min(una).since(first.start);
            (self.sacked, self.lost) = match (first.sacked, first.lost) {
                (true, _) => (self.sacked - len, self.lost),
                (_, true) => (self.sacked, self.lost - len),
                _ => (self.sacked, self.lost),
            };
            first.cut_front(first.end.min(una), &mut delivered);
            if all {
                self.list.pop_front();
            }
        }
        // It may be old, and must stay within half of the circle of the numbers with which it is compared.
        self.fresh = self.fresh.max(una);
        while let Some((range, _)) = self.resent.front()
            && range.end.at_or_before(una)
        {
            self.resent.pop_front();
        }
    }

    /// Makes a record begin at `seq`, if fewer than `max` are there; returns the index of the first that begins there
    /// or later.
    fn split(&mut self, seq: SeqNum, max: usize) -> usize {
        let at = self.find(seq);
        let may_split = self.list.len() < max;
        match self.list.get_mut(at) {
            Some(record) if record.start.before(seq) => {
                if may_split {
                    let tail = SentRecord {
                        start: seq,
                        ..*record
                    };
                    record.end = seq;
                    self.list.insert(at + 1, tail);
                }
                at + 1
            }
            _ => at,
        }
    }

    pub(super) fn sack(
        &mut self,
        range: Range<SeqNum>,
        mss: u32,
        mut delivered: impl FnMut(&SentRecord),
    ) {
        // Most blocks repeat earlier ones.
        let at = self.find(range.start);
        if self
            .list
            .get(at)
            .is_none_or(|r| r.sacked && range.end.at_or_before(r.end))
        {
            return;
        }
        let max = (self.total() / mss.max(1)).saturating_mul(SPLITS);
        let max = RECORDS_MAX.min(max.saturating_add(SPLITS_FREE) as usize);
        let from = self.edge(range.start, max);
        let mut to = from;
        // If there are too many records, the end can't be split: then the last record is left out.
        let end = self.edge_end(range.end, max);
        while to < end {
            let record = &mut self.list[to];
            if !record.sacked {
                self.sacked += record.len();
                if std::mem::take(&mut record.lost) {
                    self.lost -= record.len();
                    self.lost_runs.remove(&(record.start..record.end));
                }
                record.sacked = true;
                delivered(record);
            }
            to += 1;
            self.visit();
        }
        self.join(from, to);
    }

    /// The first record of a block. A sacked record is not split.
    fn edge(&mut self, seq: SeqNum, max: usize) -> usize {
        let at = self.find(seq);
        match self.list.get(at) {
            Some(record) if record.sacked => at,
            _ => self.split(seq, max),
        }
    }

    /// The index behind the last record of a block that ends at `seq`.
    fn edge_end(&mut self, seq: SeqNum, max: usize) -> usize {
        let at = self.find(seq);
        match self.list.get(at) {
            Some(record) if record.sacked => at,
            Some(record) if record.start.before(seq) => {
                let before = self.list.len();
                let next = self.split(seq, max);
                if self.list.len() > before { next } else { at }
            }
            _ => at,
        }
    }

    /// Joins the sacked records from `from` up to `to` and their sacked neighbours.
    fn join(&mut self, from: usize, to: usize) {
        if from >= to {
            return;
        }
        let sacked = |at: Option<usize>| {
            at.and_then(|at| self.list.get(at))
                .is_some_and(|r| r.sacked)
        };
        let first = if sacked(from.checked_sub(1)) {
            from - 1
        } else {
            from
        };
        let last = if sacked(Some(to)) { to } else { to - 1 };
        if first == last {
            return;
        }
        self.list[first].end = self.list[last].end;
        self.list.drain(first + 1..=last);
    }

    pub(super) fn next_lost(&self) -> Option<Range<SeqNum>> {
        self.lost_runs.first()
    }

    /// Whether the record with `seq` in it is lost.
    pub(super) fn is_lost(&self, seq: SeqNum) -> bool {
        let record = self.list.get(self.find(seq));
        record.is_some_and(|r| r.lost && r.start.at_or_before(seq))
    }

    /// Whether a SACK block covers some of `range`.
    pub(super) fn is_any_sacked(&self, range: &Range<SeqNum>) -> bool {
        let from = self.find(range.start);
        let mut all = (self.list.range(from..)).take_while(|r| r.start.before(range.end));
        all.any(|r| r.sacked)
    }

    pub(super) fn resend(&mut self, range: Range<SeqNum>, now: Time, stamp: SendStamp) {
        let from = self.split(range.start, usize::MAX);
        let to = self.split(range.end, usize::MAX);
        let flight = self.total() - self.sacked - self.lost + range.end.since(range.start);
        for at in from..to.min(self.list.len()) {
            let record = &mut self.list[at];
            if record.lost {
                self.lost -= record.len();
            }
            record.lost = false;
            if !record.sacked {
                (record.resent, record.sent_at, record.stamp) = (true, now, stamp);
                record.flight = flight;
            }
            self.visit();
        }
        self.join_resent(from, to, now);
        self.lost_runs.remove(&range);
        self.resent.push_back((range, now));
    }

    /// One transmission is one record.
    fn join_resent(&mut self, from: usize, to: usize, now: Time) {
        let same = (from..to).all(|at| {
            let record = self.list.get(at);
            record.is_some_and(|r| r.resent && r.in_flight() && r.sent_at == now)
        });
        if same && to > from + 1 {
            self.list[from].end = self.list[to - 1].end;
            self.list.drain(from + 1..to);
        }
    }

    fn mark(&mut self, at: usize) -> u32 {
        let record = &mut self.list[at];
        if !record.in_flight() {
            return 0;
        }
        record.lost = true;
        self.lost += record.len();
        self.lost_runs.add(record.start..record.end);
        record.len()
    }

    /// After [`detect_lost`](Self::detect_lost): the oldest record in flight of those sent once.
    pub(super) fn first_fresh(&self) -> Option<&SentRecord> {
        self.list.get(self.find(self.fresh))
    }

    /// After [`detect_lost`](Self::detect_lost): the oldest record in flight of those sent again.
    pub(super) fn first_resent(&self) -> Option<&SentRecord> {
        let (range, sent_at) = self.resent.front()?;
        let same = |r: &&SentRecord| r.resent && r.in_flight() && r.sent_at == *sent_at;
        (self.list.range(self.find(range.start)..)).find(same)
    }

    pub(super) fn detect_lost(&mut self, is_lost: impl Fn(&SentRecord) -> bool) -> u32 {
        self.detect_fresh(&is_lost) + self.detect_resent(&is_lost)
    }

    /// The records that were sent once, in the order of sequence numbers, which is that of transmission.
    fn detect_fresh(&mut self, is_lost: impl Fn(&SentRecord) -> bool) -> u32 {
        let mut at = self.find(self.fresh);
        let mut bytes = 0;
        while let Some(record) = self.list.get(at) {
            let fresh = record.in_flight() && !record.resent;
            if fresh && !is_lost(record) {
                self.fresh = record.start;
                self.visit();
                return bytes;
            }
            if fresh {
                bytes += self.mark(at);
            }
            at += 1;
            self.visit();
        }
        self.fresh = self.list.back().map_or(self.fresh, |r| r.end);
        bytes
    }

    /// The retransmitted records, in the order of transmission.
    fn detect_resent(&mut self, is_lost: impl Fn(&SentRecord) -> bool) -> u32 {
        let mut bytes = 0;
        while let Some((range, sent_at)) = self.resent.front().cloned() {
            let mut at = self.find(range.start);
            while let Some(record) = self.list.get(at)
                && record.start.before(range.end)
            {
                let same = record.resent && record.in_flight() && record.sent_at == sent_at;
                if same && !is_lost(record) {
                    self.visit();
                    return bytes;
                }
                if same {
                    bytes += self.mark(at);
                }
                at += 1;
                self.visit();
            }
            self.resent.pop_front();
        }
        bytes
    }

    pub(super) fn mark_all_lost(&mut self) -> u32 {
        let bytes = (0..self.list.len()).map(|at| self.mark(at)).sum();
        self.fresh = self.list.back().map_or(self.fresh, |r| r.end);
        self.resent.clear();
        bytes
    }

    pub(super) fn mark_first_lost(&mut self, len: u32) -> u32 {
        let Some(start) = self.list.front().map(|r| r.start) else {
            return 0;
        };
        let mut bytes = 0;
        for at in 0.. {
            let Some(record) = self.list.get(at) else {
                break;
            };
            let before = record.start.since(start);
            if record.sacked || before >= len {
                break;
            }
            if record.in_flight() && record.end.since(start) > len {
                self.split(start + len, usize::MAX);
            }
            bytes += self.mark(at);
        }
        bytes
    }

    /// Clears the marks of loss, or those of SACK blocks.
    pub(super) fn clear_marks(&mut self, sacked: bool) {
        for record in &mut self.list {
            match sacked {
                // It is not known any more how often and when each part was sent.
                true => record.resent |= std::mem::take(&mut record.sacked),
                false => record.lost = false,
            }
        }
        match sacked {
            true => self.sacked = 0,
            false => {
                self.lost = 0;
                self.lost_runs.clear();
            }
        }
        self.fresh = self.list.front().map_or(self.fresh, |r| r.start);
        let again = self.list.iter().filter(|r| r.resent && r.in_flight());
        let mut again: Vec<_> = again.map(|r| (r.start..r.end, r.sent_at)).collect();
        again.sort_by_key(|(_, sent_at)| *sent_at);
        self.resent = again.into();
    }

    #[inline]
    fn visit(&mut self) {
        #[cfg(all(test, not(shuttle)))]
        {
            self.visited += 1;
        }
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn is_valid(&self) -> bool {
        let sum = |f: fn(&&SentRecord) -> bool| -> u32 {
            self.list.iter().filter(f).map(SentRecord::len).sum()
        };
        let neighbours = self.list.iter().zip(self.list.iter().skip(1));
        let contiguous = neighbours.clone().all(|(a, b)| a.end == b.start);
        let joined = neighbours.clone().all(|(a, b)| !(a.sacked && b.sacked));
        let once = self.list.iter().filter(|r| r.in_flight() && !r.resent);
        let ordered = once.clone().map(|r| r.sent_at).is_sorted();
        let queued = |r: &SentRecord| {
            self.resent.iter().any(|(range, at)| {
                let covers = range.start.at_or_before(r.start) && range.end.at_or_after(r.end);
                covers && *at == r.sent_at
            })
        };
        let mut again = self.list.iter().filter(|r| r.in_flight() && r.resent);
        contiguous
            && joined
            && ordered
            && !self.list.is_empty()
            && self
                .list
                .iter()
                .all(|r| r.len() > 0 && !(r.sacked && r.lost))
            && self.sacked == sum(|r| r.sacked)
            && self.lost == sum(|r| r.lost)
            && once.clone().all(|r| r.start.at_or_after(self.fresh))
            && again.all(queued)
            && self.resent.iter().is_sorted_by_key(|(_, at)| *at)
            && self.lost_runs.are_of(self.list.iter())
    }
}
