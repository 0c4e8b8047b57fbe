//! A check of the life of zones, for the models: a zone that has ended is never used again. Elsewhere it is empty.
//!
//! Locks: none.

use core::alloc::Layout;
#[cfg(all(test, any(loom, shuttle)))]
use core::cell::RefCell;
#[cfg(any(loom, shuttle))]
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[cfg(all(test, any(loom, shuttle)))]
std::thread_local! {
    // All threads of a model are coroutines on one system thread, which is the test's.
    static BUCKETS: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// Forgets the buckets of a model that has failed: it leaves objects of a machine that no longer exists.
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) fn forget_buckets() {
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
