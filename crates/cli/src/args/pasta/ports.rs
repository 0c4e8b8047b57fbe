//! Ports, as pasta's options write them.
//!
//! | SPEC | is |
//! |---|---|
//! | `none` | none |
//! | `auto` | those on which programs of the other side listen, as long as they do; it must stand alone |
//! | `22`, `80-89`, `8080:80`, `8080-8089:80-89`, with commas between | these |
//! | `ADDR/...` | the same, at this address of the host: for `-t` and `-u` |
//!
//! Locks: none.
//! Sources: passt(1).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::super::{Proto, Publish, PublishRange, PublishRequest};

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
                "all" => {
                    return Err(format!(
                        "{option} all: mbuma opens no port without a server; `auto` opens those that have one"
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
        let outward = ports.map(|PublishRequest { publish, both }| match both {
            true => Ok(OutwardRequest {
                proto: publish.proto,
                guest_port: publish.host.port(),
                host_port: publish.guest_port,
            }),
            false => Err(format!(
                "{option} takes no address: the ports are at the guest's loopback"
            )),
        });
        outward.collect()
    }
}

fn ranges(spec: &str, proto: Proto) -> Result<Vec<PublishRange>, String> {
    let (addr, list) = match spec.rsplit_once('/') {
        Some((addr, list)) => (Some(addr), list),
        None => (None, spec),
    };
    let addr = addr.map(|addr| {
        let parsed = addr.parse::<IpAddr>();
        parsed.map_err(|_| format!("`{addr}` is no address"))
    });
    let addr = addr.transpose()?;
    list.split(',')
        .map(|range| one_range(addr, range, proto))
        .collect()
}

/// `80`, `80-89`, `8080:80` or `8080-8089:80-89`.
fn one_range(addr: Option<IpAddr>, text: &str, proto: Proto) -> Result<PublishRange, String> {
    let (host, guest) = text.split_once(':').unwrap_or((text, text));
    let ports_of = super::super::ports_of;
    let (host, guest) = (ports_of(host)?, ports_of(guest)?);
    let everywhere = Ipv4Addr::UNSPECIFIED.into();
    let publish = Publish {
        host: SocketAddr::new(addr.unwrap_or(everywhere), *host.start()),
        guest_port: *guest.start(),
        proto,
    };
    let first = PublishRequest {
        publish,
        both: addr.is_none(),
    };
    PublishRange::of(first, host.len(), guest.len())
}
