//! Seventh and eighth step: the data, in order or not, and the peer's FIN.
//!
//! Sources: RFC 9293 3.10.7.4, RFC 5681 4.2, RFC 1122 4.2.3.2.

use std::ops::ControlFlow::{Break, Continue};
use std::time::Duration;

use mbuf::Chain;
use wire::TcpFlags;

use super::ack_policy::{AckDue, InOrder, PathTiming};
use super::due::Due;
use super::input::Verdict;
use super::pcb::{MSS_DEFAULT, State, Tcb};
use super::rack::nanos_since;
use super::reass::Inserted;
use super::recv_state::FixedBuffers;
use super::recv_tuner::{self, RecvTuner};
use super::segment::Segment;
use super::steps::Step;
use super::timers::fields::TcpTimer;
use super::{reset, time_wait, timestamps};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::error::SocketError;
use crate::faults::{StackFault, planted};

/// Takes the data of an acceptable segment, in order or not.
pub(crate) fn process(batch: &mut Batch<'_>, t: &mut Tcb, seg: &mut Segment) -> Step {
    // Remember where the FIN is while the segment still has its full length.
    if seg.has(TcpFlags::FIN) && t.recv.fin.is_none() && t.conn.state.receives_data() {
        t.recv.fin = Some(seg.seq + seg.data.len() as u32);
    }
    if seg.data.is_empty() {
        let early_fin = seg.has(TcpFlags::FIN) && seg.seq.after(t.recv.nxt);
        if early_fin && t.conn.state.receives_data() {
            // Out of order like data: a duplicate acknowledgement at once (RFC 5681 4.2).
            t.recv.policy.dup_acks_owed = t.recv.policy.dup_acks_owed.saturating_add(1);
        }
        return Continue(());
    }
    if t.conn.ecn.on_data(seg.is_marked(), seg.has(TcpFlags::CWR)) {
        t.due |= Due::ACK;
    }
    let data = std::mem::take(&mut seg.data);
    if !t.conn.state.receives_data() {
        return Break(Verdict::Drop(DropReason::TcpAfterClose));
    }
    if t.conn.orphan {
        return refuse(batch, t, seg);
    }
    if seg.seq == t.recv.nxt {
        // The duplicate in front of it, if it has one, is noted already.
        if t.conn.sack_on && seg.start == seg.seq {
            t.recv.reass.note_overlap(seg.seq, data.len() as u32);
        }
        take_next(batch, t, seg, data);
        return Continue(());
    }
    note_size(t, seg, data.len());
    out_of_order(batch, t, seg, data)
}

/// Takes the data of a segment that begins at RCV.NXT, and queued data that it makes in order.
#[inline]
pub(super) fn take_next(batch: &Batch<'_>, t: &mut Tcb, seg: &Segment, data: Chain) {
    let len = data.len() as u32;
    note_size(t, seg, data.len());
    in_order(batch, t, data);
    let filled_gap = !t.recv.reass.is_empty();
    if filled_gap {
        take_queued(batch, t);
    }
    tune_buffer(batch, t, seg);
    acknowledge_soon(batch, t, len, filled_gap);
}

/// Notes how large the peer's segments are.
#[inline]
fn note_size(t: &mut Tcb, seg: &Segment, len: usize) {
    let largest = &mut t.recv.policy.largest;
    *largest = (*largest).max(seg.piece_len(len));
}

/// No program will read the data of an orphan: its peer gets a reset (RFC 1122 4.2.2.13), as from a host that does not
/// know the connection. Its number is the one that the peer expects, also if our FIN or data was lost: another one
/// would be answered by a challenge acknowledgement (RFC 5961 3.2).
#[cold]
fn refuse(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    t.close(Some(SocketError::Reset));
    reset::reply(batch, seg);
    Break(Verdict::Drop(DropReason::TcpAfterClose))
}

/// Keeps data and a FIN beside a SYN that crosses ours until the connection is established (RFC 9293 3.10.7.3). They
/// are not acknowledged yet.
#[cold]
pub(crate) fn keep(batch: &Batch<'_>, t: &mut Tcb, seg: &mut Segment) -> Step {
    if seg.has(TcpFlags::FIN) {
        t.recv.fin = Some(seg.seq + seg.data.len() as u32);
    }
    let data = std::mem::take(&mut seg.data);
    let max = batch.stack.tcp.config.reass_ranges_max;
    let pool = &batch.stack.pool;
    match t.recv.reass.insert(pool, seg.seq, data, max) {
        Inserted::Kept | Inserted::Duplicate => Continue(()),
        Inserted::Full => Break(Verdict::Drop(DropReason::TcpReassFull)),
    }
}

/// The connection is established: moves the data that was kept until now.
#[cold]
pub(crate) fn take_kept(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    if t.conn.orphan && !t.recv.reass.is_empty() {
        return refuse(batch, t, seg);
    }
    let before = t.recv.nxt;
    take_queued(batch, t);
    if t.recv.nxt != before {
        t.due |= Due::ACK;
    }
    Continue(())
}

/// Moves queued data that is in order now.
fn take_queued(batch: &Batch<'_>, t: &mut Tcb) {
    while let Some(mut data) = t.recv.reass.pop(t.recv.nxt) {
        if planted(StackFault::SkippedByte) {
            data.trim_front(1);
        }
        in_order(batch, t, data);
    }
}

/// Moves the mbufs of data that is in order to the receive buffer.
fn in_order(batch: &Batch<'_>, t: &mut Tcb, data: Chain) {
    batch.stack.tcp.counters.bytes_in.add(data.len() as u64);
    t.recv.nxt += data.len() as u32;
    if t.recv.read_closed {
        return;
    }
    t.recv.buf.append(&batch.stack.pool, data);
    t.due |= Due::WAKE_READER;
}

/// RFC 5681 4.2: the missing segment, not this one, is acknowledged.
#[cold]
fn out_of_order(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment, data: Chain) -> Step {
    let tcp = &batch.stack.tcp;
    tcp.counters.out_of_order.inc();
    let ranges_max = tcp.config.reass_ranges_max;
    let packets = seg.packets_of(data.len());
    let inserted = t
        .recv
        .reass
        .insert(&batch.stack.pool, seg.seq, data, ranges_max);
    let path = path_timing(batch, t);
    let unreported = t.recv.reass.unreported();
    match (t.recv.policy).on_out_of_order(t.conn.sack_on, unreported, &path) {
        // Each gets an acknowledgement, independent of the rest of the batch, because the peer counts these.
        AckDue::Now => {
            // With SACK one tells as much as one for each packet of a merged segment.
            let due = if t.conn.sack_on { 1 } else { packets };
            let owed = &mut t.recv.policy.dup_acks_owed;
            *owed = owed.saturating_add(u8::try_from(due).unwrap_or(u8::MAX));
        }
        AckDue::Within(delay) => acknowledge_within(batch, t, delay),
    }
    match inserted {
        Inserted::Kept | Inserted::Duplicate => Continue(()),
        Inserted::Full => Break(Verdict::Drop(DropReason::TcpReassFull)),
    }
}

/// Grows the receive buffer to the size that the user's reads in a round trip need.
fn tune_buffer(batch: &Batch<'_>, t: &mut Tcb, seg: &Segment) {
    let config = &batch.stack.tcp.config;
    let far = (t.send.rtt.smoothed_ns()).filter(|rtt| *rtt >= recv_tuner::FAR.as_nanos() as u64);
    let is_fixed = t.recv.fixed.contains(FixedBuffers::RECEIVE);
    let grows = !is_fixed && t.recv.buf.hiwat() < config.recv_buffer_max;
    let Some(rtt) = far.filter(|_| grows) else {
        return;
    };
    let read = t.recv.nxt - t.recv.buf.claimed() as u32;
    let initial = config.initial_window.saturating_mul(t.recv.mss);
    let new = || Box::new(RecvTuner::new(read, initial, batch.now));
    let tuner = t.recv.tuner.get_or_insert_with(new);
    let began = tuner.since();
    let seen = match seg.options.ts.filter(|_| t.conn.ts.on) {
        Some(ts) => !timestamps::is_older(ts.echo, t.conn.ts.value(began)),
        None => true,
    };
    if !seen || nanos_since(batch.now, began) < rtt {
        return;
    }
    if let Some(wanted) = tuner.on_round(read, t.recv.mss, batch.now) {
        let hiwat = t.recv.buf.hiwat().max(wanted.min(config.recv_buffer_max));
        t.recv.buf.set_hiwat(hiwat);
    }
}

/// `len` bytes arrived in order.
fn acknowledge_soon(batch: &Batch<'_>, t: &mut Tcb, len: u32, filled_gap: bool) {
    // A peer may send less than the maximum, because of its path or its options.
    let largest = u32::from(t.recv.policy.largest).max(MSS_DEFAULT);
    let data = InOrder {
        len,
        full: t.send.mss.min(largest),
        unacknowledged: t.recv.nxt.since(t.recv.last_ack_sent),
        filled_gap,
    };
    let path = path_timing(batch, t);
    let options = t.conn.options.as_ref();
    match t.recv.policy.on_data(data, &path, batch.now) {
        AckDue::Within(delay) if !options.is_some_and(|o| o.acks_at_once()) => {
            acknowledge_within(batch, t, delay);
        }
        AckDue::Now | AckDue::Within(_) => t.due |= Due::ACK,
    }
}

/// A running delay is not restarted, so that the first waiting segment is acknowledged in time.
fn acknowledge_within(batch: &Batch<'_>, t: &mut Tcb, delay: Duration) {
    let at = batch.now + delay;
    if t.timers
        .get(TcpTimer::DelayedAck)
        .is_none_or(|running| at < running)
    {
        t.timers.set(TcpTimer::DelayedAck, at);
    }
}

fn path_timing(batch: &Batch<'_>, t: &Tcb) -> PathTiming {
    let config = &batch.stack.tcp.config;
    PathTiming {
        rtt: t.send.rtt.smoothed_ns(),
        rto: t.send.rtt.timeout_ns(config),
        delay_max: config.delayed_ack,
    }
}

/// The peer's FIN, once all before it has arrived.
pub(crate) fn process_fin(batch: &mut Batch<'_>, t: &mut Tcb) -> Step {
    if t.recv.fin != Some(t.recv.nxt) || !t.conn.state.receives_data() {
        return Continue(());
    }
    t.recv.nxt += 1;
    t.recv.adv = t.recv.adv.max(t.recv.nxt);
    t.due |= Due::ACK;
    match t.conn.state {
        State::Established => t.conn.state = State::CloseWait,
        State::FinWait1 => t.conn.state = State::Closing,
        State::FinWait2 => time_wait::enter(batch, t),
        _ => {}
    }
    t.due |= Due::WAKE_READER;
    Continue(())
}
