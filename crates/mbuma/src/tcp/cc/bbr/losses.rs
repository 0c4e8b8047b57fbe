//! Bytes that were lost or marked since a segment was sent, for as long as its acknowledgement may be outstanding.
//!
//! Source: draft-ietf-ccwg-bbr section 5.5.10.2 (RS.lost).

use std::collections::VecDeque;

/// Losses that are kept apart. More of them in a round trip are counted with the last one.
const APART_MAX: usize = 64;

/// The losses of about one round trip.
#[derive(Debug, Default)]
pub(super) struct RecentLosses {
    /// Bytes that were delivered in all when the loss was found, and its bytes.
    list: VecDeque<(u64, u64)>,
}

impl RecentLosses {
    /// `bytes` were found lost when `delivered` bytes had been delivered.
    pub(super) fn note(&mut self, delivered: u64, bytes: u64) {
        let full = self.list.len() >= APART_MAX;
        match self.list.back_mut() {
            Some((at, lost)) if *at == delivered || full => {
                (*at, *lost) = (delivered, *lost + bytes);
            }
            _ => self.list.push_back((delivered, bytes)),
        }
    }

    /// The losses since a segment was sent that is acknowledged now; `delivered`: the bytes that had been delivered
    /// then. Forgets older ones.
    pub(super) fn since(&mut self, delivered: u64) -> u64 {
        while self.list.pop_front_if(|(at, _)| *at <= delivered).is_some() {}
        self.list.iter().map(|(_, lost)| lost).sum()
    }
}
