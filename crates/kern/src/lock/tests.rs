use std::sync::Arc;

use super::*;
use crate::order;

static OUTER: LockClass = LockClass::new("outer", order::CONN);
static INNER: LockClass = LockClass::new("inner", order::ZONE);

#[test]
fn mutex_excludes() {
    // Breaks if two threads are in at once: increments would be lost.
    let total = Mutex::new(&OUTER, 0_u64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| *total.lock() += 1));
        }
    });
    assert_eq!(total.into_inner(), 40_000);
}

#[test]
fn try_lock_fails_only_while_held() {
    // Breaks if a try waits, or if a guard does not release.
    let mut mutex = Mutex::new(&OUTER, 1);
    let held = mutex.lock();
    assert!(mutex.try_lock().is_none());
    assert_eq!(format!("{mutex:?}"), "Mutex(<locked>)");
    drop(held);
    assert_eq!(mutex.try_lock().as_deref(), Some(&1));
    *mutex.get_mut() = 2;
    assert_eq!(format!("{mutex:?}"), "Mutex(2)");
}

#[test]
fn rwlock_lets_readers_share_and_writers_not() {
    // Breaks if readers exclude each other, or a writer enters beside one.
    let lock = RwLock::new(&OUTER, 1);
    let reader = lock.read();
    assert!(lock.try_write().is_none());
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(*lock.read(), 1));
    });
    drop(reader);
    *lock.write() = 2;
    let writer = lock.write();
    assert!(lock.try_read().is_none());
    drop(writer);
    assert_eq!(lock.into_inner(), 2);
}

#[test]
fn a_panic_elsewhere_does_not_spread() {
    // Breaks if poisoning shows: one failed worker would take every other one with it.
    let mutex = Arc::new(Mutex::new(&OUTER, 1));
    let lock = Arc::new(RwLock::new(&INNER, 1));
    let (mutex2, lock2) = (Arc::clone(&mutex), Arc::clone(&lock));
    let failed = std::thread::spawn(move || {
        let _outer = mutex2.lock();
        let _inner = lock2.write();
        panic!("on purpose");
    });
    assert!(failed.join().is_err());
    assert_eq!(*mutex.lock(), 1);
    assert_eq!(mutex.try_lock().as_deref(), Some(&1));
    assert_eq!(*lock.read(), 1);
    assert_eq!(lock.try_write().as_deref(), Some(&1));
}

#[test]
fn unsized_values_lock_too() {
    // Breaks if a bound keeps trait objects and slices out.
    let mutex: Arc<Mutex<[u8]>> = Arc::new(Mutex::new(&OUTER, [1, 2, 3]));
    mutex.lock()[1] = 5;
    assert_eq!(&*mutex.lock(), &[1, 5, 3]);
    let lock: Arc<RwLock<dyn fmt::Debug + Send + Sync>> = Arc::new(RwLock::new(&OUTER, 7));
    assert_eq!(format!("{:?}", lock.read()), "7");
}

#[test]
#[cfg(not(any(debug_assertions, feature = "witness")))]
fn witness_costs_nothing_where_it_is_off() {
    // Breaks if release builds carry the class in each lock or the record in each guard.
    assert_eq!(size_of::<Mutex<u64>>(), size_of::<sync::Mutex<u64>>());
    assert_eq!(size_of::<RwLock<u64>>(), size_of::<sync::RwLock<u64>>());
    assert_eq!(
        size_of::<MutexGuard<'_, u64>>(),
        size_of::<sync::MutexGuard<'_, u64>>()
    );
}
