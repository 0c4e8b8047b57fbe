//! The guest's addresses, and those that mean the host, as pasta chooses them.
//!
//! | pasta | here |
//! |---|---|
//! | address and gateway: the host's own unless given | the same; the host's neighbours are reached through the gateway |
//! | netmask: `-n`, or behind the address; the host's for its address; else by its class | the same |
//! | the gateway's address means the host's 127.0.0.1 or ::1, unless `--no-map-gw` | the same |
//! | a version of IP without a gateway on the host implies `--no-map-gw` | for itself, and not with `-g` |
//! | a host without a network: its loopback is mapped all the same | the same |
//! | `--map-host-loopback`: another address in its place, for its version of IP; `none`: for neither | the same |
//! | IPv6 if the host has a route for it, unless `--ipv4-only` | the same |
//! | the gateway of an interface without one: 169.254.2.2, `fe80::1` | the same |
//!
//! Locks: none.
//! Sources: passt(1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::super::placed::{as_v4, as_v6};
use super::super::vm::DhcpOpts;
use super::super::{FamilyOpts, NetOpts, OutboundOpts, TapUse};
use super::{Domains, PastaArgs};
use crate::addressing::{Addressing, Addressing6};
use crate::special;
use crate::sys::routes::{self, DefaultRoute, DefaultRoute6};

/// The gateway of IPv4 if neither the user nor the host's interface has one: of no network.
const NO_GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 2, 2);
/// The same of IPv6, on the link.
const LINK_GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The addresses and gateways of the host that the guest gets.
#[derive(Clone, Debug, Default)]
pub(super) struct HostRoutes {
    pub(super) v4: Option<DefaultRoute>,
    pub(super) v6: Option<DefaultRoute6>,
}

/// A value of `-a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GivenAddr {
    addr: IpAddr,
    prefix_len: Option<u8>,
}

/// An address, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MappedAddr {
    Addr(IpAddr),
    None,
}

/// An address of each version of IP.
type Pair = [Option<IpAddr>; 2];

impl HostRoutes {
    /// Those of the named interfaces, or of the default routes.
    pub(super) fn find(args: &PastaArgs) -> HostRoutes {
        let of = |outbound: &Option<String>| args.interface.clone().or_else(|| outbound.clone());
        HostRoutes {
            v4: routes::default_route(of(&args.outbound_if4).as_deref()),
            v6: routes::default_route6(of(&args.outbound_if6).as_deref()),
        }
    }

    /// The interface that they are of.
    pub(super) fn interface(&self) -> Option<String> {
        let v4 = self.v4.as_ref().map(|host| host.interface.clone());
        v4.or_else(|| self.v6.as_ref().map(|host| host.interface.clone()))
    }
}

impl PastaArgs {
    /// Addresses, and their meanings.
    ///
    /// # Errors
    /// They can't be meant.
    pub(super) fn network(&self, host: &HostRoutes) -> Result<NetOpts, String> {
        // An interface of -i has the addresses in the place of those for one version.
        let of_version = |is_found: bool| is_found || self.interface.is_some();
        let named = [
            (&self.interface, host.interface().is_some(), "an"),
            (
                &self.outbound_if4,
                of_version(host.v4.is_some()) || self.ipv6_only,
                "an IPv4",
            ),
            (
                &self.outbound_if6,
                of_version(host.v6.is_some()) || self.ipv4_only,
                "an IPv6",
            ),
        ];
        for (name, is_found, kind) in named {
            if let Some(name) = name.as_ref().filter(|_| !is_found) {
                return Err(format!(
                    "the host has no interface {name} with {kind} address"
                ));
            }
        }
        if let Some(v4) = host.v4.as_ref().filter(|v4| v4.addr.is_loopback()) {
            return Err(format!(
                "{} is the host's loopback, whose {} no guest can have: name another interface",
                v4.interface, v4.addr
            ));
        }
        let v6 = self.v6(host.v6.as_ref())?;
        let cidr = self.v4(host.v4.as_ref())?;
        let (dns, no_dns) = self.name_servers()?;
        Ok(NetOpts {
            mtu: Some(self.mtu),
            cidr,
            dns,
            outbound: OutboundOpts {
                by_version: [self.outbound_if4.clone(), self.outbound_if6.clone()],
                ..OutboundOpts::of(self.outbound.clone())
            },
            families: FamilyOpts::of(!self.ipv6_only, v6),
            no_dns,
            dhcp: self.dhcp(&cidr)?,
            no_dhcp: self.no_dhcp,
            mac: self.ns_mac_addr,
            gateway_mac: self.mac_addr,
            tap: TapUse::Configure,
            pcap: self.pcap.clone(),
            maps: self.mappings(host, &cidr, v6.as_ref()),
            ignored: self.ignored(),
            ..NetOpts::default()
        })
    }

    /// The name servers behind `--dns-forward`, none for the host's; and whether no names are answered.
    ///
    /// # Errors
    /// They would get no questions.
    fn name_servers(&self) -> Result<(Vec<IpAddr>, bool), String> {
        let begin = self.dns.iter().rposition(|one| *one == MappedAddr::None);
        let behind = &self.dns[begin.map_or(0, |at| at + 1)..];
        let servers: Vec<_> = behind.iter().filter_map(|one| one.addr()).collect();
        // A program of mbuma's own asks the gateway otherwise.
        let forwards = !self.dns_forward.is_empty() || self.target().is_none();
        if let Some(server) = servers.first().filter(|_| !forwards) {
            return Err(format!(
                "-D, --dns-host {server}: without --dns-forward no question leads there: give --dns-forward ADDR, and \
                 the guest ADDR as its name server"
            ));
        }
        let none = begin.is_some() && servers.is_empty();
        Ok((servers, none || !forwards))
    }

    /// Values for a guest that asks.
    ///
    /// # Errors
    /// It would get no answer.
    fn dhcp(&self, v4: &Addressing) -> Result<DhcpOpts, String> {
        let given = [
            (self.search.is_some(), "--search"),
            (self.hostname.is_some(), "--hostname"),
            (self.dhcp_dns, "--dhcp-dns"),
            (self.dhcp_search, "--dhcp-search"),
        ];
        if self.target().is_none() {
            // Its names are in files.
            return Ok(DhcpOpts::default());
        }
        let mut given = given.into_iter().filter(|(given, _)| *given);
        match given.next().filter(|_| v4.routed || self.no_dhcp) {
            Some((_, option)) => Err(format!(
                "{option} is for guests that ask by DHCP, which mbuma answers only for a guest with an address \
                 of its own: give -a and -g, or leave it out"
            )),
            None => Ok(DhcpOpts {
                hostname: self.hostname.clone(),
                search: self.search.clone().map_or(Vec::new(), |Domains(all)| all),
            }),
        }
    }

    /// The guest's IPv4 network.
    fn v4(&self, host: Option<&DefaultRoute>) -> Result<Addressing, String> {
        let dns = last(&self.dns_forward, as_v4);
        let given = last(&self.address, |given| {
            Some((as_v4(&given.addr)?, given.prefix_len))
        });
        let gateway = last(&self.gateway, as_v4);
        if (given, gateway, host) == (None, None, None) {
            // A host without a network still has one between itself and its guest.
            return Ok(Addressing {
                dns: dns.unwrap_or(Addressing::DEFAULT.dns),
                ..Addressing::DEFAULT
            });
        }
        let (guest, len) = given.unzip();
        let guest = guest
            .or(host.map(|host| host.addr))
            .unwrap_or(Addressing::DEFAULT.guest);
        let hosts = host.map(|host| host.gateway.unwrap_or(NO_GATEWAY));
        let gateway = gateway.or(hosts).unwrap_or(Addressing::DEFAULT.gateway);
        if guest == gateway {
            return Err(format!(
                "{guest} can't be both the guest's and its gateway's: give another -g"
            ));
        }
        let len = match (len.flatten(), self.netmask) {
            (Some(_), Some(_)) => {
                return Err("give the length of the prefix by -a or by -n".to_owned());
            }
            (len, mask) => len.or(mask),
        };
        let hosts = host
            .filter(|host| host.addr == guest)
            .map(|host| host.prefix_len);
        let prefix_len = len.or(hosts).unwrap_or_else(|| class_len(guest));
        let shares = |addr| wire::is_same_subnet(guest, addr, prefix_len);
        let hosts = u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
        let number = guest.to_bits() & hosts;
        // Of its own: the host has other neighbours, and the guest's address is one of a host.
        let own = given.is_some()
            && shares(gateway)
            && host.is_none_or(|host| !shares(host.addr))
            && (1..hosts).contains(&number);
        Ok(Addressing {
            guest,
            gateway,
            dns: dns.unwrap_or(gateway),
            prefix_len,
            routed: !own,
        })
    }

    /// The guest's addresses of IPv6, if it is to have any.
    fn v6(&self, host: Option<&DefaultRoute6>) -> Result<Option<Addressing6>, String> {
        let guest = last(&self.address, |given| as_v6(&given.addr));
        let guest = guest.or(host.map(|host| host.addr));
        let Some(guest) = guest.filter(|_| !self.ipv4_only && !self.no_ndp) else {
            return match self.ipv6_only {
                true => Err("--ipv6-only: the host has no default route of IPv6".to_owned()),
                false => Ok(None),
            };
        };
        let gateway = last(&self.gateway, as_v6).or(host.and_then(|host| host.gateway));
        let gateway = gateway.unwrap_or(LINK_GATEWAY);
        if guest == gateway {
            return Err(format!(
                "{guest} can't be both the guest's and its gateway's: give another -g"
            ));
        }
        let dns = last(&self.dns_forward, as_v6);
        // A command's resolv.conf names one server. Not every C library reads an address with its link there.
        let own = match gateway.is_unicast_link_local() {
            true => Addressing6::DEFAULT.dns,
            false => Some(gateway),
        };
        let own = own.filter(|_| self.target().is_none() && self.ipv6_only);
        Ok(Some(Addressing6::shared(guest, gateway, dns.or(own))))
    }

    /// The addresses that mean the host: its loopback before its own address, which it has only with a network.
    fn mappings(
        &self,
        host: &HostRoutes,
        v4: &Addressing,
        v6: Option<&Addressing6>,
    ) -> Vec<(IpAddr, IpAddr)> {
        // A gateway that stands in for none means nothing, unless the guest and its host are all there is.
        let alone = host.interface().is_none();
        let means4 = last(&self.gateway, as_v4).is_some()
            || host
                .v4
                .as_ref()
                .map_or(alone, |host| host.gateway.is_some());
        let means6 = last(&self.gateway, as_v6).is_some()
            || host
                .v6
                .as_ref()
                .map_or(alone, |host| host.gateway.is_some());
        let v6 = v6.filter(|_| means6).map(|v6| v6.gateway.into());
        let gateways = match self.no_map_gw {
            true => [None; 2],
            false => [means4.then(|| v4.gateway.into()), v6],
        };
        let loopbacks = [
            Some(Ipv4Addr::LOCALHOST.into()),
            Some(Ipv6Addr::LOCALHOST.into()),
        ];
        let owns = [
            host.v4.as_ref().map(|host| host.addr.into()),
            host.v6.as_ref().map(|host| host.addr.into()),
        ];
        let loopbacks = pairs(chosen(gateways, &self.map_host_loopback), loopbacks);
        let owns = pairs(chosen([None; 2], &self.map_guest_addr), owns);
        loopbacks.chain(owns).collect()
    }
}

/// The guest's addresses and their meanings, in words.
pub(super) fn description(ifname: &str, net: &NetOpts) -> String {
    let v4 = net.v4().map(|v4| {
        let (guest, len, gateway) = (v4.guest, v4.prefix_len, v4.gateway);
        format!("{guest}/{len} by {gateway}")
    });
    let v6 = net
        .v6()
        .map(|v6| format!("{}/{} by {}", v6.guest, v6.prefix_len, v6.gateway));
    let meanings = net
        .maps
        .iter()
        .map(|(from, to)| format!("{from} is the host's {to}"));
    let ports = net
        .published()
        .into_iter()
        .map(|port| format!("port {port}"));
    let all: Vec<_> = v4
        .into_iter()
        .chain(v6)
        .chain(meanings)
        .chain(ports)
        .collect();
    format!("{ifname}: {}", all.join(", "))
}

impl FromStr for GivenAddr {
    type Err = String;

    /// An address; behind it may be the length of the prefix.
    fn from_str(text: &str) -> Result<GivenAddr, String> {
        let (addr, len) = text
            .split_once('/')
            .map_or((text, None), |(addr, len)| (addr, Some(len)));
        let addr = special::host_addr(addr)?;
        let max = if addr.is_ipv4() { 32 } else { 128 };
        let prefix_len = len.map(|len| len.parse().ok().filter(|len| (1..=max).contains(len)));
        match prefix_len {
            Some(None) => Err(format!("the length of its prefix must be 1 to {max}")),
            prefix_len => Ok(GivenAddr {
                addr,
                prefix_len: prefix_len.flatten(),
            }),
        }
    }
}

impl MappedAddr {
    fn addr(self) -> Option<IpAddr> {
        match self {
            MappedAddr::Addr(addr) => Some(addr),
            MappedAddr::None => None,
        }
    }
}

/// The last value of one version of IP.
fn last<T, U>(all: &[T], of: impl Fn(&T) -> Option<U>) -> Option<U> {
    all.iter().rev().find_map(of)
}

/// The addresses of the option, of each version of IP the last one, in the place of the others.
fn chosen(unless: Pair, given: &[MappedAddr]) -> Pair {
    given.iter().fold(unless, |[v4, v6], one| match one {
        MappedAddr::None => [None; 2],
        MappedAddr::Addr(addr @ IpAddr::V4(_)) => [Some(*addr), v6],
        MappedAddr::Addr(addr @ IpAddr::V6(_)) => [v4, Some(*addr)],
    })
}

/// From, to.
fn pairs(from: Pair, to: Pair) -> impl Iterator<Item = (IpAddr, IpAddr)> {
    from.into_iter()
        .zip(to)
        .filter_map(|(from, to)| from.zip(to))
}

/// The length of the prefix of the address's class.
fn class_len(addr: Ipv4Addr) -> u8 {
    match addr.octets()[0] {
        0..128 => 8,
        128..192 => 16,
        192..224 => 24,
        _ => 32,
    }
}

/// `24` or `255.255.255.0`.
pub(super) fn prefix_len(text: &str) -> Result<u8, String> {
    let from_mask = |mask: Ipv4Addr| {
        let len = mask.to_bits().leading_ones();
        (mask.to_bits().count_ones() == len).then_some(len as u8)
    };
    let len = match text.parse::<Ipv4Addr>() {
        Ok(mask) => from_mask(mask),
        Err(_) => text.parse().ok(),
    };
    len.filter(|len| (1..=32).contains(len))
        .ok_or_else(|| format!("`{text}` is no mask"))
}

/// A name server, or `none`.
pub(super) fn server(text: &str) -> Result<MappedAddr, String> {
    match text {
        "none" | "" => Ok(MappedAddr::None),
        addr => special::name_server(addr).map(MappedAddr::Addr),
    }
}

/// An address, or `none`.
pub(super) fn mapped(text: &str) -> Result<MappedAddr, String> {
    match text {
        "none" => Ok(MappedAddr::None),
        addr => special::host_addr(addr).map(MappedAddr::Addr),
    }
}

#[cfg(test)]
mod tests;
