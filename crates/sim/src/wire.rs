//! A wire: a link between two ends, or a hub between more, that does to frames what bad links do.
//!
//! Each end has its own parameters for what it sends and its own stream of randomness, so that
//! changing one direction leaves the other's fate as it was.
//!
//! Called by: the net. What happens to a frame, in order: too large; no room in the queue; then for
//! each receiver on its own: lost, duplicated, damaged, cut short, held back.
//!
//! Three kinds of frame are never damaged but lost instead: those of ARP, which has no checksum of its
//! own and relies on the link's; those whose checksum is not computed yet; and those that another
//! wire has damaged before, because two turned bits can cancel each other in the checksum.

use std::time::Duration;

use ::wire::{EtherHeader, EtherType};
use kern::{Random, Time};

use crate::deed::{Deed, WireCounts};
use crate::frame::Frame;
use crate::link::{Faults, Link};

#[derive(Debug)]
struct Direction {
    link: Link,
    random: Random,
    /// When the last bit of what is queued leaves.
    busy_until: Time,
    /// When the last frame in order arrives.
    last_arrival: Time,
    counts: WireCounts,
}

/// A frame that comes out.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) at: Time,
    pub(crate) end: usize,
    pub(crate) frame: Frame,
}

/// A wire. Its ends are numbered from 0.
#[derive(Debug)]
pub struct Wire {
    link: Link,
    random: Random,
    ends: Vec<Direction>,
}

impl Wire {
    /// A wire whose directions all are `link`.
    pub fn new(link: Link, random: Random) -> Self {
        Self {
            link,
            random,
            ends: Vec::new(),
        }
    }

    /// One end more; returns its number.
    pub(crate) fn add_end(&mut self) -> usize {
        self.ends.push(Direction {
            link: self.link,
            random: self.random.fork(),
            busy_until: Time::ZERO,
            last_arrival: Time::ZERO,
            counts: WireCounts::default(),
        });
        self.ends.len() - 1
    }

    /// How many ends it has.
    pub(crate) fn total_ends(&self) -> usize {
        self.ends.len()
    }

    /// What is sent from `end` goes over this link from now on.
    pub fn set_link(&mut self, end: usize, link: Link) {
        self.ends[end].link = link;
    }

    /// The link from `end`.
    pub fn link(&self, end: usize) -> Link {
        self.ends[end].link
    }

    /// No faults from now on, in any direction; delays and rates stay.
    pub fn heal(&mut self) {
        self.ends
            .iter_mut()
            .for_each(|end| end.link.faults = Faults::default());
    }

    /// Every frame is lost from now on.
    pub fn cut(&mut self) {
        self.ends
            .iter_mut()
            .for_each(|end| end.link.faults.loss = 1.0);
    }

    /// What was done to frames from `end`.
    pub fn counts(&self, end: usize) -> WireCounts {
        self.ends[end].counts
    }

    /// What was done to all frames.
    pub fn total(&self) -> WireCounts {
        let mut sum = WireCounts::default();
        self.ends.iter().for_each(|end| sum.add(&end.counts));
        sum
    }

    /// Sends a frame from `from` to every other end; `log` tells what happened to it.
    pub(crate) fn send(
        &mut self,
        now: Time,
        from: usize,
        frame: &Frame,
        out: &mut Vec<Delivery>,
        log: &mut Vec<Deed>,
    ) {
        let receivers = self.ends.len();
        let direction = &mut self.ends[from];
        direction.counts.sent += 1;
        direction.counts.bytes += frame.bytes.len() as u64;
        if let Some(refusal) = direction.refuses(now, frame) {
            return direction.counts.count(refusal, log);
        }
        let sent = direction.serialize(now, frame);
        for end in (0..receivers).filter(|&end| end != from) {
            direction.carry(sent, end, frame, out, log);
        }
    }
}

impl Direction {
    fn refuses(&self, now: Time, frame: &Frame) -> Option<Deed> {
        let len = frame.bytes.len() - EtherHeader::LEN.min(frame.bytes.len());
        if len > usize::from(self.link.mtu) && !frame.is_unfinished() {
            return Some(Deed::TooBig);
        }
        let backlog_bits = match self.link.rate_bps {
            0 => 0,
            rate => (self.busy_until - now).as_nanos() * u128::from(rate) / 1_000_000_000,
        };
        (backlog_bits / 8 > self.link.queue_bytes as u128).then_some(Deed::Overflowed)
    }

    /// Puts the frame's bits behind those that are under way; returns when the last one leaves.
    fn serialize(&mut self, now: Time, frame: &Frame) -> Time {
        let bits = frame.bytes.len() as u64 * 8;
        let took_ns = (bits * 1_000_000_000)
            .checked_div(self.link.rate_bps)
            .unwrap_or(0);
        self.busy_until = self.busy_until.max(now) + Duration::from_nanos(took_ns);
        self.busy_until
    }

    /// All draws are made for every frame, so that one fault's rate does not shift another's luck.
    fn carry(
        &mut self,
        sent: Time,
        end: usize,
        frame: &Frame,
        out: &mut Vec<Delivery>,
        log: &mut Vec<Deed>,
    ) {
        let faults = self.link.faults;
        let r = &mut self.random;
        let lost = r.chance(faults.loss);
        let twice = r.chance(faults.duplicate);
        let damaged = r.chance(faults.corrupt);
        let cut = r.chance(faults.truncate);
        let (place, keep) = (r.next_u64(), r.next_u64());
        if lost {
            return self.counts.count(Deed::Lost, log);
        }
        let mut frame = frame.clone();
        if damaged && !damage(&mut frame, place) {
            return self.counts.count(Deed::Lost, log);
        }
        if damaged {
            self.counts.count(Deed::Corrupted, log);
        }
        if cut && !frame.is_unfinished() {
            frame
                .bytes
                .truncate((keep % frame.bytes.len().max(1) as u64) as usize);
            self.counts.count(Deed::Truncated, log);
        }
        if twice {
            self.counts.count(Deed::Duplicated, log);
            let at = self.arrival(sent, log);
            out.push(Delivery {
                at,
                end,
                frame: frame.clone(),
            });
        }
        let at = self.arrival(sent, log);
        out.push(Delivery { at, end, frame });
    }

    fn arrival(&mut self, sent: Time, log: &mut Vec<Deed>) -> Time {
        let link = self.link;
        let late = self.random.chance(link.faults.reorder);
        let jitter = Duration::from_nanos(self.random.below(link.jitter.as_nanos() as u64 + 1));
        let by = link.faults.reorder_by.as_nanos() as u64;
        let by = Duration::from_nanos(self.random.below(by + 1));
        self.counts.count(Deed::Delivered, log);
        if late {
            self.counts.count(Deed::Reordered, log);
            return sent + link.delay + jitter + by;
        }
        self.last_arrival = self.last_arrival.max(sent + link.delay + jitter);
        self.last_arrival
    }
}

/// Turns one bit; false if nobody could notice.
fn damage(frame: &mut Frame, place: u64) -> bool {
    let arp =
        matches!(EtherHeader::parse(&frame.bytes), Ok((h, _)) if h.ethertype() == EtherType::ARP);
    if arp || frame.is_unfinished() || frame.bytes.is_empty() || frame.damaged {
        return false;
    }
    frame.damaged = true;
    let bit = place % (frame.bytes.len() as u64 * 8);
    frame.bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

#[cfg(test)]
mod tests;
