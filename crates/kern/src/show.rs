//! Show locks: which locks each thread holds, which lock it waits for, and the owner of that lock.
//!
//! ```text
//! thread "rx 0"
//!   holds conn (rank 400) at src/tcp/input.rs:41:20, for 1.3s
//!   waits 1.2s for routes (rank 700) to read at src/route.rs:80:31; held by "config"
//! ```
//!
//! With WITNESS the list has all locks that are held. In other builds it has the locks that a
//! thread sleeps for: a sleep is slow, so recording it costs little, and the lock's word names the
//! owner. Only WITNESS records the readers of a read-write lock.
//!
//! Invariant: each thread is shown as it was at one instant, but not all threads at the same instant.
//! Locks: the list of threads, then each record in turn; innermost, so any thread may call it under any lock.

use core::fmt;
use core::panic::Location;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::json;
use crate::lock::{How, LockClass};
use crate::thread::{self, ThreadRecord};
use crate::witness;

mod stats;

pub use crate::witness::HeldLock;
pub use stats::{ClassStats, LockStats, duration_text, lock_stats};

/// The locks that all threads hold and wait for, now.
#[doc(alias = "show alllocks")]
#[must_use]
pub fn show_locks() -> ShowLocks {
    let mut threads = Vec::new();
    let mut owners = Vec::new();
    for record in thread::records() {
        if let Some((thread, owner)) = look(record) {
            owners.push((threads.len(), owner));
            threads.push(thread);
        }
    }
    for (waiter, owner) in owners {
        name_owner(&mut threads, waiter, owner);
    }
    threads.retain(|thread| thread.waits.is_some() || !thread.holds.is_empty());
    ShowLocks { threads }
}

/// The locks of one thread, and the token of the owner that it waits for; None if it has ended.
fn look(record: &'static ThreadRecord) -> Option<(ThreadLocks, u32)> {
    let state = record.lock();
    let name = state.name.clone()?;
    let owner = state.waiting.map_or(0, |waiting| {
        // SAFETY: `state` is the locked record that shows this wait.
        unsafe { waiting.owner() }
    });
    let thread = ThreadLocks {
        token: record.token,
        name,
        holds: witness::holds(&state.held),
        waits: state.waiting.map(|waiting| WaitsFor {
            class: waiting.class,
            how: waiting.how,
            lock: waiting.lock(),
            site: waiting.site,
            since: waiting.since,
            waited: waiting.since.elapsed(),
            owner: None,
        }),
    };
    Some((thread, owner))
}

/// Writes the owner's name into the wait, and without WITNESS the lock into the owner's list.
fn name_owner(threads: &mut [ThreadLocks], waiter: usize, owner: u32) {
    let Some(at) = threads.iter().position(|thread| thread.token == owner) else {
        return;
    };
    let owner = threads[at].name.clone();
    let Some(waits) = &mut threads[waiter].waits else {
        return;
    };
    waits.owner = Some(owner);
    let held = HeldLock {
        class: waits.class,
        how: match waits.how {
            How::Lock => How::Lock,
            How::Read | How::Write => How::Write,
        },
        lock: waits.lock,
        site: None,
        held: None,
    };
    let holds = &mut threads[at].holds;
    if !witness::ENABLED && !holds.iter().any(|other| other.lock == held.lock) {
        holds.push(held);
    }
}

/// The locks that threads hold and wait for; its text is the one above.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
#[non_exhaustive]
pub struct ShowLocks {
    /// The threads that hold a lock or wait for one.
    pub threads: Vec<ThreadLocks>,
}

/// The locks that one thread holds and waits for.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadLocks {
    #[serde(skip)]
    token: u32,
    /// Its name, as it was when it took its first lock.
    #[serde(rename = "thread")]
    pub name: String,
    /// The locks that it holds, in the order in which it took them.
    pub holds: Vec<HeldLock>,
    /// The lock that it sleeps for.
    pub waits: Option<WaitsFor>,
}

/// A lock that a thread sleeps for.
#[derive(Clone, Debug, Serialize)]
pub struct WaitsFor {
    /// Its class.
    pub class: &'static LockClass,
    /// Wanted how.
    pub how: How,
    #[serde(skip)]
    lock: usize,
    /// Where.
    #[serde(serialize_with = "json::text")]
    pub site: &'static Location<'static>,
    #[serde(skip)]
    since: Instant,
    /// For how long.
    #[serde(rename = "waited_ns", serialize_with = "json::nanos")]
    pub waited: Duration,
    /// The name of the thread that has it alone. None if readers have it, or it was released just
    /// now.
    pub owner: Option<String>,
}

impl fmt::Display for ShowLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.threads.is_empty() {
            writeln!(f, "no thread waits for a lock")?;
        }
        for thread in &self.threads {
            write!(f, "{thread}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ThreadLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "thread {:?}", self.name)?;
        for held in &self.holds {
            write!(f, "  holds {}{}", held.class, held.how)?;
            if let Some(site) = held.site {
                write!(f, " at {site}")?;
            }
            if let Some(time) = held.held {
                write!(f, ", for {time:.1?}")?;
            }
            writeln!(f)?;
        }
        if let Some(waits) = &self.waits {
            let WaitsFor {
                class,
                how,
                site,
                waited,
                ..
            } = waits;
            write!(f, "  waits {waited:.1?} for {class}{how} at {site}")?;
            match &waits.owner {
                Some(owner) => writeln!(f, "; held by {owner:?}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// Reports threads that wait too long, once each. It is a plain value: a thread that takes none of the watched locks
/// calls it at intervals.
#[derive(Debug)]
pub struct Watchdog {
    bound: Duration,
    /// The reported waits that have not ended: the thread, and the begin of the wait.
    told: Vec<(u32, Instant)>,
}

impl Watchdog {
    /// A watchdog that lets threads wait for `bound`.
    #[must_use]
    pub fn new(bound: Duration) -> Self {
        Self {
            bound,
            told: Vec::new(),
        }
    }

    /// The threads that have waited for a lock for longer than the bound at `now`, and were not
    /// reported before. Then it is time to [`show_locks`].
    pub fn check(&mut self, now: Instant) -> Vec<ThreadLocks> {
        let late = |waits: &WaitsFor| now.saturating_duration_since(waits.since) > self.bound;
        let mut stuck = show_locks().threads;
        stuck.retain(|thread| thread.waits.as_ref().is_some_and(late));
        let before = core::mem::take(&mut self.told);
        self.told = stuck.iter().filter_map(ThreadLocks::wait).collect();
        stuck.retain(|thread| !thread.wait().is_some_and(|wait| before.contains(&wait)));
        stuck
    }
}

impl ThreadLocks {
    fn wait(&self) -> Option<(u32, Instant)> {
        Some((self.token, self.waits.as_ref()?.since))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
