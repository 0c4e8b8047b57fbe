//! Locks that a thread takes when its thread-local storage has gone: in the destructor of a pthread key, as C
//! libraries have them.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use kern::{LockClass, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

static CLASS: LockClass = LockClass::unranked("thread end");
static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
/// The locks that excluded.
static EXCLUDED: AtomicU32 = AtomicU32::new(0);

fn set(turn: usize) {
    let (&key, turn) = (
        KEY.get().expect("made"),
        core::ptr::without_provenance(turn),
    );
    // SAFETY: a key of ours; the value is only a number.
    let set = unsafe { libc::pthread_setspecific(key, turn) };
    assert_eq!(set, 0);
}

/// Sets the key again, to run in the last of the rounds that POSIX promises: Rust's destructors ran in earlier ones.
extern "C" fn at_end(turn: *mut c_void) {
    let turn = turn.addr();
    if turn < 4 {
        return set(turn + 1);
    }
    for lock in [(); 2].map(|()| Mutex::new(&CLASS, ())) {
        // The record of the thread can't be made any more, which may be a panic.
        let first = catch_unwind(AssertUnwindSafe(|| lock.lock()));
        let held = first.unwrap_or_else(|_| lock.lock());
        if lock.try_lock().is_none() {
            EXCLUDED.fetch_add(1, SeqCst);
        }
        drop(held);
    }
}

#[test]
fn a_thread_without_a_record_excludes() {
    // Breaks when a thread whose record can't be made keeps the token 0, which says that a lock is free.
    let mut key = 0;
    // SAFETY: `key` is valid for the call, and any thread may run `at_end`.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) };
    assert_eq!(made, 0);
    KEY.set(key).expect("once");
    std::thread::spawn(|| set(1)).join().expect("no panic");
    assert_eq!(EXCLUDED.load(SeqCst), 2);
}
