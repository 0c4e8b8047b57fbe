//! What one worker does for all: datagrams, pings, the status page, published ports, the control socket, and
//! giving memory back.
//!
//! Each has one table of what it knows, and seldom more traffic than one worker carries. Sharing the tables
//! among workers would cost every connection's worker the locks.
//!
//! Called by: the first worker's loop. Calls: udp, echo, http, publish, control, figures.
//! Locks: none.

use kern::Time;

use super::connections::Connections;
use super::control::Control;
use super::echo::Pings;
use super::figures::{Figures, Fixed, Gauges, Share};
use super::http::StatusPage;
use super::poller::Readiness;
use super::publish::Listener;
use super::reclaim::PoolReclaim;
use super::report::View;
use super::shared::Shared;
use super::table::{Kind, Token};
use super::udp::Flows;

/// All of it.
pub(super) struct Services {
    pub(super) flows: Flows,
    pub(super) pings: Pings,
    pub(super) page: StatusPage,
    pub(super) listeners: Vec<Listener>,
    pub(super) control: Control,
    pub(super) reclaim: PoolReclaim,
    pub(super) fixed: Fixed,
}

impl Services {
    /// Remembers what became ready, or attends to it at once where that is bounded.
    pub(super) fn event(
        &mut self,
        shared: &mut Shared,
        connections: &Connections,
        token: Token,
        readiness: Readiness,
    ) {
        match token.kind() {
            Some(Kind::Flow) => self.flows.readable(shared, token),
            Some(Kind::Inlet) => self.flows.inlet_readable(shared, token.index()),
            Some(Kind::PingSocket) => self.pings.readable(shared),
            Some(Kind::Listener) => self.wake_listener(token),
            Some(Kind::Control) => self.control.wake(),
            Some(Kind::Reclaim) => self.reclaim.event(shared, readiness),
            Some(Kind::Asker) => {
                let view = View {
                    fixed: &self.fixed,
                    shared,
                    connections,
                    flows: &self.flows,
                    reclaim: self.reclaim.figures(),
                };
                self.control.turn(token, &view);
            }
            // The others have no descriptor here.
            _ => {}
        }
    }

    fn wake_listener(&self, token: Token) {
        if let Some(listener) = self.listeners.get(token.index()) {
            listener.wake();
        }
    }

    /// A timer came.
    pub(super) fn timer(&mut self, shared: &mut Shared, token: Token) {
        match token.kind() {
            Some(Kind::Flow) => self.flows.timer(shared, token),
            Some(Kind::Ping) => self.pings.timer(token),
            Some(Kind::Reader) => self.page.timer(shared, token),
            Some(Kind::Asker) => self.control.timer(token),
            Some(Kind::Listener) => self.wake_listener(token),
            Some(Kind::Reclaim) => self.reclaim.timer(shared),
            // The others have no timers here.
            _ => {}
        }
    }

    /// A turn of something that was on the ready list.
    pub(super) fn turn(
        &mut self,
        shared: &mut Shared,
        connections: &mut Connections,
        token: Token,
    ) {
        match token.kind() {
            Some(Kind::Listener) => {
                if let Some(listener) = self.listeners.get(token.index()) {
                    connections.accept(shared, listener);
                }
            }
            Some(Kind::Datagrams) => self.flows.forward(shared),
            Some(Kind::Echoes) => self.pings.forward(shared),
            Some(Kind::StatusPage) => self.page.accept(shared),
            Some(Kind::Control) => self.control.accept(shared),
            Some(Kind::Reclaim) => self.reclaim.resume(shared),
            Some(Kind::Reader) => {
                let gauges = gauges(connections, &self.flows);
                let fixed = &self.fixed;
                let figures = |shared: &Shared| figures_now(fixed, shared, gauges);
                self.page.turn(shared, token, figures);
            }
            // The others have no turns here.
            _ => {}
        }
    }

    /// How many UDP flows there are.
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// What went through all workers, at the end.
    pub(super) fn figures(&self, shared: &Shared, shares: Vec<Share>) -> Figures {
        let uptime = shared.now() - Time::ZERO;
        Figures::new(&self.fixed, uptime, shares, shared.stack.stats())
    }

    /// Ends whatever is open.
    pub(super) fn close(&mut self) {
        self.flows.close();
        self.pings.close();
        self.page.close();
        self.control.close();
    }
}

/// What went through so far: this worker's share as it is, the others' as they last said.
pub(super) fn figures_now(fixed: &Fixed, shared: &Shared, gauges: Gauges) -> Figures {
    let mut shares = shared.worker_pool.shares();
    let counters = shared.counters;
    shares[shared.worker] = Share { counters, gauges };
    let uptime = shared.now() - Time::ZERO;
    Figures::new(fixed, uptime, shares, shared.stack.stats())
}

/// What the first worker has right now.
pub(super) fn gauges(connections: &Connections, flows: &Flows) -> Gauges {
    Gauges {
        connections_active: connections.len() as u64,
        flows_active: flows.len() as u64,
    }
}
