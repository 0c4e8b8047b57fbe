//! The event loop of a worker. A round: wait for events, take frames in, run timers, give the ready connections a turn.
//!
//! Called by: serve. Calls: everything in the gateway.
//! Invariants: a ready entry waits at most for one turn of each other ready entry; each turn is bounded.
//! Locks: none.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use kern::{AdaptiveSpin, Time};
use mbuma::device::Budget;
use mbuma::runtime::{Interest, PollEvents, Readiness, TaskWaker};
use mbuma::{RxQueue, Stack};

use super::connections::Connections;
use super::figures::{Gauges, Share};
use super::notice::Subject;
use super::relay::Remainder;
use super::services::Services;
use super::shared::Shared;
use super::stall_relief::StallRelief;
use super::table::{Kind, Token};
use super::watch::Heartbeat;
use super::web::Web;
use super::worker_pool::{Phase, Quiescence};
use super::{BUSY_QUIET, LINGER_MAX, QUIET, STALL_MAX};
use crate::errors::Error;
use crate::lifecycle::{GuestState, Lifecycle};

/// The frames that are taken in from the TAP before others have their turn.
const BUDGET: Budget = Budget {
    frames: 64,
    bytes: 128 << 10,
};
/// Turns of a round at most. The guest acknowledges while we send: with more turns than its answers have room in
/// [`BUDGET`], they wait in the TAP's queue, and overflow it, while the data that they acknowledge stays in memory.
const TURNS_MAX: usize = 12;

/// A worker: its queue of the TAP, and the connections that it serves.
pub(super) struct Worker {
    pub(super) shared: Shared,
    /// The traffic from the guest by this worker's TAP.
    pub(super) inward: RxQueue,
    pub(super) connections: Connections,
    /// The status page and served files, where there is a place for them.
    pub(super) web: Option<Web>,
    /// Shows that the loop goes round.
    pub(super) heartbeat: Arc<Heartbeat>,
    /// Bytes that were published to the others.
    pub(super) published: u64,
    /// The services of the first worker alone.
    pub(super) services: Option<Services>,
    pub(super) stall_relief: StallRelief,
    /// The events of one wait.
    pub(super) events: PollEvents,
    pub(super) spin: AdaptiveSpin,
}

/// The work that a round of the loop leaves for the next.
#[derive(Debug, Default)]
struct Round {
    /// More frames may wait in the TAP.
    tap_ready: bool,
    /// More packets wait for this worker's CPU in the stack.
    stack_ready: bool,
    /// The lifecycle has news.
    lifecycle_ready: bool,
    /// The guest has ended: a worker that takes something in retracts its vote.
    lingers: bool,
    /// The ready list's other half: those that were ready earlier, and have not had their turn.
    turns: VecDeque<Arc<TaskWaker>>,
    /// Timers that came, empty between rounds.
    due: Vec<Token>,
}

impl Worker {
    /// Watches the descriptors that tell when to stop.
    pub(super) fn watch(&self, lifecycle: &dyn Lifecycle) -> Result<(), Error> {
        let token = Token::only(Kind::Lifecycle);
        let fds = lifecycle.fds();
        // By edge: a descriptor that stays ready, as that of an ended process does, is handled once.
        let watched = fds
            .iter()
            .try_for_each(|fd| self.shared.poller().add(fd, token, Interest::ReadEdge));
        watched.map_err(Error::io("watching what ends the gateway"))
    }

    /// Serves, as the first worker, until `lifecycle` says stop; then, if that is the guest's end, until what
    /// the guest sent has gone where it was sent to.
    pub(super) fn lead(&mut self, lifecycle: &mut dyn Lifecycle) -> Result<(), Error> {
        let state = self.run(lifecycle)?;
        if state == GuestState::Ended {
            self.shared.worker_pool.advance(Phase::Linger);
            self.linger(|round| {
                // More ends, and is to be reaped.
                let news = std::mem::take(&mut round.lifecycle_ready);
                Ok(!news || lifecycle.check()? != GuestState::StopRequested)
            })?;
        } else if self.drain() {
            self.shared.worker_pool.advance(Phase::Drain);
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
        let worker_pool = Arc::clone(&self.shared.worker_pool);
        let mut round = Round::default();
        while worker_pool.phase() == Phase::Serve {
            self.round(&mut round, None)?;
        }
        if worker_pool.phase() == Phase::Drain {
            self.drain();
        }
        self.linger(|_| Ok(worker_pool.phase() < Phase::End))
    }

    /// Serves until `lifecycle` says stop, and says why. If another worker has left, its error says why.
    fn run(&mut self, lifecycle: &mut dyn Lifecycle) -> Result<GuestState, Error> {
        let mut round = Round::default();
        // Something may have happened before the descriptors were watched.
        let mut state = lifecycle.check()?;
        self.take_changes(lifecycle);
        while state == GuestState::Running {
            self.round(&mut round, None)?;
            if std::mem::take(&mut round.lifecycle_ready) {
                state = lifecycle.check()?;
                self.take_changes(lifecycle);
            }
            if self.shared.worker_pool.has_lost_one() {
                return Ok(GuestState::StopRequested);
            }
        }
        Ok(state)
    }

    fn take_changes(&mut self, lifecycle: &mut dyn Lifecycle) {
        if let Some(servers) = lifecycle.take_name_servers() {
            self.shared.resolvers.replace_all(servers);
        }
        if let Some(services) = &mut self.services {
            services.change_guests(&mut self.shared, lifecycle.take_guest_changes());
            services.change_ports(&mut self.shared, lifecycle.take_port_changes());
        }
    }

    /// The guest has ended, but its kernel may hold bytes that it sent: serves on until they have
    /// gone where they were sent to, or `goes_on` says no.
    fn linger(
        &mut self,
        mut goes_on: impl FnMut(&mut Round) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut round = Round {
            tap_ready: true,
            lingers: true,
            ..Round::default()
        };
        let start = self.shared.now();
        let (mut moved, mut moved_at) = (self.moved(), start);
        // A TAP that is gone now has nothing more to say.
        while goes_on(&mut round)? && self.round(&mut round, Some(QUIET)).is_ok() {
            let now = self.shared.now();
            if self.moved() != moved {
                (moved, moved_at) = (self.moved(), now);
            }
            let busy = round.tap_ready || round.stack_ready;
            let idle = !busy && round.turns.is_empty() && self.shared.ready.is_empty();
            let vote = self.quiescence(idle, now - start, now - moved_at);
            let all = self.shared.worker_pool.vote(self.shared.worker, vote);
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

    /// Bytes of the guest that went on to the host, and of responses that are waited for.
    fn moved(&self) -> u64 {
        let counters = &self.shared.counters;
        match self.web.as_ref().map_or(0, Web::draining) {
            0 => counters.bytes_up,
            _ => counters.bytes_up + counters.http_bytes,
        }
    }

    /// One round; sleeps for `at_most` if there is nothing to do.
    fn round(&mut self, round: &mut Round, at_most: Option<Duration>) -> Result<(), Error> {
        let due = self.next_deadline();
        let busy = round.tap_ready || round.stack_ready || !round.turns.is_empty();
        let rests = !busy && self.prepare_sleep(round);
        let timeout = self.timeout(due, !rests, at_most);
        self.heartbeat.beat();
        let events = self.wait(timeout);
        self.heartbeat.beat();
        if rests {
            self.shared.sleeper.awake();
        }
        if round.lingers {
            self.shared.worker_pool.retract_vote(self.shared.worker);
        }
        events.map_err(Error::io("waiting for events"))?;
        let events = self.events.len();
        for index in 0..events {
            if let Some((key, readiness)) = self.events.get(index) {
                self.event(round, Token::from_number(key), readiness);
            }
        }
        if round.tap_ready {
            round.tap_ready = self.inward.poll(BUDGET).map_err(tap_error)?;
        }
        if due.is_some_and(|at| at <= self.shared.now()) {
            self.run_timers(round);
        }
        self.run_turns(round);
        let (worker, now) = (self.shared.worker, self.shared.now());
        self.relieve_stalls(now);
        round.stack_ready = self.shared.stack.run_netisr(worker, BUDGET);
        if events > 0 {
            self.shared.worker_pool.note_use();
        }
        self.publish_load();
        let Shared {
            balance,
            worker_pool,
            ..
        } = &mut self.shared;
        balance.round(worker_pool, worker, now, rests);
        Ok(())
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
                format!("buffers are short: {count} connections were reset whose host took nothing for 10 s")
            });
        }
    }

    /// Waits for events. If more are likely to come soon it polls before it sleeps, but not beside a bulk stream, even
    /// another worker's: polling takes the CPU from the threads that move the stream, and Linux then schedules the polling
    /// worker behind them, on their CPU, instead of waking it on the CPU that the packet came from.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let sleeps = timeout != Some(Duration::ZERO);
        let Self {
            shared,
            events,
            spin,
            ..
        } = self;
        let spins = sleeps && !shared.worker_pool.is_busy(shared.now());
        if spins && shared.sleeper.spin(events, spin, timeout) {
            return Ok(());
        }
        shared.poller().wait(events, timeout)
    }

    /// Whether the worker may sleep: its list is empty, and a wake from now on wakes the worker.
    fn prepare_sleep(&self, round: &mut Round) -> bool {
        let Shared { sleeper, ready, .. } = &self.shared;
        sleeper.prepare_sleep();
        let may_sleep = ready.shrink_if_empty(&mut round.turns);
        if !may_sleep {
            sleeper.awake();
        }
        may_sleep
    }

    /// Publishes this worker's figures to the others.
    fn publish_load(&mut self) {
        let Shared {
            worker_pool,
            worker,
            ..
        } = &self.shared;
        let moved = self.shared.counters.moved();
        if moved != self.published {
            worker_pool.record_load(*worker, self.shared.now(), moved - self.published);
        }
        if worker_pool.len() > 1 {
            worker_pool.publish(*worker, self.share());
        }
        self.published = moved;
    }

    /// When time makes something happen next.
    fn next_deadline(&self) -> Option<Time> {
        let Shared { stack, worker, .. } = &self.shared;
        let stack = stack.next_deadline_of(*worker);
        let own = self.shared.timers.next_deadline();
        stack.into_iter().chain(own).min()
    }

    fn timeout(
        &self,
        due: Option<Time>,
        busy: bool,
        at_most: Option<Duration>,
    ) -> Option<Duration> {
        if busy {
            return Some(Duration::ZERO);
        }
        let until_due = due.map(|at| at - self.shared.now());
        until_due.into_iter().chain(at_most).min()
    }

    /// Remembers an event, or handles it at once where that is bounded.
    fn event(&mut self, round: &mut Round, token: Token, readiness: Readiness) {
        match token.kind() {
            Some(Kind::Tap) => round.tap_ready = true,
            Some(Kind::Lifecycle) => round.lifecycle_ready = true,
            Some(Kind::Connection) => self.connections.note(token, readiness),
            // The event has ended the wait; nothing else is to be done.
            Some(Kind::Wakeup) => {}
            Some(kind) => {
                let gauges = self.gauges();
                if let Some(services) = &mut self.services {
                    services.event(&mut self.shared, gauges, kind, token, readiness);
                }
            }
            None => {}
        }
    }

    /// Runs the timers that are due, the stack's and the gateway's.
    fn run_timers(&mut self, round: &mut Round) {
        self.shared.stack.poll_timers(self.shared.worker);
        let now = self.shared.now();
        self.shared.timers.advance(now, &mut round.due);
        for token in round.due.drain(..) {
            match (token.kind(), &mut self.services) {
                (Some(Kind::Connection), _) => self.connections.wake(token),
                (Some(Kind::HttpConnection | Kind::TlsHandshake), _) => {
                    if let Some(web) = &mut self.web {
                        web.timer(&mut self.shared, token);
                    }
                }
                (Some(kind), Some(services)) => services.timer(&mut self.shared, kind, token),
                (Some(_), None) | (None, _) => {}
            }
        }
    }

    /// Gives each entry of the ready list a turn, at most [`TURNS_MAX`] of them. An entry that joins meanwhile waits until
    /// all those before it had theirs, and frames are taken in between.
    fn run_turns(&mut self, round: &mut Round) {
        if round.turns.is_empty() {
            self.shared.ready.take_all(&mut round.turns);
        }
        let count = round.turns.len().min(TURNS_MAX);
        for wake in round.turns.drain(..count) {
            self.turn(Token::from_number(wake.begin()));
        }
        if let Some(web) = &mut self.web {
            web.end_round(&mut self.shared);
        }
    }

    fn turn(&mut self, token: Token) {
        let gauges = self.gauges();
        let shared = &mut self.shared;
        match (token.kind(), &mut self.services) {
            (Some(Kind::Connection), _) => self.connections.turn(shared, token),
            (Some(Kind::Interceptor), _) => self.connections.intercept(shared),
            (Some(Kind::Inbox), _) => self.connections.take_in(shared),
            (Some(Kind::HttpListener), _) => {
                if let Some(web) = &mut self.web {
                    web.accept(shared);
                }
            }
            (Some(Kind::HttpConnection | Kind::TlsHandshake), _) => {
                if let Some(web) = &mut self.web {
                    web.turn(shared, token, gauges);
                }
            }
            // The turn has ended the wait; nothing else is to be done.
            (Some(Kind::Wakeup), _) => {}
            (Some(kind), Some(services)) => {
                services.turn(shared, &mut self.connections, kind, token);
            }
            (Some(_), None) | (None, _) => {}
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
    pub(super) fn served(&self) -> Option<BorrowedFd<'_>> {
        self.web.as_ref()?.served()
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

/// The TAP can't be read any more, mostly because its interface was deleted.
fn tap_error(source: io::Error) -> Error {
    let doing = match source.raw_os_error() {
        Some(libc::EBADFD | libc::ENODEV) => "the guest's interface is gone",
        _ => "reading the TAP",
    };
    Error::io(doing)(source)
}
