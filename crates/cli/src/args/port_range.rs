//! Published ports, as the command line writes them: `[ADDR:]HOST:GUEST[/udp]`.
//!
//! | ADDR | is |
//! |---|---|
//! | none, or `localhost` | 127.0.0.1 and ::1 |
//! | `*` | every address of the host, of both families |
//! | `192.0.2.1`, `[2001:db8::1]`, `[fe80::1%eth0]` | this one |
//!
//! Locks: none.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// The address, as in text.
    pub(crate) fn host_text(&self) -> String {
        let ip = self.publish.host.ip();
        match (self.both, ip.is_unspecified()) {
            (true, true) => "*".to_owned(),
            (true, false) => "localhost".to_owned(),
            (false, _) => ip.to_string(),
        }
    }
}

impl fmt::Display for PublishRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Publish { host, .. } = self.publish;
        match self.both {
            true => write!(
                f,
                "{}:{}:{}",
                self.host_text(),
                host.port(),
                self.publish.behind()
            ),
            false => self.publish.fmt(f),
        }
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
        let first = self.first;
        (0..self.count).map(move |n| {
            let mut request = first;
            request.publish.host.set_port(first.publish.host.port() + n);
            request.publish.guest_port += n;
            request
        })
    }
}

/// A port of the host that leads to a port of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Publish {
    /// Where to listen on the host.
    pub(crate) host: SocketAddr,
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

impl Publish {
    /// What stands behind the host's end in text.
    fn behind(&self) -> String {
        let proto = match self.proto {
            Proto::Tcp => "",
            Proto::Udp => "/udp",
        };
        let interface = self.interface.map(|name| format!(" on {name}"));
        let interface = interface.unwrap_or_default();
        format!("{}{proto}{interface}", self.guest_port)
    }
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.behind())
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
        let (host, guest) = ports
            .rsplit_once(':')
            .ok_or("it takes two ports, as in 8080:80")?;
        let (addr, host) = host.rsplit_once(':').unwrap_or(("localhost", host));
        let (host, guest) = (ports_of(host)?, ports_of(guest)?);
        let (addr, both) = listened(addr)?;
        let mut first = Publish {
            host: addr,
            guest_port: *guest.start(),
            proto,
            interface: None,
        };
        first.host.set_port(*host.start());
        let first = PublishRequest {
            publish: first,
            both,
        };
        PublishRange::of(first, host.len(), guest.len())
    }
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

/// The address to listen at, without a port; and whether to listen at the same kind of address of IPv6 too.
fn listened(text: &str) -> Result<(SocketAddr, bool), String> {
    let both = |ip: Ipv4Addr| Ok((SocketAddr::new(ip.into(), 0), true));
    match text {
        "localhost" => return both(Ipv4Addr::LOCALHOST),
        "*" => return both(Ipv4Addr::UNSPECIFIED),
        _ => {}
    }
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let parsed = match inner {
        Some(v6) => v6_addr(v6)?,
        None => text.parse().ok().map(|ip: Ipv4Addr| (ip, 0).into()),
    };
    let parsed = parsed.map(|addr| (addr, false));
    parsed.ok_or_else(|| format!("`{text}` is no address (IPv4 as it is, IPv6 in brackets)"))
}

/// `fe80::1%eth0`, or without an interface.
fn v6_addr(text: &str) -> Result<Option<SocketAddr>, String> {
    let (addr, zone) = text.split_once('%').unwrap_or((text, ""));
    let scope = match zone {
        "" => 0,
        name => socket::interface_index(name),
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
