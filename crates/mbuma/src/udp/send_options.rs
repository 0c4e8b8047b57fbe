//! How a socket sends: how far, in which traffic class, whether in fragments; to groups, also by which interface, and
//! whether the members in its own stack get its datagrams.
//!
//! Invariants: none. Locks: none; a datagram that misses a change counts as one that was sent before it.
//! Sources: RFC 1122 section 4.1.4, RFC 1112 sections 6.1 and 6.2, RFC 3493 section 5.2.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use wire::IpProto;

use crate::ifnet::IfIndex;
use crate::ip::Service;

/// The hops that a datagram to a group lives at most, unless the program says otherwise.
const GROUP_TTL_DEFAULT: u8 = 1;

/// The options of a socket.
#[derive(Debug)]
#[doc(alias = "ip_moptions")]
pub(crate) struct SendOptions {
    /// 0: the stack's.
    ttl: AtomicU8,
    traffic_class: AtomicU8,
    dont_fragment: AtomicBool,
    group_ttl: AtomicU8,
    loops: AtomicBool,
    /// 0: that of the route.
    link: AtomicU32,
}

impl SendOptions {
    pub(super) fn new() -> Self {
        Self {
            ttl: AtomicU8::new(0),
            traffic_class: AtomicU8::new(0),
            dont_fragment: AtomicBool::new(false),
            group_ttl: AtomicU8::new(GROUP_TTL_DEFAULT),
            loops: AtomicBool::new(true),
            link: AtomicU32::new(0),
        }
    }

    /// Of a datagram to a host.
    #[inline]
    pub(super) fn service(&self) -> Service {
        Service {
            tos: self.traffic_class(),
            ttl: self.ttl(),
            df: self.dont_fragment(),
            ..Service::of(IpProto::UDP)
        }
    }

    /// Of a datagram to a group.
    pub(super) fn group_service(&self) -> Service {
        Service {
            ttl: self.group_ttl(),
            ..self.service()
        }
    }

    /// 0 is the stack's.
    pub(crate) fn ttl(&self) -> u8 {
        self.ttl.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ttl(&self, ttl: u8) {
        self.ttl.store(ttl, Ordering::Relaxed);
    }

    pub(crate) fn traffic_class(&self) -> u8 {
        self.traffic_class.load(Ordering::Relaxed)
    }

    pub(crate) fn set_traffic_class(&self, class: u8) {
        self.traffic_class.store(class, Ordering::Relaxed);
    }

    pub(crate) fn dont_fragment(&self) -> bool {
        self.dont_fragment.load(Ordering::Relaxed)
    }

    pub(crate) fn set_dont_fragment(&self, dont: bool) {
        self.dont_fragment.store(dont, Ordering::Relaxed);
    }

    pub(crate) fn group_ttl(&self) -> u8 {
        self.group_ttl.load(Ordering::Relaxed)
    }

    pub(crate) fn set_group_ttl(&self, ttl: u8) {
        self.group_ttl.store(ttl, Ordering::Relaxed);
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
