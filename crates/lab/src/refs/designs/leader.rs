//! The first mbuf of a cluster counts for all; if it is freed before the others, it stays until the last one goes.
//!
//! Source: seed 000, the patch before the one that it shows, after FreeBSD's embedded count (`EXT_FLAG_EMBREF`).
//!
//! ```text
//!   follower --.
//!   follower ---> leader: count --> cluster       all of them have the cluster's address themselves
//! ```
//!
//! A share allocates no memory and takes no lock. But a leader that was freed is an mbuf that can't be used, and that
//! two CPUs write to; and the last reference frees another's mbuf.
//!
//! Invariants: the count is the number of mbufs that refer to the cluster, the leader among them until it was freed;
//! a leader's memory stays until the count is zero. A count of 1 is the holder's alone: it is raised without an
//! atomic read-modify-write, as in FreeBSD. Locks: none.

use super::mbufs::{Address, Mbuf, Protocol, Zones, cluster, link, set_link};
use crate::refs::design::Absent;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// It has no state but that in the mbufs.
pub(crate) struct Leader;

/// Which mbuf leads, and how many follow.
pub(crate) struct Link {
    leader: NonNull<Mbuf<Link>>,
    /// The leader's only.
    count: AtomicU32,
}

impl Protocol for Leader {
    const NAME: &'static str = "leader";

    type Link = Link;

    fn new() -> Result<Self, Absent> {
        Ok(Self)
    }

    #[inline]
    unsafe fn first(&self, _: &Zones, mbuf: Address<Self>, _: NonNull<u8>) -> Link {
        Link {
            leader: mbuf,
            count: AtomicU32::new(1),
        }
    }

    #[inline]
    unsafe fn share(&self, from: Address<Self>, to: Address<Self>) {
        // SAFETY: the caller has it.
        let leader = unsafe { link(from) }.leader;
        // SAFETY: `from` counts, so its leader's memory stays.
        let count = &unsafe { link(leader) }.count;
        // Acquire: those that left have done so.
        if count.load(Ordering::Acquire) == 1 {
            count.store(2, Ordering::Relaxed);
        } else {
            // Relaxed: we have a reference.
            count.fetch_add(1, Ordering::Relaxed);
        }
        let follows = Link {
            leader,
            count: AtomicU32::new(0),
        };
        // SAFETY: no other code knows it yet.
        unsafe { set_link(to, follows) };
    }

    #[inline]
    unsafe fn release(&self, zones: &Zones, mbuf: Address<Self>) {
        // SAFETY: the caller has it.
        let leader = unsafe { link(mbuf) }.leader;
        // SAFETY: as above.
        let cluster = unsafe { cluster(mbuf) };
        // SAFETY: `mbuf` counts, so its leader's memory stays until the decrement.
        let count = &unsafe { link(leader) }.count;
        // Acquire, here and in the fence: the free comes after all that the others did, which left with Release.
        let is_last = count.load(Ordering::Acquire) == 1 || {
            let before = count.fetch_sub(1, Ordering::Release);
            fence(Ordering::Acquire);
            before == 1
        };
        if is_last {
            // SAFETY: the last reference goes here.
            unsafe { zones.free_cluster(cluster) };
            // SAFETY: the leader was freed before, or is freed here.
            unsafe { zones.free_mbuf(leader) };
        }
        if mbuf != leader {
            // SAFETY: no mbuf points to a follower.
            unsafe { zones.free_mbuf(mbuf) };
        }
    }
}
