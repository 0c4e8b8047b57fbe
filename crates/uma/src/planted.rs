//! Mistakes that tests plant, and a check of the life of zones: they show that the schedule checkers find mistakes.
//!
//! A model that passes proves little unless it is known to find mistakes. So the code at each critical point of a
//! protocol asks [`planted`] whether to make the mistake. The tests in `schedules/` run every scenario once more with
//! the mistake, and must fail. In every other build [`planted`] is a constant, and [`Life`] is empty.
//!
//! Invariant: a zone that has ended is never used again ([`Life`]).
//! Locks: none.

use core::alloc::Layout;
#[cfg(all(test, any(loom, shuttle)))]
use core::cell::{Cell, RefCell};
#[cfg(any(loom, shuttle))]
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneBug {
    /// A drain takes a bucket over without interrupting the CPU that works on it: `percpu/drain.rs`.
    SecondFence,
    /// An allocation does not wait for threads that carry items: `keg/closed.rs`, `take_last`.
    Transit,
    /// The same, where `init` refuses: `reclaim/trim.rs`, `gather_built`.
    Refusal,
    /// It does not wait for threads with free items of another zone that hold items of this keg: `keg/closed.rs`,
    /// `take_last`.
    Holder,
    /// A sleeper does not check whether an item has come since its search: `keg/closed.rs`, `sleep`.
    StaleGeneration,
    /// A keg opens although it has sleepers: `keg/closed.rs`, `may_reopen`.
    Sleepers,
    /// A new limit does not wake the sleepers: `keg/closed.rs`, `set_limit`.
    SilentLimit,
    /// An import that brought fewer items than it counted does not wake refused threads: `keg.rs`, `take`.
    SilentImport,
    /// A free is not counted as a thread inside: `free.rs`, `put_slow`.
    Entry,
    /// A bulk free uses the zone once more after its last item: `free.rs`, `put_bulk`.
    LookBack,
    /// A leaving thread checks in a second step whether it was the last: `zone_inner.rs`, `leave`.
    LateCheck,
    /// The drop of the last handle is not counted as a thread inside: `zone_inner.rs`, `retire`.
    Retire,
    /// A visit by a weak reference is not counted as a thread inside: `weak.rs`.
    Visit,
}

/// Whether the code must make this mistake.
#[cfg(not(all(test, any(loom, shuttle))))]
#[inline]
pub(crate) const fn planted(_: ZoneBug) -> bool {
    false
}

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn planted(bug: ZoneBug) -> bool {
    PLANTED.get() == Some(bug)
}

#[cfg(all(test, any(loom, shuttle)))]
std::thread_local! {
    // All threads of a model are coroutines on one system thread, which is the test's.
    static PLANTED: Cell<Option<ZoneBug>> = const { Cell::new(None) };
    static BUCKETS: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// Plants a mistake, or none, in the models that this test runs from now on.
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn plant(bug: Option<ZoneBug>) {
    PLANTED.set(bug);
    // A model that has failed leaves objects of a machine that no longer exists.
    BUCKETS.take();
}

/// Frees the buckets that a model kept. Called at the end of its run, when no thread that could use one is left.
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn free_buckets() {
    for (bucket, layout) in BUCKETS.take() {
        // SAFETY: given up to `dealloc`, and no thread that could use it is left.
        unsafe { std::alloc::dealloc(bucket, layout) };
    }
}

/// Frees a bucket's memory. A model does so only at its end, so that a mistake does not damage the checker's heap.
///
/// # Safety
/// As for [`std::alloc::dealloc`].
pub(crate) unsafe fn dealloc(bucket: *mut u8, layout: Layout) {
    #[cfg(all(test, any(loom, shuttle)))]
    BUCKETS.with_borrow_mut(|buckets| buckets.push((bucket, layout)));
    #[cfg(not(all(test, any(loom, shuttle))))]
    // SAFETY: the caller promises the same.
    unsafe {
        std::alloc::dealloc(bucket, layout);
    }
}

/// Records, for the models, whether a zone has ended, and that all uses were ordered before its end.
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

    /// Records a use of the zone.
    #[inline]
    pub(crate) fn touch(&self) {
        #[cfg(any(loom, shuttle))]
        assert!(!self.over.load(Relaxed), "a zone is used after its end");
        #[cfg(loom)]
        self.uses.with(|_| ());
    }

    /// Records the end of the zone.
    #[inline]
    pub(crate) fn end(&self) {
        #[cfg(any(loom, shuttle))]
        assert!(!self.over.swap(true, Relaxed), "a zone ends twice");
        #[cfg(loom)]
        self.uses.with_mut(|_| ());
    }
}
