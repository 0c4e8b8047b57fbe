//! TIME-WAIT: both directions are closed, and the connection stays in the table until old segments are gone (RFC 9293
//! 3.6.1).
//!
//! A gateway that closes first gets one for each connection, thousands a second. They hold no buffers, and only the
//! last [`TcpConfig::time_wait_max`] are kept. A reset does not end TIME-WAIT: it may be an old one, and would let
//! older segments in (RFC 1337). A SYN of the same peer and port may end it early, if a listener takes the new
//! connection ([`leave`]); so may a connection that a program of this host opens from the same port ([`reuse`]). If the
//! new connection ends before it is established (by a reset of the peer, an ICMP error, a timeout or lack of room),
//! that SYN was an old duplicate or forged, and the old connection returns to TIME-WAIT ([`end_half_open`]).
//!
//! Locks: `waiting` (CALLOUT's neighbour; taken with no connection's lock held).
//!
//! [`TcpConfig::time_wait_max`]: crate::config::TcpConfig::time_wait_max

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kern::{LockClass, Mutex, order};

use super::due::Due;
use super::pcb::{Inpcb, Predecessor, State, Tcb};
use super::segment::Segment;
use super::sent::SentMap;
use super::timers::fields::TcpTimer;
use super::timestamps;
use super::visit::{self, TcbGuard};
use crate::batch::Batch;
use crate::error::SocketError;
use crate::faults::{StackFault, planted};
use crate::inet::Ends;

static WAITING: LockClass = LockClass::new("tcp time-wait", order::TASKQUEUE);

/// Connections in TIME-WAIT, oldest first; some may have ended meanwhile.
pub(crate) struct TimeWait {
    waiting: Mutex<VecDeque<Arc<Inpcb>>>,
}

impl TimeWait {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(&WAITING, VecDeque::new()),
        }
    }
}

/// Enters the state, or restarts its time.
#[cold]
pub(crate) fn enter(batch: &Batch<'_>, t: &mut Tcb) {
    // A second FIN in the same batch changes nothing.
    if t.conn.state != State::TimeWait {
        t.due |= Due::TIME_WAIT;
    }
    t.conn.state = State::TimeWait;
    t.timers.stop_all();
    let config = &batch.stack.tcp.config;
    t.timers.set(
        TcpTimer::Wait,
        (!planted(StackFault::LostTimeWaitTimer)).then(|| batch.now + 2 * config.msl),
    );
    t.notify();
}

/// Ends the TIME-WAIT of a connection whose peer opens a new one, and returns the data for the new one; `None` if the
/// connection is in another state by now, or if `syn` may be one of its own segments.
pub(crate) fn leave(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, syn: &Segment) -> Option<Predecessor> {
    let t = visit::begin(pcb);
    may_leave(&t, syn).then(|| end_early(batch, pcb, t))
}

/// How long a pair of ends stays unused in TIME-WAIT before this host opens a connection between them again: then the
/// timestamp of its SYN is newer than all that the peer has seen.
const REUSED_AFTER: Duration = Duration::from_secs(1);

/// Ends the TIME-WAIT between these ends, and returns the data for the new connection that this host opens, if there is
/// one that has had timestamps for a second: then the peer tells old segments from new ones (RFC 7323 5.3, RFC 6191 2).
#[doc(alias = "tcp_tw_reuse")]
#[cold]
pub(crate) fn reuse(batch: &mut Batch<'_>, ends: &Ends) -> Option<Predecessor> {
    let pcb = batch.stack.tcp.table.lookup(ends)?;
    let t = visit::begin(&pcb);
    let wait = 2 * batch.stack.tcp.config.msl;
    let until = t.timers.get(TcpTimer::Wait)?;
    let is_old = batch.now + wait >= until + REUSED_AFTER;
    let may_end = t.conn.state == State::TimeWait && t.conn.ts.recent().is_some() && is_old;
    may_end.then(|| end_early(batch, &pcb, t))
}

fn end_early(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, mut t: TcbGuard<'_>) -> Predecessor {
    let predecessor = Predecessor {
        snd_max: t.send.nxt,
        rcv_nxt: t.recv.nxt,
        ts: t.conn.ts,
        until: t.timers.get(TcpTimer::Wait).unwrap_or(batch.now),
    };
    t.close(None);
    visit::end_later(batch, pcb, t);
    // Before the turn, because the new connection needs its key.
    if batch.stack.tcp.remove(pcb) {
        batch.stack.tcp.counters.closed.inc();
    }
    predecessor
}

/// A SYN that can't be an old one may end TIME-WAIT early: a host that opens thousands of short connections comes back
/// to the same port within minutes. The SYN is new if its timestamp is newer, where both connections have timestamps
/// (RFC 6191 2), or else if its sequence number lies beyond the old connection's (RFC 1122 4.2.2.13).
///
/// RFC 6191 would accept any SYN with timestamps after a connection without them, because segments without timestamps
/// are then dropped. This stack accepts such segments, so it must not.
pub(crate) fn may_leave(t: &Tcb, syn: &Segment) -> bool {
    let beyond = syn.seq.after(t.recv.nxt);
    let newer = match (t.conn.ts.recent(), syn.options.ts) {
        (Some(recent), Some(ts)) if ts.value != recent => timestamps::is_older(recent, ts.value),
        _ => beyond,
    };
    t.conn.state == State::TimeWait && newer
}

/// The SYN was an old duplicate, or nothing completed its handshake: the connection returns to TIME-WAIT for the rest
/// of its time.
fn resume(t: &mut Tcb, old: &Predecessor) {
    if let Some(place) = t.conn.accept.take() {
        place.give_up();
    }
    (t.send.una, t.send.nxt) = (old.snd_max, old.snd_max);
    t.send.sent = SentMap::default();
    // Our FIN was the last thing that was sent.
    (t.send.buf_seq, t.send.fin_queued) = (old.snd_max - 1, true);
    (t.recv.nxt, t.recv.adv, t.recv.last_ack_sent) = (old.rcv_nxt, old.rcv_nxt, old.rcv_nxt);
    t.conn.ts = old.ts;
    t.timers.stop_all();
    t.timers.set(TcpTimer::Wait, old.until);
    t.send.retransmits = 0;
    t.recv.policy.dup_acks_owed = 0;
    t.due -= Due::ACK;
    t.conn.state = State::TimeWait;
    t.due |= Due::TIME_WAIT;
    t.conn.become_orphan();
    t.notify();
}

/// Ends a connection that is not established. If a listener opened it in the place of a connection in TIME-WAIT, that
/// connection comes back. (A connection that an interceptor accepted has an owner, which gets the error.)
#[cold]
pub(crate) fn end_half_open(t: &mut Tcb, error: Option<SocketError>) {
    if t.conn.state == State::SynReceived
        && t.conn.accept.is_some()
        && let Some(old) = t.conn.predecessor.take()
    {
        return resume(t, &old);
    }
    t.close(error);
}

/// Adds a connection; the oldest is closed if there are too many.
#[cold]
pub(crate) fn remember(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>) {
    let tcp = &batch.stack.tcp;
    let mut waiting = tcp.time_wait.waiting.lock();
    waiting.push_back(Arc::clone(pcb));
    let over = waiting.len() > tcp.config.time_wait_max;
    let oldest = if over { waiting.pop_front() } else { None };
    drop(waiting);
    if let Some(oldest) = oldest {
        let mut t = visit::begin(&oldest);
        if t.conn.state == State::TimeWait {
            t.close(None);
        }
        visit::end_later(batch, &oldest, t);
    }
}

/// Removes connections at the front whose time is over.
pub(crate) fn sweep(batch: &Batch<'_>) {
    let mut waiting = batch.stack.tcp.time_wait.waiting.lock();
    while let Some(front) = waiting.pop_front() {
        // A connection that is only here is in no table and on no wheel any more.
        if Arc::strong_count(&front) > 1 {
            waiting.push_front(front);
            return;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use kern::{Clock, Random, Time, VirtualClock};

    use super::*;
    use crate::{Config, Stack};

    /// Breaks if connections that are over keep their memory until the bound of connections in TIME-WAIT is reached.
    #[test]
    fn a_connection_that_is_over_is_let_go() {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let config = Config::new(Arc::clone(&clock) as Arc<dyn Clock>, Random::from_seed(7));
        let wait = 2 * config.tcp.msl;
        let stack = Stack::new(config).unwrap();
        let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 80);
        let listener = stack.tcp_listen(own, 8).unwrap();
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        for _ in 0..4 {
            let stream = stack.tcp_connect(any, own).unwrap();
            stack.poll();
            drop((stream, listener.accept().unwrap()));
            stack.poll();
            clock.advance(wait);
            stack.poll();
        }
        // The last one: the timer of a later one finds it.
        assert_eq!(stack.0.tcp.time_wait.waiting.lock().len(), 1);
    }
}
