//! The counters of a bridge.
//!
//! Locks: none; each CPU counts for itself.

use kern::Counter;

#[derive(Debug, Default)]
pub(super) struct BridgeCounters {
    pub(super) received: Counter,
    pub(super) switched: Counter,
    pub(super) flooded: Counter,
    pub(super) filtered: Counter,
    pub(super) bad_frame: Counter,
    pub(super) too_big: Counter,
    pub(super) looped: Counter,
    pub(super) port_gone: Counter,
    pub(super) sent: Counter,
    pub(super) copies: Counter,
    pub(super) no_bufs: Counter,
    pub(super) refused: Counter,
}

/// A bridge's figures since it was made.
///
/// Inward `received = switched + flooded + filtered + bad_frame + too_big + looped + port_gone`;
/// outward, as long as no device cuts frames, `switched + copies = sent + refused + no_bufs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BridgeStats {
    /// Frames that came in.
    pub received: u64,
    /// Frames to a station that is known, sent to its port.
    pub switched: u64,
    /// Frames to a group, or to a station that is not known, sent to every other port.
    pub flooded: u64,
    /// Frames to a station behind the port that they came from, or to a group of that link alone.
    pub filtered: u64,
    /// Frames without a whole Ethernet header, or whose source is a group; and frames that devices lost.
    pub bad_frame: u64,
    /// Frames larger than the MTU.
    pub too_big: u64,
    /// Frames that passed too many bridges: there is a loop.
    pub looped: u64,
    /// Frames that waited at a port, or were in hand for it, when it was removed.
    pub port_gone: u64,
    /// Frames that were given to a device, which took them.
    pub sent: u64,
    /// Frames that floods became, one a port.
    pub copies: u64,
    /// Frames for which there were no buffers.
    pub no_bufs: u64,
    /// Frames that a device did not take: it was full, or gone.
    pub refused: u64,
    /// Stations that are remembered now.
    pub addresses: usize,
}

impl BridgeCounters {
    pub(super) fn get(&self, addresses: usize) -> BridgeStats {
        BridgeStats {
            received: self.received.get(),
            switched: self.switched.get(),
            flooded: self.flooded.get(),
            filtered: self.filtered.get(),
            bad_frame: self.bad_frame.get(),
            too_big: self.too_big.get(),
            looped: self.looped.get(),
            port_gone: self.port_gone.get(),
            sent: self.sent.get(),
            copies: self.copies.get(),
            no_bufs: self.no_bufs.get(),
            refused: self.refused.get(),
            addresses,
        }
    }
}
