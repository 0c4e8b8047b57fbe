//! The guest's interface: made, or found, and configured in its network namespace.
//!
//! Locks: none.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

use mbuma::IfAddr;

use super::{ip6, unsent};
use crate::addressing::{Addressing, Addressing6};
use crate::args::{NetOpts, TapUse};
use crate::channel::{Channel, ChannelMessage, ConfiguredInterface};
use crate::errors::{EXIT_OWN_FAILURE, Failure, SetupStep};
use crate::sys::netdev::NetdevSocket;
use crate::sys::socket;
use crate::sys::tap::{self, Offloads};

/// Packets that may wait in each queue of the TAP until the stack reads them. The kernel's default of 1,000 loses SYNs
/// of a guest that opens a thousand connections at once; the sender retries after a second. A packet that waits is no
/// longer charged to its socket, so this number alone bounds the memory that a flood of datagrams takes, 64 KiB each,
/// and the time for which other packets wait behind it.
const TX_QUEUE_LEN: u32 = 2_000;
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

/// Makes the TAP in the caller's network namespace, with the requested number of queues or as many as the kernel gives,
/// and configures the guest's side of it; or opens an existing one without changes.
pub(crate) fn make_interface(ifname: &str, net: &NetOpts) -> Result<TapInterface, Failure> {
    check_stack_address(net)?;
    let (taps, is_new) = open_taps(ifname, net)?;
    let offloads = tap::set_offloads(&taps[0], net.impair.is_none());
    let configured = match net.tap {
        TapUse::Leave => left_alone(ifname, net),
        TapUse::Find if !is_new => left_alone(ifname, net),
        TapUse::Find => check_network(net).and_then(|()| set_up(ifname, net)),
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
    let v4 = net.v4().map(|v4| v4.gateway.into());
    let is_server = net.serve.alone.is_some();
    let v6 = net.v6().filter(|_| is_server).map(|v6| v6.gateway.into());
    if v4.into_iter().chain(v6).any(socket::is_local) {
        return Err(Failure {
            step: SetupStep::StackAddress,
            errno: libc::EADDRINUSE,
        });
    }
    Ok(())
}

/// Refuses a network that another interface here has: the kernel would send there what is for the server.
fn check_network(net: &NetOpts) -> Result<(), Failure> {
    let v4 = net.v4().map(|v4| IfAddr::new(v4.gateway, v4.prefix_len));
    let v6 = net.v6().map(|v6| IfAddr::new(v6.gateway, v6.prefix_len));
    let is_taken = |server: IfAddr| {
        socket::source_to(server.addr).is_some_and(|source| server.contains(source))
    };
    if v4.into_iter().chain(v6).any(is_taken) {
        return Err(Failure {
            step: SetupStep::StackNetwork,
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
        is_owners: true,
    })
}

/// Opens the TAP; says whether it is a new one.
fn open_taps(ifname: &str, net: &NetOpts) -> Result<(Vec<OwnedFd>, bool), Failure> {
    let open = || tap::open().map_err(Failure::at(SetupStep::OpenTun));
    let made = tap::create(open()?, ifname, net.workers());
    let there = |e: &io::Error| e.raw_os_error() == Some(libc::EBUSY);
    let taps = match made {
        // If another program uses a TAP with several queues, the kernel would give us a queue more, and divide the
        // flows between the two programs.
        Err(e) if there(&e) && net.tap != TapUse::Make && !is_in_use(ifname) => {
            tap::adopt(open()?, ifname, net.workers()).map(|taps| (taps, false))
        }
        made => made.map(|taps| (taps, true)),
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
    if net.network {
        announce(&control, ifname, mac);
    }
    Ok(ConfiguredInterface {
        mac,
        loopback,
        ip6,
        is_owners: false,
    })
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

/// Has the kernel say at once which addresses the interface has: the stack and other guests may know an earlier guest
/// by them, or one that has claimed them. A read-only /proc/sys leaves that to the guest's first packet.
fn announce(control: &NetdevSocket, ifname: &str, mac: [u8; 6]) {
    for (family, setting) in [("ipv4", "arp_notify"), ("ipv6", "ndisc_notify")] {
        let path = format!("/proc/sys/net/{family}/conf/{ifname}/{setting}");
        let _ = fs::write(path, "1");
    }
    // It does so when the Ethernet address is set, to the same one too.
    let _ = control.set_mac(ifname, mac);
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
/// It can't have them, and has no IPv4 either, or a server was to be there. Otherwise, with IPv4, a kernel without IPv6
/// is no error.
fn set_up_v6(
    control: &NetdevSocket,
    ifname: &str,
    net: &NetOpts,
    v6: &Addressing6,
) -> Result<bool, Failure> {
    let alone = net.serve.alone;
    match ip6::set_up(control, ifname, v6, alone.is_none()) {
        Ok(()) => Ok(true),
        Err(e) if net.v4().is_none() || alone.is_some_and(|alone| alone.needs_v6) => {
            Err(Failure::at(SetupStep::Ip6)(e))
        }
        Err(_) => {
            ip6::disable(ifname);
            Ok(false)
        }
    }
}

fn its_mac(ifname: &str) -> io::Result<[u8; 6]> {
    NetdevSocket::open()?.mac(ifname)
}
