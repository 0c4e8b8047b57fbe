//! Giant: the one lock over a whole stack, as a choice.
//!
//! A stack that is configured with Giant runs under it, one thread at a time: try it first when a
//! fault appears only with many threads. Without it the stack runs free, and only a component that
//! is registered as not MP-safe (a device, a protocol, a callback) takes it, so that all such
//! components exclude each other while the rest goes on.
//!
//! | | component MP-safe | not MP-safe |
//! |---|---|---|
//! | Giant over the stack | takes it | takes it |
//! | no Giant | does not | takes it |
//!
//! A device or a callback, which the stack calls outside of itself, runs without Giant if it is MP-safe, even where
//! Giant is over the stack: it may call another stack, with another Giant ([`Giant::call_outward`]).
//!
//! The thread that holds Giant may take it again, because a callback cannot tell whether its caller
//! holds it. Giant is outside all other locks. A thread that sleeps or calls outwards
//! ([`Giant::without`]) releases all its holds first. So a component that needs
//! Giant lets other threads run while it sleeps or calls into a stack.
//!
//! Invariant: `inner` is touched only by the thread that has `raw`.
//! Locks: Giant, rank 0.
//! Source: seed 002, debug.mpsafenet.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::counter::Counter;
use crate::lock::{How, LockClass, RawMutex};
use crate::order;
use crate::witness::{self, Held};

static CLASS: LockClass = LockClass::new("giant", order::GIANT);

/// A stack's Giant (seed 002).
///
/// ```
/// use kern::Giant;
/// use kern::giant::Component;
///
/// let giant = Giant::new(false);
/// let old = Component::new("old driver", false);
/// let new = Component::new("new driver", true);
/// drop(giant.enter_component(&old));
/// drop(giant.enter_component(&new));
/// assert_eq!((old.entered(), new.entered()), (1, 0));
/// ```
#[doc(alias = "ADAPTIVE_GIANT")]
#[doc(alias = "NET_LOCK_GIANT")]
pub struct Giant {
    /// Whether the whole stack runs under it. Every thread reads it, so it is not on the cache line
    /// that threads write when they take Giant.
    over_all: bool,
    lock: GiantLock,
}

/// The lock itself.
#[repr(align(128))]
struct GiantLock {
    raw: RawMutex,
    inner: UnsafeCell<GiantState>,
}

/// The owner's record of its hold.
struct GiantState {
    /// How many guards are out.
    depth: u32,
    /// WITNESS's record of the first of them.
    held: Option<Held>,
}

// SAFETY: only the thread that holds `raw` accesses `inner`. It empties `inner` before it releases
// `raw`, so no thread sees another thread's record.
unsafe impl Sync for Giant {}
// SAFETY: no guard borrows a Giant that can be moved, so `inner` is empty. Or a guard was
// forgotten: then WITNESS's record in it is a number that other threads do not use.
unsafe impl Send for Giant {}

impl Giant {
    /// Giant over the whole stack, or only over code that is not MP-safe.
    #[must_use]
    pub const fn new(over_all: bool) -> Self {
        Self {
            over_all,
            lock: GiantLock {
                raw: RawMutex::new(),
                inner: UnsafeCell::new(GiantState {
                    depth: 0,
                    held: None,
                }),
            },
        }
    }

    /// Whether the whole stack runs under it.
    #[must_use]
    pub fn is_over_all(&self) -> bool {
        self.over_all
    }

    /// Enters the stack: takes Giant if it is over all of it.
    ///
    /// # Panics
    ///
    /// If a lock is held already, not counting Giant itself, and WITNESS is built in.
    #[track_caller]
    pub fn enter(&self) -> GiantGuard<'_> {
        self.enter_for(true)
    }

    /// Enters a component: takes Giant if it is not MP-safe, or if Giant is over all.
    ///
    /// # Panics
    ///
    /// As [`Giant::enter`].
    #[track_caller]
    pub fn enter_for(&self, mp_safe: bool) -> GiantGuard<'_> {
        if mp_safe && !self.over_all {
            return GiantGuard::new(None);
        }
        self.take(1);
        GiantGuard::new(Some(self))
    }

    /// Enters a component, and counts that for it if it took Giant.
    ///
    /// # Panics
    ///
    /// As [`Giant::enter`].
    #[track_caller]
    pub fn enter_component(&self, component: &Component) -> GiantGuard<'_> {
        let guard = self.enter_for(component.is_mp_safe());
        if guard.has_giant() {
            component.entered.inc();
        }
        guard
    }

    /// Calls a component outside of the stack. A component that is not MP-safe is called under Giant, and the call is
    /// counted for it. A component that is MP-safe is called without Giant, which this releases if the thread holds
    /// it.
    ///
    /// # Panics
    ///
    /// If a lock other than Giant is held and WITNESS is built in.
    #[track_caller]
    pub fn call_outward<R>(&self, component: &Component, call: impl FnOnce() -> R) -> R {
        if component.is_mp_safe() {
            return self.without(|| {
                witness::assert_none(component.name());
                call()
            });
        }
        let _giant = self.enter_component(component);
        witness::assert_only(self.address(), component.name());
        call()
    }

    /// Runs `call` without Giant: gives it up as often as this thread has taken it, if it has, and takes
    /// it as often again.
    #[doc(alias = "DROP_GIANT")]
    #[doc(alias = "PICKUP_GIANT")]
    #[track_caller]
    pub fn without<R>(&self, call: impl FnOnce() -> R) -> R {
        if !self.lock.raw.is_mine() {
            return call();
        }
        let _pickup = Pickup {
            giant: self,
            depth: self.give(None),
        };
        call()
    }

    #[track_caller]
    fn take(&self, depth: u32) {
        if !self.lock.raw.is_mine() {
            Held::check(&CLASS, How::Lock, self.address());
            self.lock.raw.lock(&CLASS);
            if !self.lock.raw.is_mine() {
                self.lock.raw.unlock();
                panic!("Giant knows its owner, which a thread in its last destructors cannot be");
            }
            let held = Held::record(&CLASS, How::Lock, self.address());
            // SAFETY: this thread has just taken `raw`, and no reference to `inner` is kept.
            unsafe { (*self.lock.inner.get()).held = Some(held) };
        }
        // SAFETY: this thread has `raw`, and no reference to `inner` is kept.
        unsafe { (*self.lock.inner.get()).depth += depth };
    }

    /// Gives `depth` of the guards up, all if None; says how many that were.
    fn give(&self, depth: Option<u32>) -> u32 {
        if !self.lock.raw.is_mine() {
            // The sleep dropped a guard from outside it. Or WITNESS panicked, and the unwinding
            // drops the guards.
            assert!(std::thread::panicking(), "Giant was given up for a sleep");
            return 0;
        }
        // SAFETY: this thread has `raw`, and the reference ends with this function.
        let inner = unsafe { &mut *self.lock.inner.get() };
        let given = depth.unwrap_or(inner.depth);
        inner.depth -= given;
        if inner.depth == 0 {
            drop(inner.held.take());
            self.lock.raw.unlock();
        }
        given
    }

    fn address(&self) -> *const () {
        (&raw const *self).cast()
    }
}

crate::impl_debug!(Giant |this| over_all: this.over_all);

/// Giant, taken if the caller needs it; its drop restores the state before.
#[must_use = "Giant is released when the guard is dropped"]
#[derive(Debug)]
pub struct GiantGuard<'a> {
    giant: Option<&'a Giant>,
    /// The lock names this thread.
    _not_send: PhantomData<*const ()>,
}

impl<'a> GiantGuard<'a> {
    fn new(giant: Option<&'a Giant>) -> Self {
        Self {
            giant,
            _not_send: PhantomData,
        }
    }

    /// Whether Giant was taken.
    #[must_use]
    pub fn has_giant(&self) -> bool {
        self.giant.is_some()
    }
}

impl Drop for GiantGuard<'_> {
    fn drop(&mut self) {
        if let Some(giant) = self.giant {
            giant.give(Some(1));
        }
    }
}

/// Takes Giant again, though the sleep may end in a panic: the guards further out give it back.
struct Pickup<'a> {
    giant: &'a Giant,
    depth: u32,
}

impl Drop for Pickup<'_> {
    fn drop(&mut self) {
        self.giant.take(self.depth);
    }
}

/// A device, a protocol or a callback, which is MP-safe or needs Giant (seed 002).
#[derive(Debug)]
pub struct Component {
    name: String,
    /// Relaxed: a thread that is inside during a change behaves as if it had come before.
    mp_safe: AtomicBool,
    entered: Counter,
}

impl Component {
    /// A component called `name`.
    #[doc(alias = "CALLOUT_MPSAFE")]
    #[doc(alias = "INTR_MPSAFE")]
    #[must_use]
    pub fn new(name: impl Into<String>, mp_safe: bool) -> Self {
        Self {
            name: name.into(),
            mp_safe: AtomicBool::new(mp_safe),
            entered: Counter::new(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it runs without Giant where that is not over all.
    #[must_use]
    pub fn is_mp_safe(&self) -> bool {
        self.mp_safe.load(Ordering::Relaxed)
    }

    /// Sets whether it runs without Giant from now on. A thread that is inside finishes as it began.
    pub fn set_mp_safe(&self, mp_safe: bool) {
        self.mp_safe.store(mp_safe, Ordering::Relaxed);
    }

    /// How often it was entered under Giant.
    #[must_use]
    pub fn entered(&self) -> u64 {
        self.entered.get()
    }
}

/// `old driver: Giant, entered 3 times under it`
impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.is_mp_safe() {
            true => "MP-safe",
            false => "Giant",
        };
        let Self { name, entered, .. } = self;
        write!(f, "{name}: {state}, entered {entered} times under it")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
