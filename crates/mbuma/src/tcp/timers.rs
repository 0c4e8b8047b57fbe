//! A connection's timers, and the work that each does when it is due.
//!
//! ```text
//!   ack, text, output    a step sets a timer: a field with its time (fields.rs)
//!   after_output         the end of the turn arms the wheel of this CPU, if an earlier time is due than before
//!   wheels               one entry a connection on a wheel (kern::Callout), never later than the earliest field
//!   run_timers           the CPU's deadline has come (stack/timers.rs): takes the entries that fired off the wheel
//!   expired              runs the timers that are due, then a turn of output, whose end arms the wheel again
//! ```
//!
//! Moving a timer further away, as each acknowledgement does, leaves the entry where it is: it comes early, finds
//! nothing due, and is set again.
//!
//! Sources: RFC 6298 5, 9293 3.8.6.1, 1122 4.2.3.

use std::sync::Arc;
use std::time::Duration;

use kern::Time;

use super::due::Due;
use super::pcb::{Inpcb, SendState, State, Tcb};
use super::recovery::RecoveryPhase;
use super::reset::EndReset;
use super::tlp::TailProbe;
use super::user_options::CORK_MAX;
use super::wheels::WheelEntry;
use super::{ack, orphans, path_mtu, reset, time_wait, visit};
use crate::batch::Batch;
use crate::error::SocketError;
use crate::faults::{StackFault, planted};
use fields::TcpTimer;

pub(crate) mod fields;

/// Runs the timers that are due when the wheel's entry has come.
pub(crate) fn expired(batch: &mut Batch<'_>, entry: &WheelEntry) {
    let pcb = &entry.pcb;
    let mut t = visit::begin(pcb);
    entry.arrives(&mut t.timers);
    delayed_ack(batch, &mut t);
    reorder(batch, &mut t);
    tail_probe(batch, &mut t);
    accept_at_last(batch, pcb, &mut t);
    let hopeless = overdue(batch, &t)
        || orphans::is_too_slow(batch, &mut t)
        || retransmit(batch, pcb, &mut t)
        || persist(batch, &mut t)
        || keepalive(batch, &mut t);
    if hopeless {
        give_up(batch, pcb, &mut t);
    }
    wait(batch, &mut t);
    if t.conn.state == State::Closed {
        t.notify();
    }
    visit::end_later(batch, pcb, t);
}

fn delayed_ack(batch: &Batch<'_>, t: &mut Tcb) {
    if t.timers.take_due(TcpTimer::DelayedAck, batch.now) {
        t.due |= Due::ACK;
        t.recv.policy.on_delay_over();
    }
}

/// Marks overtaken ranges lost whose reordering window is over.
fn reorder(batch: &Batch<'_>, t: &mut Tcb) {
    if t.timers.take_due(TcpTimer::Reorder, batch.now) {
        let outcome = t.send.on_reorder_timer(batch.now);
        ack::apply(batch, t, &outcome);
    }
}

/// Sends a segment that the peer acknowledges with all that it received. Then the retransmission timer runs (RFC 8985
/// 7.3).
fn tail_probe(batch: &Batch<'_>, t: &mut Tcb) {
    if !t.timers.take_due(TcpTimer::Probe, batch.now) || t.send.sent.in_flight() == 0 {
        return;
    }
    if t.send.recovery.phase() == RecoveryPhase::Fast {
        batch.stack.tcp.counters.tail_loss_probes.inc();
        t.send.on_probe_timer();
    } else {
        t.due |= Due::TAIL_PROBE;
    }
    let at = t.send.rtt.expires(batch.now, &batch.stack.tcp.config);
    t.timers.set(TcpTimer::Rexmit, at);
}

/// Sets a tail loss probe in two round trips, after something was sent or acknowledged, but not after the
/// retransmission timer (RFC 8985 7.2).
pub(crate) fn rearm_probe(batch: &Batch<'_>, t: &mut Tcb) {
    let s = &t.send;
    let in_flight = s.sent.in_flight();
    let due = t.conn.sack_on
        && in_flight > 0
        && s.wnd > 0
        && is_probe_useful(s)
        && s.probe.may_send()
        && t.conn.state.sends_data();
    let at = due.then(|| {
        // A peer holds back no acknowledgement of what fills a hole (RFC 5681 4.2).
        let single = in_flight <= s.mss && !s.recovery.phase().is_repair();
        let wait = TailProbe::timeout(s.rtt.smoothed_ns(), single);
        let probe = Time::from_nanos(batch.now.as_nanos().saturating_add(wait));
        t.timers
            .get(TcpTimer::Rexmit)
            .map_or(probe, |at| at.min(probe))
    });
    t.timers.set(TcpTimer::Probe, at);
}

/// Whether nothing but the retransmission timer would tell of the loss of all that is in flight. After a timeout it
/// does, and F-RTO judges that.
fn is_probe_useful(s: &SendState) -> bool {
    match s.recovery.phase() {
        RecoveryPhase::Open | RecoveryPhase::Marked => s.sent.sacked() == 0 && s.sent.lost() == 0,
        RecoveryPhase::Fast => !s.sent.is_first_sacked(),
        RecoveryPhase::Loss => false,
    }
}

/// Ends a connection whose peer was silent for too long (RFC 9293 3.8.3, R2). The peer may still receive, so it gets a
/// reset.
fn give_up(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb) {
    batch.stack.tcp.counters.timed_out.inc();
    let tell = t.conn.state.is_synchronized();
    let reset = EndReset::of(t, batch.now);
    let error = t.conn.soft_error.unwrap_or(SocketError::TimedOut);
    time_wait::end_half_open(t, Some(error));
    if tell {
        reset::send(batch, pcb.ends(), reset);
    }
}

/// Whether the program's user timeout is over (RFC 5482).
fn overdue(batch: &Batch<'_>, t: &Tcb) -> bool {
    let deadline = t
        .conn
        .options
        .as_ref()
        .and_then(|o| o.deadline(t.conn.state));
    deadline.is_some_and(|at| at <= batch.now) && t.conn.state != State::Closed
}

/// Restarts the user timeout: the peer has acknowledged data, or opened its window.
#[inline]
pub(crate) fn progressed(batch: &Batch<'_>, t: &mut Tcb) {
    if t.conn.options.is_none() {
        return;
    }
    let waits = t.waits();
    if let Some(options) = &mut t.conn.options {
        options.records.forget_before(t.send.una);
        options.on_progress(waits, batch.now);
    }
}

/// Lets no retransmission or persist timer end after the user timeout, so that the connection is given up in time.
pub(crate) fn keep_deadline(t: &mut Tcb) {
    let options = t.conn.options.as_ref();
    let Some(deadline) = options.and_then(|o| o.deadline(t.conn.state)) else {
        return;
    };
    for timer in [TcpTimer::Rexmit, TcpTimer::Persist] {
        let at = t.timers.get(timer).map(|at| at.min(deadline));
        t.timers.set(timer, at);
    }
}

/// RFC 6298 (5.4) to (5.7): sends the earliest unacknowledged segment again, and all after it in turn. True if the
/// connection must be given up: the segment was sent as often as the configuration allows.
fn retransmit(batch: &mut Batch<'_>, pcb: &Inpcb, t: &mut Tcb) -> bool {
    if !t.timers.take_due(TcpTimer::Rexmit, batch.now) {
        return false;
    }
    let tcp = &batch.stack.tcp;
    let unsent_or_lost = t.ready_seq().after(t.send.una);
    if t.send.wnd == 0 && t.conn.state.is_synchronized() && unsent_or_lost {
        // The peer has closed its window over sent data, which is not a loss.
        t.send.sent.mark_all_lost();
        t.timers.set(TcpTimer::Persist, batch.now);
        return false;
    }
    tcp.counters.timeouts.inc();
    if t.send.wnd == 0 && t.conn.heard_at >= t.send.sent_at && !t.conn.orphan {
        // A FIN at a closed window, which some peers ignore: the peer answers, so it is alive. An orphan does not wait
        // for it longer than for any other acknowledgement.
        t.send.retransmits = 0;
    }
    t.send.retransmits = t.send.retransmits.saturating_add(1);
    let syn = matches!(t.conn.state, State::SynSent | State::SynReceived);
    let max = match t.conn.state {
        State::SynSent => {
            let asked = t.conn.asked().syn_retransmits_max;
            asked.unwrap_or(tcp.config.syn_retransmits_max)
        }
        State::SynReceived => tcp.config.syn_ack_retransmits_max,
        _ => tcp.config.retransmits_max,
    };
    if t.send.retransmits > max {
        return true;
    }
    match syn {
        true => _ = t.send.sent.mark_all_lost(),
        false => {
            let first = t.send.retransmits == 1;
            path_mtu::on_timeout(batch, t, &pcb.ends());
            if t.send.on_timeout(batch.now, t.conn.sack_on, first) {
                tcp.counters.reneged.inc();
            }
            let early = t.send.una == t.send.iss + 1;
            t.conn.ecn.on_timeout(early);
        }
    }
    t.send.rtt.back_off();
    t.timers.stop(TcpTimer::Probe);
    t.timers.stop(TcpTimer::Reorder);
    t.timers
        .set(TcpTimer::Rexmit, t.send.rtt.expires(batch.now, &tcp.config));
    false
}

/// Probes a closed window at growing intervals, as long as the peer answers ([`orphans`] have another bound). True if
/// the connection must be given up: the peer does not answer.
fn persist(batch: &mut Batch<'_>, t: &mut Tcb) -> bool {
    if !t.timers.take_due(TcpTimer::Persist, batch.now) {
        return false;
    }
    let tcp = &batch.stack.tcp;
    let max = if t.conn.orphan {
        tcp.config.retransmits_max.min(8)
    } else {
        tcp.config.retransmits_max
    };
    if t.conn.probes_unanswered >= max {
        return true;
    }
    t.conn.probes_unanswered += 1;
    tcp.counters.zero_window_probes.inc();
    t.due |= Due::PROBE;
    t.timers.persist_shift = (t.timers.persist_shift + 1).min(PERSIST_SHIFT_MAX);
    t.timers
        .set(TcpTimer::Persist, batch.now + persist_interval(batch, t));
    false
}

/// Doublings after which any timeout has reached its upper bound.
const PERSIST_SHIFT_MAX: u8 = 16;

fn persist_interval(batch: &Batch<'_>, t: &Tcb) -> Duration {
    let config = &batch.stack.tcp.config;
    let base = t.send.rtt.timeout(config);
    base.saturating_mul(1 << t.timers.persist_shift)
        .min(config.rto_max)
}

/// The smallest time between two attempts to hand a connection over, while the backlog is full.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Hands a connection to its listener's program though its client has sent nothing.
fn accept_at_last(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb) {
    if t.conn.accept.is_none() || !t.timers.take_due(TcpTimer::Accept, batch.now) {
        return;
    }
    let reset = EndReset::of(t, batch.now);
    if ack::hand_over(batch, pcb, t).is_continue() {
        return;
    }
    match t.conn.state {
        // The listener has gone.
        State::Closed => reset::send(batch, pcb.ends(), reset),
        _ => t.timers.set(TcpTimer::Accept, batch.now + ACCEPT_AGAIN),
    }
}

/// The idle time before the first keepalive begins anew.
pub(crate) fn restart_keepalive(batch: &Batch<'_>, t: &mut Tcb) {
    if !t.conn.orphan {
        let idle = t.conn.keepalive();
        t.timers
            .set(TcpTimer::Keepalive, idle.map(|idle| batch.now + idle));
    }
}

/// Sends keepalives (RFC 1122 4.2.3.6). True if as many are unanswered as the configuration allows.
fn keepalive(batch: &mut Batch<'_>, t: &mut Tcb) -> bool {
    if t.conn.orphan || !t.timers.take_due(TcpTimer::Keepalive, batch.now) {
        return false;
    }
    let (Some(idle), true) = (t.conn.keepalive(), t.conn.state.is_synchronized()) else {
        return false;
    };
    let tcp = &batch.stack.tcp;
    let quiet = batch.now - t.conn.heard_at;
    if quiet < idle {
        t.timers.set(TcpTimer::Keepalive, t.conn.heard_at + idle);
        return false;
    }
    let asked = t.conn.asked();
    let silent =
        (asked.user_timeout).is_some_and(|max| quiet >= max && t.conn.probes_unanswered > 0);
    let probes_max = (asked.keepalive_probes).unwrap_or(tcp.config.keepalive_probes);
    if silent || t.conn.probes_unanswered >= probes_max {
        return true;
    }
    // With data under way, retransmissions probe the peer.
    if t.flight() == 0 {
        tcp.counters.keepalive_probes.inc();
        t.conn.probes_unanswered += 1;
        t.due |= Due::PROBE;
    }
    let interval = (asked.keepalive_interval).unwrap_or(tcp.config.keepalive_interval);
    let mut next = batch.now + interval.max(tcp.config.rto_min);
    if let Some(max) = asked.user_timeout {
        next = next.min((t.conn.heard_at + max).max(batch.now + tcp.config.rto_min));
    }
    t.timers.set(TcpTimer::Keepalive, next);
    false
}

/// Closes a connection whose TIME-WAIT is over, or an orphan that waited long enough for the peer's FIN.
fn wait(batch: &Batch<'_>, t: &mut Tcb) {
    let waits = matches!(t.conn.state, State::FinWait2 | State::TimeWait);
    if waits && t.timers.take_due(TcpTimer::Wait, batch.now) {
        t.close(None);
    }
}

/// After each turn to send: a closed window with data waiting needs a probe in time, and the wheel's
/// entry must not come too late.
pub(crate) fn after_output(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb, unsent: bool) {
    let waiting = t.conn.state.sends_data() && unsent;
    let waiting = waiting && !planted(StackFault::LostPersistTimer);
    // The pacing timer: the connection gets another turn.
    let waiting = waiting && !t.timers.is_set(TcpTimer::Pace);
    if t.send.retransmits == 2 && planted(StackFault::LostRetransmitTimer) {
        t.timers.stop(TcpTimer::Rexmit);
    }
    if waiting && !t.timers.is_set(TcpTimer::Rexmit) && !t.timers.is_set(TcpTimer::Persist) {
        begin_persist(batch, t);
    }
    user_options(batch, t);
    let config = &batch.stack.tcp.config;
    let mistaken =
        planted(StackFault::LostPersistTimer) || planted(StackFault::LostRetransmitTimer);
    kern::invariant!(mistaken || is_timed(t), "nothing ends the wait of {t:?}");
    kern::invariant!(t.send.is_window_bounded(config), "{t:?}");
    let (wheels, astray) = (&batch.stack.tcp.wheels, planted(StackFault::StrayTimer));
    let cpu = match astray {
        true => (batch.cpu.index + 1) % wheels.cpus(),
        false => batch.cpu.index,
    };
    if wheels.arm(cpu, pcb, &mut t.timers) && !astray {
        batch.wake_for_timer(cpu);
    }
}

#[cold]
fn begin_persist(batch: &Batch<'_>, t: &mut Tcb) {
    let held_back = t.send.wnd > 0 && t.conn.options.as_ref().is_some_and(|o| o.holds_back());
    let wait = match held_back {
        true => CORK_MAX,
        false => persist_interval(batch, t),
    };
    t.timers.set(TcpTimer::Persist, batch.now + wait);
}

/// Whether a timer runs while anything waits to be acknowledged or sent.
fn is_timed(t: &Tcb) -> bool {
    let waits = t.flight() > 0 || (t.conn.state.sends_data() && t.has_unsent());
    let timers = [TcpTimer::Rexmit, TcpTimer::Persist, TcpTimer::Pace];
    !waits || t.conn.state == State::Closed || timers.iter().any(|timer| t.timers.is_set(*timer))
}

/// The program's options: its timeout, and its limit of unsent bytes.
fn user_options(batch: &Batch<'_>, t: &mut Tcb) {
    if t.conn.options.is_none() {
        return;
    }
    let (waits, unsent) = (t.waits(), t.unsent());
    if let Some(options) = &mut t.conn.options {
        options.note_waiting(waits, batch.now);
        if options.note_unsent(unsent) {
            t.due |= Due::WAKE_WRITER;
        }
    }
    keep_deadline(t);
}
