//! The conditions at the end of a scenario.
//!
//! | | rule |
//! |---|---|
//! | bytes | a prefix of the sent bytes arrives, in order; all of them unless a side gave up |
//! | endings | each connection ends in bounded time; errors only where the plan has a reason |
//! | SACK | no receiver takes back the report of what it has, and no sender repeats what was reported (`Tcb`, after each turn) |
//! | tables | no connection is left two segment lifetimes after the last close |
//! | buffers | every mbuf and cluster is back in its zone |
//! | packets | received = delivered + dropped inward |
//! | datagrams | a flow's arrive in order, where no wire changes it |
//! | CPUs | none sleeps while it has work |

use std::fmt;
use std::time::Duration;

use mbuf::Live;
use mbuma::{DropReason, SocketError};

use super::draw::is_scarce;
use super::{Answer, Running, Scenario};
use crate::app::{Decision, Ending, Leave, Report, SharedFlow};
use crate::event::NodeId;
use crate::net::Net;
use mbuma::device::impair::{LinkCounts, LinkEvent};

/// The outcome of a scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// The violated conditions, if any.
    pub violations: Vec<String>,
    /// The hash of every frame on every wire, with its time.
    pub trace_hash: u64,
    /// Its duration in virtual time.
    pub elapsed: Duration,
    /// Connections that delivered all bytes both ways; that failed or were aborted as planned.
    pub finished: usize,
    /// See `finished`.
    pub ended_early: usize,
    /// Bytes that apps received.
    pub bytes: u64,
    /// Datagrams that arrived.
    pub datagrams: u64,
    /// Turns of programs and virtual CPUs.
    pub turns: u64,
    /// Segments sent again, by all stacks.
    pub retransmitted: u64,
    /// Packets with more bytes than the length field of IP can say, by version: 4, 6; and jumbograms.
    pub large_packets: [u64; 3],
    /// The wires' counts of faults.
    pub wires: LinkCounts,
}

pub(super) fn judge(
    scenario: &Scenario,
    net: &mut Net,
    nodes: &[NodeId],
    running: &[Running],
    flows: &[SharedFlow],
    ended: bool,
) -> Outcome {
    let excuses = Excuses {
        scarce: scenario.pools.iter().any(is_scarce),
        uprooted: scenario.crowd.iter().any(|c| !c.moves.is_empty()),
        crowded: scenario.backlog == 1,
        overflowed: scenario.backlog == 1 && nodes.iter().any(|node| overflowed(net, *node)),
    };
    let mut violations = Vec::new();
    violations.extend(net.overslept().map(String::from));
    for (i, flow) in flows.iter().enumerate() {
        let found = flow.borrow().violation.clone();
        violations.extend(found.map(|v| format!("flow {i}: {v}")));
    }
    for (i, connection) in running.iter().enumerate() {
        let found = connection.violations(excuses);
        violations.extend(found.into_iter().map(|v| format!("connection {i}: {v}")));
    }
    for (i, node) in nodes.iter().enumerate() {
        // While connections are open, the other conditions only help to understand why.
        let found = if ended || !violations.is_empty() {
            leftovers(net, *node)
        } else {
            Vec::new()
        };
        violations.extend(found.into_iter().map(|v| format!("node {i}: {v}")));
    }
    if let Err(error) = net.trace().finish() {
        violations.push(format!("the trace could not be written: {error}"));
    }
    let mut wires = LinkCounts::default();
    net.wires().for_each(|w| wires.add(&w.total()));
    let finished = running.iter().filter(|c| c.is_finished()).count();
    let received = |r: &Running| r.client.borrow().received + r.server.borrow().received;
    Outcome {
        seed: scenario.seed,
        violations,
        trace_hash: net.trace_hash(),
        elapsed: net.elapsed(),
        finished,
        ended_early: running.len() - finished,
        bytes: running.iter().map(received).sum(),
        datagrams: flows.iter().map(|f| f.borrow().received).sum(),
        turns: net.turns(),
        retransmitted: nodes
            .iter()
            .map(|n| net.at(*n).stats().tcp.retransmitted_segments)
            .sum(),
        large_packets: net.large_packets(),
        wires,
    }
}

/// The reasons for which a connection may fail although neither side broke it.
#[derive(Debug, Clone, Copy)]
struct Excuses {
    /// The sockets may hold all buffers: then none is left to send with.
    scarce: bool,
    /// An interface was away for a while, and with it the route.
    uprooted: bool,
    /// The gate has one place. A client whose SYNs come at the times of another one's, which is refused for now and so
    /// asks again too, may find it taken each time, and then never learns the decision (seeds 9397 and 77029).
    crowded: bool,
    /// The listener's queue has one place, and was found full. A client whose acknowledgements come at the times of
    /// many others' may find it full each time, until the answer to its SYN is not repeated any more (seed 95848).
    overflowed: bool,
}

fn overflowed(net: &Net, node: NodeId) -> bool {
    let stats = net.at(node).stats();
    let mut dropped = stats.dropped.iter();
    dropped.any(|(reason, n)| *reason == DropReason::TcpListenOverflow && *n > 0)
}

/// The resources that a stack should have released.
fn leftovers(net: &Net, node: NodeId) -> Vec<String> {
    let stack = net.at(node);
    let stats = stack.stats();
    let mut found = Vec::new();
    if stats.tcp.connections != 0 {
        found.push(format!("{} connections are left", stats.tcp.connections));
    }
    if stats.tcp.reneged != 0 {
        found.push(format!(
            "{} times a receiver took back a report",
            stats.tcp.reneged
        ));
    }
    let live = stack.pool().live();
    if live != Live::NONE {
        found.push(format!("buffers are left: {live:?}"));
    }
    if stats.received != stats.ended() {
        found.push(format!(
            "{} packets received, but {} delivered, {} forwarded and dropped: {:?}",
            stats.received, stats.delivered, stats.forwarded, stats.dropped
        ));
    }
    found
}

impl Running {
    fn is_finished(&self) -> bool {
        let finished = |r: &Report| r.ending == Some(Ending::Finished);
        finished(&self.client.borrow()) && finished(&self.server.borrow())
    }

    fn violations(&self, excuses: Excuses) -> Vec<String> {
        let (client, server) = (self.client.borrow(), self.server.borrow());
        let mut found = Vec::new();
        for (side, report) in [("client", &client), ("server", &server)] {
            found.extend(report.violation.iter().map(|v| format!("{side}: {v}")));
        }
        if !self.is_over() {
            found.push(format!("never ended: client {client:?}, server {server:?}"));
        } else if let Err(why) = self.check_endings(&client, excuses) {
            found.push(format!("{why}: client {client:?}, server {server:?}"));
        }
        found
    }

    fn check_endings(&self, client: &Report, excuses: Excuses) -> Result<(), &'static str> {
        if excuses.scarce {
            return Ok(());
        }
        let unreachable = Ending::Failed(SocketError::Unreachable);
        let timed_out = Ending::Failed(SocketError::TimedOut);
        let is_gated = matches!(self.plan.answer, Answer::Gate(_));
        let was_seen = self.server.borrow().started;
        if excuses.crowded && is_gated && !was_seen && client.ending == Some(timed_out) {
            return Ok(());
        }
        let is_over = matches!(
            client.ending,
            Some(Ending::Finished | Ending::Failed(SocketError::Reset))
        );
        if excuses.overflowed && !is_gated && !was_seen && is_over {
            return Ok(());
        }
        if excuses.uprooted && client.ending == Some(unreachable) {
            return Ok(());
        }
        let plan = &self.plan;
        let aborts = |leave| matches!(leave, Leave::Abort(_));
        let refused = match plan.answer {
            Answer::Nobody => Some(SocketError::Refused),
            Answer::Gate(Decision::Refuse(mbuma::socket::Refusal::Unreachable(_))) => {
                Some(SocketError::Unreachable)
            }
            Answer::Gate(Decision::Refuse(_)) => Some(SocketError::Refused),
            _ => None,
        };
        if let Some(error) = refused {
            return match client.ending {
                Some(Ending::Failed(e)) if e == error => Ok(()),
                // It gave up before the error could reach it.
                Some(Ending::Aborted) if aborts(plan.client_manners.leave) => Ok(()),
                // It expected no bytes, and closed before the error could reach it.
                Some(Ending::Finished) if plan.client_manners.leave == Leave::Close => Ok(()),
                _ => Err("refused, but the client did not learn why"),
            };
        }
        if aborts(plan.client_manners.leave) || aborts(plan.server_manners.leave) {
            return Ok(());
        }
        // The wires heal before a connection or an attempt may be given up.
        if self.is_finished() {
            Ok(())
        } else {
            Err("failed without a reason")
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let w = &self.wires;
        writeln!(
            f,
            "seed {}: {} connections finished, {} ended early, {} bytes in {:.1} s; trace {:016x}",
            self.seed,
            self.finished,
            self.ended_early,
            self.bytes,
            self.elapsed.as_secs_f64(),
            self.trace_hash
        )?;
        write!(
            f,
            "  {} frames: {} lost, {} doubled, {} reordered, {} damaged, {} cut, {} overflowed; \
             {} segments sent again; packets of more than 64 KiB: {}, {} and {}",
            w.sent,
            w.of(LinkEvent::Lost),
            w.of(LinkEvent::Duplicated),
            w.of(LinkEvent::Reordered),
            w.of(LinkEvent::Corrupted),
            w.of(LinkEvent::Truncated),
            w.of(LinkEvent::Overflowed),
            self.retransmitted,
            self.large_packets[0],
            self.large_packets[1],
            self.large_packets[2]
        )?;
        self.violations
            .iter()
            .try_for_each(|v| write!(f, "\n  VIOLATION {v}"))
    }
}
