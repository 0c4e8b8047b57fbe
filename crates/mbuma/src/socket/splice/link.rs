//! The link between the two sides of a splice: its turns.
//!
//! Locks: SPLICE, over a turn; inside of it one connection's (CONN) at a time.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use kern::prim::{AtomicBool, AtomicU64, Mutex, Ordering};
use kern::{LockClass, Time, order};

use super::side::{SpliceNews, SpliceRole, SpliceSide, Taken};
use super::{SpliceEnd, SpliceError, SpliceOptions, SpliceOutcome};
use crate::batch::{Batch, Deferred};
use crate::state::SHARED_TIMERS_CPU;
use crate::tcp::spliced::{IdleKey, SplicePeer, SpliceTurn};
use crate::waiters::{WaiterSet, Wakes, Want};

static SPLICE: LockClass = LockClass::new("splice", order::SPLICE);

/// Connections at most through which a search for a loop follows splices.
const HOPS_MAX: usize = 64;

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

    /// Makes the connections its sides.
    fn attach(self: &Arc<Self>) -> Result<(), SpliceError> {
        let mut stacks = [self.from.stack(), self.to.stack()].into_iter();
        if !self.one_stack && stacks.any(|stack| stack.config.giant.is_over_all()) {
            return Err(SpliceError::Giant);
        }
        let giant = self.to.stack().enter_giant();
        let mut after = AfterTurn::default();
        let attached = self.take_places(&mut after);
        drop(giant);
        self.follow_up(None, after);
        attached
    }

    fn take_places(self: &Arc<Self>, after: &mut AfterTurn) -> Result<(), SpliceError> {
        let splice = || Arc::clone(self) as Arc<dyn SpliceTurn>;
        if !self.from.attach(SpliceRole::Source, splice()) {
            return Err(SpliceError::Busy);
        }
        if !self.to.attach(SpliceRole::Sink, splice()) {
            self.from.detach(SpliceRole::Source, &mut after.from);
            return Err(SpliceError::Busy);
        }
        // After both are attached: if two threads together close a loop, at least one of them sees it.
        if self.is_loop() {
            self.leave_places(after);
            return Err(SpliceError::Loop);
        }
        Ok(())
    }

    fn leave_places(&self, after: &mut AfterTurn) {
        self.from.detach(SpliceRole::Source, &mut after.from);
        self.to.detach(SpliceRole::Sink, &mut after.to);
    }

    /// Whether data that leaves by the sink comes back to the source, through connections inside of the process.
    fn is_loop(&self) -> bool {
        let mut next = self.to.peer();
        for _ in 0..HOPS_MAX {
            let Some(SplicePeer { id, splice }) = next else {
                return false;
            };
            if id == self.from.id() {
                return true;
            }
            let Some(splice) = splice else {
                return false;
            };
            next = splice.sink_peer();
        }
        true
    }

    /// The first turn, and the first check of the idle time.
    fn begin(self: &Arc<Self>) {
        self.to.stack().enter(|batch| {
            if let Some(idle) = self.options.idle {
                self.watch(&mut self.state.lock(), batch.now + idle);
                batch.kick(SHARED_TIMERS_CPU);
            }
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
        self.queued.store(false, Ordering::SeqCst);
        let now = batch.as_ref().map(|batch| batch.now);
        let now = now.unwrap_or_else(|| self.to.stack().clock.now());
        let mut after = AfterTurn::default();
        let mut state = self.state.lock();
        if state.end.is_none()
            && let Some(end) = self.advance(&mut state, now, &mut after)
        {
            self.end(&mut state, end, &mut after);
        }
        drop(state);
        if after.again {
            enter(&*self.to, batch.as_deref_mut(), |batch| {
                Arc::clone(self).queue(batch);
            });
        }
        if after.retry {
            enter(&*self.to, batch.as_deref_mut(), |batch| {
                batch.kick(SHARED_TIMERS_CPU);
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
        if matches!(end, SpliceEnd::Source(_) | SpliceEnd::SourceTls(_)) {
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

impl Deferred for Link {
    fn run(self: Arc<Self>, batch: &mut Batch<'_>) {
        self.turn(Some(batch));
    }
}

/// A turn between two stacks, at the end of a batch of one of them.
impl Wake for Link {
    fn wake(self: Arc<Self>) {
        turn_between_stacks(self);
    }
}

std::thread_local! {
    /// While this thread runs such a turn: the links whose turns follow it.
    static NEXT_TURNS: RefCell<Option<Vec<Arc<Link>>>> = const { RefCell::new(None) };
}

/// Runs the turn of a link between two stacks: now, or after the turn that this thread runs already. So a row of
/// splices, each of which makes the next one move, needs no nested calls.
fn turn_between_stacks(link: Arc<Link>) {
    /// A turn may panic: the thread's next turn begins with an empty list.
    struct Turning;
    impl Drop for Turning {
        fn drop(&mut self) {
            NEXT_TURNS.set(None);
        }
    }
    let waits = NEXT_TURNS.try_with(|next| match &mut *next.borrow_mut() {
        Some(next) => {
            next.push(Arc::clone(&link));
            true
        }
        none => {
            *none = Some(Vec::new());
            false
        }
    });
    match waits {
        Ok(true) => return,
        Ok(false) => {}
        // The thread is ending, and its list is gone already.
        Err(_) => return link.turn(None),
    }
    let _turning = Turning;
    let mut next = Some(link);
    while let Some(link) = next {
        link.turn(None);
        next = NEXT_TURNS.with_borrow_mut(|next| next.as_mut()?.pop());
    }
}

impl SpliceTurn for Link {
    fn queue(self: Arc<Self>, batch: &mut Batch<'_>) {
        if self.queued.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.one_stack {
            true => batch.defer(self),
            false => batch.wake(Wakes::one(Waker::from(self))),
        }
    }

    fn queue_outside(self: Arc<Self>) {
        match self.one_stack {
            true => {
                let stack = Arc::clone(self.to.stack());
                stack.enter(|batch| self.queue(batch));
            }
            false => turn_between_stacks(self),
        }
    }

    fn sink_peer(&self) -> Option<SplicePeer> {
        self.to.peer()
    }

    fn side_dropped(&self) {
        self.stop();
    }

    fn check_idle(self: Arc<Self>, batch: &mut Batch<'_>) {
        let mut state = self.state.lock();
        if state.retry.is_some_and(|(at, _)| at <= batch.now) {
            state.retry = None;
            drop(state);
            return self.queue(batch);
        }
        let Some(idle) = self.options.idle.filter(|_| state.end.is_none()) else {
            return;
        };
        if let Some(relayed) = &self.relayed {
            let relayed = relayed.load(Ordering::Relaxed);
            if state.relayed != relayed {
                (state.relayed, state.moved_at) = (relayed, batch.now);
            }
        }
        let at = state.moved_at + idle;
        if at > batch.now {
            return self.watch(&mut state, at);
        }
        (state.watched, state.expired) = (None, true);
        drop(state);
        self.queue(batch);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Link");
        out.field("from", &self.from).field("to", &self.to);
        out.finish()
    }
}
