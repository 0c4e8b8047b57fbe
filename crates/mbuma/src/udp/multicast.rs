//! How a socket sends to groups: by which interface, how far, and whether the members in its own stack get its
//! datagrams.
//!
//! Invariants: none. Locks: none; a datagram that misses a change counts as one that was sent before it.
//! Sources: RFC 1112 sections 6.1 and 6.2, RFC 3493 section 5.2.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use crate::ifnet::IfIndex;

/// The hops that a datagram lives at most, unless the program says otherwise.
const TTL_DEFAULT: u8 = 1;

/// The options of a socket.
#[derive(Debug)]
#[doc(alias = "ip_moptions")]
pub(crate) struct MulticastOptions {
    ttl: AtomicU8,
    loops: AtomicBool,
    /// 0: that of the route.
    link: AtomicU32,
}

impl MulticastOptions {
    pub(super) fn new() -> Self {
        Self {
            ttl: AtomicU8::new(TTL_DEFAULT),
            loops: AtomicBool::new(true),
            link: AtomicU32::new(0),
        }
    }

    pub(crate) fn ttl(&self) -> u8 {
        self.ttl.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ttl(&self, ttl: u8) {
        self.ttl.store(ttl, Ordering::Relaxed);
    }

    /// Whether the members in the socket's own stack get its datagrams.
    pub(crate) fn loops(&self) -> bool {
        self.loops.load(Ordering::Relaxed)
    }

    pub(crate) fn set_loops(&self, loops: bool) {
        self.loops.store(loops, Ordering::Relaxed);
    }

    /// The interface to send by, if the program chose one.
    pub(crate) fn link(&self) -> Option<IfIndex> {
        let index = self.link.load(Ordering::Relaxed);
        (index != 0).then_some(IfIndex(index))
    }

    pub(crate) fn set_link(&self, link: Option<IfIndex>) {
        self.link
            .store(link.map_or(0, IfIndex::number), Ordering::Relaxed);
    }
}
