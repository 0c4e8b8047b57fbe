//! Mistakes to plant, and a watch on the life of zones: what lets the schedule checkers prove that
//! they would see.
//!
//! A model that finds nothing shows little unless it is known to find something. So the places
//! that a protocol stands on ask [`planted`] whether to get it wrong; the tests in `schedules/`
//! run every scenario once more with the mistake, and must fail. In every other build the answer
//! is a constant, and [`Life`] is nothing.
//!
//! Invariant: a zone that has ended is never used again ([`Life`]).
//! Locks: none.

use crate::zone_inner::ZoneInner;
use core::alloc::Layout;
#[cfg(all(test, any(loom, shuttle)))]
use core::cell::{Cell, RefCell};
#[cfg(all(test, any(loom, shuttle)))]
use core::mem::ManuallyDrop;
#[cfg(any(loom, shuttle))]
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What could be got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A drain takes buckets over without interrupting who works on them: `percpu/drain.rs`.
    SecondFence,
    /// Threads with items in their hands are not waited for: `keg/closed.rs`, `take_last`.
    Transit,
    /// Nor where `init` refuses: `reclaim/trim.rs`, `gather_built`.
    Refusal,
    /// Nor those with free items of another zone that hold some of ours: there too.
    Holder,
    /// A sleeper does not ask whether something came since it looked: `keg/closed.rs`, `sleep`.
    StaleGeneration,
    /// A keg opens over the heads of its sleepers: `keg/closed.rs`, `may_reopen`.
    Sleepers,
    /// A new limit wakes nobody: `keg/closed.rs`, `set_limit`.
    SilentLimit,
    /// An import that got less than it had asked for tells nobody: `keg.rs`, `take`.
    SilentImport,
    /// A free does not count as inside: `free.rs`, `put_slow`.
    Entry,
    /// A bulk free goes round once more after its last item: `free.rs`, `put_bulk`.
    LookBack,
    /// Who leaves looks whether it was the last only afterwards: `zone_inner.rs`, `leave`.
    LateCheck,
    /// The end of the last handle is not counted as a thread inside: `zone_inner.rs`, `retire`.
    Retire,
    /// A visitor does not count as inside: `weak.rs`.
    Visit,
}

/// Whether to make this mistake.
#[cfg(not(all(test, any(loom, shuttle))))]
#[inline]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

#[cfg(all(test, any(loom, shuttle)))]
std::thread_local! {
    // All threads of a model are coroutines on one thread of the system, which is the test's.
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    static ENDED_ZONES: RefCell<Vec<ManuallyDrop<Box<ZoneInner>>>> = const { RefCell::new(Vec::new()) };
    static BUCKETS: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// Has a mistake made, or none, in the models that this test runs from now on.
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
    // What a model that has failed left behind belongs to a machine that is gone.
    ENDED_ZONES.take();
    BUCKETS.take();
}

/// The zones that ended since this was last asked. Called at the end of a model's run.
#[cfg(all(test, any(loom, shuttle)))]
#[expect(clippy::vec_box, reason = "others may still know where they are")]
pub(crate) fn ended_zones() -> Vec<Box<ZoneInner>> {
    for (bucket, layout) in BUCKETS.take() {
        // SAFETY: given up to `dealloc`; and no thread is left that would make a mistake.
        unsafe { std::alloc::dealloc(bucket, layout) };
    }
    let ended_zones = ENDED_ZONES.take().into_iter();
    ended_zones.map(ManuallyDrop::into_inner).collect()
}

/// Frees a bucket's memory; in a model only at its end, so that a mistake does not spoil the heap
/// of the checker.
///
/// # Safety
/// As for [`std::alloc::dealloc`].
pub(crate) unsafe fn dealloc(bucket: *mut u8, layout: Layout) {
    #[cfg(all(test, any(loom, shuttle)))]
    BUCKETS.with_borrow_mut(|buckets| buckets.push((bucket, layout)));
    #[cfg(not(all(test, any(loom, shuttle))))]
    // SAFETY: the caller's promise is the one that is asked for.
    unsafe {
        std::alloc::dealloc(bucket, layout);
    }
}

/// Frees the memory of a zone; in a model only later, so that a use after the end is seen.
pub(crate) fn free_zone(zone: Box<ZoneInner>) {
    #[cfg(all(test, any(loom, shuttle)))]
    ENDED_ZONES.with_borrow_mut(|ended_zones| ended_zones.push(ManuallyDrop::new(zone)));
    #[cfg(not(all(test, any(loom, shuttle))))]
    drop(zone);
}

/// Whether a zone has ended, for the models; and that all its uses were ordered before that.
pub(crate) struct Life {
    #[cfg(any(loom, shuttle))]
    over: AtomicBool,
    #[cfg(loom)]
    uses: loom::cell::UnsafeCell<()>,
}

impl Life {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(any(loom, shuttle))]
            over: AtomicBool::new(false),
            #[cfg(loom)]
            uses: loom::cell::UnsafeCell::new(()),
        }
    }

    /// The zone is used.
    #[inline]
    pub(crate) fn touch(&self) {
        #[cfg(any(loom, shuttle))]
        assert!(!self.over.load(Relaxed), "a zone is used after its end");
        #[cfg(loom)]
        self.uses.with(|_| ());
    }

    /// The zone ends.
    #[inline]
    pub(crate) fn end(&self) {
        #[cfg(any(loom, shuttle))]
        assert!(!self.over.swap(true, Relaxed), "a zone ends twice");
        #[cfg(loom)]
        self.uses.with_mut(|_| ());
    }
}
