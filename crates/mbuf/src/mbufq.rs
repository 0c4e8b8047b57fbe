//! A queue of packets, linked through the packets themselves: nothing is allocated to queue one,
//! and the whole queue changes hands in O(1) (seed 003).

use core::fmt;
use core::mem;
use core::ptr::{self, NonNull};

use crate::packet::Packet;
use crate::raw::RawMbuf;

/// First in, first out.
#[doc(alias = "mbufq")]
pub struct Mbufq {
    head: *mut RawMbuf,
    tail: *mut RawMbuf,
    len: usize,
}

// SAFETY: the queue owns its packets, which are Send.
unsafe impl Send for Mbufq {}
// SAFETY: `&Mbufq` offers nothing but its length.
unsafe impl Sync for Mbufq {}

impl Mbufq {
    /// An empty queue.
    pub const fn new() -> Self {
        Self { head: ptr::null_mut(), tail: ptr::null_mut(), len: 0 }
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
        let m = packet.into_raw().as_ptr();
        // SAFETY: `m` is ours now, and a non-null tail is the queue's last packet.
        unsafe {
            (*m).nextpkt = ptr::null_mut();
            match self.tail.as_mut() {
                Some(tail) => tail.nextpkt = m,
                None => self.head = m,
            }
        }
        self.tail = m;
        self.len += 1;
    }

    /// Takes the packet at the front.
    #[inline]
    pub fn dequeue(&mut self) -> Option<Packet> {
        let m = NonNull::new(self.head)?;
        // SAFETY: `m` is the queue's first packet; it leaves the queue here and is owned by the
        // handle that is returned.
        unsafe {
            self.head = (*m.as_ptr()).nextpkt;
            (*m.as_ptr()).nextpkt = ptr::null_mut();
            self.len -= 1;
            if self.head.is_null() {
                self.tail = ptr::null_mut();
            }
            Some(Packet::from_raw(m))
        }
    }

    /// Takes every packet, in O(1).
    #[doc(alias = "mbufq_flush")]
    pub fn take_all(&mut self) -> Self {
        mem::take(self)
    }

    /// Adds all of `other` at the end, in O(1).
    #[doc(alias = "mbufq_concat")]
    pub fn append(&mut self, other: &mut Self) {
        let other = mem::take(other);
        if other.head.is_null() {
            return;
        }
        // SAFETY: a non-null tail is the queue's last packet.
        match unsafe { self.tail.as_mut() } {
            Some(tail) => tail.nextpkt = other.head,
            None => self.head = other.head,
        }
        self.tail = other.tail;
        self.len += other.len;
        mem::forget(other);
    }
}

impl Default for Mbufq {
    fn default() -> Self {
        Self::new()
    }
}

impl Iterator for Mbufq {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        self.dequeue()
    }
}

impl Drop for Mbufq {
    fn drop(&mut self) {
        while self.dequeue().is_some() {}
    }
}

impl fmt::Debug for Mbufq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbufq").field("len", &self.len).finish()
    }
}
