//! One direction of an emulated link: frames in, each with a time; frames out, each with a time.
//!
//! ```text
//!              enter                                       carry
//!   frame --> | MTU | queue (drop-tail) | ECN mark | rate | --> | lost? damaged? cut? twice? | delay, jitter, late | -->
//! ```
//!
//! A pure value: its output depends only on the [`LinkConfig`], on the seed, and on the frames with their times.
//! The fate of a frame is decided when it enters, because the queue is first in, first out: so the time at which it
//! comes out is known at once, and the owner keeps it until then, in a [`DelayQueue`](super::DelayQueue) or among other
//! events.
//!
//! Invariants:
//! * Conservation: each frame that enters is counted as sent, and either it is refused (`TooBig`, `Overflowed`) or each
//!   of its copies is delivered or lost.
//! * Frames come out in the order in which they entered, but for those counted as reordered.
//! * The bits of the frames that pass within a time `t` are at most `rate * t` and one token bucket.
//! * The queue holds at most `queue_bytes` and one frame.
//!
//! Three kinds of frame are lost where others are damaged: those of ARP, which has no checksum of its own and relies on
//! that of Ethernet; those whose checksum is not computed yet; and those that say that they were damaged before,
//! because a second inverted bit can hide the first from the checksum.

use std::time::Duration;

use kern::{Random, Time};

use super::event::{LinkCounts, LinkEvent};
use super::link::{Lateness, LinkConfig};

/// A frame that a [`LinkEmulator`] can carry.
pub trait LinkFrame: Sized {
    /// Its bytes, from the Ethernet header on.
    fn bytes(&self) -> usize;

    /// Whether its checksum is missing, or it is still to be cut: then it passes at any size, and is never damaged.
    fn is_unfinished(&self) -> bool;

    /// The same once more; `None` if there is no memory, and then it is not duplicated.
    fn duplicate(&mut self) -> Option<Self>;

    /// Inverts one bit, counted from the first; false if it must be lost instead.
    fn flip_bit(&mut self, bit: u64) -> bool;

    /// Removes the bytes behind the first `len`.
    fn cut_to(&mut self, len: usize);

    /// Marks it with "congestion experienced" (RFC 3168) if it is ECN-capable; says whether it was.
    fn mark_ce(&mut self) -> bool;
}

/// The state of one direction.
#[derive(Debug)]
pub struct LinkEmulator {
    link: LinkConfig,
    random: Random,
    /// When the last queued bit leaves. With a token bucket this may lie in the past.
    busy_until: Time,
    /// When the last frame in order arrives.
    last_arrival: Time,
    /// A burst of losses goes on.
    in_burst: bool,
    counts: LinkCounts,
}

impl LinkEmulator {
    /// A direction that is like `link`, with its own randomness.
    pub fn new(link: LinkConfig, random: Random) -> Self {
        Self {
            link,
            random,
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            in_burst: false,
            counts: LinkCounts::default(),
        }
    }

    /// Frames that enter from now on meet this.
    pub fn set_link(&mut self, link: LinkConfig) {
        self.link = link;
    }

    /// Its properties.
    pub fn link(&self) -> LinkConfig {
        self.link
    }

    /// The events so far.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// How long a frame that enters at `now` waits for those before it.
    pub fn wait(&self, now: Time) -> Duration {
        self.busy_until - now
    }

    /// The bytes that wait for the rate at `now`.
    pub fn backlog(&self, now: Time) -> usize {
        self.link.bytes_in(self.wait(now))
    }

    /// Sends a frame at `now`: gives `out` the resulting copies, each with its time, and `log` the events.
    pub fn send<F: LinkFrame>(
        &mut self,
        now: Time,
        mut frame: F,
        out: &mut impl FnMut(Time, F),
        log: &mut impl FnMut(LinkEvent),
    ) {
        if let Some(sent) = self.enter(now, &mut frame, log) {
            self.carry(sent, frame, out, log);
        }
    }

    /// The first half: the queue and the rate. Returns when the last bit of the frame leaves; `None` if it is refused.
    ///
    /// A link with many receivers calls it once for each frame, and [`carry`](Self::carry) for each receiver.
    pub fn enter<F: LinkFrame>(
        &mut self,
        now: Time,
        frame: &mut F,
        log: &mut impl FnMut(LinkEvent),
    ) -> Option<Time> {
        self.counts.sent += 1;
        self.counts.bytes += frame.bytes() as u64;
        let packet = frame.bytes().saturating_sub(wire::EtherHeader::LEN);
        if packet > usize::from(self.link.mtu) && !frame.is_unfinished() {
            self.counts.count(LinkEvent::TooBig, log);
            return None;
        }
        let backlog = self.backlog(now);
        if backlog > self.link.queue_bytes {
            self.counts.count(LinkEvent::Overflowed, log);
            return None;
        }
        if self.link.ecn_bytes.is_some_and(|mark| backlog > mark) && frame.mark_ce() {
            self.counts.count(LinkEvent::Marked, log);
        }
        Some(self.serialize(now, frame.bytes()))
    }

    /// Counts a frame that the owner has no room for, as if the queue were full.
    pub fn overflow(&mut self, bytes: usize, log: &mut impl FnMut(LinkEvent)) {
        self.counts.sent += 1;
        self.counts.bytes += bytes as u64;
        self.counts.count(LinkEvent::Overflowed, log);
    }

    /// Puts the frame's bits behind those that are under way; returns when the last one leaves.
    fn serialize(&mut self, now: Time, bytes: usize) -> Time {
        // Time that passed unused is credit, as far as the token bucket is deep.
        let credit = self.link.time_for(self.link.burst_bytes).as_nanos();
        let credit = u64::try_from(credit).unwrap_or(u64::MAX);
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(credit));
        self.busy_until = self.busy_until.max(earliest) + self.link.time_for(bytes);
        self.busy_until.max(now)
    }

    /// The second half: the faults and the delay, for one receiver of a frame whose last bit leaves at `sent`.
    ///
    /// All draws are made for every frame, so that a fault's probability does not change when others happen.
    pub fn carry<F: LinkFrame>(
        &mut self,
        sent: Time,
        mut frame: F,
        out: &mut impl FnMut(Time, F),
        log: &mut impl FnMut(LinkEvent),
    ) {
        let faults = self.link.faults;
        let r = &mut self.random;
        let lost = r.chance(faults.loss);
        let twice = r.chance(faults.duplicate);
        let damaged = r.chance(faults.corrupt);
        let cut = r.chance(faults.truncate);
        let (place, keep) = (r.next_u64(), r.next_u64());
        if lost | self.lost_in_burst() {
            return self.counts.count(LinkEvent::Lost, log);
        }
        if damaged {
            if !damage(&mut frame, place) {
                return self.counts.count(LinkEvent::Lost, log);
            }
            self.counts.count(LinkEvent::Corrupted, log);
        }
        if cut && !frame.is_unfinished() {
            frame.cut_to((keep % frame.bytes().max(1) as u64) as usize);
            self.counts.count(LinkEvent::Truncated, log);
        }
        if twice && let Some(copy) = frame.duplicate() {
            self.counts.count(LinkEvent::Duplicated, log);
            out(self.arrival(sent, log), copy);
        }
        out(self.arrival(sent, log), frame);
    }

    /// Moves the two-state model on by a frame. Draws nothing where there are no bursts.
    fn lost_in_burst(&mut self) -> bool {
        let Some(burst) = self.link.faults.burst else {
            return false;
        };
        let change = if self.in_burst {
            burst.leave
        } else {
            burst.enter
        };
        self.in_burst ^= self.random.chance(change);
        self.random.chance(burst.loss) && self.in_burst
    }

    fn arrival(&mut self, sent: Time, log: &mut impl FnMut(LinkEvent)) -> Time {
        let link = self.link;
        let late = self.random.chance(link.faults.reorder);
        let jitter = self.below(link.jitter);
        let by = match link.faults.late {
            Lateness::By(by) => {
                self.random.next_u64();
                by
            }
            Lateness::UpTo(most) => self.below(most),
        };
        self.counts.count(LinkEvent::Delivered, log);
        if late {
            self.counts.count(LinkEvent::Reordered, log);
            return sent + link.delay + jitter + by;
        }
        self.last_arrival = self.last_arrival.max(sent + link.delay + jitter);
        self.last_arrival
    }

    /// A duration from zero to `most`.
    fn below(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.below(most.saturating_add(1)))
    }
}

/// Inverts one bit; false if no receiver could notice.
fn damage<F: LinkFrame>(frame: &mut F, place: u64) -> bool {
    let bits = frame.bytes() as u64 * 8;
    bits != 0 && !frame.is_unfinished() && frame.flip_bit(place % bits)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
