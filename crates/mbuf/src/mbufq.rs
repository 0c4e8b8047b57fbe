//! A queue of packets, linked through the packets themselves: queueing a packet allocates no
//! memory, and the whole queue moves in O(1) (seed 003).
//!
//! Invariants: `tail` is the last packet's first mbuf; `len` counts the packets.

use core::fmt;
use core::mem;

use kern::work_queue::Items;

use crate::mbuf::MbufPtr;
use crate::packet::Packet;
use crate::raw::MSIZE;
use crate::storage::{Mapped, Storage};

/// First in, first out. `S` restricts the mbufs of the packets.
#[doc(alias = "mbufq")]
pub struct Mbufq<S: Storage = Mapped> {
    head: Option<Packet<S>>,
    tail: Option<MbufPtr>,
    len: usize,
}

impl<S: Storage> Mbufq<S> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            head: None,
            tail: None,
            len: 0,
        }
    }

    /// Packets in the queue.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn enqueue(&mut self, packet: Packet<S>) {
        let tail = MbufPtr::of(packet.first());
        self.link(packet, tail);
        self.len += 1;
    }

    /// Adds a list of packets, the last of which is at `tail`.
    #[inline]
    fn link(&mut self, head: Packet<S>, tail: MbufPtr) {
        match &mut self.tail {
            // SAFETY: our last packet's first mbuf, reached only through `self`, which is borrowed.
            Some(last) => unsafe { last.get_mut() }.set_nextpkt(head.into_list()),
            None => self.head = Some(head),
        }
        self.tail = Some(tail);
    }

    /// Takes the packet at the front.
    ///
    /// The caller probably reads its second mbuf soon, and then the next packet. If another CPU wrote them, each line
    /// takes up to 200 ns to come, one after the other: so the CPU is told beforehand.
    #[inline]
    pub fn dequeue(&mut self) -> Option<Packet<S>> {
        let mut packet = self.head.take()?;
        self.head = packet.first_mut().take_nextpkt().map(Packet::of);
        self.len -= 1;
        match &self.head {
            Some(next) => next.first().prefetch(MSIZE),
            None => self.tail = None,
        }
        if let Some(second) = packet.first().next() {
            second.prefetch(64);
        }
        Some(packet)
    }

    /// Takes every packet, in O(1).
    #[doc(alias = "mbufq_flush")]
    pub fn take_all(&mut self) -> Self {
        mem::take(self)
    }

    /// Adds all of `other` at the end, in O(1).
    #[doc(alias = "mbufq_concat")]
    pub fn append(&mut self, other: &mut Self) {
        let (head, tail) = (other.head.take(), other.tail.take());
        let len = mem::take(&mut other.len);
        if let (Some(head), Some(tail)) = (head, tail) {
            self.link(head, tail);
            self.len += len;
        }
    }
}

impl<S: Storage> Default for Mbufq<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Storage> Iterator for Mbufq<S> {
    type Item = Packet<S>;

    #[inline]
    fn next(&mut self) -> Option<Packet<S>> {
        self.dequeue()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl<S: Storage> Items for Mbufq<S> {
    fn len(&self) -> usize {
        self.len
    }

    fn take_from(&mut self, other: &mut Self, n: usize) {
        if n >= other.len {
            return self.append(other);
        }
        for packet in other.by_ref().take(n) {
            self.enqueue(packet);
        }
    }
}

impl<S: Storage> Drop for Mbufq<S> {
    fn drop(&mut self) {
        // One after the other: packets own the ones queued behind them, but do not drop them.
        while self.dequeue().is_some() {}
    }
}

impl<S: Storage> fmt::Debug for Mbufq<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbufq").field("len", &self.len).finish()
    }
}
