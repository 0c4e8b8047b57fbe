//! Since when a side of a relayed connection has taken none of the data that wait for it.
//!
//! Locks: none.

use kern::Time;
use mbuma::socket::{MaybeTlsStream, StreamRelay};

use crate::stall_relief::DirectionProgress;

/// The progress of one relay, as of the last look at it.
pub(super) struct RelayProgress([DirectionProgress; 2]);

impl RelayProgress {
    /// Of a relay that begins.
    pub(super) fn begin(now: Time) -> RelayProgress {
        RelayProgress([DirectionProgress::begin(now); 2])
    }

    /// The time since which a side has taken nothing although data wait for it.
    pub(super) fn stalled_since(
        &mut self,
        relay: &StreamRelay<MaybeTlsStream>,
        now: Time,
    ) -> Option<Time> {
        let (client, server) = relay.ends();
        let sinks = [server, client].map(|sink| sink.send_room().buffered as u64);
        let all = self.0.iter_mut().zip(relay.moved()).zip(sinks);
        let stalled = all.filter_map(|((direction, moved), waiting)| {
            direction.look(moved.wrapping_sub(waiting), waiting, now)
        });
        stalled.min()
    }
}
