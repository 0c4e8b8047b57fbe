//! Serving a guest: a network stack at the other end of its TAP, and the host's sockets behind it.
//!
//! ```text
//!                         .------------- the gateway, one thread ------------.
//!   guest's kernel  TAP  | [Stack] -- connections -- splice -- host sockets  |  host's kernel
//!        <==========>    |    |------ udp ---------- flows --- host sockets  |  <==========>
//!                        |    |------ echo --------- pings --- host socket   |
//!                        |    '------ http: the status page                  |
//!                         '--------------------------------------------------'
//! ```
//!
//! A round of the loop: sleep until a descriptor is ready or a timer is due; remember what became
//! ready; take frames in from the TAP; run timers; give everything on the ready list one turn. With
//! nothing to do it sleeps, for ever if no timer is set. A second thread, the [`watch`], only looks on: at
//! whether the loop still goes round, and at who holds which lock.
//!
//! Called by: launch, attach. Calls: mbuma, and the files of this module.
//! Invariants: [`Until::up`] comes after everything that can fail at the start; at the end all buffers
//! are given back.
//! Locks: none.

mod connections;
mod control;
mod echo;
mod figures;
mod flow;
mod host;
mod http;
mod metrics;
mod outgoing;
mod page;
mod ping;
mod policy;
mod poller;
mod publish;
mod question;
mod ready;
mod report;
mod request;
mod resolvers;
mod rounds;
mod shared;
mod splice;
mod start;
mod summary;
mod table;
mod udp;
mod watch;

pub(crate) use summary::Summary;

use std::time::Duration;

use mbuf::Live;

use crate::args::NetOpts;
use crate::errors::Error;
use crate::guest::Guest;
use crate::say;
use crate::until::{Until, Verdict};
use rounds::Gateway;
use watch::Watch;

/// How long the guest may be silent, after its end, before its last bytes are taken to be over. A
/// kernel that has more to say says it by then: it waits 200 ms for an answer, then asks again.
const QUIET: Duration = Duration::from_millis(250);
/// How long connections whose end has not come are served after the guest's end, while bytes come.
const LINGER_MAX: Duration = Duration::from_secs(10);
/// How long a host that takes what the guest left behind may pause.
const STALL_MAX: Duration = Duration::from_secs(5);

/// Serves `guest` until `until` says stop. If that is the guest's end, then for as long as it takes to
/// deliver what it sent.
///
/// # Errors
/// Something cannot be set up, or the TAP is gone.
pub(crate) fn serve(guest: Guest, opts: &NetOpts, until: &mut dyn Until) -> Result<Summary, Error> {
    let mut gateway = Gateway::start(guest, opts)?;
    gateway.watch(until)?;
    let _watch = watch(&gateway, opts);
    until.up()?;
    if gateway.run(until)? == Verdict::GuestEnded {
        gateway.linger(until)?;
    }
    let figures = gateway.figures();
    let live = close(gateway);
    debug_assert_eq!(live, Live::NONE, "buffers that nobody gave back");
    Ok(Summary {
        figures,
        leaked: live.into(),
    })
}

/// Has a thread look after the loop. Without one there is nothing to be seen of a loop that hangs, no more.
fn watch(gateway: &Gateway, opts: &NetOpts) -> Option<Watch> {
    let bound = (opts.watchdog > 0).then(|| Duration::from_secs(opts.watchdog.into()));
    let started = Watch::start(gateway.pulse(), bound);
    started
        .inspect_err(|e| say(&format!("warning: no watch over the loop: {e}")))
        .ok()
}

/// Ends everything, and says which buffers are in use then.
fn close(mut gateway: Gateway) -> Live {
    gateway.close();
    let pool = gateway.stack().pool().clone();
    drop(gateway);
    pool.live()
}
