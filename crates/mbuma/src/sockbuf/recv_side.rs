//! The receive side of a datagram socket: a [`RecordBuf`] under a lock, with the readers that wait for it.
//!
//! Wakers are handed back, to be called when no lock is held. They are handed back exactly when the buffer stops being empty.
//!
//! Locks: `inner` (UDP). Source: the sockbuf of 4.4BSD's datagram sockets.

use std::task::Waker;

use kern::{Giant, Guarded, LockClass, order};

use super::records::{Ancillary, QueuedRecord, RecordBuf};
use crate::waiters::{FutureId, WaitBy, WaiterSet, Wakes, Want};

#[cfg(test)]
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
    /// An empty one that takes `records_max` messages, or as many as come to 2 MiB.
    pub(crate) fn new(records_max: usize) -> Self {
        let inner = ReceiveQueue {
            buf: RecordBuf::new(HIWAT, records_max),
            readers: WaiterSet::new(),
        };
        Self {
            inner: Guarded::new(&RECV, inner),
        }
    }

    /// Adds a message. Returns the readers to wake.
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

    /// Takes the oldest message. If there is none, the call that waits is told when one comes.
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

    /// The future waits no more.
    pub(crate) fn forget(&self, giant: &Giant, id: FutureId) {
        let old = self.inner.lock(giant).readers.forget(Want::Read, id);
        drop(old);
    }

    /// Whether there is no message.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock_inside().buf.is_empty()
    }

    /// Sets the waker that stays. It comes back, to be called at once, if there is a message already.
    #[must_use]
    pub(crate) fn set_waker(&self, giant: &Giant, waker: Waker) -> Option<Waker> {
        let mut inner = self.inner.lock(giant);
        let now = (!inner.buf.is_empty()).then(|| waker.clone());
        // The old waker's drop is its owner's code: it runs when the lock is released.
        let old = inner.readers.keep(Want::Read, Some(waker));
        drop(inner);
        drop(old);
        now
    }

    /// Drops all messages, and wakes no reader any more.
    pub(crate) fn close(&self, giant: &Giant) {
        let mut inner = self.inner.lock(giant);
        let records = inner.buf.flush();
        let readers = inner.readers.clear();
        drop(inner);
        drop((records, readers));
    }
}
