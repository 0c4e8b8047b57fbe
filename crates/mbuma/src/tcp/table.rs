//! The connection table: from the two ends of a segment to its connection.
//!
//! Looking a connection up writes to no line that another CPU writes: the locks are read-mostly ones,
//! whose readers count on their own CPU, and the reference that a lookup gives is counted in the
//! connection's own allocation, which the thread with the packet reads next anyway.
//!
//! Sharded by a keyed hash, so that threads that open and close seldom meet, no outsider can aim at one
//! shard, and a shard that grows keeps its readers out for a moment only. A shard costs four bytes a CPU.
//!
//! A lookup that races with an end finds the old connection, closed or about to be, or its successor with
//! the same key, or nothing: never part of one. What it found stays whole for as long as it is looked at.
//!
//! Locks: one read-mostly lock a shard (CONN_TABLE). No connection's lock is taken inside.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kern::prim::RmLock;
use kern::{LockClass, Random, SeededState, order};

use super::pcb::Inpcb;
use crate::inet::Ends;
use hashed::{Hashed, PassedOn};

mod hashed;

static TABLE: LockClass = LockClass::new("connection table", order::CONN_TABLE);

// A model makes a table for each of its runs, and a checker's locks are dear to make: a fifth of its time.
const SHARDS: usize = if cfg!(shuttle) { 4 } else { 64 };

type Shard = RmLock<HashMap<Hashed, Arc<Inpcb>, PassedOn>>;

pub(crate) struct Table {
    shards: Vec<Shard>,
    hash: SeededState,
    len: AtomicUsize,
}

impl Table {
    pub(crate) fn new(random: &mut Random) -> Self {
        let hash = SeededState::new(random);
        let shard = |_| RmLock::new(&TABLE, HashMap::default());
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            hash,
            len: AtomicUsize::new(0),
        }
    }

    /// The key as its shard has it, and the shard.
    #[inline]
    fn place(&self, ends: &Ends) -> (Hashed, &Shard) {
        let Ends::V4(pair) = ends;
        let key = Hashed::new(pair, &self.hash);
        (key, &self.shards[key.one_of(SHARDS)])
    }

    pub(crate) fn lookup(&self, ends: &Ends) -> Option<Arc<Inpcb>> {
        let (key, shard) = self.place(ends);
        shard.read().get(&key).map(Arc::clone)
    }

    /// Adds a connection unless its key is taken or the table is full.
    pub(crate) fn insert(&self, pcb: &Arc<Inpcb>, max: usize) -> bool {
        // Relaxed: a limit, not a hand-over; racing threads may pass it by one each.
        if self.len.load(Ordering::Relaxed) >= max {
            return false;
        }
        let (key, shard) = self.place(&pcb.ends);
        let mut shard = shard.write();
        if shard.contains_key(&key) {
            return false;
        }
        shard.insert(key, Arc::clone(pcb));
        self.len.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Removes what is under the key if `is_it`, and says so.
    pub(super) fn remove_if(&self, ends: &Ends, is_it: impl FnOnce(&Arc<Inpcb>) -> bool) -> bool {
        let (key, shard) = self.place(ends);
        let mut shard = shard.write();
        let found = shard.get(&key).is_some_and(is_it);
        if found {
            shard.remove(&key);
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        found
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Every connection now, for listings.
    pub(crate) fn all(&self) -> Vec<Arc<Inpcb>> {
        self.shards
            .iter()
            .flat_map(|s| s.read().values().cloned().collect::<Vec<_>>())
            .collect()
    }
}
