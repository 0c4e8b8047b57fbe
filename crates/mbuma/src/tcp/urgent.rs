//! Urgent data: the positions where it ends, in sent and in received data.
//!
//! The bytes stay in the stream (as SO_OOBINLINE has it, which RFC 6093 section 5 recommends); only the sequence number
//! after the last of them is kept:
//! ```text
//!   sent       SND.UP   in each segment that begins before it, until it is acknowledged
//!   received   RCV.UP   until the user has read beyond it; no read returns bytes of both sides
//! ```
//! Source: RFC 9293 3.8.5 (MUST-30 to MUST-34, MUST-62), RFC 6093.

use wire::{SeqNum, TcpFlags};

use super::pcb::Tcb;
use super::segment::Segment;

/// The ends of urgent data. A connection has it only while there is some.
#[derive(Debug, Default)]
pub(crate) struct Urgent {
    #[doc(alias = "SND.UP")]
    sent_end: Option<SeqNum>,
    /// The peer must get the pointer, even if its window takes no data.
    tell: bool,
    #[doc(alias = "RCV.UP")]
    received_end: Option<SeqNum>,
}

/// Sixth step: the URG bit. If the end moves, the user is woken.
pub(crate) fn check(t: &mut Tcb, seg: &Segment) {
    if !seg.has(TcpFlags::URG) || !t.conn.state.receives_data() || t.recv.read_closed {
        return;
    }
    let end = seg.start + u32::from(seg.urgent);
    let read = next_read(t);
    let known = t.urgent.as_ref().and_then(|u| u.received_end);
    if end.after(known.unwrap_or(read).max(read)) {
        t.urgent.get_or_insert_default().received_end = Some(end);
        t.notify();
    }
}

/// The data in the send buffer now is urgent, up to its last byte.
pub(crate) fn mark_sent(t: &mut Tcb) {
    let end = t.write_seq();
    let urgent = t.urgent.get_or_insert_default();
    (urgent.sent_end, urgent.tell) = (Some(end), true);
}

/// Whether the next new segment begins with urgent data, which Nagle's algorithm does not hold back.
pub(crate) fn is_next(t: &Tcb) -> bool {
    pointer(t, t.send.nxt).is_some()
}

/// Whether the pointer must still be sent.
pub(crate) fn is_to_tell(t: &Tcb) -> bool {
    t.urgent.as_ref().is_some_and(|u| u.tell)
}

/// The urgent pointer of a segment that begins at `seq`, if urgent data ends behind that.
pub(crate) fn pointer(t: &Tcb, seq: SeqNum) -> Option<u16> {
    let end = t.urgent.as_ref()?.sent_end?;
    let ahead = end.after(seq).then(|| end.since(seq))?;
    // An end that is too far for the field is announced by later segments.
    Some(ahead.min(65_535) as u16)
}

/// A segment with the pointer was sent.
pub(crate) fn told(t: &mut Tcb) {
    if let Some(urgent) = &mut t.urgent {
        urgent.tell = false;
    }
}

/// SND.UNA has moved.
pub(crate) fn acked(t: &mut Tcb) {
    if let Some(urgent) = &mut t.urgent {
        let una = t.send.una;
        urgent.sent_end = urgent.sent_end.filter(|end| end.after(una));
        forget(t);
    }
}

/// Bytes to read until the end of the urgent data; some may not have arrived. 0 at the end itself.
#[doc(alias = "sockatmark")]
pub(crate) fn unread(t: &Tcb) -> Option<usize> {
    let end = t.urgent.as_ref()?.received_end?;
    // No byte comes after the FIN, wherever the pointer is.
    let end = t.recv.fin.map_or(end, |fin| end.min(fin));
    Some(end.since(next_read(t)) as usize)
}

/// How many of `max` bytes one read may take: only those before the end, or those after it.
pub(crate) fn limit(t: &Tcb, max: usize) -> usize {
    match unread(t) {
        None | Some(0) => max,
        Some(left) => max.min(left),
    }
}

/// The user has read something.
pub(crate) fn was_read(t: &mut Tcb) {
    if t.urgent.is_some() {
        let read = next_read(t);
        if let Some(urgent) = &mut t.urgent {
            urgent.received_end = urgent.received_end.filter(|end| end.at_or_after(read));
        }
        forget(t);
    }
}

/// The user reads no more: incoming data is dropped, and so is the end of its urgent data.
pub(crate) fn read_closed(t: &mut Tcb) {
    if let Some(urgent) = &mut t.urgent {
        urgent.received_end = None;
        forget(t);
    }
}

fn forget(t: &mut Tcb) {
    let over = |u: &Urgent| u.sent_end.is_none() && u.received_end.is_none();
    t.urgent = t.urgent.take().filter(|u| !over(u));
}

/// The sequence number of the byte that the user reads next.
fn next_read(t: &Tcb) -> SeqNum {
    let fin = t.recv.fin.is_some_and(|fin| fin.before(t.recv.nxt));
    t.recv.nxt - (t.recv.buf.claimed() as u32 + u32::from(fin))
}
