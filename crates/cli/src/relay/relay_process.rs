//! The relay process, from the fork to its exit code: one stack with the interfaces of both sides, driven by threads of
//! [`Runtime`], and a thread that begins connections.
//!
//! The stack is no router: packets of one side never go to the other, only bytes of connections do.
//!
//! Invariants: all rights are given up before a thread starts and before a packet is read.
//! Locks: none.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use kern::{MonotonicClock, Random};
use mbuf::PoolConfig;
use mbuma::device::tap::TapOptions;
use mbuma::runtime::{Runtime, RuntimeConfig};
use mbuma::{Config, IfConfig, Stack};

use super::MadeInterface;
use super::connections::{RelayTls, RelayedConnections};
use crate::announce;
use crate::args::NetOpts;
use crate::args::relay::RelayArgs;
use crate::args::serve::{NextHops, TlsIdentity};
use crate::channel::{Channel, ChannelMessage};
use crate::errors::Error;
use crate::guest::GuestLink;
use crate::memory_limit::MemoryLimit;
use crate::sandbox::{self, Uses};
use crate::say;
use crate::server_link;
use crate::sys::{fd, process};
use crate::tls::{ClientTls, ServerTls};

/// The name that `ps` shows.
const NAME: &CStr = c"mbuma-relay";
/// Connections that wait to be taken at most: a burst of clients must not wait for a second SYN.
const BACKLOG: usize = 1024;
/// Bytes that each buffer of a connection holds: four of the largest segments.
const BUFFER: usize = 256 << 10;

/// Relays. Returns the exit code, and reports it to the process that was started.
pub(super) fn main(made: Vec<MadeInterface>, args: &RelayArgs, monitor: Channel) -> u8 {
    let code = match serve(made, args, &monitor) {
        Ok(()) => 0,
        Err(e) => {
            say(&e.to_string());
            e.exit_code()
        }
    };
    // If the other process has ended, no process receives the message.
    let _ = monitor.send(&ChannelMessage::Done(code), None);
    code
}

fn serve(made: Vec<MadeInterface>, args: &RelayArgs, monitor: &Channel) -> Result<(), Error> {
    let links = made.iter().flat_map(|made| made.guest.link.fds());
    let kept: Vec<BorrowedFd<'_>> = links.chain([monitor.as_fd()]).collect();
    fd::close_all_but(&kept).map_err(Error::io("closing descriptors"))?;
    drop(kept);
    process::die_with_parent().map_err(Error::io("asking to end with the monitor"))?;
    // It is no error if the name can't be set.
    let _ = process::set_name(NAME);
    let net = NetOpts {
        no_sandbox: args.no_sandbox,
        ..NetOpts::default()
    };
    let uses = Uses {
        runtime: true,
        ..Uses::default()
    };
    let memory = MemoryLimit::read();
    let tls = tls(args, memory)?;
    // From here on no file can be read.
    let pool = memory.pool();
    sandbox::enter(&net, &uses)?;
    #[cfg(debug_assertions)]
    sandbox::exploit::run_if_asked();
    let runtime = RuntimeConfig {
        workers: args.workers.into(),
        ..RuntimeConfig::default()
    };
    let runtime = Runtime::with_config(runtime).map_err(Error::io("starting the workers"))?;
    let stack = stack(&runtime, pool)?;
    let made = made.into_iter().enumerate();
    let taps = made.map(|(number, made)| attach(&runtime, &stack, number, made));
    let taps = taps.collect::<Result<Vec<_>, _>>()?;
    let at = args.listen.addrs().into_iter();
    let listeners = at.map(|at| stack.tcp_listen(at, BACKLOG));
    let listeners = listeners.collect::<Result<_, _>>();
    let listeners = listeners.map_err(|e| failed("listening", e))?;
    let idle = (args.idle > 0).then(|| Duration::from_secs(args.idle.into()));
    let mut connections = RelayedConnections::new(
        &stack,
        listeners,
        args.connect.to,
        idle,
        args.connections,
        tls,
    );
    let said = monitor.send(&ChannelMessage::Up, None);
    said.map_err(Error::io("telling the monitor that clients may connect"))?;
    connections.run(monitor, &taps)?;
    drop(connections);
    runtime.shutdown();
    Ok(())
}

/// TLS towards clients, and towards the server. Prints the fingerprint of a certificate that mbuma made.
fn tls(args: &RelayArgs, memory: MemoryLimit) -> Result<RelayTls, Error> {
    let alpn: Vec<&[u8]> = args.alpn.iter().map(String::as_bytes).collect();
    let mut tls = RelayTls {
        handshakes_max: memory.handshakes(args.connections),
        ..RelayTls::default()
    };
    if let Some(identity) = args.tls.identity().map_err(Error::Usage)? {
        let addrs = args.listen.interface.at.addrs();
        let server = ServerTls::of(&identity, &addrs, &alpn)?;
        if identity == TlsIdentity::SelfSigned {
            announce("the certificate's SHA-256 is", &server.fingerprint());
        }
        tls.to_clients = Some(server.config);
    }
    if let Some(name) = &args.connect.tls {
        tls.to_server = Some(ClientTls::of(name.clone(), args.ca.as_deref(), &alpn)?);
    }
    Ok(tls)
}

fn stack(runtime: &Runtime, pool: PoolConfig) -> Result<Stack, Error> {
    let mut config = Config::new(Arc::new(MonotonicClock::new()), Random::from_os());
    config.cpus = runtime.cpus();
    config.pool = pool;
    (config.tcp.recv_buffer, config.tcp.recv_buffer_max) = (BUFFER, BUFFER);
    (config.tcp.send_buffer, config.tcp.send_buffer_max) = (BUFFER, BUFFER);
    Stack::new(config).map_err(|e| failed("making the network stack", e))
}

/// Gives the stack an interface, and the route to the networks behind it. Returns the interface's name, and a
/// descriptor that fails when it is deleted.
fn attach(
    runtime: &Runtime,
    stack: &Stack,
    number: usize,
    made: MadeInterface,
) -> Result<(String, OwnedFd), Error> {
    let MadeInterface { wanted, guest } = made;
    let options = TapOptions {
        mtu: guest.mtu,
        offloads: guest.offloads,
    };
    // Two namespaces may use one name for their interfaces; a stack may not.
    let config = IfConfig::new(format!("{}/{number}", guest.ends.ifname));
    let config = match guest.ends.v4 {
        Some(v4) => config.with_addr(v4.gateway, v4.link_prefix_len()),
        None => config,
    };
    let mut config = match guest.ends.v6 {
        Some(v6) => config.with_addr(v6.gateway, v6.link_prefix_len()),
        None => config,
    };
    if guest.is_owners && guest.ends.v6.is_some() {
        config.autoconf = Some(server_link::on_owners_link());
    }
    let GuestLink::Taps(taps) = guest.link else {
        unreachable!("a relay's interfaces are TAPs");
    };
    let watched = taps[0].try_clone();
    let watched = watched.map_err(Error::io("watching an interface"))?;
    let added = runtime.add_tap(stack, taps, options, config);
    let index = added.map_err(Error::io("attaching an interface"))?;
    let NextHops { v4, v6 } = wanted.at.next_hops;
    let v4 = v4.map(IpAddr::from);
    for gateway in v4.into_iter().chain(v6.map(IpAddr::from)) {
        server_link::add_default_route(stack, index, gateway)?;
    }
    Ok((guest.ends.ifname, watched))
}

/// An error of the stack, which gives no error number.
fn failed(doing: &str, e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::io(doing)(io::Error::other(e))
}
