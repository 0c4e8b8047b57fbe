//! Setting a gateway up, in an order in which everything that can fail does so before COMMAND starts.
//!
//! Called by: serve. Calls: the stack, its devices, publish, udp.
//! Locks: none.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kern::{Clock, Giant, MonotonicClock, Random, Time};
use mbuma::device::Device;
use mbuma::device::capture::Capture;
use mbuma::device::tap::{Tap, TapOptions};
use mbuma::{Config, IfAddr, IfConfig, IfIndex, Stack};
use wire::MacAddr;

use super::connections::Connections;
use super::control::Control;
use super::echo::Pings;
use super::figures::Fixed;
use super::http::StatusPage;
use super::policy::Policy;
use super::poller::Poller;
use super::publish::Listener;
use super::resolvers::Resolvers;
use super::rounds::Gateway;
use super::shared::Shared;
use super::table::{Kind, Token};
use super::udp::Flows;
use crate::args::{NetOpts, Proto};
use crate::errors::Error;
use crate::guest::{Guest, GuestEnd, PREFIX_LEN};
use crate::sys::limits;

/// The stack's Ethernet address: locally administered, the same in every guest, so that a guest which
/// is attached to again finds its neighbour where it was.
const MAC: MacAddr = MacAddr([0x02, b'm', b'b', b'u', b'm', b'a']);
/// The port of the status page.
const STATUS_PORT: u16 = 80;
/// What a guest's connection may have under way to us. The guest is one hop away, so two rounds' worth
/// keeps it busy; a larger window fills the TAP's queue in front of other connections' packets (measured: 1 MiB
/// moves no more and doubles the p99 of a small request beside a bulk stream).
const RECV_BUFFER: usize = 256 << 10;
/// Connections to the status page that wait at most.
const STATUS_BACKLOG: usize = 16;
/// Connections of the guest that wait for their turn at most.
const INTERCEPT_BACKLOG: usize = 1024;

impl Gateway {
    /// Sets everything up.
    pub(super) fn start(guest: Guest, opts: &NetOpts) -> Result<Gateway, Error> {
        // A lower limit only means that connections are refused earlier.
        let _ = limits::raise_descriptors();
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
        let mut config = Config::new(Arc::clone(&clock), Random::from_os());
        config.tcp.recv_buffer = RECV_BUFFER;
        config.giant = Arc::new(Giant::new(opts.giant));
        let stack = Stack::new(config).map_err(|e| failed("making the network stack", e))?;
        let poller = Poller::new().map_err(Error::io("making an epoll set"))?;
        let policy = Policy::new(&guest.ends, opts.host_loopback);
        let fixed = Fixed {
            guest: guest.ends.clone(),
            mtu: guest.mtu,
            offloads: guest.offloads,
        };
        let index = attach(&stack, &poller, guest, opts, &clock)?;
        let shared = Shared::new(stack, poller, policy, Resolvers::of_host());
        Gateway::with_sockets(shared, index, fixed, opts)
    }

    /// Opens the stack's sockets and the published ports.
    fn with_sockets(
        shared: Shared,
        index: IfIndex,
        fixed: Fixed,
        opts: &NetOpts,
    ) -> Result<Gateway, Error> {
        let stack = &shared.stack;
        let page = SocketAddrV4::new(fixed.guest.gateway, STATUS_PORT);
        let page = stack.tcp_listen(page, STATUS_BACKLOG);
        let page = page.map_err(|e| failed("listening for the status page", e))?;
        let interceptor = stack.tcp_intercept(index, INTERCEPT_BACKLOG);
        let interceptor = interceptor.map_err(|e| failed("intercepting connections", e))?;
        let datagrams = stack.udp_bind_any(index);
        let datagrams = datagrams.map_err(|e| failed("intercepting datagrams", e))?;
        let echoes = stack.icmp_echo_any(index);
        let echoes = echoes.map_err(|e| failed("intercepting pings", e))?;

        let mut flows = Flows::new(&shared, datagrams);
        let listeners = publish(&shared, &mut flows, fixed.guest.addr, opts)?;
        Ok(Gateway {
            connections: Connections::new(&shared, interceptor),
            flows,
            pings: Pings::new(&shared, echoes),
            page: StatusPage::new(&shared, page),
            control: Control::open(&shared),
            pulse: Arc::default(),
            listeners,
            index,
            fixed,
            shared,
        })
    }
}

/// Gives the stack its interface: the TAP, captured if that was asked for.
fn attach(
    stack: &Stack,
    poller: &Poller,
    guest: Guest,
    opts: &NetOpts,
    clock: &Arc<dyn Clock>,
) -> Result<IfIndex, Error> {
    let token = Token::only(Kind::Tap);
    let watched = poller.add_reader(&guest.tap, token);
    watched.map_err(Error::io("watching the TAP"))?;
    let config = interface(&guest.ends);
    let options = TapOptions {
        mtu: guest.mtu,
        vnet_hdr: guest.offloads.vnet_hdr,
        csum: guest.offloads.csum,
        tso4: guest.offloads.tso4,
    };
    let tap = Tap::from_fd(guest.tap, options, stack.pool());
    let device: Arc<dyn Device> = match &opts.pcap {
        None => Arc::new(tap),
        Some(path) => Arc::new(capture(tap, path, clock)?),
    };
    Ok(stack.attach(device, config))
}

/// The stack's side of the guest's network.
fn interface(ends: &GuestEnd) -> IfConfig {
    let own = |addr: Ipv4Addr| IfAddr {
        addr,
        prefix_len: PREFIX_LEN,
    };
    IfConfig {
        mac: Some(MAC),
        addrs: vec![own(ends.gateway), own(ends.dns)],
        accept_any: true,
        ..IfConfig::new(ends.ifname.clone())
    }
}

/// Writes every frame of `tap` to a file as well.
fn capture(tap: Tap, path: &Path, clock: &Arc<dyn Clock>) -> Result<Capture<Tap>, Error> {
    let doing = format!("writing {}", path.display());
    let file = File::create(path).map_err(Error::io(&doing))?;
    let capture = Capture::new(tap, file, Arc::clone(clock), epoch(&**clock));
    capture.map_err(Error::io(&doing))
}

/// The time of day at which `clock` read zero.
fn epoch(clock: &dyn Clock) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // A machine without a clock of its own lives in 1970.
    now.unwrap_or_default()
        .saturating_sub(clock.now() - Time::ZERO)
}

/// Opens the published ports.
fn publish(
    shared: &Shared,
    flows: &mut Flows,
    guest: Ipv4Addr,
    opts: &NetOpts,
) -> Result<Vec<Listener>, Error> {
    let mut listeners = Vec::new();
    for publish in &opts.publish {
        let guest = SocketAddrV4::new(guest, publish.guest_port);
        match publish.proto {
            Proto::Tcp => {
                let index = listeners.len() as u32;
                listeners.push(Listener::bind(shared, publish, guest, index)?);
            }
            Proto::Udp => flows.publish(shared, publish, guest)?,
        }
    }
    Ok(listeners)
}

/// An error of the stack, which gives no error number.
fn failed(doing: &str, e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::io(doing)(io::Error::other(e))
}
