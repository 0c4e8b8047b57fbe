//! Setting a gateway up, in an order in which all steps that can fail come before COMMAND starts.
//!
//! Locks: none.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use kern::{Clock, Giant, MonotonicClock, Random};
use mbuma::device::Device;
use mbuma::device::impair::Impaired;
use mbuma::runtime::WorkerPool;
use mbuma::{Config, IcmpAborts, IfAddr, IfConfig, IfIndex, RouteKind, Stack};
use rustls::ServerConfig;
use wire::MacAddr;

use super::Sockets;
use super::allowance::{RECV_BUFFER, SEND_BUFFER};
use super::client_quota::ClientQuota;
use super::config_servers::ConfigServers;
use super::connections::Connections;
use super::control::Control;
use super::devices::GuestDevices;
use super::echo::Pings;
use super::event_loop::Worker;
use super::figures::{Fixed, ImpairedLink};
use super::policy::Policy;
use super::reclaim::PoolReclaim;
use super::resolvers::Resolvers;
use super::services::Services;
use super::shared::Shared;
use super::stall_relief::StallRelief;
use super::tcp_trace::TcpTrace;
use super::udp::GuestFlows;
use super::web::{FileStorage, LogFile, Responder, SharedFixed, SiteFiles, Web, WebSite};
use super::worker_shares::WorkerShares;
use crate::addressing::{Addressing, Addressing6, STACK_MAC};
use crate::announce;
use crate::args::serve::{Alone, ServeOpts, TlsIdentity};
use crate::args::{Impairment, NetOpts, TapUse};
use crate::errors::Error;
use crate::files::{NamesRoom, ServedTree};
use crate::guest::{Guest, GuestEnd};
use crate::sandbox::Isolation;
use crate::sys::limits;
use crate::tls::{self, ServerTls};

/// The path of served files, where the status page has the root.
const FILES_PREFIX: &str = "/files";
/// The path of the status page, where served files have the root: no file's, as it begins with a dot.
const PAGES_PREFIX: &str = "/.mbuma";
/// Retransmissions of a SYN to the guest, which is one hop away: a connection to a published port fails after 63 s.
const SYN_RETRANSMITS_MAX: u8 = 5;
/// Connections at most.
const CONNECTIONS_MAX: usize = 1 << 18;
/// One descriptor in this many may be a served file that is kept open.
const SERVED_FILES_SHARE: usize = 8;
/// Connections to that port that wait at most.
const HTTP_BACKLOG: usize = 1024;
/// Datagrams of the guest that wait for their turn at most: as many as there may be flows, so that a burst of new flows
/// loses none. The memory that they pin has a bound of its own.
const NEW_FLOWS_MAX: usize = 4096;
/// Connections of the guest that wait for their turn at most.
const INTERCEPT_BACKLOG: usize = 1024;

/// Sets everything up: a worker for each queue of the TAP, the first with its services for all.
///
/// # Errors
/// Something cannot be had.
pub(super) fn start(
    guest: Guest,
    opts: &NetOpts,
    sockets: Sockets,
    pool: &WorkerPool,
) -> Result<(Worker, Vec<Worker>), Error> {
    // A lower limit only means that connections are refused earlier.
    let _ = limits::raise_descriptors();
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
    let mut config = Config::new(Arc::clone(&clock), Random::from_os());
    config.tcp.connections_max = CONNECTIONS_MAX;
    // The allowance sets the sizes of buffers.
    (config.tcp.recv_buffer, config.tcp.recv_buffer_max) = (RECV_BUFFER, RECV_BUFFER);
    (config.tcp.send_buffer, config.tcp.send_buffer_max) = (SEND_BUFFER, SEND_BUFFER);
    // The guest's kernel answers for its own addresses: its answer about a published port is passed on at once.
    config.tcp.icmp_aborts = IcmpAborts::All;
    config.tcp.syn_retransmits_max = SYN_RETRANSMITS_MAX;
    config.tcp.congestion = opts.congestion;
    config.udp_queue_max = NEW_FLOWS_MAX;
    config.cpus = pool.cpus();
    config.giant = Arc::new(Giant::new(opts.giant));
    let stack = Stack::new(config).map_err(|e| Error::stack("making the network stack", e))?;
    pool.drive(&stack);
    let policy = policy(&guest.ends, opts)?;
    let resolvers = match opts.dns.is_empty() {
        true => Resolvers::of_host(),
        false => Resolvers::of(&opts.dns),
    };
    let mtu = guest.mtu;
    let devices = GuestDevices::open(guest.link, mtu, guest.offloads, &clock, stack.pool());
    let devices = devices.map_err(Error::io("making descriptors for virtual machines"))?;
    let shares = WorkerShares::new(pool.len());
    let shared = |worker| {
        let (policy, resolvers) = (policy.clone(), resolvers.clone());
        let context = pool.context(worker, &clock);
        Shared::new(stack.clone(), context, &shares, policy, resolvers)
    };
    let mut all: Vec<Shared> = (0..pool.len()).map(shared).collect();
    let fixed = Fixed {
        guest: guest.ends.clone(),
        mtu,
        offloads: guest.offloads,
        workers_asked: opts.workers(),
        published: Vec::new(),
        outward: Vec::new(),
        loopback: guest.loopback,
        link: None,
        isolation: Isolation::default(),
        answers_names: !opts.no_dns,
    };
    let network = devices.network();
    let watched = (0..pool.len()).map(|queue| devices.fd(queue).try_clone_to_owned());
    let watched = watched.collect::<io::Result<Vec<_>>>();
    let watched = watched.map_err(Error::io("watching the guest's interface"))?;
    let (index, link) = attach(&stack, &fixed.guest, devices, opts, &clock)?;
    for (queue, fd) in watched.into_iter().enumerate() {
        let watched = pool.watch(&stack, index, queue, fd);
        watched.map_err(Error::io("watching the guest's interface"))?;
    }
    let fixed = Fixed { link, ..fixed };
    if let Some(v4) = &fixed.guest.v4 {
        add_routes(&stack, index, v4, opts, fixed.loopback)?;
    }
    if let Some(v6) = fixed.guest.v6.filter(|v6| v6.routed) {
        let guest = IfAddr {
            addr: v6.guest,
            prefix_len: 128,
        };
        let added = stack.add_route6(guest, RouteKind::Link(index));
        added.map_err(|e| Error::stack("adding a route to the guest", e))?;
    }
    // The gateway's address may need the interface's number.
    all.iter_mut()
        .for_each(|shared| shared.policy.set_link(index.number()));
    let at = pages(&fixed.guest, opts.serve.port());
    let fixed = SharedFixed::new(fixed);
    let site = (!at.is_empty()).then(|| site(&stack, &at, opts, pool.len(), &fixed));
    let mut services = services(&all[0], index, fixed, sockets, opts)?;
    if let Some(link) = network {
        services.make_network(link);
    }
    workers(all, index, services, site.transpose()?, pool, &clock)
}

/// Adds the ways to all that is not on the link of the guest's IPv4 network.
fn add_routes(
    stack: &Stack,
    index: IfIndex,
    v4: &Addressing,
    opts: &NetOpts,
    loopback: bool,
) -> Result<(), Error> {
    if v4.routed {
        let guest = IfAddr {
            addr: v4.guest,
            prefix_len: 32,
        };
        let added = stack.add_route(guest, RouteKind::Link(index));
        added.map_err(|e| Error::stack("adding a route to the guest", e))?;
    }
    if let Some(gateway) = outside(v4, opts) {
        let anywhere = IfAddr {
            addr: Ipv4Addr::UNSPECIFIED,
            prefix_len: 0,
        };
        let added = stack.add_route(anywhere, RouteKind::Gateway(index, gateway));
        added.map_err(|e| Error::stack("adding the default route", e))?;
    }
    match loopback {
        true => reach_loopback(stack, index, v4),
        false => Ok(()),
    }
}

/// The address of the status page. A gateway of the host's network may have a page of its own.
fn pages(ends: &GuestEnd, port: u16) -> Vec<SocketAddr> {
    let v4 = ends.v4.filter(|v4| !v4.routed);
    let v4 = v4.map(|v4| IpAddr::from(v4.gateway));
    let v6 = ends.v6.filter(|v6| !v6.routed);
    let v6 = v6.map(|v6| IpAddr::from(v6.gateway));
    let both = v4.into_iter().chain(v6);
    both.map(|gateway| SocketAddr::new(gateway, port)).collect()
}

/// The destinations that the guest may reach, and the source of its connections.
fn policy(ends: &GuestEnd, opts: &NetOpts) -> Result<Policy, Error> {
    let sources = opts.outbound.check().and_then(|()| opts.outbound.sources());
    let sources = sources.map_err(Error::io("--outbound-addr or --interface"))?;
    let policy = Policy::new(ends, opts.host_loopback);
    let policy = policy.with_sources(sources).with_mappings(&opts.maps);
    let policy = policy.with_allowed(&opts.allow);
    Ok(match (&opts.serve.alone, opts.no_dns) {
        (Some(_), _) => policy.closed(),
        (None, true) => policy.without_names(),
        (None, false) => policy,
    })
}

/// Opens the status page, and the files if there are any.
fn site(
    stack: &Stack,
    at: &[SocketAddr],
    opts: &NetOpts,
    workers: usize,
    fixed: &SharedFixed,
) -> Result<Arc<WebSite>, Error> {
    let ServeOpts {
        dir,
        log,
        no_listing,
        tls,
        alone,
        ..
    } = &opts.serve;
    let bytes = if dir.is_some() { opts.serve.cache() } else { 0 };
    let storage = FileStorage::new(served_files_max(), bytes);
    let files = |dir: &PathBuf| {
        let doing = format!("opening {} to serve it", dir.display());
        let tree = ServedTree::open(dir).map_err(Error::io(&doing))?;
        Ok::<_, Error>(SiteFiles {
            tree,
            cache: storage.cache.clone(),
            names_room: NamesRoom::default(),
            prefix: if alone.is_some() { "" } else { FILES_PREFIX },
            listing: !no_listing,
        })
    };
    let files = dir.as_ref().map(files).transpose()?;
    let open_log = |path: &PathBuf| {
        let doing = format!("opening the log {}", path.display());
        LogFile::open(path).map_err(Error::io(&doing))
    };
    let log = log.as_ref().map(open_log).transpose()?;
    let first = tls.as_ref().zip(at.first());
    let tls = first.map(|(identity, at)| server_tls(identity, at.ip()));
    let listen = |at: &SocketAddr| stack.tcp_listen(*at, HTTP_BACKLOG);
    let listeners = at.iter().map(listen).collect::<Result<_, _>>();
    let listeners = listeners.map_err(|e| Error::stack("listening for HTTP", e))?;
    let pages = match alone {
        None => Some(""),
        Some(alone) => alone.status.then_some(PAGES_PREFIX),
    };
    Ok(Arc::new(WebSite {
        listeners,
        responder: Responder::new(fixed.clone(), pages, files),
        tls: tls.transpose()?,
        storage,
        log,
        connections_max: (opts.serve.connections_max() / workers).max(1),
        drains: alone.is_some(),
    }))
}

/// Files that are kept open at most.
fn served_files_max() -> usize {
    limits::descriptors() / SERVED_FILES_SHARE
}

/// The configuration of TLS. Prints the fingerprint of a certificate that mbuma made.
fn server_tls(identity: &TlsIdentity, at: IpAddr) -> Result<Arc<ServerConfig>, Error> {
    let tls = ServerTls::of(identity, at, &[tls::ALPN_HTTP])?;
    if *identity == TlsIdentity::SelfSigned {
        announce("the certificate's SHA-256 is", &tls.fingerprint());
    }
    Ok(tls.config)
}

/// Makes the workers; `services` are the first one's.
fn workers(
    all: Vec<Shared>,
    index: IfIndex,
    services: Services,
    site: Option<Arc<WebSite>>,
    pool: &WorkerPool,
    clock: &Arc<dyn Clock>,
) -> Result<(Worker, Vec<Worker>), Error> {
    let interceptor = all[0].stack.tcp_intercept(index, INTERCEPT_BACKLOG);
    let interceptor = interceptor.map_err(|e| Error::stack("intercepting connections", e))?;
    let interceptor = Arc::new(interceptor);
    let inboxes = Connections::inboxes(pool);
    let worker = |shared: Shared| Worker {
        connections: Connections::new(&shared, &interceptor, &inboxes),
        web: site.as_ref().map(|site| Web::new(&shared, site)),
        services: None,
        stall_relief: StallRelief::default(),
        lifecycle_ready: false,
        shared,
    };
    let mut workers: Vec<Worker> = all.into_iter().map(worker).collect();
    let intercept_wakes = workers
        .iter()
        .map(|w| w.connections.intercept_wake())
        .collect();
    interceptor.set_waker(Some(pool.accept_waker(intercept_wakes, clock)));
    if let Some(site) = &site {
        let wakes = workers.iter().filter_map(|w| w.web.as_ref());
        let wakes = wakes.map(Web::accept_wake).collect();
        let steering = pool.accept_waker(wakes, clock);
        for listener in &site.listeners {
            listener.set_waker(Some(steering.clone()));
        }
    }
    let others = workers.split_off(1);
    let mut first = workers.remove(0);
    first.services = Some(services);
    Ok((first, others))
}

/// The next hop to clients of other networks, for a server that is no gateway: the host's end of the interface, if
/// mbuma configured that.
fn outside(v4: &Addressing, opts: &NetOpts) -> Option<Ipv4Addr> {
    let alone = opts.serve.alone.as_ref()?;
    let neighbour = (opts.tap != TapUse::Leave).then_some(v4.guest);
    alone.gateway.or(neighbour)
}

/// Adds the route to the guest's 127.0.0.1 by the guest's address.
fn reach_loopback(stack: &Stack, index: IfIndex, v4: &Addressing) -> Result<(), Error> {
    let loopback = IfAddr {
        addr: Ipv4Addr::LOCALHOST,
        prefix_len: 32,
    };
    let via = RouteKind::Gateway(index, v4.guest);
    let added = stack.add_route(loopback, via);
    added.map_err(|e| Error::stack("adding a route to the guest's loopback", e))
}

/// Opens the services that the first worker has for all.
fn services(
    shared: &Shared,
    index: IfIndex,
    fixed: SharedFixed,
    sockets: Sockets,
    opts: &NetOpts,
) -> Result<Services, Error> {
    let stack = &shared.stack;
    let datagrams = stack.udp_bind_any(index);
    let datagrams = datagrams.map_err(|e| Error::stack("intercepting datagrams", e))?;
    let echoes = stack.icmp_echo_any(index);
    let echoes = echoes.map_err(|e| Error::stack("intercepting pings", e))?;

    let trace = opts.tcp_trace.as_deref().map(|path| {
        let doing = format!("writing {}", path.display());
        TcpTrace::create(path, shared).map_err(Error::io(&doing))
    });
    let mut services = Services {
        config: ConfigServers::open(shared, index, &fixed.get(), opts)?,
        network: None,
        flows: GuestFlows::new(shared, datagrams),
        pings: Pings::new(shared, echoes),
        control: Control::new(shared, sockets.control),
        reclaim: PoolReclaim::default(),
        listeners: Vec::new(),
        client_quota: client_quota(),
        trace: trace.transpose()?,
        fixed,
    };
    for port in sockets.ports {
        let publish = port.spec.publish;
        let added = services.publish(shared, port);
        added.map_err(|source| Error::Publish { publish, source })?;
    }
    Ok(services)
}

/// Gives the stack its interface.
fn attach(
    stack: &Stack,
    ends: &GuestEnd,
    devices: GuestDevices,
    opts: &NetOpts,
    clock: &Arc<dyn Clock>,
) -> Result<(IfIndex, Option<Arc<ImpairedLink>>), Error> {
    let config = interface(ends, opts.serve.alone.as_ref());
    let mut queues = devices.queues(&config.name, opts.pcap.as_deref(), clock)?;
    let link = opts
        .impair
        .map(|wanted| impaired(queues.remove(0), wanted, stack, clock));
    queues.extend(link.iter().map(|link| Arc::clone(link) as _));
    let index = stack.attach_queues(queues, config);
    let index = index.map_err(|e| Error::stack("attaching the guest's interface", e))?;
    Ok((index, link))
}

/// Puts a bad link before a device.
fn impaired(
    device: Arc<dyn Device>,
    wanted: Impairment,
    stack: &Stack,
    clock: &Arc<dyn Clock>,
) -> Arc<ImpairedLink> {
    let Impairment { up, down, seed } = wanted;
    let random = seed.map_or_else(Random::from_os, Random::from_seed);
    let clock = Arc::clone(clock);
    let link = Impaired::new(device, [up, down], stack.pool(), clock, random);
    Arc::new(link)
}

/// The stack's side of the guest's network.
fn interface(ends: &GuestEnd, alone: Option<&Alone>) -> IfConfig {
    let mac = match (alone, &ends.v4) {
        (Some(_), Some(v4)) => mac_of(v4.gateway),
        _ => STACK_MAC,
    };
    IfConfig {
        mac: Some(mac),
        addrs: ends.v4.iter().flat_map(own_addrs).collect(),
        addrs6: ends.v6.iter().flat_map(own_addrs6).collect(),
        accept_any: alone.is_none(),
        route_localnet: alone.is_none(),
        ..IfConfig::new(ends.ifname.clone())
    }
}

/// The Ethernet address of a server, which may have others beside it in a bridge: each has an address of its own.
fn mac_of(addr: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = addr.octets();
    MacAddr([0x02, b'm', a, b, c, d])
}

/// The stack's addresses of IPv4: one, if the gateway answers for names as well.
fn own_addrs(v4: &Addressing) -> Vec<IfAddr> {
    let mut addrs = vec![v4.gateway, v4.dns];
    addrs.dedup();
    let prefix_len = v4.link_prefix_len();
    // An address for names may be outside of the network.
    let inside = |addr| wire::is_same_subnet(addr, v4.gateway, prefix_len);
    let own = |addr| IfAddr {
        addr,
        prefix_len: if inside(addr) { prefix_len } else { 32 },
    };
    addrs.into_iter().map(own).collect()
}

/// The stack's addresses of IPv6, the one of the link among them.
fn own_addrs6(v6: &Addressing6) -> Vec<IfAddr<Ipv6Addr>> {
    let all = [Some(v6.link_gateway), Some(v6.gateway), v6.dns];
    let mut addrs: Vec<_> = all.into_iter().flatten().collect();
    addrs.dedup();
    let on_link = |addr| v6.contains(addr) || addr == v6.link_gateway;
    let own = |addr| IfAddr {
        addr,
        prefix_len: if on_link(addr) { v6.prefix_len } else { 128 },
    };
    addrs.into_iter().map(own).collect()
}

/// The most clients of published ports.
fn client_quota() -> ClientQuota {
    // If the limit can't be read, the kernel reports when no descriptor is left.
    let descriptors = limits::descriptors();
    ClientQuota::new(descriptors.min(CONNECTIONS_MAX))
}
