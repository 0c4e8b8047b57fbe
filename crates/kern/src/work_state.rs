//! The states of work that one thread hands to another, and their transitions: one function for every such hand-over.
//!
//! [`WorkQueue`](crate::WorkQueue) applies it under its mutex, a [`Task`](crate::Task) and an interface's queue by
//! compare-exchange. The *receiver* is the thread or CPU that must be woken for the work; the *owner* is the one thread
//! that handles it now.
//!
//! | state | put | put by a handler | acquire | begin | next | end |
//! |---|---|---|---|---|---|---|
//! | Idle | Scheduled: wake | More: own | Running: own | refused | - | - |
//! | Scheduled | - | - | refused | Running: own | Running: own | - |
//! | Running | More | More | refused | refused | Idle | Idle |
//! | More | - | - | refused | refused | Running: own | Scheduled: wake |
//! | Away | refused | refused | refused | refused | - | - |
//! | Closed | refused | refused | refused | own | own | - |
//!
//! A dash: the state stays, and no step follows. Receivers come and go: `open` leads to Idle and `leave` to Away,
//! unless the state is Closed, which is final. `close` leads to Closed from any state, and wakes the receiver for the
//! work that is left. A new waker turns More into Scheduled, and is called if work waits.
//!
//! The claims are below. `tests.rs` checks them in every reachable combination of state, items, wakeups and owners, and
//! a change of any row of the table breaks one of them.
//!
//! - Work waits in Scheduled and More only, or in Closed.
//! - While work waits, the receiver was woken and has not begun since, or an owner will ask again.
//! - There is one owner at a time, in Running and More only; Idle says that all work was handled.
//!
//! Locks: none. Source: seed 003 (the wakeup state machine of epair), netisr(9).

use core::fmt;

use crate::prim::{AtomicU8, Ordering};

/// Where the work and its owner are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkState {
    /// No work waits, and no thread handles any. Operations: put; acquire. Caveats: none.
    Idle,
    /// Work waits, and the receiver was woken. Operations: put; begin. Caveats: no second wakeup.
    Scheduled,
    /// A thread handles work, and will ask again. Operations: put; next and end, by the owner. Caveats: how far it has
    /// come is not known.
    Running,
    /// The same, and work waits that the owner may not have seen. Operations: put; next and end, by the owner. Caveats:
    /// no wakeup but the owner's.
    More,
    /// There is no receiver. Operations: open. Caveats: no work waits, and none is taken in.
    Away,
    /// No work is taken in any more. Operations: begin and next, for the work that is left. Caveats: this is for ever.
    Closed,
}

/// A change of the work, or of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEvent {
    /// Work is added, for the receiver to handle.
    Put,
    /// Work is added by a thread that handles it itself, if no other thread does.
    PutByHandler,
    /// A thread wants to handle work that was not added.
    Acquire,
    /// The receiver, which was woken, wants to handle the work.
    Begin,
    /// The owner has handled the work that it took, or a receiver looks for some.
    Next,
    /// The owner handles no more.
    End,
    /// The receiver has another waker.
    NewWaker,
    /// A receiver comes, in the place of the former one.
    Open,
    /// The receiver goes, without a successor.
    Leave,
    /// No more work will be added.
    Close,
}

/// The step that the caller must take.
#[must_use = "a receiver that is not woken sleeps for ever"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkAction {
    /// None.
    Nothing,
    /// Wake the receiver.
    Wake,
    /// Handle the work that waits: the caller owns it.
    Own,
    /// None: the event was refused.
    Refused,
}

impl WorkState {
    /// The state after an event, and the caller's step.
    pub(crate) const fn on(self, event: WorkEvent) -> (Self, WorkAction) {
        use WorkAction::{Nothing, Own, Refused, Wake};
        use WorkState::{Away, Closed, Idle, More, Running, Scheduled};
        match (event, self) {
            (WorkEvent::Put, Idle) => (Scheduled, Wake),
            (WorkEvent::PutByHandler, Idle) => (More, Own),
            (WorkEvent::Put | WorkEvent::PutByHandler, Running) => (More, Nothing),
            (WorkEvent::Put | WorkEvent::PutByHandler, Scheduled | More) => (self, Nothing),
            (WorkEvent::Put | WorkEvent::PutByHandler, Away | Closed) => (self, Refused),
            (WorkEvent::Acquire, Idle) => (Running, Own),
            (WorkEvent::Begin, Scheduled) => (Running, Own),
            (WorkEvent::Next, Scheduled | More) => (Running, Own),
            (WorkEvent::Begin | WorkEvent::Next, Closed) => (Closed, Own),
            (WorkEvent::Acquire | WorkEvent::Begin, _) => (self, Refused),
            (WorkEvent::Next | WorkEvent::End, Running) => (Idle, Nothing),
            (WorkEvent::End, More) => (Scheduled, Wake),
            (WorkEvent::NewWaker, Scheduled | More) => (Scheduled, Wake),
            (WorkEvent::NewWaker, Closed) | (WorkEvent::Close, _) => (Closed, Wake),
            (WorkEvent::Open | WorkEvent::Leave, Closed) => (Closed, Nothing),
            (WorkEvent::Open, _) => (Idle, Nothing),
            (WorkEvent::Leave, _) => (Away, Nothing),
            (WorkEvent::Next | WorkEvent::End | WorkEvent::NewWaker, _) => (self, Nothing),
        }
    }

    const fn from_u8(state: u8) -> Self {
        match state {
            0 => Self::Idle,
            1 => Self::Scheduled,
            2 => Self::Running,
            3 => Self::More,
            4 => Self::Away,
            _ => Self::Closed,
        }
    }
}

/// A state that threads share.
pub struct AtomicWorkState(AtomicU8);

impl AtomicWorkState {
    /// Shared from now on.
    #[must_use]
    pub fn new(state: WorkState) -> Self {
        Self(AtomicU8::new(state as u8))
    }

    /// The state now.
    #[must_use]
    pub fn load(&self, order: Ordering) -> WorkState {
        WorkState::from_u8(self.0.load(order))
    }

    /// For the holder of the lock under which the state changes. Release: a reader of Idle sees the effects of all work
    /// that was handled.
    pub(crate) fn store(&self, state: WorkState) {
        self.0.store(state as u8, Ordering::Release);
    }

    /// One transition without a lock; returns the state before, and the caller's step. The exchange is done even where
    /// the state stays the same, because it also publishes the caller's earlier writes: the step of a thread that puts
    /// work releases them, and the owner's next step acquires them, because both are in the chain of modifications of
    /// one atomic. With a plain load in its place an owner could run without seeing the work, and would not be told
    /// again.
    pub fn step(&self, event: WorkEvent) -> (WorkState, WorkAction) {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let before = WorkState::from_u8(now);
            let (then, action) = before.on(event);
            let exchange =
                self.0
                    .compare_exchange_weak(now, then as u8, Ordering::AcqRel, Ordering::Relaxed);
            match exchange {
                Ok(_) => return (before, action),
                Err(found) => now = found,
            }
        }
    }
}

impl fmt::Debug for AtomicWorkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(Ordering::Relaxed).fmt(f)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
