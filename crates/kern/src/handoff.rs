//! A queue from many transmitters to one receiver, which wakes the receiver only when it must.
//!
//! # The protocol
//!
//! The queued items wait under a mutex, together with the state of their receiver:
//!
//! ```text
//!            put: wake                  take: all of it
//!    Idle ----------------> Scheduled ------------------> Running
//!      ^                        ^                            |  put: nothing to do
//!      |                        | open, with something       |  take, and something waits: all of it
//!      |                        | waiting                    |
//!      +------------------------+----------------------------+
//!                                            take, and nothing waits
//!    any ---leave---> Away ---open---> Idle       any ---close---> Closed
//! ```
//!
//! The claim: while the queue is not empty, the receiver was woken and has not taken since, or it will take
//! again. The argument:
//!
//! - The state and the queue change under one mutex, so a transmitter never acts on a state that is
//!   older than the queue that it adds to. In the two rings that this queue replaced, the index,
//!   the flags and the ring changed one by one; another thread could act between any two of these
//!   changes.
//! - A receiver becomes `Idle` only if it finds the queue empty under the mutex. A receiver that took items
//!   stays `Running`, and must take again ([`TakeOutcome::Items`]). Or it becomes `Idle` in the same critical section
//!   in which it takes ([`Handoff::take_and_rest`]): a put then wakes it while it handles what it took.
//! - Receivers change: an interface moves to another stack. Each has a number of its own, and a take
//!   by a former receiver is refused ([`TakeOutcome::Void`]). Otherwise a thread that is
//!   late in the old stack could take items that were sent to the new receiver. Before the new
//!   receiver has its waker, that thread could also leave the state `Running` and never take again:
//!   no later put would wake the new receiver.
//! - [`Handoff::open`] returns the items that waited, and [`Handoff::set_waker`] wakes the receiver at
//!   once if an item waits already.
//!
//! A put takes one lock, and makes no wakeup while the receiver is busy. A take takes one
//! lock for all items that wait, in O(1).
//!
//! Locks: the caller's class over queue and state. `tests/models/handoff.rs` runs the protocol, and mistakes
//! in it, in every order (loom) and in many random ones (shuttle). Source: seed 003.

use core::fmt;
use core::mem;
use core::task::Waker;

use crate::lock::LockClass;
use crate::prim::Mutex;

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

/// A queue with the state of its receiver.
pub struct Handoff<Q>(Mutex<QueueState<Q>>);

struct QueueState<Q> {
    waiting: Q,
    state: ReceiverState,
    /// Counts receivers; the present one's number.
    receiver: u64,
    waker: Option<Waker>,
    max: usize,
    stats: HandoffStats,
}

/// Where the receiver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiverState {
    /// There is no receiver. Operations: open. Caveats: the queue is empty and takes no items.
    Away,
    /// The receiver waits to be woken. Operations: put, which wakes it. Caveats: the queue is empty.
    Idle,
    /// The receiver was woken. Operations: put; take. Caveats: no second wakeup.
    Scheduled,
    /// The receiver took items, and must take again. Operations: put; take. Caveats: a put
    /// cannot know how far the receiver has come.
    Running,
    /// The queue takes no more items. Operations: take, of the items that are left. Caveats: this is for ever.
    Closed,
}

/// The result of a put.
#[must_use = "a receiver that is not woken sleeps for ever"]
#[derive(Debug)]
pub enum PutOutcome {
    /// The receiver is awake or polls, and will find the items. The caller has no further step.
    Queued,
    /// The receiver sleeps: wake it, with no lock held.
    QueuedAndWake(Waker),
    /// There was no room; all items are still with the caller.
    Full,
    /// There is no receiver now; all items are still with the caller.
    Away,
    /// The queue is closed for ever; all items are still with the caller.
    Closed,
}

/// Names one receiver; valid until another receiver opens the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver(u64);

/// The result of a take.
#[must_use = "a receiver that took something must come back"]
#[derive(Debug, PartialEq, Eq)]
pub enum TakeOutcome<Q> {
    /// All items that waited. The receiver must take again: until then no put wakes it, unless it
    /// took with [`Handoff::take_and_rest`].
    Items(Q),
    /// The queue is empty. The next put wakes the receiver.
    Nothing,
    /// The queue is closed and empty.
    Closed,
    /// The caller is not the receiver any more.
    Void,
}

/// A queue's figures since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandoffStats {
    /// Items that were queued.
    pub queued: u64,
    /// Items that were refused because the queue was full.
    pub full: u64,
    /// Items without a receiver: there was none at the put, or it left before it took them.
    pub away: u64,
    /// How often a transmitter had to wake the receiver.
    pub wakeups: u64,
    /// Takes that found items.
    pub taken: u64,
    /// The most items that ever waited.
    pub high_water: usize,
}

impl<Q: Items> Handoff<Q> {
    /// An empty queue of at most `max` items, without a receiver.
    pub fn new(class: &'static LockClass, max: usize) -> Self {
        let inner = QueueState {
            waiting: Q::default(),
            state: ReceiverState::Away,
            receiver: 0,
            waker: None,
            max,
            stats: HandoffStats::default(),
        };
        Self(Mutex::new(class, inner))
    }

    /// Queues as many of `items` as there is room for; the rest stays in `items`.
    pub fn put(&self, items: &mut Q) -> PutOutcome {
        let mut inner = self.0.lock();
        match inner.state {
            ReceiverState::Closed => return PutOutcome::Closed,
            ReceiverState::Away => {
                inner.stats.away += items.len() as u64;
                return PutOutcome::Away;
            }
            ReceiverState::Idle | ReceiverState::Scheduled | ReceiverState::Running => {}
        }
        let queued = inner.queue(items);
        if queued == 0 && !items.is_empty() {
            return PutOutcome::Full;
        }
        if queued == 0 || inner.state != ReceiverState::Idle {
            return PutOutcome::Queued;
        }
        inner.state = ReceiverState::Scheduled;
        inner.stats.wakeups += 1;
        // A receiver without a waker polls the queue.
        inner
            .waker
            .clone()
            .map_or(PutOutcome::Queued, PutOutcome::QueuedAndWake)
    }

    /// Makes the caller the only receiver, without a waker. Returns the items that the former
    /// receiver left.
    pub fn open(&self) -> (Receiver, Q) {
        let mut inner = self.0.lock();
        inner.receiver += 1;
        let receiver = Receiver(inner.receiver);
        let left = inner.abandon(ReceiverState::Idle);
        let waker = inner.waker.take();
        drop(inner);
        drop(waker);
        (receiver, left)
    }

    /// Sets the waker of `receiver`, and wakes it at once if an item waits or the queue is closed.
    /// The waker stays until another replaces it.
    pub fn set_waker(&self, receiver: Receiver, waker: Waker) {
        let mut inner = self.0.lock();
        if !inner.is(receiver) {
            drop(inner);
            return drop(waker);
        }
        let now = inner.state == ReceiverState::Closed || !inner.waiting.is_empty();
        if now && inner.state != ReceiverState::Closed {
            inner.state = ReceiverState::Scheduled;
        }
        let old = inner.waker.replace(waker.clone());
        drop(inner);
        drop(old);
        if now {
            waker.wake();
        }
    }

    /// Takes all items that wait, in O(1).
    #[doc(alias = "mbufq_flush")]
    pub fn take(&self, receiver: Receiver) -> TakeOutcome<Q> {
        self.0.lock().take(receiver)
    }

    /// As [`Handoff::take`], but leaves the receiver `Idle`: the next put wakes it, and it need not take again before
    /// that. A put may wake the receiver while it still handles the items.
    pub fn take_and_rest(&self, receiver: Receiver) -> TakeOutcome<Q> {
        let mut inner = self.0.lock();
        let taken = inner.take(receiver);
        if matches!(taken, TakeOutcome::Items(_)) && inner.state == ReceiverState::Running {
            inner.state = ReceiverState::Idle;
        }
        taken
    }

    /// The receiver leaves without a successor. Returns the items that waited; puts fail until the queue is opened
    /// again. Changes nothing if `receiver` is not the present one.
    pub fn leave(&self, receiver: Receiver) -> Q {
        let mut inner = self.0.lock();
        if !inner.is(receiver) {
            return Q::default();
        }
        inner.receiver += 1;
        let left = inner.abandon(ReceiverState::Away);
        let waker = inner.waker.take();
        drop(inner);
        drop(waker);
        left
    }

    /// The transmitters leave for ever. Queued items may still be taken; the receiver is woken to take them.
    pub fn close(&self) {
        let mut inner = self.0.lock();
        inner.state = ReceiverState::Closed;
        // A closed queue takes no items, so no put will need the waker again.
        let waker = inner.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Items that wait.
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// The figures so far.
    pub fn stats(&self) -> HandoffStats {
        self.0.lock().stats
    }

    /// Whether queue and state agree: if an item waits, a put woke the receiver.
    pub fn is_valid(&self) -> bool {
        let inner = self.0.lock();
        let some_wait = !inner.waiting.is_empty();
        let nobody_told = matches!(inner.state, ReceiverState::Idle | ReceiverState::Away);
        !(some_wait && nobody_told) && inner.waiting.len() <= inner.max
    }
}

impl<Q: Items> QueueState<Q> {
    fn is(&self, receiver: Receiver) -> bool {
        self.receiver == receiver.0
    }

    fn take(&mut self, receiver: Receiver) -> TakeOutcome<Q> {
        if !self.is(receiver) {
            return TakeOutcome::Void;
        }
        if self.waiting.is_empty() {
            return self.rest();
        }
        if self.state != ReceiverState::Closed {
            self.state = ReceiverState::Running;
        }
        self.stats.taken += 1;
        TakeOutcome::Items(mem::take(&mut self.waiting))
    }

    /// Queues as many of `items` as there is room for; returns their number.
    fn queue(&mut self, items: &mut Q) -> usize {
        let room = self.max.saturating_sub(self.waiting.len());
        let queued = room.min(items.len());
        self.waiting.take_from(items, queued);
        self.stats.queued += queued as u64;
        self.stats.full += items.len() as u64;
        self.stats.high_water = self.stats.high_water.max(self.waiting.len());
        queued
    }

    /// The queue is empty: the receiver becomes `Idle`, unless the queue is closed.
    fn rest(&mut self) -> TakeOutcome<Q> {
        if self.state == ReceiverState::Closed {
            return TakeOutcome::Closed;
        }
        self.state = ReceiverState::Idle;
        TakeOutcome::Nothing
    }

    /// The items that waited for a receiver that has left.
    fn abandon(&mut self, state: ReceiverState) -> Q {
        if self.state != ReceiverState::Closed {
            self.state = state;
        }
        self.stats.away += self.waiting.len() as u64;
        mem::take(&mut self.waiting)
    }
}

impl<Q: Items> fmt::Debug for Handoff<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.0.lock();
        f.debug_struct("Handoff")
            .field("waiting", &inner.waiting.len())
            .field("state", &inner.state)
            .field("stats", &inner.stats)
            .finish()
    }
}

#[cfg(test)]
mod tests;
