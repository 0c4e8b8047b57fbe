//! The command line of pasta, as rootlesskit and podman 5 write it, turned into that of `attach`.
//!
//! | pasta | here |
//! |---|---|
//! | to the background once ready, unless `--foreground` | the same |
//! | address, netmask, gateway: the host's own unless given | the same; neighbours are reached through the gateway |
//! | the gateway's address means the host's 127.0.0.1, unless `--no-map-gw` | the same; `--map-host-loopback` chooses another address in its place, for both versions of IP |
//! | `-t`, `-u`, `-T`, `-U`: `none`, `auto`, lists and ranges | the same ([`ports`]); `all`, and words with `~`, are errors |
//! | without `--config-net`: DHCP | an error |
//! | IPv6 if the host has a route for it, unless `--ipv4-only` | the same; `fe80::1` is the gateway where the host's is not of the link |
//!
//! Locks: none.
//! Sources: passt(1).

mod ports;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::placed::{as_v4, as_v6};
use super::{
    AttachArgs, AttachTarget, FamilyOpts, NetOpts, OutboundAddr, OutboundOpts, Proto, PublishRange,
    TapUse,
};
use crate::addressing::{Addressing, Addressing6};
use crate::sys::routes::{self, DefaultRoute, DefaultRoute6};
use ports::NamedPorts;
pub(crate) use ports::{LoopbackOpts, OutwardRequest};

/// Unless `--mtu` says otherwise.
const MTU_DEFAULT: u16 = 65_520;
/// The gateway of IPv6 if the host's has no link-local address.
const LINK_GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// The directory in which `ip netns` keeps names.
const NAMES: &str = "/run/netns";
/// Told to users who want the namespace made too.
const MAKES_ONE: &str =
    "mbuma pasta serves one that is there already; `mbuma run -- COMMAND` makes one for COMMAND";

/// The command line of pasta.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub(crate) struct PastaArgs {
    /// A process in the network namespace
    #[arg(value_name = "PID", value_parser = process)]
    pid_of: Option<i32>,

    /// The network namespace: a file, or a name that `ip netns` gave
    #[arg(long, value_name = "PATH|NAME", conflicts_with = "pid_of")]
    netns: Option<PathBuf>,

    /// The user namespace to enter
    #[arg(long, value_name = "PATH")]
    userns: Option<PathBuf>,

    /// Enter no user namespace but the one that owns the network namespace
    #[arg(long)]
    netns_only: bool,

    /// Configure the interface in the namespace
    #[arg(long)]
    config_net: bool,

    /// Name of the interface [default: that of the host's interface with the default route]
    #[arg(short = 'I', long, value_name = "NAME", value_parser = super::ifname)]
    ns_ifname: Option<String>,

    /// Ethernet address of the interface
    #[arg(long, value_name = "MAC", value_parser = super::slirp4netns::mac)]
    ns_mac_addr: Option<[u8; 6]>,

    /// The interface's MTU
    #[arg(short = 'm', long, value_name = "MTU", default_value_t = MTU_DEFAULT,
          value_parser = super::number::mtu)]
    mtu: u16,

    /// The guest's address, once for each version of IP [default: the host's]
    #[arg(short = 'a', long, value_name = "ADDR")]
    address: Vec<IpAddr>,

    /// The length of its IPv4 network's prefix, or its mask
    #[arg(short = 'n', long, value_name = "MASK", value_parser = prefix_len, default_value = "24")]
    netmask: u8,

    /// The guest's gateway, once for each version of IP [default: the host's]; that of IPv6 is an address of the link
    #[arg(short = 'g', long, value_name = "ADDR")]
    gateway: Vec<IpAddr>,

    /// Source address of outgoing connections, once for each version of IP
    #[arg(short = 'o', long, value_name = "ADDR")]
    outbound: Vec<OutboundAddr>,

    /// Answer names at this address, once for each version of IP
    #[arg(long, value_name = "ADDR")]
    dns_forward: Vec<IpAddr>,

    /// Do not let the gateway's address reach the host's 127.0.0.1
    #[arg(long)]
    no_map_gw: bool,

    /// Let this address, in the gateway's place, reach the host's 127.0.0.1 or ::1, once for each version of IP
    #[arg(long, value_name = "ADDR|none", value_parser = mapped)]
    map_host_loopback: Vec<MappedAddr>,

    /// Let this address reach the host at its own address, once for each version of IP
    #[arg(long, value_name = "ADDR|none", value_parser = mapped)]
    map_guest_addr: Vec<MappedAddr>,

    /// TCP ports of the host that lead into the guest: none, auto, or as in 127.0.0.1/8080-8081:80-81,443
    ///
    /// auto: those on which programs of the guest listen. mbuma looks once a second. A port that is in use on the host, or that
    /// mbuma may not open, is left out.
    #[arg(short = 't', long, value_name = "SPEC", default_value = "auto")]
    tcp_ports: Vec<String>,

    /// The same for UDP
    ///
    /// auto: those to which programs of the guest are bound, outside of the range of ports that the kernel chooses, and those
    /// on which they listen for TCP.
    #[arg(short = 'u', long, value_name = "SPEC", default_value = "auto")]
    udp_ports: Vec<String>,

    /// TCP ports of the guest's loopback that lead to the host's loopback: none, auto, or as in 8080-8081:80-81,443
    ///
    /// auto: those on which programs of the host listen.
    #[arg(short = 'T', long, value_name = "SPEC", default_value = "auto")]
    tcp_ns: Vec<String>,

    /// The same for UDP
    #[arg(short = 'U', long, value_name = "SPEC", default_value = "auto")]
    udp_ns: Vec<String>,

    /// Do not answer DHCP
    #[arg(long)]
    no_dhcp: bool,

    /// Do not answer DHCPv6, which is always so
    #[arg(long)]
    no_dhcpv6: bool,

    /// Send no router advertisements, which is always so
    #[arg(long)]
    no_ra: bool,

    /// No neighbour discovery, and so IPv4 only
    #[arg(long, conflicts_with = "ipv6_only")]
    no_ndp: bool,

    /// Connections to the host's loopback reach servers on the guest's, which they do in any case
    #[arg(long)]
    host_lo_to_ns_lo: bool,

    /// Write frames to FILE, as pcapng
    #[arg(short = 'p', long, value_name = "FILE", value_parser = super::capture_path)]
    pcap: Option<PathBuf>,

    /// Write the process number to FILE
    #[arg(short = 'P', long, value_name = "FILE")]
    pub(crate) pid: Option<PathBuf>,

    /// Stay in the foreground
    #[arg(short = 'f', long)]
    pub(crate) foreground: bool,

    /// Print only errors, which is always so
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Print on standard error, which is always so
    #[arg(short = 'e', long)]
    stderr: bool,

    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6_only")]
    ipv4_only: bool,

    /// IPv6 only
    #[arg(short = '6', long)]
    ipv6_only: bool,

    /// Print the version
    #[arg(long)]
    version: bool,
}

/// An address that means one of the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MappedAddr {
    Addr(IpAddr),
    None,
}

impl PastaArgs {
    /// The options of `attach`; `None` if only the version was requested.
    ///
    /// # Errors
    /// An option is not supported, or there is no namespace.
    pub(crate) fn to_attach(&self) -> Result<Option<AttachArgs>, String> {
        if self.version {
            let version = env!("CARGO_PKG_VERSION");
            crate::print_line(&format!("mbuma {version}, in the place of pasta"));
            return Ok(None);
        }
        let target = self.target()?;
        if !self.config_net {
            return Err(
                "without --config-net the guest would ask by DHCP, which mbuma does not answer for a guest \
                 with the host's address: give --config-net"
                    .to_owned(),
            );
        }
        let (host, host6) = (routes::default_route(), routes::default_route6());
        let (publish, loopback) = self.ports()?;
        let net = NetOpts {
            publish,
            loopback,
            ..self.network(host.as_ref(), host6.as_ref())?
        };
        let name = host.map(|host| host.interface);
        let name = name.or(host6.map(|host| host.interface));
        let hosts_name = || name.unwrap_or_else(|| "tap0".to_owned());
        Ok(Some(AttachArgs {
            target,
            ifname: self.ns_ifname.clone().unwrap_or_else(hosts_name),
            ready_fd: None,
            exit_fd: None,
            userns_path: self.userns.clone().filter(|_| !self.netns_only),
            net,
        }))
    }

    fn target(&self) -> Result<AttachTarget, String> {
        match (&self.netns, self.pid_of) {
            // A name, as `ip netns` has it, is no path.
            (Some(name), _) if name.components().count() == 1 && !name.exists() => {
                Ok(AttachTarget::Path(Path::new(NAMES).join(name)))
            }
            (Some(path), _) => Ok(AttachTarget::Path(path.clone())),
            (None, Some(pid)) => Ok(AttachTarget::Pid(pid)),
            (None, None) => Err(format!("which namespace? {MAKES_ONE}")),
        }
    }

    /// Addresses, and their meanings.
    fn network(
        &self,
        host: Option<&DefaultRoute>,
        host6: Option<&DefaultRoute6>,
    ) -> Result<NetOpts, String> {
        let dns = self.dns_forward.iter().find_map(as_v4);
        let given = (
            self.address.iter().find_map(as_v4),
            self.gateway.iter().find_map(as_v4),
        );
        if given.0.is_some() != given.1.is_some() {
            return Err("-a and -g of IPv4 go together".to_owned());
        }
        let v6 = self.v6(host6)?;
        let cidr = match (given.0, given.1, host) {
            (Some(guest), Some(gateway), _) => Addressing {
                guest,
                gateway,
                dns: dns.unwrap_or(gateway),
                prefix_len: self.netmask,
                routed: false,
            },
            (_, _, Some(host)) => Addressing {
                guest: host.addr,
                gateway: host.gateway,
                dns: dns.unwrap_or(host.gateway),
                prefix_len: host.prefix_len,
                routed: true,
            },
            // A host without a network still has one between itself and its guest.
            (_, _, None) => Addressing {
                dns: dns.unwrap_or(Addressing::DEFAULT.dns),
                ..Addressing::DEFAULT
            },
        };
        Ok(NetOpts {
            host_loopback: !self.no_map_gw && self.map_host_loopback.is_empty(),
            mtu: Some(self.mtu),
            cidr,
            outbound: OutboundOpts::of(self.outbound.clone()),
            families: FamilyOpts::of(!self.ipv6_only, v6),
            no_dns: self.dns_forward.is_empty(),
            no_dhcp: self.no_dhcp,
            mac: self.ns_mac_addr,
            tap: TapUse::Configure,
            pcap: self.pcap.clone(),
            maps: self.mappings(host, host6),
            ..NetOpts::default()
        })
    }

    /// The guest's addresses of IPv6, if it is to have any.
    fn v6(&self, host: Option<&DefaultRoute6>) -> Result<Option<Addressing6>, String> {
        let guest = self.address.iter().find_map(as_v6);
        let guest = guest.or(host.map(|host| host.addr));
        let Some(guest) = guest.filter(|_| !self.ipv4_only && !self.no_ndp) else {
            return match self.ipv6_only {
                true => Err("--ipv6-only: the host has no default route of IPv6".to_owned()),
                false => Ok(None),
            };
        };
        let given = self.gateway.iter().find_map(as_v6);
        if given.is_some_and(|gateway| !gateway.is_unicast_link_local()) {
            return Err("-g of IPv6 is an address of the link, as in fe80::1".to_owned());
        }
        let hosts = host.and_then(DefaultRoute6::link_gateway);
        let gateway = given.or(hosts).unwrap_or(LINK_GATEWAY);
        let dns = self.dns_forward.iter().find_map(as_v6);
        Ok(Some(Addressing6::shared(guest, gateway, dns)))
    }

    /// The addresses that mean the host: its loopback before its own address, which it has only with a network.
    fn mappings(
        &self,
        host: Option<&DefaultRoute>,
        host6: Option<&DefaultRoute6>,
    ) -> Vec<(IpAddr, IpAddr)> {
        let loopback = |from: IpAddr| match from {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let own = |from| match from {
            IpAddr::V4(_) => Some(host?.addr.into()),
            IpAddr::V6(_) => Some(host6?.addr.into()),
        };
        let loopbacks = named(&self.map_host_loopback).map(|from| (from, loopback(from)));
        let owns = named(&self.map_guest_addr).filter_map(|from| Some((from, own(from)?)));
        loopbacks.chain(owns).collect()
    }

    /// The ports that are published at the start, and those at the loopback or that mbuma finds itself.
    fn ports(&self) -> Result<(Vec<PublishRange>, LoopbackOpts), String> {
        let (mut published, mut loopback) = (Vec::new(), LoopbackOpts::default());
        let inward = [
            ("-t", &self.tcp_ports, Proto::Tcp),
            ("-u", &self.udp_ports, Proto::Udp),
        ];
        for (option, specs, proto) in inward {
            match NamedPorts::of(option, specs, proto)? {
                NamedPorts::Auto => loopback.follow_guest.push(proto),
                NamedPorts::Listed(ranges) => published.extend(ranges),
            }
        }
        let outward = [
            ("-T", &self.tcp_ns, Proto::Tcp),
            ("-U", &self.udp_ns, Proto::Udp),
        ];
        for (option, specs, proto) in outward {
            match NamedPorts::of(option, specs, proto)? {
                NamedPorts::Auto => loopback.follow_host.push(proto),
                listed => loopback.outward.extend(listed.outward(option)?),
            }
        }
        Ok((published, loopback))
    }
}

/// A process number, where pasta itself also takes a command.
fn process(text: &str) -> Result<i32, String> {
    let pid = text.parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| format!("it is not a process number: which namespace? {MAKES_ONE}"))
}

/// `24` or `255.255.255.0`.
fn prefix_len(text: &str) -> Result<u8, String> {
    let from_mask = |mask: Ipv4Addr| {
        let len = mask.to_bits().leading_ones();
        (mask.to_bits().count_ones() == len).then_some(len as u8)
    };
    let len = match text.parse::<Ipv4Addr>() {
        Ok(mask) => from_mask(mask),
        Err(_) => text.parse().ok(),
    };
    len.filter(|len| (1..=30).contains(len))
        .ok_or_else(|| format!("`{text}` is no mask"))
}

/// The addresses among these.
fn named(all: &[MappedAddr]) -> impl Iterator<Item = IpAddr> {
    all.iter().filter_map(|mapped| match mapped {
        MappedAddr::Addr(addr) => Some(*addr),
        MappedAddr::None => None,
    })
}

/// An address, or `none`.
fn mapped(text: &str) -> Result<MappedAddr, String> {
    match text {
        "none" => Ok(MappedAddr::None),
        addr => addr
            .parse()
            .map(MappedAddr::Addr)
            .map_err(|_| format!("`{addr}` is no address")),
    }
}

#[cfg(test)]
mod tests;
