//! Receivers of a queue, one after the other, each with a waker of its own.
//!
//! Invariant: a receiver's number is never used again, so what it does after its successor came has no effect. Locks:
//! the queue's; wakers are called and dropped without it.

use core::mem;
use core::task::Waker;

use super::{Items, Queued, WorkQueue};
use crate::prim::Ordering;
use crate::work_state::{WorkAction, WorkEvent, WorkState};

/// Names one receiver; valid until another receiver opens the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver(u64);

/// The result of a take.
#[must_use = "a receiver that took something must come back"]
#[derive(Debug, PartialEq, Eq)]
pub enum TakeOutcome<Q> {
    /// All items that waited. The receiver must take again: until then no put wakes it, unless it
    /// took with [`WorkQueue::take_and_release`].
    Items(Q),
    /// The queue is empty. The next put wakes the receiver.
    Nothing,
    /// The queue is closed and empty.
    Closed,
    /// The caller is not the receiver any more.
    Void,
}

impl<Q: Items> WorkQueue<Q> {
    /// Makes the caller the only receiver, without a waker. Returns the items that the former
    /// receiver left.
    pub fn open(&self) -> (Receiver, Q) {
        let mut queue = self.queue.lock();
        queue.receiver += 1;
        let receiver = Receiver(queue.receiver);
        let _ = self.step(WorkEvent::Open);
        let (left, waker) = queue.abandon();
        drop(queue);
        drop(waker);
        (receiver, left)
    }

    /// Sets the waker of `receiver`, and wakes it at once if an item waits or the queue is closed.
    /// The waker stays until another replaces it.
    pub fn set_waker(&self, receiver: Receiver, waker: Waker) {
        let mut queue = self.queue.lock();
        if queue.receiver != receiver.0 {
            drop(queue);
            return drop(waker);
        }
        let action = self.step(WorkEvent::NewWaker);
        let old = queue.waker.replace(waker.clone());
        drop(queue);
        drop(old);
        if action == WorkAction::Wake {
            waker.wake();
        }
    }

    /// Takes all items that wait, in O(1).
    #[doc(alias = "mbufq_flush")]
    pub fn take(&self, receiver: Receiver) -> TakeOutcome<Q> {
        let mut queue = self.queue.lock();
        self.take_locked(&mut queue, receiver)
    }

    /// As [`WorkQueue::take`], but leaves the queue `Idle`: the next put wakes the receiver, which need not take again
    /// before that. A put may wake it while it still handles the items.
    pub fn take_and_release(&self, receiver: Receiver) -> TakeOutcome<Q> {
        let mut queue = self.queue.lock();
        let taken = self.take_locked(&mut queue, receiver);
        if matches!(taken, TakeOutcome::Items(_)) {
            // Nothing was put since, so no receiver is to be woken.
            let _ = self.step(WorkEvent::End);
        }
        taken
    }

    fn take_locked(&self, queue: &mut Queued<Q>, receiver: Receiver) -> TakeOutcome<Q> {
        if queue.receiver != receiver.0 {
            return TakeOutcome::Void;
        }
        let owns = self.step(WorkEvent::Next) == WorkAction::Own;
        match self.state.load(Ordering::Relaxed) {
            _ if owns && !queue.items.is_empty() => {
                queue.stats.taken += 1;
                TakeOutcome::Items(mem::take(&mut queue.items))
            }
            WorkState::Closed => TakeOutcome::Closed,
            _ => TakeOutcome::Nothing,
        }
    }

    /// The receiver leaves without a successor. Returns the items that waited; puts fail until the queue is opened
    /// again. Changes nothing if `receiver` is not the present one.
    pub fn leave(&self, receiver: Receiver) -> Q {
        let mut queue = self.queue.lock();
        if queue.receiver != receiver.0 {
            return Q::default();
        }
        queue.receiver += 1;
        let _ = self.step(WorkEvent::Leave);
        let (left, waker) = queue.abandon();
        drop(queue);
        drop(waker);
        left
    }

    /// No more items will be put, for ever. Queued items may still be taken; the receiver is woken to take them.
    pub fn close(&self) {
        let mut queue = self.queue.lock();
        let _ = self.step(WorkEvent::Close);
        // A closed queue takes no items, so no put will need the waker again.
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<Q: Items> Queued<Q> {
    /// The items that waited for a receiver that has left, and its waker.
    fn abandon(&mut self) -> (Q, Option<Waker>) {
        self.stats.away += self.items.len() as u64;
        (mem::take(&mut self.items), self.waker.take())
    }
}
