//! The command line of slirp4netns, as container engines write it, turned into that of `attach`.
//!
//! | slirp4netns | here |
//! |---|---|
//! | host loopback open, unless `--disable-host-loopback` | the same: the opposite of `attach` |
//! | no isolation, unless `--enable-sandbox`, `--enable-seccomp` | always; with one of the words, an isolation with gaps is an error |
//! | IPv4 only, unless `--enable-ipv6` | the same |
//! | without `-c`: the TAP that is there, or a new one, and nothing configured | the same |
//!
//! Locks: none.
//! Sources: slirp4netns(1), version 1.2.

use std::path::PathBuf;

use clap::ValueEnum;
use wire::MacAddr;

use super::{
    AttachArgs, AttachTarget, FamilyOpts, NetOpts, OutboundAddr, OutboundOpts, TapUse, ifname,
    number,
};
use crate::addressing::Addressing;

/// Of slirp4netns.
const MTU_DEFAULT: u16 = 1500;
/// The release whose options and API mbuma has: programs compare it with the release that they need.
const IN_PLACE_OF: &str = "slirp4netns version 1.2.0";

/// The command line of slirp4netns.
#[derive(Debug, clap::Args)]
#[command(disable_version_flag = true)]
pub(crate) struct SlirpArgs {
    /// A process in the network namespace, or a file of the namespace
    #[arg(value_name = "PID|PATH", required_unless_present = "version")]
    target: Option<String>,

    /// Name of the interface
    #[arg(value_name = "TAPNAME", default_value = "tap0", value_parser = ifname)]
    tapname: String,

    /// Bring the interface up, with address and routes
    #[arg(short = 'c', long)]
    configure: bool,

    /// End when this descriptor is closed at its other end
    #[arg(short = 'e', long, value_name = "FD", value_parser = number::descriptor)]
    exit_fd: Option<i32>,

    /// Write `1` to this descriptor, and close it, once the network is up
    #[arg(short = 'r', long, value_name = "FD", value_parser = number::descriptor)]
    ready_fd: Option<i32>,

    /// The interface's MTU
    #[arg(short = 'm', long, value_name = "MTU", default_value_t = MTU_DEFAULT,
          value_parser = number::mtu)]
    mtu: u16,

    /// Give the guest IPv6 too: fd00::/64, with the gateway at fd00::2 and the name server at fd00::3
    #[arg(short = '6', long)]
    enable_ipv6: bool,

    /// Answer at PATH, a new UNIX-domain socket, requests to publish ports
    #[arg(short = 'a', long, value_name = "PATH")]
    api_socket: Option<PathBuf>,

    /// The network: its hosts 2, 3 and 100 are the gateway, the name server and the guest
    #[arg(long, value_name = "CIDR", default_value = "10.0.2.0/24")]
    cidr: Addressing,

    /// Do not let the gateway's address reach the host's 127.0.0.1
    #[arg(long)]
    disable_host_loopback: bool,

    /// The kind of the first argument
    #[arg(long, value_name = "TYPE", default_value = "pid")]
    netns_type: NetnsType,

    /// The user namespace to enter, instead of the one that owns the network namespace
    #[arg(long, value_name = "PATH")]
    userns_path: Option<PathBuf>,

    /// End with an error unless the process that serves the guest has no files and no capabilities
    #[arg(long)]
    enable_sandbox: bool,

    /// End with an error unless its system calls are limited to those that it needs
    #[arg(long)]
    enable_seccomp: bool,

    /// Source address of outgoing connections: an IPv4 address or an interface of the host
    #[arg(long, value_name = "ADDR|IF")]
    outbound_addr: Option<OutboundAddr>,

    /// The same for IPv6
    #[arg(long, value_name = "ADDR|IF")]
    outbound_addr6: Option<OutboundAddr>,

    /// Answer no names at the name server's address
    #[arg(long)]
    disable_dns: bool,

    /// Ethernet address of the interface, with -c
    #[arg(long, value_name = "MAC", requires = "configure", value_parser = mac)]
    macaddress: Option<[u8; 6]>,

    /// Only `netns` is served
    #[arg(long, value_name = "TYPE", default_value = "netns")]
    target_type: TargetType,

    /// Print the version
    #[arg(short = 'v', long)]
    version: bool,
}

/// The meaning of the first argument, by `--netns-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NetnsType {
    /// A process.
    Pid,
    /// A file.
    Path,
}

/// The kinds of guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetType {
    /// A network namespace.
    Netns,
}

impl SlirpArgs {
    /// The options of `attach`; `None` if only the version was requested.
    ///
    /// # Errors
    /// The first argument is not of the kind that `--netns-type` says.
    pub(crate) fn into_attach(self) -> Result<Option<AttachArgs>, String> {
        let Some(target) = self.target.as_deref().filter(|_| !self.version) else {
            let version = env!("CARGO_PKG_VERSION");
            crate::print_line(&format!("{IN_PLACE_OF}\nmbuma: {version}"));
            return Ok(None);
        };
        let target = match self.netns_type {
            NetnsType::Path => AttachTarget::Path(PathBuf::from(target)),
            NetnsType::Pid => match super::attach_target(target)? {
                pid @ AttachTarget::Pid(_) => pid,
                AttachTarget::Path(_) => {
                    return Err(format!(
                        "`{target}` is no process: a file takes --netns-type=path"
                    ));
                }
            },
        };
        Ok(Some(self.attach(target)))
    }

    fn attach(self, target: AttachTarget) -> AttachArgs {
        AttachArgs {
            target,
            ifname: self.tapname,
            ready_fd: self.ready_fd,
            exit_fd: self.exit_fd,
            userns_path: self.userns_path,
            outlives_target: false,
            net: NetOpts {
                host_loopback: !self.disable_host_loopback,
                mtu: Some(self.mtu),
                cidr: self.cidr,
                api_socket: self.api_socket,
                outbound: OutboundOpts::of(
                    self.outbound_addr.into_iter().chain(self.outbound_addr6),
                ),
                families: match self.enable_ipv6 {
                    true => FamilyOpts::BOTH,
                    false => FamilyOpts::V4,
                },
                no_dns: self.disable_dns,
                mac: self.macaddress,
                tap: match self.configure {
                    true => TapUse::Configure,
                    false => TapUse::Leave,
                },
                demands_isolation: self.enable_sandbox || self.enable_seccomp,
                ..NetOpts::default()
            },
        }
    }
}

/// The Ethernet address of one station.
pub(super) fn mac(text: &str) -> Result<[u8; 6], String> {
    let mac: MacAddr = text
        .parse()
        .map_err(|_| "it takes six bytes, as in 02:00:00:00:00:01")?;
    match mac.is_multicast() {
        true => Err("that is a group's address".to_owned()),
        false => Ok(mac.0),
    }
}

#[cfg(test)]
mod tests;
