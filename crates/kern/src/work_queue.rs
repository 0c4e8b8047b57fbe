//! A queue that many threads put items into and one thread at a time handles, which is woken only when it must be.
//!
//! # The protocol
//!
//! The queued items are under a mutex, together with the state of the thread that handles them. The states and their
//! transitions are those of `work_state.rs`. Two kinds of queue are made of it:
//!
//! | queue | handled by | calls |
//! |---|---|---|
//! | with [receivers](WorkQueue::open) that come and go | the receiver, whose waker a put calls | [`take`](WorkQueue::take), [`take_and_release`](WorkQueue::take_and_release) |
//! | for a [fixed receiver](WorkQueue::fixed) | the receiver, which the caller of put wakes; or a thread that found the queue idle | [`acquire`](WorkQueue::acquire), [`begin`](WorkQueue::begin), [`next`](WorkQueue::next), [`end`](WorkQueue::end) |
//!
//! Four claims:
//!
//! - **No item is forgotten.** While the queue is not empty, the receiver was woken and has not taken since, or an
//!   owner will ask again. The state and the queue change under one mutex, so a thread that puts items never acts on a
//!   state that is older than the queue. In the two rings that this queue replaced, index, flags and ring changed one
//!   by one; another thread could act between any two of these changes.
//! - **One owner at a time.** No other thread takes items until the owner releases the queue.
//! - **No item overtakes another.** The state becomes Idle after the last item taken was handled ([`WorkQueue::next`],
//!   [`WorkQueue::end`]). So a thread that reads [idle](WorkQueue::is_idle) may handle an item at once: all items put
//!   before are handled. "Before" means that the put had returned before the read began.
//! - **A former receiver takes nothing.** Each receiver has a number, and a take by a former one is refused
//!   ([`TakeOutcome::Void`]). Otherwise a thread that is late in the stack that an interface has left could take items
//!   for the new receiver, or leave the state `Running` and never ask again.
//!
//! A put takes one lock, and makes no wakeup while there is an owner. A take takes one lock for all items that wait, in
//! O(1).
//!
//! Locks: the caller's class over queue and state; `busy` and the state are read without it.
//! `tests/models/work_queue.rs` runs the protocol, and mistakes in it, in every order (loom) and in many random ones
//! (shuttle). Source: seed 003, netisr(9).

use core::fmt;
use core::mem;
use core::task::Waker;
use std::sync::Arc;

use crate::lock::LockClass;
use crate::prim::{AtomicUsize, Mutex, Ordering};
use crate::work_state::{AtomicWorkState, WorkAction, WorkEvent, WorkState};

pub use receiver::{Receiver, TakeOutcome};

mod receiver;

/// A list of items that another list can join.
pub trait Items: Default {
    /// Items in the list.
    fn len(&self) -> usize;

    /// Whether the list is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves the first `n` items of `other`, or all if there are fewer, to the end of this list;
    /// all of them in O(1).
    fn take_from(&mut self, other: &mut Self, n: usize);
}

/// A queue with the state of the thread that handles its items (seed 003, netisr(9)).
pub struct WorkQueue<Q> {
    /// Written under the lock of `queue`.
    state: AtomicWorkState,
    /// The number of queues that are not idle, among those that share this count. Written under the lock of `queue`.
    busy: Option<Arc<AtomicUsize>>,
    queue: Mutex<Queued<Q>>,
}

struct Queued<Q> {
    items: Q,
    /// Items that the owner took and may put back: there must be room for them.
    in_hand: usize,
    max: usize,
    /// Counts receivers; the present one's number.
    receiver: u64,
    waker: Option<Waker>,
    stats: WorkQueueStats,
}

/// Which thread handles the items that are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// The receiver.
    Receiver,
    /// The caller, if no other thread does now.
    Caller,
}

/// The result of a put (seed 003).
#[must_use = "a receiver that is not woken sleeps for ever"]
#[derive(Debug)]
pub enum PutOutcome {
    /// A thread will find the items. The caller has no further step.
    Queued,
    /// The receiver does not know of them: wake it, with no lock held. A receiver without a waker polls, or the caller
    /// knows it.
    Wake(Option<Waker>),
    /// The caller owns the queue now, and must handle the items: [`WorkQueue::next`].
    Owned,
    /// There was no room; all items are still with the caller.
    Full,
    /// There is no receiver now; all items are still with the caller.
    Away,
    /// The queue is closed for ever; all items are still with the caller.
    Closed,
}

/// The state of the queue that an owner leaves.
#[must_use = "the receiver must be told of items that wait"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// None.
    Nothing,
    /// Items wait: wake the receiver.
    Some,
}

/// A queue's figures since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkQueueStats {
    /// Items that were queued.
    pub queued: u64,
    /// Items that were refused because the queue was full.
    pub full: u64,
    /// Items without a receiver: there was none at the put, or it left before it took them.
    pub away: u64,
    /// How often a put had to wake the receiver.
    pub wakeups: u64,
    /// Takes of a receiver that found items.
    pub taken: u64,
    /// Items that owners said they have handled.
    pub handled: u64,
    /// The most items that ever waited.
    pub high_water: usize,
}

impl<Q: Items> WorkQueue<Q> {
    /// An empty queue of at most `max` items, without a receiver.
    pub fn new(class: &'static LockClass, max: usize) -> Self {
        Self::with(class, max, WorkState::Away, None)
    }

    /// An empty queue for a receiver that the caller of [`WorkQueue::put`] wakes. `max` bounds the items, including
    /// those that the owner has taken and not handled yet. `busy` counts the queues that share it and are not idle.
    pub fn fixed(class: &'static LockClass, max: usize, busy: Arc<AtomicUsize>) -> Self {
        Self::with(class, max, WorkState::Idle, Some(busy))
    }

    fn with(
        class: &'static LockClass,
        max: usize,
        state: WorkState,
        busy: Option<Arc<AtomicUsize>>,
    ) -> Self {
        let queued = Queued {
            items: Q::default(),
            in_hand: 0,
            max,
            receiver: 0,
            waker: None,
            stats: WorkQueueStats::default(),
        };
        Self {
            state: AtomicWorkState::new(state),
            busy,
            queue: Mutex::new(class, queued),
        }
    }

    /// Whether all items that were put before are handled. Acquire: the caller sees the effects.
    pub fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == WorkState::Idle
    }

    /// Whether the receiver must begin. Relaxed: a thread that must not miss this was woken, or has put the items
    /// itself.
    pub fn is_scheduled(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WorkState::Scheduled
    }

    /// Whether items wait that were put after the owner's last take. Only the owner calls this.
    pub fn has_more(&self) -> bool {
        self.state.load(Ordering::Acquire) == WorkState::More
    }

    /// Queues as many of `items` as there is room for; the rest stays in `items`.
    pub fn put(&self, items: &mut Q, by: Handler) -> PutOutcome {
        let mut queue = self.queue.lock();
        match self.state.load(Ordering::Relaxed) {
            WorkState::Closed => return PutOutcome::Closed,
            WorkState::Away => {
                queue.stats.away += items.len() as u64;
                return PutOutcome::Away;
            }
            _ => {}
        }
        let queued = queue.add(items);
        if queued == 0 && !items.is_empty() {
            return PutOutcome::Full;
        }
        if queued == 0 {
            return PutOutcome::Queued;
        }
        let event = match by {
            Handler::Receiver => WorkEvent::Put,
            Handler::Caller => WorkEvent::PutByHandler,
        };
        match self.step(event) {
            WorkAction::Nothing | WorkAction::Refused => PutOutcome::Queued,
            WorkAction::Own => PutOutcome::Owned,
            WorkAction::Wake => {
                queue.stats.wakeups += 1;
                PutOutcome::Wake(queue.waker.clone())
            }
        }
    }

    /// The caller becomes the owner of an idle queue, to handle items that are not queued. Says whether it is.
    pub fn acquire(&self) -> bool {
        let _queue = self.queue.lock();
        self.step(WorkEvent::Acquire) == WorkAction::Own
    }

    /// The caller becomes the owner of a scheduled queue, and takes all items that wait, in O(1).
    pub fn begin(&self) -> Option<Q> {
        let mut queue = self.queue.lock();
        (self.step(WorkEvent::Begin) == WorkAction::Own).then(|| queue.take_in_hand())
    }

    /// The owner has handled `handled` items, and takes those that wait now. `None`: there are none, and it owns the
    /// queue no more.
    pub fn next(&self, handled: u64) -> Option<Q> {
        let mut queue = self.queue.lock();
        queue.stats.handled += handled;
        if self.step(WorkEvent::Next) == WorkAction::Own {
            return Some(queue.take_in_hand());
        }
        queue.in_hand = 0;
        None
    }

    /// The owner has handled `handled` of the items that it took and puts the others back, before those that came
    /// meanwhile. It owns the queue no more.
    pub fn end(&self, handled: u64, others: Q) -> Left {
        let mut queue = self.queue.lock();
        queue.stats.handled += handled;
        queue.put_back(others);
        if !queue.items.is_empty() {
            // If no item came meanwhile, the items are the caller's own, and the owner needs no message.
            let _ = self.step(WorkEvent::Put);
        }
        match self.step(WorkEvent::End) {
            WorkAction::Wake => Left::Some,
            _ => Left::Nothing,
        }
    }

    /// Items that wait.
    pub fn waiting(&self) -> usize {
        self.queue.lock().items.len()
    }

    /// The figures so far.
    pub fn stats(&self) -> WorkQueueStats {
        self.queue.lock().stats
    }

    /// Whether queue and state agree: items wait only in states in which a thread will find them.
    pub fn is_valid(&self) -> bool {
        let queue = self.queue.lock();
        let some_wait = !queue.items.is_empty();
        let agree = match self.state.load(Ordering::Relaxed) {
            WorkState::Idle | WorkState::Running | WorkState::Away => !some_wait,
            WorkState::Scheduled | WorkState::More => some_wait,
            WorkState::Closed => true,
        };
        agree && queue.items.len() <= queue.max
    }

    /// A transition, with the lock held.
    fn step(&self, event: WorkEvent) -> WorkAction {
        let before = self.state.load(Ordering::Relaxed);
        let (after, action) = before.on(event);
        if after == before {
            return action;
        }
        if let (WorkState::Idle, Some(busy)) = (before, &self.busy) {
            busy.fetch_add(1, Ordering::AcqRel);
        }
        self.state.store(after);
        if let (WorkState::Idle, Some(busy)) = (after, &self.busy) {
            busy.fetch_sub(1, Ordering::AcqRel);
        }
        action
    }
}

impl<Q: Items> Queued<Q> {
    /// Queues as many of `items` as there is room for; returns their number.
    fn add(&mut self, items: &mut Q) -> usize {
        let room = self.max.saturating_sub(self.items.len() + self.in_hand);
        let queued = room.min(items.len());
        self.items.take_from(items, queued);
        self.stats.queued += queued as u64;
        self.stats.full += items.len() as u64;
        self.note_high_water();
        queued
    }

    /// Takes all items that wait, for an owner that may put some back.
    fn take_in_hand(&mut self) -> Q {
        self.in_hand = self.items.len();
        mem::take(&mut self.items)
    }

    /// The owner has nothing in hand any more: `others` are before those that came meanwhile.
    fn put_back(&mut self, mut others: Q) {
        self.in_hand = 0;
        if !others.is_empty() {
            others.take_from(&mut self.items, usize::MAX);
            self.items = others;
            self.note_high_water();
        }
    }

    fn note_high_water(&mut self) {
        self.stats.high_water = self.stats.high_water.max(self.items.len());
    }
}

impl<Q: Items> fmt::Debug for WorkQueue<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        f.debug_struct("WorkQueue")
            .field("waiting", &queue.items.len())
            .field("state", &self.state)
            .field("stats", &queue.stats)
            .finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
