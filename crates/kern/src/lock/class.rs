//! The class of a lock: the name of the data it protects, its place in the order, its counters.
//!
//! Invariant: a class that was ever counted is in the registry, at [`LockClass::index`], for good.
//! Locks: the registry's own, innermost, and not one of ours: it is taken once a class.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{self, PoisonError};

use serde::{Serialize, Serializer};

use crate::counter::Counter;
use crate::order;

/// Names the data that a lock protects, and its place in the order of locks. Make it a `static`: two statics
/// are two classes, whatever their names.
///
/// ```
/// use kern::{LockClass, Mutex, order};
///
/// static SOCKET: LockClass = LockClass::new("socket", order::CONN);
/// let socket = Mutex::new(&SOCKET, 0);
/// *socket.lock() += 1;
/// assert_eq!(socket.into_inner(), 1);
/// ```
pub struct LockClass {
    /// The name in reports.
    pub name: &'static str,
    /// Its place in [`order`]: a thread takes greater ranks later. With [`order::UNRANKED`] WITNESS
    /// learns the place.
    pub rank: u16,
    pub(crate) counters: ClassCounters,
    /// Its place in the registry, plus one; 0 until it is there.
    registered: AtomicU32,
}

/// The events of the locks of a class. All relaxed: no thread derives an order from these numbers.
pub(crate) struct ClassCounters {
    /// Acquisitions and tries; an estimate where they are sampled.
    pub(crate) acquisitions: Counter,
    /// Acquisitions that found the lock held.
    pub(crate) contended: AtomicU64,
    /// How often a thread slept for a lock of the class.
    pub(crate) sleeps: AtomicU64,
    /// How often a lock was handed to a thread that had been overtaken too often.
    pub(crate) handoffs: AtomicU64,
    /// How often a thread was overtaken in its worst wait.
    pub(crate) overtaken_max: AtomicU64,
    /// Nanoseconds waited, spinning and asleep.
    pub(crate) waited: AtomicU64,
    /// Nanoseconds of the longest wait.
    pub(crate) waited_max: AtomicU64,
}

impl LockClass {
    /// A class called `name` at `rank`, which is a constant of [`order`].
    #[must_use]
    pub const fn new(name: &'static str, rank: u16) -> Self {
        Self {
            name,
            rank,
            counters: ClassCounters {
                acquisitions: Counter::new(),
                contended: AtomicU64::new(0),
                sleeps: AtomicU64::new(0),
                handoffs: AtomicU64::new(0),
                overtaken_max: AtomicU64::new(0),
                waited: AtomicU64::new(0),
                waited_max: AtomicU64::new(0),
            },
            registered: AtomicU32::new(0),
        }
    }

    /// A class without a declared place: WITNESS learns it from the orders it sees.
    #[must_use]
    pub const fn unranked(name: &'static str) -> Self {
        Self::new(name, order::UNRANKED)
    }

    /// Whether its place is declared.
    pub(crate) fn is_ranked(&self) -> bool {
        self.rank != order::UNRANKED
    }

    /// Counts acquisitions.
    pub(crate) fn count(&'static self, acquisitions: u32) {
        let _ = self.index(); // so that it shows
        // On a line of this CPU: readers that share no other cache line must not share one here.
        self.counters.acquisitions.add(acquisitions.into());
    }

    /// Its number in the registry, where it is put if it is not there.
    pub(crate) fn index(&'static self) -> usize {
        match self.registered.load(Relaxed) {
            0 => Registry::add(self),
            place => place as usize - 1,
        }
    }
}

crate::impl_debug!(LockClass |this| name: this.name, rank: this.rank);

/// A class as reports write it: `conn (rank 400)`, or the name alone.
/// Its name.
impl Serialize for LockClass {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl fmt::Display for LockClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.is_ranked() {
            write!(f, " (rank {})", self.rank)?;
        }
        Ok(())
    }
}

/// All classes that were ever counted.
pub(crate) struct Registry;

static CLASSES: sync::Mutex<Vec<&'static LockClass>> = sync::Mutex::new(Vec::new());

/// The registry, held for a fork.
pub(crate) struct ClassesHeld {
    _guard: sync::MutexGuard<'static, Vec<&'static LockClass>>,
}

impl ClassesHeld {
    pub(crate) fn take() -> Self {
        let _guard = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
        Self { _guard }
    }
}

impl Registry {
    /// The classes, each at its index.
    pub(crate) fn classes() -> Vec<&'static LockClass> {
        CLASSES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    #[cold]
    fn add(class: &'static LockClass) -> usize {
        let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been first.
        if let place @ 1.. = class.registered.load(Relaxed) {
            return place as usize - 1;
        }
        classes.push(class);
        let place = u32::try_from(classes.len()).expect("classes are statics");
        class.registered.store(place, Relaxed);
        place as usize - 1
    }
}
