//! A segment without a connection: RFC 9293 3.10.7.1 and 3.10.7.2.

use std::sync::Arc;

use wire::{SeqNum, TcpFlags};

use super::accept::{AcceptQueue, CrowdedOut, Pushed};
use super::cookies;
use super::input::Verdict;
use super::pcb::{Inpcb, MSS_DEFAULT, State, Tcb};
use super::segment::Segment;
use super::table::NotAdded;
use super::user_options::TcpSocketOptions;
use super::visit;
use super::{handshake, path_mtu, time_wait};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::inet::Ends;
use crate::ip::{self, DestScope};
use crate::network;

/// The queue of the listener or interceptor for a segment; and whether it is an interceptor's.
fn queue(
    batch: &Batch<'_>,
    seg: &Segment,
    ip: &ip::Received<'_>,
) -> Option<(Arc<AcceptQueue>, bool)> {
    let tcp = &batch.stack.tcp;
    let ours = ip.scope == DestScope::Local;
    let listener = tcp.listeners.find(&seg.ends, ours, ip.ifp.index);
    let intercepted = listener.is_none() && ip.ifp.accept_any;
    let queue = match intercepted {
        true => tcp.listeners.interceptor(ip.ifp.index),
        false => listener,
    };
    queue.map(|queue| (queue, intercepted))
}

/// Whether a listener or an interceptor takes connections to the address that a segment is for.
pub(crate) fn is_taken(batch: &Batch<'_>, seg: &Segment, ip: &ip::Received<'_>) -> bool {
    queue(batch, seg, ip).is_some()
}

/// Handles a segment without a connection, or a SYN for `old`, which is in TIME-WAIT.
pub(crate) fn run(
    batch: &mut Batch<'_>,
    seg: &mut Segment,
    ip: &ip::Received<'_>,
    old: Option<&Arc<Inpcb>>,
) -> Verdict {
    if seg.has(TcpFlags::RST) {
        return Verdict::Drop(DropReason::TcpNoConnection);
    }
    let tcp = &batch.stack.tcp;
    let Some((queue, intercepted)) = queue(batch, seg, ip) else {
        tcp.counters.refused.inc();
        return Verdict::Reset(DropReason::TcpNoConnection);
    };
    if seg.has(TcpFlags::ACK) {
        return match !intercepted && tcp.cookies.are_out(batch.now) {
            true => cookies::redeem(batch, seg, ip, &queue),
            false => Verdict::Reset(DropReason::TcpNoConnection),
        };
    }
    if !seg.has(TcpFlags::SYN) {
        return Verdict::Drop(DropReason::TcpBadListenSegment);
    }
    tcp.counters.segments_in.inc();
    open(batch, seg, ip, queue, intercepted, old)
}

/// Makes the connection: for a listener it is answered at once, for an interceptor it is held.
fn open(
    batch: &mut Batch<'_>,
    seg: &Segment,
    ip: &ip::Received<'_>,
    queue: Arc<AcceptQueue>,
    intercepted: bool,
    old: Option<&Arc<Inpcb>>,
) -> Verdict {
    // No answer would reach its sender, and an interceptor would open a host connection in vain.
    if network::egress(batch.stack, seg.ends.peer()).is_none() {
        return Verdict::Drop(DropReason::TcpNoRouteBack);
    }
    // No cookie: its acknowledgement would find the connection in TIME-WAIT, which is still in the table.
    let cookies = batch.stack.tcp.config.syn_cookies && !intercepted && old.is_none();
    if cookies && queue.is_crowded() {
        return cookies::answer(batch, seg, ip, queue.inherited());
    }
    let Some((place, oldest)) = queue.reserve(seg.ends) else {
        return Verdict::Drop(DropReason::TcpListenOverflow);
    };
    if let Some(oldest) = oldest {
        evict(batch, &oldest);
    }
    let predecessor = old.and_then(|old| time_wait::leave(batch, old, seg));
    let tcp = &batch.stack.tcp;
    let state = if intercepted {
        State::SynHeld
    } else {
        State::SynReceived
    };
    let iss = tcp.initial_sequence_after(&seg.ends, batch.now, predecessor.as_ref());
    let mut t = half_open(batch, seg, ip, (state, iss), queue.inherited());
    t.conn.accept = Some(place);
    t.conn.predecessor = predecessor.map(Box::new);
    let pcb = match admit(batch, seg.ends, ip, t) {
        Ok(pcb) => pcb,
        Err(reason) => return Verdict::Drop(reason),
    };
    match intercepted {
        true => hold(batch, &pcb),
        false => visit::schedule(batch, &pcb),
    }
    Verdict::Delivered
}

/// The segment size for a peer that announces none (RFC 9293 section 3.7.1).
pub(crate) fn default_mss(ends: &Ends) -> u32 {
    const MSS6_DEFAULT: u32 = 1220;
    match ends {
        Ends::V4(_) => MSS_DEFAULT,
        Ends::V6(..) => MSS6_DEFAULT,
    }
}

/// A connection that this SYN begins, with the options that it inherits.
pub(super) fn half_open(
    batch: &Batch<'_>,
    syn: &Segment,
    ip: &ip::Received<'_>,
    (state, iss): (State, SeqNum),
    asked: Option<TcpSocketOptions>,
) -> Tcb {
    let tcp = &batch.stack.tcp;
    let mss = default_mss(&syn.ends);
    let mut t = Tcb::new(&tcp.config, state, iss, mss, batch.now);
    t.conn.ts = tcp.timestamps(&syn.ends);
    let mut mss = network::tcp_mss(ip.ifp, &syn.ends);
    if let Some(asked) = asked {
        mss = asked.segment_len(mss);
        t.begin_with(&tcp.config, &asked);
    }
    handshake::take_syn(&mut t, syn, mss, &tcp.config, batch.now);
    path_mtu::begin(batch, &mut t, &syn.ends);
    t
}

/// Puts a connection into the table; if it can't be there, its place in the queue is released.
pub(super) fn admit(
    batch: &Batch<'_>,
    ends: Ends,
    ip: &ip::Received<'_>,
    t: Tcb,
) -> Result<Arc<Inpcb>, DropReason> {
    let tcp = &batch.stack.tcp;
    let flows = batch.stack.netisr.flows();
    let flow = flows.of_connection(&ends, ip.ifp, batch.cpu);
    let pcb = Inpcb::new(ends, flow, t);
    if let Err(not_added) = tcp.table.insert(&pcb, tcp.config.connections_max) {
        visit::begin(&pcb).close(None);
        return Err(match not_added {
            NotAdded::Full => DropReason::TcpTableFull,
            // Another CPU has taken in the same segment.
            NotAdded::Taken => DropReason::TcpOpenedTwice,
        });
    }
    tcp.counters.opened_passive.inc();
    Ok(pcb)
}

/// Gives the connection to the interceptor, whose program decides about it.
fn hold(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>) {
    let mut t = visit::begin(pcb);
    // A thread that ended it meanwhile has released its place.
    let Some(place) = t.conn.accept.take() else {
        return;
    };
    match place.push(pcb) {
        Pushed::Ready(wakes) => batch.wake(wakes),
        Pushed::Full | Pushed::Gone => {
            place.give_up();
            t.close(None);
            visit::end_later(batch, pcb, t);
        }
    }
}

/// Evicts a half-open connection, without a reset: its SYN may have been forged, and an honest peer begins again.
fn evict(batch: &mut Batch<'_>, oldest: &CrowdedOut) {
    let tcp = &batch.stack.tcp;
    let Some(pcb) = tcp.table.lookup(&oldest.ends) else {
        return;
    };
    let mut t = visit::begin(&pcb);
    // The connection may have been completed or ended meanwhile, and another one may have its key.
    if t.conn.accept.as_ref().is_some_and(|place| place.is(oldest)) {
        tcp.counters.syns_evicted.inc();
        time_wait::end_half_open(&mut t, None);
        visit::end_later(batch, &pcb, t);
    }
}
