//! The object that a worker sleeps on: an epoll set, with an eventfd in it by which producers wake the worker.
//!
//! Invariants: the eventfd is watched by edge and never read, because each write is a new edge. Device queues are watched
//! by level, so that frames left for a later round are reported again.
//! Locks: none. The protocol between worker and producers is [`kern::sleep_flag`]'s.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use kern::SleepFlag;
use kern::sys::EventFd;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// Events that one wait reports at most; the next wait reports the rest.
const EVENTS_MAX: usize = 64;
/// The eventfd's number in the set; those of device queues count from 0.
const WOKEN: u64 = u64::MAX;
/// The pressure trigger's number.
const PRESSURE: u64 = u64::MAX - 1;

/// The epoll set of one worker, and the flag that says whether the worker sleeps in it.
#[derive(Debug)]
pub(super) struct Sleeper {
    flag: SleepFlag,
    set: OwnedFd,
    event: EventFd,
}

/// The news of the kernel's pressure trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PressureNews {
    /// Tasks stalled for want of memory.
    Stalled,
    /// It says nothing any more.
    Lost,
}

/// The events of one wait; the vector is reused.
#[derive(Default)]
pub(super) struct Events(Vec<Event>);

impl Events {
    /// The numbers of the queues that became readable.
    pub(super) fn queues(&self) -> impl Iterator<Item = u64> {
        let numbers = self.0.iter().map(|event| event.data.u64());
        numbers.filter(|number| *number < PRESSURE)
    }

    /// Whether nothing was reported.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the pressure trigger has news: tasks stalled, or the trigger is of no use any more.
    pub(super) fn pressure(&self) -> Option<PressureNews> {
        let event = self.0.iter().find(|event| event.data.u64() == PRESSURE)?;
        let flags = event.flags;
        Some(match flags.contains(EventFlags::ERR) {
            true => PressureNews::Lost,
            false => PressureNews::Stalled,
        })
    }
}

impl Sleeper {
    /// The sleeper of a worker that is awake.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let event = EventFd::new()?;
        let interest = EventFlags::IN | EventFlags::ET;
        epoll::add(&set, &event, EventData::new_u64(WOKEN), interest)?;
        let flag = SleepFlag::new();
        Ok(Arc::new(Self { flag, set, event }))
    }

    /// A waker that wakes the worker.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Wakes the worker if it sleeps. The caller must have queued the work before.
    pub(super) fn wake_worker(&self) {
        if self.flag.wake_needed() {
            self.event.signal();
        }
    }

    /// Reports `fd` as `number` in each wait in which it is readable.
    pub(super) fn watch(&self, fd: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.set,
            fd,
            EventData::new_u64(number),
            EventFlags::IN,
        )?)
    }

    /// Reports when `fd`, a pressure trigger, has priority data.
    pub(super) fn watch_pressure(&self, fd: impl AsFd) -> io::Result<()> {
        let interest = EventFlags::PRI | EventFlags::ET;
        Ok(epoll::add(
            &self.set,
            fd,
            EventData::new_u64(PRESSURE),
            interest,
        )?)
    }

    /// Stops reporting `fd`.
    pub(super) fn forget(&self, fd: impl AsFd) {
        // It fails only if `watch` has failed for this descriptor.
        let _ = epoll::delete(&self.set, fd);
    }

    /// Reports the queues that are readable now, without sleeping.
    pub(super) fn poll_now(&self, events: &mut Events) {
        self.wait(events, Some(Duration::ZERO));
    }

    /// Sleeps until a queue is readable, a producer wakes the worker, or the timeout has passed. `last_check` runs after
    /// the flag says asleep; it returns the timeout, or `None` if there is work and the worker must not sleep.
    pub(super) fn sleep(
        &self,
        events: &mut Events,
        last_check: impl FnOnce() -> Option<Option<Duration>>,
    ) {
        self.flag.prepare_sleep();
        match last_check() {
            Some(timeout) => self.wait(events, timeout),
            None => events.0.clear(),
        }
        self.flag.awake();
    }

    fn wait(&self, events: &mut Events, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let list = &mut events.0;
        list.clear();
        list.reserve(EVENTS_MAX);
        let waited = match epoll::wait(&self.set, spare_capacity(list), timeout.as_ref()) {
            // The timeout is longer than the system call allows, some 24 days: the worker checks and sleeps again then.
            Err(Errno::INVAL) => {
                let longest = Timespec {
                    tv_sec: i64::from(i32::MAX / 1000),
                    tv_nsec: 0,
                };
                epoll::wait(&self.set, spare_capacity(list), Some(&longest))
            }
            waited => waited,
        };
        debug_assert!(!matches!(waited, Err(e) if e != Errno::INTR), "{waited:?}");
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_worker();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_worker();
    }
}
