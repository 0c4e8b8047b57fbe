//! Adds and removes addresses and groups of interfaces while the stack runs.
//!
//! Locks: the list of addresses (IFADDR), then the routes (ROUTE), one after the other. The interface has an address
//! before a route leads to the address, and keeps it as long as the route exists.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use wire::{Ipv6Header, wraps_ipv4};

use crate::error::into_error;
use crate::ether::{autoconf, groups, nd};
use crate::ifnet::addrs::{LocalAddr, OwnAddrs};
use crate::ifnet::groups::{GroupRefusal, is_joinable};
use crate::ifnet::source_filter::SourceFilter;
use crate::ifnet::{Cidr, IfIndex, Ifnet, missing_link_local};
use crate::network;
use crate::route::{RouteAddr, Routes};
use crate::stack::Stack;

/// The error of adding or removing an address, or of joining a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AddrError {
    /// There is no such interface.
    #[error("no such interface")]
    NoInterface,
    /// This interface, or any interface, can't have such an address; or the prefix is too long; or the address is no
    /// group.
    #[error("no interface can have this address")]
    BadAddress,
    /// The interface has it already.
    #[error("the interface has this address already")]
    Exists,
    /// The interface does not have it.
    #[error("the interface does not have this address")]
    NotFound,
    /// The interface is in too many groups.
    #[error("the interface is in too many groups")]
    Full,
    /// The members of the group on this interface have too many sources in their filters: 64 together at most.
    #[error(
        "the filters of this group have too many sources: 64 at most, those of all members together"
    )]
    ManySources,
    /// The group is one of source-specific multicast (232/8, ff3x::/32): it is joined for named senders only (RFC
    /// 4604).
    #[error("the group is one of source-specific multicast: it is joined for named senders only")]
    SendersNeeded,
    /// The interface's MTU is below the 1280 bytes that IPv6 needs (RFC 8200 section 5).
    #[error("the interface's MTU is below the 1280 bytes that IPv6 needs")]
    SmallMtu,
}

impl From<AddrError> for io::Error {
    fn from(e: AddrError) -> Self {
        let kind = match e {
            AddrError::NoInterface | AddrError::NotFound => io::ErrorKind::NotFound,
            AddrError::Exists => io::ErrorKind::AlreadyExists,
            AddrError::Full | AddrError::ManySources => io::ErrorKind::QuotaExceeded,
            AddrError::BadAddress | AddrError::SendersNeeded | AddrError::SmallMtu => {
                io::ErrorKind::InvalidInput
            }
        };
        Self::new(kind, e)
    }
}

into_error!(AddrError);

impl Stack {
    /// Adds an address, with the length of its network's prefix, to an interface, and announces it on the link. The
    /// interface uses the address at once, without a probe for duplicates. With the first IPv6 address the interface
    /// also gets a link-local one.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    /// use mbuma::{Config, IfIndex, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let addr = Ipv4Addr::new(192, 0, 2, 1);
    /// stack.add_address(IfIndex::LOOPBACK, addr, 32)?;
    /// let listener = stack.tcp_listen((addr, 80), 8)?;
    /// stack.remove_address(IfIndex::LOOPBACK, addr)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`AddrError`].
    #[doc(alias = "SIOCAIFADDR")]
    pub fn add_address(
        &self,
        index: IfIndex,
        addr: impl Into<IpAddr>,
        prefix_len: u8,
    ) -> Result<(), AddrError> {
        let giant = self.0.enter_giant();
        let ifp = self.0.interface(index).ok_or(AddrError::NoInterface)?;
        let addr = addr.into();
        match addr {
            IpAddr::V4(addr) => {
                let addr = Cidr { addr, prefix_len };
                check_v4(&ifp, &addr)?;
                add(&self.0.routes, &ifp, &ifp.addrs, addr)?;
            }
            IpAddr::V6(addr) => {
                let addr = Cidr { addr, prefix_len };
                check_v6(&ifp, &addr)?;
                self.add6(&ifp, addr)?;
            }
        }
        self.forget_if_gone(&ifp);
        drop(giant);
        // A tentative address becomes the interface's later.
        if network::is_local(&self.0, addr) {
            self.announce_from(&ifp, [addr].into_iter());
        }
        Ok(())
    }

    fn add6(&self, ifp: &Arc<Ifnet>, addr: Cidr<Ipv6Addr>) -> Result<(), AddrError> {
        if let Some(host) = &ifp.host6 {
            if ifp.owns6(addr.addr) || host.is_tentative(addr.addr) {
                return Err(AddrError::Exists);
            }
            self.0.enter(|batch| autoconf::begin(batch, ifp, &[addr]));
            return Ok(());
        }
        if ifp.addrs6.is_empty() {
            ifp.neighbours6.set_lifetime(self.reachable_time());
        }
        add(&self.0.routes6, ifp, &ifp.addrs6, addr)?;
        if let Some(link_local) = missing_link_local(&ifp.addrs6.list(), ifp.mac) {
            // Another thread may have added it meanwhile.
            let _there: Result<(), AddrError> = add(&self.0.routes6, ifp, &ifp.addrs6, link_local);
        }
        Ok(())
    }

    /// Removes an address from an interface, with its routes. Sockets that are bound to it stay, and get no more
    /// packets; connections from it end by their timers. Removing the last IPv6 address turns IPv6 off on the
    /// interface.
    ///
    /// # Errors
    /// [`AddrError::NoInterface`], [`AddrError::NotFound`].
    #[doc(alias = "SIOCDIFADDR")]
    pub fn remove_address(&self, index: IfIndex, addr: impl Into<IpAddr>) -> Result<(), AddrError> {
        let giant = self.0.enter_giant();
        let ifp = self.0.interface(index).ok_or(AddrError::NoInterface)?;
        let is_removed = match addr.into() {
            IpAddr::V4(addr) => remove(&self.0.routes, &ifp, &ifp.addrs, addr),
            IpAddr::V6(addr) => {
                let probed = ifp.host6.as_ref().is_some_and(|host| host.forget(addr));
                remove(&self.0.routes6, &ifp, &ifp.addrs6, addr) || probed
            }
        };
        drop(giant);
        if !is_removed {
            return Err(AddrError::NotFound);
        }
        self.0.enter(|batch| {
            if !ifp.has_ip6() {
                nd::flush(batch, &ifp);
            }
            groups::changed(batch, &ifp);
        });
        Ok(())
    }

    /// An interface's addresses, each with the length of its network's prefix, IPv4 first; none if there is no such
    /// interface.
    #[doc(alias = "SIOCGIFCONF")]
    pub fn addresses(&self, index: IfIndex) -> Vec<(IpAddr, u8)> {
        let _giant = self.0.enter_giant();
        let Some(ifp) = self.0.interface(index) else {
            return Vec::new();
        };
        let v4 = ifp.addrs.list().into_iter();
        let v6 = ifp.addrs6.list().into_iter();
        let v4 = v4.map(|own| (own.addr.into(), own.prefix_len));
        v4.chain(v6.map(|own| (own.addr.into(), own.prefix_len)))
            .collect()
    }

    /// Joins a group on an interface, until the result is dropped. Datagrams to the group then reach sockets that are
    /// bound to their port on all addresses, but those that [joined it themselves](crate::UdpSocket::join_group), and
    /// ICMPv6 messages reach sockets of [`icmp6_bind`](Stack::icmp6_bind). A group may have several members on one
    /// interface.
    ///
    /// # Errors
    /// [`AddrError::NoInterface`]; [`AddrError::BadAddress`] for an address that is no group, or a group of
    /// interface-local scope; [`AddrError::SendersNeeded`]; [`AddrError::Full`].
    #[doc(alias = "IPV6_JOIN_GROUP")]
    pub fn join_group(
        &self,
        index: IfIndex,
        group: impl Into<IpAddr>,
    ) -> Result<Membership, AddrError> {
        self.join_group_from(index, group, SourceFilter::all())
    }

    /// Joins a group for packets of some senders, or of all but some (source-specific multicast, RFC 4607). The
    /// interface takes the packets that any of its members takes, and reports that to routers and switches: for IPv4
    /// (RFC 9776), and, if it configures itself, for IPv6 (RFC 9777).
    ///
    /// # Errors
    /// As [`Stack::join_group`]; [`AddrError::BadAddress`] also for sources of the other version of IP;
    /// [`AddrError::ManySources`].
    #[doc(alias = "MCAST_JOIN_SOURCE_GROUP")]
    pub fn join_group_from(
        &self,
        index: IfIndex,
        group: impl Into<IpAddr>,
        filter: SourceFilter,
    ) -> Result<Membership, AddrError> {
        let giant = self.0.enter_giant();
        let ifp = self.0.interface(index).ok_or(AddrError::NoInterface)?;
        let group = group.into();
        if !is_joinable(group) || !filter.is_for(group) {
            return Err(AddrError::BadAddress);
        }
        let (number, changed) = ifp.groups.join(group, filter)?;
        drop(giant);
        if changed {
            self.0.enter(|batch| groups::changed(batch, &ifp));
        }
        Ok(Membership {
            stack: self.clone(),
            ifp,
            group,
            number,
        })
    }
}

/// A membership of a group: see [`Stack::join_group`]. Dropping the last one of an interface leaves the group.
#[must_use = "dropping it leaves the group"]
pub struct Membership {
    stack: Stack,
    ifp: Arc<Ifnet>,
    group: IpAddr,
    number: u64,
}

impl Membership {
    /// Sets the senders whose packets it takes from now on.
    ///
    /// # Errors
    /// [`AddrError::ManySources`], [`AddrError::SendersNeeded`], [`AddrError::BadAddress`]: the filter stays as it was.
    #[doc(alias = "setsourcefilter")]
    #[doc(alias = "MCAST_BLOCK_SOURCE")]
    #[doc(alias = "MCAST_UNBLOCK_SOURCE")]
    pub fn set_filter(&self, filter: SourceFilter) -> Result<(), AddrError> {
        let giant = self.stack.0.enter_giant();
        if !filter.is_for(self.group) {
            return Err(AddrError::BadAddress);
        }
        let groups = &self.ifp.groups;
        let changed = groups.set_filter(self.group, self.number, filter)?;
        drop(giant);
        self.report(changed);
        Ok(())
    }

    fn report(&self, changed: bool) {
        if changed {
            let stack = &self.stack.0;
            stack.enter(|batch| groups::changed(batch, &self.ifp));
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let giant = self.stack.0.enter_giant();
        let changed = self.ifp.groups.leave(self.group, self.number);
        drop(giant);
        self.report(changed);
    }
}

impl From<GroupRefusal> for AddrError {
    fn from(full: GroupRefusal) -> Self {
        match full {
            GroupRefusal::Groups => Self::Full,
            GroupRefusal::Sources => Self::ManySources,
            GroupRefusal::Unnamed => Self::SendersNeeded,
        }
    }
}

kern::impl_debug!(Membership |this| iface: this.ifp.index, group: this.group);

fn add<A: RouteAddr>(
    routes: &Routes<A>,
    ifp: &Arc<Ifnet>,
    own: &OwnAddrs<A>,
    addr: Cidr<A>,
) -> Result<(), AddrError> {
    if !own.add(addr) {
        return Err(AddrError::Exists);
    }
    routes.add_connected(ifp, &[addr]);
    routes.address_changed(ifp.index, None);
    Ok(())
}

fn remove<A: RouteAddr>(routes: &Routes<A>, ifp: &Arc<Ifnet>, own: &OwnAddrs<A>, addr: A) -> bool {
    let is_there = own.remove(addr);
    if is_there {
        routes.address_changed(ifp.index, Some(addr));
    }
    is_there
}

/// Whether one host on a link can have this address (RFC 1122 section 3.2.1.3); 127/8 is the loopback interface's.
fn check_v4(ifp: &Ifnet, net: &Cidr<Ipv4Addr>) -> Result<(), AddrError> {
    let addr = net.addr;
    let is_one_host = !(addr.is_unspecified() || addr.is_multicast() || addr.is_broadcast());
    let is_bad = net.prefix_len > <Ipv4Addr as LocalAddr>::BITS
        || !is_one_host
        || net.broadcast() == Some(addr)
        || addr.is_loopback() && !ifp.is_loopback();
    if is_bad {
        return Err(AddrError::BadAddress);
    }
    Ok(())
}

/// The same for IPv6 (RFC 4291 section 2.5).
fn check_v6(ifp: &Ifnet, net: &Cidr<Ipv6Addr>) -> Result<(), AddrError> {
    let addr = net.addr;
    let is_bad = net.prefix_len > <Ipv6Addr as LocalAddr>::BITS
        || addr.is_unspecified()
        || addr.is_multicast()
        || wraps_ipv4(addr)
        || addr.is_loopback() && !ifp.is_loopback();
    if is_bad {
        return Err(AddrError::BadAddress);
    }
    if ifp.mtu() < usize::from(Ipv6Header::MTU_MIN) {
        return Err(AddrError::SmallMtu);
    }
    Ok(())
}
