//! The three-way handshake: the answer to a SYN, the terms of both SYNs, and the state that follows.
//!
//! A connection that the peer begins is made in `listen.rs`, or in `cookies.rs`; one that the program begins, by
//! `tcp_connect`. SYNs are sent as all segments are (`output.rs`), and repeated by a timer (`timers.rs`).
//!
//! Sources: RFC 9293 3.10.7.2 and 3.10.7.3; 7323 2.2 (window scale); 9768 3.1 (ECN).

use std::ops::ControlFlow::{Break, Continue};

use kern::Time;
use wire::TcpFlags;

use super::cc::Window;
use super::due::Due;
use super::ecn::AccEcnChoices;
use super::input::Verdict;
use super::pcb::{State, Tcb};
use super::reset::EndReset;
use super::segment::Segment;
use super::steps::{Step, cut_beyond, end_by_reset};
use super::timers::fields::TcpTimer;
use super::{ack, options, path_mtu, reset, text, timers};
use crate::batch::Batch;
use crate::config::TcpConfig;
use crate::drops::DropReason;
use crate::error::SocketError;

/// While the owner decides, only a reset matters: the peer has given up. A SYN that came again counts for ECN.
#[cold]
pub(super) fn syn_held(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    if seg.has(TcpFlags::RST) && seg.seq == t.recv.nxt {
        // Reports to the owner that the peer has given up.
        t.close(Some(SocketError::Reset));
        return Continue(());
    }
    if seg.flags & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN && seg.seq == t.recv.irs {
        check_offer(batch, t, seg)?;
    }
    Break(Verdict::Drop(DropReason::TcpBadListenSegment))
}

/// The answer to our SYN (RFC 9293 3.10.7.3).
#[cold]
pub(super) fn syn_sent(batch: &mut Batch<'_>, t: &mut Tcb, seg: &mut Segment) -> Step {
    let acked = seg.has(TcpFlags::ACK);
    if acked && !(seg.ack.after(t.send.iss) && seg.ack.at_or_before(t.send.nxt)) {
        return Break(Verdict::Reset(DropReason::TcpBadAck));
    }
    if seg.has(TcpFlags::RST) {
        if acked {
            batch.stack.tcp.counters.refused.inc();
            t.close(Some(SocketError::Refused));
            t.notify();
            return Continue(());
        }
        return Break(Verdict::Drop(DropReason::TcpBadReset));
    }
    if !seg.has(TcpFlags::SYN) {
        return Break(Verdict::Drop(DropReason::TcpBadSyn));
    }
    if !acked && options::is_syn_bare(&batch.stack.tcp.config, t) {
        // The peer may have seen this SYN or an earlier one; a SYN without ACK does not show which.
        options::offer_none(t);
    }
    let (mss, window) = (t.recv.mss, t.rcv_wnd());
    take_syn(t, seg, mss, &batch.stack.tcp.config, batch.now);
    // Our SYN announced it, so more segments may come in this batch.
    t.recv.adv = t.recv.nxt + window;
    path_mtu::begin(batch, t, &seg.ends);
    t.due |= Due::ACK;
    if acked {
        if t.conn.ecn.accurate().is_some() {
            t.due |= Due::ACK_FIRST;
        }
        if t.conn.ecn.has_failed_offer() {
            let host = seg.ends.peer().ip();
            batch.stack.tcp.failed_offers.note(host, batch.now);
        }
        ack::syn_acked(batch, t, seg);
        t.timers.stop(TcpTimer::Rexmit);
        established(batch, t);
    }
    seg.seq = t.recv.nxt;
    seg.flags -= TcpFlags::SYN;
    cut_beyond(t, seg, window as usize);
    if !acked {
        // A simultaneous open: our SYN is repeated, with an acknowledgement of the peer's SYN alone. Data and a FIN
        // beside that wait until the connection is established.
        t.conn.state = State::SynReceived;
        t.send.sent.mark_all_lost();
        return text::keep(batch, t, seg);
    }
    text::process(batch, t, seg)?;
    text::process_fin(batch, t) // The eighth of 3.10.7.4
}

/// The content of the peer's SYN: sequence, window, options (RFC 9293 3.10.7.2, RFC 7323 2.2).
pub(super) fn take_syn(t: &mut Tcb, seg: &Segment, mss: u32, config: &TcpConfig, now: Time) {
    t.recv.irs = seg.seq;
    t.recv.nxt = seg.seq + 1;
    t.recv.adv = t.recv.nxt;
    t.recv.last_ack_sent = t.recv.nxt;
    t.recv.mss = mss;
    t.conn
        .ecn
        .begin(seg.flags, seg.mark, AccEcnChoices::of(config));
    options::agree(t, &seg.options, now);
    t.send.window = Window::new(t.send.mss, config.initial_window);
    // The window in a SYN is never scaled.
    t.send.wnd = u32::from(seg.window);
    t.send.wnd_max = t.send.wnd;
    t.send.wl1 = seg.seq;
    t.send.wl2 = t.send.una;
}

/// The handshake is complete, and the user is woken.
#[cold]
pub(super) fn established(batch: &mut Batch<'_>, t: &mut Tcb) {
    t.conn.state = if t.send.fin_queued {
        State::FinWait1
    } else {
        State::Established
    };
    t.conn.predecessor = None;
    t.recv.policy.data_at = batch.now;
    if t.send.retransmits > 0 {
        t.send.handshake_repeated();
    }
    batch.stack.tcp.counters.established.inc();
    timers::restart_keepalive(batch, t);
    if let (Some(delay), true) = (t.conn.accept_delay(), t.conn.accept.is_some()) {
        t.timers.set(TcpTimer::Accept, batch.now + delay);
    }
    t.notify();
}

/// The SYN of the peer, once more. If it offers another form of ECN than before, a reset ends the connection. The peer
/// accepts it before and after our SYN-ACK: its sequence number and its acknowledgement are both exact.
#[cold]
pub(super) fn check_offer(batch: &mut Batch<'_>, t: &mut Tcb, seg: &Segment) -> Step {
    if t.conn.ecn.on_syn_again(seg.flags, seg.mark) {
        return Continue(());
    }
    let reset = EndReset {
        seq: t.send.iss + 1,
        ..EndReset::of(t, batch.now)
    };
    reset::send(batch, seg.ends, reset);
    end_by_reset(t);
    Break(Verdict::Drop(DropReason::TcpBadSyn))
}
