//! Options of a UDP socket: its hops, its traffic class, and fragments. Those for groups are in
//! [`multicast`](super::multicast).
//!
//! Locks: none. Sources: RFC 1122 section 4.1.4, RFC 3542 sections 6.3 and 6.5 and 11.2, RFC 8899.

use std::num::NonZeroU8;

use super::UdpSocket;

impl UdpSocket {
    /// Sets the TTL, or hop limit, of the datagrams that this socket sends, also to broadcast addresses, but not to
    /// groups. `None`: the stack's.
    #[doc(alias = "IP_TTL")]
    #[doc(alias = "IPV6_UNICAST_HOPS")]
    pub fn set_ttl(&self, ttl: Option<NonZeroU8>) {
        self.0.pcb.send.set_ttl(ttl.map_or(0, NonZeroU8::get));
    }

    /// The TTL, or hop limit, that was set.
    pub fn ttl(&self) -> Option<NonZeroU8> {
        NonZeroU8::new(self.0.pcb.send.ttl())
    }

    /// Sets the traffic class of the datagrams that this socket sends, 0 unless set: a code point (RFC 2474) in the
    /// upper six bits, and the program's ECN mark (RFC 3168) in the lower two, as QUIC needs it. [`Datagram`] has that
    /// of a received one.
    ///
    /// ```
    /// use mbuma::{Config, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let socket = stack.udp_bind("127.0.0.1:5004")?;
    /// socket.set_traffic_class(46 << 2); // expedited forwarding
    /// socket.send_to(b"voice", socket.local_addr())?;
    /// stack.poll();
    /// assert_eq!(socket.recv()?.traffic_class, 46 << 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Datagram`]: super::Datagram
    #[doc(alias = "IP_TOS")]
    #[doc(alias = "IPV6_TCLASS")]
    pub fn set_traffic_class(&self, class: u8) {
        self.0.pcb.send.set_traffic_class(class);
    }

    /// The traffic class that was set.
    pub fn traffic_class(&self) -> u8 {
        self.0.pcb.send.traffic_class()
    }

    /// Forbids this stack, and over IPv4 also routers, to fragment the datagrams of this socket. A send that does not
    /// fit the link returns [`SendError::TooBig`](super::SendError::TooBig). Path MTUs that ICMP errors have reported
    /// are not applied: the program measures the path itself, as QUIC does (RFC 8899, RFC 9000 section 14). Off unless
    /// set.
    #[doc(alias = "IP_DONTFRAG")]
    #[doc(alias = "IPV6_DONTFRAG")]
    #[doc(alias = "IP_MTU_DISCOVER")]
    pub fn set_dont_fragment(&self, dont: bool) {
        self.0.pcb.send.set_dont_fragment(dont);
    }

    /// Whether fragments are forbidden.
    pub fn dont_fragment(&self) -> bool {
        self.0.pcb.send.dont_fragment()
    }
}
