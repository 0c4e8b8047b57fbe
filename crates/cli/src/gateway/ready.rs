//! The ready list: what has something to do, each thing once, in the order in which it became so.
//!
//! ```text
//!   epoll event --.                                   .-- take: clears the mark, then its turn
//!                  >-- Wake: sets its mark, and if ---|
//!   stack's waker -'   it was clear, joins the list   '-- ... a wake during the turn joins again
//! ```
//!
//! The mark is cleared before the turn: what happens during it is either seen by it or brings
//! another one, so no wakeup is lost and none is queued twice.
//!
//! Called by: the loop, the stack (through [`std::task::Waker`]). Calls: nothing.
//! Locks: `list` (class TASKQUEUE), never held over a call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use kern::{LockClass, Mutex, order};

use super::table::Token;

static LIST: LockClass = LockClass::new("gateway ready list", order::TASKQUEUE);

/// The list.
#[derive(Debug)]
pub(super) struct Ready {
    list: Arc<Mutex<VecDeque<Arc<Wake>>>>,
}

/// One thing's way onto the list.
#[derive(Debug)]
pub(super) struct Wake {
    token: Token,
    /// It is on the list. AcqRel on both sides: whoever finds it set knows that the turn which clears
    /// it comes later, and sees all that was done before.
    queued: AtomicBool,
    list: Arc<Mutex<VecDeque<Arc<Wake>>>>,
}

impl Ready {
    /// An empty list.
    pub(super) fn new() -> Ready {
        Ready {
            list: Arc::new(Mutex::new(&LIST, VecDeque::new())),
        }
    }

    /// The way onto the list for what `token` names.
    pub(super) fn wake_for(&self, token: Token) -> Arc<Wake> {
        Arc::new(Wake {
            token,
            queued: AtomicBool::new(false),
            list: Arc::clone(&self.list),
        })
    }

    /// Whether nothing waits for its turn.
    pub(super) fn is_empty(&self) -> bool {
        self.list.lock().is_empty()
    }

    /// Exchanges the whole list for `taken`, an empty one with room.
    pub(super) fn take_all(&self, taken: &mut VecDeque<Arc<Wake>>) {
        debug_assert!(taken.is_empty());
        std::mem::swap(&mut *self.list.lock(), taken);
    }
}

impl Wake {
    /// Gives a waker to hand to the stack.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Puts it onto the list, unless it is there.
    pub(super) fn wake(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.list.lock().push_back(Arc::clone(self));
        }
    }

    /// Its turn begins: what happens from now on needs another one.
    pub(super) fn begin(&self) -> Token {
        self.queued.swap(false, Ordering::AcqRel);
        self.token
    }
}

impl std::task::Wake for Wake {
    fn wake(self: Arc<Self>) {
        Wake::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Wake::wake(self);
    }
}

#[cfg(test)]
mod tests;
