//! The connection table: from the two ends of a segment to its connection.
//!
//! Looking a connection up writes to no line that another CPU writes: the locks are read-mostly ones,
//! whose readers count on their own CPU, and the reference that a lookup gives is counted in the
//! connection's own allocation, which the thread with the packet reads next anyway.
//!
//! Sharded by a keyed hash, so that threads that open and close seldom contend, an attacker can't fill one shard, and a
//! growing shard blocks its readers only briefly. A shard costs four bytes for each CPU.
//!
//! A lookup that races with the end of a connection finds the old connection, closed or about to close, or its
//! successor with the same key, or none. A found connection stays valid as long as the caller has the reference.
//!
//! Locks: one read-mostly lock a shard (CONN_TABLE). No connection's lock is taken inside.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kern::prim::RmLock;
use kern::{LockClass, Random, SeededState, order};

use super::pcb::Inpcb;
use crate::inet::Ends;
use crate::spread::BuildSpread;
use hashed::{Hashed, Hashed6, HashedKey};

mod hashed;

static TABLE: LockClass = LockClass::new("connection table", order::CONN_TABLE);

// A model makes a table for each of its runs, and making a checker's locks took a fifth of the time.
const SHARDS: usize = if cfg!(shuttle) { 4 } else { 64 };

/// Connections at most for which an empty shard keeps room: otherwise the memory of a spike would stay for ever.
const KEPT_ENTRIES: usize = 3;

/// The connections of both versions of IP.
pub(crate) struct ConnectionTable {
    v4: Shards<Hashed>,
    v6: Shards<Hashed6>,
    hash: SeededState,
    len: AtomicUsize,
}

/// The reason for which a connection was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAdded {
    Taken,
    Full,
}

impl ConnectionTable {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            v4: Shards::new(),
            v6: Shards::new(),
            hash: SeededState::new(random),
            len: AtomicUsize::new(0),
        }
    }

    pub(crate) fn lookup(&self, ends: &Ends) -> Option<Arc<Inpcb>> {
        match ends {
            Ends::V4(pair) => self.v4.lookup(&Hashed::new(pair, &self.hash)),
            Ends::V6(pair, zone) => self.v6.lookup(&Hashed6::new(pair, *zone, &self.hash)),
        }
    }

    /// Adds a connection.
    ///
    /// # Errors
    /// Its key is taken, or the table is full.
    pub(crate) fn insert(&self, pcb: &Arc<Inpcb>, max: usize) -> Result<(), NotAdded> {
        // Relaxed: a limit, not a hand-over; racing threads may pass it by one each.
        if self.len.load(Ordering::Relaxed) >= max {
            return Err(NotAdded::Full);
        }
        let added = match &pcb.ends() {
            Ends::V4(pair) => self.v4.insert(Hashed::new(pair, &self.hash), pcb),
            Ends::V6(pair, zone) => self.v6.insert(Hashed6::new(pair, *zone, &self.hash), pcb),
        };
        if !added {
            return Err(NotAdded::Taken);
        }
        self.len.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the connection with this key if `is_it` is true for it; returns whether it did.
    pub(super) fn remove_if(&self, ends: &Ends, is_it: impl FnOnce(&Arc<Inpcb>) -> bool) -> bool {
        let removed = match ends {
            Ends::V4(pair) => self.v4.remove_if(&Hashed::new(pair, &self.hash), is_it),
            Ends::V6(pair, zone) => {
                (self.v6).remove_if(&Hashed6::new(pair, *zone, &self.hash), is_it)
            }
        };
        if removed {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Every connection now, for listings.
    pub(crate) fn all(&self) -> Vec<Arc<Inpcb>> {
        let mut all = self.v4.all();
        all.extend(self.v6.all());
        all
    }
}

/// The connections of one version, whose key is `K`.
struct Shards<K>(Vec<RmLock<HashMap<K, Arc<Inpcb>, BuildSpread>>>);

impl<K: HashedKey> Shards<K> {
    fn new() -> Self {
        let shard = |_| RmLock::new(&TABLE, HashMap::default());
        Self((0..SHARDS).map(shard).collect())
    }

    #[inline]
    fn of(&self, key: &K) -> &RmLock<HashMap<K, Arc<Inpcb>, BuildSpread>> {
        &self.0[key.one_of(SHARDS)]
    }

    #[inline]
    fn lookup(&self, key: &K) -> Option<Arc<Inpcb>> {
        self.of(key).read().get(key).map(Arc::clone)
    }

    fn insert(&self, key: K, pcb: &Arc<Inpcb>) -> bool {
        let mut shard = self.of(&key).write();
        let free = !shard.contains_key(&key);
        if free {
            shard.insert(key, Arc::clone(pcb));
        }
        free
    }

    fn remove_if(&self, key: &K, is_it: impl FnOnce(&Arc<Inpcb>) -> bool) -> bool {
        let mut shard = self.of(key).write();
        let found = shard.get(key).is_some_and(is_it);
        if found {
            shard.remove(key);
            if shard.is_empty() && shard.capacity() > KEPT_ENTRIES {
                *shard = HashMap::default();
            }
        }
        found
    }

    fn all(&self) -> Vec<Arc<Inpcb>> {
        self.0
            .iter()
            .flat_map(|s| s.read().values().cloned().collect::<Vec<_>>())
            .collect()
    }
}
