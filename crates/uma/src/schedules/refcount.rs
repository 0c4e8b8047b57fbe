//! Storage with a reference count beside it, shared and dropped as clusters are: nobody counts
//! while there is one holder, and whoever drops the last reference frees it, once, after all that
//! others read there.
//!
//! The protocol is the one that `mbuf` has over [`RawZone::refcount`](crate::RawZone::refcount),
//! whose counters lie in memory that no checker knows; here it is again, over a checker's.
//!
//! Called by: the test runner. Calls: loom. Locks: none.

use super::*;
use kern::prim::{AtomicU32, Ordering, fence};
#[cfg(loom)]
use loom::cell::UnsafeCell;
#[cfg(shuttle)]
use unordered::UnsafeCell;

/// loom's cell where nobody checks its accesses: shuttle takes every ordering for the strongest.
#[cfg(shuttle)]
mod unordered {
    pub(super) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(super) fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        pub(super) fn with<R>(&self, how: impl FnOnce(*const T) -> R) -> R {
            how(self.0.get())
        }

        pub(super) fn with_mut<R>(&self, how: impl FnOnce(*mut T) -> R) -> R {
            how(self.0.get())
        }
    }
}

/// What can be got wrong.
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(shuttle, expect(dead_code, reason = "shuttle knows no weak orderings"))]
enum Mistake {
    Nothing,
    /// The look at a count of one acquires nothing.
    RelaxedLook,
    /// A drop releases nothing.
    RelaxedDrop,
    /// A drop looks, and then subtracts, and frees if it had seen a one.
    TwoSteps,
}

/// Storage and its count.
struct Storage {
    refs: AtomicU32,
    bytes: UnsafeCell<u32>,
    frees: AtomicUsize,
    mistake: Mistake,
}

// SAFETY: the checker reports whoever reads beside a write.
unsafe impl Sync for Storage {}

impl Storage {
    fn share(&self) {
        self.refs.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller has a reference, and nobody writes while there is another.
        self.bytes.with(|bytes| unsafe { *bytes })
    }

    fn is_unique(&self) -> bool {
        let order = match self.mistake {
            Mistake::RelaxedLook => Ordering::Relaxed,
            _ => Ordering::Acquire,
        };
        self.refs.load(order) == 1
    }

    /// Writes if nobody else can see it.
    fn write(&self) {
        if self.is_unique() {
            // SAFETY: the caller has the only reference.
            self.bytes.with_mut(|bytes| unsafe { *bytes += 1 });
        }
    }

    fn drop_one(&self) {
        if !self.is_unique() {
            let order = match self.mistake {
                Mistake::RelaxedDrop => Ordering::Relaxed,
                _ => Ordering::Release,
            };
            let before = match self.mistake {
                Mistake::TwoSteps => self.refs.load(Ordering::Acquire),
                _ => self.refs.fetch_sub(1, order),
            };
            if self.mistake == Mistake::TwoSteps {
                self.refs.fetch_sub(1, order);
            }
            if before != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        self.frees.fetch_add(1, Relaxed);
        // The next owner writes what he likes.
        // SAFETY: the last reference is gone.
        self.bytes.with_mut(|bytes| unsafe { *bytes = 0 });
    }
}

/// Two holders read, share, write where they may, and drop.
fn two_holders(mistake: Mistake) {
    let storage = Arc::new(Storage {
        refs: AtomicU32::new(2),
        bytes: UnsafeCell::new(7),
        frees: AtomicUsize::new(0),
        mistake,
    });
    let theirs = Arc::clone(&storage);
    beside(
        1,
        move || {
            theirs.read();
            theirs.share();
            theirs.drop_one();
            theirs.read();
            theirs.drop_one();
        },
        || {
            storage.read();
            storage.write();
            storage.drop_one();
        },
    );
    assert_eq!(storage.frees.load(Relaxed), 1, "freed once");
}

#[test]
fn the_last_holder_frees() {
    // Breaks if shared storage is freed twice, never, or while it is read.
    holds("refcount", 4, || two_holders(Mistake::Nothing));
}

#[test]
#[cfg(loom)]
#[should_panic(expected = "Causality violation")]
fn finds_a_look_without_acquire() {
    // Breaks if the scenario is blind to a write that overtakes another's read.
    holds("not found", 4, || two_holders(Mistake::RelaxedLook));
}

#[test]
#[cfg(loom)]
#[should_panic(expected = "Causality violation")]
fn finds_a_drop_without_release() {
    // Breaks if the scenario is blind to a read that is overtaken by the free.
    holds("not found", 4, || two_holders(Mistake::RelaxedDrop));
}

#[test]
#[should_panic(expected = "freed once")]
fn finds_a_drop_in_two_steps() {
    // Breaks if the scenario is blind to two holders that both see two.
    holds("not found", 4, || two_holders(Mistake::TwoSteps));
}
