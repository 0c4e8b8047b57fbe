//! The guest's side: its interface, and the files that its programs need.
//!
//! All functions here that make changes run in the forked child, inside the guest's namespaces.
//!
//! Invariants: nothing outside the guest's namespaces changes, so there is nothing to undo.
//! Locks: none.

mod files;
mod ip6;
mod link;
mod own_files;
mod unsent;

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;
use serde::{Serialize, Serializer};
use wire::MacAddr;

use crate::addressing::{Addressing, Addressing6};
use crate::args::{NetOpts, RunArgs, TapUse};
use crate::channel::{Channel, ChannelMessage, ConfiguredInterface};
use crate::errors::{EXIT_OWN_FAILURE, Error, Failure, SetupStep};
use crate::idmap;
use crate::say;
use crate::sys::mount;
use crate::sys::namespace::{self, NamespaceKind};
use crate::sys::netdev::NetdevSocket;
use crate::sys::socket;
use crate::sys::tap::{self, Offloads};
pub(crate) use link::GuestLink;
pub(crate) use own_files::{OwnFile, OwnFiles, hand_over};

/// Packets that may wait in each queue of the TAP until the stack reads them. The kernel's default of 1,000 loses SYNs
/// of a guest that opens a thousand connections at once; the sender retries after a second. A packet that waits is no
/// longer charged to its socket, so this number alone bounds the memory that a flood of datagrams takes, 64 KiB each,
/// and the time for which other packets wait behind it.
const TX_QUEUE_LEN: u32 = 2_000;
/// The kernel's bound for ping_group_range (GID_T_MAX in net/ipv4/ping.h).
const PING_GID_MAX: u32 = u32::MAX >> 1;

/// A guest, as the gateway serves it.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Frames from and to the guest's kernel.
    pub(crate) link: GuestLink,
    /// The offloads that those frames may use.
    pub(crate) offloads: Offloads,
    /// Servers on the guest's 127.0.0.1 can be reached.
    pub(crate) loopback: bool,
    /// The largest IP packet, on the interface and hence for the stack.
    pub(crate) mtu: u16,
    /// The addresses at the other end.
    pub(crate) ends: GuestEnd,
}

/// Names and addresses on the wire between the guest and the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GuestEnd {
    /// The interface's name in the guest.
    pub(crate) ifname: String,
    /// The guest's Ethernet address; zero if only its frames have it.
    #[serde(serialize_with = "mac_text", skip_serializing_if = "is_unknown")]
    pub(crate) mac: [u8; 6],
    /// Its IPv4 network, unless it has IPv6 only.
    #[serde(flatten)]
    pub(crate) v4: Option<Addressing>,
    /// Its IPv6 network, unless it has IPv4 only.
    #[serde(flatten)]
    pub(crate) v6: Option<Addressing6>,
}

/// An Ethernet address in text form.
fn mac_text<S: Serializer>(mac: &[u8; 6], to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&MacAddr(*mac))
}

fn is_unknown(mac: &[u8; 6]) -> bool {
    *mac == [0; 6]
}

impl GuestEnd {
    /// One with the usual networks, for tests.
    #[cfg(test)]
    pub(crate) fn usual() -> GuestEnd {
        GuestEnd {
            ifname: "tap0".to_owned(),
            mac: [2; 6],
            v4: Some(Addressing::DEFAULT),
            v6: Some(Addressing6::DEFAULT),
        }
    }

    /// The end of a guest with this network; `ip6`: it can have IPv6.
    pub(crate) fn new(ifname: &str, mac: [u8; 6], net: &NetOpts, ip6: bool) -> GuestEnd {
        GuestEnd {
            ifname: ifname.to_owned(),
            mac,
            v4: net.v4().copied(),
            v6: net.v6().filter(|_| ip6).copied(),
        }
    }

    /// Whether the guest has the address, or may add it: a host of its network that is not the stack's.
    pub(crate) fn may_have(&self, addr: IpAddr) -> bool {
        match (addr, &self.v4, &self.v6) {
            (IpAddr::V4(addr), Some(v4), _) => v4.guest_may_have(addr),
            (IpAddr::V6(addr), _, Some(v6)) => v6.guest_may_have(addr),
            _ => false,
        }
    }

    /// An address of each version of IP that the guest has, in words.
    pub(crate) fn each(
        &self,
        v4: impl FnOnce(&Addressing) -> Ipv4Addr,
        v6: impl FnOnce(&Addressing6) -> Option<Ipv6Addr>,
    ) -> String {
        let v4 = self.v4.as_ref().map(|network| v4(network).to_string());
        let v6 = self.v6.as_ref().and_then(v6).map(|addr| addr.to_string());
        let both: Vec<_> = v4.into_iter().chain(v6).collect();
        both.join(" and ")
    }
}

/// Its addresses.
impl fmt::Display for GuestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.each(|v4| v4.guest, |v6| Some(v6.guest)))
    }
}

/// The guest's interface, and the result of making it.
pub(crate) struct TapInterface {
    /// A descriptor a queue, at least one.
    pub(crate) taps: Vec<OwnedFd>,
    offloads: Offloads,
    configured: ConfiguredInterface,
}

impl TapInterface {
    /// Hands it over to mbuma, with the steps that failed and are not necessary.
    pub(crate) fn hand_over(&self, to: &Channel, warnings: Vec<Failure>) -> io::Result<()> {
        let ready = ChannelMessage::Ready {
            offloads: self.offloads,
            interface: self.configured,
            warnings,
        };
        let fds: Vec<_> = self.taps.iter().map(AsFd::as_fd).collect();
        to.send_all(&ready, &fds)
    }
}

/// Hands the interface over to mbuma, or reports why there is none: the last step of a helper. Returns the exit code.
pub(crate) fn answer(to: &Channel, made: Result<TapInterface, Failure>) -> u8 {
    let said = match made {
        Ok(interface) => interface.hand_over(to, Vec::new()),
        Err(failure) => to.send(&ChannelMessage::Failed(failure), None),
    };
    if said.is_ok() { 0 } else { EXIT_OWN_FAILURE }
}

/// Waits for the guest that the child makes. Prints the steps that failed and are not necessary.
pub(crate) fn receive(channel: &Channel, ifname: &str, net: &NetOpts) -> Result<Guest, Error> {
    match channel.recv_all().map_err(Failure::at(SetupStep::Child))? {
        Some((
            ChannelMessage::Ready {
                offloads,
                interface,
                warnings,
            },
            taps,
        )) if !taps.is_empty() => {
            warnings
                .iter()
                .for_each(|warning| say(&format!("warning: {warning}")));
            Ok(Guest {
                link: GuestLink::Taps(taps),
                offloads,
                loopback: interface.loopback,
                mtu: net.mtu(),
                ends: GuestEnd::new(ifname, interface.mac, net, interface.ip6),
            })
        }
        other => Err(not_ready(other.map(|(message, _)| message))),
    }
}

/// The reason why the child's message is missing.
pub(crate) fn not_ready(said: Option<ChannelMessage>) -> Error {
    match said {
        Some(ChannelMessage::Failed(failure)) => failure.into(),
        // It ended without a message, so a signal ended it.
        _ => Failure {
            step: SetupStep::Child,
            errno: libc::ECHILD,
        }
        .into(),
    }
}

/// Makes the TAP in the caller's network namespace, with the requested number of queues or as many as the kernel gives,
/// and configures the guest's side of it; or opens an existing one without changes.
pub(crate) fn make_interface(ifname: &str, net: &NetOpts) -> Result<TapInterface, Failure> {
    check_stack_address(net)?;
    let taps = open_taps(ifname, net)?;
    let offloads = tap::set_offloads(&taps[0], net.impair.is_none());
    let configured = match net.tap {
        TapUse::Leave => left_alone(ifname, net),
        TapUse::Make | TapUse::Configure => set_up(ifname, net),
    }?;
    Ok(TapInterface {
        taps,
        offloads,
        configured,
    })
}

/// Refuses an address of the namespace's own: its kernel would answer in the stack's place.
fn check_stack_address(net: &NetOpts) -> Result<(), Failure> {
    let Some(v4) = net.v4() else { return Ok(()) };
    if socket::is_local(v4.gateway.into()) {
        return Err(Failure {
            step: SetupStep::StackAddress,
            errno: libc::EADDRINUSE,
        });
    }
    Ok(())
}

/// The interface that its owner configures, now or later.
fn left_alone(ifname: &str, net: &NetOpts) -> Result<ConfiguredInterface, Failure> {
    Ok(ConfiguredInterface {
        mac: its_mac(ifname).map_err(Failure::at(SetupStep::Interface))?,
        loopback: false,
        ip6: net.v6().is_some(),
    })
}

fn open_taps(ifname: &str, net: &NetOpts) -> Result<Vec<OwnedFd>, Failure> {
    let open = || tap::open().map_err(Failure::at(SetupStep::OpenTun));
    let made = tap::create(open()?, ifname, net.workers());
    let there = |e: &io::Error| e.raw_os_error() == Some(libc::EBUSY);
    let taps = match made {
        // If another program uses a TAP with several queues, the kernel would give us a queue more, and divide the
        // flows between the two programs.
        Err(e) if there(&e) && net.tap != TapUse::Make && !is_in_use(ifname) => {
            tap::adopt(open()?, ifname, net.workers())
        }
        made => made,
    };
    taps.map_err(Failure::at(SetupStep::MakeTap))
}

/// Whether a program holds the other end of the TAP, as far as that can be known.
fn is_in_use(ifname: &str) -> bool {
    NetdevSocket::open().is_ok_and(|socket| socket.has_carrier(ifname).unwrap_or(false))
}

/// Configures the interface and the routes.
fn set_up(ifname: &str, net: &NetOpts) -> Result<ConfiguredInterface, Failure> {
    let failed = Failure::at(SetupStep::Interface);
    let mac = prepare(ifname, net).map_err(failed)?;
    let control = NetdevSocket::open().map_err(Failure::at(SetupStep::Interface))?;
    let loopback = match net.v4() {
        Some(v4) => set_up_v4(&control, ifname, net, v4)?,
        None => {
            let up = control.up(ifname);
            up.map_err(Failure::at(SetupStep::Interface))?;
            false
        }
    };
    let ip6 = match net.v6() {
        Some(v6) => set_up_v6(&control, ifname, net, v6)?,
        None => false,
    };
    Ok(ConfiguredInterface { mac, loopback, ip6 })
}

/// Turns on the loopback, and takes the steps that come before the interface is up; gives its Ethernet address.
fn prepare(ifname: &str, net: &NetOpts) -> io::Result<[u8; 6]> {
    let control = NetdevSocket::open()?;
    control.up("lo")?;
    if let Some(mac) = net.mac {
        control.set_mac(ifname, mac)?;
    }
    control.set_mtu(ifname, net.mtu())?;
    control.set_tx_queue_len(ifname, TX_QUEUE_LEN)?;
    unsent::bound();
    match net.v6() {
        Some(_) => ip6::prepare(&control, ifname),
        None => ip6::disable(ifname),
    }
    control.mac(ifname)
}

/// Gives the interface its IPv4 address and route, and turns it on; says whether the guest's loopback can be reached.
fn set_up_v4(
    control: &NetdevSocket,
    ifname: &str,
    net: &NetOpts,
    v4: &Addressing,
) -> Result<bool, Failure> {
    let addressed = control.set_addr(ifname, v4.guest, v4.link_prefix_len());
    let up = addressed.and_then(|()| control.up(ifname));
    up.map_err(Failure::at(SetupStep::Interface))?;
    if net.serve.alone.is_some() {
        // The stack is no gateway, and begins no connections.
        return Ok(false);
    }
    let gateway = v4.gateway.into();
    if v4.routed {
        let reached = control.add_route(ifname, (gateway, 32), None, 0);
        reached.map_err(Failure::at(SetupStep::Route))?;
    }
    let anywhere = Ipv4Addr::UNSPECIFIED.into();
    control
        .add_route(ifname, (anywhere, 0), Some(gateway), 0)
        .map_err(Failure::at(SetupStep::Route))?;
    // Nothing but mbuma sends on this wire, and it begins connections to published ports only; a port may be published
    // at any time. In a network the other guests send, too.
    Ok(!net.network && control.route_localnet(ifname).is_ok())
}

/// Gives the interface, which is on, its IPv6 addresses and route; says whether it has them.
///
/// # Errors
/// It can't have them, and has no IPv4 either. With IPv4, a kernel without IPv6 is no error.
fn set_up_v6(
    control: &NetdevSocket,
    ifname: &str,
    net: &NetOpts,
    v6: &Addressing6,
) -> Result<bool, Failure> {
    match ip6::set_up(control, ifname, v6) {
        Ok(()) => Ok(true),
        Err(e) if net.v4().is_none() => Err(Failure::at(SetupStep::Ip6)(e)),
        Err(_) => {
            ip6::disable(ifname);
            Ok(false)
        }
    }
}

fn its_mac(ifname: &str) -> io::Result<[u8; 6]> {
    NetdevSocket::open()?.mac(ifname)
}

/// Gives the guest the requested names. Returns the file that has them.
///
/// # Errors
/// It can't have them, and they were asked for.
pub(crate) fn name(args: &RunArgs) -> Result<Option<OwnFile>, Failure> {
    if let Some(name) = &args.hostname {
        let named = namespace::unshare(NamespaceKind::Hostname);
        let named = named.and_then(|()| namespace::set_hostname(name));
        named.map_err(Failure::at(SetupStep::Hostname))?;
    }
    files::own_hosts(args).map_err(Failure::at(SetupStep::Hosts))
}

/// Adapts a namespace of our own for programs. Returns its resolv.conf, and each failure.
pub(crate) fn furnish(args: &RunArgs) -> (Option<OwnFile>, Vec<Failure>) {
    let mut warnings = Vec::new();
    warnings.extend(
        loosen_sysctls()
            .map_err(Failure::at(SetupStep::Sysctls))
            .err(),
    );
    let resolves = files::own_resolv_conf(args);
    let resolves = resolves.map_err(Failure::at(SetupStep::ResolvConf));
    let resolv_conf = resolves.unwrap_or_else(|failure| {
        warnings.push(failure);
        None
    });
    // A container's /sys may be read-only or masked. Then it still shows the host's interfaces, as with most similar
    // tools; important programs ask the kernel instead.
    let _ = own_sys_class_net();
    (resolv_conf, warnings)
}

/// Lets programs without privileges ping, and listen on ports below 1024: the network is theirs.
fn loosen_sysctls() -> io::Result<()> {
    if let Some(gids) = idmap::own_range()? {
        let (first, last) = (
            gids.start().min(&PING_GID_MAX),
            gids.end().min(&PING_GID_MAX),
        );
        fs::write(
            "/proc/sys/net/ipv4/ping_group_range",
            format!("{first} {last}"),
        )?;
    }
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
}

/// Shows the guest's interfaces in /sys/class/net: sysfs shows those of the namespace of the process that mounted it.
///
/// Only the two directories concerned are replaced, because a whole new /sys would lack what is
/// mounted below the old one, cgroups above all.
fn own_sys_class_net() -> io::Result<()> {
    let sys = Path::new("/sys");
    let covered = Covered::hold(&[
        Path::new("/sys/class/net"),
        Path::new("/sys/devices/virtual/net"),
    ])?;
    // The kernel refuses a mount that is more writable than the one that it covers.
    mount::mount_new("sysfs", sys, mount::DATA_ONLY, "")
        .or_else(|_| mount::mount_new("sysfs", sys, mount::DATA_ONLY | MountFlags::RDONLY, ""))?;
    let placed = covered.rebind();
    mount::detach(sys).and(placed)
}

/// Files about to be covered by a mount, still reachable by descriptor.
struct Covered(Vec<(PathBuf, File)>);

impl Covered {
    /// Opens the mounts that are at `paths` now.
    fn hold(paths: &[&Path]) -> io::Result<Covered> {
        let open = |path: &&Path| {
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_PATH)
                .open(path)?;
            Ok((path.to_path_buf(), file))
        };
        paths
            .iter()
            .map(open)
            .collect::<io::Result<_>>()
            .map(Covered)
    }

    /// Binds the files that are at the same paths now, in the covering mount, over the earlier ones.
    fn rebind(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|(path, below)| {
            mount::bind(
                path,
                &PathBuf::from(format!("/proc/self/fd/{}", below.as_raw_fd())),
            )
        })
    }
}
