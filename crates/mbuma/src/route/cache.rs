//! A route that a sender keeps, so that it looks nothing up until the table changes.
//!
//! Each change of the table is a new generation, whose number packets only read. The thread that detaches an interface
//! also clears the caches that name it, so that an idle connection keeps no reference to it.
//!
//! Invariant: the generation is read before the look-up, so that a change in between is not missed. Locks: its owner's.

use std::net::{Ipv4Addr, Ipv6Addr};

use kern::Time;

use super::{Route, Routes};
use crate::ifnet::IfIndex;
use crate::inet::Ends;

/// A route that its owner keeps for one destination. An IPv6 route is in a box, so that owners with IPv4 stay small.
#[doc(alias = "inp_route")]
#[derive(Debug, Default)]
pub(crate) enum RouteCache {
    #[default]
    Empty,
    V4(u64, Route<Ipv4Addr>),
    V6(Box<Kept6>),
}

#[derive(Debug)]
pub(crate) struct Kept6 {
    generation: u64,
    route: Route<Ipv6Addr>,
    /// The flow that used it last, and its label.
    label: Option<(Ends, u32)>,
}

// Each connection has one.
const _: () = assert!(size_of::<RouteCache>() <= 56);

impl RouteCache {
    /// The kept route, while the table is unchanged; otherwise the result of `find`.
    pub(crate) fn v4(
        &mut self,
        routes: &Routes<Ipv4Addr>,
        find: impl FnOnce() -> Option<Route<Ipv4Addr>>,
    ) -> Option<&mut Route<Ipv4Addr>> {
        let now = routes.now();
        if !matches!(self, Self::V4(then, _) if *then == now) {
            *self = find().map_or(Self::Empty, |route| Self::V4(now, route));
        }
        match self {
            Self::V4(_, route) => Some(route),
            _ => None,
        }
    }

    /// The kept route, if the table is unchanged.
    #[inline]
    pub(crate) fn kept4(&self, routes: &Routes<Ipv4Addr>) -> Option<&Route<Ipv4Addr>> {
        match self {
            Self::V4(then, route) if *then == routes.now() => Some(route),
            _ => None,
        }
    }

    /// The same for IPv6.
    pub(crate) fn v6(
        &mut self,
        routes: &Routes<Ipv6Addr>,
        find: impl FnOnce() -> Option<Route<Ipv6Addr>>,
    ) -> Option<&mut Route<Ipv6Addr>> {
        let now = routes.now();
        if !matches!(self, Self::V6(kept) if kept.generation == now) {
            let keep = |route| Kept6 {
                generation: now,
                route,
                label: None,
            };
            *self = find().map_or(Self::Empty, |route| Self::V6(Box::new(keep(route))));
        }
        match self {
            Self::V6(kept) => Some(&mut kept.route),
            _ => None,
        }
    }

    /// The label of an IPv6 flow: the kept one, or that which `find` finds, to be kept with the route.
    pub(crate) fn flow_label(&mut self, flow: &Ends, find: impl FnOnce() -> u32) -> u32 {
        let Self::V6(kept) = self else {
            return find();
        };
        match &kept.label {
            Some((of, label)) if of == flow => *label,
            _ => kept.label.insert((*flow, find())).1,
        }
    }

    /// The peer answered packets of this route at `now`, so the neighbour is reachable and need not be checked. Only
    /// IPv6 checks its neighbours so soon that this matters.
    #[doc(alias = "nd6_nud_hint")]
    pub(crate) fn reached(&self, now: Time) {
        if let Self::V6(kept) = self
            && let Route {
                ifp,
                next_hop,
                hop: Some(hop),
                ..
            } = &kept.route
            && hop.is_doubtful(now)
        {
            ifp.neighbours6.confirm(now, *next_hop);
        }
    }

    /// As [`kept4`](Self::kept4).
    #[inline]
    pub(crate) fn kept6(&self, routes: &Routes<Ipv6Addr>) -> Option<&Route<Ipv6Addr>> {
        match self {
            Self::V6(kept) if kept.generation == routes.now() => Some(&kept.route),
            _ => None,
        }
    }

    /// The largest packet of TCP that may go this way, to be cut by the interface or before it; 0 where none is known.
    pub(crate) fn tso_max(&self) -> u32 {
        match self {
            Self::V4(_, route) if !route.local => route.ifp.offloads().tso4_max,
            Self::V6(kept) if !kept.route.local => kept.route.ifp.offloads().tso6_max,
            _ => 0,
        }
    }

    /// Forgets it.
    pub(crate) fn clear(&mut self) {
        *self = Self::Empty;
    }

    /// Forgets the route if it leads through the interface.
    pub(crate) fn forget(&mut self, index: IfIndex) {
        let through = match self {
            Self::Empty => false,
            Self::V4(_, route) => route.ifp.index == index,
            Self::V6(kept) => kept.route.ifp.index == index,
        };
        if through {
            self.clear();
        }
    }
}
