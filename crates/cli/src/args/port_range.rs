//! Published ports, as the command line writes them and as mbuma prints them:
//! `[ADDR[%INTERFACE]:]HOST:[GUEST_ADDR:]GUEST[/udp]`.
//!
//! | ADDR | is |
//! |---|---|
//! | none, or `localhost` | 127.0.0.1 and ::1 |
//! | `*` | every address of the host, of both families |
//! | `192.0.2.1`, `[2001:db8::1]`, `[fe80::1%eth0]` | this one |
//!
//! With `%INTERFACE`, clients must come by that interface of the host. GUEST_ADDR is another address of the guest than
//! its own, or its 127.0.0.1.
//!
//! Locks: none.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::sys::socket::{self, InterfaceName};

/// One `--publish`: as many ports of the host as of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublishRange {
    first: PublishRequest,
    count: u16,
}

/// The user's request: a port of the host, of one address or of the same kind of address of each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PublishRequest {
    /// At the given address, or at the one of IPv4.
    pub(crate) publish: Publish,
    /// At the loopback, or at all addresses, of IPv6 too.
    pub(crate) both: bool,
}

impl PublishRequest {
    /// The same at the address of IPv6, if requested.
    pub(crate) fn twin(&self) -> Option<Publish> {
        let Publish { host, .. } = self.publish;
        let ip = match host.ip().is_unspecified() {
            true => Ipv6Addr::UNSPECIFIED,
            false => Ipv6Addr::LOCALHOST,
        };
        self.both.then(|| Publish {
            host: SocketAddr::new(ip.into(), host.port()),
            ..self.publish
        })
    }

    /// Where it listens.
    pub(crate) fn host_end(&self) -> HostEnd {
        HostEnd {
            addr: self.publish.host,
            both: self.both,
            interface: self.publish.interface,
        }
    }
}

impl fmt::Display for PublishRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Publish {
            host,
            guest_addr,
            guest_port,
            proto,
            ..
        } = self.publish;
        write!(f, "{}:{}:", self.host_end(), host.port())?;
        match guest_addr {
            Some(IpAddr::V4(addr)) => write!(f, "{addr}:")?,
            Some(IpAddr::V6(addr)) => write!(f, "[{addr}]:")?,
            None => {}
        }
        write!(f, "{guest_port}")?;
        match proto {
            Proto::Tcp => Ok(()),
            Proto::Udp => f.write_str("/udp"),
        }
    }
}

/// Where ports listen on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostEnd {
    /// The address; its port means nothing.
    addr: SocketAddr,
    /// At the same kind of address of IPv6, too.
    both: bool,
    interface: Option<InterfaceName>,
}

impl HostEnd {
    /// Every address of the host.
    pub(crate) const EVERYWHERE: HostEnd = HostEnd {
        addr: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        both: true,
        interface: None,
    };

    /// A port that listens there, and leads to one of the guest.
    pub(crate) fn port(self, port: u16, to: (Option<IpAddr>, u16), proto: Proto) -> PublishRequest {
        let mut host = self.addr;
        host.set_port(port);
        let (guest_addr, guest_port) = to;
        let publish = Publish {
            host,
            guest_addr,
            guest_port,
            proto,
            interface: self.interface,
        };
        let both = self.both;
        PublishRequest { publish, both }
    }
}

impl fmt::Display for HostEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addr {
            addr if self.both => f.write_str(match addr.ip().is_unspecified() {
                true => "*",
                false => "localhost",
            })?,
            SocketAddr::V4(addr) => write!(f, "{}", addr.ip())?,
            SocketAddr::V6(addr) if addr.scope_id() == 0 => write!(f, "[{}]", addr.ip())?,
            SocketAddr::V6(addr) => write!(f, "[{}%{}]", addr.ip(), addr.scope_id())?,
        }
        match self.interface {
            Some(name) => write!(f, "%{name}"),
            None => Ok(()),
        }
    }
}

impl FromStr for HostEnd {
    type Err = String;

    /// `ADDR[%INTERFACE]`, or `%INTERFACE` for every address; brackets around IPv6 may be left out.
    fn from_str(text: &str) -> Result<HostEnd, String> {
        let outside = text
            .rsplit_once('%')
            .filter(|(_, name)| !name.ends_with(']'));
        let (addr, name) = outside.map_or((text, None), |(addr, name)| (addr, Some(name)));
        let (at, both) = match (addr, name) {
            ("*", _) | ("", Some(_)) => (Some(HostEnd::EVERYWHERE.addr), true),
            ("localhost", _) => (Some((Ipv4Addr::LOCALHOST, 0).into()), true),
            _ => match addr.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                Some(v6) => (v6_addr(v6)?, false),
                None => (addr.parse().ok().map(|ip: IpAddr| (ip, 0).into()), false),
            },
        };
        let addr =
            at.ok_or_else(|| format!("`{addr}` is no address (IPv4 as it is, IPv6 in brackets)"))?;
        let interface = name.map(|name| {
            let name = super::any_ifname(name)?;
            InterfaceName::new(&name).map_err(|e| e.to_string())
        });
        let interface = interface.transpose()?;
        Ok(HostEnd {
            addr,
            both,
            interface,
        })
    }
}

impl PublishRange {
    /// From `first` on: as many ports of the host as of the guest.
    pub(super) fn of(
        first: PublishRequest,
        host: usize,
        guest: usize,
    ) -> Result<PublishRange, String> {
        if host != guest {
            return Err("both ranges must have the same number of ports".to_owned());
        }
        let count = u16::try_from(host).map_err(|_| "that is every port")?;
        Ok(PublishRange { first, count })
    }

    /// Each of the ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PublishRequest> + use<> {
        let range = *self;
        (0..self.count).map(move |n| range.nth(n))
    }

    fn nth(&self, n: u16) -> PublishRequest {
        let mut request = self.first;
        request
            .publish
            .host
            .set_port(self.first.publish.host.port() + n);
        request.publish.guest_port += n;
        request
    }

    /// The first of them.
    pub(crate) fn first(&self) -> PublishRequest {
        self.first
    }

    /// Whether it is at every address of the host, and leads to the guest's own.
    pub(super) fn names_no_address(&self) -> bool {
        let PublishRequest { publish, both } = self.first;
        both && publish.interface.is_none() && publish.guest_addr.is_none()
    }

    /// The protocol of all of them.
    pub(crate) fn proto(&self) -> Proto {
        self.first.publish.proto
    }

    /// The one that leads to this port.
    pub(crate) fn leading_to(&self, port: u16) -> Option<PublishRequest> {
        let n = port.checked_sub(self.first.publish.guest_port)?;
        (n < self.count).then(|| self.nth(n))
    }

    /// The parts of it below and above these ports of the host.
    pub(super) fn without(
        self,
        excluded: &RangeInclusive<u16>,
    ) -> impl Iterator<Item = PublishRange> {
        let start = self.first.publish.host.port();
        let below = excluded.start().saturating_sub(start).min(self.count);
        let to_end = excluded
            .end()
            .checked_sub(start)
            .map_or(0, |n| n.saturating_add(1));
        let parts = [(0, below), (to_end.min(self.count), self.count)];
        let parts = parts.into_iter().filter(|(from, to)| from < to);
        parts.map(move |(from, to)| PublishRange {
            first: self.nth(from),
            count: to - from,
        })
    }
}

/// A port of the host that leads to a port of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Publish {
    /// Where to listen on the host.
    pub(crate) host: SocketAddr,
    /// Where the server is, if not at the guest's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guest_addr: Option<IpAddr>,
    /// The guest's port.
    pub(crate) guest_port: u16,
    /// The protocol of both ports.
    pub(crate) proto: Proto,
    /// The interface of the host by which clients must come, if it matters.
    pub(crate) interface: Option<InterfaceName>,
}

/// The protocol of a published port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Proto {
    /// TCP, unless said otherwise.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (publish, both) = (*self, false);
        PublishRequest { publish, both }.fmt(f)
    }
}

impl FromStr for PublishRange {
    type Err = String;

    fn from_str(text: &str) -> Result<PublishRange, String> {
        let (ports, proto) = match text.split_once('/') {
            None | Some((_, "tcp")) => (text.strip_suffix("/tcp").unwrap_or(text), Proto::Tcp),
            Some((ports, "udp")) => (ports, Proto::Udp),
            Some((_, other)) => return Err(format!("`{other}` is neither tcp nor udp")),
        };
        let two = || "it takes two ports, as in 8080:80".to_owned();
        let (host, guest) = ports.rsplit_once(':').ok_or_else(two)?;
        let (host, guest_addr) = match host.rsplit_once(':') {
            Some((before, last)) if last.ends_with(']') || last.contains('.') => {
                // The colons of an address of IPv6 are in its brackets.
                let at = host.rfind('[').filter(|_| last.ends_with(']'));
                let (before, addr) = at.map_or((before, last), |at| host.split_at(at));
                let before = before.strip_suffix(':').unwrap_or(before);
                (before, Some(guest_address(addr)?))
            }
            _ => (host, None),
        };
        let (addr, host) = host.rsplit_once(':').unwrap_or(("localhost", host));
        let (host, guest) = (ports_of(host)?, ports_of(guest)?);
        if addr.contains(':') && !addr.starts_with('[') {
            return Err(format!("`{addr}` is no address: IPv6 is in brackets"));
        }
        let first =
            addr.parse::<HostEnd>()?
                .port(*host.start(), (guest_addr, *guest.start()), proto);
        PublishRange::of(first, host.len(), guest.len())
    }
}

/// An address of the guest, IPv6 in brackets.
pub(super) fn guest_address(text: &str) -> Result<IpAddr, String> {
    let v6 = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let addr = match v6 {
        Some(v6) => v6.parse().map(IpAddr::V6).ok(),
        None => text.parse().map(IpAddr::V4).ok(),
    };
    addr.ok_or_else(|| format!("`{text}` is no address of a guest (IPv6 in brackets)"))
}

/// `8080` or `8080-8089`.
pub(super) fn ports_of(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    match first <= last {
        true => Ok(first..=last),
        false => Err(format!("`{text}` ends before it begins")),
    }
}

/// `fe80::1%eth0`, or without an interface.
fn v6_addr(text: &str) -> Result<Option<SocketAddr>, String> {
    let (addr, zone) = text.split_once('%').unwrap_or((text, ""));
    let scope = match zone {
        "" => 0,
        // By number, as mbuma prints it, or by name.
        name => name
            .parse()
            .unwrap_or_else(|_| socket::interface_index(name)),
    };
    if scope == 0 && !zone.is_empty() {
        return Err(format!("there is no interface `{zone}`"));
    }
    let addr = addr.parse().ok();
    Ok(addr.map(|ip| SocketAddrV6::new(ip, 0, 0, scope).into()))
}

/// A port that one can listen on and connect to.
pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is no port, 1 to 65535")),
        Ok(port) => Ok(port),
    }
}
