//! The fast path of input, header prediction (V. Jacobson, 1990; BSD's `tcp_input`): an established connection gets the
//! segment that it expects next.
//!
//! Nearly all segments on a path without losses are such: data in order, an acknowledgement of new data, or both, as in
//! each message of a dialogue. The fast path takes the steps of the full list that do something then, in the same order
//! (RFC 9293 3.10.7.4), and by the same functions; the conditions show that each step that it leaves out would do
//! nothing:
//!
//! | step | why it is left out |
//! |---|---|
//! | RFC 7323 R1 | the timestamp is not older than the last one |
//! | sequence | the segment begins at RCV.NXT, and its data fits the window: nothing is cut off |
//! | RST, SYN, URG, FIN | no such flag, and no FIN is waited for |
//! | acknowledgement: acceptable | SND.UNA <= SEG.ACK <= SND.NXT |
//! | duplicate | it acknowledges something, or has data |
//! | hand-over, end of the handshake | the program has the connection |
//! | acknowledgement of our FIN | none was sent |
//! | marks | neither the segment nor the connection has ECN |
//! | data out of order, queued data | nothing is queued |
//! | data for no program | the program has the connection |
//!
//! The tests compare both paths.

use std::ops::ControlFlow::Continue;

use wire::TcpFlags;

use super::{Step, note_timestamp};
use crate::batch::Batch;
use crate::tcp::pcb::{State, Tcb};
use crate::tcp::segment::Segment;
use crate::tcp::{ack, text};

#[cfg(all(test, not(shuttle)))]
mod tests;

/// Whether the segment is the expected one.
#[inline]
pub(super) fn is(batch: &Batch<'_>, t: &Tcb, seg: &Segment) -> bool {
    let news = seg.ack.since(t.send.una);
    let len = seg.data.len() as u32;
    t.conn.state == State::Established
        && seg.flags.difference(TcpFlags::PSH) == TcpFlags::ACK
        && seg.seq == t.recv.nxt
        && news <= t.flight()
        && (news > 0 || len > 0)
        && len <= t.rcv_wnd()
        && t.recv.reass.is_empty()
        && seg.options.sack.is_empty()
        && !t.conn.ecn.is_on()
        && t.recv.fin.is_none()
        && !t.send.fin_queued
        && !t.conn.orphan
        && t.conn.accept.is_none()
        && !(t.conn.ts.on && (seg.options.ts).is_some_and(|ts| t.conn.ts.is_too_old(ts, batch.now)))
}

/// Takes the expected segment.
pub(super) fn take(batch: &mut Batch<'_>, t: &mut Tcb, seg: &mut Segment) -> Step {
    ack::note_activity(batch, t);
    if seg.ack.after(t.send.una) {
        ack::acknowledged(batch, t, seg, false);
    }
    ack::window(batch, t, seg);
    note_timestamp(batch, t, seg);
    if !seg.data.is_empty() {
        let data = std::mem::take(&mut seg.data);
        text::take_next(batch, t, seg, data);
    }
    Continue(())
}
