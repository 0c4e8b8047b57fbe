//! The options of a station's segments, and what it checks of the stack's: timestamps and SACK.

use super::manners::Manners;
use kern::{Random, Time};
use sim::Segment;
use wire::{SackBlock, SackBlocks, SeqNum};

#[derive(Debug)]
pub struct Options {
    /// The time of the value in the station's SYN; none if timestamps were not agreed on.
    born: Option<Time>,
    start: u32,
    sack: bool,
    /// The stack's clock, as it was sent last and as the station has it.
    sent: u32,
    recent: u32,
    first: SeqNum,
    /// The number of times that each byte of the station was sent.
    said: Vec<u8>,
}

impl Options {
    /// After a handshake in which the stack sent `theirs`.
    pub fn new(manners: &Manners, theirs: &Segment, first: SeqNum, now: Time) -> Self {
        let clock = theirs.options.timestamps.map_or(0, |(value, _)| value);
        Self {
            born: (manners.timestamps && theirs.options.timestamps.is_some()).then_some(now),
            start: manners.clock,
            sack: manners.sack && theirs.options.sack_permitted,
            sent: clock,
            recent: clock,
            first,
            said: Vec::new(),
        }
    }

    fn value(&self, now: Time) -> Option<u32> {
        let age = |born: Time| (now - born).as_millis() as u32;
        self.born.map(|born| self.start.wrapping_add(age(born)))
    }

    /// Options that the stack must not send, lost or not.
    pub fn check(&mut self, seg: &Segment, now: Time) {
        let ours = self.value(now);
        assert_eq!(seg.options.timestamps.is_some(), ours.is_some(), "{seg}");
        if let (Some((value, echo)), Some(ours)) = (seg.options.timestamps, ours) {
            let newer = value.wrapping_sub(self.sent);
            assert!(newer < 1 << 31, "its clock goes back: {seg}");
            self.sent = value;
            let known = echo.wrapping_sub(self.start) <= ours.wrapping_sub(self.start);
            assert!(known, "it echoes what was never said: {seg}");
        }
        let blocks = seg.options.sack.as_slice();
        assert!(self.sack || blocks.is_empty(), "blocks without permission");
        for (n, block) in blocks.iter().enumerate() {
            self.check_block(seg, *block, n == 0);
        }
    }

    /// RFC 2018 and 2883: no block has bytes that were never sent, and bytes below the acknowledgement or in the next
    /// block were sent twice.
    fn check_block(&self, seg: &Segment, block: SackBlock, is_first: bool) {
        let place = |seq: SeqNum| seq.since(self.first) as usize;
        let said = (self.said)
            .get(place(block.left)..place(block.right))
            .unwrap_or_else(|| panic!("never said: {block:?} of {seg}"));
        let next = seg.options.sack.as_slice().get(1);
        let inside =
            |b: &SackBlock| b.left.at_or_before(block.left) && block.right.at_or_before(b.right);
        let twice = is_first && (block.left.before(seg.ack) || next.is_some_and(inside));
        let least = if twice { 2 } else { 1 };
        assert!(!said.is_empty(), "an empty block: {seg}");
        assert!(said.iter().all(|n| *n >= least), "{block:?} of {seg}");
        let acknowledged = block.left.before(seg.ack) && !is_first;
        assert!(!acknowledged, "acknowledged: {block:?} of {seg}");
    }

    /// The station has taken a segment in.
    pub fn take(&mut self, seg: &Segment) {
        if let Some((value, _)) = seg.options.timestamps {
            self.recent = value;
        }
    }

    /// The segment with its options; `early`: the data that the station keeps of that which came before its turn.
    pub fn tag(
        &self,
        manners: &Manners,
        r: &mut Random,
        early: &[SackBlock],
        now: Time,
        segment: Segment,
    ) -> Segment {
        let stripped = r.chance(manners.strips);
        let timestamps = self.value(now).filter(|_| !stripped);
        let newest = if manners.newest_block_only { 1 } else { 3 };
        let sack: SackBlocks = match self.sack && segment.data.is_empty() {
            true => early.iter().copied().take(newest).collect(),
            false => SackBlocks::new(),
        };
        let options = wire::TcpOptions {
            timestamps: timestamps.map(|value| (value, self.recent)),
            sack,
            ..segment.options
        };
        Segment { options, ..segment }
    }

    /// A segment of the station is on the wire.
    pub fn on_wire(&mut self, segment: &Segment) {
        let from = segment.seq.since(self.first) as usize;
        let to = from + segment.data.len();
        if segment.data.is_empty() || segment.seq.before(self.first) {
            return;
        }
        self.said.resize(self.said.len().max(to), 0);
        for n in &mut self.said[from..to] {
            *n = n.saturating_add(1);
        }
    }
}
