//! A segment for a connection: the steps of RFC 9293 3.10.7.4, in their order. Those of 3.10.7.3 are in `handshake.rs`.
//!
//! Each step returns whether the next one follows. No step sends: they leave marks in the [`Tcb`], and if there are
//! any, the connection gets one turn to send at the end of the batch.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use wire::TcpFlags;

use super::due::Due;
use super::input::Verdict;
use super::pcb::{Inpcb, State, Tcb};
use super::reset::EndReset;
use super::segment::Segment;
use super::{ack, handshake, reset, text, time_wait, urgent, visit};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::error::SocketError;
use crate::faults::{StackFault, planted};

mod predicted;

/// Continue with the next step, or end with a verdict.
pub(crate) type Step = ControlFlow<Verdict>;

/// Runs a segment through the steps of its connection's state.
pub(crate) fn run(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, seg: &mut Segment) -> Verdict {
    let mut t = visit::begin(pcb);
    let step = match t.conn.state {
        State::Closed => Break(Verdict::Reset(DropReason::TcpNoConnection)),
        // The owner has not decided yet; the peer repeats its SYN, or gives up.
        State::SynHeld => handshake::syn_held(batch, &mut t, seg),
        State::SynSent => handshake::syn_sent(batch, &mut t, seg),
        _ if predicted::is(batch, &t, seg) => predicted::take(batch, &mut t, seg),
        _ => synchronized(batch, pcb, &mut t, seg),
    };
    visit::end_quiet(batch, pcb, t);
    match step {
        Continue(()) => Verdict::Delivered,
        Break(verdict) => verdict,
    }
}

/// The steps of a connection whose ends know each other's sequence numbers (RFC 9293 3.10.7.4).
fn synchronized(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb, seg: &mut Segment) -> Step {
    check_timestamp(batch, t, seg)?;
    check_sequence(batch, t, seg)?; // First
    if seg.flags.intersects(TcpFlags::RST | TcpFlags::SYN) {
        check_reset(batch, t, seg)?; // Second
        // The third checks security compartments, which no system has.
        check_syn(batch, t, seg)?; // Fourth
    }
    let opens = t.conn.state == State::SynReceived;
    ack::check(batch, pcb, t, seg)?; // Fifth
    note_timestamp(batch, t, seg);
    note_marks(t, seg);
    urgent::check(t, seg); // Sixth
    // Data that came beside a crossing SYN follows, also if the segment's own data is refused.
    let step = text::process(batch, t, seg); // Seventh
    if opens {
        text::take_kept(batch, t, seg)?;
    }
    step?;
    text::process_fin(batch, t) // Eighth
}

/// Before the first step (RFC 7323 5.3, R1): a segment that is older than a received one may belong to an earlier cycle
/// of the sequence space. A reset is checked by its sequence number alone. A segment without timestamps is accepted, as
/// by other stacks, although RFC 7323 3.2 would drop it.
fn check_timestamp(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    let (Some(ts), true) = (seg.options.ts, t.conn.ts.on) else {
        return Continue(());
    };
    if seg.has(TcpFlags::RST) || !t.conn.ts.is_too_old(ts, batch.now) {
        return Continue(());
    }
    // The segment is late: the repair of the gap before it came first.
    let fills_gap = seg.seq.at_or_after(t.recv.nxt) && t.recv.reass.is_gap(seg.seq, seg.len());
    if fills_gap && t.conn.ts.is_of_this_turn(ts, t.recv.nxt) {
        return Continue(());
    }
    // A first transmission that arrives after its repair: the report shows its sender that the repair was not needed.
    note_duplicate(t, seg);
    challenge(batch, t);
    Break(Verdict::Drop(DropReason::TcpOldTimestamp))
}

/// First step: is any part of it in the window? The rest is cut off. An unacceptable segment is answered by an
/// acknowledgement; its own acknowledgement still counts if it only repeats old data.
fn check_sequence(batch: &mut Batch<'_>, t: &mut Tcb, seg: &mut Segment) -> Step {
    let window = t.rcv_wnd();
    if seg.has(TcpFlags::SYN) {
        // A retransmitted SYN begins one before our window; `check_syn` handles it.
        return Continue(());
    }
    if seg.seq.before(t.recv.nxt) {
        if seg.len() == 0 && !seg.has(TcpFlags::RST) {
            // A keepalive probe, or an old acknowledgement: it is answered, and has no other effect.
            challenge(batch, t);
            return Break(Verdict::Drop(DropReason::TcpOutOfWindow));
        }
        cut_old(batch, t, seg);
    }
    let beyond = seg.seq.since(t.recv.nxt);
    // A segment without data may lie at the right edge: acknowledgements of a peer that has used up the window do. A
    // reset must not: outside of the window it is dropped without an answer (RFC 5961 3.2).
    let takes_no_room = seg.data.is_empty() && !seg.has(TcpFlags::RST);
    let at_edge = beyond == window && (window == 0 || takes_no_room);
    if beyond >= window && !at_edge {
        if !seg.has(TcpFlags::RST) {
            ack_unacceptable(batch, t, seg);
        }
        return Break(Verdict::Drop(DropReason::TcpOutOfWindow));
    }
    let room = (window - beyond) as usize;
    cut_beyond(t, seg, room);
    Continue(())
}

/// Cuts off data beyond the announced window (for example of a probe of a closed window). A FIN alone always fits,
/// because it needs no memory.
pub(super) fn cut_beyond(t: &mut Tcb, seg: &mut Segment, room: usize) {
    if seg.data.len() > room {
        t.due |= Due::ACK;
        seg.flags -= TcpFlags::FIN;
        seg.data.truncate(room);
    }
}

/// Cuts off data that was received before.
#[cold]
fn cut_old(batch: &mut Batch<'_>, t: &mut Tcb, seg: &mut Segment) {
    if seg.has(TcpFlags::RST) {
        return;
    }
    let old = t.recv.nxt.since(seg.seq);
    note_duplicate(t, seg);
    t.conn.ecn.on_repeated_data();
    ack_unacceptable(batch, t, seg);
    batch
        .stack
        .tcp
        .counters
        .duplicate_bytes
        .add(u64::from(old.min(seg.data.len() as u32)));
    if t.conn.state == State::TimeWait && seg.len() > 0 {
        // The peer retransmits, so our last acknowledgement was lost: restart TIME-WAIT. RFC 9293 asks for this only
        // after a FIN; but a peer whose timeout has grown beyond 2 MSL repeats its data first.
        time_wait::enter(batch, t);
    }
    if old > seg.data.len() as u32 {
        seg.flags -= TcpFlags::FIN;
    }
    let nothing_new = old as usize >= seg.data.len();
    if nothing_new && planted(StackFault::LeakedMbuf) {
        std::mem::forget(std::mem::take(&mut seg.data));
    }
    seg.data.trim_front(old as usize);
    seg.seq = t.recv.nxt;
}

/// Reports duplicate data to a peer with SACK (RFC 2883 4).
#[cold]
fn note_duplicate(t: &mut Tcb, seg: &Segment) {
    let old = t.recv.nxt.since(seg.seq).min(seg.data.len() as u32);
    if t.conn.sack_on && seg.seq.before(t.recv.nxt) && old > 0 {
        t.recv.reass.note_duplicate(seg.seq, old);
    }
}

/// Acknowledges a segment outside of the window. A segment of length zero may be such an acknowledgement itself, so the
/// rate of answers to these is limited: otherwise two ends that disagree would answer each other for ever.
#[cold]
fn ack_unacceptable(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) {
    if seg.len() == 0 {
        challenge(batch, t);
    } else {
        t.due |= Due::ACK;
    }
}

/// Second: a reset must be exactly where we expect the next byte (RFC 5961 3.2).
#[cold]
fn check_reset(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    if !seg.has(TcpFlags::RST) {
        return Continue(());
    }
    if t.conn.state == State::TimeWait {
        return Break(Verdict::Drop(DropReason::TcpBadReset)); // RFC 1337
    }
    if seg.seq != t.recv.nxt && !batch.stack.tcp.config.insecure_reset {
        challenge(batch, t);
        return Break(Verdict::Drop(DropReason::TcpBadReset));
    }
    batch.stack.tcp.counters.resets_in.inc();
    end_by_reset(t);
    Break(Verdict::Delivered)
}

/// Ends a connection that the peer or we have reset.
#[cold]
pub(super) fn end_by_reset(t: &mut Tcb) {
    match t.conn.state {
        State::SynReceived => time_wait::end_half_open(t, Some(SocketError::Refused)),
        _ => t.close(Some(SocketError::Reset)),
    }
}

/// Fourth: a SYN on a connection that exists. Our own answer may have been lost; anything else gets a
/// challenge (RFC 5961 4.2).
#[cold]
fn check_syn(batch: &mut Batch<'_>, t: &mut Tcb, seg: &mut Segment) -> Step {
    if !seg.has(TcpFlags::SYN) {
        return Continue(());
    }
    if t.conn.state == State::SynReceived && seg.seq == t.recv.irs {
        if seg.has(TcpFlags::ACK) {
            // A simultaneous open: the SYN is known, and the acknowledgement is new.
            seg.flags -= TcpFlags::SYN;
            seg.seq = t.recv.nxt;
            let room = t.rcv_wnd() as usize;
            cut_beyond(t, seg, room);
            return Continue(());
        }
        handshake::check_offer(batch, t, seg)?;
        t.send.sent.mark_all_lost();
        return Break(Verdict::Delivered);
    }
    if seg.has(TcpFlags::ACK) && seg.seq == t.recv.irs && seg.ack == t.send.iss + 1 {
        t.conn.ecn.on_syn_ack_again(seg.mark);
    }
    let is_in_window = seg.seq.since(t.recv.nxt) < t.rcv_wnd();
    if batch.stack.tcp.config.insecure_syn && is_in_window && t.conn.state != State::TimeWait {
        reset::send(batch, seg.ends, EndReset::of(t, batch.now));
        end_by_reset(t);
        return Break(Verdict::Drop(DropReason::TcpBadSyn));
    }
    challenge(batch, t);
    Break(Verdict::Drop(DropReason::TcpBadSyn))
}

/// Records the timestamp of an acceptable segment (RFC 7323 5.3, R2), but not of one without new data: a needless
/// retransmission may overtake older segments, which would then be dropped.
fn note_timestamp(batch: &Batch<'_>, t: &mut Tcb, seg: &Segment) {
    let is_old = seg.start != seg.seq && seg.len() == 0;
    if let (Some(ts), true) = (seg.options.ts, t.conn.ts.on && !is_old) {
        let last_ack_sent = t.recv.last_ack_sent;
        t.conn.ts.note(ts, seg.start, last_ack_sent, batch.now);
    }
}

/// With AccECN each acceptable packet counts, with all of its data, also if that arrived before (RFC 9768 3.2).
fn note_marks(t: &mut Tcb, seg: &Segment) {
    if t.conn.ecn.accurate().is_some() {
        let packets = seg.packets();
        if t.conn.ecn.on_packets(seg.mark, packets, seg.payload) {
            t.due |= Due::ACK;
        }
    }
}

/// Sends a challenge ACK, which has our sequence numbers, a bounded number of times a second (RFC 5961 7).
#[cold]
pub(crate) fn challenge(batch: &mut Batch<'_>, t: &mut Tcb) {
    if t.conn.challenge_acks.take_one(batch.now) {
        batch.stack.tcp.counters.challenge_acks.inc();
        t.due |= Due::ACK;
    }
}
