//! A visit of a connection: its lock is taken, something is changed, and the connection gets a turn to send.
//!
//! | end of a visit | the turn | for |
//! |---|---|---|
//! | [`end`] | now | a call of the user: nothing else comes in its batch |
//! | [`end_quiet`] | at the end of the batch, if it would do anything | segments |
//! | [`end_later`] | at the end of the batch | timers, errors, ends |
//!
//! A turn sends what may be sent, arms timers, wakes the user, remembers a TIME-WAIT, and takes a closed connection out
//! of the table. A segment that only wakes the user needs none. Several requests defer one turn: [`Due::QUEUED`] is set
//! meanwhile. The turn clears it under the lock, and therefore finds all earlier changes.
//!
//! Locks: the connection's (CONN), from [`begin`] to the end; wakeups and the table come after it.

use std::sync::Arc;

use std::ops::{Deref, DerefMut};

use kern::Giant;
use kern::guarded::GuardedLock;
use kern::prim::MutexGuard;

use super::due::Due;
use super::pcb::{Inpcb, State, Tcb};
use super::{histograms, output, time_wait};
use crate::batch::{Batch, Deferred};
use crate::waiters::{Wakes, Want};

/// The changes that wake the waiters of each side.
const SIDES: [(Due, Want); 2] = [
    (Due::WAKE_READER, Want::Read),
    (Due::WAKE_WRITER, Want::Write),
];

/// Locks a connection to change it. If the change needs no turn, dropping the guard ends the visit.
pub(crate) fn begin(pcb: &Inpcb) -> TcbGuard<'_> {
    let tcb = pcb.lock_inside();
    TcbGuard { pcb, tcb }
}

/// The same for a call from outside of the stack, which takes Giant too.
pub(crate) fn begin_outside<'a>(
    giant: &'a Giant,
    pcb: &'a Inpcb,
) -> TcbGuard<'a, GuardedLock<'a, Tcb>> {
    let tcb = pcb.lock(giant);
    TcbGuard { pcb, tcb }
}

/// A connection that is locked to be changed.
#[derive(Debug)]
pub(crate) struct TcbGuard<'a, G: Deref<Target = Tcb> = MutexGuard<'a, Tcb>> {
    pcb: &'a Inpcb,
    tcb: G,
}

impl<G: Deref<Target = Tcb>> Deref for TcbGuard<'_, G> {
    type Target = Tcb;

    #[inline]
    fn deref(&self) -> &Tcb {
        &self.tcb
    }
}

impl<G: DerefMut<Target = Tcb>> DerefMut for TcbGuard<'_, G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Tcb {
        &mut self.tcb
    }
}

impl<G: Deref<Target = Tcb>> Drop for TcbGuard<'_, G> {
    /// Publishes whether a read would return something, while the lock is still held.
    #[inline]
    fn drop(&mut self) {
        self.pcb.set_readable(self.tcb.is_readable());
    }
}

/// Gives the connection its turn, and unlocks it.
pub(crate) fn end(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, mut t: TcbGuard<'_>) {
    output::run(batch, pcb, &mut t);
    kern::invariant!(t.is_valid(), "{t:?}");
    let due = t.due;
    t.due -= Due::TIME_WAIT | Due::WAKE;
    if t.conn.is_watched(due) {
        tell(batch, &mut t, due);
    }
    if matches!(t.conn.state, State::Closed | State::TimeWait) {
        end_over(batch, pcb, t, due);
    }
}

/// Unlocks a connection that is over: remembers its TIME-WAIT, or takes it out of the table.
#[cold]
fn end_over(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, mut t: TcbGuard<'_>, due: Due) {
    let closed = t.conn.state == State::Closed;
    let values = match closed {
        true => histograms::values(&t, batch.now),
        false => None,
    };
    // No record is sealed or opened any more, so the keys are dropped before TIME-WAIT; without the lock, because their
    // drop may be an embedder's code.
    batch.stack.tcp.orphans.forget(&mut t);
    let is_unused = t.conn.orphan;
    let layers = t.conn.attached.take_if(|_| is_unused);
    drop(t);
    drop(layers);
    if due.contains(Due::TIME_WAIT) {
        time_wait::remember(batch, pcb);
    }
    if closed && batch.stack.tcp.remove(pcb) {
        batch.stack.tcp.counters.closed.inc();
        if let Some(values) = values {
            batch.stack.tcp.histograms.record(values);
        }
    }
}

/// Unlocks the connection, which gets a turn at the end of the batch if that would do more than wake the user.
#[inline]
pub(super) fn end_quiet(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, mut t: TcbGuard<'_>) {
    kern::invariant!(t.is_valid(), "{t:?}");
    if t.due.contains(Due::QUEUED) || output::is_due(&t) {
        return end_later(batch, pcb, t);
    }
    let due = t.due;
    t.due -= Due::WAKE;
    if t.conn.is_watched(due) {
        tell(batch, &mut t, due);
    }
}

/// Wakes all users of connections, listeners and interceptors, also those that wait for more data than there is, or for
/// the end of a splice; and gives the splices a turn.
pub(crate) fn wake_users(batch: &mut Batch<'_>) {
    let tcp = &batch.stack.tcp;
    for pcb in tcp.table.all() {
        let mut t = begin(&pcb);
        let wakes = t.conn.waiters.take_all();
        if let Some(splices) = t.conn.attached.as_deref() {
            splices.queue(batch, Due::WAKE);
        }
        drop(t);
        batch.wake(wakes);
    }
    tcp.listeners.wake_users(batch);
}

/// Wakes the program after changes, or the splice of a spliced direction.
fn tell(batch: &mut Batch<'_>, t: &mut Tcb, due: Due) {
    let splices = t.conn.attached.as_deref();
    let spliced = splices.map_or(Due::empty(), |splices| splices.queue(batch, due));
    let due = due.difference(spliced);
    let mut wakes = Wakes::default();
    for (side, want) in SIDES {
        if due.contains(side) && !(want == Want::Read && t.is_too_little(usize::MAX)) {
            t.conn.waiters.take_into(want, &mut wakes);
        }
    }
    batch.wake(wakes);
}

/// Unlocks the connection, which gets a turn at the end of the batch.
pub(crate) fn end_later(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>, mut t: TcbGuard<'_>) {
    let is_queued = t.due.contains(Due::QUEUED);
    t.due |= Due::QUEUED;
    drop(t);
    if !is_queued {
        batch.defer(Arc::clone(pcb) as _);
    }
}

/// The connection gets a turn at the end of the batch.
pub(crate) fn schedule(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>) {
    end_later(batch, pcb, begin(pcb));
}

impl Deferred for Inpcb {
    fn run(self: Arc<Self>, batch: &mut Batch<'_>) {
        let mut t = begin(&self);
        t.due -= Due::QUEUED;
        end(batch, &self, t);
    }
}
