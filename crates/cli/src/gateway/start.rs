//! Setting a gateway up, in an order in which all steps that can fail come before COMMAND starts.
//!
//! Locks: none.

use std::io;
use std::sync::Arc;

use kern::{Clock, Giant, MonotonicClock, Random};
use mbuma::runtime::WorkerPool;
use mbuma::{Config, IcmpAborts, IfIndex, Stack};

use super::Sockets;
use super::allowance::{RECV_BUFFER, SEND_BUFFER};
use super::client_quota::{ClientQuota, OUTWARD_SHARE, PUBLISHED_SHARE};
use super::config_servers::ConfigServers;
use super::connections::{Connections, WAITING_SHARE};
use super::control::Control;
use super::devices::GuestDevices;
use super::echo::Pings;
use super::event_loop::Worker;
use super::figures::Fixed;
use super::policy::Policy;
use super::reclaim::PoolReclaim;
use super::resolvers::Resolvers;
use super::services::Services;
use super::shared::Shared;
use super::tcp_trace::TcpTrace;
use super::udp::GuestFlows;
use super::waiting::WaitingList;
use super::web::{SharedFixed, Web, WebSite};
use super::worker_shares::WorkerShares;
use crate::args::NetOpts;
use crate::errors::Error;
use crate::guest::{Guest, GuestEnd};
use crate::memory_limit::MemoryLimit;
use crate::sandbox::Isolation;
use crate::stall_relief::StallRelief;
use crate::sys::limits;
use interface::{add_routes, attach};
use site::{pages, site};

mod interface;
mod site;

/// Retransmissions of a SYN to the guest, which is one hop away: a connection to a published port fails after 63 s.
const SYN_RETRANSMITS_MAX: u8 = 5;
/// Connections at most.
const CONNECTIONS_MAX: usize = 1 << 18;
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
    let config = config(opts, pool, &clock);
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
    let (index, link) = attach(&stack, &fixed.guest, devices, opts, &clock, guest.is_owners)?;
    for (queue, fd) in watched.into_iter().enumerate() {
        let watched = pool.watch(&stack, index, queue, fd);
        watched.map_err(Error::io("watching the guest's interface"))?;
    }
    let fixed = Fixed { link, ..fixed };
    add_routes(&stack, index, &fixed, opts, guest.is_owners)?;
    // The gateway's address may need the interface's number.
    all.iter_mut()
        .for_each(|shared| shared.policy.set_link(index.number()));
    let at = pages(&fixed.guest, opts.serve.port());
    let fixed = SharedFixed::new(fixed);
    let site =
        (!at.is_empty() && !opts.ignored.tcp).then(|| site(&stack, &at, opts, pool.len(), &fixed));
    let mut services = services(&all[0], index, fixed, sockets, opts)?;
    if let Some(link) = network {
        link.protect(&services.fixed.get().guest, opts.stack_mac());
        services.make_network(&all[0], link)?;
    }
    workers(all, index, services, site.transpose()?, opts, pool, &clock)
}

/// The stack's configuration.
fn config(opts: &NetOpts, pool: &WorkerPool, clock: &Arc<dyn Clock>) -> Config {
    let mut config = Config::new(Arc::clone(clock), Random::from_os());
    config.pool = MemoryLimit::read().pool();
    config.tcp.connections_max = CONNECTIONS_MAX;
    // The allowance sets the sizes of buffers.
    (config.tcp.recv_buffer, config.tcp.recv_buffer_max) = (RECV_BUFFER, RECV_BUFFER);
    (config.tcp.send_buffer, config.tcp.send_buffer_max) = (SEND_BUFFER, SEND_BUFFER);
    // The guest's kernel answers for its own addresses: its answer about a published port is passed on at once.
    config.tcp.icmp_aborts = IcmpAborts::All;
    config.tcp.syn_retransmits_max = SYN_RETRANSMITS_MAX;
    config.tcp.congestion = opts.congestion;
    config.echo_replies = !opts.ignored.icmp;
    config.udp_queue_max = NEW_FLOWS_MAX;
    config.cpus = pool.cpus();
    config.giant = Arc::new(Giant::new(opts.giant));
    config
}

/// The destinations that the guest may reach, and the source of its connections.
fn policy(ends: &GuestEnd, opts: &NetOpts) -> Result<Policy, Error> {
    let sources = opts.outbound.check().and_then(|()| opts.outbound.sources());
    let sources = sources.map_err(Error::io("--outbound-addr or --interface"))?;
    let policy = Policy::new(ends, opts.host_loopback);
    let policy = policy.with_sources(sources).with_mappings(&opts.maps);
    let policy = policy.with_allowed(&opts.allow).ignoring(opts.ignored);
    let policy = policy.with_private_loopback(opts.loopback.is_private);
    Ok(match (&opts.serve.alone, opts.no_dns) {
        (Some(_), _) => policy.closed(),
        (None, true) => policy.without_names(),
        (None, false) => policy,
    })
}

/// Makes the workers; `services` are the first one's.
fn workers(
    all: Vec<Shared>,
    index: IfIndex,
    services: Services,
    site: Option<Arc<WebSite>>,
    opts: &NetOpts,
    pool: &WorkerPool,
    clock: &Arc<dyn Clock>,
) -> Result<(Worker, Vec<Worker>), Error> {
    let interceptor = all[0].stack.tcp_intercept(index, INTERCEPT_BACKLOG);
    let interceptor = interceptor.map_err(|e| Error::stack("intercepting connections", e))?;
    let interceptor = Arc::new(interceptor);
    let inboxes = Connections::inboxes(pool);
    let waiting_max = connections_max() / WAITING_SHARE / pool.len();
    let waiting = WaitingList::new(waiting_max, opts.network);
    let worker = |shared: Shared| Worker {
        connections: Connections::new(&shared, &interceptor, &inboxes, waiting.clone()),
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
        name_connections: None,
        flows: GuestFlows::new(shared, datagrams),
        pings: Pings::new(shared, echoes, opts.network),
        control: Control::new(shared, sockets.control),
        reclaim: PoolReclaim::default(),
        listeners: Vec::new(),
        client_quotas: client_quotas(),
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

/// The connections that there may be. If the limit can't be read, the kernel reports when no descriptor is left.
fn connections_max() -> usize {
    limits::descriptors().min(CONNECTIONS_MAX)
}

/// The most clients of ports.
fn client_quotas() -> [ClientQuota; 2] {
    [PUBLISHED_SHARE, OUTWARD_SHARE].map(|share| ClientQuota::new(connections_max(), share))
}
