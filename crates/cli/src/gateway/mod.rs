//! Serving a guest: a network stack at the other end of its TAP, and the host's sockets behind it.
//!
//! ```text
//!                         .------------ the gateway, a worker a queue --------.
//!   guest's kernel  TAP  | [Stack] -- connections -- relays -- host sockets   |  host's kernel
//!        <==========>    |    |                                               |  <==========>
//!                        |    |   services: only the first worker             |
//!                        |    |------ udp ---------- flows --- host sockets   |
//!                        |    |------ echo --------- pings --- host socket    |
//!                        |    |------ dhcp4, dhcp6, router_adverts            |
//!                        |    |------ publish -- accepted host sockets        |
//!                        |    web: the status page, served files              |
//!                         '---------------------------------------------------'
//! ```
//!
//! The workers are those of [`mbuma::runtime`], and the gateway's connections and services are tasks on them. One more
//! thread, the [`watch`], only observes whether the loops still run, and which thread holds which lock.
//!
//! | work | the worker that does it |
//! |---|---|
//! | a new connection | the worker on whose queue its SYN came; if that is busy and another is not, the other |
//! | a connection under way | the same worker; if that has become busy and another is not, the other |
//! | UDP flows, pings, the status page, published ports | worker 0: each needs one table, and seldom fills a CPU |
//!
//! Between the two the process gives up all rights that serving does not need ([`crate::sandbox`]).
//!
//! Invariants: [`Lifecycle::up`] comes after everything that can fail at the start; at the end all threads are joined
//! and all buffers are given back.
//! Locks: none but those of worker_shares.

mod address_guard;
mod allowance;
mod capture_file;
mod client_quota;
mod config_servers;
mod connections;
mod control;
mod devices;
mod dhcp4;
mod dhcp6;
mod dhcp_socket;
mod echo;
mod event_loop;
mod figures;
mod flow;
mod flow_table;
mod host;
mod host_servers;
mod local_names;
mod loopback;
mod metrics;
mod name_connections;
mod network_guests;
mod network_link;
mod notice;
mod outgoing;
mod outward;
mod pending_pings;
mod ping;
mod policy;
mod publish;
mod question;
mod quote;
mod reclaim;
mod relay;
mod report;
mod resolvers;
mod retry;
mod router_adverts;
mod search_list;
mod services;
mod shared;
mod shared_sockets;
mod shortages;
mod start;
mod summary;
mod table;
mod tcp_trace;
mod template;
#[cfg(test)]
pub(crate) mod test_gateway;
mod udp;
mod waiting;
mod watch;
mod web;
mod worker_shares;

pub(crate) use summary::Summary;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use mbuf::Live;
use mbuma::runtime::{ThreadError, WorkerPool, WorkerPoolConfig};

use crate::args::NetOpts;
use crate::errors::Error;
use crate::guest::{Guest, GuestLink};
use crate::lifecycle::Lifecycle;
use crate::ports::PublishedPort;
use crate::sandbox::{self, Uses};
use crate::say;
use crate::sys::{bus_error, fd};
use event_loop::{BUDGET, TURNS_MAX, Worker};
use watch::{Unstarted, Watch};

/// If the guest sends nothing for this time after its end, all its bytes are taken to have arrived. A kernel that has
/// more to send does so by then: it waits 200 ms for an answer, then sends again.
const QUIET: Duration = Duration::from_millis(250);
/// The same if a process that the guest left running sends much: by then all packets that waited in the TAP's queue
/// have been taken in.
const BUSY_QUIET: Duration = Duration::from_secs(1);
/// How long connections whose end has not come are served after the guest's end, while bytes come.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(10);
/// How long a host that takes the data of an ended guest may pause.
const STALL_MAX: Duration = Duration::from_secs(5);

/// Sockets of the host that the gateway is given.
pub(crate) struct Sockets {
    /// Where `mbuma netstat` asks.
    pub(crate) control: Option<UnixListener>,
    /// The published ports.
    pub(crate) ports: Vec<PublishedPort>,
}

/// Serves `guest` until `lifecycle` says stop, with these sockets. If the reason is the guest's end, it serves until
/// the guest's data is delivered.
///
/// # Errors
/// The set-up failed, or the TAP was removed.
pub(crate) fn serve(
    guest: Guest,
    opts: &NetOpts,
    sockets: Sockets,
    lifecycle: &mut dyn Lifecycle,
) -> Result<Summary, Error> {
    // The threads that read files wake workers too.
    let config = WorkerPoolConfig::new(guest.link.queues())
        .budget(BUDGET)
        .turns_max(TURNS_MAX)
        .has_other_threads(opts.serve.dir.is_some());
    let pool = WorkerPool::new(config).map_err(Error::io("making descriptors to wake by"))?;
    let cpus = pool.cpus();
    let _first = cpus.bind(0);
    let shared_memory = matches!(guest.link, GuestLink::SharedMemory(_));
    let (mut first, others) = start::start(guest, opts, sockets, &pool)?;
    first.watch(lifecycle)?;
    let watch = Watch::open();
    isolate(&mut first, opts, shared_memory)?;
    let _watch = start_watch(watch, std::iter::once(&first).chain(&others), opts);
    let others = serve_together(&mut first, others, &pool, lifecycle)?;
    let shares = std::iter::once(&first).chain(&others).map(Worker::share);
    let shares = shares.collect();
    let figures = first
        .services
        .as_ref()
        .map(|f| f.figures(&first.shared, shares));
    let live = close(first, others, &pool);
    debug_assert_eq!(live, Live::NONE, "buffers that were not given back");
    Ok(Summary {
        figures: figures.unwrap_or_else(|| unreachable!("the first worker has the services")),
        leaked: live.into(),
    })
}

/// Gives up all rights that serving does not need: everything is open, and no packet of the guest was read.
/// `shared_memory`: a virtual machine shares memory later.
fn isolate(first: &mut Worker, opts: &NetOpts, shared_memory: bool) -> Result<(), Error> {
    if let Some(what) = opts.detaches {
        // The caller reads them to their end. Later there is no /dev/null to open.
        fd::let_go(what).map_err(Error::io("letting go of the caller's files"))?;
    }
    if shared_memory {
        // If it fails, the process ends nevertheless.
        let _ = bus_error::report();
    }
    let uses = Uses {
        served: first.served().map(AsFd::as_fd),
        binds: opts.outbound.binds(),
        names_interface: opts.outbound.names_interface(),
        shared_memory,
        ..Uses::default()
    };
    let isolation = sandbox::enter(opts, &uses)?;
    #[cfg(debug_assertions)]
    sandbox::exploit::run_if_asked();
    if first.served().is_some_and(|tree| !tree.may_be_entered()) {
        say(
            "warning: the served directory does not let this process in, which is `nobody`'s if root started it: all \
             requests are refused, until `chmod o+x` lets it in",
        );
    }
    if let Some(services) = &mut first.services {
        services.fixed.change(|fixed| fixed.isolation = isolation);
    }
    Ok(())
}

/// Starts a thread that watches the loops. If that fails, only the report of a loop that hangs is missing.
fn start_watch<'a>(
    watch: io::Result<Unstarted>,
    workers: impl Iterator<Item = &'a Worker>,
    opts: &NetOpts,
) -> Option<Watch> {
    let bound = (opts.watchdog > 0).then(|| Duration::from_secs(opts.watchdog.into()));
    let heartbeats = workers.map(Worker::heartbeat);
    let started = watch.and_then(|watch| watch.start(heartbeats.collect(), bound));
    started
        .inspect_err(|e| say(&format!("warning: the loop is not watched: {e}")))
        .ok()
}

/// Serves with all workers, each but the first on a thread of its own. Returns when all have ended.
fn serve_together(
    first: &mut Worker,
    others: Vec<Worker>,
    pool: &WorkerPool,
    lifecycle: &mut dyn Lifecycle,
) -> Result<Vec<Worker>, Error> {
    let heartbeats: Vec<_> = others.iter().map(Worker::heartbeat).collect();
    pool.run(others, Worker::follow, || {
        lifecycle.up()?;
        first.lead(&heartbeats, lifecycle)
    })
}

impl From<ThreadError> for Error {
    fn from(e: ThreadError) -> Error {
        Error::io("starting a worker")(e.into_inner())
    }
}

/// Ends all services and connections. Returns the buffers that are in use then.
fn close(mut first: Worker, mut others: Vec<Worker>, workers: &WorkerPool) -> Live {
    first.close();
    others.iter_mut().for_each(Worker::close);
    let pool = first.stack().pool().clone();
    drop((first, others));
    workers.release();
    pool.live()
}
