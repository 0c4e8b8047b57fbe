//! The receive side of a datagram socket: a [`RecordBuf`] under a lock, with its waiting readers.
//!
//! When the buffer stops being empty, the wakers are returned, and the caller calls them when it holds no lock.
//!
//! Sources may share the buffer: then the messages of one are charged at most as much as they leave of it. So of N
//! sources that flood, each has one part in N + 1 of the buffer, and one part is left for others.
//!
//! Invariants: the bytes in `by_source` are the charges of a source's messages in the buffer; a source without messages
//! stays if there are few, so that one whose messages come and go one by one costs no allocation each.
//! Locks: `inner` (UDP). Source: the sockbuf of 4.4BSD's datagram sockets.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use kern::{Giant, Guarded, LockClass, order};

use super::records::{Ancillary, QueuedRecord, RecordBuf};
use crate::waiters::{FutureId, WaitBy, WaiterSet, Wakes, Want};

#[cfg(all(test, not(shuttle)))]
mod tests;

static RECV: LockClass = LockClass::new("datagram receive side", order::UDP);

/// Bytes that a receive side may be charged: see [`charge`](super::charge).
#[doc(alias = "udp_recvspace")]
const HIWAT: usize = 2 << 20;

/// Sources without messages at most that are kept.
const SOURCES_KEPT: usize = 16;

/// A bounded queue of messages.
#[derive(Debug)]
pub(crate) struct RecvSide<M> {
    inner: Guarded<ReceiveQueue<M>>,
    /// No more messages come. Set before `inner` is locked for the readers' wakers, and read after a reader has left
    /// its waker there.
    cut_off: AtomicBool,
}

#[derive(Debug)]
struct ReceiveQueue<M> {
    buf: RecordBuf<M>,
    readers: WaiterSet,
    /// Bytes charged for each source, if the sources share the buffer.
    by_source: Option<BTreeMap<IpAddr, usize>>,
}

impl<M: Ancillary> ReceiveQueue<M> {
    /// Whether it does not take this message now. If sources share it, each message leaves as much as its source is
    /// charged then, so that no number of sources with large messages fills it. An empty buffer takes any message.
    fn is_full_for(&self, record: &QueuedRecord<M>) -> bool {
        let shared = self.by_source.as_ref().zip(record.with.source());
        let Some((all, source)) = shared.filter(|_| !self.buf.is_empty()) else {
            return self.buf.is_full();
        };
        let (left, charge) = (self.buf.space().0, record.charge());
        let charged = all.get(&source).copied().unwrap_or(0);
        charged + charge > left.saturating_sub(charge)
    }

    fn push(&mut self, record: QueuedRecord<M>) {
        if let Some((all, source)) = self.by_source.as_mut().zip(record.with.source()) {
            *all.entry(source).or_default() += record.charge();
        }
        self.buf.push(record);
    }

    fn pop(&mut self) -> Option<QueuedRecord<M>> {
        let record = self.buf.pop()?;
        if let Some(all) = &mut self.by_source
            && let Some(source) = record.with.source()
        {
            let few = all.len() <= SOURCES_KEPT;
            if let Entry::Occupied(mut entry) = all.entry(source) {
                *entry.get_mut() -= record.charge();
                if *entry.get() == 0 && !few {
                    entry.remove();
                }
            }
        }
        Some(record)
    }
}

impl<M: Ancillary> RecvSide<M> {
    /// An empty one that takes `records_max` messages, or 2 MiB of messages if that is less.
    pub(crate) fn new(records_max: usize) -> Self {
        let inner = ReceiveQueue {
            buf: RecordBuf::new(HIWAT, records_max),
            readers: WaiterSet::new(),
            by_source: None,
        };
        Self {
            inner: Guarded::new(&RECV, inner),
            cut_off: AtomicBool::new(false),
        }
    }

    /// From now on the sources share it, and the number of messages is bounded by their charges alone.
    pub(crate) fn share_by_source(&self, giant: &Giant) {
        let mut inner = self.inner.lock(giant);
        let mut charged = BTreeMap::new();
        for record in inner.buf.iter() {
            if let Some(source) = record.with.source() {
                *charged.entry(source).or_default() += record.charge();
            }
        }
        inner.by_source = Some(charged);
        let hiwat = inner.buf.hiwat();
        // Removes the bound of their number.
        inner.buf.set_hiwat(hiwat);
    }

    /// Adds a message. Returns the wakers of the readers.
    ///
    /// # Errors
    /// It is full for this source; the message comes back, to be dropped.
    #[doc(alias = "sbappendaddr")]
    pub(crate) fn push(&self, record: QueuedRecord<M>) -> Result<Wakes, QueuedRecord<M>> {
        let mut inner = self.inner.lock_inside();
        if inner.is_full_for(&record) {
            return Err(record);
        }
        let was_empty = inner.buf.is_empty();
        inner.push(record);
        Ok(match was_empty {
            true => inner.readers.take(Want::Read),
            false => Wakes::default(),
        })
    }

    /// Takes the oldest message. If there is none, `waiting` is woken when one comes.
    pub(crate) fn pop(
        &self,
        giant: &Giant,
        waiting: Option<WaitBy<'_>>,
    ) -> Option<QueuedRecord<M>> {
        let mut inner = self.inner.lock(giant);
        let record = inner.pop();
        if let (None, Some(waiting)) = (&record, waiting) {
            inner.readers.register(Want::Read, waiting);
        }
        record
    }

    /// Looks at the oldest message.
    pub(crate) fn peek<R>(
        &self,
        giant: &Giant,
        look: impl FnOnce(&QueuedRecord<M>) -> R,
    ) -> Option<R> {
        self.inner.lock(giant).buf.front().map(look)
    }

    /// The bytes that it may be charged.
    pub(crate) fn hiwat(&self, giant: &Giant) -> usize {
        self.inner.lock(giant).buf.hiwat()
    }

    /// Sets the bytes that it may be charged, which is from now on the only bound. Messages that wait stay.
    pub(crate) fn set_hiwat(&self, giant: &Giant, bytes: usize) {
        self.inner.lock(giant).buf.set_hiwat(bytes);
    }

    /// The wakers of its readers, which must look again because what they wait for has changed.
    pub(crate) fn take_readers(&self) -> Wakes {
        self.inner.lock_inside().readers.take(Want::Read)
    }

    /// No more messages come. Returns the wakers of the readers.
    pub(crate) fn cut_off(&self) -> Wakes {
        self.cut_off.store(true, Ordering::Release);
        self.take_readers()
    }

    /// Whether no more messages come.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Acquire)
    }

    /// The bytes that are charged.
    pub(crate) fn queued(&self) -> usize {
        let (free, all) = self.inner.lock_inside().buf.space();
        all.saturating_sub(free)
    }

    /// Removes the waker of a future.
    pub(crate) fn forget(&self, giant: &Giant, id: FutureId) {
        let old = self.inner.lock(giant).readers.forget(Want::Read, id);
        drop(old);
    }

    /// Whether there is no message.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock_inside().buf.is_empty()
    }

    /// Sets the waker that stays, or takes it away. If there is a message already, the waker comes back, to be called
    /// at once.
    #[must_use]
    pub(crate) fn set_waker(&self, giant: &Giant, waker: Option<Waker>) -> Option<Waker> {
        let mut inner = self.inner.lock(giant);
        let now = waker.clone().filter(|_| !inner.buf.is_empty());
        // Dropping the old waker runs its owner's code, so it is dropped after the lock is released.
        let old = inner.readers.keep(Want::Read, waker);
        drop(inner);
        drop(old);
        now
    }

    /// Drops all messages and all wakers.
    pub(crate) fn close(&self, giant: &Giant) {
        let mut inner = self.inner.lock(giant);
        let records = inner.buf.flush();
        if let Some(all) = &mut inner.by_source {
            all.clear();
        }
        let readers = inner.readers.clear();
        drop(inner);
        drop((records, readers));
    }
}
