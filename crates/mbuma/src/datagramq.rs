//! The receive queue of a datagram socket: whole messages, first in, first out, and whom to wake.
//!
//! Called by: udp and icmp (push), their sockets (pop). Calls: nothing; wakers are handed back, to be
//! called when no lock is held.
//!
//! Invariants: at most `items_max` items and [`PINNED_MAX`] bytes of memory; a waker is handed back
//! exactly when the queue stops being empty.
//! Locks: `inner` (UDP). Sources: the sockbuf of 4.4BSD's datagram sockets.

use std::collections::VecDeque;
use std::task::Waker;

use kern::{LockClass, Mutex, order};

static QUEUE: LockClass = LockClass::new("datagram queue", order::UDP);

/// Memory that a queue keeps from being reused at most: what is pinned counts, not what is shown.
const PINNED_MAX: usize = 8 << 20;

/// A bounded queue of messages.
#[derive(Debug)]
pub(crate) struct Datagramq<T> {
    inner: Mutex<Inner<T>>,
    items_max: usize,
}

#[derive(Debug)]
struct Inner<T> {
    /// Each with the memory it pins.
    items: VecDeque<(T, usize)>,
    pinned: usize,
    waker: Option<Waker>,
}

impl<T> Datagramq<T> {
    pub(crate) const fn new(items_max: usize) -> Self {
        let inner = Inner {
            items: VecDeque::new(),
            pinned: 0,
            waker: None,
        };
        Self {
            inner: Mutex::new(&QUEUE, inner),
            items_max,
        }
    }

    /// Adds an item that keeps `pinned` bytes from being reused. Hands back whom to wake; or the item,
    /// if the queue is full.
    #[doc(alias = "sbappendaddr")]
    pub(crate) fn push(&self, item: T, pinned: usize) -> Result<Option<Waker>, T> {
        let mut inner = self.inner.lock();
        if inner.items.len() >= self.items_max || inner.pinned + pinned > PINNED_MAX {
            return Err(item);
        }
        let was_empty = inner.items.is_empty();
        inner.items.push_back((item, pinned));
        inner.pinned += pinned;
        Ok(was_empty.then(|| inner.waker.clone()).flatten())
    }

    /// Takes the oldest item.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut inner = self.inner.lock();
        let (item, pinned) = inner.items.pop_front()?;
        inner.pinned -= pinned;
        Some(item)
    }

    /// Whom to wake from now on; handed back at once if there is something already.
    #[must_use]
    pub(crate) fn set_waker(&self, waker: Waker) -> Option<Waker> {
        let mut inner = self.inner.lock();
        let now = (!inner.items.is_empty()).then(|| waker.clone());
        // The old waker's drop is its owner's code: it runs when the lock is released.
        let old = inner.waker.replace(waker);
        drop(inner);
        drop(old);
        now
    }

    /// Drops what is queued and wakes nobody any more.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        let items = std::mem::take(&mut inner.items);
        let waker = inner.waker.take();
        inner.pinned = 0;
        drop(inner);
        drop((items, waker));
    }
}

#[cfg(test)]
mod tests;
