//! Routes that a program adds, deletes and lists.

use std::net::Ipv4Addr;
use std::sync::Arc;

use wire::is_martian_source;

use crate::ifnet::{IfAddr, IfIndex, Ifnet};
use crate::route::{Entry, Refusal, RouteEntry, RouteError, RouteKind};
use crate::stack::Stack;

impl Stack {
    /// Adds a route. The most precise route wins; one that came with an interface's address goes
    /// before another to the same network.
    ///
    /// # Errors
    /// See [`RouteError`].
    #[doc(alias = "RTM_ADD")]
    pub fn add_route(&self, net: IfAddr, kind: RouteKind) -> Result<(), RouteError> {
        let _giant = self.0.look();
        if net.prefix_len > 32 || net.network() != net.addr {
            return Err(RouteError::BadNetwork);
        }
        let (index, gateway, refusal) = match kind {
            RouteKind::Gateway(index, gateway) => (index, Some(gateway), None),
            RouteKind::Link(index) => (index, None, None),
            RouteKind::Blackhole => (self.0.lo.index, None, Some(Refusal::Blackhole)),
            RouteKind::Reject => (self.0.lo.index, None, Some(Refusal::Reject)),
        };
        let ifp = self.0.interface(index).ok_or(RouteError::NoInterface)?;
        if refusal.is_none() && ifp.is_loopback() {
            return Err(RouteError::NoInterface);
        }
        if gateway.is_some_and(|gateway| !self.may_be_router(gateway, &ifp)) {
            return Err(RouteError::BadGateway);
        }
        self.0.routes.set(Entry {
            net,
            src: ifp.source_for(gateway.unwrap_or(net.addr)),
            ifp: Arc::clone(&ifp),
            gateway,
            local: false,
            refusal,
            pinned: false,
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
        let _giant = self.0.look();
        self.0.routes.unset(net)
    }

    /// Every route, longest prefix first.
    #[doc(alias = "netstat -r")]
    pub fn routes(&self) -> Vec<RouteEntry> {
        let _giant = self.0.look();
        self.0.routes.list()
    }

    /// Sends everything without a more precise route to `gateway`, which is on interface `index`.
    pub fn add_default_route(&self, index: IfIndex, gateway: Ipv4Addr) {
        let _giant = self.0.look();
        if let Some(ifp) = self.0.interface(index) {
            self.0.routes.add_default(&ifp, gateway);
            self.forget_if_gone(&ifp);
        }
    }

    /// An interface may have been detached, and its routes removed, before the last one came.
    fn forget_if_gone(&self, ifp: &Ifnet) {
        if ifp.is_gone() {
            self.0.routes.remove_interface(ifp.index);
        }
    }

    fn may_be_router(&self, gateway: Ipv4Addr, ifp: &Ifnet) -> bool {
        !gateway.is_unspecified()
            && !is_martian_source(gateway)
            && !ifp.is_broadcast(gateway)
            && !self.0.routes.is_local(gateway)
    }
}
