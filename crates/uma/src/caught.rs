//! Panics of foreign code, put off until the operation that they interrupted is complete.
//!
//! Hooks, imports and callbacks are called in the middle of an allocation or a free, while the thread carries buckets
//! and items and counts are half changed. So the slow paths call them through here, complete their own work, and then
//! resume the first panic. A guard that cleans up while the panic unwinds could handle one panic; a second one, such as
//! that of the next item's `fini`, would end the process.
//!
//! The fast paths, where such a call would cost, have guards: `raw_ref/guards.rs`.
//!
//! Locks: none.

use std::any::Any;
#[cfg(not(any(loom, shuttle)))]
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The first panic since this was made, if there was one.
#[derive(Default)]
#[must_use = "the panic would be swallowed"]
pub(crate) struct Caught(Option<Box<dyn Any + Send>>);

impl Caught {
    /// The result of `code`; none if it panicked.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn call<T>(&mut self, code: impl FnOnce() -> T) -> Option<T> {
        // If the code left its own data half changed, the owner of that data must handle it, as with a poisoned lock.
        let result = catch_unwind(AssertUnwindSafe(code));
        result.map_err(|panic| self.0.get_or_insert(panic)).ok()
    }

    /// Schedule checkers end their threads by panics.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn call<T>(&mut self, code: impl FnOnce() -> T) -> Option<T> {
        Some(code())
    }

    /// Whether there was a panic.
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Takes over the panic of another, unless there is one already.
    #[cfg(feature = "extras")]
    pub(crate) fn add(&mut self, other: Self) {
        self.0 = self.0.take().or(other.0);
    }

    /// Resumes the panic. Not in a thread that is panicking already: a second panic would end the process, and this one
    /// has been reported.
    pub(crate) fn resume(self) {
        if let Some(panic) = self.0
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
