//! A wire: a link between two ends, or a hub between more, with the faults of bad links.
//!
//! Each end has its own [`LinkEmulator`] for the frames that it sends, with its own stream of randomness, so that a
//! change of one direction does not change the fate of the other's frames. The emulator's file says how it treats a
//! frame; on a hub a frame enters the emulator once, and is then lost, damaged or held back for each receiver on its
//! own.

use std::time::Duration;

use ::wire::{EtherHeader, EtherType, Ipv4Header, Ipv6Header};
use kern::{Random, Time};
use mbuma::device::impair::{Faults, LinkConfig, LinkCounts, LinkEmulator, LinkEvent, LinkFrame};

use crate::frame::Frame;

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
    link: LinkConfig,
    random: Random,
    ends: Vec<LinkEmulator>,
}

impl Wire {
    /// A wire whose directions all are `link`.
    pub fn new(link: LinkConfig, random: Random) -> Self {
        Self {
            link,
            random,
            ends: Vec::new(),
        }
    }

    /// Adds an end, and returns its number.
    pub(crate) fn add_end(&mut self) -> usize {
        let emulator = LinkEmulator::new(self.link, self.random.fork());
        self.ends.push(emulator);
        self.ends.len() - 1
    }

    /// How many ends it has.
    pub(crate) fn total_ends(&self) -> usize {
        self.ends.len()
    }

    /// Frames from `end` go over this link from now on.
    pub fn set_link(&mut self, end: usize, link: LinkConfig) {
        self.ends[end].set_link(link);
    }

    /// The link from `end`.
    pub fn link(&self, end: usize) -> LinkConfig {
        self.ends[end].link()
    }

    /// No faults from now on, in any direction; delays and rates stay.
    pub fn heal(&mut self) {
        self.change_faults(|faults| *faults = Faults::default());
    }

    /// Every frame is lost from now on.
    pub fn cut(&mut self) {
        self.change_faults(|faults| faults.loss = 1.0);
    }

    fn change_faults(&mut self, change: impl Fn(&mut Faults)) {
        for end in &mut self.ends {
            let mut link = end.link();
            change(&mut link.faults);
            end.set_link(link);
        }
    }

    /// The counts of faults of frames from `end`.
    pub fn counts(&self, end: usize) -> LinkCounts {
        self.ends[end].counts()
    }

    /// The time for which a frame that is sent from `end` now waits for those before it.
    pub fn wait(&self, end: usize, now: Time) -> Duration {
        self.ends[end].wait(now)
    }

    /// The counts of faults of all frames.
    pub fn total(&self) -> LinkCounts {
        let mut sum = LinkCounts::default();
        self.ends.iter().for_each(|end| sum.add(&end.counts()));
        sum
    }

    /// Sends a frame from `from` to every other end; `log` receives the faults.
    pub(crate) fn send(
        &mut self,
        now: Time,
        from: usize,
        frame: &Frame,
        out: &mut Vec<Delivery>,
        log: &mut Vec<LinkEvent>,
    ) {
        let receivers = self.ends.len();
        let emulator = &mut self.ends[from];
        let mut frame = frame.clone();
        let Some(sent) = emulator.enter(now, &mut frame, &mut |event| log.push(event)) else {
            return;
        };
        for end in (0..receivers).filter(|&end| end != from) {
            let mut arrive = |at, frame| out.push(Delivery { at, end, frame });
            let mut log = |event| log.push(event);
            emulator.carry(sent, frame.clone(), &mut arrive, &mut log);
        }
    }
}

impl LinkFrame for Frame {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn is_unfinished(&self) -> bool {
        Self::is_unfinished(self)
    }

    fn duplicate(&mut self) -> Option<Self> {
        Some(self.clone())
    }

    fn flip_bit(&mut self, bit: u64) -> bool {
        let header = EtherHeader::parse(&self.bytes);
        let arp = matches!(header, Ok((h, _)) if h.ethertype() == EtherType::ARP);
        if arp || self.damaged {
            return false;
        }
        self.damaged = true;
        self.bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        true
    }

    fn cut_to(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    fn mark_ce(&mut self) -> bool {
        let header = EtherHeader::parse(&self.bytes);
        let ethertype = header.map(|(header, _)| header.ethertype());
        let packet = self.bytes.get_mut(EtherHeader::LEN..).unwrap_or_default();
        match ethertype {
            Ok(EtherType::IPV4) => Ipv4Header::parse_mut(packet).is_ok_and(Ipv4Header::mark_ce),
            Ok(EtherType::IPV6) => Ipv6Header::parse_mut(packet).is_ok_and(Ipv6Header::mark_ce),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
