//! A connection's turn to send: sends the segments that [`plan`] returns, until it returns none.
//!
//! Source: RFC 9293 3.8, 3.10.2, 3.10.4; RFC 1122 4.2.3.4; RFC 5681.

use std::ops::Range;
use std::sync::Arc;

use kern::Time;
use wire::{SeqNum, TcpFields, TcpFlags, TcpOptions};

use super::cc;
use super::due::Due;
use super::options;
use super::pace::Pacing;
use super::pcb::{Inpcb, State, Tcb};
use super::rate::SendStamp;
use super::reset::EndReset;
use super::segment::{self, Payload, SegmentFields};
use super::sent::SentRecord;
use super::timers::fields::TcpTimer;
use super::{path_mtu, reset, timers, urgent};
use crate::batch::Batch;
use crate::config::TcpConfig;
use crate::error::SocketError;
use crate::sockbuf::{SealError, Sealer};
use plan::{Plan, PlanKind, is_all_sent, next};

mod plan;

pub(super) use plan::is_due;
pub(crate) use plan::{large_payload_max, payload_max};

/// Sends what the connection may send now, and arms its timers. [`visit::end`](super::visit::end) calls it.
pub(super) fn run(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb) {
    restart_after_idle(batch, t);
    if t.send.path.is_some() {
        path_mtu::judge(batch, t, &pcb.ends());
        path_mtu::expire(batch, t);
    }
    let mut pace = Pacing::begin(t, &batch.stack.tcp.config, batch.now);
    while let Some(plan) = next(t, &pace) {
        pace.sent(plan.len);
        if !send(batch, pcb, t, plan) {
            break;
        }
        // Mostly there is no second segment: this one announced the window too.
        if is_all_sent(t) {
            kern::invariant!(next(t, &pace).is_none(), "{t:?}");
            break;
        }
    }
    pace.end(t);
    t.due -= Due::PROBE | Due::TAIL_PROBE;
    let unsent = t.has_unsent();
    t.send.note_use(unsent, batch.now);
    timers::after_output(batch, pcb, t, unsent);
}

/// Sends the segment; false if that is not possible now (the timers will try again).
fn send(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, t: &mut Tcb, mut plan: Plan) -> bool {
    let Some(data) = payload(batch, pcb, t, &mut plan) else {
        return false;
    };
    let mut out = outgoing(&batch.stack.tcp.config, pcb, t, plan);
    // Written in place: to copy options that were just stored would stall until the stores are done.
    set_options(&mut out.header.options, batch, t, plan);
    if !plan.flags.contains(TcpFlags::SYN) {
        urgent::told(t);
    }
    let unreported = out.header.options.sack.is_empty() && options::has_report(t);
    account(batch, t, plan, unreported);
    segment::send(batch, &out, data, Some(&mut t.route)).is_ok()
}

/// Pieces of a packet of more than 64 KiB at most: a device that takes no more of them would have to join them.
const LARGE_PIECES_MAX: usize = 60;

/// The planned data, shared with the send buffer unless it is small. If buffers are short it returns less, because
/// sending some data leads to freed buffers.
fn payload(
    batch: &mut Batch<'_>,
    pcb: &Arc<Inpcb>,
    t: &mut Tcb,
    plan: &mut Plan,
) -> Option<Payload> {
    let off = plan.seq.since(t.send.buf_seq) as usize;
    if plan.len > 0 && t.send.buf.is_to_map(off + plan.len as usize) {
        map(batch, pcb, t, plan, off)?;
    }
    let headers = segment::headers_usual(&pcb.ends(), t.conn.ts.on);
    while plan.len > 0 {
        let buf = &mut t.send.buf;
        let len = plan.len as usize;
        if let Ok(data) = Payload::of(&batch.stack.pool, buf, off, len, headers) {
            // The fast path, without a division: a segment.
            if plan.len <= t.send.mss
                || plan.len <= payload_max(t)
                || data.pieces() <= LARGE_PIECES_MAX
            {
                return Some(data);
            }
            shorten(plan, payload_max(t));
            continue;
        }
        if plan.len == 1 {
            return None;
        }
        shorten(plan, plan.len / 2);
    }
    Some(Payload::none())
}

#[cold]
fn shorten(plan: &mut Plan, len: u32) {
    plan.len = len;
    plan.flags -= TcpFlags::FIN | TcpFlags::PSH;
}

/// Maps planned data in pages, and seals records. If buffers are short, less is sent. None if nothing can be sent now,
/// or ever: if pages can't be read or there is no key, the connection ends.
#[cold]
fn map(
    batch: &mut Batch<'_>,
    pcb: &Arc<Inpcb>,
    t: &mut Tcb,
    plan: &mut Plan,
    off: usize,
) -> Option<()> {
    let sealer = t.conn.tls_mut().map(|tls| tls as &mut dyn Sealer);
    let upto = off + plan.len as usize;
    match t.send.buf.map_ready(&batch.stack.pool, upto, sealer) {
        Ok(()) => {}
        Err(SealError::NoBufs) => {
            let mapped = t.send.buf.mapped().saturating_sub(off);
            if mapped < plan.len as usize {
                shorten(plan, mapped as u32);
            }
        }
        Err(SealError::Read(_) | SealError::Failed) => {
            let reset = EndReset::of(t, batch.now);
            t.close(Some(SocketError::Io));
            reset::send(batch, pcb.ends(), reset);
            return None;
        }
    }
    (plan.len > 0).then_some(())
}

/// The fields of the segment, except its options.
fn outgoing(config: &TcpConfig, pcb: &Inpcb, t: &mut Tcb, plan: Plan) -> SegmentFields {
    let syn = plan.flags.contains(TcpFlags::SYN);
    let (bits, mark) = match t.conn.ecn.is_on() {
        true => ecn_bits(config, t, plan),
        false => (TcpFlags::empty(), 0),
    };
    let window = match syn {
        true => syn_window(t),
        false => announce(t),
    };
    let urgent = urgent::pointer(t, plan.seq).filter(|_| !syn);
    let mut flags = plan.flags | bits;
    let (class, ttl) =
        (t.conn.options.as_ref()).map_or((0, 0), |options| options.asked.ip_fields());
    flags.set(TcpFlags::URG, urgent.is_some());
    let ends = pcb.ends();
    SegmentFields {
        ends,
        flow: pcb.flow(),
        header: TcpFields {
            src_port: ends.local_port(),
            dst_port: ends.peer_port(),
            seq: plan.seq,
            ack: if plan.flags.contains(TcpFlags::ACK) {
                t.recv.nxt
            } else {
                SeqNum(0)
            },
            flags,
            window,
            urgent: urgent.unwrap_or(0),
            options: TcpOptions::default(),
        },
        segsz: if plan.len > t.send.mss && plan.kind != PlanKind::MtuProbe {
            t.send.mss as u16
        } else {
            0
        },
        tos: class | mark,
        ttl,
        may_fragment: t.send.path.as_ref().is_some_and(|path| path.may_fragment),
    }
}

/// Writes the options of the segment to `options`.
fn set_options(options: &mut TcpOptions, batch: &Batch<'_>, t: &mut Tcb, plan: Plan) {
    if plan.flags.contains(TcpFlags::SYN) {
        *options = options::of_syn(&batch.stack.tcp.config, t, plan.flags, batch.now);
    } else {
        let again = plan.len > 0 && plan.seq.before(t.send.nxt);
        options::set(options, t, plan.len, again, batch.now);
    }
}

/// ECN's bits of the TCP header and of the IP header.
#[inline(never)]
fn ecn_bits(config: &TcpConfig, t: &mut Tcb, plan: Plan) -> (TcpFlags, u8) {
    let tries = match t.conn.state {
        State::SynSent => t
            .send
            .retransmits
            .saturating_sub(config.ecn_syn_retransmits),
        _ => t.send.retransmits,
    };
    let is_pure = plan.len == 0 && !options::has_report(t);
    let bits = t.conn.ecn.bits_of(plan.flags, is_pure, tries);
    if plan.len > 0 && plan.kind != PlanKind::Probe && plan.seq == t.send.nxt {
        let (answer, capable) = t.conn.ecn.on_new_data(plan.seq);
        (bits | answer, capable)
    } else if plan.flags.contains(TcpFlags::SYN) {
        (bits, 0)
    } else {
        (bits, t.conn.ecn.on_control())
    }
}

/// A SYN's window is not scaled.
pub(super) fn syn_window(t: &mut Tcb) -> u16 {
    let window = t.rcv_space().min(65_535);
    t.recv.adv = t.recv.nxt + window;
    window as u16
}

/// The window field. The announced right edge never moves back. It moves forward by a segment or half the buffer, so
/// that a slow reader does not cause small segments (RFC 9293 3.8.6.2.2); by less if all that came was read. So all
/// segments of a dialogue announce the same window, as the peer's header prediction expects (Linux compares the field).
fn announce(t: &mut Tcb) -> u16 {
    let growth = t.rcv_growth();
    let is_step = || growth >= t.send.mss.min(t.rcv_whole() as u32 / 2);
    if t.recv.buf.is_empty() || is_step() {
        t.recv.adv += growth;
    }
    (t.rcv_wnd() >> t.recv.wscale).min(65_535) as u16
}

/// Updates the variables before the segment is sent: a segment that this host drops counts as any loss. `unreported`:
/// it had no room for SACK blocks, so a due acknowledgement must follow.
fn account(batch: &mut Batch<'_>, t: &mut Tcb, plan: Plan, unreported: bool) {
    let counters = &batch.stack.tcp.counters;
    if plan.flags.contains(TcpFlags::ACK) {
        t.recv.last_ack_sent = t.recv.nxt;
        if !unreported {
            t.due -= Due::ACK;
            t.timers.stop(TcpTimer::DelayedAck);
        }
    }
    if plan.len > 0 {
        let delay_max = batch.stack.tcp.config.delayed_ack;
        t.recv.policy.on_answer(delay_max, batch.now);
    }
    if plan.kind == PlanKind::Ack {
        t.due -= Due::ACK_FIRST;
        t.recv.policy.dup_acks_owed = t.recv.policy.dup_acks_owed.saturating_sub(1);
        return;
    }
    let syn = u32::from(plan.flags.contains(TcpFlags::SYN));
    let fin = u32::from(plan.flags.contains(TcpFlags::FIN));
    let end = plan.seq + (plan.len + syn + fin);
    if plan.kind == PlanKind::MtuProbe {
        counters.mtu_probes.inc();
        path_mtu::on_probe_sent(t, plan.seq..end, batch.now);
    }
    t.due -= Due::PROBE;
    t.send.sent_at = batch.now;
    let first = t.send.sent.is_empty();
    let again = plan.seq.before(t.send.nxt) && end != plan.seq;
    if again {
        counters.retransmitted_segments.inc();
        counters.retransmitted_bytes.add(u64::from(plan.len));
    }
    if plan.kind != PlanKind::Probe || first {
        record(batch, t, plan, end);
    }
    if plan.kind == PlanKind::Tail {
        counters.tail_loss_probes.inc();
        t.due -= Due::TAIL_PROBE;
        t.send.probe.on_sent(t.send.nxt, again);
    }
    let takes_room = end != plan.seq;
    arm_rexmit(batch, t, plan, takes_room);
    if !again || t.send.recovery.phase().is_repair() {
        timers::rearm_probe(batch, t);
    }
}

/// Starts the retransmission timer with the first segment that takes room (RFC 6298 5.1), and again when the first lost
/// segment is repaired, unless the recovery keeps the timer as it is.
#[inline]
fn arm_rexmit(batch: &Batch<'_>, t: &mut Tcb, plan: Plan, takes_room: bool) {
    let is_set = t.timers.is_set(TcpTimer::Rexmit);
    let is_first = plan.kind != PlanKind::Probe && takes_room && !is_set;
    let first_repaired = plan.kind == PlanKind::Repair && plan.seq == t.send.una;
    if is_first || (first_repaired && !t.send.recovery.keeps_timer()) {
        let at = t.send.rtt.expires(batch.now, &batch.stack.tcp.config);
        t.timers.set(TcpTimer::Rexmit, at);
        t.timers.stop(TcpTimer::Persist);
    }
}

/// Records the transmission in the sent map: the part that was sent before, and the new part.
fn record(batch: &Batch<'_>, t: &mut Tcb, plan: Plan, end: SeqNum) {
    let now = batch.now;
    let in_flight = t.send.sent.in_flight();
    let stamp = t.send.rate.on_send(now, in_flight);
    let seen = end.min(t.send.nxt);
    if plan.seq.before(seen) {
        record_again(t, plan.seq..seen, now, stamp);
    }
    if end.after(t.send.nxt) {
        let new = SentRecord {
            // A receiver with a closed window drops or delays data: its acknowledgement measures no round trip.
            resent: plan.kind == PlanKind::Probe,
            flight: in_flight + end.since(t.send.nxt),
            ..SentRecord::new(t.send.nxt..end, now, stamp)
        };
        t.send.sent.push(new);
        let len = end.since(t.send.nxt).min(plan.len);
        batch.stack.tcp.counters.bytes_out.add(u64::from(len));
        t.send.nxt = end;
        t.send.note_small(end, plan.len);
    }
    t.send.recovery.on_sent(plan.len);
}

#[cold]
fn record_again(t: &mut Tcb, range: Range<SeqNum>, now: Time, stamp: SendStamp) {
    t.send.recovery.forced = false;
    t.send.recovery.on_resent(&range, t.send.nxt, now);
    t.send.sent.resend(range, now, stamp);
}

/// After an idle time the window shrinks to the initial one, because what it measured is out of date (RFC 5681 4.1).
fn restart_after_idle(batch: &Batch<'_>, t: &mut Tcb) {
    let config = &batch.stack.tcp.config;
    let idle = t.send.una == t.send.nxt;
    let restart = cc::initial_window(t.send.mss, config.initial_window);
    // The window of a sender of little data never grew and need not be reduced, so the timeout is not computed.
    let grown = t.send.window.cwnd > restart;
    if idle && grown && batch.now > t.send.rtt.expires(t.send.sent_at, config) {
        let idle = batch.now - t.send.sent_at;
        t.send.cc.on_idle(&mut t.send.window, idle, restart);
    }
}
