//! Our way of counting, in the bare mbuf that the others are built into: a count beside the cluster, in a side table
//! of its zone. As it is, and with an mbuf of 64 bytes.
//!
//! Source: `mbuf/src/ext.rs`, whose protocol this repeats alone, to compare it with the other protocols; seed 004
//! section 5.4 for counts beside clusters, and 5.6 for the mini-mbuf: a smaller one, without room for data inside,
//! which only refers to storage outside.
//!
//! ```text
//!   mbuf --+--> cluster           count in the zone's table, a line each
//!   mbuf --+
//! ```
//!
//! Invariant: the count is the number of mbufs that refer to the cluster. A count of 1 is the holder's alone: it is
//! raised, and the cluster dropped, without an atomic read-modify-write. Locks: none.

use super::mbufs::{Address, Protocol, Zones, cluster, link, set_link};
use crate::refs::design::{Absent, out_of_memory};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use uma::ZoneBuilder;

/// Counts beside clusters, with mbufs of `MBUF_BYTES` bytes.
pub(crate) struct Counted<const MBUF_BYTES: usize>;

/// Where the count is.
pub(crate) struct Link(NonNull<AtomicU32>);

/// A sharer above this count is refused: far below overflow, so that a race of refusals can't wrap.
const COUNT_MAX: u32 = u32::MAX / 2;

/// Counts one more; the caller has a reference, and no other thread uses that one meanwhile.
#[inline]
pub(super) fn one_more(count: &AtomicU32, name: &str) {
    // Acquire: those that left have done so.
    if count.load(Ordering::Acquire) == 1 {
        count.store(2, Ordering::Relaxed);
    } else if count.fetch_add(1, Ordering::Relaxed) > COUNT_MAX {
        out_of_memory(name)
    }
}

/// Counts one less. Says whether it was the last, whose cluster is the caller's to free.
#[inline]
pub(super) fn one_less(count: &AtomicU32) -> bool {
    // Acquire, here and in the fence: the free comes after all that the others did, which left with Release.
    count.load(Ordering::Acquire) == 1 || {
        let before = count.fetch_sub(1, Ordering::Release);
        fence(Ordering::Acquire);
        before == 1
    }
}

impl Link {
    /// The count.
    ///
    /// # Safety
    /// The caller has a reference to the cluster until it does not use the result any more.
    #[inline]
    unsafe fn count<'a>(&self) -> &'a AtomicU32 {
        // SAFETY: a count lives as long as its cluster.
        unsafe { self.0.as_ref() }
    }
}

impl<const MBUF_BYTES: usize> Protocol for Counted<MBUF_BYTES> {
    const NAME: &'static str = "counted";
    const MBUF_BYTES: usize = MBUF_BYTES;

    type Link = Link;

    fn new() -> Result<Self, Absent> {
        Ok(Self)
    }

    fn clusters(zone: ZoneBuilder) -> ZoneBuilder {
        zone.refcounts()
    }

    #[inline]
    unsafe fn first(&self, zones: &Zones, _: Address<Self>, cluster: NonNull<u8>) -> Link {
        // SAFETY: the cluster is live and of this zone, which was built with counts.
        let count = unsafe { zones.clusters().refcount(cluster) };
        // Relaxed: the hand-over of a reference to a thread synchronises.
        count.store(1, Ordering::Relaxed);
        Link(NonNull::from(count))
    }

    #[inline]
    unsafe fn share(&self, from: Address<Self>, to: Address<Self>) {
        // SAFETY: the caller has it.
        let own = unsafe { link(from) };
        // SAFETY: `from` is a reference.
        one_more(unsafe { own.count() }, Self::NAME);
        // SAFETY: no other code knows it yet.
        unsafe { set_link(to, Link(own.0)) };
    }

    #[inline]
    unsafe fn release(&self, zones: &Zones, mbuf: Address<Self>) {
        // SAFETY: the caller has it.
        let own = unsafe { link(mbuf) };
        // SAFETY: the caller has the mbuf.
        let cluster = unsafe { cluster(mbuf) };
        // SAFETY: `mbuf` is a reference, until the decrement.
        if one_less(unsafe { own.count() }) {
            // SAFETY: the last reference goes here.
            unsafe { zones.free_cluster(cluster) };
        }
        // SAFETY: no other code knows it.
        unsafe { zones.free_mbuf(mbuf) };
    }
}
