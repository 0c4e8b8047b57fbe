//! A received segment: parsed, matched to a connection or a listener, and run through its steps.

use std::sync::Arc;

use mbuf::Packet;
use wire::TcpFlags;

use super::pcb::{Inpcb, State, Tcb};
use super::segment::Segment;
use super::{listen, path_mtu, reset, steps, time_wait, visit};
use crate::batch::Batch;
use crate::config::IcmpAborts;
use crate::drops::DropReason;
use crate::error::SocketError;
use crate::faults::{StackFault, planted};
use crate::icmp::input::Quoted;
use crate::inet::Ends;
use crate::ip::{self, Address, Addressed, IcmpError};

/// The fate of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// The connection used it.
    Delivered,
    /// The connection dropped it.
    Drop(DropReason),
    /// The same, and its sender gets a reset.
    Reset(DropReason),
}

/// Handles a packet that begins with its IP header.
pub(crate) fn run<A: Address>(batch: &mut Batch<'_>, packet: Packet, from: &Addressed<'_, A>) {
    let parsed = Segment::parse(packet, from, |seg| demultiplex(batch, seg, &from.ip));
    if let Err((packet, reason)) = parsed {
        batch.drop(packet, reason);
    }
}

/// Finds the connection or the listener of a segment, and hands the segment to it.
#[doc(alias = "in_pcblookup")]
pub(super) fn demultiplex(batch: &mut Batch<'_>, seg: &mut Segment, ip: &ip::Received<'_>) {
    let verdict = match batch.stack.tcp.table.lookup(&seg.ends) {
        Some(pcb) if is_syn(seg) && is_over(batch, &pcb) => listen::run(batch, seg, ip, None),
        Some(pcb) if opens_anew(&pcb, seg) && listen::is_taken(batch, seg, ip) => {
            listen::run(batch, seg, ip, Some(&pcb))
        }
        Some(pcb) => {
            batch.stack.tcp.counters.segments_in.inc();
            steps::run(batch, &pcb, seg)
        }
        None => listen::run(batch, seg, ip, None),
    };
    match verdict {
        Verdict::Delivered => batch.delivered(),
        Verdict::Drop(_) if planted(StackFault::UncountedDrop) => {}
        Verdict::Drop(reason) => batch.stack.drops.count(reason),
        Verdict::Reset(reason) => {
            batch.stack.drops.count(reason);
            reset::reply(batch, seg);
        }
    }
}

fn is_syn(seg: &Segment) -> bool {
    seg.flags & (TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST) == TcpFlags::SYN
}

/// Whether the connection has ended in this batch. Then its turn, which takes it out of the table, comes now and not at
/// the end of the batch.
#[cold]
fn is_over(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>) -> bool {
    let t = visit::begin(pcb);
    let closed = t.conn.state == State::Closed;
    if closed {
        visit::end(batch, pcb, t);
    }
    closed
}

/// Whether a segment is a SYN that may end this connection's TIME-WAIT.
fn opens_anew(pcb: &Inpcb, seg: &Segment) -> bool {
    is_syn(seg) && time_wait::may_leave(&pcb.lock_inside(), seg)
}

/// An ICMP error quotes a segment that we sent.
///
/// Only errors about a segment in flight count (RFC 5927 4.1). Hard ones end an attempt to connect, soft ones only if
/// the stack is configured so (RFC 9293 3.9.2.2); an established connection goes on after both (RFC 5927 6).
pub(crate) fn control(batch: &mut Batch<'_>, kind: IcmpError, quoted: &Quoted) {
    let Some(pcb) = batch.stack.tcp.table.lookup(&quoted.ends) else {
        return;
    };
    let mut t = visit::begin(&pcb);
    if !quoted.seq.in_window(t.send.una, t.flight()) {
        return;
    }
    let connecting = matches!(t.conn.state, State::SynSent | State::SynReceived);
    let due = match kind {
        IcmpError::FragNeeded { mtu } => path_mtu::reported(batch, &mut t, quoted, mtu),
        // RFC 1812 5.2.7.1 (codes 9, 10, 13) and RFC 4443 3.1 (code 1, of which 5 and 6 are subsets); RFC 9293 3.9.2.2
        // does not list them as soft, and Linux takes them as hard.
        IcmpError::AdminProhibited | IcmpError::SourcePolicy | IcmpError::RejectRoute
            if connecting =>
        {
            hard_error(batch, &mut t, SocketError::Prohibited)
        }
        // ICMPv6 reports an unknown protocol as a parameter problem, which is soft.
        IcmpError::Protocol if matches!(quoted.ends, Ends::V6(..)) => soft_error(batch, &mut t),
        IcmpError::Port | IcmpError::Protocol => {
            connecting && hard_error(batch, &mut t, SocketError::Refused)
        }
        IcmpError::Net
        | IcmpError::Host
        | IcmpError::AdminProhibited
        | IcmpError::BeyondScope
        | IcmpError::SourcePolicy
        | IcmpError::RejectRoute
        | IcmpError::TimeExceeded
        | IcmpError::Parameter => soft_error(batch, &mut t),
    };
    if due {
        visit::end_later(batch, &pcb, t);
    }
}

/// An error that is not transient. True if it ends the attempt to connect.
fn hard_error(batch: &Batch<'_>, t: &mut Tcb, error: SocketError) -> bool {
    t.conn.soft_error = Some(error);
    batch.stack.tcp.config.icmp_aborts != IcmpAborts::None && abort_connect(t, error)
}

/// An error that may be transient. True if it ends the attempt to connect.
fn soft_error(batch: &Batch<'_>, t: &mut Tcb) -> bool {
    t.conn.soft_error = Some(SocketError::Unreachable);
    let connecting = matches!(t.conn.state, State::SynSent | State::SynReceived);
    let abort = batch.stack.tcp.config.icmp_aborts == IcmpAborts::All;
    connecting && abort && abort_connect(t, SocketError::Unreachable)
}

/// Ends an attempt to connect. Always true: the connection then needs a turn.
fn abort_connect(t: &mut Tcb, error: SocketError) -> bool {
    time_wait::end_half_open(t, Some(error));
    true
}
