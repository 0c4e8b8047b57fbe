//! The information that routers advertise: the link's parameters, default routers, prefixes, and the addresses that the
//! host makes of these.
//!
//! Locks: the interface's state as a host (IFADDR). Sources: RFC 4861 section 6.3, RFC 4862 section 5.5.3, RFC 8981.

use std::net::Ipv6Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kern::{Random, Time};
use wire::{Ipv6Header, PrefixInfo, RouterAdvert, is_link_local6};

use super::learnt::{AddrKind, LearntAddr};
use super::{Host6, HostAction, HostState, PREFIXES_MAX, end, host, stable, temporary};

impl Host6 {
    /// A router advertises the hop limit for hosts and the link's MTU, which counts if IPv6 and the device allow it
    /// (RFC 4861 section 6.3.4).
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

    /// A router of the link advertises itself, and the link's parameters.
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
        // Also for the time after the router's end: a host must not solicit again until its interface starts again (RFC
        // 4861 section 6.3.7).
        if advert.lifetime > 0 {
            state.solicit = None;
        }
        if advert.reachable_ms != 0 && advert.reachable_ms <= 3_600_000 {
            let reachable = Duration::from_millis(u64::from(advert.reachable_ms));
            actions.push(HostAction::Reachable(reachable));
        }
        (state.routes).take_router(now, router, advert.lifetime, &mut actions);
        for prefix in prefixes.take(PREFIXES_MAX) {
            if is_link_local6(prefix.prefix) || prefix.prefix.is_multicast() {
                continue;
            }
            // A prefix of no bits would put all hosts on the link.
            if prefix.on_link && prefix.prefix_len > 0 {
                state.routes.take_prefix(now, &prefix, &mut actions);
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

    /// Removes a router that has ended without advertising that.
    pub(crate) fn router_left(&self, now: Time, router: Ipv6Addr) -> Vec<HostAction> {
        let mut actions = Vec::new();
        let mut state = self.state.lock();
        (state.routes).take_router(now, router, 0, &mut actions);
        actions
    }

    /// Whether one more destination may have a first hop of its own; the action makes room.
    pub(crate) fn redirected(&self, dst: Ipv6Addr) -> Option<HostAction> {
        self.state.lock().routes.redirected(dst)
    }

    /// Makes an address of the prefix, or sets the new lifetimes of the existing one.
    fn take_address(
        &self,
        state: &mut HostState,
        now: Time,
        prefix: &PrefixInfo,
        random: &mut Random,
        actions: &mut Vec<HostAction>,
    ) {
        let (preferred, valid) = (end(now, prefix.preferred_s), end(now, prefix.valid_s));
        let HostState {
            learnt, tentative, ..
        } = &mut *state;
        let (mut stable, mut has_own) = (0, false);
        for known in learnt.iter_mut().chain(tentative.learnt()) {
            let is_own = known.is_beside(prefix.prefix);
            if is_own {
                known.renew(now, preferred, valid);
            }
            stable += usize::from(!known.is_temporary());
            has_own |= is_own && !known.is_temporary();
        }
        if !has_own && prefix.valid_s != 0 && stable < PREFIXES_MAX {
            let learnt = LearntAddr {
                addr: stable::address(&self.secret, prefix.prefix, 0),
                tries: 0,
                preferred,
                valid,
                is_deprecated: false,
                kind: AddrKind::Stable { is_alone: false },
            };
            let addr = host(learnt.addr);
            self.try_address(state, now, (addr, Some(learnt)), random, actions);
        }
        self.make_temporary(state, now, prefix.prefix, random, actions);
        self.note_deprecated(state, now);
    }

    /// Makes a temporary address in the network of `beside`, if one is due.
    pub(super) fn make_temporary(
        &self,
        state: &mut HostState,
        now: Time,
        beside: Ipv6Addr,
        random: &mut Random,
        actions: &mut Vec<HostAction>,
    ) {
        if self.autoconf.temporary.is_none() {
            return;
        }
        let known = state.known();
        let may = |known: &&LearntAddr| matches!(known.kind, AddrKind::Stable { is_alone: false });
        let mut own = known.iter().filter(|known| known.is_beside(beside));
        let next = own
            .find(may)
            .and_then(|stable| temporary::next(&self.autoconf, &known, now, stable, random));
        if let Some(next) = next {
            self.try_address(state, now, (host(next.addr), Some(next)), random, actions);
        }
    }
}
