//! Threads that sleep until a socket is ready: blocking calls on top of those that do not block.
//!
//! A blocking call is a loop: try; if that would block, leave a waker under the lock that said so; sleep
//! until it is called; try again. The waker of a thread is a [`Parker`].
//!
//! # The protocol
//! `notified` is set by a wake and cleared by the sleeper only when it returns from its sleep, both under
//! the parker's lock. A wake that comes before the sleep finds nobody asleep and leaves the mark; the
//! sleeper looks at the mark before it sleeps. A wake that is left over from an earlier call costs one
//! more try. It is not [`std::thread::park`]: that has one token a thread, which a program may use for
//! purposes of its own. `unix/schedules.rs` tries its interleavings.
//!
//! Timeouts are measured on the machine's clock, whatever the stack's clock is: a thread really sleeps.
//!
//! Called by: sockets. Calls: nothing. Locks: `state` (PARKER), with none held.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use kern::prim::{Condvar, Mutex};
use kern::{LockClass, order, witness};

static PARKER: LockClass = LockClass::new("parker", order::PARKER);

/// Whether a call may sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It may not.
    No,
    /// It may, for this long; without a limit, for ever.
    Yes(Option<Duration>),
}

/// Runs `attempt` until it is ready, sleeping in between if `wait` allows. `attempt` leaves the waker
/// that it is given when it is not ready. `None` if it is not ready and may not sleep, or no longer.
pub(crate) fn retry<T>(
    wait: Wait,
    mut attempt: impl FnMut(Option<&Waker>) -> Poll<T>,
) -> Option<T> {
    match wait {
        Wait::No => match attempt(None) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        },
        Wait::Yes(timeout) => with_parker(|parker| parker.block_on(timeout, attempt)),
    }
}

/// Calls `f` with the thread's parker.
#[cfg(not(any(loom, shuttle)))]
fn with_parker<R>(f: impl FnOnce(&Parker) -> R) -> R {
    std::thread_local! {
        static MINE: Parker = Parker::new();
    }
    // A thread that ends has none any more when its last destructors block.
    let parker = MINE
        .try_with(Parker::clone)
        .unwrap_or_else(|_| Parker::new());
    f(&parker)
}

/// A model's threads share the thread of the system that runs them.
#[cfg(any(loom, shuttle))]
fn with_parker<R>(f: impl FnOnce(&Parker) -> R) -> R {
    f(&Parker::new())
}

/// A place for one thread to sleep in.
#[derive(Debug, Clone)]
pub(crate) struct Parker {
    signal: Arc<Signal>,
    waker: Waker,
}

#[derive(Debug)]
struct Signal {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Debug, Default)]
struct State {
    notified: bool,
    /// Nobody is told who does not sleep: that would be a system call.
    asleep: bool,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.notified = true;
        let asleep = state.asleep;
        drop(state);
        if asleep {
            self.woken.notify_one();
        }
    }
}

impl Parker {
    pub(crate) fn new() -> Self {
        let signal = Arc::new(Signal {
            state: Mutex::new(&PARKER, State::default()),
            woken: Condvar::new(),
        });
        let waker = Waker::from(Arc::clone(&signal));
        Self { signal, waker }
    }

    /// Runs `attempt` until it is ready, or the time is over; then once more.
    pub(crate) fn block_on<T>(
        &self,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(Option<&Waker>) -> Poll<T>,
    ) -> Option<T> {
        // The clock is read only if there is a wait. A time beyond the clock's end is for ever.
        let mut deadline = None;
        let mut expired = false;
        loop {
            if let Poll::Ready(result) = attempt(Some(&self.waker)) {
                return Some(result);
            }
            if expired {
                return None;
            }
            if let (None, Some(timeout)) = (deadline, timeout) {
                deadline = Instant::now().checked_add(timeout);
            }
            expired = !self.sleep(deadline);
        }
    }

    /// Sleeps until somebody wakes; false if `deadline` came first.
    fn sleep(&self, deadline: Option<Instant>) -> bool {
        witness::assert_none("a blocking call");
        let mut state = self.signal.state.lock();
        while !state.notified {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            state.asleep = true;
            state = self.signal.woken.wait(state, left);
            state.asleep = false;
        }
        std::mem::take(&mut state.notified)
    }
}
