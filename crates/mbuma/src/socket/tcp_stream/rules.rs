//! Rules over the locked control block: when a program may send and read, and how it ends its side.
//!
//! Locks: the caller has the connection. Source: RFC 9293 3.10.2 to 3.10.4.

use mbuf::Chain;

use crate::error::SocketError;
use crate::tcp::State;
use crate::tcp::pcb::Tcb;
use crate::tcp::timers::fields::TcpTimer;
use crate::tcp::urgent;
use crate::waiters::{WaitBy, Want};

/// If the call may succeed later, it is woken when its side changes.
pub(in crate::socket) fn wait_for(
    t: &mut Tcb,
    want: Want,
    error: SocketError,
    waiting: Option<WaitBy<'_>>,
) {
    if let (SocketError::WouldBlock, Some(waiting)) = (error, waiting) {
        t.conn.waiters.register(want, waiting);
    }
}

/// Whether a splice reads from the connection.
pub(in crate::socket) fn is_source(t: &Tcb) -> bool {
    let splices = t.conn.attached.as_ref();
    splices.is_some_and(|splices| splices.as_source.is_some())
}

/// The data that a program may read: none while a splice reads.
pub(super) fn take_unspliced(t: &mut Tcb, max: usize) -> Result<Chain, SocketError> {
    match is_source(t) {
        true => Err(SocketError::WouldBlock),
        false => take_received(t, max),
    }
}

pub(in crate::socket) fn take_received(t: &mut Tcb, max: usize) -> Result<Chain, SocketError> {
    if t.recv.buf.is_empty() {
        let end = t.read_end().unwrap_or(Err(SocketError::WouldBlock));
        return end.map(|()| Chain::new());
    }
    let max = urgent::limit(t, max);
    let taken = t.recv.buf.take_front(max);
    urgent::was_read(t);
    taken.map_err(|_| SocketError::NoBufs)
}

/// Takes the first `N` bytes, if so many are there and no urgent data ends among them.
pub(in crate::socket) fn take_head<const N: usize>(t: &mut Tcb) -> Option<[u8; N]> {
    let mut head = [0; N];
    if urgent::limit(t, N) < N || !t.recv.buf.copy_to(0, &mut head) {
        return None;
    }
    t.recv.buf.trim_front(N);
    urgent::was_read(t);
    Some(head)
}

/// Whether a program may send: not while a splice does.
pub(in crate::socket) fn may_write(t: &Tcb) -> Result<(), SocketError> {
    let splices = t.conn.attached.as_ref();
    match splices.is_some_and(|splices| splices.as_sink.is_some()) {
        true => Err(SocketError::WouldBlock),
        false => may_send(t),
    }
}

/// How many bytes a program may send now, at least one.
pub(super) fn room(t: &Tcb) -> Result<usize, SocketError> {
    may_write(t)?;
    match t.send_room() {
        0 => Err(SocketError::WouldBlock),
        room => Ok(room),
    }
}

/// The same for a writer of `wanted` bytes, with the program's low-water mark.
pub(super) fn room_worth_a_write(t: &Tcb, wanted: usize) -> Result<usize, SocketError> {
    let room = room(t)?;
    match t.is_too_little_room(wanted) {
        true => Err(SocketError::WouldBlock),
        false => Ok(room),
    }
}

pub(in crate::socket) fn may_send(t: &Tcb) -> Result<(), SocketError> {
    match t.conn.state {
        _ if t.send.fin_queued => Err(SocketError::Closed),
        State::Established | State::CloseWait | State::SynSent | State::SynReceived => Ok(()),
        _ => Err(t.conn.error.unwrap_or(SocketError::Closed)),
    }
}

/// RFC 9293 3.10.4: our side sends no more.
pub(in crate::socket) fn close_send(t: &mut Tcb, fin_wait_2_deadline: Option<kern::Time>) {
    if t.send.fin_queued {
        // The direction was closed before, and now the program drops the connection: it must not wait for the peer for
        // ever.
        if t.conn.state == State::FinWait2 && !t.timers.is_set(TcpTimer::Wait) {
            t.timers.set(TcpTimer::Wait, fin_wait_2_deadline);
        }
        return;
    }
    match t.conn.state {
        State::Established => t.conn.state = State::FinWait1,
        State::CloseWait => t.conn.state = State::LastAck,
        State::SynHeld => return t.close(Some(SocketError::Closed)),
        // Neither side has sent data yet, and now neither will.
        State::SynSent if t.conn.orphan && t.send.buf.is_empty() => {
            return t.close(Some(SocketError::Closed));
        }
        // The handshake is not over: the FIN waits with the data.
        State::SynSent | State::SynReceived => {}
        _ => return,
    }
    t.send.fin_queued = true;
}
