//! SACK blocks of a peer, after the checks that protect against hostile and buggy peers.
//!
//! Sources: RFC 2018, RFC 2883 4.

use std::ops::Range;

use wire::{SackBlock, SeqNum};

use super::Acknowledgement;
use crate::tcp::pcb::SendState;

/// SACK blocks after the checks.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The range that arrived twice (RFC 2883).
    pub(super) duplicate: Option<Range<SeqNum>>,
    /// The blocks above SND.UNA, in the order of sequence numbers.
    pub(super) above: [Option<Range<SeqNum>>; 4],
}

impl Blocks {
    /// Drops invalid blocks: of data that was never sent or is acknowledged, and duplicates of data that was never
    /// retransmitted.
    pub(super) fn of(a: &Acknowledgement<'_>, send: &SendState) -> Self {
        let mut blocks = Self::default();
        if a.blocks.is_empty() {
            return blocks;
        }
        let una = send.una.max(a.ack);
        for (at, block) in a.blocks.iter().enumerate() {
            let range = block.left..block.right;
            let sent = range.start.before(range.end) && range.end.at_or_before(send.nxt);
            let inside =
                |o: &SackBlock| o.left.at_or_before(range.start) && range.end.at_or_before(o.right);
            let twice = range.end.at_or_before(una) || a.blocks.get(1).is_some_and(inside);
            if sent && at == 0 && twice {
                // Only data up to the last retransmission can arrive twice, and only within a window.
                let r = &send.recovery;
                let again = r.resent_bytes > 0 && range.end.at_or_before(r.resent_at);
                let recent = una.since(range.start) <= send.wnd_max.max(1 << 16);
                let recent = recent || range.start.after(una);
                blocks.duplicate = Some(range).filter(|_| again && recent);
            } else if sent && una.before(range.start) {
                blocks.above[at.min(3)] = Some(range);
            }
        }
        let key = |range: &Option<Range<SeqNum>>| {
            (range.as_ref()).map_or(u32::MAX, |range| range.start.since(una))
        };
        blocks.above.sort_by_key(key);
        blocks
    }
}
