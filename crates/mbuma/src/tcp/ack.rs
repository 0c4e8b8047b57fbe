//! Fifth step: the acknowledgement. It frees data of the send buffer, updates the send window, and reports arrivals to
//! loss recovery.
//!
//! Sources: RFC 9293 3.10.7.4, 5681 3.2, 6582, 5961 5.2.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use wire::TcpFlags;

use super::accept::Pushed;
use super::due::Due;
use super::ecn::{EcnReport, MarkCount};
use super::input::Verdict;
use super::pcb::{Inpcb, State, Tcb};
use super::recovery::{AckOutcome, Acknowledgement};
use super::segment::Segment;
use super::send_clocks::SendLimit;
use super::steps::{Step, challenge};
use super::timers::fields::TcpTimer;
use super::timestamps::is_older;
use super::{handshake, pace, path_mtu, time_wait, timers, urgent};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::faults::{StackFault, planted};

pub(crate) fn check(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb, seg: &Segment) -> Step {
    if !seg.has(TcpFlags::ACK) {
        return Break(Verdict::Drop(DropReason::TcpBadAck));
    }
    acceptable(batch, t, seg)?;
    note_activity(batch, t);
    let completes = t.conn.state == State::SynReceived;
    if t.conn.accept.is_some() && !waits_for_data(t, seg) {
        hand_over(batch, pcb, t)?;
    }
    if completes {
        handshake::established(batch, t);
    }
    let duplicate = is_duplicate(batch, t, seg);
    let echo = seg.ack == t.send.una && t.conn.ecn.may_tell(seg.flags);
    if seg.ack.after(t.send.una) || duplicate || echo || !seg.options.sack.is_empty() {
        acknowledged(batch, t, seg, duplicate);
    }
    window(batch, t, seg);
    closing(batch, t)
}

/// RFC 5961 5.2: an acknowledgement of data that was never sent, or that is long gone, is not from our peer.
fn acceptable(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    if t.conn.state == State::SynReceived {
        let ours = seg.ack.after(t.send.una) && seg.ack.at_or_before(t.send.nxt);
        return if ours {
            Continue(())
        } else {
            Break(Verdict::Reset(DropReason::TcpBadAck))
        };
    }
    if seg.ack.after(t.send.nxt) {
        challenge(batch, t);
        return Break(Verdict::Drop(DropReason::TcpBadAck));
    }
    let old = t.send.una.since(seg.ack);
    if seg.ack.before(t.send.una) && old > t.send.wnd_max {
        challenge(batch, t);
        return Break(Verdict::Drop(DropReason::TcpBadAck));
    }
    Continue(())
}

/// The peer is alive. Only a segment with an acceptable sequence number and acknowledgement shows that: otherwise an
/// attacker that guesses the addresses could keep a dead connection for ever.
pub(super) fn note_activity(batch: &Batch<'_>, t: &mut Tcb) {
    t.conn.heard_at = batch.now;
    if std::mem::take(&mut t.conn.probes_unanswered) > 0 && t.timers.is_set(TcpTimer::Keepalive) {
        timers::restart_keepalive(batch, t);
    }
}

/// Whether the listener's program gets the connection only after the client has sent data.
fn waits_for_data(t: &Tcb, seg: &Segment) -> bool {
    let Some(place) = t.conn.accept.as_ref().filter(|_| seg.len() == 0) else {
        return false;
    };
    // The bound of half-open connections also bounds those that wait.
    t.conn.accept_delay().is_some() && !place.is_crowded()
}

/// Gives the connection to its listener, unless the listener's queue is full.
#[cold]
pub(super) fn hand_over(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb) -> Step {
    let Some(place) = &t.conn.accept else {
        return Continue(());
    };
    match place.push(pcb) {
        Pushed::Ready(wakes) => batch.wake(wakes),
        Pushed::Full => return Break(Verdict::Drop(DropReason::TcpListenOverflow)),
        Pushed::Gone => {
            t.close(None);
            return Break(Verdict::Reset(DropReason::TcpNoConnection));
        }
    }
    t.conn.accept = None;
    t.timers.stop(TcpTimer::Accept);
    Continue(())
}

/// The SYN is acknowledged, by a SYN-ACK.
pub(crate) fn syn_acked(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) {
    recover(batch, t, seg, false, 0);
}

/// New data is acknowledged, or the segment reports a loss.
pub(super) fn acknowledged(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment, duplicate: bool) {
    let new = seg.ack.after(t.send.una);
    // SYN and FIN are no data and do not enlarge the window.
    let data_acked = seg.ack.min(t.write_seq());
    let bytes = if data_acked.after(t.send.buf_seq) {
        data_acked.since(t.send.buf_seq)
    } else {
        0
    };
    if new {
        t.conn.soft_error = None;
        t.send.retransmits = 0;
    }
    recover(batch, t, seg, duplicate, bytes);
    if new {
        urgent::acked(t);
        free_acknowledged(batch, t, bytes);
        // The turn to send may be left out.
        if !t.waits() {
            t.send.limited_by(SendLimit::Idle, batch.now);
        }
        if t.send.path.is_some() {
            path_mtu::progressed(batch, t);
        }
        timers::progressed(batch, t);
        if !t.send.recovery.keeps_timer() {
            restart_timer(batch, t);
        }
    }
    timers::rearm_probe(batch, t);
}

/// Passes the acknowledgement to loss recovery.
fn recover(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment, duplicate: bool, bytes: u32) {
    let sack_on = t.conn.sack_on;
    let echoed = |ts| t.conn.ts.echoed_ms(ts, batch.now);
    let echoed_ms = seg.options.ts.and_then(echoed);
    let marks = marks(t, seg);
    let outcome = t.send.on_ack(&Acknowledgement {
        now: batch.now,
        ack: seg.ack,
        blocks: if sack_on {
            seg.options.sack.as_slice()
        } else {
            &[]
        },
        sack_on,
        is_duplicate: duplicate,
        echoed_ms,
        data: bytes,
        marked: marks.due,
        ce: marks.bytes,
    });
    match &outcome {
        Some(outcome) => apply(batch, t, outcome),
        None => t.timers.stop(TcpTimer::Reorder),
    }
}

/// The congestion marks that the segment reports. A segment that acknowledges nothing new may be an old one, unless its
/// timestamp or its SACK blocks are newer.
fn marks(t: &mut Tcb, seg: &Segment) -> MarkCount {
    if !t.conn.ecn.is_on() {
        return MarkCount::default();
    }
    let has_blocks = !seg.options.sack.is_empty();
    let is_newer = |value| {
        t.conn
            .ts
            .recent()
            .is_some_and(|recent| is_older(recent, value))
    };
    let mss = t.send.mss.max(1);
    let mut count = t.conn.ecn.on_ack(&EcnReport {
        flags: seg.flags,
        ack: seg.ack,
        packets: if seg.ack.after(t.send.una) {
            seg.ack.since(t.send.una).div_ceil(mss)
        } else {
            0
        },
        mss,
        is_pure: seg.len() == 0 && !has_blocks,
        is_newer: seg.ack.after(t.send.una)
            || (seg.ack == t.send.una
                && (has_blocks || seg.options.ts.is_some_and(|ts| is_newer(ts.value)))),
        option: seg.options.acc_ecn,
    });
    let is_of_syn = t.send.una == t.send.iss && t.conn.ecn.accurate().is_some();
    if is_of_syn && std::mem::take(&mut count.due) {
        // Our SYN or SYN-ACK was marked. As if it had been lost: one segment, and nothing is known of ssthresh (RFC
        // 5562 4.2).
        t.send.window.cwnd = mss;
    }
    count
}

/// Counts, and sets the reorder timer.
pub(super) fn apply(batch: &Batch<'_>, t: &mut Tcb, outcome: &AckOutcome) {
    let counters = &batch.stack.tcp.counters;
    if outcome.entered {
        counters.fast_retransmits.inc();
    }
    if outcome.undone {
        counters.spurious_recoveries.inc();
    }
    if outcome.marked {
        counters.ecn_reductions.inc();
    }
    if outcome.entered || outcome.marked {
        t.conn.ecn.reduced();
    }
    t.timers.set(TcpTimer::Reorder, outcome.look_again);
}

fn free_acknowledged(batch: &Batch<'_>, t: &mut Tcb, bytes: u32) {
    t.route.reached(batch.now);
    if bytes == 0 {
        return;
    }
    let was_full = t.send.buf.space() == 0;
    if was_full {
        pace::grow_send_buffer(t, &batch.stack.tcp.config);
    }
    t.send.buf.trim_front(bytes as usize);
    t.send.buf_seq += bytes;
    // A writer is woken when there is enough room for a useful write, and not at each acknowledgement.
    if t.is_worth_a_write(was_full) && !planted(StackFault::LostWakeup) {
        t.due |= Due::WAKE_WRITER;
    }
}

/// RFC 6298 (5.2) and (5.3). A receiver that does not acknowledge data that it has reported may have dropped that data:
/// then the time is shorter. If the peer took the probe of a closed window and there is more data, the next probe is
/// due at its own time.
fn restart_timer(batch: &Batch<'_>, t: &mut Tcb) {
    const RENEGED_MIN: Duration = Duration::from_millis(10);
    let config = &batch.stack.tcp.config;
    let probing = t.send.wnd == 0 && t.timers.is_set(TcpTimer::Persist);
    let at = if t.send.sent.is_empty() || (probing && t.ready_seq().after(t.send.buf_seq)) {
        None
    } else if t.send.sent.is_first_sacked() {
        let half = t.send.rtt.smoothed().unwrap_or_default() / 2;
        Some(batch.now + half.max(RENEGED_MIN))
    } else {
        Some(t.send.rtt.expires(batch.now, config))
    };
    t.timers.set(TcpTimer::Rexmit, at);
    timers::keep_deadline(t);
}

/// RFC 5681's definition of a duplicate: data outstanding, none in the segment (not even old data that was cut off), no
/// FIN, the same window, the highest acknowledgement so far. Answers to probes of a closed window look the same, and do
/// not indicate a loss.
fn is_duplicate(batch: &Batch<'_>, t: &Tcb, seg: &Segment) -> bool {
    let is = seg.ack == t.send.una
        && t.flight() > 0
        && seg.len() == 0
        && seg.start == seg.seq
        && t.send.wnd > 0
        && scaled_window(t, seg) == t.send.wnd
        && t.conn.state.sends_data();
    if is {
        batch.stack.tcp.counters.duplicate_acks.inc();
    }
    is
}

fn scaled_window(t: &Tcb, seg: &Segment) -> u32 {
    u32::from(seg.window) << t.send.wscale
}

/// Only a segment that is not older than the last one that moved the window may move it. A peer's acknowledgements
/// never go back, so the higher one is newer; among equal ones the sequence number decides. It must be that of the
/// segment as sent: otherwise a late duplicate would pass for new once its old data is cut off.
pub(super) fn window(batch: &Batch<'_>, t: &mut Tcb, seg: &Segment) {
    let newer =
        seg.ack.after(t.send.wl2) || (seg.ack == t.send.wl2 && seg.start.at_or_after(t.send.wl1));
    if !newer {
        return;
    }
    let was_closed = t.send.wnd == 0;
    t.send.wnd = scaled_window(t, seg);
    t.send.wnd_max = t.send.wnd_max.max(t.send.wnd);
    t.send.wl1 = seg.start;
    t.send.wl2 = seg.ack;
    if t.send.wnd > 0 {
        t.timers.stop(TcpTimer::Persist);
        t.timers.persist_shift = 0;
        if was_closed {
            window_opened(batch, t);
        }
    }
}

#[cold]
fn window_opened(batch: &Batch<'_>, t: &mut Tcb) {
    timers::progressed(batch, t);
    // The peer did not take the probe: retransmit it, but nothing else. A peer without memory drops all data, closes
    // its window and opens it at once, so that more retransmissions would never end. The retransmission timer sends the
    // rest.
    if t.flight() <= 1 {
        t.send.sent.mark_all_lost();
    }
    let config = &batch.stack.tcp.config;
    let running = t.timers.get(TcpTimer::Rexmit);
    t.timers.set(
        TcpTimer::Rexmit,
        (t.flight() > 0).then(|| running.unwrap_or_else(|| t.send.rtt.expires(batch.now, config))),
    );
}

/// Our FIN may be acknowledged now.
fn closing(batch: &mut Batch<'_>, t: &mut Tcb) -> Step {
    if !t.fin_acked() {
        return Continue(());
    }
    let config = &batch.stack.tcp.config;
    match t.conn.state {
        State::FinWait1 => {
            t.conn.state = State::FinWait2;
            batch.stack.tcp.orphans.forget(t);
            // An orphan waits for the peer's FIN only for a bounded time.
            let timeout = t.conn.asked().orphan_timeout(config);
            t.timers
                .set(TcpTimer::Wait, t.conn.orphan.then(|| batch.now + timeout));
            t.notify();
        }
        State::Closing => time_wait::enter(batch, t),
        State::LastAck => {
            t.close(None);
            t.notify();
            return Break(Verdict::Delivered);
        }
        // This is a repeated FIN: acknowledge it and restart TIME-WAIT.
        State::TimeWait => {}
        _ => {}
    }
    Continue(())
}
