//! Fragments put together again.
//!
//! Called by: [`input`](super::input), the stack's timers. Calls: icmp/output when time is up.
//!
//! A datagram keeps its pieces sorted. Since two pieces never overlap, it is whole when the last
//! piece is there and the lengths add up:
//!
//! ```text
//!   0         1480       2960                  total
//!   | piece 0 | piece 1  |      missing        | <- known from the piece without MF
//! ```
//!
//! A piece that comes twice is dropped. One that overlaps another is an attack or damage, and takes
//! its whole datagram along (RFC 5722 for IPv6; RFC 791 would let either copy win, which is what the
//! attacks of RFC 1858 and RFC 3128 live on). Fragments are received packets like others: each
//! is counted delivered when its datagram is whole, dropped when that is given up.
//!
//! Limits: datagrams, fragments of one, and memory pinned by all; what is over them costs the oldest
//! datagram. Small pieces are copied together, so that 8 bytes don't pin a cluster.
//!
//! Invariants: `order` names every datagram once, oldest first; `pinned` is the sum over all.
//! Locks: `table` (REASS), released before anything is sent or handed on.
//! Sources: RFC 791 section 3.2, RFC 815, RFC 1122 section 3.3.2, RFC 3168 section 5.3, RFC 5722.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use kern::{LockClass, Mutex, Random, SeededState, Time, order};
use mbuf::{Chain, Csum, MbufPool, NoBufs, Packet};
use wire::{IpProto, Ipv4Fields, Ipv4Header, TimeExceeded};

use super::input::Facts;
use crate::batch::Batch;
use crate::config::Config;
use crate::drops::DropReason;
use crate::icmp;

static TABLE: LockClass = LockClass::new("reassembly", order::REASS);

/// Memory that all fragments together keep from being reused, at most.
const PINNED_MAX: usize = 32 << 20;

/// The datagrams of which parts are there.
#[derive(Debug)]
pub(super) struct Reassembly {
    table: Mutex<Table>,
    datagrams_max: usize,
    fragments_max: usize,
    timeout: Duration,
}

#[derive(Debug)]
struct Table {
    datagrams: HashMap<Key, Datagram, SeededState>,
    /// Every datagram, by age; all live equally long, so this is also by deadline.
    order: VecDeque<(Time, Key)>,
    pinned: usize,
}

/// What fragments of one datagram share (RFC 791 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    proto: IpProto,
    id: u16,
}

#[derive(Debug, Default)]
struct Datagram {
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
enum Added {
    Waits,
    Whole(Datagram),
    /// It alone is dropped.
    Refused(DropReason),
    /// It and all others of its datagram are dropped.
    Spoilt(DropReason),
}

impl Reassembly {
    pub(super) fn new(config: &Config, random: &mut Random) -> Self {
        let table = Table {
            datagrams: HashMap::with_hasher(SeededState::new(random)),
            order: VecDeque::new(),
            pinned: 0,
        };
        let (datagrams_max, fragments_max) = config.reass_max;
        Self {
            table: Mutex::new(&TABLE, table),
            datagrams_max,
            fragments_max,
            timeout: config.reass_timeout,
        }
    }

    /// Adds a fragment. Returns the datagram that it completes, and what its header says.
    #[doc(alias = "ip_reass")]
    pub(super) fn add(
        &self,
        batch: &Batch<'_>,
        packet: Packet,
        facts: &Facts,
    ) -> Option<(Packet, Facts)> {
        if let Err(reason) = check_fragment(facts) {
            batch.drop(packet, reason);
            return None;
        }
        let key = Key {
            src: facts.src,
            dst: facts.dst,
            proto: facts.proto,
            id: facts.id,
        };
        let meta = *packet.header();
        let mut gone = Vec::new();
        let added = {
            let mut table = self.table.lock();
            self.open(&mut table, key, batch.now, &mut gone);
            let added = table.insert(&batch.stack.pool, key, packet, facts, self.fragments_max);
            table.keep_below(PINNED_MAX, &mut gone);
            added
        };
        drop_all(batch, gone, DropReason::FragmentLimit);
        let whole = match added {
            (Added::Waits, _) => return None,
            (Added::Whole(whole), _) => whole,
            (Added::Refused(reason), _) => {
                batch.stack.drops.count(reason);
                return None;
            }
            (Added::Spoilt(reason), spoilt) => {
                batch.stack.drops.count(reason);
                drop_all(batch, spoilt, reason);
                return None;
            }
        };
        assemble(batch, whole, meta.iface, meta.stamp_ns)
    }

    /// Makes a place for the datagram if it has none, at the cost of the oldest.
    fn open(&self, table: &mut Table, key: Key, now: Time, gone: &mut Vec<Datagram>) {
        if table.datagrams.contains_key(&key) {
            return;
        }
        while table.datagrams.len() >= self.datagrams_max {
            let Some(oldest) = table.pop_oldest() else {
                break;
            };
            gone.push(oldest);
        }
        table.datagrams.insert(key, Datagram::default());
        table.order.push_back((now + self.timeout, key));
    }

    /// Drops what is not whole in time, and tells the sender if the first fragment came (RFC 792).
    pub(super) fn run_timers(&self, batch: &mut Batch<'_>) {
        let mut late = Vec::new();
        {
            let mut table = self.table.lock();
            while table
                .order
                .front()
                .is_some_and(|&(deadline, _)| deadline <= batch.now)
            {
                late.extend(table.pop_oldest());
            }
        }
        for mut datagram in late {
            if let Some(quote) = datagram.quote(&batch.stack.pool) {
                icmp::output::time_exceeded(batch, quote, TimeExceeded::Reassembly);
            }
            drop_all(batch, Some(datagram), DropReason::FragmentTimeout);
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.table
            .lock()
            .order
            .front()
            .map(|&(deadline, _)| deadline)
    }
}

impl Table {
    fn pop_oldest(&mut self) -> Option<Datagram> {
        let (_, key) = self.order.pop_front()?;
        let datagram = self.datagrams.remove(&key)?;
        self.pinned -= datagram.pinned();
        Some(datagram)
    }

    fn remove(&mut self, key: Key) -> Option<Datagram> {
        self.order.retain(|&(_, k)| k != key);
        let datagram = self.datagrams.remove(&key)?;
        self.pinned -= datagram.pinned();
        Some(datagram)
    }

    fn keep_below(&mut self, pinned_max: usize, gone: &mut Vec<Datagram>) {
        while self.pinned > pinned_max {
            let Some(oldest) = self.pop_oldest() else {
                return;
            };
            gone.push(oldest);
        }
    }

    /// Puts the fragment into its datagram, which is there. The second part is what it spoilt.
    fn insert(
        &mut self,
        pool: &MbufPool,
        key: Key,
        packet: Packet,
        facts: &Facts,
        fragments_max: usize,
    ) -> (Added, Option<Datagram>) {
        let Some(datagram) = self.datagrams.get_mut(&key) else {
            return (Added::Refused(DropReason::FragmentLimit), None);
        };
        let before = datagram.pinned();
        let added = datagram.add(pool, packet, facts, fragments_max);
        self.pinned = self.pinned - before + datagram.pinned();
        match added {
            Added::Waits if datagram.is_whole() => match self.remove(key) {
                Some(whole) => (Added::Whole(whole), None),
                None => (Added::Waits, None),
            },
            Added::Spoilt(_) => (added, self.remove(key)),
            // A place that was opened for a fragment which is refused must not stay empty.
            Added::Refused(_) if datagram.pieces.is_empty() => {
                self.remove(key);
                (added, None)
            }
            _ => (added, None),
        }
    }
}

impl Datagram {
    fn add(
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

    fn is_whole(&self) -> bool {
        self.total == Some(self.have)
    }

    fn pinned(&self) -> usize {
        self.pieces.iter().map(|p| p.data.pinned()).sum()
    }

    /// The first fragment as far as an error message quotes it.
    fn quote(&mut self, pool: &MbufPool) -> Option<Packet> {
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
fn check_fragment(facts: &Facts) -> Result<(), DropReason> {
    let len = facts.total_len - facts.header_len;
    let end = usize::from(facts.frag_offset) + len;
    let ragged = facts.mf && !len.is_multiple_of(8);
    if len == 0 || ragged || facts.header_len + end > usize::from(u16::MAX) {
        return Err(DropReason::FragmentBad);
    }
    Ok(())
}

fn drop_all(batch: &Batch<'_>, datagrams: impl IntoIterator<Item = Datagram>, reason: DropReason) {
    for datagram in datagrams {
        batch.stack.drops.add(reason, datagram.pieces.len() as u64);
    }
}

/// Makes one packet of the pieces, moving their mbufs.
fn assemble(
    batch: &Batch<'_>,
    mut datagram: Datagram,
    iface: u32,
    stamp_ns: u64,
) -> Option<(Packet, Facts)> {
    let fragments = datagram.pieces.len() as u64;
    let result = rebuild(&batch.stack.pool, &mut datagram);
    match &result {
        Ok(_) => batch.stack.delivered.add(fragments),
        Err(reason) => batch.stack.drops.add(*reason, fragments),
    }
    let (mut packet, facts) = result.ok()?;
    let meta = packet.header_mut();
    (meta.iface, meta.stamp_ns) = (iface, stamp_ns);
    // We made this header; what covers the data is still to be verified.
    meta.csum = Csum::IP_VALID;
    Some((packet, facts))
}

fn rebuild(pool: &MbufPool, datagram: &mut Datagram) -> Result<(Packet, Facts), DropReason> {
    let no_bufs = |_: NoBufs| DropReason::NoBufs;
    let first = datagram.first.ok_or(DropReason::FragmentBad)?;
    let ecn = datagram
        .ecn(first.facts.tos)
        .ok_or(DropReason::FragmentBad)?;
    let tos = first.facts.tos & !0b11 | ecn;
    let payload_len = datagram.total.unwrap_or(0);
    // The piece at 0 may have more options than the others, for which the limit was checked.
    let total_len = first.facts.header_len + payload_len;
    if total_len > usize::from(u16::MAX) {
        return Err(DropReason::FragmentBad);
    }
    let mut data = Chain::new();
    datagram.pieces.drain(..).for_each(|p| data.append(p.data));
    let mut packet = Packet::before_chain(pool, data).map_err(no_bufs)?;
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
