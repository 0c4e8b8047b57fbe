//! Where the guest's connections, datagrams and pings go: the address that it asks for, and the host's
//! address that stands behind it, or why there is none.
//!
//! | the guest asks for | it gets |
//! |---|---|
//! | 10.0.2.2 | the host's 127.0.0.1 with `--host-loopback`; otherwise the port is closed |
//! | 10.0.2.3, port 53 | the host's resolvers, unless names are switched off; other ports are closed |
//! | the rest of 10.0.2.0/24 | no such host |
//! | anything, of a server that is no gateway (`mbuma serve`) | no such host |
//! | loopback, link-local, multicast, broadcast, reserved | prohibited |
//! | anything else | the same address, as the host reaches it |
//!
//! Link-local addresses are the host's own links, and 169.254.169.254 hands out a cloud machine's
//! credentials: the guest has no business there. The status page's port never comes here, since the
//! stack itself listens on it.
//!
//! Called by: outgoing, udp, echo. Calls: nothing.
//! Locks: none. Sources: RFC 6890 (special-purpose addresses).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use mbuma::IcmpError;
use mbuma::socket::Refusal;

use crate::guest::GuestEnd;

/// The port of name servers.
pub(super) const DNS_PORT: u16 = 53;

/// Decides where things go.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    gateway: Ipv4Addr,
    dns: Ipv4Addr,
    prefix_len: u8,
    host_loopback: bool,
    /// The guest's network is the host's: its hosts, but for the gateway if that means the host, are where the host finds
    /// them.
    routed: bool,
    /// An address that reaches the host at one of its own.
    mapping: Option<(Ipv4Addr, Ipv4Addr)>,
    /// Names are answered.
    names: bool,
    /// The stack is no gateway: nothing goes anywhere.
    closed: bool,
    /// The host's address that sockets are bound to, unless the peer is the host itself.
    source: Option<Ipv4Addr>,
}

/// Where something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// To this address, by a socket of the host.
    Host(SocketAddr),
    /// To whichever of the host's resolvers answers.
    Resolver,
}

/// Why something goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// The address is there, and the port is closed.
    PortClosed,
    /// The address is not there.
    NoHost,
    /// We do not let it.
    Prohibited,
}

impl Policy {
    /// The policy for a guest.
    pub(super) fn new(ends: &GuestEnd, host_loopback: bool) -> Policy {
        Policy {
            gateway: ends.gateway,
            dns: ends.dns,
            prefix_len: ends.prefix_len,
            host_loopback,
            routed: ends.routed,
            mapping: None,
            names: true,
            closed: false,
            source: None,
        }
    }

    /// The same, with connections from this address of the host.
    pub(super) fn with_source(self, source: Option<Ipv4Addr>) -> Policy {
        Policy { source, ..self }
    }

    /// The same, with an address that reaches the host at one of its own.
    pub(super) fn with_mapping(self, mapping: Option<(Ipv4Addr, Ipv4Addr)>) -> Policy {
        Policy { mapping, ..self }
    }

    /// The same, without a name server.
    pub(super) fn without_names(self) -> Policy {
        Policy {
            names: false,
            ..self
        }
    }

    /// The policy of a server that is no gateway.
    pub(super) fn closed(self) -> Policy {
        Policy {
            closed: true,
            ..self.without_names()
        }
    }

    /// The address that a socket to `peer` is to be bound to, if not the kernel's choice.
    pub(super) fn source_for(&self, peer: SocketAddr) -> Option<Ipv4Addr> {
        let here = !peer.is_ipv4() || peer.ip().is_loopback();
        self.source.filter(|_| !here)
    }

    /// Where a connection or datagram to `asked` goes.
    pub(super) fn decide(&self, asked: impl Into<SocketAddr>) -> Result<Destination, Denial> {
        let SocketAddr::V4(asked) = asked.into() else {
            return Err(Denial::Prohibited);
        };
        let ip = *asked.ip();
        if ip == self.dns && (self.names || !self.routed) {
            let resolves = self.names && asked.port() == DNS_PORT;
            return resolves
                .then_some(Destination::Resolver)
                .ok_or(Denial::PortClosed);
        }
        let means_host = self.host_loopback || !self.routed;
        let host = if ip == self.gateway && means_host {
            self.loopback().ok_or(Denial::PortClosed)?
        } else {
            self.decide_host(ip)?
        };
        Ok(Destination::Host((host, asked.port()).into()))
    }

    /// Where a ping to `asked`, which is none of the stack's own addresses, goes.
    pub(super) fn decide_host(&self, asked: impl Into<IpAddr>) -> Result<Ipv4Addr, Denial> {
        let IpAddr::V4(asked) = asked.into() else {
            return Err(Denial::Prohibited);
        };
        if self.closed {
            return Err(Denial::NoHost);
        }
        if let Some((_, to)) = self.mapping.filter(|(from, _)| *from == asked) {
            return Ok(to);
        }
        if is_special(asked) {
            return Err(Denial::Prohibited);
        }
        if !self.routed && wire::is_same_subnet(asked, self.gateway, self.prefix_len) {
            return Err(Denial::NoHost);
        }
        Ok(asked)
    }

    fn loopback(&self) -> Option<Ipv4Addr> {
        self.host_loopback.then_some(Ipv4Addr::LOCALHOST)
    }

    /// The address that a client of the host shows to the guest: its own where the guest can answer
    /// to it, else the gateway's.
    pub(super) fn shown_address(&self, client: SocketAddr) -> Option<SocketAddrV4> {
        let SocketAddr::V4(client) = client else {
            return None;
        };
        self.decide_host(*client.ip()).is_ok().then_some(client)
    }

    /// The gateway's address.
    pub(super) fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }
}

/// Whether an address means something other than one host of some network.
fn is_special(ip: Ipv4Addr) -> bool {
    let [first, ..] = ip.octets();
    // 0/8 is "this network", 240/4 is reserved and ends with the broadcast.
    ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || first == 0 || first >= 240
}

impl Denial {
    /// As a TCP connection is told: a closed port is a reset, the rest are ICMP errors.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Denial::PortClosed => Refusal::Reset,
            Denial::NoHost | Denial::Prohibited => Refusal::Unreachable(self.unreach()),
        }
    }

    /// As the sender of a datagram is told.
    pub(super) fn unreach(self) -> IcmpError {
        match self {
            Denial::PortClosed => IcmpError::Port,
            Denial::NoHost => IcmpError::Host,
            Denial::Prohibited => IcmpError::AdminProhibited,
        }
    }
}

/// The guest's form of an error of a host socket, if the error is that there is no way to the peer.
pub(super) fn unreach(error: &io::Error) -> Option<IcmpError> {
    match error.raw_os_error()? {
        libc::ENETUNREACH | libc::ENETDOWN => Some(IcmpError::Net),
        libc::EHOSTUNREACH | libc::EHOSTDOWN | libc::ETIMEDOUT => Some(IcmpError::Host),
        libc::EACCES | libc::EPERM => Some(IcmpError::AdminProhibited),
        _ => None,
    }
}

/// Whether a call failed because this process, or the system, is out of descriptors.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests;
