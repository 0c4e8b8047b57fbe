//! How a UDP socket sends to groups.
//!
//! Locks: none held over a call. Sources: RFC 1112 section 6, RFC 3493 section 5.2.

use std::net::SocketAddr;

use super::UdpSocket;
use crate::ifnet::IfIndex;
use crate::ifnet::filter_change::GroupError;

impl UdpSocket {
    /// Sets how many hops the datagrams that this socket sends to groups live at most: 1 unless set, so that no router
    /// forwards them. With 0 they stay in this stack.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    /// use mbuma::{Config, IfIndex, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let group = Ipv4Addr::new(239, 1, 2, 3);
    /// let socket = stack.udp_bind((Ipv4Addr::UNSPECIFIED, 5004))?;
    /// socket.join_group(IfIndex::LOOPBACK, group)?;
    /// socket.set_multicast_interface(Some(IfIndex::LOOPBACK))?;
    /// socket.send_to(b"tick", (group, 5004))?;
    /// assert_eq!(socket.recv()?.ttl, 1);
    ///
    /// socket.set_multicast_loop(false);
    /// socket.send_to(b"tick", (group, 5004))?;
    /// assert!(socket.recv().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "IP_MULTICAST_TTL")]
    #[doc(alias = "IPV6_MULTICAST_HOPS")]
    pub fn set_multicast_ttl(&self, ttl: u8) {
        self.0.pcb.send.set_group_ttl(ttl);
    }

    /// How many hops the datagrams that this socket sends to groups live at most.
    pub fn multicast_ttl(&self) -> u8 {
        self.0.pcb.send.group_ttl()
    }

    /// Sets whether the members of a group in this stack, this socket among them, get what this socket sends to the
    /// group: true unless set.
    #[doc(alias = "IP_MULTICAST_LOOP")]
    #[doc(alias = "IPV6_MULTICAST_LOOP")]
    pub fn set_multicast_loop(&self, loops: bool) {
        self.0.pcb.send.set_loops(loops);
    }

    /// Whether the members of a group in this stack get what this socket sends to the group.
    pub fn multicast_loop(&self) -> bool {
        self.0.pcb.send.loops()
    }

    /// Sets the interface by which this socket sends to groups: that of the bound address, or else of the default
    /// route, unless set. The scope id of a group's address, if it has one, goes before. By the loopback interface only
    /// its members in this stack are reached.
    ///
    /// # Errors
    /// [`GroupError::NoInterface`].
    #[doc(alias = "IP_MULTICAST_IF")]
    #[doc(alias = "IPV6_MULTICAST_IF")]
    pub fn set_multicast_interface(&self, index: Option<IfIndex>) -> Result<(), GroupError> {
        let stack = &self.0.stack.0;
        let _giant = stack.enter_giant();
        if index.is_some_and(|index| stack.interface(index).is_none()) {
            return Err(GroupError::NoInterface);
        }
        self.0.pcb.send.set_link(index);
        Ok(())
    }

    /// The interface by which this socket sends to groups, if it was set.
    pub fn multicast_interface(&self) -> Option<IfIndex> {
        self.0.pcb.send.link()
    }

    /// The interface that the program named for datagrams to `dst`, if it is a group.
    pub(super) fn link_to(&self, dst: SocketAddr) -> Option<IfIndex> {
        match dst {
            SocketAddr::V6(dst) if dst.scope_id() != 0 => Some(IfIndex(dst.scope_id())),
            _ => self.0.pcb.send.link(),
        }
    }
}
