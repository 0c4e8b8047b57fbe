//! The object on which a worker sleeps: an epoll set with an eventfd, by which other threads wake the worker.
//!
//! Invariants: the eventfd is watched by edge and never read, because each write is a new edge. A worker does not wake
//! itself: it is awake, and checks all its work before it sleeps. Locks: none. The protocol between the worker and
//! others is [`kern::sleep_flag`]'s.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kern::sys::EventFd;
use kern::{AdaptiveSpin, Cpus, SleepFlag, Workers};

use super::poller::{Interest, PollEvents, Poller};

/// The eventfd's key in the set.
pub(super) const WOKEN: u64 = u64::MAX;
/// The key of the kernel's pressure trigger.
pub(super) const PRESSURE: u64 = u64::MAX - 1;
/// The device queues' keys are their numbers from here on. Smaller keys are the program's.
pub(super) const QUEUES: u64 = 0xff << 56;

/// The epoll set of one worker, and the flag that says whether the worker sleeps in it.
#[derive(Debug)]
pub(super) struct Sleeper {
    cpus: Arc<Workers>,
    /// The worker's index.
    index: usize,
    flag: SleepFlag,
    poller: Poller,
    /// None if no other thread has work for the worker.
    event: Option<EventFd>,
}

impl Sleeper {
    /// The sleeper of worker `index` of `cpus`, which is awake. Other threads can wake it if it `is_shared`.
    pub(super) fn new(cpus: &Arc<Workers>, index: usize, is_shared: bool) -> io::Result<Arc<Self>> {
        let poller = Poller::new()?;
        let event = is_shared.then(EventFd::new).transpose()?;
        if let Some(event) = &event {
            poller.add(event, WOKEN, Interest::ReadEdge)?;
        }
        Ok(Arc::new(Self {
            cpus: Arc::clone(cpus),
            index,
            flag: SleepFlag::new(),
            poller,
            event,
        }))
    }

    /// The descriptors that the worker waits for.
    pub(super) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Wakes the worker if it sleeps. The caller must have queued the work before.
    pub(super) fn wake_worker(&self) {
        let Some(event) = &self.event else {
            return;
        };
        let caller = self.cpus.current();
        let is_worker = caller.is_own && caller.index == self.index;
        if !is_worker && self.flag.wake_needed() {
            event.signal();
        }
    }

    /// The worker is about to sleep. It must check once more all state that other threads change, and afterwards call
    /// [`awake`](Self::awake), whether it slept or not.
    pub(super) fn prepare_sleep(&self) {
        if self.event.is_some() {
            self.flag.prepare_sleep();
        }
    }

    /// The worker is awake again.
    pub(super) fn awake(&self) {
        if self.event.is_some() {
            self.flag.awake();
        }
    }

    /// Polls without sleeping if `spin` expects that to pay, for at most `timeout`. True if something is ready.
    pub(super) fn spin(
        &self,
        events: &mut PollEvents,
        spin: &AdaptiveSpin,
        timeout: Option<Duration>,
    ) -> bool {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        spin.spin(deadline, || {
            // The blocking wait that follows returns the same error.
            self.poller.wait(events, Some(Duration::ZERO)).is_ok() && !events.is_empty()
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
