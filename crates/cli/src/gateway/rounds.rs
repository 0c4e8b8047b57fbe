//! The loop: rounds of sleeping, taking in, and giving turns.
//!
//! Called by: serve. Calls: everything in the gateway.
//! Invariants: nothing that is ready waits for more than the turns of the others; each turn is bounded.
//! Locks: none.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kern::Time;
use mbuma::device::Budget;
use mbuma::{IfIndex, Stack};

use super::connections::Connections;
use super::control::Control;
use super::echo::Pings;
use super::figures::{Figures, Fixed, Gauges};
use super::http::StatusPage;
use super::poller::Readiness;
use super::publish::Listener;
use super::ready::Wake;
use super::report::View;
use super::shared::Shared;
use super::splice::Remainder;
use super::table::{Kind, Token};
use super::udp::Flows;
use super::watch::Pulse;
use super::{LINGER_MAX, QUIET, STALL_MAX};
use crate::errors::Error;
use crate::until::{Until, Verdict};

/// What is taken in from the TAP before others have their turn.
const BUDGET: Budget = Budget {
    frames: 64,
    bytes: 128 << 10,
};

/// Everything that serves one guest.
pub(super) struct Gateway {
    pub(super) shared: Shared,
    pub(super) index: IfIndex,
    pub(super) connections: Connections,
    pub(super) flows: Flows,
    pub(super) pings: Pings,
    pub(super) page: StatusPage,
    pub(super) listeners: Vec<Listener>,
    pub(super) control: Control,
    pub(super) pulse: Arc<Pulse>,
    pub(super) fixed: Fixed,
}

/// What a round of the loop leaves for the next.
#[derive(Debug, Default)]
struct Round {
    /// More frames may wait in the TAP.
    tap_ready: bool,
    /// Whoever says when to stop has news.
    until_ready: bool,
    /// The ready list's other half, empty between rounds.
    turns: VecDeque<Arc<Wake>>,
    /// Timers that came, empty between rounds.
    due: Vec<Token>,
}

impl Gateway {
    /// Watches what says when to stop.
    pub(super) fn watch(&self, until: &dyn Until) -> Result<(), Error> {
        let token = Token::only(Kind::Until);
        let fds = until.fds();
        // By edge: what stays ready, as a process that has ended does, is attended to once.
        let watched = fds
            .iter()
            .try_for_each(|fd| self.shared.poller.add_alarm(fd, token));
        watched.map_err(Error::io("watching what ends the gateway"))
    }

    /// Serves until `until` says stop, and says why.
    pub(super) fn run(&mut self, until: &mut dyn Until) -> Result<Verdict, Error> {
        let mut round = Round::default();
        // Something may have happened before anyone watched.
        let mut verdict = until.check()?;
        while verdict == Verdict::Go {
            self.round(&mut round, None)?;
            if std::mem::take(&mut round.until_ready) {
                verdict = until.check()?;
            }
        }
        Ok(verdict)
    }

    /// The guest has ended, but its kernel may hold bytes that it sent: serves on until they have
    /// gone where they were sent to.
    pub(super) fn linger(&mut self, until: &mut dyn Until) -> Result<(), Error> {
        let mut round = Round {
            tap_ready: true,
            ..Round::default()
        };
        let start = self.shared.now();
        let (mut moved, mut moved_at) = (self.moved(), start);
        // A TAP that is gone now has nothing more to say.
        while self.round(&mut round, Some(QUIET)).is_ok() {
            // More ends, and is to be reaped.
            if std::mem::take(&mut round.until_ready) && until.check()? == Verdict::Told {
                break;
            }
            let now = self.shared.now();
            if self.moved() != moved {
                (moved, moved_at) = (self.moved(), now);
            }
            let idle = !round.tap_ready && self.shared.ready.is_empty();
            if idle && self.is_settled(now - start, now - moved_at) {
                break;
            }
        }
        Ok(())
    }

    /// Whether nothing is to be waited for any more, `since` the guest's end, `still` since anything
    /// moved.
    fn is_settled(&self, since: Duration, still: Duration) -> bool {
        match self.connections.remainder() {
            Remainder::Nothing => true,
            Remainder::Unknown => still >= QUIET || since >= LINGER_MAX,
            Remainder::Part => still >= STALL_MAX || since >= LINGER_MAX,
            Remainder::Whole => still >= STALL_MAX,
        }
    }

    /// Bytes of the guest that went on to the host.
    fn moved(&self) -> u64 {
        self.shared.counters.bytes_up
    }

    /// One round; sleeps for `at_most` if there is nothing to do.
    fn round(&mut self, round: &mut Round, at_most: Option<Duration>) -> Result<(), Error> {
        let due = self.next_deadline();
        let busy = round.tap_ready || !self.shared.ready.is_empty();
        let timeout = self.timeout(due, busy, at_most);
        self.pulse.beat();
        let events = self.shared.poller.wait(timeout);
        self.pulse.beat();
        for index in 0..events.map_err(Error::io("waiting for events"))? {
            if let Some((token, readiness)) = self.shared.poller.event(index) {
                self.event(round, token, readiness);
            }
        }
        if round.tap_ready {
            let more = self.shared.stack.poll_interface(self.index, BUDGET);
            round.tap_ready = more.map_err(tap_error)?;
        }
        if due.is_some_and(|at| at <= self.shared.now()) {
            self.run_timers(round);
        }
        self.run_turns(round);
        Ok(())
    }

    /// When time makes something happen next.
    fn next_deadline(&self) -> Option<Time> {
        let stack = self.shared.stack.next_deadline();
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

    /// Remembers what became ready, or attends to it at once where that is bounded.
    fn event(&mut self, round: &mut Round, token: Token, readiness: Readiness) {
        let shared = &mut self.shared;
        match token.kind() {
            Some(Kind::Tap) => round.tap_ready = true,
            Some(Kind::Until) => round.until_ready = true,
            Some(Kind::Connection) => self.connections.note(token, readiness),
            Some(Kind::Flow) => self.flows.readable(shared, token),
            Some(Kind::Inlet) => self.flows.inlet_readable(shared, token.index()),
            Some(Kind::PingSocket) => self.pings.readable(shared),
            Some(Kind::Listener) => self.wake_listener(token),
            Some(Kind::Control) => self.control.wake(),
            Some(Kind::Asker) => self.asker_turn(token),
            // These have no descriptor.
            Some(Kind::Interceptor | Kind::StatusPage | Kind::Reader) => {}
            Some(Kind::Datagrams | Kind::Echoes | Kind::Ping) | None => {}
        }
    }

    /// Goes on with a netstat that asks.
    fn asker_turn(&mut self, token: Token) {
        let view = View {
            fixed: &self.fixed,
            shared: &self.shared,
            connections: &self.connections,
            flows: &self.flows,
        };
        self.control.turn(token, &view);
    }

    fn wake_listener(&self, token: Token) {
        if let Some(listener) = self.listeners.get(token.index()) {
            listener.wake();
        }
    }

    /// Runs the timers that are due, the stack's and ours.
    fn run_timers(&mut self, round: &mut Round) {
        self.shared.stack.poll();
        let now = self.shared.now();
        self.shared.timers.advance(now, &mut round.due);
        for token in round.due.drain(..) {
            let shared = &mut self.shared;
            match token.kind() {
                Some(Kind::Connection) => self.connections.wake(token),
                Some(Kind::Flow) => self.flows.timer(shared, token),
                Some(Kind::Ping) => self.pings.timer(shared, token),
                Some(Kind::Reader) => self.page.timer(shared, token),
                Some(Kind::Asker) => self.control.timer(token),
                Some(Kind::Listener) => self.wake_listener(token),
                // These have no timers.
                _ => {}
            }
        }
    }

    /// Gives everything that is on the ready list now one turn. What joins meanwhile waits for the
    /// next round, so that frames are taken in between.
    fn run_turns(&mut self, round: &mut Round) {
        self.shared.ready.take_all(&mut round.turns);
        for wake in round.turns.drain(..) {
            self.turn(wake.begin());
        }
    }

    fn turn(&mut self, token: Token) {
        let shared = &mut self.shared;
        match token.kind() {
            Some(Kind::Connection) => self.connections.turn(shared, token),
            Some(Kind::Interceptor) => self.connections.intercept(shared),
            Some(Kind::Listener) => {
                if let Some(listener) = self.listeners.get(token.index()) {
                    self.connections.accept(shared, listener);
                }
            }
            Some(Kind::Datagrams) => self.flows.forward(shared),
            Some(Kind::Echoes) => self.pings.forward(shared),
            Some(Kind::StatusPage) => self.page.accept(shared),
            Some(Kind::Control) => self.control.accept(shared),
            Some(Kind::Reader) => {
                let gauges = gauges(&self.connections, &self.flows);
                let fixed = &self.fixed;
                self.page
                    .turn(shared, token, |shared| figures(fixed, shared, gauges));
            }
            // These have no turns.
            Some(Kind::Tap | Kind::Until | Kind::Flow | Kind::Inlet) => {}
            Some(Kind::Ping | Kind::PingSocket | Kind::Asker) | None => {}
        }
    }

    /// What shows that the loop goes round.
    pub(super) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// What went through so far.
    pub(super) fn figures(&self) -> Figures {
        let gauges = gauges(&self.connections, &self.flows);
        figures(&self.fixed, &self.shared, gauges)
    }

    /// The stack.
    pub(super) fn stack(&self) -> &Stack {
        &self.shared.stack
    }

    /// Ends whatever is open: resets for connections that are under way.
    pub(super) fn close(&mut self) {
        self.connections.close();
        self.flows.close();
        self.pings.close();
        self.page.close();
        self.control.close();
        self.shared.release_buffers();
    }
}

pub(super) fn gauges(connections: &Connections, flows: &Flows) -> Gauges {
    Gauges {
        connections_active: connections.len(),
        flows_active: flows.len(),
    }
}

pub(super) fn figures(fixed: &Fixed, shared: &Shared, gauges: Gauges) -> Figures {
    let uptime = shared.now() - Time::ZERO;
    Figures::new(fixed, uptime, shared.counters, gauges, shared.stack.stats())
}

/// The TAP can't be read any more, mostly because somebody deleted the interface.
fn tap_error(source: io::Error) -> Error {
    let doing = match source.raw_os_error() {
        Some(libc::EBADFD | libc::ENODEV) => "the guest's interface is gone",
        _ => "reading the TAP",
    };
    Error::io(doing)(source)
}
