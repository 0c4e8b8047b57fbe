//! A buffer of messages, in the order in which they came.
//!
//! Invariants: `charged` is the sum of the records' charges. [`RecordBuf::join`] lets only the last record grow, and
//! only if nothing belongs to it.
//! Locks: the owner's. Sources: sbappendrecord, sbappendcontrol and sbcompress of 4.4BSD.

use std::collections::VecDeque;
use std::net::IpAddr;

use mbuf::{Chain, MSIZE, MbufPool, NoBufs};

use super::charge;

#[cfg(all(test, not(shuttle)))]
mod tests;

/// Up to so many bytes are copied by [`RecordBuf::join`] to the end of the last record, and get no mbuf of their own.
const FEW: usize = 64;

/// The ancillary data of a record.
#[doc(alias = "control mbuf")]
pub(crate) trait Ancillary {
    /// The number of items in it; each is charged as an mbuf.
    fn count(&self) -> usize {
        0
    }

    /// The record's sender, if it has one.
    fn source(&self) -> Option<IpAddr> {
        None
    }
}

/// A message.
#[derive(Debug, Default)]
pub(crate) struct QueuedRecord<M> {
    pub(crate) data: Chain,
    pub(crate) with: M,
}

impl<M: Ancillary> QueuedRecord<M> {
    /// The part of a buffer's limit that it uses: its data, plus an mbuf for itself and for each ancillary item.
    pub(super) fn charge(&self) -> usize {
        charge(self.data.len(), self.data.pinned()) + MSIZE * (1 + self.with.count())
    }
}

/// Messages, with their limits.
#[doc(alias = "sockbuf")]
#[derive(Debug)]
pub(crate) struct RecordBuf<M> {
    queue: VecDeque<QueuedRecord<M>>,
    charged: usize,
    hiwat: usize,
    records_max: usize,
}

impl<M: Ancillary> RecordBuf<M> {
    /// An empty buffer that is full once `hiwat` bytes are charged, or `records_max` records are in it.
    pub(crate) const fn new(hiwat: usize, records_max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            charged: 0,
            hiwat,
            records_max,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether it takes no record now. A buffer that is not full takes the next record whole, whatever its length.
    pub(crate) fn is_full(&self) -> bool {
        self.charged >= self.hiwat || self.queue.len() >= self.records_max
    }

    /// Whether more than half of it is in use.
    pub(crate) fn is_above_half(&self) -> bool {
        self.charged > self.hiwat / 2
    }

    /// The room that is left, and the room of an empty buffer, both in bytes and approximate.
    pub(crate) fn space(&self) -> (usize, usize) {
        (self.hiwat.saturating_sub(self.charged), self.hiwat)
    }

    pub(crate) fn hiwat(&self) -> usize {
        self.hiwat
    }

    /// Sets the bytes that may be charged; the number of records is bounded by their charges alone from now on.
    pub(crate) fn set_hiwat(&mut self, bytes: usize) {
        (self.hiwat, self.records_max) = (bytes, usize::MAX);
    }

    /// The first record.
    pub(crate) fn front(&self) -> Option<&QueuedRecord<M>> {
        self.queue.front()
    }

    /// All records, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedRecord<M>> {
        self.queue.iter()
    }

    /// Adds a record.
    #[doc(alias = "sbappendrecord")]
    pub(crate) fn push(&mut self, record: QueuedRecord<M>) {
        self.charged += record.charge();
        self.queue.push_back(record);
    }

    /// Adds a record's bytes to the last record, if neither has ancillary data. Returns a chain whose bytes were
    /// copied, to be dropped when no lock is held.
    #[doc(alias = "sbappend")]
    #[doc(alias = "sbcompress")]
    pub(crate) fn join(&mut self, pool: &MbufPool, mut record: QueuedRecord<M>) -> Option<Chain> {
        let plain = record.with.count() == 0;
        let last = self.queue.back_mut();
        let Some(last) = last.filter(|last| plain && last.with.count() == 0) else {
            self.push(record);
            return None;
        };
        self.charged -= last.charge();
        let mut few = [0; FEW];
        let small = few.get_mut(..record.data.len());
        let copied = small.is_some_and(|bytes| {
            record.data.copy_to(0, bytes) && last.data.extend_from_slice(pool, bytes).is_ok()
        });
        if !copied {
            last.data.append(std::mem::take(&mut record.data));
        }
        self.charged += last.charge();
        Some(record.data)
    }

    /// Takes up to `max` bytes of the first record. Its ancillary data comes with its first byte.
    ///
    /// # Errors
    /// No buffers; then nothing has changed.
    pub(crate) fn take_bytes(&mut self, max: usize) -> Result<QueuedRecord<M>, NoBufs>
    where
        M: Default,
    {
        let Some(front) = self.queue.front_mut().filter(|_| max > 0) else {
            return Ok(QueuedRecord::default());
        };
        let before = front.charge();
        let taken = QueuedRecord {
            data: front.data.take_front(max)?,
            with: std::mem::take(&mut front.with),
        };
        self.charged -= before;
        match front.data.is_empty() {
            true => drop(self.queue.pop_front()),
            false => self.charged += front.charge(),
        }
        Ok(taken)
    }

    /// Takes the first record.
    pub(crate) fn pop(&mut self) -> Option<QueuedRecord<M>> {
        let record = self.queue.pop_front()?;
        self.charged -= record.charge();
        Some(record)
    }

    /// Empties it. The caller must drop the records when it holds no lock.
    #[doc(alias = "sbflush")]
    #[must_use = "they are to be dropped without a lock"]
    pub(crate) fn flush(&mut self) -> VecDeque<QueuedRecord<M>> {
        self.charged = 0;
        std::mem::take(&mut self.queue)
    }
}
