//! The primitives of lock-free and wakeup protocols, which a schedule checker can take over.
//!
//! `--cfg shuttle` builds it on shuttle's, which tries random interleavings of larger models, by a seed, and takes
//! every ordering for the strongest.
//!
//! Code that must be const, or that has no protocol (a counter), uses std itself.

#[cfg(not(any(loom, shuttle)))]
pub use self::real::*;

#[cfg(any(loom, shuttle))]
pub use self::modelled::*;

#[cfg(not(any(loom, shuttle)))]
mod real {
    pub use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    pub use crate::condvar::Condvar;
    pub use crate::lock::{Mutex, MutexGuard, RmLock};

    /// Letting other threads go on.
    pub mod thread {
        pub use std::thread::yield_now;

        /// Sleeps for this time.
        ///
        /// # Panics
        ///
        /// If a lock is held and WITNESS is built in.
        #[track_caller]
        pub fn sleep(time: core::time::Duration) {
            crate::witness::assert_none("a sleep");
            std::thread::sleep(time);
        }

        /// As [`sleep`], for a caller that may hold locks: an allocation that waits for threads which carry free
        /// items, a bounded number of short times.
        pub fn nap(time: core::time::Duration) {
            std::thread::sleep(time);
        }
    }
}

#[cfg(any(loom, shuttle))]
mod modelled {
    #[cfg(loom)]
    use loom as checker;
    #[cfg(all(shuttle, not(loom)))]
    use shuttle as checker;

    pub use checker::sync::MutexGuard;
    pub use checker::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use checker::{lazy_static, thread_local};

    use crate::lock::LockClass;

    /// Letting other threads go on. Time does not pass in a model.
    pub mod thread {
        pub use super::checker::thread::yield_now;

        /// Others go on before this thread does.
        pub fn sleep(_: core::time::Duration) {
            yield_now();
        }

        pub use self::sleep as nap;
    }

    /// The checker's mutex behind the methods of ours; the class is of no use to it.
    #[derive(Debug)]
    pub struct Mutex<T>(checker::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// An unlocked mutex around `value`.
        pub fn new(_: &'static LockClass, value: T) -> Self {
            Self(checker::sync::Mutex::new(value))
        }

        /// Waits for the lock and holds it until the guard is dropped.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a checker stops at the first panic")
        }

        /// Takes the lock if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// The checker's read-write lock behind the methods of ours.
    #[derive(Debug)]
    pub struct RmLock<T>(checker::sync::RwLock<T>);

    impl<T> RmLock<T> {
        /// An unlocked lock around `value`.
        pub fn new(_: &'static LockClass, value: T) -> Self {
            Self(checker::sync::RwLock::new(value))
        }

        /// Waits until no thread writes, and holds the lock for reading until the guard is dropped.
        pub fn read(&self) -> checker::sync::RwLockReadGuard<'_, T> {
            self.0.read().expect("a checker stops at the first panic")
        }

        /// Waits until no other thread reads or writes, and holds the lock until the guard is dropped.
        pub fn write(&self) -> checker::sync::RwLockWriteGuard<'_, T> {
            self.0.write().expect("a checker stops at the first panic")
        }
    }

    /// The checker's condition variable behind the methods of ours. Time does not pass in a model: a
    /// wait with a timeout ends only when notified.
    #[derive(Debug, Default)]
    pub struct Condvar(checker::sync::Condvar);

    impl Condvar {
        /// A condition variable without waiters.
        #[must_use]
        pub fn new() -> Self {
            Self(checker::sync::Condvar::new())
        }

        /// Gives the lock up, sleeps until notified, takes it again.
        pub fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _timeout: Option<core::time::Duration>,
        ) -> MutexGuard<'a, T> {
            self.0
                .wait(guard)
                .expect("a checker stops at the first panic")
        }

        /// Wakes one waiting thread.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all waiting threads.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
