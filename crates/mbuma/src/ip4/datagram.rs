//! One datagram of which parts are there: its pieces, where it ends, and how it becomes whole.
//!
//! Called by: [`reassemble`](super::reassemble), under its lock but for [`Datagram::rebuild`] and
//! [`Datagram::quote`]. Calls: nothing.
//!
//! Invariants: the pieces are sorted and don't overlap; `have` is the sum of their lengths; no piece
//! reaches past `total` once that is known. So the datagram is whole when the two are equal.
//! Locks: none. Sources: RFC 791 section 3.2, RFC 815, RFC 3168 section 5.3, RFC 5722.

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{Ipv4Fields, Ipv4Header};

use super::input::Facts;
use crate::drops::DropReason;
use crate::icmp;

/// What is there of one datagram.
#[derive(Debug, Default)]
pub(super) struct Datagram {
    /// Sorted, without overlap.
    pieces: Vec<Piece>,
    /// Bytes of payload in the whole, once the last piece is there.
    total: Option<usize>,
    /// Bytes of payload that are there.
    have: usize,
    /// The header of the piece at offset 0.
    first: Option<FirstHeader>,
    /// The ECN codepoints seen, a bit each.
    ecn_seen: u8,
}

#[derive(Debug)]
struct Piece {
    start: usize,
    data: Chain,
}

impl Piece {
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

/// What became of a fragment.
pub(super) enum Added {
    Waits,
    /// It completed its datagram.
    Whole(Datagram),
    /// It alone is dropped.
    Refused(DropReason),
    /// It and all others of its datagram are dropped.
    Spoilt(DropReason),
}

impl Datagram {
    /// Adds a fragment, which [`check_fragment`] found good by itself.
    pub(super) fn add(
        &mut self,
        pool: &MbufPool,
        mut packet: Packet,
        facts: &Facts,
        fragments_max: usize,
    ) -> Added {
        let start = usize::from(facts.frag_offset);
        let end = start + (facts.total_len - facts.header_len);
        let at = self.pieces.partition_point(|p| p.start < start);
        let next = self.pieces.get(at);
        if next.is_some_and(|p| p.start == start && p.end() == end) {
            return Added::Refused(DropReason::FragmentDuplicate);
        }
        let before = at.checked_sub(1).and_then(|i| self.pieces.get(i));
        if next.is_some_and(|p| p.start < end) || before.is_some_and(|p| p.end() > start) {
            return Added::Spoilt(DropReason::FragmentOverlap);
        }
        if self.pieces.len() >= fragments_max {
            return Added::Spoilt(DropReason::FragmentLimit);
        }
        if !self.agrees_on_end(end, facts.mf) {
            return Added::Spoilt(DropReason::FragmentBad);
        }
        if start == 0 {
            self.first = Some(FirstHeader::new(&packet, facts));
        }
        self.ecn_seen |= 1 << (facts.tos & 0b11);
        packet.trim_front(facts.header_len);
        let mut data = Chain::new();
        data.append_compact(pool, packet.into_chain());
        self.have += data.len();
        self.pieces.insert(at, Piece { start, data });
        Added::Waits
    }

    /// Whether a piece up to `end` fits to where the datagram ends; remembers it if this is the last.
    fn agrees_on_end(&mut self, end: usize, more: bool) -> bool {
        let furthest = self.pieces.last().map_or(0, Piece::end);
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
        self.pieces.len()
    }

    /// Memory that the pieces keep from being reused.
    pub(super) fn pinned(&self) -> usize {
        self.pieces.iter().map(|p| p.data.pinned()).sum()
    }

    /// The first fragment as far as an error message quotes it.
    pub(super) fn quote(&mut self, pool: &MbufPool) -> Option<Packet> {
        let first = self.first?;
        let data = &mut self.pieces.first_mut()?.data;
        let len = data.len().min(icmp::output::QUOTE_MAX);
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

    /// Makes one packet of the pieces, moving their mbufs, and tells what its header says.
    pub(super) fn rebuild(mut self, pool: &MbufPool) -> Result<(Packet, Facts), DropReason> {
        let no_bufs = |_: NoBufs| DropReason::NoBufs;
        let first = self.first.ok_or(DropReason::FragmentBad)?;
        let ecn = self.ecn(first.facts.tos).ok_or(DropReason::FragmentBad)?;
        let tos = first.facts.tos & !0b11 | ecn;
        let payload_len = self.total.unwrap_or(0);
        // The piece at 0 may have more options than the others, for which the limit was checked.
        let total_len = first.facts.header_len + payload_len;
        if total_len > usize::from(u16::MAX) {
            return Err(DropReason::FragmentBad);
        }
        let mut data = Chain::new();
        self.pieces.drain(..).for_each(|p| data.append(p.data));
        // Its header goes to where the first fragment's was, unless somebody shares that cluster:
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
