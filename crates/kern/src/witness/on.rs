//! WITNESS where it is built in: the list of held locks, and the checks against it.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use std::sync::MutexGuard;

use crate::lock::LockClass;

pub(super) const ENABLED: bool = true;

thread_local! {
    static HELD: RefCell<Vec<Acquisition>> = const { RefCell::new(Vec::new()) };
    static NEXT_ID: Cell<u64> = const { Cell::new(0) };
}

/// The class of a lock, as the lock itself keeps it.
#[derive(Clone, Copy)]
pub(crate) struct ClassRef(&'static LockClass);

impl ClassRef {
    pub(crate) const fn new(class: &'static LockClass) -> Self {
        Self(class)
    }
}

/// One lock that this thread holds.
#[derive(Clone, Copy)]
struct Acquisition {
    id: u64,
    class: &'static LockClass,
    /// Tells two locks of one class apart. Compared, never followed.
    lock: *const (),
    site: &'static Location<'static>,
}

impl fmt::Display for Acquisition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, site, .. } = self;
        write!(f, "{} (rank {}) at {site}", class.name, class.rank)
    }
}

/// The record of a held lock, kept in its guard; dropping it takes the lock off the list.
pub(crate) struct Held {
    id: u64,
    /// A guard must go where a mutex guard may go, that is, not to another thread: the list that
    /// it is on belongs to this one.
    _not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl Held {
    /// Panics if taking `lock` now is out of order. Called before waiting for it.
    #[track_caller]
    pub(crate) fn check(class: ClassRef, lock: *const ()) {
        check(class.0, lock, false);
    }

    /// As [`Held::check`], but other locks of the same class may be held.
    #[track_caller]
    pub(crate) fn check_nested(class: ClassRef, lock: *const ()) {
        check(class.0, lock, true);
    }

    /// Puts a lock that was just taken onto the list.
    #[track_caller]
    pub(crate) fn record(class: ClassRef, lock: *const ()) -> Self {
        let id = NEXT_ID.get();
        NEXT_ID.set(id + 1);
        let taken = Acquisition {
            id,
            class: class.0,
            lock,
            site: Location::caller(),
        };
        // A thread that ends has no list any more when its last destructors take locks; nothing
        // is checked then.
        let _ = HELD.try_with(|held| held.borrow_mut().push(taken));
        Self {
            id,
            _not_send: PhantomData,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Guards are mostly dropped in reverse order, so the search starts at the end.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|taken| taken.id == self.id) {
                held.remove(at);
            }
        });
    }
}

pub(super) fn held() -> usize {
    HELD.try_with(|held| held.borrow().len()).unwrap_or(0)
}

#[track_caller]
pub(super) fn assert_none(what: &str) {
    if let Some(taken) = first(|_| true) {
        complain(format_args!("{what} while {taken} is held"));
    }
}

#[track_caller]
fn check(class: &'static LockClass, lock: *const (), nested: bool) {
    let Some(taken) = first(|taken| conflicts(taken, class, lock, nested)) else {
        return;
    };
    let wanted = Acquisition {
        id: 0,
        class,
        lock,
        site: Location::caller(),
    };
    if taken.lock == lock {
        complain(format_args!("lock recursion: {wanted}, held since {taken}"));
    } else if same_class(taken.class, class) {
        complain(format_args!(
            "two locks of one class without lock_nested: {wanted}, while holding {taken}"
        ));
    } else {
        complain(format_args!(
            "lock order reversal: {wanted}, while holding {taken}"
        ));
    }
}

/// Whether `class` may not be taken while `taken` is held.
fn conflicts(taken: &Acquisition, class: &LockClass, lock: *const (), nested: bool) -> bool {
    if taken.lock == lock {
        return true;
    }
    if same_class(taken.class, class) {
        return !nested;
    }
    taken.class.rank >= class.rank
}

/// Classes are statics, so the address decides; a class written as a constant may have several
/// addresses, so the name and rank decide too.
fn same_class(a: &LockClass, b: &LockClass) -> bool {
    core::ptr::eq(a, b) || (a.rank == b.rank && a.name == b.name)
}

/// The first held lock for which `test` holds, copied out so that a panic leaves the list alone.
fn first(test: impl Fn(&Acquisition) -> bool) -> Option<Acquisition> {
    HELD.try_with(|held| held.borrow().iter().copied().find(|taken| test(taken)))
        .ok()
        .flatten()
}

/// Panics, unless the thread is unwinding already: a second panic would abort and hide the first.
#[track_caller]
fn complain(what: fmt::Arguments<'_>) {
    if !std::thread::panicking() {
        panic!("witness: {what}");
    }
}
