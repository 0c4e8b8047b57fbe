//! A UDP socket with a peer: only the peer's datagrams arrive, and only errors about datagrams to it.
//!
//! Locks: the table, for each change of the peer (UDP_TABLE); the socket's peer (UDP).
//! Sources: POSIX's `connect`, RFC 1122 section 4.1.3.3 and RFC 8085 section 5.2 (errors).

use std::net::SocketAddr;

use super::{BindError, Bound, IntoEndpoint, IntoPayload, SendError, UdpSocket};
use crate::ifnet::IfIndex;
use crate::inet::Ends;
use crate::network;

impl UdpSocket {
    /// Gives the socket a peer, instead of the one that it may have. From now on only datagrams of the peer arrive,
    /// however many sockets share the port, and of the errors only those about datagrams to it: a peer that is not
    /// there is reported by the next call that receives, as [`RecvError::Icmp`](super::RecvError::Icmp), which is
    /// `ConnectionRefused` as an [`io::Error`](std::io::Error). Datagrams that came before stay in the queue. Nothing
    /// is sent.
    ///
    /// A socket that is bound to all addresses gets one, that of the interface towards the peer, and with it no
    /// broadcasts and groups. A link-local address without a scope id is on the link of that interface.
    ///
    /// ```
    /// use mbuma::socket::RecvError;
    /// use mbuma::{Config, IcmpError, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let server = stack.udp_bind("127.0.0.1:53")?;
    /// let client = stack.udp_bind("0.0.0.0:0")?;
    /// client.connect("127.0.0.1:53")?;
    /// client.send(b"question")?;
    /// stack.poll(); // both are in this stack
    /// let question = server.recv()?;
    /// assert_eq!((question.src, client.peer_addr()), (client.local_addr(), Some(question.dst)));
    ///
    /// drop(server);
    /// client.send(b"another one")?;
    /// stack.poll();
    /// assert!(matches!(client.recv(), Err(RecvError::Icmp(e)) if e.kind == IcmpError::Port));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BindError::NotAnAddress`], also for port 0 and for the unspecified address; [`BindError::NoRoute`];
    /// [`BindError::AddrNotAvailable`] if the socket has no address that can reach the peer: it has one of the other
    /// version of IP, or is the socket for all datagrams of an interface; [`BindError::AddrInUse`] if another socket
    /// with this address and port has this peer. Then nothing has changed.
    pub fn connect(&self, peer: impl IntoEndpoint) -> Result<(), BindError> {
        let peer = peer.into_endpoint().map_err(|_| BindError::NotAnAddress)?;
        if peer.port() == 0 || peer.ip().is_unspecified() {
            return Err(BindError::NotAnAddress);
        }
        let Bound { stack, pcb, .. } = &*self.0;
        // Answers to another version of IP would not reach the socket.
        if pcb.any.is_some() || pcb.local.is_ipv4() != peer.is_ipv4() {
            return Err(BindError::AddrNotAvailable);
        }
        let local = self.source_to(peer).ok_or(BindError::NoRoute)?;
        let flow = Ends::between(local, peer).ok_or(BindError::AddrNotAvailable)?;
        let giant = stack.0.enter_giant();
        let flow = match flow.lacks_zone() {
            true => flow.on_link(self.link_of(peer).ok_or(BindError::NoRoute)?.number()),
            false => flow,
        };
        let before = pcb.flow();
        if !stack.0.udp.table.connect(pcb, flow) {
            return Err(BindError::AddrInUse);
        }
        // A reader that waits already waits for datagrams alone, and from now on for errors too.
        let readers = pcb.queue.take_readers();
        drop(giant);
        if before != Some(flow) {
            // They are about datagrams to others.
            while self.take_error().is_some() {}
        }
        readers.wake();
        Ok(())
    }

    /// The interface by which datagrams to a peer leave.
    fn link_of(&self, peer: SocketAddr) -> Option<IfIndex> {
        let chosen = self.link_to(peer).filter(|_| peer.ip().is_multicast());
        let by_route = || Some(network::egress(&self.0.stack.0, peer)?.ifp.index);
        chosen.or_else(by_route)
    }

    /// Takes its peer away from the socket, which is then bound as before [`connect`](Self::connect); without a peer
    /// nothing changes.
    #[doc(alias = "AF_UNSPEC")]
    pub fn disconnect(&self) {
        let Bound { stack, pcb, .. } = &*self.0;
        let _giant = stack.0.enter_giant();
        stack.0.udp.table.disconnect(pcb);
    }

    /// The peer that the socket is connected to.
    #[doc(alias = "getpeername")]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.pcb.flow().map(|flow| flow.peer())
    }

    /// Sends a datagram to the peer. [`send_to`](Self::send_to) still sends to any address.
    ///
    /// # Errors
    /// [`SendError::NotConnected`], or as [`send_to`](Self::send_to).
    pub fn send(&self, payload: impl IntoPayload) -> Result<(), SendError> {
        let flow = self.0.pcb.flow().ok_or(SendError::NotConnected)?;
        let payload = payload.into_payload(self.0.stack.pool())?;
        self.send_between(payload, flow.local(), flow.peer())
    }
}
