//! Ports, as pasta's options write them.
//!
//! | SPEC | is |
//! |---|---|
//! | `none` | none |
//! | `22`, `80-89`, `8080:80`, `8080-8089:80-89`, with commas between | these |
//! | `8080:10.0.2.9/80`, `8080:10.0.2.9` among them | the same of another address of the guest: for `-t` and `-u` |
//! | `~85`, `~85-87` among them | without these of the host |
//! | `auto` among them | those of them on which programs of the other side listen, as long as they do; alone: of all |
//! | `ADDR/...`, `ADDR%NAME/...`, `%NAME/...` | the same, at this address of the host, for clients by this interface: for `-t` and `-u` |
//!
//! Locks: none.
//! Sources: passt(1).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::port_range::{self, HostEnd, ports_of};
use super::super::{Proto, Publish, PublishRange};

/// The ports of the guest's loopback that lead to the host's, and the ports that mbuma finds itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoopbackOpts {
    /// Ports of the guest's loopback that lead to the host's.
    pub(crate) outward: Vec<OutwardRequest>,
    /// Of these, the ports on which the guest's programs listen are published.
    pub(crate) follow_guest: Vec<PublishRange>,
    /// Of these, the ports on which the host's programs listen are open at the guest's loopback. The host's end of a
    /// range is the guest's loopback here.
    pub(crate) follow_host: Vec<PublishRange>,
    /// Only clients of the host's loopback reach servers that listen at the guest's alone.
    pub(crate) is_private: bool,
}

/// A port of the guest's loopback, and the port of the host's that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedPorts {
    /// These.
    pub(super) listed: Vec<PublishRange>,
    /// Those of these that mbuma finds itself.
    pub(super) followed: Vec<PublishRange>,
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
        let mut named = NamedPorts::default();
        for spec in specs.iter().filter(|spec| *spec != "none") {
            let added = named.add(spec, proto);
            added.map_err(|e| format!("{option} {spec}: {e}"))?;
        }
        Ok(named)
    }

    fn add(&mut self, spec: &str, proto: Proto) -> Result<(), String> {
        let at = spec.split_once('/');
        let at = at.and_then(|(at, list)| Some((at.parse::<HostEnd>().ok()?, list)));
        let (at, list) = at.unwrap_or((HostEnd::EVERYWHERE, spec));
        let excluded = list.split(',').filter_map(|word| word.strip_prefix('~'));
        let excluded: Vec<_> = excluded.map(ports_of).collect::<Result<_, _>>()?;
        let included = list.split(',').filter(|word| !word.starts_with('~'));
        let (words, ranges): (Vec<_>, Vec<_>) =
            included.partition(|word| ["auto", "all"].contains(word));
        let follows = words.contains(&"auto");
        let ranges = match ranges.is_empty() || words.contains(&"all") {
            true if follows => vec![PublishRange::of(
                at.port(1, (None, 1), proto),
                65_535,
                65_535,
            )?],
            true => {
                return Err(
                    "mbuma opens no port without a server; `auto` opens those that have one"
                        .to_owned(),
                );
            }
            false => {
                let ranges = ranges.iter().map(|text| one_range(at, text, proto));
                ranges.collect::<Result<_, _>>()?
            }
        };
        let left = excluded.iter().fold(ranges, |ranges, excluded| {
            let left = ranges.into_iter().flat_map(|range| range.without(excluded));
            left.collect()
        });
        match follows {
            true => self.followed.extend(left),
            false => self.listed.extend(left),
        }
        Ok(())
    }

    /// The listed ones as ports of the guest's loopback.
    ///
    /// # Errors
    /// An address is named: they lead from loopback to loopback.
    pub(super) fn outward(&self, option: &str) -> Result<Vec<OutwardRequest>, String> {
        let mut all = self.listed.iter().chain(&self.followed);
        if !all.all(PublishRange::names_no_address) {
            return Err(format!(
                "{option} takes no address: the ports lead from the guest's loopback to the host's"
            ));
        }
        let ports = self.listed.iter().flat_map(PublishRange::ports);
        Ok(ports
            .map(|port| OutwardRequest::from(port.publish))
            .collect())
    }
}

impl From<Publish> for OutwardRequest {
    /// The host's end of `publish` is the guest's loopback here.
    fn from(publish: Publish) -> OutwardRequest {
        OutwardRequest {
            proto: publish.proto,
            guest_port: publish.host.port(),
            host_port: publish.guest_port,
        }
    }
}

/// `80`, `80-89`, `8080:80`, `8080-8089:80-89`, `8080:10.0.2.9` or `8080:10.0.2.9/80`.
fn one_range(at: HostEnd, text: &str, proto: Proto) -> Result<PublishRange, String> {
    let (host, guest) = text.split_once(':').unwrap_or((text, text));
    let (guest_addr, guest) = match guest.split_once('/') {
        Some((addr, ports)) => (Some(port_range::guest_address(addr)?), ports),
        None if guest.contains(['.', ':']) => (Some(port_range::guest_address(guest)?), host),
        None => (None, guest),
    };
    let (host, guest) = (ports_of(host)?, ports_of(guest)?);
    let first = at.port(*host.start(), (guest_addr, *guest.start()), proto);
    PublishRange::of(first, host.len(), guest.len())
}
