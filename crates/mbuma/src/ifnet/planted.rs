//! Mistakes to plant in how an interface goes, so that the model of it is known to see
//! ([`schedules`](super::schedules)). In every other build nothing is planted, and costs nothing.
//!
//! Called by: the places named in [`Bug`]. Calls: nothing. Locks: none.

#[cfg(all(test, shuttle))]
use std::cell::Cell;

/// A mistake that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// An interface is detached without saying so: `stack/attach.rs`, `detach`.
    Unmarked,
    /// Packets that wait for a neighbour are dropped before the interface is marked as gone: the same.
    FlushedEarly,
    /// The transmitter stops without another check of the queue: `ifnet.rs`, `transmit`.
    OneLook,
    /// A plug that is out keeps packets that did not fit the budget: `device/epair/plug.rs`, `keep`.
    KeptOutside,
}

/// Whether to make this mistake.
#[cfg(not(all(test, shuttle)))]
#[inline]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

#[cfg(all(test, shuttle))]
pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

#[cfg(all(test, shuttle))]
std::thread_local! {
    // All threads of a model are coroutines on one thread of the system, which is the test's.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Has a mistake made, or none, in the models that this test runs from now on.
#[cfg(all(test, shuttle))]
pub(super) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
