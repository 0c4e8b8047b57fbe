//! The locks of this crate during a fork: taken before it, so that the child finds them free.
//!
//! The child of a fork has one thread, the one that forked. A lock that another thread held stays locked
//! there for ever. So the locks behind this library's functions are taken before the fork and released
//! after it, in both processes: a child may then allocate, count and lock as its parent may. Locks that
//! the program has made itself are its own affair, as POSIX has it.
//!
//! ```text
//!   prepare    the crates above, in the order of their ranks; then ours, which are innermost
//!   child      ours; then the crates above, which also forget what the other threads had begun
//! ```
//!
//! A fork that bypasses libc (`vfork`, a bare `clone`, `posix_spawn`) runs none of this; their children
//! only exec.
//!
//! Locks: all of this crate's static ones, from before a fork until after it, in the order in which threads nest
//! them.
//! Sources: pthread_atfork(3); glibc and jemalloc take the locks of all their arenas in the same way. mimalloc needs
//! none, as each thread has a heap of its own; our slow paths meet in a depot and a keg.

use core::cell::RefCell;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::Once;

use crate::{counter, lock, percpu_words, thread, witness};

/// A function that libc calls around a fork, on the thread that forks.
pub type ForkHandler = extern "C" fn();

thread_local! {
    /// The locks that this thread holds during a fork. Without a destructor, so that it is there to the end.
    static HELD: RefCell<Option<ManuallyDrop<LocksHeld>>> = const { RefCell::new(None) };
}

/// All static locks of this crate. Fields in the order in which threads nest the locks.
struct LocksHeld {
    threads: thread::AllHeld,
    _orders: witness::OrdersHeld,
    _classes: lock::ClassesHeld,
    _readers: percpu_words::FreeHeld<AtomicU32>,
    _numbers: percpu_words::FreeHeld<AtomicU64>,
}

/// Registers three handlers: libc calls `prepare` before each fork, and `parent` and `child` after it, each in its
/// process. A handler may use every lock of this crate. Register a set of handlers once.
pub fn on_fork(prepare: ForkHandler, parent: ForkHandler, child: ForkHandler) {
    // libc calls the `prepare` of handlers that were registered later first, and their `parent` and `child` last.
    install();
    register(prepare, parent, child);
}

/// Registers the handlers of this crate's own locks.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| register(prepare, parent, child));
}

extern "C" fn prepare() {
    let held = LocksHeld {
        threads: thread::AllHeld::take(),
        _orders: witness::OrdersHeld::take(),
        _classes: lock::ClassesHeld::take(),
        _readers: lock::readers_held(),
        _numbers: counter::numbers_held(),
    };
    HELD.with(|slot| *slot.borrow_mut() = Some(ManuallyDrop::new(held)));
}

extern "C" fn parent() {
    drop(HELD.with(RefCell::take).map(ManuallyDrop::into_inner));
}

extern "C" fn child() {
    if let Some(mut held) = HELD.with(RefCell::take).map(ManuallyDrop::into_inner) {
        held.threads.forget_waits();
    }
}

#[cfg(not(any(miri, loom, shuttle)))]
fn register(prepare: ForkHandler, parent: ForkHandler, child: ForkHandler) {
    /// As `pthread_atfork` wants it.
    type Unsafe = unsafe extern "C" fn();
    let [prepare, parent, child] = [prepare, parent, child].map(|handler| Some(handler as Unsafe));
    // SAFETY: the handlers are functions without conditions, and code that is never unloaded while its
    // users are there. Where libc has no memory for them, a fork is as dangerous as without them.
    let _ = unsafe { libc::pthread_atfork(prepare, parent, child) };
}

#[cfg(any(miri, loom, shuttle))]
fn register(_: ForkHandler, _: ForkHandler, _: ForkHandler) {}
