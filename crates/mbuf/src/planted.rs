//! Mistakes to plant, and points at which other threads may run: they show that the schedule checkers
//! find mistakes.
//!
//! A model that passes shows little unless it is known to find mistakes. So the steps that a
//! protocol depends on ask [`planted`] whether to do the wrong thing; the tests in `schedules/` run
//! every scenario once more with the mistake, and must fail. In every other build the answer is a
//! constant, and a [`point`] is empty.
//!
//! Locks: none.

#[cfg(all(test, any(loom, shuttle)))]
use core::cell::Cell;

/// The mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbufBug {
    /// A reference is made from a shared one by a plain store: `refs/word.rs`.
    PlainShare,
    /// A reference is given back by a plain store: `refs/word.rs`.
    PlainRelease,
    /// The request for zeros is set in the count's word by a plain store: `refs/word.rs`.
    PlainRequest,
    /// Storage that two see may be written: `ext.rs`, `is_writable`.
    TwoWriters,
    /// A packet keeps the cluster that others show: `mbuf/free.rs`.
    GreedyPacket,
    /// A packet's mbuf goes back without word that its cluster is gone: `mbuf/free.rs`.
    Silent,
    /// The packet zone does not say that its free items hold clusters: `pool.rs`.
    Unheld,
}

/// Whether to make this mistake.
#[cfg(not(all(test, any(loom, shuttle))))]
#[inline]
pub(crate) const fn planted(_: MbufBug) -> bool {
    false
}

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn planted(bug: MbufBug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Any other thread may run here, for any time.
#[cfg(not(all(test, any(loom, shuttle))))]
#[inline]
pub(crate) const fn point() {}

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn point() {
    STEPS.fetch_add(1, kern::prim::Ordering::SeqCst);
}

#[cfg(all(test, any(loom, shuttle)))]
kern::prim::lazy_static! {
    // Every point touches it, so that a checker tries every order of points.
    static ref STEPS: kern::prim::AtomicUsize = kern::prim::AtomicUsize::new(0);
}

#[cfg(all(test, any(loom, shuttle)))]
std::thread_local! {
    // All threads of a model are coroutines on one thread of the system, which is the test's.
    static PLANTED: Cell<Option<MbufBug>> = const { Cell::new(None) };
}

/// Has a mistake made, or none, in the models that this test runs from now on.
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn plant(bug: Option<MbufBug>) {
    PLANTED.set(bug);
}
