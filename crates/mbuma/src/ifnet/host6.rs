//! The state of an interface that configures itself as a host of IPv6: addresses that are being probed for duplicates, and
//! all that routers on the link tell of.
//!
//! Data only, no packet and no route: each call returns the [`HostAction`]s that follow, which
//! [`autoconf`](crate::ether::autoconf) carries out when no lock is held.
//!
//! | what | until | then |
//! |---|---|---|
//! | a tentative address | each probe is sent and a second over | it is the interface's; or, claimed by another station, gone |
//! | an optimistic address, which is the interface's already | the same | it is like the others; or gone |
//! | a learnt address | its lifetimes | it is deprecated, later removed |
//! | a router, a prefix of the link | its lifetime | its route is removed |
//!
//! Invariants: a tentative address that is not optimistic is not among the interface's own, so it takes in and sends nothing.
//! Each list has a bound,
//! and what is beyond it is ignored: a station that invents routers or prefixes evicts none that is in use.
//! Locks: `state` (IFADDR), under which nothing is called.
//! Sources: RFC 4861 section 6.3, RFC 4862 section 5, RFC 6724, RFC 7217, RFC 7527, RFC 7559,
//! RFC 4429.

mod assigned;
mod config;
mod stable;

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, Ordering};
use std::time::Duration;

use kern::{KeyedHash, LockClass, Mutex, Random, Time, order};
use wire::{Ipv6Header, PrefixInfo, RouterAdvert, is_link_local6, is_same_prefix};

use super::IfAddr;
use crate::faults::{StackFault, planted};
use assigned::AssignedPrefixes;
pub use config::Autoconf;

static STATE: LockClass = LockClass::new("host configuration", order::IFADDR);

/// Between two probes, and after the last (RFC 4861 section 10, RETRANS_TIMER).
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Before the first probe and the first solicitation: at random, so that hosts do not speak all at once.
const DELAY_MAX_MS: u64 = 1000;
/// Learnt addresses, and prefixes, at most.
const PREFIXES_MAX: usize = 16;
/// Routers at most.
const ROUTERS_MAX: usize = 8;
/// Destinations for which a router named a better first hop, at most.
const REDIRECTS_MAX: usize = 64;
/// Stable addresses that are tried for a prefix (RFC 7217 section 6, IDGEN_RETRIES).
const TRIES_MAX: u8 = 3;
/// A router can't make a valid address invalid sooner (RFC 4862 section 5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);
/// Between the first two solicitations of routers; doubles up to the longest (RFC 7559).
const SOLICIT_FIRST: Duration = Duration::from_secs(4);
const SOLICIT_LONGEST: Duration = Duration::from_secs(3600);

/// The next thing to do for an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostAction {
    /// Ask whether another station has the address.
    Probe(Ipv6Addr, [u8; 6]),
    /// The address is the interface's.
    Add(IfAddr<Ipv6Addr>),
    /// It is not any more.
    Remove(Ipv6Addr),
    /// Packets to all other networks go to this router, or no more.
    AddRouter(Ipv6Addr),
    RemoveRouter(Ipv6Addr),
    /// A network is on the link, or no more.
    AddPrefix(IfAddr<Ipv6Addr>),
    RemovePrefix(IfAddr<Ipv6Addr>),
    /// Packets to this destination have no first hop of their own any more.
    RemoveRedirect(Ipv6Addr),
    /// Ask for routers.
    Solicit,
    /// Neighbours count as reachable for this long in the mean.
    Reachable(Duration),
}

/// The interface.
#[derive(Debug)]
pub(crate) struct Host6 {
    pub(crate) autoconf: Autoconf,
    secret: KeyedHash,
    state: Mutex<HostState>,
    /// There is a deprecated or an optimistic address. Relaxed: a packet that is late to see a change came before it.
    has_deprecated: AtomicBool,
    /// A router has advertised a prefix. Relaxed: as above.
    has_assigned: AtomicBool,
    /// What the last router that said so has hosts send with; 0: none did. Relaxed: as above.
    hop_limit: AtomicU8,
    mtu: AtomicU16,
}

#[derive(Debug, Default)]
struct HostState {
    tentative: Vec<Tentative>,
    learnt: Vec<LearntAddr>,
    routers: Vec<(Ipv6Addr, Time)>,
    prefixes: Vec<(IfAddr<Ipv6Addr>, Time)>,
    redirects: Vec<Ipv6Addr>,
    assigned: AssignedPrefixes,
    /// When to ask for routers next, and how long to wait then.
    solicit: Option<(Time, Duration)>,
    /// Another station has our link-local address, which is made of our Ethernet address: two stations have that one, and
    /// nothing would work.
    is_off: bool,
}

/// An address that is not the interface's yet.
#[derive(Debug, Clone, Copy)]
struct Tentative {
    addr: IfAddr<Ipv6Addr>,
    probes_left: u8,
    next: Time,
    nonce: [u8; 6],
    learnt: Option<LearntAddr>,
    /// It is used meanwhile.
    is_optimistic: bool,
}

/// An address that was made of a router's prefix.
#[derive(Debug, Clone, Copy)]
struct LearntAddr {
    addr: Ipv6Addr,
    /// How often another station had it before.
    tries: u8,
    preferred: Time,
    valid: Time,
    /// `preferred` is over, and that was noted.
    is_deprecated: bool,
}

impl Host6 {
    /// With the secret that it is to have.
    pub(crate) fn new(autoconf: Autoconf) -> Self {
        Self {
            autoconf,
            secret: KeyedHash::from_key(autoconf.secret),
            state: Mutex::new(&STATE, HostState::default()),
            has_deprecated: AtomicBool::new(false),
            has_assigned: AtomicBool::new(false),
            hop_limit: AtomicU8::new(0),
            mtu: AtomicU16::new(0),
        }
    }

    /// Whether the interface takes part in IPv6 though it may have no address yet.
    pub(crate) fn is_on(&self) -> bool {
        !self.state.lock().is_off
    }

    /// A router tells of the link: the hops that hosts should send with, and its MTU, which counts if it is none that
    /// IPv6 or the device could not have (RFC 4861 section 6.3.4).
    pub(crate) fn link_advertised(&self, hop_limit: u8, mtu: Option<u32>, device: usize) {
        if hop_limit != 0 {
            self.hop_limit.store(hop_limit, Ordering::Relaxed);
        }
        let possible = usize::from(Ipv6Header::MTU_MIN)..=device;
        let mtu = mtu.and_then(|mtu| u16::try_from(mtu).ok());
        if let Some(mtu) = mtu.filter(|mtu| possible.contains(&usize::from(*mtu))) {
            self.mtu.store(mtu, Ordering::Relaxed);
        }
    }

    /// The hops to send with, if a router said so.
    pub(crate) fn hop_limit(&self) -> Option<u8> {
        Some(self.hop_limit.load(Ordering::Relaxed)).filter(|hops| *hops != 0)
    }

    /// The link's MTU, if a router said so.
    pub(crate) fn mtu(&self) -> Option<u16> {
        Some(self.mtu.load(Ordering::Relaxed)).filter(|mtu| *mtu != 0)
    }

    /// The addresses from which new connections must not begin if there are others (RFC 4862 section 5.5.4, RFC 4429
    /// section 3.1).
    pub(crate) fn deprecated(&self) -> Vec<Ipv6Addr> {
        if !self.has_deprecated.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let state = self.state.lock();
        let over = state.learnt.iter().filter(|learnt| learnt.is_deprecated);
        let probed = state.tentative.iter().filter(|t| t.is_optimistic);
        let probed = probed.map(|tentative| tentative.addr.addr);
        over.map(|learnt| learnt.addr).chain(probed).collect()
    }

    /// Whether the address is used while it is being probed: other stations must not learn it from us (RFC 4429 section 3.3).
    pub(crate) fn is_optimistic(&self, addr: Ipv6Addr) -> bool {
        let state = self.state.lock();
        let mut probed = state.tentative.iter().filter(|t| t.is_optimistic);
        probed.any(|tentative| tentative.addr.addr == addr)
    }

    /// The prefixes that a router advertises: packets that it is to send on come from them (RFC 6724 rule 5.5).
    pub(crate) fn assigned_by(&self, router: Ipv6Addr) -> Vec<Ipv6Addr> {
        if !self.has_assigned.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.state.lock().assigned.of(router)
    }

    /// The interface is to have these addresses, now or once they were probed.
    pub(crate) fn begin(
        &self,
        now: Time,
        addrs: &[IfAddr<Ipv6Addr>],
        random: &mut Random,
    ) -> Vec<HostAction> {
        let mut state = self.state.lock();
        let mut actions = Vec::new();
        for &addr in addrs {
            if !state.is_off && !state.is_tentative(addr.addr) {
                self.try_address(&mut state, now, (addr, None), random, &mut actions);
            }
        }
        if self.autoconf.accept_routers && state.solicit.is_none() && state.routers.is_empty() {
            // Behind the probes of the link-local address, from which it asks.
            let probing = PROBE_INTERVAL * u32::from(self.autoconf.dad_transmits);
            let delay = Duration::from_millis(random.below(DELAY_MAX_MS));
            state.solicit = Some((now + PROBE_INTERVAL + probing + delay, SOLICIT_FIRST));
        }
        actions
    }

    fn try_address(
        &self,
        state: &mut HostState,
        now: Time,
        (addr, learnt): (IfAddr<Ipv6Addr>, Option<LearntAddr>),
        random: &mut Random,
        actions: &mut Vec<HostAction>,
    ) {
        if self.autoconf.dad_transmits == 0 {
            state.learnt.extend(learnt);
            actions.push(HostAction::Add(addr));
            return;
        }
        let mut nonce = [0; 6];
        random.fill(&mut nonce);
        // Not for addresses that people choose, which are more often there twice (RFC 4429 section 3.1).
        let is_own = learnt.is_some() || is_link_local6(addr.addr);
        let is_optimistic = self.autoconf.optimistic && is_own;
        if is_optimistic {
            self.has_deprecated.store(true, Ordering::Relaxed);
            actions.push(HostAction::Add(addr));
        }
        state.tentative.push(Tentative {
            addr,
            probes_left: self.autoconf.dad_transmits,
            next: now + Duration::from_millis(random.below(DELAY_MAX_MS)),
            nonce,
            learnt,
            is_optimistic,
        });
    }

    /// The addresses that are being probed.
    pub(crate) fn tentative(&self) -> Vec<Ipv6Addr> {
        let state = self.state.lock();
        state.tentative.iter().map(|t| t.addr.addr).collect()
    }

    /// Whether the address is being probed.
    pub(crate) fn is_tentative(&self, addr: Ipv6Addr) -> bool {
        self.state.lock().is_tentative(addr)
    }

    /// Whether an address that is being probed is looked for in this group.
    pub(crate) fn has_solicited(&self, group: Ipv6Addr) -> bool {
        let state = self.state.lock();
        let mut groups = state.tentative.iter();
        groups.any(|tentative| wire::solicited_node(tentative.addr.addr) == group)
    }

    /// The address is not wanted any more; whether it was being probed.
    pub(crate) fn forget(&self, addr: Ipv6Addr) -> bool {
        let mut state = self.state.lock();
        state.learnt.retain(|learnt| learnt.addr != addr);
        let before = state.tentative.len();
        state
            .tentative
            .retain(|tentative| tentative.addr.addr != addr);
        state.tentative.len() < before
    }

    /// Another station probes for, or, without a nonce, has an address that is probed for here; our own probe that comes
    /// back is none of another's (RFC 7527 section 4).
    pub(crate) fn claimed(
        &self,
        now: Time,
        addr: Ipv6Addr,
        nonce: Option<&[u8]>,
        random: &mut Random,
    ) -> Vec<HostAction> {
        let mut state = self.state.lock();
        let mut actions = Vec::new();
        let found = state.tentative.iter().position(|t| t.addr.addr == addr);
        let Some(at) = found.filter(|at| nonce != Some(&state.tentative[*at].nonce)) else {
            return actions;
        };
        let taken = state.tentative.remove(at);
        if is_link_local6(addr) {
            actions = state.turn_off();
            self.has_deprecated.store(false, Ordering::Relaxed);
            return actions;
        }
        actions.extend(taken.is_optimistic.then_some(HostAction::Remove(addr)));
        if let Some(learnt) = taken.learnt.filter(|learnt| learnt.tries < TRIES_MAX) {
            let next = LearntAddr {
                addr: stable::address(&self.secret, addr, learnt.tries + 1),
                tries: learnt.tries + 1,
                ..learnt
            };
            let addr = host(next.addr);
            self.try_address(&mut state, now, (addr, Some(next)), random, &mut actions);
        }
        actions
    }

    /// A router of the link tells of itself, and of the link.
    pub(crate) fn advertised(
        &self,
        now: Time,
        router: Ipv6Addr,
        advert: &RouterAdvert,
        prefixes: impl Iterator<Item = PrefixInfo>,
        random: &mut Random,
    ) -> Vec<HostAction> {
        let mut state = self.state.lock();
        let mut actions = Vec::new();
        if state.is_off {
            return actions;
        }
        if advert.lifetime > 0 {
            state.solicit = None;
        }
        if advert.reachable_ms != 0 && advert.reachable_ms <= 3_600_000 {
            let reachable = Duration::from_millis(u64::from(advert.reachable_ms));
            actions.push(HostAction::Reachable(reachable));
        }
        state.take_router(now, router, advert.lifetime, &mut actions);
        for prefix in prefixes.take(PREFIXES_MAX) {
            if is_link_local6(prefix.prefix) || prefix.prefix.is_multicast() {
                continue;
            }
            // One of no bits would put all hosts there are on the link.
            if prefix.on_link && prefix.prefix_len > 0 {
                state.take_prefix(now, &prefix, &mut actions);
            }
            let usable = prefix.prefix_len == 64 && prefix.preferred_s <= prefix.valid_s;
            if prefix.autonomous && usable {
                state.assigned.note(now, router, &prefix);
                self.take_address(&mut state, now, &prefix, random, &mut actions);
            }
        }
        let any = !state.assigned.is_empty();
        self.has_assigned.store(any, Ordering::Relaxed);
        actions
    }

    /// Makes an address of the prefix, or gives the one that there is its new lifetimes.
    fn take_address(
        &self,
        state: &mut HostState,
        now: Time,
        prefix: &PrefixInfo,
        random: &mut Random,
        actions: &mut Vec<HostAction>,
    ) {
        let (preferred, valid) = (end(now, prefix.preferred_s), end(now, prefix.valid_s));
        let probed = state.tentative.iter_mut().filter_map(|t| t.learnt.as_mut());
        let known = state.learnt.iter_mut().chain(probed);
        let mut same = known.filter(|learnt| is_same_prefix(learnt.addr, prefix.prefix, 64));
        if let Some(learnt) = same.next() {
            learnt.preferred = preferred;
            let soon = now + TWO_HOURS;
            if valid > soon || valid > learnt.valid {
                learnt.valid = valid;
            } else if learnt.valid > soon {
                learnt.valid = soon;
            }
            drop(same);
            return self.note_deprecated(state, now);
        }
        drop(same);
        let probed = state
            .tentative
            .iter()
            .filter(|t| t.learnt.is_some())
            .count();
        if prefix.valid_s == 0 || state.learnt.len() + probed >= PREFIXES_MAX {
            return;
        }
        let learnt = LearntAddr {
            addr: stable::address(&self.secret, prefix.prefix, 0),
            tries: 0,
            preferred,
            valid,
            is_deprecated: false,
        };
        let addr = host(learnt.addr);
        self.try_address(state, now, (addr, Some(learnt)), random, actions);
        self.note_deprecated(state, now);
    }

    /// Notes which addresses are deprecated now.
    fn note_deprecated(&self, state: &mut HostState, now: Time) {
        for learnt in &mut state.learnt {
            learnt.is_deprecated = learnt.preferred <= now;
        }
        let any = state.learnt.iter().any(|learnt| learnt.is_deprecated)
            || state.tentative.iter().any(|t| t.is_optimistic);
        self.has_deprecated.store(any, Ordering::Relaxed);
    }

    /// Whether one more destination may have a first hop of its own; the action makes room.
    pub(crate) fn redirected(&self, dst: Ipv6Addr) -> Option<HostAction> {
        let mut state = self.state.lock();
        let known = state.redirects.iter().position(|known| *known == dst);
        let full = state.redirects.len() >= REDIRECTS_MAX;
        let at = known.or(full.then_some(0));
        let gone = at.map(|at| state.redirects.remove(at));
        state.redirects.push(dst);
        gone.map(HostAction::RemoveRedirect)
    }

    /// The actions that are due.
    pub(crate) fn run_timers(&self, now: Time) -> Vec<HostAction> {
        let mut state = self.state.lock();
        let mut actions = Vec::new();
        state.run_probes(now, &mut actions);
        state.expire(now, &mut actions);
        state.assigned.expire(now);
        if let Some((next, interval)) = &mut state.solicit
            && *next <= now
        {
            *next = now + *interval;
            *interval = (*interval * 2).min(SOLICIT_LONGEST);
            actions.push(HostAction::Solicit);
        }
        self.note_deprecated(&mut state, now);
        actions
    }

    /// When [`Host6::run_timers`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let state = self.state.lock();
        let probes = state.tentative.iter().map(|tentative| tentative.next);
        let routers = state.routers.iter().map(|(_, until)| *until);
        let prefixes = state.prefixes.iter().map(|(_, until)| *until);
        let valid = state.learnt.iter().map(|learnt| learnt.valid);
        let preferred = state.learnt.iter().filter(|learnt| !learnt.is_deprecated);
        let preferred = preferred.map(|learnt| learnt.preferred);
        let solicit = state.solicit.map(|(next, _)| next);
        let all = probes.chain(routers).chain(prefixes).chain(valid);
        let all = all.chain(state.assigned.deadlines());
        all.chain(preferred)
            .chain(solicit)
            .filter(|at| *at < Time::MAX)
            .min()
    }
}

impl HostState {
    /// Forgets all that it has, and takes no more.
    fn turn_off(&mut self) -> Vec<HostAction> {
        let off = HostState {
            is_off: true,
            ..HostState::default()
        };
        let had = std::mem::replace(self, off);
        let learnt = had.learnt.iter().map(|l| HostAction::Remove(l.addr));
        let routers = had.routers.iter();
        let routers = routers.map(|(router, _)| HostAction::RemoveRouter(*router));
        let prefixes = had.prefixes.iter();
        let prefixes = prefixes.map(|(net, _)| HostAction::RemovePrefix(*net));
        let redirects = had.redirects.iter();
        let redirects = redirects.map(|dst| HostAction::RemoveRedirect(*dst));
        learnt
            .chain(routers)
            .chain(prefixes)
            .chain(redirects)
            .collect()
    }

    fn is_tentative(&self, addr: Ipv6Addr) -> bool {
        self.tentative
            .iter()
            .any(|tentative| tentative.addr.addr == addr)
    }

    fn take_router(
        &mut self,
        now: Time,
        router: Ipv6Addr,
        lifetime_s: u16,
        actions: &mut Vec<HostAction>,
    ) {
        let at = self.routers.iter().position(|(known, _)| *known == router);
        let until = now + Duration::from_secs(u64::from(lifetime_s));
        match (at, lifetime_s) {
            (Some(at), 0) => {
                self.routers.remove(at);
                actions.push(HostAction::RemoveRouter(router));
            }
            (Some(at), _) => self.routers[at].1 = until,
            (None, 0) => {}
            (None, _) if self.routers.len() < ROUTERS_MAX => {
                self.routers.push((router, until));
                actions.push(HostAction::AddRouter(router));
            }
            (None, _) => {}
        }
    }

    fn take_prefix(&mut self, now: Time, prefix: &PrefixInfo, actions: &mut Vec<HostAction>) {
        let given = IfAddr {
            addr: prefix.prefix,
            prefix_len: prefix.prefix_len,
        };
        let net = IfAddr {
            addr: given.network(),
            ..given
        };
        let at = self.prefixes.iter().position(|(known, _)| *known == net);
        let until = end(now, prefix.valid_s);
        match (at, prefix.valid_s) {
            (Some(at), 0) => {
                self.prefixes.remove(at);
                actions.push(HostAction::RemovePrefix(net));
            }
            (Some(at), _) => self.prefixes[at].1 = until,
            (None, 0) => {}
            (None, _) if self.prefixes.len() < PREFIXES_MAX => {
                self.prefixes.push((net, until));
                actions.push(HostAction::AddPrefix(net));
            }
            (None, _) => {}
        }
    }

    fn run_probes(&mut self, now: Time, actions: &mut Vec<HostAction>) {
        let mut done = Vec::new();
        for tentative in self.tentative.iter_mut().filter(|t| t.next <= now) {
            if tentative.probes_left == 0 {
                done.push(tentative.addr.addr);
                self.learnt.extend(tentative.learnt);
                actions.push(HostAction::Add(tentative.addr));
                continue;
            }
            if !planted(StackFault::EndlessProbes) {
                tentative.probes_left -= 1;
            }
            tentative.next = now + PROBE_INTERVAL;
            actions.push(HostAction::Probe(tentative.addr.addr, tentative.nonce));
        }
        self.tentative.retain(|t| !done.contains(&t.addr.addr));
    }

    fn expire(&mut self, now: Time, actions: &mut Vec<HostAction>) {
        self.learnt.retain(|learnt| {
            let is_over = learnt.valid <= now;
            actions.extend(is_over.then_some(HostAction::Remove(learnt.addr)));
            !is_over
        });
        self.routers.retain(|(router, until)| {
            let is_over = *until <= now;
            actions.extend(is_over.then_some(HostAction::RemoveRouter(*router)));
            !is_over
        });
        self.prefixes.retain(|(net, until)| {
            let is_over = *until <= now;
            actions.extend(is_over.then_some(HostAction::RemovePrefix(*net)));
            !is_over
        });
    }
}

/// An address that says nothing of which others are on the link (RFC 5942 section 4).
fn host(addr: Ipv6Addr) -> IfAddr<Ipv6Addr> {
    IfAddr {
        addr,
        prefix_len: 128,
    }
}

/// The end of a lifetime in seconds; all bits set: never.
fn end(now: Time, lifetime_s: u32) -> Time {
    match lifetime_s {
        u32::MAX => Time::MAX,
        s => now + Duration::from_secs(u64::from(s)),
    }
}

#[cfg(test)]
mod tests;
