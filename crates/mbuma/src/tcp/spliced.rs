//! The splices that a connection is a side of, and when those that are idle end.
//!
//! A connection is the source of one splice at most, and the sink of one. While it is, the splice is told of what comes, or
//! of room, in the place of the program: see [`socket::splice`](crate::socket).
//!
//! Locks: the connection's (CONN) over [`AttachedLayers`]; [`IdleSplices`] has its own (CALLOUT).
//! Source: SO_SPLICE of OpenBSD and FreeBSD.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use kern::prim::Mutex;
use kern::{LockClass, Time, order};

use super::due::Due;
use crate::batch::{Batch, Deferred};
use crate::tls::TlsSession;

static IDLE: LockClass = LockClass::new("idle splices", order::CALLOUT);

/// A splice, as the connections at its sides see it.
pub(crate) trait SpliceTurn: Deferred + fmt::Debug {
    /// There may be something to move: the splice gets a turn at the end of the batch. The connection is locked.
    fn queue(self: Arc<Self>, batch: &mut Batch<'_>);

    /// The same for a change that a program makes outside of a batch. No lock is held.
    fn queue_outside(self: Arc<Self>);

    /// The other end of the connection that the data goes to, if this process has it.
    fn sink_peer(&self) -> Option<SplicePeer>;

    /// The program of a connection at one of its sides has dropped that.
    fn side_dropped(&self);

    /// Its time has come: it may have been idle for too long, and has itself looked at again if not; or it waited for buffers.
    fn check_idle(self: Arc<Self>, batch: &mut Batch<'_>);
}

/// The other end of a connection: the next hop of data that a splice sends.
pub(crate) struct SplicePeer {
    /// Tells it apart from other connections of the process.
    pub(crate) id: usize,
    /// The splice that takes what it receives.
    pub(crate) splice: Option<Arc<dyn SpliceTurn>>,
}

/// The layers between a connection and its program: splices, and TLS. One box, because an idle connection has none.
#[derive(Debug, Default)]
pub(crate) struct AttachedLayers {
    /// The splice that takes its received data.
    #[doc(alias = "so_splice")]
    pub(crate) as_source: Option<Arc<dyn SpliceTurn>>,
    /// The splice that gives it data to send.
    #[doc(alias = "so_splice_back")]
    pub(crate) as_sink: Option<Arc<dyn SpliceTurn>>,
    /// Seals what is sent and opens what is received.
    pub(crate) tls: Option<Box<TlsSession>>,
}

impl AttachedLayers {
    /// Gives the splices that `due` is about a turn; returns what they are told in the place of the program.
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

/// The splices with a bound on their idle time, and those that wait for buffers, by when they are looked at next. A move does not touch this list: a splice
/// that has moved something since is put off when its time comes. One that ends leaves it.
#[derive(Debug)]
pub(crate) struct IdleSplices(Mutex<IdleList>);

/// The place of a splice in the list: when it is looked at, and a number.
pub(crate) type IdleKey = (Time, u64);

#[derive(Debug)]
struct IdleList {
    by_time: BTreeMap<IdleKey, Weak<dyn SpliceTurn>>,
    number: u64,
}

impl IdleSplices {
    pub(super) fn new() -> Self {
        let watched = IdleList {
            by_time: BTreeMap::new(),
            number: 0,
        };
        Self(Mutex::new(&IDLE, watched))
    }

    /// Looks at a splice at `at`. The CPU of the shared timers must be told.
    pub(crate) fn watch(&self, at: Time, splice: Weak<dyn SpliceTurn>) -> IdleKey {
        let mut watched = self.0.lock();
        watched.number += 1;
        let key = (at, watched.number);
        watched.by_time.insert(key, splice);
        key
    }

    /// Looks at it no more: the list keeps the memory of a splice that has ended.
    pub(crate) fn forget(&self, key: IdleKey) {
        let splice = self.0.lock().by_time.remove(&key);
        drop(splice);
    }

    /// Looks at those whose time has come.
    pub(crate) fn run(&self, batch: &mut Batch<'_>) {
        while let Some(splice) = self.pop_due(batch.now) {
            if let Some(splice) = splice.upgrade() {
                splice.check_idle(batch);
            }
        }
    }

    fn pop_due(&self, now: Time) -> Option<Weak<dyn SpliceTurn>> {
        let mut watched = self.0.lock();
        let first = watched.by_time.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When [`IdleSplices::run`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let watched = self.0.lock();
        watched.by_time.first_key_value().map(|(key, _)| key.0)
    }
}
