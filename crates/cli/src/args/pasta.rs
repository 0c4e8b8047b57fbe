//! The command line of pasta, as rootlesskit, podman 5 and people write it, turned into that of `attach` or of `run`.
//!
//! | pasta | here |
//! |---|---|
//! | to the background once ready, unless `--foreground` or with a command | the same |
//! | an option that is given again replaces the earlier one, but for lists | the same |
//! | addresses, and what means the host | the same ([`network`]) |
//! | `-t`, `-u`, `-T`, `-U`: `none`, `auto`, lists and ranges | the same ([`ports`]); `all` without `auto` is an error |
//! | without `--config-net`: DHCP | an error; a command's interface is always configured |
//! | a command, or a shell, in a new user and network namespace | the same, by `run` |
//! | a command in a new PID namespace, without `--no-pidns` | it sees the host's processes |
//!
//! The options of later releases are known too. Where two releases differ, `-D` is the older one's: the host's name
//! servers behind `--dns-forward`, which the newer one calls `--dns-host`.
//!
//! Locks: none.
//! Sources: passt(1), of 2023-03 and of 2026.

mod network;
mod ports;
mod refused;

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::{
    AttachArgs, AttachTarget, IgnoredProtocols, NetOpts, OutboundAddr, Proto, PublishRange,
    RunArgs, names,
};
use network::{GivenAddr, HostRoutes, MappedAddr};
use ports::NamedPorts;
pub(crate) use ports::{LoopbackOpts, OutwardRequest};
use refused::RefusedOpts;

/// Unless `--mtu` says otherwise.
const MTU_DEFAULT: u16 = 65_520;
/// The kernel's own choice for a TAP, with `--mtu 0`.
const MTU_OF_KERNEL: u16 = 1500;
/// The directory in which `ip netns` keeps names.
const NAMES: &str = "/run/netns";
/// Unless $SHELL names another.
const SHELL_DEFAULT: &str = "/bin/sh";

/// The command line of pasta.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true, args_override_self = true)]
#[command(
    override_usage = "mbuma pasta [OPTIONS] [COMMAND [ARG]...]\n       mbuma pasta [OPTIONS] PID\n       \
                      mbuma pasta [OPTIONS] --netns <PATH|NAME>"
)]
pub(crate) struct PastaArgs {
    /// A process in the network namespace; or a program to run, as root of a new user and network namespace
    ///
    /// Without one and without --netns: $SHELL. mbuma exits with its status, and configures its interface also without
    /// --config-net. Its /etc/resolv.conf names the address of --dns-forward, or else the gateway, as its name server.
    #[arg(
        value_name = "PID|COMMAND",
        trailing_var_arg = true,
        conflicts_with = "netns"
    )]
    operands: Vec<OsString>,

    /// The network namespace: a file, or a name that `ip netns` gave
    #[arg(long, value_name = "PATH|NAME")]
    netns: Option<PathBuf>,

    /// The user namespace to enter
    #[arg(long, value_name = "PATH")]
    userns: Option<PathBuf>,

    /// Enter no user namespace but the one that owns the network namespace
    #[arg(long)]
    netns_only: bool,

    /// Go on when the namespace's name is removed, or its process has ended
    #[arg(long)]
    no_netns_quit: bool,

    /// Keep the program in mbuma's own PID namespace, which is always so
    #[arg(long)]
    no_pidns: bool,

    /// Configure the interface in the namespace
    #[arg(long)]
    config_net: bool,

    /// Name of the interface [default: that of the host's interface with the default route]
    #[arg(short = 'I', long, value_name = "NAME", value_parser = super::ifname)]
    ns_ifname: Option<String>,

    /// Ethernet address of the interface
    #[arg(long, value_name = "MAC", value_parser = super::slirp4netns::mac)]
    ns_mac_addr: Option<[u8; 6]>,

    /// Ethernet address of the gateway
    #[arg(short = 'M', long, value_name = "MAC", value_parser = super::slirp4netns::mac)]
    mac_addr: Option<[u8; 6]>,

    /// The interface's MTU; 0 is the kernel's choice
    #[arg(short = 'm', long, value_name = "MTU", default_value_t = MTU_DEFAULT, value_parser = mtu)]
    mtu: u16,

    /// The guest's address, once for each version of IP [default: the host's]
    #[arg(short = 'a', long, value_name = "ADDR[/LEN]")]
    address: Vec<GivenAddr>,

    /// The length of its IPv4 network's prefix, or its mask [default: the host's if it has the address, else by its
    /// class]
    #[arg(short = 'n', long, value_name = "MASK", value_parser = network::prefix_len)]
    netmask: Option<u8>,

    /// The guest's gateway, once for each version of IP [default: the host's]
    #[arg(short = 'g', long, value_name = "ADDR", value_parser = crate::special::host_addr)]
    gateway: Vec<IpAddr>,

    /// Take the guest's addresses from this interface of the host [default: the one with the default route]
    #[arg(short = 'i', long, value_name = "NAME", value_parser = super::any_ifname)]
    interface: Option<String>,

    /// Source address of outgoing connections, once for each version of IP
    #[arg(short = 'o', long, value_name = "ADDR")]
    outbound: Vec<OutboundAddr>,

    /// Interface of the host by which outgoing IPv4 leaves; without -i, its addresses are the guest's
    #[arg(long, value_name = "NAME", value_parser = super::any_ifname)]
    outbound_if4: Option<String>,

    /// The same for IPv6
    #[arg(long, value_name = "NAME", value_parser = super::any_ifname)]
    outbound_if6: Option<String>,

    /// Answer names at this address, once for each version of IP
    #[arg(long, value_name = "ADDR")]
    dns_forward: Vec<IpAddr>,

    /// Forward names to this name server instead of the host's. May be repeated. `none`: answer no names
    #[arg(short = 'D', long, visible_alias = "dns-host", value_name = "ADDR|none", value_parser = network::server)]
    dns: Vec<MappedAddr>,

    /// Have the program, or a guest that asks by DHCP, search names in these domains, with spaces between them; or
    /// `none`
    #[arg(short = 'S', long, value_name = "LIST", value_parser = domains)]
    search: Option<Domains>,

    /// Name the program's host, or a guest that asks by DHCP
    #[arg(short = 'H', long, value_name = "NAME", value_parser = names::host_name)]
    hostname: Option<String>,

    /// Name the name server's address by DHCP, which is always so
    #[arg(long)]
    dhcp_dns: bool,

    /// Name the domains of --search by DHCP, which is always so
    #[arg(long)]
    dhcp_search: bool,

    /// Do not let the gateway's address reach the host's 127.0.0.1
    #[arg(long)]
    no_map_gw: bool,

    /// Let this address, in the gateway's place, reach the host's 127.0.0.1 or ::1, once for each version of IP; none:
    /// no address
    #[arg(long, value_name = "ADDR|none", value_parser = network::mapped)]
    map_host_loopback: Vec<MappedAddr>,

    /// Let this address reach the host at its own address, once for each version of IP
    #[arg(long, value_name = "ADDR|none", value_parser = network::mapped)]
    map_guest_addr: Vec<MappedAddr>,

    /// TCP ports of the host that lead into the guest: none, auto, or as in 127.0.0.1/8080-8081:80-81,443
    ///
    /// auto: those on which programs of the guest listen; 8000-8010,auto: of these ports; auto,~8080: without this one.
    /// mbuma looks once a second. A port that is in use on the host, or that mbuma may not open, is left out.
    /// 8080:10.0.2.9/80 leads to another address of the guest, 8080:127.0.0.1/80 to its loopback for all clients.
    #[arg(short = 't', long, value_name = "SPEC", default_value = "auto")]
    tcp_ports: Vec<String>,

    /// The same for UDP
    ///
    /// auto: those to which programs of the guest are bound, at other addresses than its loopback and outside of the
    /// range of ports that the kernel chooses, and those on which they listen for TCP.
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

    /// Leave TCP without an answer
    #[arg(long)]
    no_tcp: bool,

    /// Leave UDP without an answer
    #[arg(long)]
    no_udp: bool,

    /// Leave pings without an answer
    #[arg(long)]
    no_icmp: bool,

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

    /// Connections to the host's loopback, and only these, reach servers on the guest's, which is always so
    #[arg(long)]
    host_lo_to_ns_lo: bool,

    /// Lead clients of the host through the guest's interface, which is always so
    #[arg(long, conflicts_with = "host_lo_to_ns_lo")]
    no_splice: bool,

    /// Give the guest one address, which is always so
    #[arg(long)]
    no_copy_addrs: bool,

    /// Give the guest the default route alone, which is always so
    #[arg(long)]
    no_copy_routes: bool,

    /// Write frames to FILE, as pcapng
    #[arg(short = 'p', long, value_name = "FILE", value_parser = super::capture_path)]
    pcap: Option<PathBuf>,

    /// Write the process number to FILE
    #[arg(short = 'P', long, value_name = "FILE")]
    pub(crate) pid: Option<PathBuf>,

    /// Print into FILE, which is emptied first, in the place of standard error
    #[arg(short = 'l', long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// Stay in the foreground
    #[arg(short = 'f', long)]
    pub(crate) foreground: bool,

    /// Print only errors, which is so without --debug
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Print the guest's addresses and their meanings first
    #[arg(short = 'd', long)]
    debug: bool,

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

    /// What mbuma does not do.
    #[command(flatten)]
    refused: RefusedOpts,
}

/// Domains to search in; none of the host's either if the list is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Domains(Vec<String>);

impl PastaArgs {
    /// The options of `attach`; `None` if only the version was requested.
    ///
    /// # Errors
    /// An option is not supported.
    pub(crate) fn to_attach(&self) -> Result<Option<AttachArgs>, String> {
        if self.version {
            let version = env!("CARGO_PKG_VERSION");
            crate::print_line(&format!("mbuma {version}, in the place of pasta"));
            return Ok(None);
        }
        self.refused.check()?;
        let Some(target) = self.target() else {
            return Ok(None);
        };
        if self.no_pidns {
            return Err("--no-pidns is for a program that mbuma starts".to_owned());
        }
        if !self.config_net {
            return Err(
                "without --config-net the guest would ask by DHCP, which mbuma does not answer for a guest \
                 with the host's address: give --config-net"
                    .to_owned(),
            );
        }
        let (ifname, net) = self.interface_and_network()?;
        Ok(Some(AttachArgs {
            target,
            ifname,
            ready_fd: None,
            exit_fd: None,
            userns_path: self.userns.clone().filter(|_| !self.netns_only),
            outlives_target: self.no_netns_quit,
            net,
        }))
    }

    /// The options of `run`; `None` if only the version was requested, or a namespace is named.
    ///
    /// # Errors
    /// An option is not supported.
    pub(crate) fn to_run(&self) -> Result<Option<RunArgs>, String> {
        if self.version || self.target().is_some() {
            return Ok(None);
        }
        self.refused.check()?;
        if self.netns_only || self.userns.is_some() {
            return Err(
                "--netns-only, --userns: the program's namespaces are new, unless a PID or --netns names them"
                    .to_owned(),
            );
        }
        let (ifname, net) = self.interface_and_network()?;
        let search = self
            .search
            .clone()
            .map(|Domains(all)| match all.is_empty() {
                true => vec![".".to_owned()],
                false => all,
            });
        Ok(Some(RunArgs {
            map_root: true,
            ifname,
            hostname: self.hostname.clone(),
            add_host: Vec::new(),
            search: search.unwrap_or_default(),
            network: None,
            net,
            command: match &*self.operands {
                [] => vec![shell()],
                command => command.to_vec(),
            },
        }))
    }

    /// The guest's interface, and its network.
    fn interface_and_network(&self) -> Result<(String, NetOpts), String> {
        let host = HostRoutes::find(self);
        let (publish, loopback) = self.ports()?;
        let net = NetOpts {
            publish,
            loopback,
            ..self.network(&host)?
        };
        let ifname = self.guest_ifname(&host)?;
        if !self.quiet {
            self.refused.notes().for_each(crate::say);
            let describes = self.debug || self.refused.trace;
            let described = describes.then(|| network::description(&ifname, &net));
            described.iter().for_each(|text| crate::say(text));
        }
        Ok((ifname, net))
    }

    /// The namespace that is there already, if one is named.
    fn target(&self) -> Option<AttachTarget> {
        match (&self.netns, &*self.operands) {
            // A name, as `ip netns` has it, is no path.
            (Some(name), _) if name.components().count() == 1 && !name.exists() => {
                Some(AttachTarget::Path(Path::new(NAMES).join(name)))
            }
            (Some(path), _) => Some(AttachTarget::Path(path.clone())),
            (None, [word]) => process(word).map(AttachTarget::Pid),
            (None, _) => None,
        }
    }

    /// The name of the guest's interface.
    ///
    /// # Errors
    /// The host's interface has a name that no other may have.
    fn guest_ifname(&self, host: &HostRoutes) -> Result<String, String> {
        match (&self.ns_ifname, host.interface()) {
            (Some(name), _) => Ok(name.clone()),
            (None, Some(name)) => super::ifname(&name)
                .map_err(|e| format!("the guest's interface can't be called {name}: {e}: give -I")),
            (None, None) => Ok("tap0".to_owned()),
        }
    }

    /// The protocols that stay without an answer.
    fn ignored(&self) -> IgnoredProtocols {
        IgnoredProtocols {
            tcp: self.no_tcp,
            udp: self.no_udp,
            icmp: self.no_icmp,
        }
    }

    /// The ports that are published at the start, and those at the loopback or that mbuma finds itself.
    fn ports(&self) -> Result<(Vec<PublishRange>, LoopbackOpts), String> {
        let mut published = Vec::new();
        let mut loopback = LoopbackOpts {
            is_private: true,
            ..LoopbackOpts::default()
        };
        let inward = [
            ("-t", &self.tcp_ports, Proto::Tcp),
            ("-u", &self.udp_ports, Proto::Udp),
        ];
        let ignored = self.ignored();
        for (option, specs, proto) in inward {
            let named = NamedPorts::of(option, specs, proto)?;
            if !ignored.has(proto) {
                published.extend(named.listed);
                loopback.follow_guest.extend(named.followed);
            }
        }
        let outward = [
            ("-T", &self.tcp_ns, Proto::Tcp),
            ("-U", &self.udp_ns, Proto::Udp),
        ];
        for (option, specs, proto) in outward {
            let named = NamedPorts::of(option, specs, proto)?;
            let listed = named.outward(option)?;
            if !ignored.has(proto) {
                loopback.outward.extend(listed);
                loopback.follow_host.extend(named.followed);
            }
        }
        Ok((published, loopback))
    }
}

/// A process number; any other word is a command.
fn process(word: &OsStr) -> Option<i32> {
    let pid = word.to_str()?.parse().ok();
    pid.filter(|pid| *pid > 0)
}

/// The user's shell.
fn shell() -> OsString {
    let named = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    named.unwrap_or_else(|| SHELL_DEFAULT.into())
}

/// The interface's MTU.
fn mtu(text: &str) -> Result<u16, String> {
    match text {
        "0" => Ok(MTU_OF_KERNEL),
        text => super::number::mtu(text),
    }
}

/// Domains with spaces between them, or `none`.
fn domains(text: &str) -> Result<Domains, String> {
    let words = text.split_ascii_whitespace().filter(|word| *word != "none");
    // `none.` is a domain.
    let words = words.map(|word| names::domain(word.trim_end_matches('.')));
    words.collect::<Result<_, _>>().map(Domains)
}

#[cfg(test)]
mod tests;
