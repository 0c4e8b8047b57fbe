//! The tasks of a worker, for the runtime's loop, and the end of the service.
//!
//! Invariants: each turn is bounded.
//! Locks: none.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kern::Time;
use mbuma::Stack;
use mbuma::device::Budget;
use mbuma::runtime::{
    Heartbeat, Interest, LocalTasks, Phase, Quiescence, Readiness, RoundError, WorkerContext,
    run_round,
};

use super::connections::Connections;
use super::figures::{Gauges, Share};
use super::notice::Subject;
use super::relay::Remainder;
use super::services::Services;
use super::shared::Shared;
use super::table::{SourceKind, Token};
use super::web::Web;
use super::{BUSY_QUIET, LINGER_MAX, QUIET, STALL_MAX};
use crate::errors::Error;
use crate::files::ServedTree;
use crate::lifecycle::{GuestState, Lifecycle};
use crate::stall_relief::StallRelief;

/// The frames that are taken in from the TAP before others have their turn.
pub(super) const BUDGET: Budget = Budget {
    frames: 64,
    bytes: 128 << 10,
};
/// Turns of a round at most. The guest acknowledges while we send: with more turns than its answers have room in
/// [`BUDGET`], they wait in the TAP's queue, and overflow it, while the data that they acknowledge stays in memory.
pub(super) const TURNS_MAX: usize = 12;

/// The interval at which the monitor is told that the last data are still being delivered: more than [`QUIET`], after
/// which each loop looks, and less than the shortest `--watchdog`.
const LINGERS_EVERY: Duration = Duration::from_millis(300);

/// The connections that a worker serves, and of the first worker its services.
pub(super) struct Worker {
    pub(super) shared: Shared,
    pub(super) connections: Connections,
    /// The status page and served files, where there is a place for them.
    pub(super) web: Option<Web>,
    /// The services of the first worker alone.
    pub(super) services: Option<Services>,
    pub(super) stall_relief: StallRelief,
    /// The lifecycle has news.
    pub(super) lifecycle_ready: bool,
}

impl Worker {
    /// Watches the descriptors that tell when to stop.
    pub(super) fn watch(&self, lifecycle: &dyn Lifecycle) -> Result<(), Error> {
        let token = Token::only(SourceKind::Lifecycle);
        let fds = lifecycle.fds();
        // By edge: a descriptor that stays ready, as that of an ended process does, is handled once.
        let watched = fds
            .iter()
            .try_for_each(|fd| self.shared.poller().add(fd, token, Interest::ReadEdge));
        watched.map_err(Error::io("watching what ends the gateway"))
    }

    /// Serves, as the first worker, until `lifecycle` says stop; then, if that is the guest's end, until what
    /// the guest sent has gone where it was sent to.
    /// `others`: of the loops of the other workers.
    pub(super) fn lead(
        &mut self,
        others: &[Arc<Heartbeat>],
        lifecycle: &mut dyn Lifecycle,
    ) -> Result<(), Error> {
        let state = self.run(lifecycle)?;
        if state == GuestState::Ended {
            self.shared.context.advance(Phase::Linger);
            let mut told = self.shared.now();
            let beats = || -> Vec<_> { others.iter().map(|other| other.get()).collect() };
            let mut seen = beats();
            self.linger(|worker| {
                let now = worker.shared.now();
                if now - told >= LINGERS_EVERY {
                    let beats = std::mem::replace(&mut seen, beats());
                    // No loop sleeps for that long in this phase.
                    if beats.iter().zip(&seen).all(|(before, now)| before != now) {
                        lifecycle.lingers();
                    }
                    told = now;
                }
                // More ends, and is to be reaped.
                if !std::mem::take(&mut worker.lifecycle_ready) {
                    return Ok(true);
                }
                let state = lifecycle.check()?;
                // The ports of a guest that has left are closed.
                worker.take_changes(lifecycle);
                Ok(state != GuestState::StopRequested)
            })?;
        } else if self.drain() {
            self.shared.context.advance(Phase::Drain);
            self.linger(|_| Ok(true))?;
        }
        Ok(())
    }

    /// Has HTTP connections end after the response that they send. False if they are not waited for.
    fn drain(&mut self) -> bool {
        let shared = &mut self.shared;
        self.web.as_mut().is_some_and(|web| web.drain(shared))
    }

    /// Serves beside the first worker, until that says stop.
    pub(super) fn follow(&mut self) -> Result<(), Error> {
        while self.shared.context.phase() == Phase::Serve {
            self.round(None)?;
        }
        if self.shared.context.phase() == Phase::Drain {
            self.drain();
        }
        self.linger(|worker| Ok(worker.shared.context.phase() < Phase::End))
    }

    /// Serves until `lifecycle` says stop, and says why. If another worker has left, its error says why.
    fn run(&mut self, lifecycle: &mut dyn Lifecycle) -> Result<GuestState, Error> {
        // Something may have happened before the descriptors were watched.
        let mut state = lifecycle.check()?;
        self.take_changes(lifecycle);
        while state == GuestState::Running {
            self.round(None)?;
            if std::mem::take(&mut self.lifecycle_ready) {
                state = lifecycle.check()?;
                self.take_changes(lifecycle);
            }
            if self.shared.context.has_lost_one() {
                return Ok(GuestState::StopRequested);
            }
        }
        Ok(state)
    }

    fn take_changes(&mut self, lifecycle: &mut dyn Lifecycle) {
        for change in lifecycle.take_changes() {
            let services = self.services.as_mut();
            let made = services.map(|services| services.change(&mut self.shared, change));
            lifecycle.report(made.unwrap_or(Ok(())));
        }
    }

    /// The guest has ended, but its kernel may hold bytes that it sent: serves on until they have
    /// gone where they were sent to, or `goes_on` says no.
    fn linger(
        &mut self,
        mut goes_on: impl FnMut(&mut Worker) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.shared.context.begin_votes();
        // The first round does not sleep: there may be nothing to wait for.
        let mut at_most = Duration::ZERO;
        let start = self.shared.now();
        let (mut moved, mut moved_at) = (self.delivered(), start);
        // A TAP that is gone now has nothing more to say.
        while goes_on(self)? && self.round(Some(at_most)).is_ok() {
            at_most = QUIET;
            let now = self.shared.now();
            let delivered = self.delivered();
            if delivered != moved {
                (moved, moved_at) = (delivered, now);
            }
            let idle = self.shared.context.is_idle();
            let vote = self.quiescence(idle, now - start, now - moved_at);
            let all = self.shared.context.vote(vote);
            // Worker 0 decides for all: it has been woken.
            if all && self.services.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Whether anything is to be waited for, `since` the guest's end, `still` since anything moved.
    fn quiescence(&self, idle: bool, since: Duration, still: Duration) -> Quiescence {
        let responses = self.web.as_ref().map_or(0, Web::draining);
        let remainder = match responses {
            0 => self.connections.remainder(),
            _ => Remainder::Part,
        };
        let late = match remainder {
            Remainder::Nothing | Remainder::Unknown => still >= BUSY_QUIET || since >= LINGER_MAX,
            Remainder::Part => still >= STALL_MAX || since >= LINGER_MAX,
            Remainder::Whole => still >= STALL_MAX,
        };
        let done = match remainder {
            Remainder::Nothing => true,
            Remainder::Unknown => still >= QUIET,
            Remainder::Part | Remainder::Whole => false,
        };
        match (late, idle && done) {
            (true, _) => Quiescence::TimedOut,
            (false, true) => Quiescence::Idle,
            (false, false) => Quiescence::Busy,
        }
    }

    /// Bytes of the guest that went on to the host, and of responses that are waited for and that clients have taken.
    fn delivered(&self) -> u64 {
        let counters = &self.shared.counters;
        match self.web.as_ref().filter(|web| web.draining() > 0) {
            None => counters.bytes_up,
            Some(web) => {
                (counters.bytes_up + counters.http_bytes).wrapping_sub(web.unsent() as u64)
            }
        }
    }

    /// One round; sleeps for `at_most` if there is nothing to do.
    fn round(&mut self, at_most: Option<Duration>) -> Result<(), Error> {
        run_round(self, at_most).map_err(|e| match e {
            RoundError::Wait(e) => Error::io("waiting for events")(e),
            RoundError::Device(e) => tap_error(e),
            other => Error::io("serving the guest")(io::Error::other(other.to_string())),
        })
    }

    /// Makes room in buffers that connections keep whose host does not read, if there is little left.
    fn relieve_stalls(&mut self, now: Time) {
        let pool = self.shared.stack.pool();
        if !self.stall_relief.is_due(now, || pool.headroom()) {
            return;
        }
        let count = self.connections.reset_stalled(now);
        if count > 0 {
            self.shared.counters.connections_stalled += count as u64;
            self.shared.notices.say(now, Subject::Stalled, || {
                format!("buffers are short: connections reset because a side took nothing for 10 s: {count}")
            });
        }
    }

    /// The traffic of this worker so far.
    pub(super) fn share(&self) -> Share {
        Share {
            counters: self.shared.counters,
            gauges: self.gauges(),
        }
    }

    /// The gauges of this worker.
    fn gauges(&self) -> Gauges {
        Gauges {
            connections_active: self.connections.len() as u64,
            flows_active: self.services.as_ref().map_or(0, Services::flows) as u64,
            http_active: self.web.as_ref().map_or(0, Web::len) as u64,
        }
    }

    /// The directory that is served, if there is one.
    pub(super) fn served(&self) -> Option<&ServedTree> {
        self.web.as_ref()?.served()
    }

    /// The heartbeat of this loop.
    pub(super) fn heartbeat(&self) -> Arc<Heartbeat> {
        Arc::clone(self.shared.context.heartbeat())
    }

    /// The stack.
    pub(super) fn stack(&self) -> &Stack {
        &self.shared.stack
    }

    /// Ends whatever is open: resets for connections that are under way.
    pub(super) fn close(&mut self) {
        if let Some(services) = &mut self.services {
            services.end_trace(&self.shared);
        }
        self.connections.close(&self.shared);
        if let Some(web) = &mut self.web {
            web.close(&mut self.shared);
        }
        if let Some(services) = &mut self.services {
            services.close();
        }
        self.shared.release_buffers();
    }
}

impl LocalTasks for Worker {
    fn context(&mut self) -> &mut WorkerContext {
        &mut self.shared.context
    }

    fn event(&mut self, key: u64, readiness: Readiness) {
        let token = Token::from_number(key);
        match token.kind() {
            Some(SourceKind::Lifecycle) => self.lifecycle_ready = true,
            Some(SourceKind::Connection) => self.connections.note(token, readiness),
            Some(SourceKind::NameConnection) => {
                let services = self.services.as_mut();
                if let Some(names) = services.and_then(|all| all.name_connections.as_mut()) {
                    names.note(token, readiness);
                }
            }
            Some(kind) => {
                let gauges = self.gauges();
                if let Some(services) = &mut self.services {
                    services.event(&mut self.shared, gauges, kind, token);
                }
            }
            None => {}
        }
    }

    fn timer(&mut self, key: u64) {
        let token = Token::from_number(key);
        match (token.kind(), &mut self.services) {
            (Some(SourceKind::Connection), _) => self.connections.wake(token),
            (
                Some(SourceKind::HttpConnection | SourceKind::TlsHandshake | SourceKind::FileSweep),
                _,
            ) => {
                if let Some(web) = &mut self.web {
                    web.timer(&mut self.shared, token);
                }
            }
            (Some(kind), Some(services)) => services.timer(&mut self.shared, kind, token),
            (Some(_), None) | (None, _) => {}
        }
    }

    fn turn(&mut self, key: u64) {
        let token = Token::from_number(key);
        let gauges = self.gauges();
        let shared = &mut self.shared;
        match (token.kind(), &mut self.services) {
            (Some(SourceKind::Connection), _) => self.connections.turn(shared, token),
            (Some(SourceKind::Interceptor), _) => self.connections.intercept(shared),
            (Some(SourceKind::Inbox), _) => self.connections.take_in(shared),
            (Some(SourceKind::HttpListener), _) => {
                if let Some(web) = &mut self.web {
                    web.accept(shared);
                }
            }
            (Some(SourceKind::HttpConnection | SourceKind::TlsHandshake), _) => {
                if let Some(web) = &mut self.web {
                    web.turn(shared, token, gauges);
                }
            }
            (Some(kind), Some(services)) => {
                services.turn(shared, &mut self.connections, kind, token);
            }
            (Some(_), None) | (None, _) => {}
        }
    }

    fn turns_end(&mut self) {
        if let Some(web) = &mut self.web {
            web.end_round(&mut self.shared);
        }
        self.relieve_stalls(self.shared.now());
        let Shared {
            worker_shares,
            context,
            ..
        } = &self.shared;
        if worker_shares.len() > 1 {
            worker_shares.publish(context.index(), self.share());
        }
    }

    fn moved(&self) -> u64 {
        self.shared.counters.moved()
    }

    fn reclaimed(&mut self, is_last: bool) {
        if let Some(services) = &mut self.services {
            services.reclaim.tick(&mut self.shared, is_last);
        }
    }
}

/// The TAP can't be read any more, mostly because its interface was deleted.
fn tap_error(source: io::Error) -> Error {
    let doing = match source.raw_os_error() {
        Some(libc::EBADFD | libc::ENODEV) => "the guest's interface is gone",
        _ => "reading the TAP",
    };
    Error::io(doing)(source)
}
