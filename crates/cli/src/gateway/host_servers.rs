//! The host's name servers as all workers see them, after each change of the host's resolv.conf.
//!
//! Worker 0 hears of a change and puts the new list here; a worker looks at one number for each question.
//!
//! Locks: `list` (class STATS), never held over a call.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{LockClass, Mutex, order};

static LIST: LockClass = LockClass::new("gateway name servers", order::STATS);

/// The list.
#[derive(Debug)]
pub(super) struct HostServers {
    /// Which one it is. Relaxed: the lock is the order.
    number: AtomicU64,
    list: Mutex<Vec<SocketAddr>>,
}

impl HostServers {
    /// The first list: number 0.
    pub(super) fn new(list: Vec<SocketAddr>) -> HostServers {
        HostServers {
            number: AtomicU64::new(0),
            list: Mutex::new(&LIST, list),
        }
    }

    /// Puts another list in its place.
    pub(super) fn replace(&self, list: Vec<SocketAddr>) {
        let mut now = self.list.lock();
        let before = std::mem::replace(&mut *now, list);
        self.number.fetch_add(1, Ordering::Relaxed);
        drop(now);
        drop(before);
    }

    /// The list with its number, unless that is `known`.
    pub(super) fn newer_than(&self, known: u64) -> Option<(u64, Vec<SocketAddr>)> {
        if self.number.load(Ordering::Relaxed) == known {
            return None;
        }
        let list = self.list.lock();
        Some((self.number.load(Ordering::Relaxed), list.clone()))
    }
}
