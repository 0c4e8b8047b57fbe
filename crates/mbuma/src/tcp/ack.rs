//! Fifth step: the acknowledgement. What it acknowledges leaves the send buffer, what it says of the
//! window is believed, and what it implies of loss is repaired.
//!
//! Called by: `steps`. Sources: RFC 9293 3.10.7.4, 5681 3.2, 6582, 5961 5.2.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use wire::TcpFlags;

use super::accept::Pushed;
use super::congestion::Recovery;
use super::input::Verdict;
use super::pcb::{Inpcb, State, Tcb};
use super::planted::Planted;
use super::segment::Segment;
use super::steps::{Step, challenge};
use super::{time_wait, urgent};
use crate::batch::Batch;
use crate::drops::DropReason;

/// Duplicate acknowledgements that mean a loss (RFC 5681 3.2).
const DUPLICATES: u8 = 3;

pub(crate) fn check(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb, seg: &Segment) -> Step {
    if !seg.has(TcpFlags::ACK) {
        return Break(Verdict::Drop(DropReason::TcpBadAck));
    }
    acceptable(batch, t, seg)?;
    heard(batch, t);
    if t.state == State::SynReceived {
        accepted(batch, pcb, t)?;
        established(batch, t);
    }
    if seg.ack.after(t.snd_una) {
        new_data(batch, t, seg);
    } else {
        duplicate(batch, t, seg);
    }
    window(batch, t, seg);
    closing(batch, t)
}

/// RFC 5961 5.2: an acknowledgement of what was never sent, or long gone, is not from our peer.
fn acceptable(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    if t.state == State::SynReceived {
        let ours = seg.ack.after(t.snd_una) && seg.ack.at_or_before(t.snd_max);
        return if ours {
            Continue(())
        } else {
            Break(Verdict::Reset(DropReason::TcpBadAck))
        };
    }
    if seg.ack.after(t.snd_max) {
        challenge(batch, t);
        return Break(Verdict::Drop(DropReason::TcpBadAck));
    }
    let old = t.snd_una.since(seg.ack);
    if seg.ack.before(t.snd_una) && old > t.snd_wnd_max.max(65_535) {
        challenge(batch, t);
        return Break(Verdict::Drop(DropReason::TcpBadAck));
    }
    Continue(())
}

/// The peer lives. Only a segment that has both its numbers right says so: from who guesses our addresses and sends
/// anything at all a connection that is dead would live for ever.
fn heard(batch: &Batch<'_>, t: &mut Tcb) {
    t.last_heard = batch.now;
    if std::mem::take(&mut t.probes_unanswered) > 0 && t.timers.keepalive.is_some() {
        t.timers.keepalive = t.keepalive.map(|idle| batch.now + idle);
    }
}

/// A listener gets its connection; or not yet, when it has as many as it may.
fn accepted(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb) -> Step {
    let Some(place) = &t.accept else {
        return Continue(());
    };
    match place.push(pcb) {
        Pushed::Ready(wakes) => batch.wake(wakes),
        Pushed::Full => return Break(Verdict::Drop(DropReason::TcpListenOverflow)),
        Pushed::Gone => {
            t.close(None);
            return Break(Verdict::Reset(DropReason::TcpListenOverflow));
        }
    }
    t.accept = None;
    Continue(())
}

/// The handshake is complete, and the user hears of it.
pub(crate) fn established(batch: &mut Batch<'_>, t: &mut Tcb) {
    t.state = if t.fin_queued {
        State::FinWait1
    } else {
        State::Established
    };
    t.predecessor = None;
    if t.retransmits > 0 {
        t.rtt.handshake_repeated();
        t.cc.handshake_repeated(t.retransmits);
        t.retransmits = 0;
    }
    batch.stack.tcp.counters.established.inc();
    t.timers.keepalive = t.keepalive.map(|idle| batch.now + idle);
    t.notify();
}

/// Bytes that were never acknowledged before.
fn new_data(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) {
    let config = &batch.stack.tcp.config;
    // SYN and FIN are no data: they open no window.
    let data_acked = seg.ack.min(t.data_end());
    let bytes = if data_acked.after(t.base) {
        data_acked.since(t.base)
    } else {
        0
    };
    // The window held data back if what was in flight nearly filled it.
    let limited = t.flight().saturating_add(t.mss) >= t.cc.cwnd;
    t.rtt.acked(seg.ack, batch.now);
    t.soft_error = None;
    t.retransmits = 0;
    t.dup_acks = 0;
    t.resend_one = false;
    match t.cc.acked(bytes, seg.ack, limited) {
        Recovery::Partial => t.resend_one = true,
        Recovery::None | Recovery::Done => {}
    }
    t.snd_una = seg.ack;
    urgent::acked(t);
    t.snd_nxt = t.snd_nxt.max(seg.ack);
    if bytes > 0 {
        let was_full = t.sndbuf.space() == 0;
        t.sndbuf.chain.trim_front(bytes as usize);
        t.base = data_acked;
        // A writer is woken when there is room worth a write, not at each acknowledgement.
        let room = was_full || t.sndbuf.space() >= t.sndbuf.hiwat / 2;
        if room && !config.has_bug(Planted::LostWakeup) {
            t.notify();
        }
    }
    // RFC 6298 (5.2) and (5.3).
    let outstanding = t.snd_una != t.snd_max;
    t.timers.rexmit = outstanding.then(|| t.rtt.expires(batch.now, config));
}

/// RFC 5681's definition of a duplicate: data outstanding, none in the segment (not even old data that
/// was cut off), no FIN, the same window, the highest acknowledgement so far. Answers to probes of a
/// closed window look the same and mean nothing.
fn duplicate(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) {
    let is = t.flight() > 0
        && seg.ack == t.snd_una
        && seg.len() == 0
        && seg.start == seg.seq
        && t.snd_wnd > 0
        && scaled_window(t, seg) == t.snd_wnd
        && t.state.sends_data();
    if !is {
        return;
    }
    batch.stack.tcp.counters.duplicate_acks.inc();
    t.dup_acks = t.dup_acks.saturating_add(1);
    if t.cc.in_recovery() {
        t.cc.inflate();
    } else if t.dup_acks == DUPLICATES && t.cc.enter_recovery(t.flight(), t.snd_una, t.snd_max) {
        batch.stack.tcp.counters.fast_retransmits.inc();
        t.resend_one = true;
    }
}

fn scaled_window(t: &Tcb, seg: &Segment) -> u32 {
    u32::from(seg.window) << t.snd_wscale
}

/// Only a segment that is not older than the last to do so may move the window. A peer's
/// acknowledgements never go back, so the higher one is the newer; among equal ones the sequence
/// number tells, as it was sent: a late duplicate must not pass for new once its data is cut off.
fn window(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) {
    let newer =
        seg.ack.after(t.snd_wl2) || (seg.ack == t.snd_wl2 && seg.start.at_or_after(t.snd_wl1));
    if !newer {
        return;
    }
    let was_closed = t.snd_wnd == 0;
    t.snd_wnd = scaled_window(t, seg);
    t.snd_wnd_max = t.snd_wnd_max.max(t.snd_wnd);
    t.snd_wl1 = seg.start;
    t.snd_wl2 = seg.ack;
    if t.snd_wnd > 0 {
        t.timers.persist = None;
        t.persist_shift = 0;
        if was_closed {
            // What was sent as a probe was not taken: begin again where the peer is. But not with more: a peer
            // without memory drops what comes, says that its window is closed, and at once that it is open. To send
            // all of it again each time would go round for ever; the timer does it.
            if t.flight() <= 1 {
                t.snd_nxt = t.snd_una.max(t.base);
            }
            let config = &batch.stack.tcp.config;
            let running = t.timers.rexmit;
            t.timers.rexmit = (t.flight() > 0)
                .then(|| running.unwrap_or_else(|| t.rtt.expires(batch.now, config)));
        }
    }
}

/// Our FIN may be acknowledged now.
fn closing(batch: &mut Batch<'_>, t: &mut Tcb) -> Step {
    if !t.fin_acked() {
        return Continue(());
    }
    let config = &batch.stack.tcp.config;
    match t.state {
        State::FinWait1 => {
            t.state = State::FinWait2;
            // An orphan waits for the peer's FIN, but not for ever.
            t.timers.wait = t.orphan.then(|| batch.now + config.fin_wait_2_timeout);
            t.notify();
        }
        State::Closing => time_wait::enter(batch, t),
        State::LastAck => {
            t.close(None);
            t.notify();
            return Break(Verdict::Delivered);
        }
        // Only a repeated FIN comes here: acknowledge it and wait anew.
        State::TimeWait => {}
        _ => {}
    }
    Continue(())
}
