//! One incomplete datagram: its runs of fragments, its end, and how it becomes whole.
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
//! Both versions of IP have the same machine; [`Fragment`] is the part of it that differs.
//!
//! Invariants: the runs are sorted, and there is a gap between any two; `have` is the sum of their lengths; no run
//! reaches past `total` once that is known. So the datagram is whole when the two are equal. `starts` is sorted, and
//! has the beginning of each run.
//! Locks: none. Sources: RFC 791 section 3.2, RFC 815, RFC 3168 section 5.3, RFC 5722, RFC 8200 section 4.5.

use std::fmt::Debug;
use std::hash::Hash;
use std::net::IpAddr;

use mbuf::{Chain, MbufPool, NoBufs, Packet};

use crate::drops::DropReason;

/// A fragment of one version of IP that has passed the checks of a single fragment.
pub(crate) trait Fragment: Copy + Debug {
    /// The fields that the fragments of one datagram have in common.
    type Key: Copy + Eq + Hash + Debug;

    /// True: a fragment without new bytes is a duplicate, whatever its bounds, and a spoilt datagram is forgotten at
    /// once. False: a fragment with other bounds is an overlap, and all later fragments of a spoilt datagram are
    /// dropped too.
    const LENIENT: bool;

    /// Bytes of the first fragment's payload that an error quotes.
    const QUOTE_MAX: usize;

    /// The key of its datagram. `iface`: the interface by which the fragment came in.
    fn key(&self, iface: u32) -> Self::Key;

    /// The sender of a datagram.
    fn sender(key: Self::Key) -> IpAddr;

    /// Where its payload belongs.
    fn start(&self) -> usize;

    /// Bytes of headers before the payload.
    fn header_len(&self) -> usize;

    /// It is not the last.
    fn more(&self) -> bool;

    /// The ECN codepoint.
    fn ecn(&self) -> u8;

    /// Makes the whole of the payload and the first fragment's headers; `self` is the first fragment.
    ///
    /// # Errors
    /// No buffers, or the whole would be larger than a datagram can be.
    fn whole(
        self,
        pool: &MbufPool,
        header: &[u8],
        ecn: u8,
        payload: Chain,
    ) -> Result<(Packet, Self), DropReason>;
}

/// The received fragments of one datagram.
#[derive(Debug)]
pub(super) struct PartialDatagram<F> {
    /// Sorted, with gaps between them.
    runs: Vec<Run>,
    /// Fragments in all of them.
    fragments: usize,
    /// Memory that they keep from being reused.
    pinned: usize,
    /// Bytes of payload in the whole, once the last fragment is there.
    total: Option<usize>,
    /// Bytes of payload received.
    have: usize,
    /// The beginnings of all fragments.
    starts: Vec<u16>,
    /// The header of the fragment at offset 0.
    first: Option<FirstHeader<F>>,
    /// The ECN codepoints seen, a bit each.
    ecn_seen: u8,
    /// It can't become whole any more; nothing else is kept of it.
    spoilt: bool,
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

/// Headers as they arrived.
#[derive(Debug)]
struct FirstHeader<F> {
    bytes: Vec<u8>,
    fragment: F,
    /// Where it came in.
    iface: u32,
}

/// The fate of a fragment.
pub(super) enum Added<F> {
    Waits,
    /// It completed its datagram.
    Whole(PartialDatagram<F>),
    /// It alone is dropped.
    Refused(DropReason),
    /// It and all others of its datagram are dropped.
    Spoilt(DropReason),
}

impl<F: Fragment> PartialDatagram<F> {
    pub(super) fn new() -> Self {
        Self {
            runs: Vec::new(),
            fragments: 0,
            pinned: 0,
            total: None,
            have: 0,
            starts: Vec::new(),
            first: None,
            ecn_seen: 0,
            spoilt: false,
        }
    }

    /// Adds a fragment.
    pub(super) fn add(
        &mut self,
        pool: &MbufPool,
        mut packet: Packet,
        fragment: &F,
        runs_max: usize,
    ) -> Added<F> {
        if self.spoilt {
            return Added::Refused(DropReason::FragmentOverlap);
        }
        let start = fragment.start();
        let end = start + (packet.len() - fragment.header_len());
        let at = self.runs.partition_point(|run| run.start <= start);
        let before = at.checked_sub(1).and_then(|i| self.runs.get(i));
        let behind = self.runs.get(at);
        // A duplicate: the first copy counts, as in Linux.
        if let Some(run) = before.filter(|run| run.end() >= end)
            && (F::LENIENT || self.has_exactly(start, end, run.end()))
        {
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
        if !self.agrees_on_end(end, fragment.more()) {
            return Added::Spoilt(DropReason::FragmentBad);
        }
        if start == 0 {
            self.first = Some(FirstHeader::new(&packet, fragment));
        }
        if !F::LENIENT {
            let place = self
                .starts
                .partition_point(|other| usize::from(*other) < start);
            self.starts.insert(place, start as u16);
        }
        self.ecn_seen |= 1 << (fragment.ecn() & 0b11);
        self.fragments += 1;
        self.have += end - start;
        packet.trim_front(fragment.header_len());
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

    /// Whether a fragment with these bounds was received before, in a run that ends at `run_end`.
    fn has_exactly(&self, start: usize, end: usize, run_end: usize) -> bool {
        let at = self
            .starts
            .partition_point(|other| usize::from(*other) < start);
        let is_there = self.starts.get(at).map(|other| usize::from(*other)) == Some(start);
        let next = self.starts.get(at + 1).map(|other| usize::from(*other));
        is_there && next.map_or(run_end, |next| next.min(run_end)) == end
    }

    /// Frees all fragments, and remembers that the datagram can't become whole. Returns the number of fragments.
    pub(super) fn spoil(&mut self) -> usize {
        let fragments = self.fragments;
        *self = Self::new();
        self.spoilt = true;
        fragments
    }

    /// Removes a run, which must exist.
    fn take_run(&mut self, at: usize) -> Run {
        let run = self.runs.remove(at);
        self.pinned -= run.data.pinned();
        run
    }

    /// Whether a fragment that ends at `end` agrees with the datagram's end. The last fragment sets that end.
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

    /// The part of the first fragment that an error message quotes.
    pub(super) fn quote(&mut self, pool: &MbufPool) -> Option<Packet> {
        let first = self.first.as_ref()?;
        let data = &mut self.runs.first_mut()?.data;
        let len = data.len().min(F::QUOTE_MAX);
        let mut packet = Packet::before_chain(pool, data.share(0, len).ok()?).ok()?;
        let header = &first.bytes;
        packet.prepend(header.len()).ok()?.copy_from_slice(header);
        packet.header_mut().iface = first.iface;
        Some(packet)
    }

    /// The ECN codepoint of the whole datagram (RFC 3168 5.3): it is CE if any fragment's is. `None` if that is so and
    /// another fragment is Not-ECT, which no honest sender and router produce.
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

    /// Makes one packet of the only run by moving its mbufs, and returns the fields of its header.
    pub(super) fn rebuild(mut self, pool: &MbufPool) -> Result<(Packet, F), DropReason> {
        let first = self.first.take().ok_or(DropReason::FragmentBad)?;
        let ecn = self
            .ecn(first.fragment.ecn())
            .ok_or(DropReason::FragmentBad)?;
        let mut data = Chain::new();
        self.runs.drain(..).for_each(|run| data.append(run.data));
        first.fragment.whole(pool, &first.bytes, ecn, data)
    }
}

/// The headers are written where the first fragment's were, unless that cluster is shared. So they are contiguous with
/// the header after them, which needs no pullup.
pub(crate) fn before_payload(pool: &MbufPool, payload: Chain) -> Result<Packet, DropReason> {
    Packet::from_chain(pool, payload).map_err(|NoBufs| DropReason::NoBufs)
}

impl<F: Fragment> FirstHeader<F> {
    fn new(packet: &Packet, fragment: &F) -> Self {
        let mut bytes = vec![0; fragment.header_len()];
        packet.copy_to(0, &mut bytes);
        Self {
            bytes,
            fragment: *fragment,
            iface: packet.header().iface,
        }
    }
}
