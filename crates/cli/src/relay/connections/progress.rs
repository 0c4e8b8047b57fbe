//! Since when a side of a relayed connection has taken none of the data that wait for it.
//!
//! Locks: none.

use kern::Time;
use mbuma::socket::{RelayEnd, SendRoom, StreamRelay};

/// The progress of one relay, as of the last look at it.
pub(super) struct RelayProgress([DirectionProgress; 2]);

#[derive(Clone, Copy)]
struct DirectionProgress {
    /// A number that changes with each acknowledgement of the side that receives; none while no data wait for it.
    taken: Option<u64>,
    /// When that was first seen.
    since: Time,
}

impl RelayProgress {
    /// Of a relay that begins.
    pub(super) fn begin(now: Time) -> RelayProgress {
        let begin = DirectionProgress {
            taken: None,
            since: now,
        };
        RelayProgress([begin; 2])
    }

    /// The time since which a side has taken nothing although data wait for it.
    pub(super) fn stalled_since(
        &mut self,
        relay: &StreamRelay<RelayEnd>,
        now: Time,
    ) -> Option<Time> {
        let (client, server) = relay.ends();
        let sinks = [server, client].map(|sink| room_of(sink).buffered as u64);
        let all = self.0.iter_mut().zip(relay.moved()).zip(sinks);
        let stalled =
            all.filter_map(|((direction, moved), waiting)| direction.look(moved, waiting, now));
        stalled.min()
    }
}

impl DirectionProgress {
    /// The time since which nothing was taken, of `moved` bytes in all of which `waiting` are left.
    fn look(&mut self, moved: u64, waiting: u64, now: Time) -> Option<Time> {
        // A side for which nothing waited may have been idle for long: its time begins with the next data.
        let taken = (waiting > 0).then(|| moved.wrapping_sub(waiting));
        if taken != self.taken {
            *self = DirectionProgress { taken, since: now };
        }
        taken.map(|_| self.since)
    }
}

fn room_of(end: &RelayEnd) -> SendRoom {
    match end {
        RelayEnd::Tcp(tcp) => tcp.send_room(),
        RelayEnd::Tls(tls) => tls.send_room(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_begins_with_the_data_that_wait() {
        // Breaks when a client that got nothing for long is taken for a stalled one as soon as data come for it.
        let second = Time::from_secs;
        let [mut direction, _] = RelayProgress::begin(second(0)).0;
        assert_eq!(direction.look(0, 0, second(30)), None);
        assert_eq!(direction.look(100, 100, second(60)), Some(second(60)));
        assert_eq!(direction.look(150, 150, second(69)), Some(second(60)));
        assert_eq!(direction.look(150, 149, second(70)), Some(second(70)));
        assert_eq!(direction.look(150, 0, second(71)), None);
        assert_eq!(direction.look(151, 1, second(99)), Some(second(99)));
    }
}
