//! Selects the thread that takes in the packets that arrive at an end of an epair.
//!
//! Invariants: a driver has a weak reference to its stack or bridge, and runs until no packet waits; a driver whose
//! interface is gone stops. Locks: none.

use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use kern::{Task, Taskqueue};

/// Which thread takes in the packets that arrive, and how.
#[derive(Debug, Clone)]
pub enum Input {
    /// The transmitting thread itself, at the end of its batch, when it holds no lock. No other thread is needed, and a
    /// run in virtual time is reproducible. The depth of calls is bounded: for an end that is receiving or
    /// transmitting, packets are only queued.
    Direct,
    /// A task on this queue, one batch a run, so that other tasks get their turns. Runs on whichever
    /// thread runs the queue, one at a time.
    Task(Arc<Taskqueue>),
    /// The embedding program calls [`Stack::poll_interface`](crate::Stack::poll_interface), or
    /// [`Bridge::poll`](crate::device::bridge::Bridge::poll), as long as that says that there is more,
    /// whenever a sender called this waker; on one thread. A sender may call it again while that thread works.
    Polled(Waker),
}

impl Input {
    /// Whether the receiving thread may wait for a sender's wakeup without another check.
    pub(super) fn rests(&self) -> bool {
        matches!(self, Self::Polled(_))
    }

    /// The waker that the other end calls. `run` takes in one batch, and returns whether to run again.
    pub(crate) fn into_waker(self, run: impl Fn() -> bool + Send + Sync + 'static) -> Waker {
        match self {
            Self::Direct => Arc::new(Direct(run)).into(),
            Self::Task(queue) => Arc::new(OnTask::new(queue, run)).into(),
            Self::Polled(waker) => waker,
        }
    }
}

struct Direct<F>(F);

impl<F: Fn() -> bool + Send + Sync> Wake for Direct<F> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        while (self.0)() {}
    }
}

struct OnTask {
    queue: Arc<Taskqueue>,
    task: Arc<Task>,
}

impl OnTask {
    fn new(queue: Arc<Taskqueue>, run: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let comes_back = Arc::downgrade(&queue);
        let task = Arc::new_cyclic(|me: &Weak<Task>| {
            let me = Weak::clone(me);
            Task::new(move || {
                if run()
                    && let (Some(queue), Some(me)) = (comes_back.upgrade(), me.upgrade())
                {
                    queue.enqueue(&me);
                }
            })
        });
        Self { queue, task }
    }
}

impl Wake for OnTask {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.enqueue(&self.task);
    }
}
