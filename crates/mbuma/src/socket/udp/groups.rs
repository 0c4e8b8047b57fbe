//! The groups that a UDP socket is in, each for all senders, for all but some, or for some.
//!
//! The filters are with the interface ([`ifnet::groups`](crate::ifnet::groups)), which takes what any of them takes,
//! and reports that to routers.
//!
//! Locks: none held over a call. Sources: RFC 3678 section 4.1, RFC 9777 section 4.1, RFC 9776 section 3.1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::{is_martian_source, is_martian_source6};

use super::{Bound, UdpSocket};
use crate::ether::groups;
use crate::ifnet::IfIndex;
use crate::ifnet::filter_change::{FilterChange, GroupError};
use crate::ifnet::groups::is_joinable;

impl UdpSocket {
    /// Joins a group on an interface, for the datagrams of all senders. A socket that joined a group itself gets the
    /// datagrams that its own filter takes; any other one that is bound to their port on all addresses gets those of
    /// [`Stack::join_group`](crate::Stack::join_group). A socket is in at most 64 groups of an interface, and leaves
    /// them when it is dropped.
    ///
    /// ```
    /// use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    /// use mbuma::socket::GroupError;
    /// use mbuma::{Config, IfIndex, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let socket = stack.udp_bind((Ipv6Addr::UNSPECIFIED, 5004))?;
    /// let group: Ipv6Addr = "ff3e::8000:1".parse()?;
    /// let radio: Ipv6Addr = "2001:db8::7".parse()?;
    /// socket.join_source_group(IfIndex::LOOPBACK, group, radio)?;
    /// let refused = socket.block_source(IfIndex::LOOPBACK, group, radio);
    /// assert_eq!(refused, Err(GroupError::OtherMode));
    /// socket.leave_source_group(IfIndex::LOOPBACK, group, radio)?;
    ///
    /// let socket = stack.udp_bind((Ipv4Addr::UNSPECIFIED, 5004))?;
    /// socket.join_group(IfIndex::LOOPBACK, Ipv4Addr::new(239, 1, 2, 3))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GroupError::AlreadyMember`], also if it joined for some senders; [`GroupError::SendersNeeded`];
    /// [`GroupError::Full`]; [`GroupError::NoInterface`], [`GroupError::BadSocket`], [`GroupError::BadAddress`].
    #[doc(alias = "MCAST_JOIN_GROUP")]
    #[doc(alias = "IPV6_JOIN_GROUP")]
    #[doc(alias = "IPV6_ADD_MEMBERSHIP")]
    pub fn join_group(&self, index: IfIndex, group: impl Into<IpAddr>) -> Result<(), GroupError> {
        self.change_group(index, group.into(), FilterChange::Join)
    }

    /// Leaves a group, for all senders for which the socket has joined it.
    ///
    /// # Errors
    /// [`GroupError::NotMember`]; [`GroupError::NoInterface`], [`GroupError::BadSocket`], [`GroupError::BadAddress`].
    #[doc(alias = "MCAST_LEAVE_GROUP")]
    #[doc(alias = "IPV6_LEAVE_GROUP")]
    #[doc(alias = "IPV6_DROP_MEMBERSHIP")]
    pub fn leave_group(&self, index: IfIndex, group: impl Into<IpAddr>) -> Result<(), GroupError> {
        self.change_group(index, group.into(), FilterChange::Leave)
    }

    /// Joins a group for the datagrams of one sender, or of one more (source-specific multicast, RFC 4607).
    ///
    /// # Errors
    /// [`GroupError::AlreadyMember`]; [`GroupError::OtherMode`] if the socket joined the group for all senders;
    /// [`GroupError::Full`], [`GroupError::ManySources`]; [`GroupError::NoInterface`], [`GroupError::BadSocket`],
    /// [`GroupError::BadAddress`].
    #[doc(alias = "MCAST_JOIN_SOURCE_GROUP")]
    pub fn join_source_group(
        &self,
        index: IfIndex,
        group: impl Into<IpAddr>,
        source: impl Into<IpAddr>,
    ) -> Result<(), GroupError> {
        self.change_group(index, group.into(), FilterChange::JoinSource(source.into()))
    }

    /// Takes no more datagrams of one sender for whom the socket has joined the group. With the last one it leaves the
    /// group.
    ///
    /// # Errors
    /// [`GroupError::NotMember`]; [`GroupError::OtherMode`] if the socket joined the group for all senders;
    /// [`GroupError::NoInterface`], [`GroupError::BadSocket`], [`GroupError::BadAddress`].
    #[doc(alias = "MCAST_LEAVE_SOURCE_GROUP")]
    pub fn leave_source_group(
        &self,
        index: IfIndex,
        group: impl Into<IpAddr>,
        source: impl Into<IpAddr>,
    ) -> Result<(), GroupError> {
        self.change_group(
            index,
            group.into(),
            FilterChange::LeaveSource(source.into()),
        )
    }

    /// Takes no more datagrams of one sender to a group that the socket joined for all senders.
    ///
    /// # Errors
    /// [`GroupError::AlreadyMember`] if the sender is blocked; [`GroupError::NotMember`]; [`GroupError::OtherMode`] if
    /// the socket joined the group for some senders; [`GroupError::ManySources`]; [`GroupError::NoInterface`],
    /// [`GroupError::BadSocket`], [`GroupError::BadAddress`].
    #[doc(alias = "MCAST_BLOCK_SOURCE")]
    pub fn block_source(
        &self,
        index: IfIndex,
        group: impl Into<IpAddr>,
        source: impl Into<IpAddr>,
    ) -> Result<(), GroupError> {
        self.change_group(index, group.into(), FilterChange::Block(source.into()))
    }

    /// Takes the datagrams of a sender again that was blocked.
    ///
    /// # Errors
    /// [`GroupError::NotMember`] if the sender is not blocked; [`GroupError::OtherMode`] if the socket joined the group
    /// for some senders; [`GroupError::NoInterface`], [`GroupError::BadSocket`], [`GroupError::BadAddress`].
    #[doc(alias = "MCAST_UNBLOCK_SOURCE")]
    pub fn unblock_source(
        &self,
        index: IfIndex,
        group: impl Into<IpAddr>,
        source: impl Into<IpAddr>,
    ) -> Result<(), GroupError> {
        self.change_group(index, group.into(), FilterChange::Unblock(source.into()))
    }

    fn change_group(
        &self,
        index: IfIndex,
        group: IpAddr,
        change: FilterChange,
    ) -> Result<(), GroupError> {
        let pcb = &self.0.pcb;
        let stack = &self.0.stack.0;
        let all_addrs: IpAddr = match group {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        if pcb.any.is_some() || pcb.local.ip() != all_addrs {
            return Err(GroupError::BadSocket);
        }
        let is_bad = |source: IpAddr| match source {
            _ if source.is_ipv4() != group.is_ipv4() || source.is_unspecified() => true,
            IpAddr::V4(source) => is_martian_source(source),
            IpAddr::V6(source) => is_martian_source6(source),
        };
        if !is_joinable(group) || change.source().is_some_and(is_bad) {
            return Err(GroupError::BadAddress);
        }
        let giant = stack.enter_giant();
        let ifp = stack.interface(index).ok_or(GroupError::NoInterface)?;
        // Relaxed: the drop of the last handle comes after this call.
        self.0.in_groups.store(true, Ordering::Relaxed);
        let socket = pcb.id();
        let changed = ifp.groups.change_socket(group, socket, change)?;
        drop(giant);
        if changed {
            stack.enter(|batch| groups::changed(batch, &ifp));
        }
        Ok(())
    }
}

impl Bound {
    /// Leaves all groups.
    pub(super) fn leave_groups(&self) {
        if !self.in_groups.load(Ordering::Relaxed) {
            return;
        }
        let stack = &self.stack.0;
        let giant = stack.enter_giant();
        let mut interfaces = stack.interfaces.read().clone();
        interfaces.push(Arc::clone(&stack.lo));
        let socket = self.pcb.id();
        interfaces.retain(|ifp| ifp.groups.leave_all(socket));
        drop(giant);
        for ifp in &interfaces {
            stack.enter(|batch| groups::changed(batch, ifp));
        }
    }
}
