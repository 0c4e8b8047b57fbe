//! A segment comes in: parse it, find whom it is for, run its steps.
//!
//! Called by: `ip4::input`, `icmp::input`. Calls: `segment`, `table`, `listen`, `steps`, `reset`.

use std::net::SocketAddrV4;

use mbuf::Packet;
use wire::{SeqNum, TcpFlags};

use super::pcb::{Inpcb, Key, State};
use super::planted::Planted;
use super::segment::Segment;
use super::{listen, reset, steps, time_wait};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::icmp::Unreach;
use crate::ip4;
use crate::socket::SocketError;

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Verdict {
    /// It did what it came for.
    Delivered,
    /// It was for the connection, which had no use for it.
    Drop(DropReason),
    /// The same, and its sender is told with a reset.
    Reset(DropReason),
}

/// Takes in a packet that begins with its IP header.
pub(crate) fn run(batch: &mut Batch<'_>, packet: Packet, ip: &ip4::Received<'_>) {
    let mut seg = match Segment::parse(&batch.stack.tcp.config, packet, ip) {
        Ok(seg) => seg,
        Err((packet, reason)) => return batch.drop(packet, reason),
    };
    demultiplex(batch, &mut seg, ip);
}

/// Finds out whom a segment is for, and brings it there.
#[doc(alias = "in_pcblookup")]
pub(super) fn demultiplex(batch: &mut Batch<'_>, seg: &mut Segment, ip: &ip4::Received<'_>) {
    let verdict = match batch.stack.tcp.table.lookup(&seg.key) {
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
        Verdict::Drop(_) if batch.stack.tcp.config.has_bug(Planted::UncountedDrop) => {}
        Verdict::Drop(reason) => batch.stack.drops.count(reason),
        Verdict::Reset(reason) => {
            batch.stack.drops.count(reason);
            reset::reply(batch, seg);
        }
    }
}

/// Whether a segment is a SYN that may end this connection's TIME-WAIT.
fn opens_anew(pcb: &Inpcb, seg: &Segment) -> bool {
    seg.flags & (TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST) == TcpFlags::SYN
        && time_wait::may_leave(&pcb.tcb.lock(), seg.seq)
}

/// An ICMP error quotes a segment that we sent from `local` to `peer`.
///
/// Only errors about a segment in flight count (RFC 5927 4.1). They end an attempt to connect;
/// an established connection takes them as a hint and goes on (RFC 1122 4.2.3.9, RFC 5927 6).
pub(crate) fn control(
    batch: &mut Batch<'_>,
    kind: Unreach,
    local: SocketAddrV4,
    peer: SocketAddrV4,
    seq: SeqNum,
) {
    let Some(pcb) = batch.stack.tcp.table.lookup(&Key { local, peer }) else {
        return;
    };
    let mut t = pcb.tcb.lock();
    if !seq.in_window(t.snd_una, t.flight().max(1)) {
        return;
    }
    match kind {
        Unreach::FragNeeded { mtu } => {
            path_mtu(&mut t, mtu);
            drop(t);
            batch.touch(&pcb);
        }
        Unreach::TimeExceeded => {}
        _ if matches!(t.state, State::SynSent | State::SynReceived) => {
            let error = match kind {
                Unreach::Port | Unreach::Protocol => SocketError::Refused,
                _ => SocketError::Unreachable,
            };
            t.close(Some(error));
            t.notify();
            drop(t);
            batch.touch(&pcb);
        }
        _ => {}
    }
}

/// RFC 1191: smaller segments from now on, and what was too large again at once. An MTU below what
/// every host must take is a lie (RFC 791: 576, less in the worst case 296 in practice).
fn path_mtu(t: &mut super::pcb::Tcb, mtu: u16) {
    const MTU_MIN: u16 = 296;
    let mss = u32::from(mtu.max(MTU_MIN)) - 40;
    if mss < t.mss {
        t.mss = mss;
        t.cc.set_mss(mss);
        t.snd_nxt = t.snd_una;
        t.rtt.retransmitted();
    }
}
