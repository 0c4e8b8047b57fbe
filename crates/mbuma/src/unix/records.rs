//! Messages in the order in which they came, and what they count as.
//!
//! Called by: `rcvbuf.rs`, under its lock. Calls: mbuf. Locks: none of its own.
//!
//! Invariants: `charged` is the sum of the records' costs; only a stream's last record grows, and only
//! if nothing goes with it.

use std::collections::VecDeque;
use std::collections::vec_deque::IntoIter;

use mbuf::{Chain, MSIZE, MbufPool, NoBufs};

use super::message::{Received, Sender};
use super::rights::Cargo;

/// Bytes that are copied to behind the last one rather than kept in an mbuf of their own.
const FEW: usize = 64;

/// A message that waits; of a stream, all messages that nothing goes with, up to the next that is not so.
pub(super) struct Record {
    pub(super) data: Chain,
    pub(super) cargo: Vec<Cargo>,
    pub(super) sender: Option<Sender>,
}

impl Record {
    /// What it counts as: the larger of what it shows and a quarter of what it pins, and an mbuf for
    /// itself and for each thing that goes with it.
    fn cost(&self) -> usize {
        let data = self.data.len().max(self.data.pinned() / 4);
        data + MSIZE * (1 + self.cargo.len())
    }
}

/// What waits.
#[derive(Default)]
pub(super) struct Records {
    queue: VecDeque<Record>,
    charged: usize,
}

impl Records {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What all of it counts as.
    #[doc(alias = "sb_mbcnt")]
    pub(super) fn charged(&self) -> usize {
        self.charged
    }

    /// Adds a record.
    #[doc(alias = "sbappendrecord")]
    pub(super) fn push(&mut self, record: Record) {
        self.charged += record.cost();
        self.queue.push_back(record);
    }

    /// Adds a record's bytes to the last one, if nothing goes with either. A chain whose bytes were copied
    /// comes back.
    #[doc(alias = "sbappend")]
    #[doc(alias = "sbcompress")]
    pub(super) fn join(&mut self, pool: &MbufPool, mut record: Record) -> Option<Chain> {
        let plain = record.cargo.is_empty();
        let last = self
            .queue
            .back_mut()
            .filter(|r| plain && r.cargo.is_empty());
        let Some(last) = last else {
            self.push(record);
            return None;
        };
        self.charged -= last.cost();
        let mut few = [0; FEW];
        let small = few.get_mut(..record.data.len());
        let copied = small.is_some_and(|bytes| {
            record.data.copy_to(0, bytes) && last.data.extend_from_slice(pool, bytes).is_ok()
        });
        if !copied {
            last.data.append(std::mem::take(&mut record.data));
        }
        self.charged += last.cost();
        Some(record.data)
    }

    /// Up to `max` bytes of the first record. What goes with it goes with its first byte.
    pub(super) fn take_bytes(&mut self, max: usize) -> Result<(Received, Vec<Cargo>), NoBufs> {
        let Some(front) = self.queue.front_mut().filter(|_| max > 0) else {
            return Ok((Received::default(), Vec::new()));
        };
        let cost = front.cost();
        let received = Received {
            data: front.data.take_front(max)?,
            ..Received::default()
        };
        let cargo = std::mem::take(&mut front.cargo);
        self.charged -= cost;
        match front.data.is_empty() {
            true => drop(self.queue.pop_front()),
            false => self.charged += front.cost(),
        }
        Ok((received, cargo))
    }

    /// The first record, whole.
    pub(super) fn take_record(&mut self) -> (Received, Vec<Cargo>) {
        let Some(record) = self.queue.pop_front() else {
            return (Received::default(), Vec::new());
        };
        self.charged -= record.cost();
        let received = Received {
            data: record.data,
            sender: record.sender,
            ..Received::default()
        };
        (received, record.cargo)
    }
}

impl IntoIterator for Records {
    type Item = Record;
    type IntoIter = IntoIter<Record>;

    fn into_iter(self) -> Self::IntoIter {
        self.queue.into_iter()
    }
}
