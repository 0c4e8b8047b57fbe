//! Information from routers about the link: default routers, on-link networks, and better first hops.
//!
//! Invariants: each list has a bound. Routers and prefixes beyond it are ignored, so a station that invents some evicts
//! none. A new redirect evicts the oldest, because each only shortens a path. Locks: none here. Sources: RFC 4861
//! sections 6.3.4, 6.3.5 and 8.3.

use std::net::Ipv6Addr;
use std::time::Duration;

use kern::Time;
use wire::PrefixInfo;

use super::{HostAction, PREFIXES_MAX, end};
use crate::ifnet::Cidr;

/// Routers at most.
pub(super) const ROUTERS_MAX: usize = 8;
/// Destinations for which a router named a better first hop, at most.
pub(super) const REDIRECTS_MAX: usize = 64;

/// The routes of a link, each router and prefix with the end of its lifetime.
#[derive(Debug, Default)]
pub(super) struct LinkRoutes {
    routers: Vec<(Ipv6Addr, Time)>,
    prefixes: Vec<(Cidr<Ipv6Addr>, Time)>,
    redirects: Vec<Ipv6Addr>,
}

impl LinkRoutes {
    /// Whether a router is known.
    pub(super) fn has_router(&self) -> bool {
        !self.routers.is_empty()
    }

    /// Sets or ends the lifetime of a default router.
    pub(super) fn take_router(
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

    /// Sets or ends the lifetime of an on-link network.
    pub(super) fn take_prefix(
        &mut self,
        now: Time,
        prefix: &PrefixInfo,
        actions: &mut Vec<HostAction>,
    ) {
        let given = Cidr {
            addr: prefix.prefix,
            prefix_len: prefix.prefix_len,
        };
        let net = Cidr {
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

    /// Adds a redirect for a destination; the action removes the oldest.
    pub(super) fn redirected(&mut self, dst: Ipv6Addr) -> Option<HostAction> {
        let known = self.redirects.iter().position(|known| *known == dst);
        let full = self.redirects.len() >= REDIRECTS_MAX;
        let at = known.or(full.then_some(0));
        let gone = at.map(|at| self.redirects.remove(at));
        self.redirects.push(dst);
        gone.map(HostAction::RemoveRedirect)
    }

    /// Removes those whose lifetime is over.
    pub(super) fn expire(&mut self, now: Time, actions: &mut Vec<HostAction>) {
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

    /// Removes all.
    pub(super) fn removals(&self) -> impl Iterator<Item = HostAction> {
        let routers = self.routers.iter();
        let routers = routers.map(|(router, _)| HostAction::RemoveRouter(*router));
        let prefixes = self.prefixes.iter();
        let prefixes = prefixes.map(|(net, _)| HostAction::RemovePrefix(*net));
        let redirects = self.redirects.iter();
        let redirects = redirects.map(|dst| HostAction::RemoveRedirect(*dst));
        routers.chain(prefixes).chain(redirects)
    }

    /// When the lifetimes end.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Time> {
        let routers = self.routers.iter().map(|(_, until)| *until);
        let prefixes = self.prefixes.iter().map(|(_, until)| *until);
        routers.chain(prefixes)
    }
}
