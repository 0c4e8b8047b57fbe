//! Ports, as pasta's options write them.
//!
//! | SPEC | is |
//! |---|---|
//! | `none` | none |
//! | `auto` | those on which programs of the other side listen, as long as they do; it must stand alone |
//! | `22`, `80-89`, `8080:80`, `8080-8089:80-89`, with commas between | these |
//! | `~85`, `~85-87` among them | without these of the host |
//! | `ADDR/...`, `ADDR%NAME/...`, `%NAME/...` | the same, at this address of the host, for clients by this interface: for `-t` and `-u` |
//!
//! Locks: none.
//! Sources: passt(1).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::super::{Proto, Publish, PublishRange, PublishRequest};
use crate::sys::socket::InterfaceName;

/// The ports of the guest's loopback that lead to the host's, and the ports that mbuma finds itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopbackOpts {
    /// Ports of the guest's loopback that lead to the host's.
    pub(crate) outward: Vec<OutwardRequest>,
    /// Ports on which the guest's programs listen are published.
    pub(crate) follow_guest: Vec<Proto>,
    /// Ports on which the host's programs listen are open at the guest's loopback.
    pub(crate) follow_host: Vec<Proto>,
}

/// A port of the guest's loopback, and the port of the host's that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutwardRequest {
    pub(crate) proto: Proto,
    pub(crate) guest_port: u16,
    pub(crate) host_port: u16,
}

impl fmt::Display for OutwardRequest {
    /// `guest's loopback:5001 -> host's loopback:7/udp`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (guest, host) = (self.guest_port, self.host_port);
        let proto = match self.proto {
            Proto::Tcp => "tcp",
            Proto::Udp => "udp",
        };
        write!(
            f,
            "guest's loopback:{guest} -> host's loopback:{host}/{proto}"
        )
    }
}

/// The ports that one option names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamedPorts {
    /// The ports that mbuma finds itself.
    Auto,
    /// These.
    Listed(Vec<PublishRange>),
}

impl LoopbackOpts {
    /// Whether any of these ports needs a process in the guest's namespaces.
    pub(crate) fn is_empty(&self) -> bool {
        self.outward.is_empty() && self.follow_guest.is_empty() && self.follow_host.is_empty()
    }
}

impl NamedPorts {
    /// The ports of all values of an option.
    ///
    /// # Errors
    /// A word is none of the above.
    pub(super) fn of(option: &str, specs: &[String], proto: Proto) -> Result<NamedPorts, String> {
        let mut listed = Vec::new();
        for spec in specs {
            match &**spec {
                "none" => {}
                "auto" if specs.len() == 1 => return Ok(NamedPorts::Auto),
                "auto" => {
                    return Err(format!(
                        "{option} auto can't be combined with another {option}"
                    ));
                }
                spec if is_all(spec) => {
                    return Err(format!(
                        "{option} {spec}: mbuma opens no port without a server; `{option} auto` opens those \
                         that have one"
                    ));
                }
                spec => {
                    listed.extend(ranges(spec, proto).map_err(|e| format!("{option} {spec}: {e}"))?)
                }
            }
        }
        Ok(NamedPorts::Listed(listed))
    }

    /// Ports of the guest's loopback.
    ///
    /// # Errors
    /// An address is named: they are at the loopback.
    pub(super) fn outward(&self, option: &str) -> Result<Vec<OutwardRequest>, String> {
        let NamedPorts::Listed(ranges) = self else {
            return Ok(Vec::new());
        };
        let ports = ranges.iter().flat_map(PublishRange::ports);
        let outward = ports.map(|PublishRequest { publish, both }| {
            match both && publish.interface.is_none() {
                true => Ok(OutwardRequest {
                    proto: publish.proto,
                    guest_port: publish.host.port(),
                    host_port: publish.guest_port,
                }),
                false => Err(format!(
                    "{option} takes no address: the ports are at the guest's loopback"
                )),
            }
        });
        outward.collect()
    }
}

/// Whether a word means every port: it, or each but some.
fn is_all(spec: &str) -> bool {
    let list = spec.rsplit_once('/').map_or(spec, |(_, list)| list);
    list == "all" || list.split(',').all(|word| word.starts_with('~'))
}

/// Where the ports of a word are, on the host.
#[derive(Clone, Copy, Debug, Default)]
struct HostEnd {
    addr: Option<IpAddr>,
    interface: Option<InterfaceName>,
}

impl HostEnd {
    /// `ADDR`, `ADDR%NAME` or `%NAME`.
    fn of(text: &str) -> Result<HostEnd, String> {
        let (addr, name) = match text.split_once('%') {
            Some((addr, name)) => (addr, Some(super::super::any_ifname(name)?)),
            None => (text, None),
        };
        let is_named = name.is_some();
        let interface = name.map(|name| InterfaceName::new(&name).map_err(|e| e.to_string()));
        let addr = match addr {
            "" if is_named => None,
            // Engines write IPv6 in brackets, too.
            addr => {
                let plain = addr
                    .strip_prefix('[')
                    .and_then(|addr| addr.strip_suffix(']'));
                let parsed = plain.unwrap_or(addr).parse();
                Some(parsed.map_err(|_| format!("`{addr}` is no address"))?)
            }
        };
        Ok(HostEnd {
            addr,
            interface: interface.transpose()?,
        })
    }
}

fn ranges(spec: &str, proto: Proto) -> Result<Vec<PublishRange>, String> {
    let (at, list) = match spec.rsplit_once('/') {
        Some((at, list)) => (HostEnd::of(at)?, list),
        None => (HostEnd::default(), spec),
    };
    let excluded = list.split(',').filter_map(|word| word.strip_prefix('~'));
    let excluded: Vec<_> = excluded
        .map(super::super::ports_of)
        .collect::<Result<_, _>>()?;
    let included = list.split(',').filter(|word| !word.starts_with('~'));
    let mut all = Vec::new();
    for range in included {
        let range = one_range(at, range, proto)?;
        match &*excluded {
            [] => all.push(range),
            excluded => {
                let has = |port: &PublishRequest| {
                    let port = port.publish.host.port();
                    excluded.iter().any(|range| range.contains(&port))
                };
                let left = range.ports().filter(|port| !has(port));
                for port in left {
                    all.push(PublishRange::of(port, 1, 1)?);
                }
            }
        }
    }
    Ok(all)
}

/// `80`, `80-89`, `8080:80` or `8080-8089:80-89`.
fn one_range(at: HostEnd, text: &str, proto: Proto) -> Result<PublishRange, String> {
    let (host, guest) = text.split_once(':').unwrap_or((text, text));
    let ports_of = super::super::ports_of;
    let (host, guest) = (ports_of(host)?, ports_of(guest)?);
    let everywhere = Ipv4Addr::UNSPECIFIED.into();
    let publish = Publish {
        host: SocketAddr::new(at.addr.unwrap_or(everywhere), *host.start()),
        guest_port: *guest.start(),
        proto,
        interface: at.interface,
    };
    let first = PublishRequest {
        publish,
        both: at.addr.is_none(),
    };
    PublishRange::of(first, host.len(), guest.len())
}
