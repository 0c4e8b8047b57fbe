//! Threads that sleep until a socket is ready: blocking calls on top of those that do not block.
//!
//! A blocking call is a loop: try; if that would block, leave a waker under the lock that said so; sleep
//! until it is called; try again. The waker of a thread is a [`Parker`].
//!
//! # The protocol
//! One word says whether the thread is awake, asleep, or was woken.
//!
//! ```text
//!   sleeper                                        whoever wakes it
//!   -------                                        ----------------
//!   looks a few times for NOTIFIED (Patience)      exchange by NOTIFIED; was it ASLEEP?
//!   under the bed's lock: AWAKE to ASLEEP;           yes: takes the bed's lock and gives it up,
//!     if that is so, sleeps until it is NOTIFIED          wakes
//!   exchange by AWAKE
//! ```
//!
//! Either the sleeper's change of the word comes first, and whoever wakes finds it asleep; or it fails, and the
//! sleeper does not sleep. A thread that still looks is woken without a system call. It holds the bed's lock from its
//! change until it listens, so who had to wait for that lock is heard. A wake that is left over from an earlier call
//! costs one more try. It is not [`std::thread::park`]: that has one token a thread, which a program may use for
//! purposes of its own, and does not look first. `schedules.rs` and `unix/schedules.rs` try its interleavings.
//!
//! Timeouts are measured on the machine's clock, whatever the stack's clock is: a thread really sleeps.
//!
//! Called by: sockets. Calls: [`kern::patience`]. Locks: `bed` (PARKER), with none held.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use kern::prim::{AtomicUsize, Condvar, Mutex, Ordering};
use kern::{LockClass, Patience, order, witness};

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
    let mut f = Some(f);
    let mut call = |parker: &Parker| f.take().map(|f| f(parker));
    let done = MINE.try_with(&mut call).ok().flatten();
    // A thread that ends has none any more when its last destructors block.
    done.or_else(|| call(&Parker::new()))
        .expect("one of the two calls")
}

/// A model's threads share the thread of the system that runs them.
#[cfg(any(loom, shuttle))]
fn with_parker<R>(f: impl FnOnce(&Parker) -> R) -> R {
    f(&Parker::new())
}

/// A place for one thread to sleep in.
#[derive(Debug)]
pub(crate) struct Parker {
    signal: Arc<Signal>,
    waker: Waker,
    patience: Patience,
}

/// Nobody has woken the thread, which is awake.
const AWAKE: usize = 0;
/// The same, and it sleeps: to wake it takes a system call.
const ASLEEP: usize = 1;
/// Somebody woke it, on the CPU whose number is this less `NOTIFIED`.
const NOTIFIED: usize = 2;

#[derive(Debug)]
struct Signal {
    state: AtomicUsize,
    bed: Mutex<()>,
    woken: Condvar,
    #[cfg(all(test, shuttle))]
    mistake: Option<Mistake>,
}

/// What a model plants.
#[cfg(all(test, shuttle))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The sleeper lies down without looking whether it was woken since it looked last.
    HastySleeper,
    /// Whoever wakes looks whether it sleeps, and says so that it was woken afterwards.
    HastyWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.notify() == ASLEEP {
            // It has the lock until it listens.
            drop(self.bed.lock());
            self.woken.notify_one();
        }
    }
}

impl Signal {
    fn new() -> Self {
        Self {
            state: AtomicUsize::new(AWAKE),
            bed: Mutex::new(&PARKER, ()),
            woken: Condvar::new(),
            #[cfg(all(test, shuttle))]
            mistake: None,
        }
    }

    /// Says that the thread was woken, by this CPU, and what it did before.
    fn notify(&self) -> usize {
        let notified = NOTIFIED + kern::cpu::current();
        #[cfg(all(test, shuttle))]
        if self.mistake == Some(Mistake::HastyWaker) {
            let before = self.state.load(Ordering::Relaxed);
            self.state.store(notified, Ordering::Release);
            return before;
        }
        // Release: the thread sees what its waker did before.
        self.state.swap(notified, Ordering::Release)
    }

    fn is_notified(&self) -> bool {
        // Relaxed: `take` follows.
        self.state.load(Ordering::Relaxed) >= NOTIFIED
    }

    /// Says that the thread sleeps, unless it was woken. The bed's lock is held.
    fn lies_down(&self) -> bool {
        #[cfg(all(test, shuttle))]
        if self.mistake == Some(Mistake::HastySleeper) {
            self.state.store(ASLEEP, Ordering::Relaxed);
            return true;
        }
        let (sets, fetches) = (Ordering::Relaxed, Ordering::Relaxed);
        let changed = self.state.compare_exchange(AWAKE, ASLEEP, sets, fetches);
        changed.is_ok()
    }

    /// Sleeps until somebody wakes, or `deadline` comes.
    fn sleep(&self, deadline: Option<Instant>) {
        let mut bed = self.bed.lock();
        let lies_down = self.lies_down();
        while lies_down && !self.is_notified() {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            bed = self.woken.wait(bed, left);
        }
    }

    /// The CPU of whoever woke the thread, if anybody did; it is awake.
    fn take(&self) -> Option<usize> {
        // Acquire: see `notify`. An exchange, so that of two who wake the later one is seen as well.
        self.state
            .swap(AWAKE, Ordering::Acquire)
            .checked_sub(NOTIFIED)
    }
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self::with(Signal::new())
    }

    /// One with a mistake.
    #[cfg(all(test, shuttle))]
    pub(crate) fn planted(mistake: Mistake) -> Self {
        let mut signal = Signal::new();
        signal.mistake = Some(mistake);
        Self::with(signal)
    }

    fn with(signal: Signal) -> Self {
        let signal = Arc::new(signal);
        let waker = Waker::from(Arc::clone(&signal));
        Self {
            signal,
            waker,
            patience: Patience::for_a_word(),
        }
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
        let signal = &self.signal;
        if !self.patience.spin(deadline, || signal.is_notified()) {
            signal.sleep(deadline);
        }
        let by = signal.take();
        if let Some(cpu) = by {
            self.patience.woken_by(cpu);
        }
        by.is_some()
    }
}
