//! Reassembly of fragments, for either version of IP.
//!
//! A duplicate fragment is dropped. A fragment that overlaps others in part is an attack or damage: its whole datagram
//! is dropped (RFC 5722 for IPv6; RFC 791 would let either copy win, which the attacks of RFC 1858 and RFC 3128
//! exploit). For IPv6 its later fragments are dropped too, until its time is over. Fragments count as received packets:
//! each is delivered when its datagram is whole, or dropped when the datagram is given up.
//!
//! | limit | over it |
//! |---|---|
//! | datagrams | the oldest datagram goes |
//! | datagrams of one sender: half of that | the sender's oldest datagram goes |
//! | datagrams of one /64 of IPv6, of which one host may have each address: three quarters | the oldest of this network goes |
//! | memory pinned by all, [`PINNED_MAX`] | the oldest datagrams go |
//! | runs of one datagram: fragments without a gap between them | this datagram goes |
//!
//! The number of fragments has no limit of its own: small ones are copied together, so that 8 bytes do not pin a
//! cluster, and appending to a run takes the same time whatever its length.
//!
//! Invariants: `order` names every datagram once, oldest first; `of_parties` counts them; `pinned` is the sum over all.
//! Locks: `table` (REASS), released before anything is sent or handed on.
//! Sources: RFC 791 section 3.2, RFC 815, RFC 1122 section 3.3.2, RFC 3168 section 5.3, RFC 5722, RFC 8200 section 4.5.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use kern::{AtomicDeadline, LockClass, Mutex, Random, SeededState, Time, order};
use mbuf::{Csum, MbufPool, Packet};

use super::datagram::{Added, Fragment, PartialDatagram};
use crate::batch::Batch;
use crate::config::Config;
use crate::drops::DropReason;
use crate::protosw;
use crate::state::SHARED_TIMERS_CPU;

static TABLE: LockClass = LockClass::new("reassembly", order::REASS);

/// Memory that all fragments together keep from being reused, at most.
const PINNED_MAX: usize = 32 << 20;

/// The datagrams of which parts are there.
#[derive(Debug)]
pub(crate) struct Reassembler<F: Fragment> {
    table: Mutex<Incomplete<F>>,
    /// The deadline of the oldest datagram. Written under the lock.
    due: AtomicDeadline,
    datagrams_max: usize,
    runs_max: usize,
    timeout: Duration,
}

#[derive(Debug)]
struct Incomplete<F: Fragment> {
    datagrams: HashMap<F::Key, PartialDatagram<F>, SeededState>,
    /// Every datagram, by age; all have the same lifetime, so this is also the order of their deadlines.
    order: VecDeque<(Time, F::Key)>,
    /// How many datagrams each party has there.
    of_parties: HashMap<Party, usize, SeededState>,
    pinned: usize,
}

/// A sender of datagrams, or a network of them: an address, and the length of its prefix.
type Party = (IpAddr, u8);

/// The parties of which a datagram counts as one's, each with its share of `max` places.
fn shares(sender: IpAddr, max: usize) -> impl Iterator<Item = (Party, usize)> {
    let network = match sender {
        IpAddr::V4(_) => None,
        IpAddr::V6(sender) => Some(Ipv6Addr::from_bits(sender.to_bits() >> 64 << 64)),
    };
    let network = network.map(|network| ((network.into(), 64), (max - max / 4).max(1)));
    [((sender, 128), (max / 2).max(1))]
        .into_iter()
        .chain(network)
}

impl<F: Fragment> Reassembler<F> {
    /// `timeout`: how long an incomplete datagram is kept.
    pub(crate) fn new(config: &Config, timeout: Duration, random: &mut Random) -> Self {
        let table = Incomplete {
            datagrams: HashMap::with_hasher(SeededState::new(random)),
            order: VecDeque::new(),
            of_parties: HashMap::with_hasher(SeededState::new(random)),
            pinned: 0,
        };
        let (datagrams_max, runs_max) = (config.reass_datagrams_max, config.reass_runs_max);
        Self {
            table: Mutex::new(&TABLE, table),
            due: AtomicDeadline::new(),
            datagrams_max,
            runs_max,
            timeout,
        }
    }

    /// Adds a fragment. Returns the datagram that it completes, and the fields of its header.
    #[doc(alias = "ip_reass")]
    pub(crate) fn add(
        &self,
        batch: &mut Batch<'_>,
        packet: Packet,
        fragment: &F,
    ) -> Option<(Packet, F)> {
        let key = fragment.key(packet.header().iface);
        let meta = *packet.header();
        let mut gone = Vec::new();
        let added = {
            let mut table = self.table.lock();
            let was_empty = table.order.is_empty();
            self.open(&mut table, key, batch.now, &mut gone);
            let added = table.insert(&batch.stack.pool, key, packet, fragment, self.runs_max);
            table.keep_below(PINNED_MAX, &mut gone);
            self.due.set(table.deadline());
            if was_empty {
                batch.wake_for_timer(SHARED_TIMERS_CPU); // it had nothing to wait for
            }
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
                batch.stack.drops.add(reason, 1 + spoilt as u64);
                return None;
            }
        };
        assemble(batch, whole, meta.iface, meta.stamp_ns)
    }

    /// Makes an entry for the datagram if it has none. If the sender or its network has its share, the oldest entry of
    /// that one is evicted; if there is no room, the oldest of all.
    fn open(
        &self,
        table: &mut Incomplete<F>,
        key: F::Key,
        now: Time,
        gone: &mut Vec<PartialDatagram<F>>,
    ) {
        if table.datagrams.contains_key(&key) {
            return;
        }
        gone.extend(table.make_room(F::sender(key), self.datagrams_max));
        table.insert_new(now + self.timeout, key);
    }

    /// Drops datagrams that are not whole in time, and reports that to the sender if the first fragment came (RFC 792).
    pub(crate) fn run_timers(&self, batch: &mut Batch<'_>) {
        let mut late = Vec::new();
        if self.deadline().is_some_and(|at| at <= batch.now) {
            let mut table = self.table.lock();
            while table.deadline().is_some_and(|at| at <= batch.now) {
                late.extend(table.pop_oldest());
            }
            self.due.set(table.deadline());
        }
        for mut datagram in late {
            if let Some(quote) = datagram.quote(&batch.stack.pool) {
                protosw::reassembly_timeout(batch, quote);
            }
            drop_all(batch, Some(datagram), DropReason::FragmentTimeout);
        }
    }

    /// When [`Reassembler::run_timers`] has something to do next.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.get()
    }
}

impl<F: Fragment> Incomplete<F> {
    /// That of the oldest datagram.
    fn deadline(&self) -> Option<Time> {
        self.order.front().map(|&(deadline, _)| deadline)
    }

    /// Evicts an entry if the sender or its network has its share of them already, or if there are `max`.
    fn make_room(&mut self, sender: IpAddr, max: usize) -> Option<PartialDatagram<F>> {
        let count = |party| self.of_parties.get(&party).copied().unwrap_or_default();
        let mut full = shares(sender, max).filter(|&(party, share)| count(party) >= share);
        if let Some((full, _)) = full.next() {
            let its = |&(_, key): &(Time, F::Key)| {
                shares(F::sender(key), max).any(|(party, _)| party == full)
            };
            let at = self.order.iter().position(its)?;
            return self.remove_at(at);
        }
        (self.datagrams.len() >= max)
            .then(|| self.pop_oldest())
            .flatten()
    }

    fn insert_new(&mut self, deadline: Time, key: F::Key) {
        self.datagrams.insert(key, PartialDatagram::new());
        self.order.push_back((deadline, key));
        for (party, _) in shares(F::sender(key), 0) {
            *self.of_parties.entry(party).or_default() += 1;
        }
    }

    fn pop_oldest(&mut self) -> Option<PartialDatagram<F>> {
        self.remove_at(0)
    }

    fn remove(&mut self, key: F::Key) -> Option<PartialDatagram<F>> {
        let at = self.order.iter().position(|&(_, k)| k == key)?;
        self.remove_at(at)
    }

    fn remove_at(&mut self, at: usize) -> Option<PartialDatagram<F>> {
        let (_, key) = self.order.remove(at)?;
        let datagram = self.datagrams.remove(&key)?;
        self.pinned -= datagram.pinned();
        for (party, _) in shares(F::sender(key), 0) {
            if let Entry::Occupied(mut count) = self.of_parties.entry(party) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        Some(datagram)
    }

    fn keep_below(&mut self, pinned_max: usize, gone: &mut Vec<PartialDatagram<F>>) {
        while self.pinned > pinned_max {
            let Some(oldest) = self.pop_oldest() else {
                return;
            };
            gone.push(oldest);
        }
    }

    /// Puts the fragment into its datagram, whose entry must exist. Also returns the number of fragments that were
    /// dropped by it.
    fn insert(
        &mut self,
        pool: &MbufPool,
        key: F::Key,
        packet: Packet,
        fragment: &F,
        runs_max: usize,
    ) -> (Added<F>, usize) {
        let Some(datagram) = self.datagrams.get_mut(&key) else {
            return (Added::Refused(DropReason::FragmentLimit), 0);
        };
        let before = datagram.pinned();
        let added = datagram.add(pool, packet, fragment, runs_max);
        self.pinned = self.pinned - before + datagram.pinned();
        match added {
            Added::Waits if datagram.is_whole() => match self.remove(key) {
                Some(whole) => (Added::Whole(whole), 0),
                None => (Added::Waits, 0),
            },
            Added::Spoilt(_) if F::LENIENT => {
                let spoilt = self.remove(key);
                (added, spoilt.map_or(0, |datagram| datagram.fragments()))
            }
            Added::Spoilt(_) => {
                self.pinned -= datagram.pinned();
                (added, datagram.spoil())
            }
            _ => (added, 0),
        }
    }
}

fn drop_all<F: Fragment>(
    batch: &Batch<'_>,
    datagrams: impl IntoIterator<Item = PartialDatagram<F>>,
    reason: DropReason,
) {
    for datagram in datagrams {
        batch.stack.drops.add(reason, datagram.fragments() as u64);
    }
}

/// Makes one packet of a datagram that is whole, moving its mbufs.
fn assemble<F: Fragment>(
    batch: &Batch<'_>,
    datagram: PartialDatagram<F>,
    iface: u32,
    stamp_ns: u64,
) -> Option<(Packet, F)> {
    let fragments = datagram.fragments() as u64;
    let result = datagram.rebuild(&batch.stack.pool);
    match &result {
        Ok(_) => batch.stack.delivered.add(fragments),
        Err(reason) => batch.stack.drops.add(*reason, fragments),
    }
    let (mut packet, fragment) = result.ok()?;
    let meta = packet.header_mut();
    (meta.iface, meta.stamp_ns) = (iface, stamp_ns);
    // We made this header; the checksum over the data must still be verified.
    meta.csum = Csum::IP_VALID;
    Some((packet, fragment))
}
