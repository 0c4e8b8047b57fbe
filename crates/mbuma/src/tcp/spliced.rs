//! The splices of which a connection is a side, and the end of idle ones.
//!
//! A connection is the source of at most one splice, and the sink of at most one. Meanwhile it reports data, or room,
//! to the splice instead of the program: see [`socket::splice`](crate::socket).
//!
//! Locks: the connection's (CONN) over [`AttachedLayers`]; [`IdleSplices`] has its own (CALLOUT).
//! Source: SO_SPLICE of OpenBSD and FreeBSD.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use kern::prim::Mutex;
use kern::{AtomicDeadline, LockClass, Time, order};

use super::due::Due;
use crate::batch::{Batch, Deferred};
use crate::tls::TlsSession;

static IDLE: LockClass = LockClass::new("idle splices", order::CALLOUT);

/// A splice, as the connections at its sides see it.
pub(crate) trait SpliceTurn: Deferred + fmt::Debug {
    /// Schedules a turn at the end of the batch, because there may be bytes to move. The connection is locked.
    fn queue(self: Arc<Self>, batch: &mut Batch<'_>);

    /// The same for a change that a program makes outside of a batch. No lock is held.
    fn queue_outside(self: Arc<Self>);

    /// The other end of the connection to which the data goes, if that is in this process.
    fn sink_peer(&self) -> Option<SplicePeer>;

    /// The program has dropped one of the two connections.
    fn side_dropped(&self);

    /// Its time has come: it ends if it was idle for too long, and otherwise sets the next time; or it waited for
    /// buffers.
    fn check_idle(self: Arc<Self>, batch: &mut Batch<'_>);
}

/// The other end of a connection: the next hop of data that a splice sends.
pub(crate) struct SplicePeer {
    /// Its identity among the connections of the process.
    pub(crate) id: usize,
    /// The splice that reads from it.
    pub(crate) splice: Option<Arc<dyn SpliceTurn>>,
}

/// The layers between a connection and its program: splices, and TLS. One box, because an idle connection has none.
#[derive(Debug, Default)]
pub(crate) struct AttachedLayers {
    /// The splice that reads its received data.
    #[doc(alias = "so_splice")]
    pub(crate) as_source: Option<Arc<dyn SpliceTurn>>,
    /// The splice that gives it data to send.
    #[doc(alias = "so_splice_back")]
    pub(crate) as_sink: Option<Arc<dyn SpliceTurn>>,
    /// Seals sent records and opens received ones.
    pub(crate) tls: Option<Box<TlsSession>>,
}

impl AttachedLayers {
    /// Schedules turns for the splices that `due` concerns; returns the changes that were reported to them instead of
    /// the program.
    pub(super) fn queue(&self, batch: &mut Batch<'_>, due: Due) -> Due {
        let ends = [
            (Due::WAKE_READER, &self.as_source),
            (Due::WAKE_WRITER, &self.as_sink),
        ];
        let mut told = Due::empty();
        for (direction, splice) in ends {
            if let Some(splice) = splice {
                told |= direction;
                if due.contains(direction) {
                    Arc::clone(splice).queue(batch);
                }
            }
        }
        told
    }

    pub(crate) fn is_spliced(&self) -> bool {
        self.as_source.is_some() || self.as_sink.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_spliced() && self.tls.is_none()
    }
}

/// The splices with a bound on their idle time, and those that wait for buffers, in the order of their next checks. A
/// move does not change this list: when the time of a splice comes that has moved bytes since, it gets a later time. A
/// splice that ends is removed.
#[derive(Debug)]
pub(crate) struct IdleSplices {
    list: Mutex<IdleList>,
    /// The first time of the list. Written under the lock.
    due: AtomicDeadline,
}

/// The key of a splice in the list: the time of its check, and a number.
pub(crate) type IdleKey = (Time, u64);

#[derive(Debug)]
struct IdleList {
    by_time: BTreeMap<IdleKey, Weak<dyn SpliceTurn>>,
    number: u64,
}

impl IdleSplices {
    pub(super) fn new() -> Self {
        let list = IdleList {
            by_time: BTreeMap::new(),
            number: 0,
        };
        Self {
            list: Mutex::new(&IDLE, list),
            due: AtomicDeadline::new(),
        }
    }

    /// Schedules the check of a splice at `at`. The caller must wake the CPU of the shared timers.
    pub(crate) fn watch(&self, at: Time, splice: Weak<dyn SpliceTurn>) -> IdleKey {
        self.change(|list| {
            list.number += 1;
            let key = (at, list.number);
            list.by_time.insert(key, splice);
            key
        })
    }

    /// Removes a splice: the list would keep its memory after its end.
    pub(crate) fn forget(&self, key: IdleKey) {
        let splice = self.change(|list| list.by_time.remove(&key));
        drop(splice);
    }

    /// Checks the splices whose time has come.
    pub(crate) fn run(&self, batch: &mut Batch<'_>) {
        while let Some(splice) = self.pop_due(batch.now) {
            if let Some(splice) = splice.upgrade() {
                splice.check_idle(batch);
            }
        }
    }

    fn pop_due(&self, now: Time) -> Option<Weak<dyn SpliceTurn>> {
        if self.due.get().is_none_or(|at| at > now) {
            return None;
        }
        self.change(|list| {
            let first = list.by_time.first_entry()?;
            (first.key().0 <= now).then(|| first.remove())
        })
    }

    /// The time at which [`IdleSplices::run`] must be called next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.get()
    }

    fn change<R>(&self, f: impl FnOnce(&mut IdleList) -> R) -> R {
        let mut list = self.list.lock();
        let result = f(&mut list);
        let first = list.by_time.first_key_value();
        self.due.set(first.map(|(key, _)| key.0));
        result
    }
}
