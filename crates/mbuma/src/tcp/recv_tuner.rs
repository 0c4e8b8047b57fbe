//! Finds the size of the receive buffer by measuring the user's reads ("dynamic right-sizing").
//!
//! A window of one bandwidth-delay product fills the path; a sender in slow start doubles each round trip; so the
//! buffer must hold twice what the user read in a round trip, and more while that grows. Bytes that arrive and are not
//! read do not count: a user that has stopped needs no more room.
//!
//! A round ends when data echoes a timestamp of this side from after the round's start: then the sender had seen the
//! window of that time. Without timestamps a round takes as long as the handshake did. For a near peer (a round trip
//! below the tick of the timestamps) the buffer stays as it is, because there each pause of a reader would look like a
//! long path.
//!
//! The buffer never shrinks. A user that sets its size ends the tuning.
//!
//! Locks: none; part of the connection.
//! Sources: M. Fisk, W. Feng, *Dynamic right-sizing in TCP* (2001); Linux's tcp_rcv_space_adjust.

use std::time::Duration;

use kern::Time;
use wire::SeqNum;

/// The smallest round trip for which the reads are measured.
pub(crate) const FAR: Duration = Duration::from_millis(1);

/// The part of it that a connection keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecvTuner {
    /// The next byte to read when the round began.
    read: SeqNum,
    /// Bytes that it read in the fullest round so far.
    copied: u32,
    /// When the round began.
    since: Time,
}

impl RecvTuner {
    /// Begins to measure at byte `read`; the peer's first window is `initial` bytes.
    pub(crate) const fn new(read: SeqNum, initial: u32, now: Time) -> Self {
        Self {
            read,
            copied: initial,
            since: now,
        }
    }

    /// When the round began.
    pub(crate) const fn since(&self) -> Time {
        self.since
    }

    /// The round is over: the user has read up to `read`. Returns the bytes that the buffer should hold, if more than
    /// before.
    pub(crate) fn on_round(&mut self, read: SeqNum, mss: u32, now: Time) -> Option<usize> {
        let copied = read.since(self.read);
        let last = u64::from(self.copied);
        (self.read, self.since) = (read, now);
        if copied <= self.copied {
            return None;
        }
        self.copied = copied;
        let copied = u64::from(copied);
        // Room for segments that wait in the buffer while sixteen more are under way.
        let base = 2 * copied + 16 * u64::from(mss);
        let growth = base.saturating_mul(copied - last) / last.max(1);
        let wanted = base.saturating_add(growth.saturating_mul(2));
        Some(wanted.min(u64::from(u32::MAX)) as usize)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const MSS: u32 = 1448;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_doubling_sender_is_never_held_back() {
        // Breaks if the window is ever smaller than what a sender in slow start sends in the next two round trips.
        let mut tuner = RecvTuner::new(SeqNum(7), 10 * MSS, at(0));
        let (mut read, mut buffer, mut flight) = (SeqNum(7), 64 << 10, 10 * MSS);
        for round in 1..12 {
            flight *= 2;
            assert!(buffer >= flight as usize, "{round}: {buffer} {flight}");
            read += flight;
            if let Some(wanted) = tuner.on_round(read, MSS, at(50 * round)) {
                buffer = buffer.max(wanted);
            }
        }
    }

    #[test]
    fn a_user_that_reads_nothing_gets_nothing() {
        // Breaks if a stalled user, or a rate that stays as it is, makes the buffer grow.
        let mut tuner = RecvTuner::new(SeqNum(7), 10 * MSS, at(0));
        assert_eq!(tuner.on_round(SeqNum(7), MSS, at(50)), None);
        let read = SeqNum(7) + 20 * MSS;
        assert!(tuner.on_round(read, MSS, at(100)).is_some());
        assert_eq!(tuner.on_round(read + 20 * MSS, MSS, at(150)), None);
    }

    #[test]
    fn no_amount_of_data_in_a_round_overflows_the_tuner() {
        // Breaks if a whole turn of the sequence space in a round panics or wraps.
        let mut tuner = RecvTuner::new(SeqNum(7), 0, at(0));
        let wanted = tuner.on_round(SeqNum(6), u32::MAX, at(50));
        assert_eq!(wanted, Some(u32::MAX as usize));
    }
}
