//! The calling thread, as locks see it: a token for a lock's word, a countdown to the next acquisition that is counted,
//! and a record that tells other threads which lock it waits for.
//!
//! A thread gets them with the first lock it takes, and gives them back when it ends; records and
//! tokens are used again. Locks that its last destructors take after that have [`LATE`] as their
//! owner.
//!
//! Invariants: the token is in 1..=[`OWNER`], and no two living threads with a record have the same token. A record is
//! changed only by its own thread, which therefore finds it as it left it. Locks: the list of records, then one record;
//! both innermost, both of std, since ours come here.

use core::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::lock::{LockClass, OWNER, Waiting};
use crate::{fork, witness};

/// The token of all threads that have given their own back.
pub(crate) const LATE: u32 = 1;
/// The token of the first record.
const FIRST: u32 = 2;
/// How many acquisitions a counted acquisition stands for.
const SAMPLE: u32 = if witness::ENABLED { 1 } else { 64 };

/// The data of a thread that only it uses. Without a destructor, so that it is there to the end.
struct Me {
    token: Cell<u32>,
    /// Acquisitions until the next counted one; at first 1, so that the first acquisition finds the record.
    countdown: Cell<u32>,
    /// Draws the next distance.
    draws: Cell<u32>,
    record: Cell<Option<&'static ThreadRecord>>,
}

/// Gives the record back when the thread ends.
struct Leave;

thread_local! {
    static ME: Me = const {
        Me {
            token: Cell::new(0),
            countdown: Cell::new(1),
            draws: Cell::new(0),
            record: Cell::new(None),
        }
    };
    static LEAVE: Leave = const { Leave };
}

/// The data of a thread that other threads may read.
pub(crate) struct ThreadRecord {
    pub(crate) token: u32,
    state: Mutex<ThreadState>,
}

/// A thread's name, the lock that it waits for, and with WITNESS the locks that it holds.
#[derive(Default)]
pub(crate) struct ThreadState {
    /// None when its thread has ended.
    pub(crate) name: Option<String>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) held: witness::HeldList,
}

static RECORDS: Mutex<Vec<&'static ThreadRecord>> = Mutex::new(Vec::new());

/// Counts that the calling thread takes a lock of `class`, perhaps, and returns its token.
#[inline]
pub(crate) fn count(class: &'static LockClass) -> u32 {
    ME.with(|me| {
        let left = me.countdown.get() - 1;
        me.countdown.set(left);
        if left == 0 {
            me.sample(class);
        }
        me.token.get()
    })
}

/// The calling thread's token; 0 if it has never taken a lock.
pub(crate) fn token() -> u32 {
    ME.with(|me| me.token.get())
}

/// The calling thread's record, for a moment; None if it has none, or none any more.
pub(crate) fn with_record<R>(act: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    let record = ME.with(|me| me.record.get())?;
    Some(act(&mut record.lock()))
}

/// Publishes the lock that the calling thread waits for.
pub(crate) fn waits_for(waiting: Option<Waiting>) {
    with_record(|state| state.waiting = waiting);
}

/// The records of all threads, ended threads included.
pub(crate) fn records() -> Vec<&'static ThreadRecord> {
    all().clone()
}

/// The list of records and each of them, held for a fork.
pub(crate) struct AllHeld {
    states: Vec<MutexGuard<'static, ThreadState>>,
    _records: MutexGuard<'static, Vec<&'static ThreadRecord>>,
}

impl AllHeld {
    pub(crate) fn take() -> Self {
        let records = all();
        Self {
            states: records.iter().map(|record| record.lock()).collect(),
            _records: records,
        }
    }

    /// In the child no other thread exists, so no wait is real, and the lock of a recorded wait may go away. Each
    /// record keeps its token, which is therefore not used again: locks that the other threads held stay theirs.
    pub(crate) fn forget_waits(&mut self) {
        self.states
            .iter_mut()
            .for_each(|state| state.waiting = None);
    }
}

fn all() -> MutexGuard<'static, Vec<&'static ThreadRecord>> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Me {
    #[cold]
    #[inline(never)]
    fn sample(&self, class: &'static LockClass) {
        let first = self.token.get() == 0;
        if first {
            // The token of a thread without a record, also if making one panics: it excludes other threads as well as
            // any token.
            self.token.set(LATE);
            self.countdown.set(SAMPLE);
            self.enter();
        }
        self.countdown.set(self.distance());
        // The first acquisition stands only for itself.
        if !first || witness::ENABLED {
            class.count(SAMPLE);
        }
    }

    /// A number from 1 to 2 * SAMPLE - 1, on average SAMPLE: Marsaglia's xorshift.
    fn distance(&self) -> u32 {
        let mut draw = self.draws.get();
        draw ^= draw << 13;
        draw ^= draw >> 17;
        draw ^= draw << 5;
        self.draws.set(draw);
        let below = u64::from(draw) * u64::from(2 * SAMPLE - 1);
        1 + (below >> 32) as u32
    }

    /// Finds a record that no thread uses, or makes one.
    fn enter(&self) {
        let name = match std::thread::current().name() {
            Some(name) => name.to_owned(),
            None => "unnamed".to_owned(),
        };
        fork::install();
        let mut records = all();
        let free = records.iter().copied().find(|record| {
            let mut state = record.lock();
            let free = state.name.is_none();
            if free {
                state.name = Some(name.clone());
            }
            free
        });
        let record = free.unwrap_or_else(|| {
            let count = u32::try_from(records.len()).unwrap_or(OWNER);
            assert!(count < OWNER - FIRST, "too many threads");
            let state = ThreadState {
                name: Some(name),
                ..ThreadState::default()
            };
            // Never freed: others read it without asking whether its thread still lives.
            let record = Box::leak(Box::new(ThreadRecord {
                token: FIRST + count,
                state: Mutex::new(state),
            }));
            records.push(record);
            record
        });
        drop(records);
        self.token.set(record.token);
        self.draws.set(record.token.wrapping_mul(0x9e37_79b9) | 1);
        // A thread that runs its last destructors would never give the record back.
        match LEAVE.try_with(|_| ()) {
            Ok(()) => self.record.set(Some(record)),
            Err(_) => self.leave(record),
        }
    }

    fn leave(&self, record: &ThreadRecord) {
        self.record.set(None);
        self.token.set(LATE);
        *record.lock() = ThreadState::default();
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        ME.with(|me| {
            if let Some(record) = me.record.get() {
                me.leave(record);
            }
        });
    }
}

impl ThreadRecord {
    /// Its state, which cannot change meanwhile.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ThreadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
