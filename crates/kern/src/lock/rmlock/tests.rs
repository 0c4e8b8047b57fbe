use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::*;

/// More reads than open the gate of a lock.
const MANY: u32 = 200 * crate::thread::SAMPLE;

/// A guard that came by a section, if there are any here.
fn in_section<T>(lock: &RmLock<T>) -> Option<RmLockReadGuard<'_, T>> {
    let by_section = |_| {
        (0..MANY).for_each(|_| drop(lock.read()));
        Some(lock.read()).filter(|guard| matches!(guard.way, ReadWay::Section))
    };
    // Sections may be interrupted, but not ever.
    (0..100).find_map(by_section)
}

#[test]
fn a_writer_waits_for_a_reader_in_a_section() {
    // Breaks if a writer reads the numbers before it closes the gate, or a reader that leaves through the closed gate
    // does not wake it.
    static CLASS: LockClass = LockClass::unranked("sectioned readers");
    let lock = RmLock::new(&CLASS, 0);
    let Some(guard) = in_section(&lock) else {
        assert_eq!(crate::rseq::choose(), crate::rseq::PercpuMethod::Locked);
        return;
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| *lock.write() += 1);
        thread::sleep(core::time::Duration::from_millis(20));
        assert!(!writer.is_finished());
        assert_eq!(*guard, 0);
        assert!(lock.try_read().is_none(), "a reader passes a writer");
        drop(guard);
    });
    assert_eq!(*lock.read(), 1);
    assert!(in_section(&lock).is_some(), "it opens again");
}

#[test]
fn readers_in_sections_see_whole_writes() {
    // Breaks if a reader is in beside a writer, or one that migrated while it was in is lost. The threads are more
    // than the CPUs, and give them up inside, so they leave on other CPUs than they came in on.
    static CLASS: LockClass = LockClass::unranked("sectioned pair");
    let rounds = if cfg!(miri) { 20 } else { 300 };
    let (lock, stop) = (RmLock::new(&CLASS, (0, 0)), AtomicBool::new(false));
    let threads = 4 * crate::cpu::count().min(8);
    let sections = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for n in 0_u32.. {
                    let pair = lock.read();
                    let before = *pair;
                    if n.is_multiple_of(64) {
                        thread::yield_now();
                    }
                    assert_eq!(before.0, before.1);
                    assert_eq!(before, *pair);
                    if matches!(pair.way, ReadWay::Section) {
                        sections.fetch_add(1, Relaxed);
                    }
                    drop(pair);
                    if stop.load(Relaxed) {
                        return;
                    }
                }
            });
        }
        for _ in 0..rounds {
            thread::sleep(core::time::Duration::from_micros(200));
            let mut pair = lock.write();
            pair.0 += 1;
            thread::yield_now();
            pair.1 += 1;
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(*lock.read(), (rounds, rounds));
    let works = crate::rseq::choose() != crate::rseq::PercpuMethod::Locked;
    assert_eq!(sections.load(Relaxed) > 0, works);
}
