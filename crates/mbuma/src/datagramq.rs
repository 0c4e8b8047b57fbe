//! The receive queue of a datagram socket: whole messages, first in, first out, and whom to wake.
//!
//! Called by: udp and icmp (push), their sockets (pop). Calls: nothing; wakers are handed back, to be
//! called when no lock is held.
//!
//! Invariants: at most `items_max` items and [`PINNED_MAX`] bytes of memory; wakers are handed back
//! exactly when the queue stops being empty.
//! Locks: `inner` (UDP). Sources: the sockbuf of 4.4BSD's datagram sockets.

use std::collections::VecDeque;
use std::task::Waker;

use kern::prim::Mutex;
use kern::{LockClass, order};

use crate::socket::wakers::{Wakers, Wakes};

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
    wakers: Wakers,
}

impl<T> Datagramq<T> {
    pub(crate) fn new(items_max: usize) -> Self {
        let inner = Inner {
            items: VecDeque::new(),
            pinned: 0,
            wakers: Wakers::new(),
        };
        Self {
            inner: Mutex::new(&QUEUE, inner),
            items_max,
        }
    }

    /// Adds an item that keeps `pinned` bytes from being reused. Hands back whom to wake; or the item,
    /// if the queue is full.
    #[doc(alias = "sbappendaddr")]
    pub(crate) fn push(&self, item: T, pinned: usize) -> Result<Wakes, T> {
        let mut inner = self.inner.lock();
        if inner.items.len() >= self.items_max || inner.pinned + pinned > PINNED_MAX {
            return Err(item);
        }
        let was_empty = inner.items.is_empty();
        inner.items.push_back((item, pinned));
        inner.pinned += pinned;
        Ok(match was_empty {
            true => inner.wakers.take(),
            false => Wakes::default(),
        })
    }

    /// Takes the oldest item. If there is none, `waiter` is told when there is one.
    pub(crate) fn pop(&self, waiter: Option<&Waker>) -> Option<T> {
        let mut inner = self.inner.lock();
        let Some((item, pinned)) = inner.items.pop_front() else {
            if let Some(waiter) = waiter {
                inner.wakers.add(waiter);
            }
            return None;
        };
        inner.pinned -= pinned;
        Some(item)
    }

    /// Whether there is nothing; then `waiter` is told when there is something.
    pub(crate) fn is_empty(&self, waiter: Option<&Waker>) -> bool {
        let mut inner = self.inner.lock();
        let empty = inner.items.is_empty();
        if let (true, Some(waiter)) = (empty, waiter) {
            inner.wakers.add(waiter);
        }
        empty
    }

    /// Whom to wake from now on; handed back at once if there is something already.
    #[must_use]
    pub(crate) fn set_waker(&self, waker: Waker) -> Option<Waker> {
        let mut inner = self.inner.lock();
        let now = (!inner.items.is_empty()).then(|| waker.clone());
        // The old waker's drop is its owner's code: it runs when the lock is released.
        let old = inner.wakers.keep(Some(waker));
        drop(inner);
        drop(old);
        now
    }

    /// Drops what is queued and wakes nobody any more.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        let items = std::mem::take(&mut inner.items);
        let wakers = inner.wakers.clear();
        inner.pinned = 0;
        drop(inner);
        drop((items, wakers));
    }
}

#[cfg(test)]
mod tests;
