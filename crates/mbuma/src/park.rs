//! How a blocking call sleeps: retry, leave a waker, sleep until it is called, retry.
//!
//! `attempt` leaves the thread's waker under the lock that said "not ready". The waker of a thread is its [`Parker`].
//!
//! # Protocol
//!
//! One word says whether the thread is awake, asleep or notified.
//!
//! ```text
//!   sleeping thread                                waking thread
//!   ---------------                                -------------
//!   polls for NOTIFIED for a while (AdaptiveSpin)  exchange: state = NOTIFIED + CPU
//!   locks the mutex                                if the old state was ASLEEP:
//!   compare-exchange AWAKE -> ASLEEP                 locks and unlocks the mutex
//!   if that succeeds: waits on the condition         notifies the condition
//!     variable until the state is NOTIFIED
//!   exchange: state = AWAKE
//! ```
//!
//! | case | why no wakeup is lost |
//! |---|---|
//! | the waker's exchange is first | the sleeper's compare-exchange fails, so it does not sleep |
//! | the sleeper's is first | the waker reads ASLEEP. It must lock the mutex, which the sleeper holds until it waits, so the notification reaches it |
//! | the time is over, and a wakeup comes at that moment | the sleeper's exchange reads it; and the sleeper tries once more in any case |
//!
//! A thread that still polls is woken without a system call. A wakeup left over from an earlier call costs one more
//! retry. [`std::thread::park`] does not serve here: its token is one for each thread, programs use it too, and it does
//! not poll.
//!
//! Timeouts run on the machine's clock, not the stack's, because a real thread sleeps.
//!
//! Locks: the parker's mutex (PARKER), taken with no other lock held. Models: `models/socket.rs`, `models/unix.rs`.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use kern::prim::{AtomicUsize, Condvar, Mutex, Ordering};
use kern::{AdaptiveSpin, LockClass, order, witness};

use crate::faults::{StackFault, planted};

static PARKER: LockClass = LockClass::new("parker", order::PARKER);

/// Whether a call may block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It must not.
    No,
    /// It may, for this long; `None` is without limit.
    Yes(Option<Duration>),
}

/// Calls `attempt` until it is ready, and sleeps in between if `wait` allows that. An attempt that is not ready must
/// register the waker that it gets, so that the event calls it. Returns `None` on a timeout, or if it is not ready and
/// must not block.
pub(crate) fn retry<T>(
    wait: Wait,
    mut attempt: impl FnMut(Option<&Waker>) -> Poll<T>,
) -> Option<T> {
    match wait {
        Wait::No => match attempt(None) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        },
        Wait::Yes(timeout) => retry_within(|| timeout, attempt),
    }
}

/// The same with a timeout, which `timeout` computes only if the call must wait.
pub(crate) fn retry_within<T>(
    timeout: impl FnOnce() -> Option<Duration>,
    attempt: impl FnMut(Option<&Waker>) -> Poll<T>,
) -> Option<T> {
    with_parker(|parker| parker.block_on(timeout, attempt))
}

/// Calls `f` with the thread's parker.
#[cfg(not(any(loom, shuttle)))]
fn with_parker<R>(f: impl FnOnce(&Parker) -> R) -> R {
    std::thread_local! {
        static MINE: Parker = Parker::new();
    }
    let mut f = Some(f);
    let mut call = |parker: &Parker| f.take().map(|f| f(parker));
    let done = MINE.try_with(&mut call).ok().flatten();
    // A thread whose thread-locals are destroyed has no parker; its last destructors may still block.
    done.or_else(|| call(&Parker::new()))
        .expect("one of the two calls")
}

/// The threads of a model run on one thread of the system, so they must not share its parker.
#[cfg(any(loom, shuttle))]
fn with_parker<R>(f: impl FnOnce(&Parker) -> R) -> R {
    f(&Parker::new())
}

/// The object that one thread sleeps on.
#[derive(Debug)]
pub(crate) struct Parker {
    signal: Arc<Signal>,
    waker: Waker,
    spin: AdaptiveSpin,
}

/// The thread is awake and has no notification.
const AWAKE: usize = 0;
/// The thread sleeps and has no notification: waking it takes a system call.
const ASLEEP: usize = 1;
/// The thread was notified, from the CPU whose number is the state minus `NOTIFIED`.
const NOTIFIED: usize = 2;

#[derive(Debug)]
struct Signal {
    state: AtomicUsize,
    mutex: Mutex<()>,
    woken: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.notify() == ASLEEP {
            // The sleeper holds the mutex until it waits on the condition variable.
            drop(self.mutex.lock());
            self.woken.notify_one();
        }
    }
}

impl Signal {
    fn new() -> Self {
        Self {
            state: AtomicUsize::new(AWAKE),
            mutex: Mutex::new(&PARKER, ()),
            woken: Condvar::new(),
        }
    }

    /// Notes that this CPU woke the thread. Returns the state before.
    fn notify(&self) -> usize {
        let notified = NOTIFIED + kern::cpu::current();
        if planted(StackFault::NotifiesLate) {
            let before = self.state.load(Ordering::Relaxed);
            self.state.store(notified, Ordering::Release);
            return before;
        }
        // Release: the thread sees its waker's work before this.
        self.state.swap(notified, Ordering::Release)
    }

    fn is_notified(&self) -> bool {
        // Relaxed: `take` follows.
        self.state.load(Ordering::Relaxed) >= NOTIFIED
    }

    /// Changes AWAKE to ASLEEP; false if the thread was notified. The mutex must be held.
    fn set_asleep(&self) -> bool {
        if planted(StackFault::SleepsUnchecked) {
            self.state.store(ASLEEP, Ordering::Relaxed);
            return true;
        }
        let (sets, fetches) = (Ordering::Relaxed, Ordering::Relaxed);
        let changed = self.state.compare_exchange(AWAKE, ASLEEP, sets, fetches);
        changed.is_ok()
    }

    /// Sleeps until it is notified or `deadline` has passed.
    fn sleep(&self, deadline: Option<Instant>) {
        let mut held = self.mutex.lock();
        let sleeps = self.set_asleep();
        while sleeps && !self.is_notified() {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            held = self.woken.wait(held, left);
        }
    }

    /// Sets AWAKE. Returns the CPU that notified the thread, if any did.
    fn take(&self) -> Option<usize> {
        // Acquire: pairs with `notify`. An exchange, so that a second notification is not overwritten unseen.
        self.state
            .swap(AWAKE, Ordering::Acquire)
            .checked_sub(NOTIFIED)
    }
}

impl Parker {
    pub(crate) fn new() -> Self {
        let signal = Arc::new(Signal::new());
        let waker = Waker::from(Arc::clone(&signal));
        Self {
            signal,
            waker,
            spin: AdaptiveSpin::for_word(),
        }
    }

    /// Calls `attempt` until it is ready; after the timeout once more.
    pub(crate) fn block_on<T>(
        &self,
        timeout: impl FnOnce() -> Option<Duration>,
        mut attempt: impl FnMut(Option<&Waker>) -> Poll<T>,
    ) -> Option<T> {
        // The clock is read only if the thread must wait. A deadline that the clock can't express is none.
        let mut deadline = None;
        let mut timeout = Some(timeout);
        let mut expired = false;
        loop {
            if let Poll::Ready(result) = attempt(Some(&self.waker)) {
                return Some(result);
            }
            if expired {
                return None;
            }
            if let Some(timeout) = timeout.take() {
                deadline = timeout().and_then(|timeout| Instant::now().checked_add(timeout));
            }
            expired = !self.sleep(deadline);
        }
    }

    /// Polls, then sleeps, until it is notified; false if `deadline` passed first.
    fn sleep(&self, deadline: Option<Instant>) -> bool {
        witness::assert_none("a blocking call");
        let signal = &self.signal;
        if !self.spin.spin(deadline, || signal.is_notified()) {
            signal.sleep(deadline);
        }
        let by = signal.take();
        if let Some(cpu) = by {
            self.spin.woken_by(cpu);
        }
        by.is_some()
    }
}
