//! Plans the next segment of a connection by a list of rules, each a pure function of the control block.
//!
//! ```text
//!   first    an acknowledgement alone, if AccECN needs it
//!   repair   what is marked lost, as far as the windows allow
//!   tail     a tail loss probe
//!   probe    a byte into a closed window
//!   syn      the handshake
//!   data     what the windows, Nagle and silly-window avoidance allow; up to 64 KiB at once
//!   fin      ours, after the data
//!   ack      an acknowledgement that is due, or a window that moved, if no segment above told the peer
//! ```
//!
//! Source: RFC 9293 3.8; RFC 1122 4.2.3.4; RFC 8985 7.

use wire::{SeqNum, TcpFlags};

use crate::tcp::due::Due;
use crate::tcp::pace::Pacing;
use crate::tcp::path_mtu;
use crate::tcp::pcb::{State, Tcb};
use crate::tcp::urgent;

/// The largest headers of a packet, IPv6's not included, which its length does not count: TCP's and IPv4's.
const HEADERS_MAX: u32 = 60 + 20;
/// The largest payload of one packet: IPv4's total length less the largest headers.
const PAYLOAD_MAX: u32 = 65_535 - HEADERS_MAX;
/// The largest headers of a packet that IP's length does not bound: TCP's and IPv6's.
const LARGE_HEADERS_MAX: u32 = 60 + 40;
/// With so many packets in flight the path stays busy while the last data waits for more.
const BUSY_PACKETS: u32 = 4;

/// The next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seq: SeqNum,
    pub(super) len: u32,
    pub(super) flags: TcpFlags,
    pub(super) kind: PlanKind,
}

/// Which rule decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanKind {
    Repair,
    /// A tail loss probe.
    Tail,
    Probe,
    /// A segment larger than usual, in one packet (RFC 8899).
    MtuProbe,
    Normal,
    /// Nothing in sequence space.
    Ack,
}

/// Whether a turn would do more than wake the user. With a peer that sends one message at a time it mostly would not:
/// the peer has acknowledged everything, and its data is acknowledged with the answer, or later.
pub(in crate::tcp) fn is_due(t: &Tcb) -> bool {
    let quiet = t.conn.state == State::Established
        && is_all_sent(t)
        && t.timers.are_armed()
        && !window_grew(t);
    !quiet
}

/// Whether nothing waits to be sent, but perhaps a window that grew: all that is ready was sent and is not lost, no FIN
/// follows, and no acknowledgement or probe is due.
#[inline]
pub(super) fn is_all_sent(t: &Tcb) -> bool {
    t.send.nxt == t.ready_seq()
        && !t.due.intersects(Due::SEGMENT)
        && !t.send.fin_queued
        && t.send.sent.lost() == 0
        && t.recv.policy.dup_acks_owed == 0
}

pub(super) fn next(t: &Tcb, pace: &Pacing) -> Option<Plan> {
    if matches!(t.conn.state, State::Closed | State::SynHeld) {
        return None;
    }
    // The fast path: mostly nothing goes before data.
    let is_before_data = t.send.sent.lost() > 0
        || t.due
            .intersects(Due::PROBE | Due::TAIL_PROBE | Due::ACK_FIRST)
        || matches!(t.conn.state, State::SynSent | State::SynReceived);
    let first = match is_before_data {
        true => plan_before_data(t, pace),
        false => None,
    };
    first
        .or_else(|| plan_data(t, pace))
        .or_else(|| plan_fin(t))
        .or_else(|| plan_ack(t))
}

#[inline(never)]
fn plan_before_data(t: &Tcb, pace: &Pacing) -> Option<Plan> {
    plan_ack_first(t)
        .or_else(|| plan_repair(t, pace))
        .or_else(|| plan_tail(t))
        .or_else(|| plan_probe(t))
        .or_else(|| plan_syn(t))
}

/// RFC 9768 3.2.2.1: how the SYN-ACK arrived is told by an acknowledgement without data.
fn plan_ack_first(t: &Tcb) -> Option<Plan> {
    t.due.contains(Due::ACK_FIRST).then(|| Plan {
        seq: t.acceptable_seq(),
        len: 0,
        flags: TcpFlags::ACK,
        kind: PlanKind::Ack,
    })
}

/// Data that is marked lost: one segment at once if recovery asks for it, else as much as the window allows.
fn plan_repair(t: &Tcb, pace: &Pacing) -> Option<Plan> {
    let range = t.send.sent.next_lost()?;
    let forced = t.send.recovery.forced;
    let window = t.send.cwnd().saturating_sub(t.send.sent.in_flight());
    let all = range.end.since(range.start);
    let enough = forced || window >= all.min(t.send.mss);
    // RFC 5682 3.1: after a timeout that may have been spurious, the acknowledgement of new data shows whether it was.
    let later = t.send.recovery.prefers_new_data()
        && (t.ready_seq().after(t.send.nxt) || t.send.recovery.has_new_data_in_flight(t.send.nxt));
    // A FIN takes no room.
    let in_window = range.start.before(t.send.una + t.send.wnd) || range.start == t.write_seq();
    let held_back = !forced && (later || !pace.may_send());
    if !t.conn.state.sends_data() || !enough || held_back || !in_window {
        return None;
    }
    let len = match forced {
        true => all.min(t.send.mss),
        false => {
            let at_once = match t.conn.ecn.accurate().is_some() && t.conn.ecn.has_cwr_next() {
                true => t.send.mss,
                false => pace.burst(t.send.mss),
            };
            let window = window.min(at_once);
            whole_segments(t, all.min(window.max(t.send.mss)), all)
        }
    };
    Some(again(
        t,
        range.start,
        len.max(all.min(t.send.mss)),
        PlanKind::Repair,
    ))
}

/// A retransmission: `len` numbers from `seq` on. A small segment is filled up with new data. It includes a FIN after
/// the data, unless the peer has received that in a segment of its own (RFC 2018 5.1).
#[cold]
fn again(t: &Tcb, seq: SeqNum, len: u32, kind: PlanKind) -> Plan {
    let end = t.write_seq();
    let ready = t.ready_seq();
    let mut data = if (seq + len).after(end) { len - 1 } else { len };
    if seq + len == t.send.nxt && len < t.send.mss && !t.fin_sent() {
        let right = (t.send.una + t.send.wnd).min(ready);
        let more = if right.after(seq) {
            right.since(seq)
        } else {
            0
        };
        data = data.max(more.min(t.send.mss));
    }
    let data = of_one_record(t, seq, data);
    let last = seq + data == end;
    let ends_record = of_one_record(t, seq, data + 1) == data;
    let mut flags = TcpFlags::ACK;
    flags.set(TcpFlags::PSH, (last || ends_record) && data > 0);
    flags.set(
        TcpFlags::FIN,
        last && t.fin_sent() && !t.send.sent.is_last_sacked(),
    );
    Plan {
        seq,
        len: data,
        flags,
        kind,
    }
}

/// A tail loss probe: a new segment if there is one and the peer has room, else the last one again (RFC 8985 7.3).
fn plan_tail(t: &Tcb) -> Option<Plan> {
    if !t.due.contains(Due::TAIL_PROBE) || !t.conn.state.sends_data() {
        return None;
    }
    let right = (t.send.una + t.send.wnd).min(t.ready_seq());
    if right.after(t.send.nxt) {
        let len = right.since(t.send.nxt).min(t.send.mss);
        let len = of_one_record(t, t.send.nxt, len);
        return Some(Plan {
            seq: t.send.nxt,
            len,
            flags: TcpFlags::ACK | TcpFlags::PSH,
            kind: PlanKind::Tail,
        });
    }
    let last = t.send.sent.last().filter(|r| !r.sacked && !r.lost)?;
    let len = last.len().min(t.send.mss);
    Some(again(t, last.end - len, len, PlanKind::Tail))
}

/// One byte beyond the closed window, or, for a keepalive, the byte before it: both make the peer
/// answer with an acknowledgement (RFC 9293 3.8.6.1, RFC 1122 4.2.3.6).
fn plan_probe(t: &Tcb) -> Option<Plan> {
    if !t.due.contains(Due::PROBE) {
        return None;
    }
    let data = t.ready_seq() != t.send.buf_seq;
    // If there are data and a window for it, the data itself is the better probe.
    if data && t.send.wnd > 0 {
        return None;
    }
    Some(Plan {
        seq: if data { t.send.buf_seq } else { t.send.una - 1 },
        len: u32::from(data),
        flags: TcpFlags::ACK,
        kind: PlanKind::Probe,
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
        kind: PlanKind::Normal,
    })
}

fn plan_data(t: &Tcb, pace: &Pacing) -> Option<Plan> {
    let end = t.ready_seq();
    if !t.conn.state.sends_data() || t.send.nxt.after(end) {
        return None;
    }
    let waiting = end.since(t.send.nxt);
    if waiting == 0 || !pace.may_send() {
        return None;
    }
    let window = t.send.sendable();
    let record = of_one_record(t, t.send.nxt, waiting);
    if t.send.path.is_some()
        && let Some(len) = path_mtu::probe_len(t, record, t.send.usable_window(), window)
    {
        return Some(Plan {
            seq: t.send.nxt,
            len,
            flags: TcpFlags::ACK,
            kind: PlanKind::MtuProbe,
        });
    }
    let at_once = window.min(pace.burst(t.send.mss));
    let mut len = whole_segments(t, record.min(at_once), record);
    if urgent::is_next(t) || t.conn.ecn.has_cwr_next() {
        // The urgent pointer is relative to its segment, and CWR belongs to the first piece only, so a device that cuts
        // the segment would get both wrong.
        len = len.min(t.send.mss);
    }
    len = t.send.segment_max(len);
    // The last segment of a record must not be filled up.
    let ends_record = len == record && record < waiting;
    let held = waits_for_more(t, waiting);
    if len == 0 || held || !(ends_record || worth_sending(t, len, waiting)) {
        return None;
    }
    let last = len == waiting;
    let mut flags = TcpFlags::ACK;
    flags.set(TcpFlags::PSH, len == record);
    // After an unfilled claim more data follows.
    flags.set(
        TcpFlags::FIN,
        last && t.send.fin_queued && end == t.write_seq(),
    );
    Some(Plan {
        seq: t.send.nxt,
        len,
        flags,
        kind: PlanKind::Normal,
    })
}

/// How many of the `len` bytes from `seq` on belong to one record of the program.
#[inline]
fn of_one_record(t: &Tcb, seq: SeqNum, len: u32) -> u32 {
    match &t.conn.options {
        Some(options) => options.records.within(seq, len),
        None => len,
    }
}

/// As much as one packet takes: for devices that can't cut it, the stack does.
pub(crate) fn payload_max(t: &Tcb) -> u32 {
    (PAYLOAD_MAX - PAYLOAD_MAX % t.send.mss).max(t.send.mss)
}

/// As much as a packet takes that the interface cuts: more than [`payload_max`], where it is not bound by IP's length
/// (BIG TCP).
pub(crate) fn large_payload_max(t: &Tcb) -> u32 {
    let large = t.route.tso_max().saturating_sub(LARGE_HEADERS_MAX);
    match large > PAYLOAD_MAX {
        true => large - large % t.send.mss,
        false => payload_max(t),
    }
}

/// More than one segment is sent as whole segments, up to one packet; the rest is planned separately next time.
#[inline]
fn whole_segments(t: &Tcb, len: u32, waiting: u32) -> u32 {
    // The fast path, without a division: a small message.
    match len <= t.send.mss {
        true => len,
        false => several_segments(t, len, waiting),
    }
}

fn several_segments(t: &Tcb, len: u32, waiting: u32) -> u32 {
    let len = len.min(large_payload_max(t));
    let held_back = t.conn.options.as_ref().is_some_and(|o| o.holds_back());
    if len < waiting || !t.send.nodelay || held_back {
        len - len % t.send.mss
    } else {
        len
    }
}

/// RFC 1122 4.2.3.4: a small segment waits while another is in flight, unless it ends the data and must not wait
/// (nothing makes it wait, TCP_NODELAY, a FIN, urgent data), fills half of the largest window that the peer ever had,
/// or has waited long enough. A cork makes the end of the data wait, and no segment that the peer's window cuts.
#[inline(always)] // it has one caller, whose tests it repeats
fn worth_sending(t: &Tcb, len: u32, waiting: u32) -> bool {
    let idle = !t.send.is_nagled();
    let held_back = t.conn.options.as_ref().is_some_and(|o| o.holds_back());
    let last = len == waiting && (!held_back || t.send.fin_queued);
    len >= t.send.mss
        || t.due.contains(Due::PROBE)
        || (last && (idle || t.send.nodelay || t.send.fin_queued || urgent::is_next(t)))
        || ((!held_back || len < waiting) && t.send.wnd_max > 1 && len >= t.send.wnd_max / 2)
}

/// The last data of a buffer waits while its writer has more and enough is in flight: acknowledgements make room for
/// more, and then one packet is sent instead of two.
fn waits_for_more(t: &Tcb, waiting: u32) -> bool {
    let more_follows = t.conn.options.as_ref().is_some_and(|o| o.more_follows);
    more_follows
        && waiting < payload_max(t)
        && t.send.sent.in_flight() >= BUSY_PACKETS * payload_max(t)
        && !t.send.fin_queued
        && !t.due.contains(Due::PROBE)
}

fn plan_fin(t: &Tcb) -> Option<Plan> {
    let due = t.send.fin_queued && t.conn.state.sends_data() && t.send.nxt == t.write_seq();
    let flags = TcpFlags::FIN | TcpFlags::ACK;
    due.then_some(Plan {
        seq: t.send.nxt,
        len: 0,
        flags,
        kind: PlanKind::Normal,
    })
}

fn plan_ack(t: &Tcb) -> Option<Plan> {
    let tell = urgent::is_to_tell(t) && t.conn.state.sends_data();
    let asked = t.due.contains(Due::ACK) || t.recv.policy.dup_acks_owed > 0 || tell;
    // In SYN-RECEIVED the SYN-ACK goes first; then unacceptable segments are answered (RFC 9293 3.10.7.4).
    let answers = t.conn.state.is_synchronized() || t.conn.state == State::SynReceived;
    let due = answers && (asked || window_grew(t));
    due.then_some(Plan {
        seq: t.acceptable_seq(),
        len: 0,
        flags: TcpFlags::ACK,
        kind: PlanKind::Ack,
    })
}

/// Whether the window can grow by an amount worth an update (RFC 9293 3.8.6.2.2), and is so small that the peer may be
/// waiting for it. The minimal growth is that of `announce`: with less, the turn to send would never end.
fn window_grew(t: &Tcb) -> bool {
    // A SYN's window has 16 bits. The peer learns of the rest with the first acknowledgement of its data.
    let nothing_received = t.recv.nxt == t.recv.irs + 1;
    if nothing_received || !t.conn.state.receives_data() {
        return false;
    }
    let (hiwat, wnd) = (t.recv.buf.hiwat() as u32, t.rcv_wnd());
    // The fast path: most of the buffer is announced, so less than half of it can be added.
    if wnd > hiwat.saturating_sub((hiwat / 2).max(1)) {
        return false;
    }
    let half = (t.rcv_whole() as u32 / 2).max(1);
    let growth = t.rcv_growth();
    growth >= half || (growth >= 2 * t.send.mss.min(half.div_ceil(2)) && wnd < half / 2)
}
