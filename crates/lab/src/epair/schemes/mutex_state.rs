//! Ours: a row under a mutex with the task's state beside it ([`kern::work_queue`]), as seed 003 ends up.

use crate::epair::scheme::{Scheme, Sent};
use kern::work_queue::{Handler, Items, PutOutcome, Receiver, TakeOutcome, WorkQueue};
use kern::{LockClass, order};
use std::mem;
use std::task::Waker;

static CLASS: LockClass = LockClass::new("lab epair queue", order::IFQUEUE);

/// The product's queue, around rows of anything.
pub(crate) struct MutexState<T> {
    queue: WorkQueue<Things<T>>,
    receiver: Receiver,
}

/// Items in a row.
struct Things<T>(Vec<T>);

impl<T> Default for Things<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Items for Things<T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn take_from(&mut self, other: &mut Self, n: usize) {
        if self.0.is_empty() && n >= other.0.len() {
            return mem::swap(self, other);
        }
        let n = n.min(other.0.len());
        self.0.extend(other.0.drain(..n));
    }
}

impl<T: Send + 'static> Scheme<T> for MutexState<T> {
    const NAME: &'static str = "mbuma";

    fn new(size: usize) -> Self {
        let queue = WorkQueue::new(&CLASS, size);
        let (receiver, _) = queue.open();
        // The line schedules the task when the result says so; the queue says so because it has a waker.
        queue.set_waker(receiver, Waker::noop().clone());
        Self { queue, receiver }
    }

    fn send(&self, item: T) -> Sent<T> {
        let mut row = Things(vec![item]);
        match self.queue.put(&mut row, Handler::Receiver) {
            PutOutcome::Queued | PutOutcome::Owned => Sent::Queued,
            PutOutcome::Wake(_) => Sent::Schedule,
            PutOutcome::Full | PutOutcome::Away | PutOutcome::Closed => match row.0.pop() {
                Some(item) => Sent::Full(item),
                None => Sent::Queued,
            },
        }
    }

    fn run(&self, input: &mut dyn FnMut(T)) -> bool {
        match self.queue.take(self.receiver) {
            TakeOutcome::Items(row) => {
                row.0.into_iter().for_each(input);
                true
            }
            TakeOutcome::Nothing | TakeOutcome::Closed | TakeOutcome::Void => false,
        }
    }
}
