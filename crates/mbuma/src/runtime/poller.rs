//! The descriptors that a thread waits for, each under a key that the program chose: an epoll set.
//!
//! Invariants: a descriptor is in a set once. It leaves the set when it is removed, or when it is closed everywhere.
//! Locks: none. Source: epoll(7).

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// Events that one wait reports at most; the next wait reports the rest.
const EVENTS_MAX: usize = 256;
/// The longest timeout of the system call, about 24 days. A longer wait is split.
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// A set of descriptors. All threads may change it while one waits.
///
/// ```
/// use std::io::Write;
/// use mbuma::runtime::{Interest, PollEvents, Poller};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// let poller = Poller::new()?;
/// poller.add(&reader, 7_u64, Interest::Read)?;
/// writer.write_all(b"x")?;
/// let mut events = PollEvents::new();
/// poller.wait(&mut events, None)?;
/// let (key, readiness) = events.get(0).expect("it is readable");
/// assert!(key == 7 && readiness.readable() && !readiness.at_end());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Poller(OwnedFd);

/// The events of a descriptor that a set reports (epoll(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interest {
    /// In each wait in which there is something to read.
    Read,
    /// Each time that something new is there to read.
    ReadEdge,
    /// In each wait in which there is room to write.
    Write,
    /// Each change of a stream: data, urgent data, room, an end, an error.
    StreamEdge,
    /// Each time that there is priority data, as when a pressure trigger of the kernel fires.
    PriorityEdge,
}

/// The readiness of a descriptor (epoll(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness(EventFlags);

/// The events of one wait; their memory serves for the next.
#[derive(Default)]
pub struct PollEvents(Vec<(u64, Readiness)>);

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::ReadEdge => EventFlags::IN | EventFlags::ET,
            Self::Write => EventFlags::OUT,
            Self::StreamEdge => {
                let changes = EventFlags::IN | EventFlags::PRI | EventFlags::OUT;
                changes | EventFlags::RDHUP | EventFlags::ET
            }
            Self::PriorityEdge => EventFlags::PRI | EventFlags::ET,
        }
    }
}

impl Readiness {
    /// A read returns data, the end or an error.
    pub fn readable(self) -> bool {
        let any = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        self.0.intersects(any)
    }

    /// A write takes data or returns an error.
    pub fn writable(self) -> bool {
        let any = EventFlags::OUT | EventFlags::HUP | EventFlags::ERR;
        self.0.intersects(any)
    }

    /// The end follows the data that can be read.
    pub fn at_end(self) -> bool {
        let any = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        self.0.intersects(any)
    }

    /// Urgent data waits: a read stops before it, and may so return less than there is.
    pub fn urgent(self) -> bool {
        self.0.intersects(EventFlags::PRI)
    }

    /// An error waits to be taken.
    pub fn failed(self) -> bool {
        self.0.intersects(EventFlags::ERR)
    }
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// Those of epoll_create1(2): no descriptor is left (EMFILE, ENFILE), or no memory (ENOMEM).
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Reports events of `fd` under `key` from now on, including readiness from before this call.
    ///
    /// # Errors
    /// Those of epoll_ctl(2): `fd` is in the set (EEXIST), can't be waited for (EPERM), or there is no room for it
    /// (ENOSPC, ENOMEM).
    pub fn add(&self, fd: impl AsFd, key: impl Into<u64>, interest: Interest) -> io::Result<()> {
        let data = EventData::new_u64(key.into());
        Ok(epoll::add(&self.0, fd, data, interest.flags())?)
    }

    /// Stops reporting events of `fd`.
    ///
    /// # Errors
    /// `fd` is not in the set (ENOENT).
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, fd)?)
    }

    /// Waits until an event is reported or `timeout` has passed, rounded up to milliseconds; without a timeout, for
    /// ever. If a signal interrupts the wait, it returns without an event.
    ///
    /// # Errors
    /// None that a program can cause; no event is reported then.
    pub fn wait(&self, events: &mut PollEvents, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|t| timespec(t.min(TIMEOUT_MAX)));
        events.clear();
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.0, &mut room[..], timeout.as_ref()) {
            Ok((reported, _)) => events.fill(reported),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
}

impl AsFd for Poller {
    /// Readable when one of the set's descriptors has an event.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl PollEvents {
    /// Room for the events of one wait.
    pub fn new() -> Self {
        Self(Vec::with_capacity(EVENTS_MAX))
    }

    /// How many were reported.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key and the readiness of the `index`th.
    pub fn get(&self, index: usize) -> Option<(u64, Readiness)> {
        self.0.get(index).copied()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Readiness)> {
        self.0.iter().copied()
    }

    /// Copies them: the kernel's form of an event may be a pointer, and so must stay on its thread.
    fn fill(&mut self, reported: &[Event]) {
        let events = reported.iter();
        self.0
            .extend(events.map(|event| (event.data.u64(), Readiness(event.flags))));
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        // At most `TIMEOUT_MAX`.
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

impl fmt::Debug for PollEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
