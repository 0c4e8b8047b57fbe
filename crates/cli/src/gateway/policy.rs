//! The destinations of the guest's connections, datagrams and pings: for each address that the guest uses, the host's
//! address behind it, or the reason why there is none.
//!
//! | the guest asks for | it gets |
//! |---|---|
//! | 10.0.2.2, fd00::2, fe80::2 | the host's 127.0.0.1 or ::1 with `--host-loopback`; otherwise the port is closed |
//! | 10.0.2.3, fd00::3, port 53 | the host's resolvers, of either family, unless names are switched off |
//! | the same, port 853 | port 853 of these resolvers |
//! | the same, other ports | the port is closed |
//! | fd00::, the anycast address of the network's routers | the stack: pings are answered by fd00::2, other ports are closed, connections fail |
//! | the rest of 10.0.2.0/24 and fd00::/64 | no such host |
//! | anything, of a server that is no gateway (`mbuma serve`) | no such host |
//! | anything by a protocol that is switched off (pasta's `--no-tcp`, `--no-udp`, `--no-icmp`) | no answer |
//! | loopback, link-local, multicast, broadcast, reserved; IPv4 in ::ffff:0:0/96 or ::/96 | prohibited, unless `--allow` names it |
//! | the metadata of a cloud machine | the same; port 53 of Azure's and Google's, which are their name servers, is reached |
//! | an IPv6 address that a translator leads to an IPv4 host | the same, or nothing, as for that host |
//! | anything else | the same address, as the host reaches it |
//!
//! Link-local addresses are the host's own links, and 169.254.169.254 hands out a cloud machine's credentials: the
//! guest must not reach them. Connections to the status page's port do not come here, because the stack itself listens
//! on it.
//!
//! Locks: none.
//! Sources: as of [`special`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use mbuma::IcmpError;
use mbuma::socket::Refusal;

use crate::addressing::{Addressing, Addressing6};
use crate::args::{IgnoredProtocols, Proto, Sources};
use crate::guest::GuestEnd;
use crate::resolv_conf::{DNS_PORT, ENCRYPTED_DNS_PORT};
use crate::special;
use crate::sys::socket::{LocalEnd, SocketSendError};

/// Decides where things go.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    v4: Option<Addressing>,
    v6: Option<Addressing6>,
    host_loopback: bool,
    /// Addresses that reach the host at one of its own: from, to.
    mappings: Vec<(IpAddr, IpAddr)>,
    /// The number of the interface, for addresses that need it.
    link: u32,
    /// Special addresses that the guest may reach nevertheless.
    allowed: Vec<IpAddr>,
    /// Names are answered.
    names: bool,
    /// The stack is no gateway: nothing goes anywhere.
    closed: bool,
    /// The local end of sockets, unless the peer is the host itself.
    sources: Sources,
    ignored: IgnoredProtocols,
    /// Clients of other machines do not reach the guest's 127.0.0.1.
    private_loopback: bool,
}

/// The role of an address of the guest's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressUse {
    /// The name server.
    Names,
    /// The gateway, which means the host.
    Gateway,
    /// Any other host of the network, of which there is none.
    Nobody,
    /// An address of another network.
    Elsewhere,
}

/// Where something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// To this address, by a socket of the host.
    Host(SocketAddr),
    /// To the first of the host's resolvers that answers.
    Resolver,
    /// The same, encrypted: only the resolver can read the queries.
    EncryptedResolver,
}

/// Why something goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// The host exists, and the port is closed.
    PortClosed,
    /// There is no such host.
    NoHost,
    /// The policy prohibits it.
    Prohibited,
    /// The protocol is switched off.
    Ignored,
}

impl Policy {
    /// The policy for a guest.
    pub(super) fn new(ends: &GuestEnd, host_loopback: bool) -> Policy {
        Policy {
            v4: ends.v4,
            v6: ends.v6,
            host_loopback,
            mappings: Vec::new(),
            link: 0,
            allowed: Vec::new(),
            names: true,
            closed: false,
            sources: Sources::default(),
            ignored: IgnoredProtocols::default(),
            private_loopback: false,
        }
    }

    /// The same, with connections from these addresses of the host.
    pub(super) fn with_sources(self, sources: Sources) -> Policy {
        Policy { sources, ..self }
    }

    /// The same, without an answer to these protocols.
    pub(super) fn ignoring(self, ignored: IgnoredProtocols) -> Policy {
        Policy { ignored, ..self }
    }

    /// The same, with addresses that reach the host at one of its own: from, to.
    pub(super) fn with_mappings(self, mappings: &[(IpAddr, IpAddr)]) -> Policy {
        Policy {
            mappings: mappings.to_vec(),
            ..self
        }
    }

    /// The same, with a guest's loopback that clients of the host's loopback alone reach.
    pub(super) fn with_private_loopback(self, private_loopback: bool) -> Policy {
        Policy {
            private_loopback,
            ..self
        }
    }

    /// Whether this client of a published port may reach a server of the guest there.
    pub(super) fn admits(&self, client: SocketAddr, server: SocketAddr) -> bool {
        !self.private_loopback || !server.ip().is_loopback() || client.ip().is_loopback()
    }

    /// Takes the number of the guest's interface.
    pub(super) fn set_link(&mut self, number: u32) {
        self.link = number;
    }

    /// The same, with special addresses that the guest may reach.
    pub(super) fn with_allowed(self, allowed: &[IpAddr]) -> Policy {
        Policy {
            allowed: allowed.to_vec(),
            ..self
        }
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

    /// The local end of a socket to `peer`, where that is not the kernel's choice.
    pub(super) fn local_end_for(&self, peer: SocketAddr) -> LocalEnd {
        let Sources { v4, v6, interfaces } = self.sources;
        if peer.ip().is_loopback() {
            return LocalEnd::default();
        }
        let (addr, interface) = match peer {
            SocketAddr::V4(_) => (v4.map(IpAddr::from), interfaces[0]),
            SocketAddr::V6(_) => (v6.map(IpAddr::from), interfaces[1]),
        };
        LocalEnd { addr, interface }
    }

    /// The destination of a connection or datagram to `asked`.
    pub(super) fn decide(&self, proto: Proto, asked: SocketAddr) -> Result<Destination, Denial> {
        if self.ignored.has(proto) {
            return Err(Denial::Ignored);
        }
        let (ip, port) = (asked.ip(), asked.port());
        let host = match self.use_of(asked) {
            AddressUse::Names if self.names => {
                return match port {
                    DNS_PORT => Ok(Destination::Resolver),
                    ENCRYPTED_DNS_PORT => Ok(Destination::EncryptedResolver),
                    _ => Err(Denial::PortClosed),
                };
            }
            AddressUse::Names => return Err(Denial::PortClosed),
            AddressUse::Gateway => {
                let host = self.mapped(ip).or_else(|| self.loopback(ip));
                host.ok_or(Denial::PortClosed)?
            }
            AddressUse::Nobody | AddressUse::Elsewhere
                if port == DNS_PORT && special::answers_names(ip) && !self.closed =>
            {
                self.mapped(ip).unwrap_or(ip)
            }
            AddressUse::Nobody | AddressUse::Elsewhere => self.decide_host(ip)?,
        };
        Ok(Destination::Host((host, port).into()))
    }

    /// The destination of a ping to `asked`, which is not an address of the stack.
    pub(super) fn decide_ping(&self, asked: IpAddr) -> Result<IpAddr, Denial> {
        match self.ignored.icmp {
            true => Err(Denial::Ignored),
            false => self.decide_host(asked),
        }
    }

    /// The host that `asked` means.
    pub(super) fn decide_host(&self, asked: impl Into<IpAddr>) -> Result<IpAddr, Denial> {
        let asked = asked.into();
        if self.closed {
            return Err(Denial::NoHost);
        }
        if let Some(to) = self.mapped(asked) {
            return Ok(to);
        }
        if self.allowed.contains(&asked) {
            return Ok(asked);
        }
        if special::is_special(asked) {
            return Err(Denial::Prohibited);
        }
        if self.is_inside(asked) {
            return Err(Denial::NoHost);
        }
        if let IpAddr::V6(v6) = asked {
            special::embedded(v6).try_for_each(|v4| self.decide_host(v4).map(drop))?;
        }
        Ok(asked)
    }

    /// The use of an address. A gateway of the host's own network is another host, unless it means this one. Where
    /// names are answered at the address of the gateway, or of another host, the other ports are those of that host.
    fn use_of(&self, asked: SocketAddr) -> AddressUse {
        let ip = asked.ip();
        let routed = self.is_routed(ip);
        let for_names = matches!(asked.port(), DNS_PORT | ENCRYPTED_DNS_PORT);
        let (gateway, names) = match (ip, &self.v4, &self.v6) {
            (IpAddr::V4(ip), Some(v4), _) => (ip == v4.gateway, ip == v4.dns),
            (IpAddr::V6(ip), _, Some(v6)) => (
                ip == v6.gateway || ip == v6.link_gateway,
                v6.dns == Some(ip),
            ),
            _ => (false, false),
        };
        match (names, gateway) {
            (true, _) if for_names && (self.names || !routed) => AddressUse::Names,
            (true, false) if !routed => AddressUse::Names,
            (_, true) if self.host_loopback || !routed => AddressUse::Gateway,
            _ if self.is_inside(ip) => AddressUse::Nobody,
            _ => AddressUse::Elsewhere,
        }
    }

    /// Whether the guest's network is the host's: then its hosts are reached by the host's routes, except the gateway
    /// if that means the host.
    fn is_routed(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(_) => self.v4.is_some_and(|v4| v4.routed),
            IpAddr::V6(_) => self.v6.is_some_and(|v6| v6.routed),
        }
    }

    /// Whether an address is in a network that consists of the guest and this stack.
    fn is_inside(&self, ip: IpAddr) -> bool {
        if self.is_routed(ip) {
            return false;
        }
        match ip {
            IpAddr::V4(ip) => self
                .v4
                .is_some_and(|v4| wire::is_same_subnet(ip, v4.gateway, v4.prefix_len)),
            IpAddr::V6(ip) => self.v6.is_some_and(|v6| v6.contains(ip)),
        }
    }

    /// The host's address that `asked` stands for, by the first mapping that has it.
    fn mapped(&self, asked: IpAddr) -> Option<IpAddr> {
        let mut mappings = self.mappings.iter();
        mappings.find(|(from, _)| *from == asked).map(|(_, to)| *to)
    }

    /// The host's loopback, of the family of `asked`.
    fn loopback(&self, asked: IpAddr) -> Option<IpAddr> {
        self.host_loopback.then_some(match asked {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        })
    }

    /// The source address of a client of the host for a server at `server`: the client's own if the guest can answer to
    /// it, else the gateway's with any port. A client on a host that shares its address with the guest has that
    /// address: the guest's kernel would drop its packets.
    pub(super) fn shown_address(&self, client: SocketAddr, server: IpAddr) -> SocketAddr {
        let same_family = client.is_ipv4() == server.is_ipv4();
        let answerable = same_family && self.decide_host(client.ip()).is_ok();
        match answerable && !self.is_guests(client.ip()) {
            true => SocketAddr::new(client.ip(), client.port()),
            false => self.gateway(server),
        }
    }

    /// Whether the guest has this address.
    fn is_guests(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.v4.is_some_and(|v4| v4.guest == ip),
            IpAddr::V6(ip) => self.v6.is_some_and(|v6| v6.guest == ip),
        }
    }

    /// The gateway's address of the family of `of`, with any port; unspecified if the guest has none of that family.
    fn gateway(&self, of: IpAddr) -> SocketAddr {
        match of {
            IpAddr::V4(_) => {
                let gateway = self.v4.map(|v4| v4.gateway);
                (gateway.unwrap_or(Ipv4Addr::UNSPECIFIED), 0).into()
            }
            IpAddr::V6(_) => {
                let gateway = self.v6.map(|v6| v6.gateway);
                let gateway = gateway.unwrap_or(Ipv6Addr::UNSPECIFIED);
                let zone = if wire::needs_zone(gateway) {
                    self.link
                } else {
                    0
                };
                SocketAddrV6::new(gateway, 0, 0, zone).into()
            }
        }
    }
}

impl Denial {
    /// The form for a TCP connection: a reset for a closed port, else an ICMP error.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Denial::PortClosed => Refusal::Reset,
            Denial::NoHost => Refusal::Unreachable(IcmpError::Host),
            Denial::Prohibited => Refusal::Unreachable(IcmpError::AdminProhibited),
            Denial::Ignored => Refusal::Ignore,
        }
    }

    /// As the sender of a datagram is told, if it is.
    pub(super) fn unreach(self) -> Option<IcmpError> {
        match self {
            Denial::PortClosed => Some(IcmpError::Port),
            Denial::NoHost => Some(IcmpError::Host),
            Denial::Prohibited => Some(IcmpError::AdminProhibited),
            Denial::Ignored => None,
        }
    }
}

/// The guest's form of an error of a host socket, if the error is that there is no way to the peer.
pub(super) fn unreach(error: &io::Error) -> Option<IcmpError> {
    match error.raw_os_error()? {
        // The last two of a host without IPv6, in its kernel or switched on.
        libc::ENETUNREACH | libc::ENETDOWN | libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL => {
            Some(IcmpError::Net)
        }
        libc::EHOSTUNREACH | libc::EHOSTDOWN | libc::ETIMEDOUT => Some(IcmpError::Host),
        libc::EACCES | libc::EPERM => Some(IcmpError::AdminProhibited),
        _ => None,
    }
}

/// The guest's form of an error of the host's network; none if the error does not concern the guest.
pub(super) fn icmp_error(error: &SocketSendError) -> Option<IcmpError> {
    // Types of RFC 792 and RFC 4443, and the codes of "prohibited", which the kernel takes for "unreachable".
    match (error.icmp, error.errno) {
        (Some((11, _)), _) if error.dst.is_ipv4() => Some(IcmpError::TimeExceeded),
        (Some((3, _)), _) if error.dst.is_ipv6() => Some(IcmpError::TimeExceeded),
        (Some((3, 9 | 10 | 13)), _) => Some(IcmpError::AdminProhibited),
        (_, libc::EMSGSIZE) => Some(IcmpError::FragNeeded {
            mtu: u16::try_from(error.info).unwrap_or(0),
        }),
        (_, libc::ECONNREFUSED) => Some(IcmpError::Port),
        (_, libc::ENOPROTOOPT) => Some(IcmpError::Protocol),
        (_, errno) => unreach(&io::Error::from_raw_os_error(errno)),
    }
}

/// Whether a call failed because this process, or the system, is out of descriptors.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests;
