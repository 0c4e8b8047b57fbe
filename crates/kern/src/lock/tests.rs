use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering, Ordering::Relaxed};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::mutex_word::MutexWord;
use super::word::Waiter;
use super::*;
use crate::show::{ClassStats, LockStats, ShowLocks, lock_stats, show_locks};
use crate::{order, witness};

static OUTER: LockClass = LockClass::new("outer", order::CONN);
static INNER: LockClass = LockClass::new("inner", order::ZONE);

#[test]
fn a_mutex_excludes_other_threads() {
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
fn a_panic_elsewhere_does_not_spread() {
    // Breaks if locks are poisoned: one failed worker would end all others.
    let mutex = Arc::new(Mutex::new(&OUTER, 1));
    let lock = Arc::new(RmLock::new(&INNER, 1));
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
    assert_eq!(*lock.write(), 1);
}

#[test]
fn unsized_values_lock_too() {
    // Breaks if a bound keeps trait objects and slices out.
    let mutex: Arc<Mutex<[u8]>> = Arc::new(Mutex::new(&OUTER, [1, 2, 3]));
    mutex.lock()[1] = 5;
    assert_eq!(&*mutex.lock(), &[1, 5, 3]);
    let lock: Arc<RmLock<dyn fmt::Debug + Send + Sync>> = Arc::new(RmLock::new(&OUTER, 7));
    assert_eq!(format!("{:?}", lock.read()), "7");
}

#[test]
fn a_lock_has_its_words_class_and_value_only() {
    // Breaks if WITNESS, or anything else, grows every lock and every guard.
    assert_eq!(size_of::<Mutex<u64>>(), 4 + 4 + 8 + 8, "word, value, class");
    assert_eq!(size_of::<Mutex<u32>>(), 4 + 4 + 8);
    if !crate::witness::ENABLED {
        assert_eq!(size_of::<MutexGuard<'_, u64>>(), size_of::<&u64>());
        assert_eq!(size_of::<RmLockWriteGuard<'_, u64>>(), size_of::<&u64>());
    }
}

/// Waits until `sleepers` threads sleep for locks of this class, and shows all locks then.
fn when_asleep(class: &'static LockClass, sleepers: usize) -> ShowLocks {
    loop {
        let shown = show_locks();
        let waits = shown
            .threads
            .iter()
            .filter_map(|thread| thread.waits.as_ref());
        if waits.filter(|w| core::ptr::eq(w.class, class)).count() >= sleepers {
            return shown;
        }
        thread::yield_now();
    }
}

#[test]
fn each_wait_is_counted_and_no_sleeper_is_forgotten() {
    // Breaks if a release does not wake the sleeper, or a wait does not count.
    static CLASS: LockClass = LockClass::unranked("counted waits");
    let total = Mutex::new(&CLASS, 0);
    let held = total.lock();
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| *total.lock() += 1);
        }
        when_asleep(&CLASS, 5);
        let stats = lock_stats();
        let class = stats.class("counted waits").expect("counted");
        assert_eq!((class.holders, class.waiters), (1, 5));
        drop(held);
    });
    assert_eq!(*total.lock(), 5);
    let stats = lock_stats();
    let class = stats.class("counted waits").expect("counted");
    assert!(class.contended >= 5 && class.sleeps >= 5, "{class:?}");
    assert!(class.waited >= class.waited_max && class.waited_max > Duration::ZERO);
    assert_eq!((class.holders, class.waiters), (0, 0));
}

/// A word whose owner, while a thread sleeps on it, releases it and takes it again at once. With real threads this
/// happens by chance; here the worst case happens each time.
#[derive(Default)]
struct Contested {
    word: AtomicU32,
    overtaken: Cell<u32>,
}

/// The token of the overtaking thread.
const GREEDY: u32 = 9;

impl LockWord for &Contested {
    const PATIENCE: u32 = <AtomicU32 as LockWord>::PATIENCE;

    fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.word.compare_exchange(current, new, success, failure)
    }

    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_add(value, order)
    }

    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.word.fetch_sub(value, order)
    }

    fn fence_after_add() {}

    fn fence() {}

    fn sleep(&self, expected: u32, _: Option<Duration>) {
        assert_eq!(
            self.load(Relaxed),
            expected,
            "no thread changed the word meanwhile"
        );
        let owner = MutexWord::new(*self);
        owner.unlock();
        if owner.try_lock(GREEDY) {
            self.overtaken.set(self.overtaken.get() + 1);
        }
        assert!(self.overtaken.get() < 100, "overtaken for ever");
    }

    fn wake_one(&self) {}

    fn wake_all(&self) {}

    fn spins() -> u32 {
        0
    }

    fn pause(_: u32) {}
}

/// Counts the reports of a wait.
#[derive(Default)]
struct Told {
    sleeps: u32,
    handed: bool,
}

impl Waiter for Told {
    fn sleeps(&mut self) {
        self.sleeps += 1;
    }

    fn handed(&mut self) {
        self.handed = true;
    }
}

#[test]
fn an_overtaken_sleeper_gets_the_lock_handed_over() {
    // Breaks if a sleeper can find the lock taken each time it wakes up; or if a thread that comes
    // later can take a lock that is kept for the sleeper.
    let contested = Contested::default();
    let mutex = MutexWord::new(&contested);
    assert!(mutex.try_lock(GREEDY));
    let mut told = Told::default();
    mutex.lock_slow(1, &mut told);
    let patience = <AtomicU32 as LockWord>::PATIENCE;
    assert_eq!(contested.overtaken.get(), patience);
    assert_eq!((told.sleeps, told.handed), (patience + 1, true));
    assert_eq!(contested.word.load(Relaxed) & OWNER, 1);
    mutex.unlock();
    assert_eq!(
        contested.word.load(Relaxed),
        0,
        "fair once, then fast again"
    );
}

#[test]
fn acquisitions_are_estimated_and_the_order_of_locks_does_not_matter() {
    // Breaks if the estimate is far off, or if the distance between two counted acquisitions is
    // fixed: of two locks taken in turn, one would get all counts.
    static FIRST: LockClass = LockClass::unranked("taken first");
    static SECOND: LockClass = LockClass::unranked("taken second");
    const TIMES: u64 = if cfg!(miri) { 2_000 } else { 200_000 };
    let (first, second) = (Mutex::new(&FIRST, ()), RmLock::new(&SECOND, ()));
    for _ in 0..TIMES {
        drop(first.lock());
        drop(second.read());
    }
    let stats = lock_stats();
    for name in ["taken first", "taken second"] {
        let count = stats.class(name).map_or(0, |class| class.acquisitions);
        if witness::ENABLED {
            assert_eq!(count, TIMES, "{name}");
        } else if !cfg!(miri) {
            assert!(count.abs_diff(TIMES) < TIMES / 10, "{name}: {count}");
        }
    }
}

#[test]
fn writers_and_readers_take_turns() {
    // Breaks if a new reader passes a writer that waits, a reader that waited for one write waits for the
    // next one too, or a reader forgets its slot (this one is released far from where it came in).
    static CLASS: LockClass = LockClass::unranked("turns");
    let (lock, log) = (RmLock::new(&CLASS, ()), std::sync::Mutex::new(Vec::new()));
    let note = |what| log.lock().expect("no panic").push(what);
    let reader = lock.read();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _writes = lock.write();
            note("first writer");
            scope.spawn(|| {
                let _reads = lock.read();
                note("reader");
            });
            when_asleep(&CLASS, 1);
            scope.spawn(|| {
                let _writes = lock.write();
                note("second writer");
            });
            when_asleep(&CLASS, 2);
        });
        when_asleep(&CLASS, 1);
        assert!(lock.try_read().is_none(), "a reader passes a writer");
        drop(reader);
    });
    let log = log.into_inner().expect("no panic");
    assert_eq!(log, ["first writer", "reader", "second writer"]);
}

#[test]
fn readers_see_whole_writes() {
    // Breaks if a reader is in beside a writer, or two writers are; or if either starves.
    static CLASS: LockClass = LockClass::unranked("pair");
    let (pair, rounds) = (
        RmLock::new(&CLASS, (0, 0)),
        if cfg!(miri) { 50 } else { 5_000 },
    );
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let mut pair = pair.write();
                    pair.0 += 1;
                    pair.1 += 1;
                }
            });
            scope.spawn(|| {
                for _ in 0..rounds {
                    let pair = pair.read();
                    assert_eq!(pair.0, pair.1);
                }
            });
        }
    });
    assert_eq!(*pair.read(), (2 * rounds, 2 * rounds));
}

#[test]
fn statistics_print_one_line_a_class() {
    // Breaks if the table or the JSON changes: both are read by programs and people.
    let class = ClassStats {
        name: "a \"b\"",
        rank: None,
        acquisitions: 1_843_200,
        contended: 12,
        sleeps: 3,
        handoffs: 0,
        overtaken_max: 1,
        waited: Duration::from_nanos(41_200),
        waited_max: Duration::from_micros(17),
        holders: 0,
        waiters: 2,
    };
    let stats = LockStats {
        classes: vec![
            class.clone(),
            ClassStats {
                name: "connection",
                rank: Some(400),
                ..class
            },
        ],
    };
    let table = "\
class       rank  acquisitions  contended   sleeps  handed overtaken     waited    longest  held waiting
a \"b\"          -       1843200         12        3       0         1     41.2µs     17.0µs     0       2
connection   400       1843200         12        3       0         1     41.2µs     17.0µs     0       2
";
    assert_eq!(stats.to_string(), table);
    let json = serde_json::to_string(&stats).expect("plain data");
    let rest = "\"acquisitions\":1843200,\"contended\":12,\"sleeps\":3,\"handoffs\":0,\
        \"overtaken_max\":1,\"waited_ns\":41200,\"waited_max_ns\":17000,\"holders\":0,\"waiters\":2}";
    let expected = format!(
        "[{{\"class\":\"a \\\"b\\\"\",\"rank\":null,{rest},{{\"class\":\"connection\",\"rank\":400,{rest}]"
    );
    assert_eq!(json, expected);
}

#[test]
fn a_read_mostly_lock_lets_readers_share_and_writers_not() {
    // Breaks if readers exclude each other, or a writer enters beside one that another CPU counts.
    let mut lock = RmLock::new(&OUTER, 1);
    let reader = lock.read();
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(*lock.read(), 1));
    });
    assert_eq!(format!("{lock:?}"), "RmLock(1)");
    drop(reader);
    *lock.write() = 2;
    let writer = lock.write();
    assert!(lock.try_read().is_none());
    assert_eq!(format!("{lock:?}"), "RmLock(<locked>)");
    drop(writer);
    assert_eq!(*lock.get_mut(), 2);
}

#[test]
fn a_read_mostly_lock_that_comes_later_begins_without_readers() {
    // Breaks if a lock frees its slots with a reader counted in them: a writer of the next lock would wait for ever.
    for _ in 0..100 {
        let lock = RmLock::new(&OUTER, 0);
        core::mem::forget(lock.read());
        if !witness::ENABLED {
            assert!(lock.try_read().is_some());
        }
        drop(lock);
        let next = RmLock::new(&INNER, 0);
        *next.write() += 1;
        assert_eq!(*next.read(), 1);
        if witness::ENABLED {
            break; // a forgotten guard stays on this thread's list
        }
    }
}
