//! The receiver of a station: places count from the stack's first byte on.

use std::collections::BTreeMap;

use super::manners::Manners;
use crate::common::*;
use kern::{Random, Time};
use sim::{Pattern, Segment};
use wire::{SackBlock, SeqNum};

/// The bytes that the stack sends.
pub const BYTES: Pattern = Pattern::new(2);

#[derive(Debug)]
pub struct Receiver {
    first: SeqNum,
    /// In order, without the FIN.
    pub received: u64,
    fin: Option<u64>,
    early: BTreeMap<u64, Vec<u8>>,
    shift: u8,
    /// The right edge as announced, and the farthest that was.
    edge: u64,
    farthest: u64,
    waiting: u32,
    since: Time,
    /// Acknowledgements that can't wait.
    owed: u32,
}

impl Receiver {
    pub fn new(first: SeqNum, window: u16, shift: u8) -> Self {
        Self {
            first,
            received: 0,
            fin: None,
            early: BTreeMap::new(),
            shift,
            edge: u64::from(window),
            farthest: u64::from(window),
            waiting: 0,
            since: Time::ZERO,
            owed: 0,
        }
    }

    /// The stack's FIN and all before it are here.
    pub fn is_done(&self) -> bool {
        self.fin == Some(self.received)
    }

    fn place(&self, seq: SeqNum) -> i64 {
        i64::from(seq.since(self.first) as i32)
    }

    /// Segments that the stack must not send, lost or not.
    pub fn check(&self, manners: &Manners, seg: &Segment) {
        let len = seg.data.len() + seg.options.emitted_len();
        let fits = seg.data.is_empty() || len <= manners.mss;
        assert!(fits, "longer than the MSS: {seg}");
        // A probe of a closed window is a byte beyond it.
        let end = self.place(seg.seq) + seg.data.len() as i64;
        let fits = end <= self.farthest as i64 + 1;
        assert!(
            fits || seg.data.is_empty(),
            "beyond {}: {seg}",
            self.farthest
        );
    }

    pub fn take(&mut self, manners: &Manners, now: Time, seg: &Segment) {
        let place = self.place(seg.seq);
        if seg.end() == seg.seq {
            // A keepalive asks; an acknowledgement does not.
            self.owed += u32::from(place < self.received as i64);
            return;
        }
        if self.waiting == 0 {
            self.since = now;
        }
        self.waiting += 1;
        let next = self.received as i64;
        if place > next {
            self.owed += 1;
        }
        if place > next && !manners.keeps {
            return;
        }
        let room = (self.edge as i64 - place).max(0) as usize;
        let data = &seg.data[..seg.data.len().min(room)];
        if seg.has(FIN) && data.len() == seg.data.len() {
            self.fin = Some((place + data.len() as i64) as u64);
        }
        let old = (next - place).clamp(0, data.len() as i64) as usize;
        let kept = self.early.entry(place.max(next) as u64).or_default();
        if kept.len() < data.len() - old {
            *kept = data[old..].to_vec();
        }
        self.deliver();
    }

    /// The data that is kept of that which came before its turn, in blocks.
    pub fn blocks(&self) -> Vec<SackBlock> {
        let at = |place: u64| self.first + place as u32;
        let mut blocks: Vec<SackBlock> = Vec::new();
        for (&place, data) in self.early.iter().filter(|(_, data)| !data.is_empty()) {
            let (left, right) = (at(place), at(place + data.len() as u64));
            match blocks.last_mut() {
                Some(last) if left.at_or_before(last.right) => last.right = last.right.max(right),
                _ => blocks.push(SackBlock { left, right }),
            }
        }
        blocks
    }

    fn deliver(&mut self) {
        while let Some(first) = self.early.first_entry() {
            if *first.key() > self.received {
                return;
            }
            let (place, data) = first.remove_entry();
            let old = ((self.received - place) as usize).min(data.len());
            let wrong = BYTES.mismatch(self.received, &data[old..]);
            assert_eq!(wrong, None, "a byte that was not sent");
            self.received += (data.len() - old) as u64;
        }
    }

    /// Puts acknowledgement and window into `hand`.
    pub fn announce(&mut self, manners: &Manners, r: &mut Random, hand: &mut Hand) {
        let wanted = match r.chance(manners.shrink) {
            true => r.below(manners.window),
            false => manners.window,
        };
        let field = (wanted >> self.shift).min(65_535);
        self.edge = self.received + (field << self.shift);
        self.farthest = self.farthest.max(self.edge);
        (self.waiting, self.owed) = (0, 0);
        hand.window = field as u16;
        hand.rcv = self.first + (self.received as u32 + u32::from(self.is_done()));
    }

    /// How many acknowledgements are due.
    pub fn due(&self, manners: &Manners, r: &mut Random, now: Time) -> u64 {
        let waited = self.waiting > 0 && now - self.since >= manners.ack_delay;
        let opens = self.edge < self.received + manners.window / 2 && r.chance(0.1);
        match self.owed {
            0 if self.waiting >= manners.ack_every || waited => manners.ack_parts,
            0 => u64::from(opens),
            owed => u64::from(owed),
        }
    }

    /// `count` acknowledgements of what `hand` was told, each of a part of what is new since `told`; all announce the
    /// same right edge.
    pub fn parts(&self, count: u64, told: SeqNum, hand: &Hand) -> Vec<Segment> {
        let news = u64::from(hand.rcv.since(told));
        let part = |n: u64| {
            let held_back = news - news * n / count;
            let window: u64 = u64::from(hand.window) + (held_back >> self.shift);
            Segment {
                ack: hand.rcv - held_back as u32,
                window: window.min(65_535) as u16,
                ..hand.segment(ACK)
            }
        };
        (1..=count).map(part).collect()
    }
}
