//! The interface of a hand-off from transmitters to one task; and the line that it makes
//! with a taskqueue.
//!
//! Invariant: a caller must schedule the task if the result says so; a run that asks to go again is queued again.

use kern::{Task, Taskqueue};
use std::sync::{Arc, Weak};

/// A queue from several transmitters to one task.
pub(crate) trait Scheme<T>: Send + Sync + 'static {
    /// As it is typed and written.
    const NAME: &'static str;

    /// A queue that holds `size` items, or some more.
    fn new(size: usize) -> Self;

    /// Queues an item.
    fn send(&self, item: T) -> Sent<T>;

    /// The task's run: passes the waiting items to `input`. Returns whether the task must be queued again.
    fn run(&self, input: &mut dyn FnMut(T)) -> bool;
}

/// The outcome of a put.
#[must_use]
pub(crate) enum Sent<T> {
    /// Queued, and the task will find it.
    Queued,
    /// Queued, and the caller must schedule the task.
    Schedule,
    /// There was no room.
    Full(T),
}

/// A scheme with the task that it schedules.
pub(crate) struct Line<T, S> {
    scheme: Arc<S>,
    queue: Arc<Taskqueue>,
    task: Arc<Task>,
    _items: std::marker::PhantomData<fn(T)>,
}

impl<T: Send + 'static, S: Scheme<T>> Line<T, S> {
    /// A line whose task runs on `queue` and gives items to `input`, one thread at a time.
    pub(crate) fn new(
        size: usize,
        queue: &Arc<Taskqueue>,
        input: impl Fn(T) + Send + Sync + 'static,
    ) -> Self {
        let scheme = Arc::new(S::new(size));
        let (runs, comes_back) = (Arc::clone(&scheme), Arc::downgrade(queue));
        let task = Arc::new_cyclic(|me: &Weak<Task>| {
            let me = Weak::clone(me);
            Task::new(move || {
                if runs.run(&mut |item| input(item))
                    && let (Some(queue), Some(me)) = (comes_back.upgrade(), me.upgrade())
                {
                    queue.enqueue(&me);
                }
            })
        });
        Self {
            scheme,
            queue: Arc::clone(queue),
            task,
            _items: std::marker::PhantomData,
        }
    }

    /// Sends an item; gives it back if there is no room.
    pub(crate) fn send(&self, item: T) -> Result<(), T> {
        match self.scheme.send(item) {
            Sent::Queued => Ok(()),
            Sent::Schedule => {
                self.queue.enqueue(&self.task);
                Ok(())
            }
            Sent::Full(item) => Err(item),
        }
    }
}
