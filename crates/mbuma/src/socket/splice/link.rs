//! The link between the two sides of a splice: its turns.
//!
//! Locks: SPLICE, over a turn; inside of it one connection's (CONN) at a time.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use kern::prim::{AtomicBool, AtomicU64, Mutex, Ordering};
use kern::{LockClass, Time, order};

use super::side::{SpliceNews, SpliceSide, Taken};
use super::{SpliceEnd, SpliceError, SpliceOptions, SpliceOutcome};
use crate::batch::Batch;
use crate::faults::{StackFault, planted};
use crate::state::SHARED_TIMERS_CPU;
use crate::tcp::spliced::{IdleKey, SpliceTurn};
use crate::waiters::{WaiterSet, Wakes, Want};

mod places;
mod schedule;

static SPLICE: LockClass = LockClass::new("splice", order::SPLICE);

/// Runs `f` in `batch`, which must be one of the side's stack, or in a new batch.
fn enter(side: &dyn SpliceSide, batch: Option<&mut Batch<'_>>, f: impl FnOnce(&mut Batch<'_>)) {
    match batch {
        Some(batch) => f(batch),
        None => side.stack().enter(f),
    }
}

/// Two connections and the state of the splice between them.
pub(super) struct Link {
    from: Box<dyn SpliceSide>,
    to: Box<dyn SpliceSide>,
    options: SpliceOptions,
    /// In a relay: bytes that both directions have moved. Relaxed: a check that misses a move is repeated later.
    relayed: Option<Arc<AtomicU64>>,
    /// Both ends are in one stack: turns are part of its batches.
    one_stack: bool,
    /// A turn is scheduled. It clears this flag first, so it finds all earlier changes.
    queued: AtomicBool,
    state: Mutex<SpliceState>,
}

#[derive(Debug)]
struct SpliceState {
    /// Both places are taken. A turn that comes before does nothing: if it ended the splice, nothing would leave the
    /// place that is taken after it.
    begun: bool,
    moved: u64,
    /// The time of the last move; in a relay also of the last known move of the other direction.
    moved_at: Time,
    /// In a relay: the bytes of both directions at the last check.
    relayed: u64,
    /// Its entry in the list of splices with an idle time.
    watched: Option<IdleKey>,
    /// The idle time is over.
    expired: bool,
    /// The time until which it waits for buffers: its second entry in that list.
    retry: Option<IdleKey>,
    end: Option<SpliceEnd>,
    waiters: WaiterSet,
}

impl SpliceState {
    fn outcome(&self) -> Option<SpliceOutcome> {
        let bytes = self.moved;
        self.end.map(|end| SpliceOutcome { bytes, end })
    }
}

/// If there are no buffers, the next turn comes after this time.
const BUFS_WAIT: Duration = Duration::from_millis(10);

/// The steps after a turn, without the splice's lock.
#[derive(Default)]
struct AfterTurn {
    from: SpliceNews,
    to: SpliceNews,
    abort_to: bool,
    again: bool,
    /// It waits for buffers.
    retry: bool,
    /// The wakers of threads that wait for the end.
    wakes: Wakes,
}

impl Link {
    /// Makes a splice of two connections, and moves the data that has been received already.
    pub(super) fn start(
        from: Box<dyn SpliceSide>,
        to: Box<dyn SpliceSide>,
        options: SpliceOptions,
        relayed: Option<Arc<AtomicU64>>,
    ) -> Result<Arc<Self>, SpliceError> {
        let link = Arc::new(Self::new(from, to, options, relayed));
        link.attach()?;
        link.begin();
        Ok(link)
    }

    pub(super) fn moved(&self) -> u64 {
        self.state.lock().moved
    }

    pub(super) fn outcome(&self) -> Option<SpliceOutcome> {
        self.state.lock().outcome()
    }

    fn new(
        from: Box<dyn SpliceSide>,
        to: Box<dyn SpliceSide>,
        options: SpliceOptions,
        relayed: Option<Arc<AtomicU64>>,
    ) -> Self {
        let state = SpliceState {
            begun: false,
            moved: 0,
            relayed: 0,
            moved_at: to.stack().clock.now(),
            watched: None,
            expired: false,
            retry: None,
            end: None,
            waiters: WaiterSet::new(),
        };
        Self {
            one_stack: Arc::ptr_eq(from.stack(), to.stack()),
            from,
            to,
            options,
            relayed,
            queued: AtomicBool::new(false),
            state: Mutex::new(&SPLICE, state),
        }
    }

    /// The first turn, and the first check of the idle time.
    fn begin(self: &Arc<Self>) {
        self.to.stack().enter(|batch| {
            let mut state = self.state.lock();
            state.begun = true;
            if let Some(idle) = self.options.idle {
                self.watch(&mut state, batch.now + idle);
                batch.wake_for_timer(SHARED_TIMERS_CPU);
            }
            drop(state);
            Arc::clone(self).queue(batch);
        });
    }

    /// Schedules a check of its idle time, unless it has ended.
    fn watch(self: &Arc<Self>, p: &mut SpliceState, at: Time) {
        if p.end.is_none() {
            let link: Arc<dyn SpliceTurn> = Arc::clone(self) as _;
            let idle_splices = &self.to.stack().tcp.idle_splices;
            p.watched = Some(idle_splices.watch(at, Arc::downgrade(&link)));
        }
    }

    pub(super) fn poll(&self, waiter: Option<&Waker>) -> Poll<SpliceOutcome> {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome() {
            return Poll::Ready(outcome);
        }
        if let Some(waiter) = waiter {
            state.waiters.add(Want::Read, waiter);
        }
        Poll::Pending
    }

    pub(super) fn stop(&self) -> SpliceOutcome {
        let stop = |batch: Option<&mut Batch<'_>>| {
            let mut after = AfterTurn::default();
            let mut state = self.state.lock();
            self.end(&mut state, SpliceEnd::Stopped, &mut after);
            let outcome = state.outcome();
            drop(state);
            self.follow_up(batch, after);
            outcome
        };
        let outcome = match self.one_stack {
            true => self.to.stack().enter(|batch| stop(Some(batch))),
            false => stop(None),
        };
        outcome.expect("it has just ended")
    }

    /// One turn: in a batch, if both sides are in its stack, or without one.
    fn turn(self: &Arc<Self>, mut batch: Option<&mut Batch<'_>>) {
        if !planted(StackFault::ClearsMarkLate) {
            self.queued.store(false, Ordering::SeqCst);
        }
        let now = batch.as_ref().map(|batch| batch.now);
        let now = now.unwrap_or_else(|| self.to.stack().clock.now());
        let mut after = AfterTurn::default();
        let mut state = self.state.lock();
        if state.begun
            && state.end.is_none()
            && let Some(end) = self.advance(&mut state, now, &mut after)
        {
            self.end(&mut state, end, &mut after);
        }
        drop(state);
        if planted(StackFault::ClearsMarkLate) {
            self.queued.store(false, Ordering::SeqCst);
        }
        if after.again {
            enter(&*self.to, batch.as_deref_mut(), |batch| {
                Arc::clone(self).queue(batch);
            });
        }
        if after.retry {
            enter(&*self.to, batch.as_deref_mut(), |batch| {
                batch.wake_for_timer(SHARED_TIMERS_CPU);
            });
        }
        self.follow_up(batch, after);
    }

    /// Schedules another turn soon, when there may be buffers.
    fn wait_for_bufs(self: &Arc<Self>, p: &mut SpliceState, now: Time, after: &mut AfterTurn) {
        if p.retry.is_none() {
            let link: Arc<dyn SpliceTurn> = Arc::clone(self) as _;
            let timers = &self.to.stack().tcp.idle_splices;
            p.retry = Some(timers.watch(now + BUFS_WAIT, Arc::downgrade(&link)));
            after.retry = true;
        }
    }

    /// Moves data once. Returns the reason if the splice ends.
    fn advance(
        self: &Arc<Self>,
        p: &mut SpliceState,
        now: Time,
        after: &mut AfterTurn,
    ) -> Option<SpliceEnd> {
        if p.expired {
            return Some(SpliceEnd::Idle);
        }
        let left = self.options.max.map_or(u64::MAX, |max| max - p.moved);
        if left == 0 {
            return Some(SpliceEnd::Max);
        }
        let room = match self.to.room() {
            Ok(room) => room,
            Err(end) => return Some(end),
        };
        let (data, more) = match self.from.take(left, &room, &mut after.from) {
            Taken::Data { data, more } => (data, more),
            Taken::Nothing => return None,
            Taken::NoBufs => {
                self.wait_for_bufs(p, now, after);
                return None;
            }
            Taken::End(end) => {
                if end == SpliceEnd::Eof && self.options.pass_end {
                    self.to.say_end(&mut after.to);
                }
                return Some(end);
            }
        };
        let len = data.len() as u64;
        if let Err(end) = self.to.give(data, &mut after.to) {
            return Some(end);
        }
        (p.moved, p.moved_at) = (p.moved + len, now);
        if let Some(relayed) = &self.relayed {
            relayed.fetch_add(len, Ordering::Relaxed);
            p.relayed += len;
        }
        after.again = more;
        (len == left).then_some(SpliceEnd::Max)
    }

    /// Ends the splice: its connections report to their programs again.
    fn end(&self, p: &mut SpliceState, end: SpliceEnd, after: &mut AfterTurn) {
        if p.end.is_some() {
            return;
        }
        p.end = Some(end);
        for key in [p.watched.take(), p.retry.take()].into_iter().flatten() {
            self.to.stack().tcp.idle_splices.forget(key);
        }
        after.wakes = p.waiters.take(Want::Read);
        self.leave_places(after);
        if matches!(end, SpliceEnd::Source(_)) {
            after.abort_to = self.options.pass_end;
        }
        after.again = false;
    }

    /// Schedules turns for the connections that the splice's turn has changed, and wakes the threads that wait for the
    /// end.
    fn follow_up(&self, mut batch: Option<&mut Batch<'_>>, mut after: AfterTurn) {
        after.from.drop_bytes();
        after.to.drop_bytes();
        if !after.from.is_empty() {
            enter(&*self.from, batch.as_deref_mut(), |batch| {
                after.from.act(&*self.from, batch);
            });
        }
        if after.abort_to {
            enter(&*self.to, batch.as_deref_mut(), |batch| {
                self.to.abort(batch);
            });
        }
        if !after.to.is_empty() {
            enter(&*self.to, batch.as_deref_mut(), |batch| {
                after.to.act(&*self.to, batch);
            });
        }
        if !after.wakes.is_empty() {
            enter(&*self.to, batch, |batch| batch.wake(after.wakes));
        }
    }
}

kern::impl_debug!(Link |this| from: this.from, to: this.to);
