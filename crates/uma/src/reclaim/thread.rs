//! A thread that gives the memory back that zones have not needed lately.
//!
//! The thread sleeps most of the time: it wakes once in four intervals to measure the need of each
//! zone, once an interval while pages go back, and at once when the system reports that it is short
//! of memory. It keeps no zone: see `weak.rs`.
//!
//! Hooks (`fini`) run on it, and the memory of a zone whose last handle goes during a visit is
//! freed by it.
//!
//! Locks: `uma reclaimer`, for messages to and from the thread; never while it works.

use crate::hooks::Hooks;
use crate::reclaim::pressure::{Pressure, PressureSource};
use crate::reclaim::waker::PollWaker;
use crate::weak::WeakZone;
use crate::{Purged, RawZone, ReclaimSet};
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use kern::lock::LockClass;
use kern::prim::Mutex;
use kern::{Clock, MonotonicClock, Time, order};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

static SHARED_CLASS: LockClass = LockClass::new("uma reclaimer", order::STATS);

/// The interval that suits most programs: the memory of a spike is gone within a second.
pub const RECLAIM_INTERVAL: Duration = Duration::from_millis(50);

/// The shortest time between two drains because memory is short.
const DRAIN_PAUSE: Duration = Duration::from_secs(1);

/// A thread that gives free memory of zones back to the system: memory that was not needed lately,
/// in small pieces, and all free memory when the system runs short.
///
/// It ends when it is dropped. It keeps no zone.
///
/// ```
/// use core::alloc::Layout;
/// use uma::{RECLAIM_INTERVAL, RawZone, Reclaimer};
///
/// let reclaimer = Reclaimer::start(RECLAIM_INTERVAL)?;
/// let zone = RawZone::builder("cluster", Layout::from_size_align(2048, 2048).unwrap()).build()?;
/// reclaimer.watch(&zone);
/// println!("pressure is known from: {}", reclaimer.pressure_source());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reclaimer {
    shared: Arc<ThreadShared>,
    thread: Option<JoinHandle<()>>,
}

/// The figures of the thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReclaimStats {
    /// Times that it visited the zones.
    pub ticks: u64,
    /// Times that it gave all free memory back because memory was short.
    pub drains: u64,
    /// The pages that the system took.
    pub purged: Purged,
    /// The time all of that took.
    pub busy: Duration,
    /// The longest tick or drain.
    pub longest: Duration,
}

struct ThreadShared {
    wake: PollWaker,
    stop: AtomicBool,
    state: Mutex<ReclaimState>,
}

struct ReclaimState {
    /// Zones that the thread does not know yet.
    new: Vec<Arc<WeakZone>>,
    source: PressureSource,
    stats: ReclaimStats,
}

impl Reclaimer {
    /// Starts the thread, called `uma reclaim`. See [`RECLAIM_INTERVAL`].
    ///
    /// # Errors
    /// When the system has no thread or no descriptor left. A system that reports no memory
    /// pressure is not an error: see [`pressure_source`](Self::pressure_source).
    pub fn start(interval: Duration) -> io::Result<Self> {
        Self::start_with(interval, Pressure::open())
    }

    fn start_with(interval: Duration, pressure: Pressure) -> io::Result<Self> {
        let state = ReclaimState {
            new: Vec::new(),
            source: pressure.source(),
            stats: ReclaimStats::default(),
        };
        let shared = Arc::new(ThreadShared {
            wake: PollWaker::new()?,
            stop: AtomicBool::new(false),
            state: Mutex::new(&SHARED_CLASS, state),
        });
        let worker = ReclaimThread {
            shared: shared.clone(),
            set: ReclaimSet::new(interval),
            pressure,
            clock: MonotonicClock::new(),
            next_drain: Time::ZERO,
        };
        let thread = thread::Builder::new()
            .name("uma reclaim".to_owned())
            .spawn(move || worker.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Watches a zone until its last handle is dropped. A second call for a zone has no effect.
    pub fn watch<H: Hooks>(&self, zone: &RawZone<H>) {
        let weak = zone.inner().weak.clone();
        self.shared.state.lock().new.push(weak);
        self.shared.wake.wake();
    }

    /// The source by which it notices that the system is short of memory.
    #[must_use]
    pub fn pressure_source(&self) -> PressureSource {
        self.shared.state.lock().source
    }

    /// The figures so far.
    #[must_use]
    pub fn stats(&self) -> ReclaimStats {
        self.shared.state.lock().stats
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake.wake();
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A hook may own the reclaimer, and the reclaimer's own thread may drop that hook: it can't wait for itself.
        if thread.thread().id() != thread::current().id() {
            // It ends by a panic only in a hook, which was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The thread's own things.
struct ReclaimThread {
    shared: Arc<ThreadShared>,
    set: ReclaimSet,
    pressure: Pressure,
    clock: MonotonicClock,
    /// The earliest instant at which all free memory may be given back again.
    next_drain: Time,
}

impl ReclaimThread {
    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let new = core::mem::take(&mut self.shared.state.lock().new);
            new.into_iter().for_each(|weak| self.set.add(weak));
            let next = self.tick();
            let sleep = (next != Time::MAX).then(|| next - self.clock.now());
            let woken = self.shared.wake.wait(self.pressure.event(), sleep);
            if woken.lost {
                self.pressure.close();
                self.shared.state.lock().source = self.pressure.source();
            }
            if woken.event || self.pressure.is_high() {
                self.drain();
            }
        }
    }

    fn tick(&mut self) -> Time {
        let began = self.clock.now();
        let tick = self.set.tick(began);
        self.note(began, tick.purged, |stats| stats.ticks += 1);
        tick.next
    }

    fn drain(&mut self) {
        let began = self.clock.now();
        if began < self.next_drain {
            return;
        }
        let purged = self.set.drain();
        self.note(began, purged, |stats| stats.drains += 1);
        self.next_drain = self.clock.now() + DRAIN_PAUSE;
    }

    fn note(&self, began: Time, purged: Purged, what: impl FnOnce(&mut ReclaimStats)) {
        let busy = self.clock.now() - began;
        let stats = &mut self.shared.state.lock().stats;
        stats.busy += busy;
        stats.longest = stats.longest.max(busy);
        stats.purged += purged;
        what(stats);
    }
}

impl fmt::Debug for ThreadShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("ThreadShared")
            .field("source", &state.source)
            .field("stats", &state.stats)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
