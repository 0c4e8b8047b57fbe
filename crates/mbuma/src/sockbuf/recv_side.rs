//! The receive side of a datagram socket: a [`RecordBuf`] under a lock, with its waiting readers.
//!
//! When the buffer stops being empty, the wakers are returned, and the caller calls them when it holds no lock.
//!
//! Locks: `inner` (UDP). Source: the sockbuf of 4.4BSD's datagram sockets.

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

/// A bounded queue of messages.
#[derive(Debug)]
pub(crate) struct RecvSide<M> {
    inner: Guarded<ReceiveQueue<M>>,
}

#[derive(Debug)]
struct ReceiveQueue<M> {
    buf: RecordBuf<M>,
    readers: WaiterSet,
}

impl<M: Ancillary> RecvSide<M> {
    /// An empty one that takes `records_max` messages, or 2 MiB of messages if that is less.
    pub(crate) fn new(records_max: usize) -> Self {
        let inner = ReceiveQueue {
            buf: RecordBuf::new(HIWAT, records_max),
            readers: WaiterSet::new(),
        };
        Self {
            inner: Guarded::new(&RECV, inner),
        }
    }

    /// Adds a message. Returns the wakers of the readers.
    ///
    /// # Errors
    /// It is full; the message comes back, to be dropped.
    #[doc(alias = "sbappendaddr")]
    pub(crate) fn push(&self, record: QueuedRecord<M>) -> Result<Wakes, QueuedRecord<M>> {
        let mut inner = self.inner.lock_inside();
        if inner.buf.is_full() {
            return Err(record);
        }
        let was_empty = inner.buf.is_empty();
        inner.buf.push(record);
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
        let record = inner.buf.pop();
        if let (None, Some(waiting)) = (&record, waiting) {
            inner.readers.register(Want::Read, waiting);
        }
        record
    }

    /// The wakers of its readers, who must look again: what they wait for has changed.
    pub(crate) fn take_readers(&self, giant: &Giant) -> Wakes {
        self.inner.lock(giant).readers.take(Want::Read)
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
        let readers = inner.readers.clear();
        drop(inner);
        drop((records, readers));
    }
}
