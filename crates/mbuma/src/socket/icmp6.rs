//! Sockets for ICMPv6 messages of types that the stack itself does not use.
//!
//! Locks: none held over a call.
//! Sources: RFC 3542 section 3 (the sockets of other systems), RFC 4443.

use std::sync::Arc;
use std::task::Waker;

use wire::{Icmp6Message, IpProto, NdpMessage};

use super::udp::{BindError, RecvError};
use crate::ether::groups;
use crate::icmp6;
use crate::icmp6::raw::Icmp6Pcb;
use crate::ifnet::IfIndex;
use crate::ip::{Send, Service};
use crate::ip6::output::Send6;
use crate::stack::Stack;

pub use crate::icmp6::raw::Icmp6Datagram;

/// Receives the messages of some types on one interface (RFC 4443, RFC 3542 section 3). Clones are handles on the same
/// socket; the drop of the last one unbinds it.
#[derive(Clone)]
pub struct Icmp6Socket(Arc<BoundIcmp6>);

/// The socket as its handles share it.
struct BoundIcmp6 {
    stack: Stack,
    pcb: Arc<Icmp6Pcb>,
}

impl Drop for BoundIcmp6 {
    fn drop(&mut self) {
        let giant = self.stack.0.enter_giant();
        self.stack.0.icmp6.sockets.remove(&self.pcb);
        self.pcb.queue.close(self.stack.0.giant());
        drop(giant);
        self.advertises_router();
    }
}

impl BoundIcmp6 {
    /// The socket was bound, or is gone. A program that takes solicitations of routers makes the stack a router of the
    /// link's networks, which has their anycast addresses and is in their groups (RFC 4291 section 2.6.1).
    fn advertises_router(&self) {
        if !self.pcb.kinds.contains(&NdpMessage::ROUTER_SOLICIT) {
            return;
        }
        let stack = &self.stack.0;
        // Packets to an anycast address have another way from now on.
        stack.routes6.void_kept();
        if let Some(ifp) = stack.interface(self.pcb.iface) {
            stack.enter(|batch| groups::changed(batch, &ifp));
        }
    }
}

impl Stack {
    /// Takes over messages of these types that come in by `index`, unless the stack itself uses them: it answers pings
    /// and neighbour solicitations, and passes errors to sockets. To get messages to a group, [join](Stack::join_group)
    /// it.
    ///
    /// ```
    /// use mbuma::{Config, IfIndex, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// const ROUTER_SOLICIT: u8 = 133;
    /// let socket = stack.icmp6_bind(IfIndex::LOOPBACK, &[ROUTER_SOLICIT])?;
    /// assert!(socket.recv().is_err()); // nothing arrived yet
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// There is no such interface, or another socket has one of the types there.
    pub fn icmp6_bind(&self, index: IfIndex, kinds: &[u8]) -> Result<Icmp6Socket, BindError> {
        let pcb = Arc::new(Icmp6Pcb::new(index, kinds));
        let giant = self.0.enter_giant();
        if !self.0.icmp6.sockets.insert(&pcb) {
            return Err(BindError::AddrInUse);
        }
        drop(giant);
        let bound = BoundIcmp6 {
            stack: self.clone(),
            pcb,
        };
        // Afterwards, because the interface may be detached meanwhile.
        if self.0.interface(index).is_none() {
            return Err(BindError::NoInterface);
        }
        bound.advertises_router();
        Ok(Icmp6Socket(Arc::new(bound)))
    }
}

impl Icmp6Socket {
    /// The oldest message that arrived.
    ///
    /// # Errors
    /// [`RecvError::WouldBlock`]: there is none now; [`RecvError::NoInterface`]: the interface was detached.
    pub fn recv(&self) -> Result<Icmp6Datagram, RecvError> {
        let queue = &self.0.pcb.queue;
        let oldest = queue.pop(self.0.stack.0.giant(), None);
        oldest
            .map(Icmp6Datagram::from)
            .ok_or_else(|| RecvError::of_empty(queue))
    }

    /// Sends a message by the socket's interface, from its address [`src`](Icmp6Datagram::src). Link-local addresses
    /// are those of the interface's link. The stack computes the checksum; its counters have the result. Allocate the
    /// message's body from [`Stack::pool`].
    ///
    /// ```
    /// # use mbuma::buf::Chain;
    /// # use mbuma::socket::Icmp6Datagram;
    /// # use mbuma::{Config, IfIndex, Stack};
    /// # use std::net::Ipv6Addr;
    /// # let stack = Stack::new(Config::from_system())?;
    /// const ROUTER_ADVERT: u8 = 134;
    /// let socket = stack.icmp6_bind(IfIndex::LOOPBACK, &[])?;
    /// socket.send(Icmp6Datagram {
    ///     src: Ipv6Addr::LOCALHOST,
    ///     dst: Ipv6Addr::LOCALHOST,
    ///     hop_limit: 255,
    ///     kind: ROUTER_ADVERT,
    ///     code: 0,
    ///     rest: [64, 0, 7, 8],
    ///     body: Chain::from_slice(stack.pool(), &[0; 8])?,
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send(&self, message: Icmp6Datagram) {
        let service = Service {
            ttl: message.hop_limit,
            ..Service::of(IpProto::ICMPV6)
        };
        let to = Send6 {
            send: Send {
                src: message.src,
                dst: message.dst,
                service,
            },
            zone: self.0.pcb.iface.0,
            flow_label: 0,
        };
        let header = Icmp6Message::Other {
            kind: message.kind,
            code: message.code,
            rest: message.rest,
        };
        let stack = &self.0.stack.0;
        stack.enter(|batch| icmp6::output::send(batch, header, message.body, &to));
    }

    /// Sets the waker for a message that arrives at an empty queue; it is called at once if one is waiting now. It
    /// stays until another takes its place.
    pub fn set_waker(&self, waker: Option<Waker>) {
        let queue = &self.0.pcb.queue;
        let now = queue.set_waker(self.0.stack.0.giant(), waker);
        now.into_iter().for_each(Waker::wake);
    }
}

kern::impl_debug!(Icmp6Socket |this| iface: this.0.pcb.iface, kinds: this.0.pcb.kinds);
