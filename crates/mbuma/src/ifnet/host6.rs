//! The state of an interface that configures itself as a host of IPv6: addresses that are being probed for duplicates,
//! and the information from routers on the link.
//!
//! Data only, no packet and no route: each call returns the [`HostAction`]s that follow, which
//! [`autoconf`](crate::ether::autoconf) carries out when no lock is held.
//!
//! | what | until | then |
//! |---|---|---|
//! | a tentative address | each probe is sent and a second has passed | it is the interface's; or, if another station claims it, removed |
//! | an optimistic address, which is the interface's already | the same | it is like the others; or removed |
//! | a learnt address | its lifetimes | it is deprecated, later removed |
//! | a temporary address | it is nearly deprecated | there is [another](temporary) beside it |
//! | a router, a prefix of the link | its lifetime | its route is removed |
//!
//! Invariants: a tentative address that is not optimistic is not among the interface's own, so it takes in and sends
//! nothing. Each list has a bound, and what is beyond it is ignored: a station that invents routers or prefixes evicts
//! none that is in use.
//! Locks: `state` (IFADDR), under which nothing is called.
//! Sources: RFC 4861 section 6.3, RFC 4862 section 5, RFC 6724, RFC 7217, RFC 7527, RFC 7559,
//! RFC 4429, RFC 8981.

mod action;
mod advertised;
mod assigned;
mod config;
mod learnt;
mod link;
mod stable;
mod temporary;
mod tentative;

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use kern::{KeyedHash, LockClass, Mutex, Random, Time, order};
use wire::is_link_local6;

use super::Cidr;
use crate::faults::{StackFault, planted};
pub(crate) use action::HostAction;
use assigned::AssignedPrefixes;
pub use config::{Autoconf, TemporaryPolicy};
use learnt::{AddrKind, LearntAddr};
use link::LinkRoutes;
use tentative::{PROBE_INTERVAL, Tentative, TentativeAddrs};

static STATE: LockClass = LockClass::new("host configuration", order::IFADDR);

/// The longest delay before the first probe and the first solicitation, chosen at random so that hosts do not send all
/// at once.
const DELAY_MAX_MS: u64 = 1000;
/// Stable addresses, and prefixes, at most.
const PREFIXES_MAX: usize = 16;
/// Addresses that are tried for a prefix after the first (RFC 7217 section 6, IDGEN_RETRIES; RFC 8981 section 3.8,
/// TEMP_IDGEN_RETRIES).
const TRIES_MAX: u8 = 3;
/// Between the first two solicitations of routers; doubles up to the longest (RFC 7559).
const SOLICIT_FIRST: Duration = Duration::from_secs(4);
const SOLICIT_LONGEST: Duration = Duration::from_secs(3600);

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
    /// The hop limit of the last router that advertised one; 0: none did. Relaxed: as above.
    hop_limit: AtomicU8,
    mtu: AtomicU16,
    /// Addresses that it gave up because other stations have them. Relaxed: a figure.
    given_up: AtomicU64,
}

#[derive(Debug, Default)]
struct HostState {
    tentative: TentativeAddrs,
    learnt: Vec<LearntAddr>,
    routes: LinkRoutes,
    assigned: AssignedPrefixes,
    /// The time of the next router solicitation, and the wait after it.
    solicit: Option<(Time, Duration)>,
    /// Another station has our link-local address, which is made from our Ethernet address: then both stations have the
    /// same Ethernet address, and IPv6 can't work.
    is_off: bool,
}

impl Host6 {
    /// Makes the state; `secret` is for stable addresses.
    pub(crate) fn new(autoconf: Autoconf) -> Self {
        Self {
            autoconf,
            secret: KeyedHash::from_key(autoconf.secret),
            state: Mutex::new(&STATE, HostState::default()),
            has_deprecated: AtomicBool::new(false),
            has_assigned: AtomicBool::new(false),
            hop_limit: AtomicU8::new(0),
            mtu: AtomicU16::new(0),
            given_up: AtomicU64::new(0),
        }
    }

    /// Whether the interface takes part in IPv6 though it may have no address yet.
    pub(crate) fn is_on(&self) -> bool {
        !self.state.lock().is_off
    }

    /// The hop limit, if a router advertised one.
    pub(crate) fn hop_limit(&self) -> Option<u8> {
        Some(self.hop_limit.load(Ordering::Relaxed)).filter(|hops| *hops != 0)
    }

    /// The link's MTU, if a router advertised one.
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
        let over = over.map(|learnt| learnt.addr);
        over.chain(state.tentative.optimistic()).collect()
    }

    /// The addresses that change, if the interface has any.
    pub(crate) fn temporary(&self) -> Vec<Ipv6Addr> {
        if self.autoconf.temporary.is_none() {
            return Vec::new();
        }
        let state = self.state.lock();
        let temporary = state.learnt.iter().filter(|learnt| learnt.is_temporary());
        temporary.map(|learnt| learnt.addr).collect()
    }

    /// Whether new connections begin from temporary addresses.
    pub(crate) fn prefers_temporary(&self) -> bool {
        let wanted = self.autoconf.temporary.is_some_and(|policy| policy.prefer);
        wanted && !planted(StackFault::StableSource)
    }

    /// Whether the address is used while it is being probed: other stations must not learn it from us (RFC 4429 section
    /// 3.3).
    pub(crate) fn is_optimistic(&self, addr: Ipv6Addr) -> bool {
        let state = self.state.lock();
        state.tentative.optimistic().any(|known| known == addr)
    }

    /// The prefixes that a router advertises: packets that leave by it must have a source from them (RFC 6724 rule
    /// 5.5).
    pub(crate) fn assigned_by(&self, router: Ipv6Addr) -> Vec<Ipv6Addr> {
        if !self.has_assigned.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.state.lock().assigned.of(router)
    }

    /// Adds these addresses, at once or after their probes.
    pub(crate) fn begin(
        &self,
        now: Time,
        addrs: &[Cidr<Ipv6Addr>],
        random: &mut Random,
    ) -> Vec<HostAction> {
        let mut state = self.state.lock();
        let mut actions = Vec::new();
        for &addr in addrs {
            if !state.is_off && !state.tentative.has(addr.addr) {
                self.try_address(&mut state, now, (addr, None), random, &mut actions);
            }
        }
        if self.autoconf.accept_routers && state.solicit.is_none() && !state.routes.has_router() {
            // After the probes of the link-local address, which is the source of solicitations.
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
        (addr, learnt): (Cidr<Ipv6Addr>, Option<LearntAddr>),
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
        // Not for addresses that were set by hand, which are more often duplicates (RFC 4429 section 3.1).
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
        self.state.lock().tentative.addrs().collect()
    }

    /// Whether the address is being probed.
    pub(crate) fn is_tentative(&self, addr: Ipv6Addr) -> bool {
        self.state.lock().tentative.has(addr)
    }

    /// Whether this is the solicited-node group of an address that is being probed.
    pub(crate) fn has_solicited(&self, group: Ipv6Addr) -> bool {
        let state = self.state.lock();
        let mut groups = state.tentative.addrs().map(wire::solicited_node);
        groups.any(|solicited| solicited == group)
    }

    /// Stops probing an address. Returns whether it was being probed.
    pub(crate) fn forget(&self, addr: Ipv6Addr) -> bool {
        let mut state = self.state.lock();
        state.learnt.retain(|learnt| learnt.addr != addr);
        state.tentative.forget(addr)
    }

    /// Another station probes for an address that is probed here or, without a nonce, has it. Our own probe that comes
    /// back does not count (RFC 7527 section 4).
    pub(crate) fn claimed(
        &self,
        now: Time,
        addr: Ipv6Addr,
        nonce: Option<&[u8]>,
        random: &mut Random,
    ) -> Vec<HostAction> {
        let mut state = self.state.lock();
        let mut actions = Vec::new();
        let Some(taken) = state.tentative.take(addr, nonce) else {
            return actions;
        };
        if is_link_local6(addr) {
            self.give_up_one();
            actions = state.turn_off();
            self.has_deprecated.store(false, Ordering::Relaxed);
            return actions;
        }
        actions.extend(taken.is_optimistic.then_some(HostAction::Remove(addr)));
        let Some(learnt) = taken.learnt else {
            self.give_up_one();
            return actions;
        };
        let tries = learnt.tries + 1;
        if tries > TRIES_MAX {
            self.give_up_one();
            if learnt.is_temporary() {
                state.leave_alone(addr);
            }
            return actions;
        }
        let addr = match learnt.kind {
            AddrKind::Stable { .. } => stable::address(&self.secret, addr, tries),
            AddrKind::Temporary(_) => {
                let known = state.known();
                let used = |addr| known.iter().any(|known| known.addr == addr);
                temporary::address(addr, random, used)
            }
        };
        let next = LearntAddr {
            addr,
            tries,
            ..learnt
        };
        self.try_address(
            &mut state,
            now,
            (host(addr), Some(next)),
            random,
            &mut actions,
        );
        actions
    }

    fn give_up_one(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of addresses that it gave up because other stations have them, and that it could not replace.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Notes which addresses are deprecated now.
    fn note_deprecated(&self, state: &mut HostState, now: Time) {
        for learnt in &mut state.learnt {
            learnt.is_deprecated = learnt.preferred <= now;
        }
        let any = state.learnt.iter().any(|learnt| learnt.is_deprecated)
            || state.tentative.optimistic().next().is_some();
        self.has_deprecated.store(any, Ordering::Relaxed);
    }

    /// The actions that are due. `random` is called for a new address.
    pub(crate) fn run_timers(&self, now: Time, random: impl FnOnce() -> Random) -> Vec<HostAction> {
        let mut state = self.state.lock();
        let mut actions = Vec::new();
        let own = state.tentative.run(now, &mut actions);
        state.learnt.extend(own);
        learnt::expire(&mut state.learnt, now, &mut actions);
        let advance = temporary::regen_advance(&self.autoconf);
        let due = temporary::take_due(&mut state.learnt, now, advance);
        if !due.is_empty() {
            let mut random = random();
            for addr in due {
                self.make_temporary(&mut state, now, addr, &mut random, &mut actions);
            }
        }
        state.routes.expire(now, &mut actions);
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

    /// The next time at which [`Host6::run_timers`] has work.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let state = self.state.lock();
        let addrs = (state.tentative.deadlines()).chain(learnt::deadlines(&state.learnt));
        let prefixes = (state.routes.deadlines()).chain(state.assigned.deadlines());
        let solicit = state.solicit.map(|(next, _)| next);
        let advance = temporary::regen_advance(&self.autoconf);
        let addrs = addrs.chain(temporary::deadlines(&state.learnt, advance));
        (addrs.chain(prefixes).chain(solicit))
            .filter(|at| *at < Time::MAX)
            .min()
    }
}

impl HostState {
    /// All learnt addresses, those that are being probed too.
    fn known(&mut self) -> Vec<LearntAddr> {
        let learnt = self.learnt.iter().copied();
        learnt
            .chain(self.tentative.learnt().map(|known| *known))
            .collect()
    }

    /// No more temporary addresses are made beside the stable address of this one.
    fn leave_alone(&mut self, addr: Ipv6Addr) {
        let all = self.learnt.iter_mut().chain(self.tentative.learnt());
        for known in all.filter(|known| known.is_beside(addr)) {
            if let AddrKind::Stable { is_alone } = &mut known.kind {
                *is_alone = true;
            }
        }
    }

    /// Removes all state, and accepts no more.
    fn turn_off(&mut self) -> Vec<HostAction> {
        let off = HostState {
            is_off: true,
            ..HostState::default()
        };
        let had = std::mem::replace(self, off);
        let learnt = had.learnt.iter().map(|l| HostAction::Remove(l.addr));
        learnt.chain(had.routes.removals()).collect()
    }
}

/// An address that does not imply an on-link prefix (RFC 5942 section 4).
fn host(addr: Ipv6Addr) -> Cidr<Ipv6Addr> {
    Cidr {
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

#[cfg(all(test, not(shuttle)))]
mod tests;
