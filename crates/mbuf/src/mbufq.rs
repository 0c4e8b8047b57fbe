//! A queue of packets, linked through the packets themselves: nothing is allocated to queue one,
//! and the whole queue changes hands in O(1) (seed 003).
//!
//! Invariants: `tail` is the last packet's first mbuf; `len` counts the packets. Called by: devices,
//! netisr. Calls: [`Packet`].

use core::fmt;
use core::mem;

use kern::handoff::Row;

use crate::mbuf::Mark;
use crate::packet::Packet;

/// First in, first out.
#[doc(alias = "mbufq")]
#[derive(Default)]
pub struct Mbufq {
    head: Option<Packet>,
    tail: Option<Mark>,
    len: usize,
}

impl Mbufq {
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
    pub fn enqueue(&mut self, packet: Packet) {
        let tail = Mark::of(packet.first());
        self.link(packet, tail);
        self.len += 1;
    }

    /// Adds a row of packets, the last of which is at `tail`.
    #[inline]
    fn link(&mut self, head: Packet, tail: Mark) {
        match &mut self.tail {
            // SAFETY: our last packet's first mbuf, reached only through `self`, which is borrowed.
            Some(last) => unsafe { last.get_mut() }.set_nextpkt(head.into_list()),
            None => self.head = Some(head),
        }
        self.tail = Some(tail);
    }

    /// Takes the packet at the front.
    #[inline]
    pub fn dequeue(&mut self) -> Option<Packet> {
        let mut packet = self.head.take()?;
        self.head = packet.first_mut().take_nextpkt().map(Packet::of);
        self.len -= 1;
        if self.head.is_none() {
            self.tail = None;
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

impl Iterator for Mbufq {
    type Item = Packet;

    #[inline]
    fn next(&mut self) -> Option<Packet> {
        self.dequeue()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl Row for Mbufq {
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

impl Drop for Mbufq {
    fn drop(&mut self) {
        // One after the other: packets own the ones queued behind them, but do not drop them.
        while self.dequeue().is_some() {}
    }
}

impl fmt::Debug for Mbufq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbufq").field("len", &self.len).finish()
    }
}
