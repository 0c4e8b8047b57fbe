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
//! A round of a worker's loop: sleep until a descriptor is ready, a timer is due, or another worker has
//! something for it; remember what became ready; take frames in from its queue of the TAP; run timers; give
//! everything on its ready list one turn. With nothing to do it sleeps, for ever if no timer is set. One more
//! thread, the [`watch`], only watches: whether the loops still go round, and which thread holds which lock.
//!
//! Between the two the process gives up all rights that serving does not take ([`crate::sandbox`]).
//!
//! Called by: monitor, in the gateway process. Calls: mbuma, and the files of this module.
//! Invariants: [`Lifecycle::up`] comes after everything that can fail at the start; at the end all threads
//! are joined and all buffers are given back.
//! Locks: none but those of worker_pool.

mod allowance;
mod balance;
mod capture_file;
mod client_quota;
mod config_servers;
mod connections;
mod control;
mod devices;
mod dhcp4;
mod dhcp6;
mod echo;
mod event_loop;
mod figures;
mod flow;
mod flow_table;
mod host;
mod host_servers;
mod inbox;
mod load_average;
mod local_names;
mod metrics;
mod network_guests;
mod network_link;
mod notice;
mod outgoing;
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
mod router_adverts;
mod search_list;
mod services;
mod shared;
mod shortages;
mod stall_relief;
mod start;
mod summary;
mod table;
mod tcp_trace;
mod template;
#[cfg(test)]
mod test_gateway;
mod udp;
mod watch;
mod web;
mod worker_pool;

pub(crate) use summary::Summary;

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use mbuf::Live;

use crate::args::NetOpts;
use crate::errors::Error;
use crate::guest::Guest;
use crate::lifecycle::Lifecycle;
use crate::ports::PublishedPort;
use crate::sandbox::{self, Uses};
use crate::say;
use crate::sys::fd;
use event_loop::Worker;
use watch::{Unstarted, Watch};
use worker_pool::{Phase, WorkerPool};

/// How long the guest may be silent, after its end, before its last bytes are taken to be over. A
/// kernel that has more to say says it by then: it waits 200 ms for an answer, then asks again.
const QUIET: Duration = Duration::from_millis(250);
/// The same where the guest left something running that says much: by then all that waited in its TAP's queue has
/// been taken in.
const BUSY_QUIET: Duration = Duration::from_secs(1);
/// How long connections whose end has not come are served after the guest's end, while bytes come.
const LINGER_MAX: Duration = Duration::from_secs(10);
/// How long a host that takes the data of an ended guest may pause.
const STALL_MAX: Duration = Duration::from_secs(5);

/// Sockets of the host that the gateway is given.
pub(crate) struct Sockets {
    /// Where `mbuma netstat` asks.
    pub(crate) control: Option<UnixListener>,
    /// The published ports.
    pub(crate) ports: Vec<PublishedPort>,
}

/// Serves `guest` until `lifecycle` says stop, with these sockets. If that is the guest's end, then for as long as it takes to
/// deliver what it sent.
///
/// # Errors
/// Something cannot be set up, or the TAP is gone.
pub(crate) fn serve(
    guest: Guest,
    opts: &NetOpts,
    sockets: Sockets,
    lifecycle: &mut dyn Lifecycle,
) -> Result<Summary, Error> {
    let worker_pool = WorkerPool::new(guest.link.queues(), opts.serve.dir.is_some())
        .map_err(Error::io("making descriptors to wake by"))?;
    let _first = worker_pool.bind(0);
    let (mut first, others) = start::start(guest, opts, sockets, &worker_pool)?;
    first.watch(lifecycle)?;
    let watch = Watch::open();
    isolate(&mut first, opts)?;
    let _watch = start_watch(watch, std::iter::once(&first).chain(&others), opts);
    let others = serve_together(&mut first, others, &worker_pool, lifecycle)?;
    let shares = std::iter::once(&first).chain(&others).map(Worker::share);
    let shares = shares.collect();
    let figures = first
        .services
        .as_ref()
        .map(|f| f.figures(&first.shared, shares));
    let live = close(first, others);
    debug_assert_eq!(live, Live::NONE, "buffers that were not given back");
    Ok(Summary {
        figures: figures.unwrap_or_else(|| unreachable!("the first worker has a services")),
        leaked: live.into(),
    })
}

/// Everything is open, and no packet of the guest was read: gives up all that serving does not take.
fn isolate(first: &mut Worker, opts: &NetOpts) -> Result<(), Error> {
    if opts.detaches {
        // The caller reads them to their end. Later there is no /dev/null to open.
        let let_go = fd::let_go_of_stdio().and_then(|()| fd::let_go_of_stderr());
        let_go.map_err(Error::io("opening /dev/null"))?;
    }
    let uses = Uses {
        served: first.served(),
        ..Uses::default()
    };
    let isolation = sandbox::enter(opts, &uses)?;
    #[cfg(debug_assertions)]
    sandbox::exploit::run_if_asked();
    if let Some(services) = &mut first.services {
        services.fixed.change(|fixed| fixed.isolation = isolation);
    }
    Ok(())
}

/// Has a thread look after the loops. Without one there is nothing to be seen of a loop that hangs, no more.
fn start_watch<'a>(
    watch: io::Result<Unstarted>,
    workers: impl Iterator<Item = &'a Worker>,
    opts: &NetOpts,
) -> Option<Watch> {
    let bound = (opts.watchdog > 0).then(|| Duration::from_secs(opts.watchdog.into()));
    let heartbeats = workers.map(|worker| Arc::clone(&worker.heartbeat));
    let started = watch.and_then(|watch| watch.start(heartbeats.collect(), bound));
    started
        .inspect_err(|e| say(&format!("warning: no watch over the loop: {e}")))
        .ok()
}

/// Serves with all workers, each but the first on a thread of its own. They come back when all have left.
fn serve_together(
    first: &mut Worker,
    others: Vec<Worker>,
    worker_pool: &WorkerPool,
    lifecycle: &mut dyn Lifecycle,
) -> Result<Vec<Worker>, Error> {
    thread::scope(|scope| {
        // Also when something fails, or panics: the scope waits for its threads.
        let dismiss = Dismiss(worker_pool);
        let follow = |mut worker: Worker| {
            let name = format!("mbuma-{}", worker.shared.worker);
            let thread = thread::Builder::new().name(name);
            thread.spawn_scoped(scope, move || {
                followed(&mut worker, worker_pool).map(|()| worker)
            })
        };
        let threads = others
            .into_iter()
            .map(follow)
            .collect::<io::Result<Vec<_>>>();
        let threads = threads.map_err(Error::io("starting a worker"))?;
        lifecycle.up()?;
        let led = first.lead(lifecycle);
        drop(dismiss);
        let others: Result<Vec<_>, _> = threads.into_iter().map(joined).collect();
        led.and(others)
    })
}

/// The thread of a worker that is not the first. If it ends before the service does, it wakes the first.
fn followed(worker: &mut Worker, worker_pool: &WorkerPool) -> Result<(), Error> {
    let index = worker.shared.worker;
    let _bound = worker_pool.bind(index);
    let _leaves = LeaveGuard(worker_pool, index);
    worker.follow()
}

fn joined(thread: ScopedJoinHandle<'_, Result<Worker, Error>>) -> Result<Worker, Error> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Ends the phase in which workers serve, when dropped.
struct Dismiss<'a>(&'a WorkerPool);

impl Drop for Dismiss<'_> {
    fn drop(&mut self) {
        self.0.advance(Phase::End);
    }
}

/// Says that a worker has left.
struct LeaveGuard<'a>(&'a WorkerPool, usize);

impl Drop for LeaveGuard<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// Ends everything, and says which buffers are in use then.
fn close(mut first: Worker, mut others: Vec<Worker>) -> Live {
    first.close();
    others.iter_mut().for_each(Worker::close);
    let pool = first.stack().pool().clone();
    drop((first, others));
    pool.live()
}
