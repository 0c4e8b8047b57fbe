//! Routes that a program adds, deletes and lists.

use std::net::IpAddr;
use std::sync::Arc;

use crate::ifnet::{Cidr, IfAddr, IfIndex, Ifnet};
use crate::route::{Entry, RouteAddr, RouteEntry, RouteError, RouteKind, RouteRefusal, Routes};
use crate::stack::Stack;

impl Stack {
    /// Adds a route. The most specific route wins; among routes to the same network, that of an interface's address. A
    /// router of IPv6 may have a link-local address.
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
        self.set_route(net, kind, false)
    }

    /// Gives the network this route in the place of the one that a program added for it, or adds it. Each packet finds
    /// one of the two, and connections take the new one with their next packet. Of several default routes the first is
    /// replaced, which is the one in use.
    ///
    /// # Errors
    /// As [`add_route`](Self::add_route), except [`RouteError::Exists`]. Then the former route stays.
    #[doc(alias = "RTM_CHANGE")]
    pub fn replace_route(&self, net: IfAddr, kind: RouteKind) -> Result<(), RouteError> {
        self.set_route(net, kind, true)
    }

    fn set_route(&self, net: IfAddr, kind: RouteKind, replaces: bool) -> Result<(), RouteError> {
        let _giant = self.0.enter_giant();
        let len = net.prefix_len;
        match net.addr {
            IpAddr::V4(addr) => self.set_in(&self.0.routes, (addr, len), kind, replaces),
            IpAddr::V6(addr) => self.set_in(&self.0.routes6, (addr, len), kind, replaces),
        }
    }

    fn set_in<A: RouteAddr>(
        &self,
        routes: &Routes<A>,
        (addr, prefix_len): (A, u8),
        kind: RouteKind,
        replaces: bool,
    ) -> Result<(), RouteError> {
        let net = Cidr { addr, prefix_len };
        if prefix_len > A::BITS || A::network_of(&net) != addr || addr.is_on_each_link() {
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
        let gateway = gateway.map(|gateway| router(routes, gateway, &ifp));
        let gateway = gateway.transpose()?;
        let entry = Entry {
            net,
            src: A::source_for(&ifp, gateway.unwrap_or(addr)),
            ifp: Arc::clone(&ifp),
            gateway,
            local: false,
            refusal,
            pinned: false,
            learnt: false,
        };
        routes.set(entry, replaces)?;
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
        let prefix_len = net.prefix_len;
        match net.addr {
            IpAddr::V4(addr) => self.0.routes.unset(Cidr { addr, prefix_len }),
            IpAddr::V6(addr) => self.0.routes6.unset(Cidr { addr, prefix_len }),
        }
    }

    /// Every route: those of IPv4, then those of IPv6, each longest prefix first.
    #[doc(alias = "netstat -r")]
    pub fn routes(&self) -> Vec<RouteEntry> {
        let _giant = self.0.enter_giant();
        let mut all = self.0.routes.list();
        all.extend(self.0.routes6.list());
        all
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
            gateway @ IpAddr::V4(_) => add_default(&self.0.routes, gateway, &ifp)?,
            gateway @ IpAddr::V6(_) => add_default(&self.0.routes6, gateway, &ifp)?,
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
}

fn add_default<A: RouteAddr>(
    routes: &Routes<A>,
    gateway: IpAddr,
    ifp: &Arc<Ifnet>,
) -> Result<(), RouteError> {
    routes.add_default(ifp, router(routes, gateway, ifp)?, false);
    Ok(())
}

/// The address of a router on the link of `ifp`.
fn router<A: RouteAddr>(routes: &Routes<A>, addr: IpAddr, ifp: &Ifnet) -> Result<A, RouteError> {
    let may_be = |addr: &A| addr.may_be_router(ifp) && !routes.is_local(*addr);
    A::of(addr).filter(may_be).ok_or(RouteError::BadGateway)
}
