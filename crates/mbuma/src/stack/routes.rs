//! Routes that a program adds, deletes and lists.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use wire::{is_link_local6, is_martian_source, is_martian_source6};

use crate::ifnet::{IfAddr, IfIndex, Ifnet};
use crate::route::{Entry, RouteAddr, RouteEntry, RouteError, RouteKind, RouteRefusal, Routes};
use crate::stack::Stack;

impl Stack {
    /// Adds a route. The most specific route wins; among routes to the same network, that of an interface's address.
    ///
    /// ```
    /// use mbuma::{Config, RouteKind, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let net = "198.51.100.0/24".parse()?;
    /// stack.add_route(net, RouteKind::Reject)?;
    /// assert!(stack.routes().iter().any(|route| route.net == net && route.kind == RouteKind::Reject));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`RouteError`].
    #[doc(alias = "RTM_ADD")]
    pub fn add_route(&self, net: IfAddr, kind: RouteKind) -> Result<(), RouteError> {
        let may_be_router = |gateway, ifp: &Ifnet| self.may_be_router(gateway, ifp);
        self.add_to(&self.0.routes, net, kind, may_be_router)
    }

    /// As [`Stack::add_route`], for IPv6. A router may have a link-local address.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub fn add_route6(
        &self,
        net: IfAddr<Ipv6Addr>,
        kind: RouteKind<Ipv6Addr>,
    ) -> Result<(), RouteError> {
        if is_link_local6(net.addr) || net.addr.is_multicast() {
            // The link-local network exists on each link; a zone distinguishes them.
            return Err(RouteError::BadNetwork);
        }
        let may_be_router = |gateway, ifp: &Ifnet| self.may_be_router6(gateway, ifp);
        self.add_to(&self.0.routes6, net, kind, may_be_router)
    }

    fn add_to<A: RouteAddr>(
        &self,
        routes: &Routes<A>,
        net: IfAddr<A>,
        kind: RouteKind<A>,
        may_be_router: impl Fn(A, &Ifnet) -> bool,
    ) -> Result<(), RouteError> {
        let _giant = self.0.enter_giant();
        if net.prefix_len > A::BITS || A::network_of(&net) != net.addr {
            return Err(RouteError::BadNetwork);
        }
        let (index, gateway, refusal) = match kind {
            RouteKind::Gateway(index, gateway) => (index, Some(gateway), None),
            RouteKind::Link(index) => (index, None, None),
            RouteKind::Blackhole => (self.0.lo.index, None, Some(RouteRefusal::Blackhole)),
            RouteKind::Reject => (self.0.lo.index, None, Some(RouteRefusal::Reject)),
            RouteKind::Prohibit => (self.0.lo.index, None, Some(RouteRefusal::Prohibit)),
        };
        let ifp = self.0.interface(index).ok_or(RouteError::NoInterface)?;
        if refusal.is_none() && ifp.is_loopback() {
            return Err(RouteError::NoInterface);
        }
        if gateway.is_some_and(|gateway| !may_be_router(gateway, &ifp)) {
            return Err(RouteError::BadGateway);
        }
        routes.set(Entry {
            net,
            src: A::source_for(&ifp, gateway.unwrap_or(net.addr)),
            ifp: Arc::clone(&ifp),
            gateway,
            local: false,
            refusal,
            pinned: false,
            learnt: false,
        })?;
        self.forget_if_gone(&ifp);
        Ok(())
    }

    /// Deletes a route that was added for exactly this network.
    ///
    /// # Errors
    /// [`RouteError::NotFound`].
    #[doc(alias = "RTM_DELETE")]
    pub fn delete_route(&self, net: IfAddr) -> Result<(), RouteError> {
        let _giant = self.0.enter_giant();
        self.0.routes.unset(net)
    }

    /// Every route, longest prefix first.
    #[doc(alias = "netstat -r")]
    pub fn routes(&self) -> Vec<RouteEntry> {
        let _giant = self.0.enter_giant();
        self.0.routes.list()
    }

    /// As [`Stack::delete_route`], for IPv6.
    ///
    /// # Errors
    /// [`RouteError::NotFound`].
    pub fn delete_route6(&self, net: IfAddr<Ipv6Addr>) -> Result<(), RouteError> {
        let _giant = self.0.enter_giant();
        self.0.routes6.unset(net)
    }

    /// Every route of IPv6, longest prefix first.
    pub fn routes6(&self) -> Vec<RouteEntry<Ipv6Addr>> {
        let _giant = self.0.enter_giant();
        self.0.routes6.list()
    }

    /// Adds a default route, for the gateway's version of IP, by `gateway`, which is on interface `index`. Of several
    /// the first is used.
    ///
    /// # Errors
    /// [`RouteError::NoInterface`], [`RouteError::BadGateway`].
    pub fn add_default_route(
        &self,
        index: IfIndex,
        gateway: impl Into<IpAddr>,
    ) -> Result<(), RouteError> {
        let _giant = self.0.enter_giant();
        let ifp = self.0.interface(index).filter(|ifp| !ifp.is_loopback());
        let ifp = ifp.ok_or(RouteError::NoInterface)?;
        match gateway.into() {
            IpAddr::V4(gateway) if self.may_be_router(gateway, &ifp) => {
                self.0.routes.add_default(&ifp, gateway, false);
            }
            IpAddr::V6(gateway) if self.may_be_router6(gateway, &ifp) => {
                self.0.routes6.add_default(&ifp, gateway, false);
            }
            _ => return Err(RouteError::BadGateway),
        }
        self.forget_if_gone(&ifp);
        Ok(())
    }

    /// The interface may have been detached, and its routes removed, before this route was added.
    pub(super) fn forget_if_gone(&self, ifp: &Ifnet) {
        if ifp.is_gone() {
            self.0.routes.remove_interface(ifp.index);
            self.0.routes6.remove_interface(ifp.index);
        }
    }

    fn may_be_router(&self, gateway: Ipv4Addr, ifp: &Ifnet) -> bool {
        !gateway.is_unspecified()
            && !is_martian_source(gateway)
            && !ifp.is_broadcast(gateway)
            && !self.0.routes.is_local(gateway)
    }

    fn may_be_router6(&self, gateway: Ipv6Addr, ifp: &Ifnet) -> bool {
        !gateway.is_unspecified()
            && !is_martian_source6(gateway)
            && !ifp.owns6(gateway)
            && !self.0.routes6.is_local(gateway)
    }
}
