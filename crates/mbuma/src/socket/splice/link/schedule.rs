//! When a splice gets its turns: in a batch if both connections are in one stack, else after a batch.
//!
//! Locks: as of the link.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Wake, Waker};

use kern::prim::Ordering;

use super::Link;
use crate::batch::{Batch, Deferred};
use crate::tcp::spliced::{SplicePeer, SpliceTurn};
use crate::waiters::Wakes;

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
