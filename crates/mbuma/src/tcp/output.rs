//! A connection's turn to send: what goes next, one rule after the other, until no rule has anything.
//!
//! ```text
//!   repair   what is marked lost, as far as the windows allow
//!   tail     a tail loss probe
//!   probe    a byte into a closed window
//!   syn      the handshake
//!   data     what the windows, Nagle and silly-window avoidance allow; up to 64 KiB at once
//!   fin      ours, after the data
//!   ack      what the peer should know and nothing above told it
//! ```
//!
//! Called by: [`Batch::finish`], once a batch for each touched connection; sockets, for their own. Calls: `segment`,
//! `timers`. Source: RFC 9293 3.8, 3.10.2, 3.10.4; RFC 1122 4.2.3.4; RFC 5681.

use std::sync::Arc;

use kern::Time;
use kern::prim::MutexGuard;
use wire::{SeqNum, TcpFlags, TcpOptions};

use super::cc;
use super::options;
use super::pcb::{Inpcb, Key, State, Tcb};
use super::segment::{self, Outgoing, Payload};
use super::sent::SentRecord;
use super::timer::TcpTimer;
use super::{path_mtu, time_wait, timers, urgent};
use crate::batch::Batch;
use crate::drops::DropReason;

/// The largest payload of one packet: IPv4's total length less the largest headers.
const PAYLOAD_MAX: u32 = 65_535 - 60 - 20;

/// What to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    seq: SeqNum,
    len: u32,
    flags: TcpFlags,
    kind: Kind,
}

/// Which rule decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Repair,
    /// A tail loss probe.
    Tail,
    Probe,
    Normal,
    /// Nothing in sequence space.
    Ack,
}

/// Sends what the connection may send now, arms its timers, and takes it away if it is closed.
pub(crate) fn run(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>) {
    locked(batch, pcb, pcb.tcb.lock());
}

/// The same for who has the connection locked, and unlocks it.
pub(crate) fn locked(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, mut t: MutexGuard<'_, Tcb>) {
    restart_after_idle(batch, &mut t);
    path_mtu::expire(batch, &mut t);
    while let Some(plan) = next(&t) {
        if !send(batch, pcb, &mut t, plan) {
            break;
        }
    }
    t.send.probe_now = false;
    t.send.tail_probe = false;
    note_use(&mut t);
    timers::after_output(batch, pcb, &mut t);
    kern::invariant!(t.is_valid(), "{t:?}");
    let closed = t.conn.state == State::Closed;
    let time_wait = std::mem::take(&mut t.conn.entered_time_wait);
    if std::mem::take(&mut t.conn.wake_user) && t.conn.wakers.any() {
        batch.wake(t.conn.wakers.take());
    }
    drop(t);
    if time_wait {
        time_wait::remember(batch, pcb);
    }
    if closed && batch.stack.tcp.remove(pcb) {
        batch.stack.tcp.counters.closed.inc();
    }
}

/// Whether a turn would do anything. What the peer sends one message at a time mostly asks for none: its
/// acknowledgement is of all that was sent, and its data is acknowledged with the answer, or later.
pub(super) fn is_due(t: &Tcb) -> bool {
    let quiet = t.conn.state == State::Established
        && t.send.nxt == t.data_end()
        && !(t.recv.ack_now || t.send.probe_now || t.send.tail_probe || t.send.fin_queued)
        && t.send.sent.lost() == 0
        && t.recv.dup_acks_owed == 0
        && t.timers.are_armed()
        && !(t.conn.wake_user && t.conn.wakers.any())
        && !window_grew(t);
    !quiet
}

fn next(t: &Tcb) -> Option<Plan> {
    if matches!(t.conn.state, State::Closed | State::SynHeld) {
        return None;
    }
    plan_repair(t)
        .or_else(|| plan_tail(t))
        .or_else(|| plan_probe(t))
        .or_else(|| plan_syn(t))
        .or_else(|| plan_data(t))
        .or_else(|| plan_fin(t))
        .or_else(|| plan_ack(t))
}

/// What is marked lost: one segment at once where recovery says so, else as much as the window allows.
fn plan_repair(t: &Tcb) -> Option<Plan> {
    let range = t.send.sent.next_lost()?;
    let forced = t.send.recovery.forced;
    let window = t.send.cwnd().saturating_sub(t.send.sent.in_flight());
    let all = range.end.since(range.start);
    let enough = forced || window >= all.min(t.send.mss);
    // RFC 5682 3.1: after a timeout that may have come too early, new data tells more.
    let later = t.send.recovery.prefers_new_data()
        && (t.data_end().after(t.send.nxt) || t.send.recovery.has_new_data_in_flight(t.send.nxt));
    // A FIN takes no room.
    let in_window = range.start.before(t.send.una + t.send.wnd) || range.start == t.data_end();
    if !t.conn.state.sends_data() || !enough || (later && !forced) || !in_window {
        return None;
    }
    let len = match forced {
        true => all.min(t.send.mss),
        false => whole_segments(t, all.min(window.max(t.send.mss)), all),
    };
    Some(again(
        t,
        range.start,
        len.max(all.min(t.send.mss)),
        Kind::Repair,
    ))
}

/// A segment of what was sent before: `len` numbers from `seq` on. What is small is filled up with new data.
fn again(t: &Tcb, seq: SeqNum, len: u32, kind: Kind) -> Plan {
    let end = t.data_end();
    let mut data = if (seq + len).after(end) { len - 1 } else { len };
    if seq + len == t.send.nxt && len < t.send.mss && !t.fin_sent() {
        let right = (t.send.una + t.send.wnd).min(end);
        let more = if right.after(seq) {
            right.since(seq)
        } else {
            0
        };
        data = data.max(more.min(t.send.mss));
    }
    let last = seq + data == end;
    let mut flags = TcpFlags::ACK;
    flags.set(TcpFlags::PSH, last && data > 0);
    flags.set(TcpFlags::FIN, last && t.fin_sent());
    Plan {
        seq,
        len: data,
        flags,
        kind,
    }
}

/// A tail loss probe: a new segment if there is one and the peer has room, else the last one again (RFC 8985 7.3).
fn plan_tail(t: &Tcb) -> Option<Plan> {
    if !t.send.tail_probe || !t.conn.state.sends_data() {
        return None;
    }
    let right = (t.send.una + t.send.wnd).min(t.data_end());
    if right.after(t.send.nxt) {
        let len = right.since(t.send.nxt).min(t.send.mss);
        return Some(Plan {
            seq: t.send.nxt,
            len,
            flags: TcpFlags::ACK | TcpFlags::PSH,
            kind: Kind::Tail,
        });
    }
    let last = t.send.sent.last().filter(|r| !r.sacked && !r.lost)?;
    let len = last.len().min(t.send.mss);
    Some(again(t, last.end - len, len, Kind::Tail))
}

/// One byte beyond the closed window, or, for a keepalive, the byte before it: both make the peer
/// say where it is (RFC 9293 3.8.6.1, RFC 1122 4.2.3.6).
fn plan_probe(t: &Tcb) -> Option<Plan> {
    let data = t.data_end().since(t.send.base) > 0;
    // With data to send and a window to send it into, that is the better probe.
    if !t.send.probe_now || (data && t.send.wnd > 0) {
        return None;
    }
    Some(Plan {
        seq: if data { t.send.base } else { t.send.una - 1 },
        len: u32::from(data),
        flags: TcpFlags::ACK,
        kind: Kind::Probe,
    })
}

fn plan_syn(t: &Tcb) -> Option<Plan> {
    let flags = match t.conn.state {
        State::SynSent => TcpFlags::SYN,
        State::SynReceived => TcpFlags::SYN | TcpFlags::ACK,
        _ => return None,
    };
    let unsent = t.send.nxt == t.send.iss || t.send.sent.lost() > 0;
    unsent.then_some(Plan {
        seq: t.send.iss,
        len: 0,
        flags,
        kind: Kind::Normal,
    })
}

fn plan_data(t: &Tcb) -> Option<Plan> {
    if !t.conn.state.sends_data() || t.send.nxt.after(t.data_end()) {
        return None;
    }
    let waiting = t.data_end().since(t.send.nxt);
    if waiting == 0 {
        return None;
    }
    let right = t.send.una + t.send.wnd;
    let offered = if right.after(t.send.nxt) {
        right.since(t.send.nxt)
    } else {
        0
    };
    let allowed = t.send.cwnd().saturating_add(t.send.limited_transmit());
    let window = offered.min(allowed.saturating_sub(t.send.sent.in_flight()));
    let mut len = whole_segments(t, waiting.min(window), waiting);
    if urgent::is_next(t) {
        // The pointer counts from the segment that has it: one that a device cuts would have it wrong.
        len = len.min(t.send.mss);
    }
    if len == 0 || !worth_sending(t, len, waiting) {
        return None;
    }
    let last = len == waiting;
    let mut flags = TcpFlags::ACK;
    flags.set(TcpFlags::PSH, last);
    flags.set(TcpFlags::FIN, last && t.send.fin_queued);
    Some(Plan {
        seq: t.send.nxt,
        len,
        flags,
        kind: Kind::Normal,
    })
}

/// As much as one packet takes: devices that can't cut it themselves have it cut for them.
pub(crate) fn payload_max(t: &Tcb) -> u32 {
    (PAYLOAD_MAX - PAYLOAD_MAX % t.send.mss).max(t.send.mss)
}

/// More than one segment goes in whole ones, as far as one packet takes them; what is left over is judged by itself
/// next time.
fn whole_segments(t: &Tcb, len: u32, waiting: u32) -> u32 {
    // Before anything is divided: a small message is this.
    if len <= t.send.mss {
        return len;
    }
    let len = len.min(payload_max(t));
    if len < waiting || !t.send.nodelay {
        len - len % t.send.mss
    } else {
        len
    }
}

/// RFC 1122 4.2.3.4: a small segment waits while another is in flight, unless it ends the data and must not wait (idle,
/// TCP_NODELAY, a FIN, urgent data), fills half of the largest window that the peer ever had, or has waited long enough.
fn worth_sending(t: &Tcb, len: u32, waiting: u32) -> bool {
    let idle = t.send.una == t.send.nxt;
    let last = len == waiting;
    len >= t.send.mss
        || t.send.probe_now
        || (last && (idle || t.send.nodelay || t.send.fin_queued || urgent::is_next(t)))
        || (t.send.wnd_max > 1 && len >= t.send.wnd_max / 2)
}

fn plan_fin(t: &Tcb) -> Option<Plan> {
    let due = t.send.fin_queued && t.conn.state.sends_data() && t.send.nxt == t.data_end();
    let flags = TcpFlags::FIN | TcpFlags::ACK;
    due.then_some(Plan {
        seq: t.send.nxt,
        len: 0,
        flags,
        kind: Kind::Normal,
    })
}

fn plan_ack(t: &Tcb) -> Option<Plan> {
    let tell = urgent::is_to_tell(t) && t.conn.state.sends_data();
    let asked = t.recv.ack_now || t.recv.dup_acks_owed > 0 || tell;
    // In SYN-RECEIVED the SYN-ACK goes first; then unacceptable segments are answered (RFC 9293 3.10.7.4).
    let answers = t.conn.state.is_synchronized() || t.conn.state == State::SynReceived;
    let due = answers && (asked || window_grew(t));
    due.then_some(Plan {
        seq: t.acceptable_seq(),
        len: 0,
        flags: TcpFlags::ACK,
        kind: Kind::Ack,
    })
}

/// The window could move by so much that the peer should know (RFC 9293 3.8.6.2.2), and it is small
/// enough that the peer may be waiting for it. Never by less than [`announce`] moves it by: the turn to send would have
/// no end.
fn window_grew(t: &Tcb) -> bool {
    // A SYN's window has 16 bits. The peer learns of the rest with the first acknowledgement of its data.
    let nothing_received = t.recv.nxt == t.recv.irs + 1;
    if nothing_received || !t.conn.state.receives_data() {
        return false;
    }
    let growth = t.rcv_growth();
    let half = (t.recv.buf.hiwat() as u32 / 2).max(1);
    growth >= half || (growth >= 2 * t.send.mss.min(half.div_ceil(2)) && t.rcv_wnd() < half / 2)
}

/// Sends it; false if it can't be sent now (the timers will try again).
fn send(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb, mut plan: Plan) -> bool {
    let Some(data) = payload(batch, t, &mut plan) else {
        return false;
    };
    let out = outgoing(pcb, t, plan, batch.now);
    if !plan.flags.contains(TcpFlags::SYN) {
        urgent::told(t);
    }
    let unreported = out.options.sack.is_empty() && options::has_report(t);
    account(batch, t, plan, unreported);
    segment::send(batch, &out, data, Some(&mut t.route)).is_ok()
}

/// The planned data, shared with the send buffer unless it is small; less of it if buffers are short, because data that
/// is under way is what frees some.
fn payload(batch: &Batch<'_>, t: &mut Tcb, plan: &mut Plan) -> Option<Payload> {
    let off = plan.seq.since(t.send.base) as usize;
    while plan.len > 0 {
        let buf = &mut t.send.buf;
        if let Ok(data) = Payload::of(&batch.stack.pool, buf, off, plan.len as usize) {
            return Some(data);
        }
        if plan.len == 1 {
            return None;
        }
        plan.len /= 2;
        plan.flags -= TcpFlags::FIN | TcpFlags::PSH;
    }
    Some(Payload::none())
}

fn outgoing(pcb: &Inpcb, t: &mut Tcb, plan: Plan, now: Time) -> Outgoing {
    let syn = plan.flags.contains(TcpFlags::SYN);
    let (window, options) = if syn {
        (syn_window(t), options::of_syn(t, plan.flags, now))
    } else {
        (announce(t), options::of_segment(t, plan.len, now))
    };
    let urgent = urgent::pointer(t, plan.seq).filter(|_| !syn);
    let mut flags = plan.flags | t.conn.ecn.bits_of(plan.flags, t.send.retransmits > 0);
    flags.set(TcpFlags::URG, urgent.is_some());
    Outgoing {
        key: pcb.key,
        flow: pcb.flow(),
        seq: plan.seq,
        ack: if plan.flags.contains(TcpFlags::ACK) {
            t.recv.nxt
        } else {
            SeqNum(0)
        },
        flags,
        window,
        urgent: urgent.unwrap_or(0),
        options,
        segsz: if plan.len > t.send.mss {
            t.send.mss as u16
        } else {
            0
        },
        may_fragment: t.send.path.as_ref().is_some_and(|path| path.may_fragment),
    }
}

/// A SYN's window is not scaled.
pub(super) fn syn_window(t: &mut Tcb) -> u16 {
    let window = t.rcv_space().min(65_535);
    t.recv.adv = t.recv.nxt + window;
    window as u16
}

/// The window field, and the promise that goes with it: the right edge never moves back, and forward
/// only by a segment or half the buffer, so that a slow reader does not invite small segments
/// (RFC 9293 3.8.6.2.2).
fn announce(t: &mut Tcb) -> u16 {
    let growth = t.rcv_growth();
    if growth >= t.send.mss.min(t.recv.buf.hiwat() as u32 / 2) {
        t.recv.adv += growth;
    }
    (t.rcv_wnd() >> t.recv.wscale).min(65_535) as u16
}

/// What sending does to the variables, before the segment is gone: if it gets lost, even here, it is
/// a loss like any other. `unreported`: it had no room for SACK blocks, so an acknowledgement that is due must follow.
fn account(batch: &mut Batch<'_>, t: &mut Tcb, plan: Plan, unreported: bool) {
    let counters = &batch.stack.tcp.counters;
    if plan.flags.contains(TcpFlags::ACK) {
        t.recv.last_ack_sent = t.recv.nxt;
        if !unreported {
            t.recv.ack_now = false;
            t.timers.stop(TcpTimer::DelayedAck);
        }
    }
    let syn = u32::from(plan.flags.contains(TcpFlags::SYN));
    let fin = u32::from(plan.flags.contains(TcpFlags::FIN));
    let end = plan.seq + (plan.len + syn + fin);
    if plan.len > 0 {
        let delay_max = batch.stack.tcp.config.delayed_ack;
        t.recv.policy.on_answer(delay_max, batch.now);
    }
    match plan.kind {
        Kind::Ack => {
            t.recv.dup_acks_owed = t.recv.dup_acks_owed.saturating_sub(1);
            return;
        }
        Kind::Repair | Kind::Tail | Kind::Probe | Kind::Normal => {}
    }
    t.send.probe_now = false;
    t.send.sent_at = batch.now;
    let first = t.send.sent.is_empty();
    let again = plan.seq.before(t.send.nxt) && end != plan.seq;
    if again {
        counters.retransmitted_segments.inc();
        counters.retransmitted_bytes.add(u64::from(plan.len));
    }
    if plan.kind != Kind::Probe || first {
        record(batch, t, plan, end);
    }
    if plan.kind == Kind::Tail {
        counters.tail_loss_probes.inc();
        t.send.tail_probe = false;
        t.send.probe.on_sent(t.send.nxt, again);
    }
    let timed = plan.kind != Kind::Probe && end != plan.seq && !t.timers.is_set(TcpTimer::Rexmit);
    if timed || (plan.kind == Kind::Repair && plan.seq == t.send.una) {
        let at = t.send.rtt.expires(batch.now, &batch.stack.tcp.config);
        t.timers.set(TcpTimer::Rexmit, at);
        t.timers.stop(TcpTimer::Persist);
    }
    if !again {
        timers::rearm_probe(batch, t);
    }
}

/// The transmission goes into the sent map: what was sent before, and what is new.
fn record(batch: &Batch<'_>, t: &mut Tcb, plan: Plan, end: SeqNum) {
    let now = batch.now;
    let in_flight = t.send.sent.in_flight();
    let stamp = t.send.rate.on_send(now, in_flight);
    let seen = end.min(t.send.nxt);
    if plan.seq.before(seen) {
        t.send.recovery.forced = false;
        let nxt = t.send.nxt;
        t.send.recovery.on_resent(&(plan.seq..seen), nxt, now);
        t.send.sent.resend(plan.seq..seen, now, stamp);
    }
    if end.after(t.send.nxt) {
        let new = SentRecord {
            // What is sent into a closed window is dropped, or waits there: its acknowledgement tells no round trip.
            resent: plan.kind == Kind::Probe,
            ..SentRecord::new(t.send.nxt..end, now, stamp)
        };
        t.send.sent.push(new);
        let len = end.since(t.send.nxt).min(plan.len);
        batch.stack.tcp.counters.bytes_out.add(u64::from(len));
        t.send.nxt = end;
    }
    t.send.recovery.on_sent(plan.len);
}

/// Whether the window held data back decides whether it may grow.
fn note_use(t: &mut Tcb) {
    let waiting = t.data_end().after(t.send.nxt) || t.send.sent.lost() > 0;
    let in_flight = t.send.sent.in_flight();
    t.send.rate.after_output(in_flight, &t.send.window, waiting);
}

/// RFC 5681 4.1.
fn restart_after_idle(batch: &Batch<'_>, t: &mut Tcb) {
    let config = &batch.stack.tcp.config;
    let idle = t.send.una == t.send.nxt;
    let restart = cc::initial_window(t.send.mss, config.initial_window);
    // A window that never grew, as that of a sender of little, stays what it is: its time need not be worked out.
    let grown = t.send.window.cwnd > restart;
    if idle && grown && batch.now > t.send.rtt.expires(t.send.sent_at, config) {
        let idle = batch.now - t.send.sent_at;
        t.send.cc.on_idle(&mut t.send.window, idle, restart);
    }
}

/// A reset that ends a connection of ours: where the peer expects our next byte.
pub(crate) fn reset(batch: &mut Batch<'_>, key: Key, seq: SeqNum, ack: SeqNum) {
    let out = Outgoing {
        key,
        flow: 0,
        seq,
        ack,
        flags: TcpFlags::RST | TcpFlags::ACK,
        window: 0,
        urgent: 0,
        options: TcpOptions::default(),
        segsz: 0,
        may_fragment: false,
    };
    batch.stack.tcp.counters.resets_out.inc();
    // If there is no buffer or route for it, the peer learns when it sends something.
    let _: Result<(), DropReason> = segment::send(batch, &out, Payload::none(), None);
}
