//! One datagram of which parts are there: its runs, where it ends, and how it becomes whole.
//!
//! A run is the fragments that follow each other without a gap, in one chain. A fragment that follows a run is
//! appended to it, so that fragments in order cost the same however many they are: at an MTU of 576 a datagram has up
//! to 119, at 68 up to 1,366. The number of runs is bounded, which bounds the time that a fragment out of order
//! takes.
//!
//! ```text
//!   0          1480        2960                       total
//!   | run 0: fragments 0, 1 |      gap      | run 1   |<- known from the fragment without MF
//! ```
//!
//! Called by: [`reassemble`](super::reassemble), under its lock but for [`PartialDatagram::rebuild`] and
//! [`PartialDatagram::quote`]. Calls: nothing.
//!
//! Invariants: the runs are sorted, and there is a gap between any two; `have` is the sum of their lengths; no run
//! reaches past `total` once that is known. So the datagram is whole when the two are equal.
//! Locks: none. Sources: RFC 791 section 3.2, RFC 815, RFC 3168 section 5.3, RFC 5722.

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{Ipv4Fields, Ipv4Header};

use super::input::Facts;
use crate::drops::DropReason;
use crate::ip::QUOTE_MAX;

/// The fragments that are there of one datagram.
#[derive(Debug, Default)]
pub(super) struct PartialDatagram {
    /// Sorted, with gaps between them.
    runs: Vec<Run>,
    /// Fragments in all of them.
    fragments: usize,
    /// Memory that they keep from being reused.
    pinned: usize,
    /// Bytes of payload in the whole, once the last fragment is there.
    total: Option<usize>,
    /// Bytes of payload that are there.
    have: usize,
    /// The header of the fragment at offset 0.
    first: Option<FirstHeader>,
    /// The ECN codepoints seen, a bit each.
    ecn_seen: u8,
}

#[derive(Debug)]
struct Run {
    start: usize,
    data: Chain,
}

impl Run {
    fn end(&self) -> usize {
        self.start + self.data.len()
    }
}

/// A header as it arrived, with its options.
#[derive(Debug, Clone, Copy)]
struct FirstHeader {
    bytes: [u8; Ipv4Header::LEN_MAX],
    facts: Facts,
}

/// The fate of a fragment.
pub(super) enum Added {
    Waits,
    /// It completed its datagram.
    Whole(PartialDatagram),
    /// It alone is dropped.
    Refused(DropReason),
    /// It and all others of its datagram are dropped.
    Spoilt(DropReason),
}

impl PartialDatagram {
    /// Adds a fragment, which [`check_fragment`] found good by itself.
    pub(super) fn add(
        &mut self,
        pool: &MbufPool,
        mut packet: Packet,
        facts: &Facts,
        runs_max: usize,
    ) -> Added {
        let start = usize::from(facts.frag_offset);
        let end = start + (facts.total_len - facts.header_len);
        let at = self.runs.partition_point(|run| run.start <= start);
        let before = at.checked_sub(1).and_then(|i| self.runs.get(i));
        let behind = self.runs.get(at);
        // All of it is there already: the first copy counts, as in Linux.
        if before.is_some_and(|run| run.end() >= end) {
            return Added::Refused(DropReason::FragmentDuplicate);
        }
        if before.is_some_and(|run| run.end() > start) || behind.is_some_and(|run| run.start < end)
        {
            return Added::Spoilt(DropReason::FragmentOverlap);
        }
        let follows = before.is_some_and(|run| run.end() == start);
        let precedes = behind.is_some_and(|run| run.start == end);
        if !follows && !precedes && self.runs.len() >= runs_max {
            return Added::Spoilt(DropReason::FragmentLimit);
        }
        if !self.agrees_on_end(end, facts.mf) {
            return Added::Spoilt(DropReason::FragmentBad);
        }
        if start == 0 {
            self.first = Some(FirstHeader::new(&packet, facts));
        }
        self.ecn_seen |= 1 << (facts.tos & 0b11);
        self.fragments += 1;
        self.have += end - start;
        packet.trim_front(facts.header_len);
        let mut run = match follows {
            true => self.take_run(at - 1),
            false => Run {
                start,
                data: Chain::new(),
            },
        };
        run.data.append_compact(pool, packet.into_chain());
        let at = at - usize::from(follows);
        if precedes {
            run.data.append(self.take_run(at).data);
        }
        self.pinned += run.data.pinned();
        self.runs.insert(at, run);
        Added::Waits
    }

    /// Takes a run out, which is there.
    fn take_run(&mut self, at: usize) -> Run {
        let run = self.runs.remove(at);
        self.pinned -= run.data.pinned();
        run
    }

    /// Whether a fragment up to `end` fits to where the datagram ends; remembers it if this is the last.
    fn agrees_on_end(&mut self, end: usize, more: bool) -> bool {
        let furthest = self.runs.last().map_or(0, Run::end);
        match (more, self.total) {
            (true, Some(total)) => end < total,
            (true, None) => true,
            (false, Some(_)) => false,
            (false, None) => {
                self.total = Some(end);
                furthest <= end
            }
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.total == Some(self.have)
    }

    /// Fragments that are there.
    pub(super) fn fragments(&self) -> usize {
        self.fragments
    }

    /// Memory that they keep from being reused.
    pub(super) fn pinned(&self) -> usize {
        self.pinned
    }

    /// The first fragment as far as an error message quotes it.
    pub(super) fn quote(&mut self, pool: &MbufPool) -> Option<Packet> {
        let first = self.first?;
        let data = &mut self.runs.first_mut()?.data;
        let len = data.len().min(QUOTE_MAX);
        let mut packet = Packet::before_chain(pool, data.share(0, len).ok()?).ok()?;
        let header = first.bytes.get(..first.facts.header_len)?;
        packet.prepend(header.len()).ok()?.copy_from_slice(header);
        Some(packet)
    }

    /// The ECN codepoint of the whole (RFC 3168 5.3): congestion that any fragment met was met by
    /// all. `None` if some fragments say that they can't carry it: then it was not set honestly.
    fn ecn(&self, first: u8) -> Option<u8> {
        const CE: u8 = 0b11;
        const NOT_ECT: u8 = 0b00;
        let seen = |codepoint: u8| self.ecn_seen & (1 << codepoint) != 0;
        match (seen(CE), seen(NOT_ECT)) {
            (true, true) => None,
            (true, false) => Some(CE),
            (false, _) => Some(first & 0b11),
        }
    }

    /// Makes one packet of the only run, moving their mbufs, and tells what its header says.
    pub(super) fn rebuild(mut self, pool: &MbufPool) -> Result<(Packet, Facts), DropReason> {
        let no_bufs = |_: NoBufs| DropReason::NoBufs;
        let first = self.first.ok_or(DropReason::FragmentBad)?;
        let ecn = self.ecn(first.facts.tos).ok_or(DropReason::FragmentBad)?;
        let tos = first.facts.tos & !0b11 | ecn;
        let payload_len = self.total.unwrap_or(0);
        // The fragment at 0 may have more options than the others, for which the limit was checked.
        let total_len = first.facts.header_len + payload_len;
        if total_len > usize::from(u16::MAX) {
            return Err(DropReason::FragmentBad);
        }
        let mut data = Chain::new();
        self.runs.drain(..).for_each(|run| data.append(run.data));
        // Its header goes to where the first fragment's was, unless that cluster is shared:
        // contiguous with the header behind it, which then needs no pullup.
        let mut packet = Packet::from_chain(pool, data).map_err(no_bufs)?;
        let fields = Ipv4Fields {
            tos,
            payload_len: payload_len as u16,
            id: first.facts.id,
            ttl: first.facts.ttl,
            protocol: first.facts.proto,
            src: first.facts.src,
            dst: first.facts.dst,
            options: first.options(),
            ..Ipv4Fields::default()
        };
        fields.emit(packet.prepend(fields.header_len()).map_err(no_bufs)?);
        let facts = Facts {
            total_len,
            tos,
            mf: false,
            frag_offset: 0,
            ..first.facts
        };
        Ok((packet, facts))
    }
}

impl FirstHeader {
    fn new(packet: &Packet, facts: &Facts) -> Self {
        let mut bytes = [0; Ipv4Header::LEN_MAX];
        for (to, from) in bytes.iter_mut().zip(packet.front()).take(facts.header_len) {
            *to = *from;
        }
        Self {
            bytes,
            facts: *facts,
        }
    }

    fn options(&self) -> &[u8] {
        self.bytes
            .get(Ipv4Header::LEN..self.facts.header_len)
            .unwrap_or(&[])
    }
}

/// Checks a fragment by itself: it must not be empty, end in the middle of 8 bytes unless it is the
/// last, or reach past the largest datagram (the "ping of death").
pub(super) fn check_fragment(facts: &Facts) -> Result<(), DropReason> {
    let len = facts.total_len - facts.header_len;
    let end = usize::from(facts.frag_offset) + len;
    let ragged = facts.mf && !len.is_multiple_of(8);
    if len == 0 || ragged || facts.header_len + end > usize::from(u16::MAX) {
        return Err(DropReason::FragmentBad);
    }
    Ok(())
}
