//! Where a worker sleeps: an epoll set, with an eventfd in it for whoever brings work.
//!
//! Called by: worker (sleeping), crew and wakers (waking). Calls: epoll(7), eventfd(2).
//! Invariants: the eventfd is watched by edge and never read: each write is a new edge. Device queues are
//! watched by level, so that what is left for later is reported again.
//! Locks: none.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use kern::Bell;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// What one wait reports at most; more comes with the next.
const EVENTS_MAX: usize = 64;
/// The eventfd's number; those of device queues count from 0.
const WOKEN: u64 = u64::MAX;

/// The place.
#[derive(Debug)]
pub(super) struct Bed {
    bell: Bell,
    set: OwnedFd,
    event: OwnedFd,
}

/// What a wait reported, kept for its storage.
#[derive(Default)]
pub(super) struct Events(Vec<Event>);

impl Events {
    /// The numbers of the queues that became readable.
    pub(super) fn queues(&self) -> impl Iterator<Item = u64> {
        let numbers = self.0.iter().map(|event| event.data.u64());
        numbers.filter(|number| *number != WOKEN)
    }
}

impl Bed {
    /// Nobody sleeps in it.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let interest = EventFlags::IN | EventFlags::ET;
        epoll::add(&set, &event, EventData::new_u64(WOKEN), interest)?;
        let bell = Bell::new();
        Ok(Arc::new(Self { bell, set, event }))
    }

    /// A waker that wakes whoever sleeps here.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// There is work for the worker, where it will look.
    pub(super) fn ring(&self) {
        if self.bell.ring() {
            // Fails only when the count is full, and then an edge has gone unanswered for centuries.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Reports `fd` as `number` as long as there is something to read.
    pub(super) fn watch(&self, fd: impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(
            &self.set,
            fd,
            EventData::new_u64(number),
            EventFlags::IN,
        )?)
    }

    /// Does so no more.
    pub(super) fn forget(&self, fd: impl AsFd) {
        // It is in the set, or was never let in.
        let _ = epoll::delete(&self.set, fd);
    }

    /// Asks what is readable now.
    pub(super) fn look(&self, events: &mut Events) {
        self.wait(events, Some(Duration::ZERO));
    }

    /// Sleeps until a queue is readable, somebody rings, or the time is over that `how_long` says: it is
    /// asked after the worker has settled, and gives nothing if there is something to do.
    pub(super) fn sleep(
        &self,
        events: &mut Events,
        how_long: impl FnOnce() -> Option<Option<Duration>>,
    ) {
        self.bell.settle();
        match how_long() {
            Some(timeout) => self.wait(events, timeout),
            None => events.0.clear(),
        }
        self.bell.rise();
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
            // The longest that the call takes, some 24 days: then the worker looks and sleeps again.
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

impl Wake for Bed {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
