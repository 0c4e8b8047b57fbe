//! A ring of the mbufs that share a cluster, and one mutex for all rings: OpenBSD until 2026.
//!
//! Source: seed 000: the code that its patch removes (`m_extref`, `m_extunref`, `m_extref_mtx`).
//!
//! ```text
//!   mbuf <--> mbuf <--> mbuf          each knows its neighbours in the ring; nothing is counted,
//!     ^-------------------^           nothing is allocated; alone, it is its own neighbour
//! ```
//!
//! An mbuf that is its own neighbour is not shared, and is freed or joined without the mutex. All others, on any
//! cluster, wait for each other.
//!
//! Invariants: with the mutex held, `next` and `prev` of the mbufs of a ring agree. An mbuf that is alone is changed
//! by its holder only; `next` is the last field that a leaving neighbour writes to it, with Release, and is read
//! without the mutex with Acquire, so that its holder sees all that this neighbour did before it frees. Locks: the
//! one.

use super::mbufs::{Address, Mbuf, Protocol, Zones, cluster, link, set_link};
use super::spin::SpinMutex;
use crate::refs::design::Absent;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The rings' mutex (`m_extref_mtx`).
pub(crate) struct Ring {
    mutex: SpinMutex,
}

/// The neighbours (`ext_nextref`, `ext_prevref`).
pub(crate) struct Neighbours {
    next: AtomicPtr<Mbuf<Neighbours>>,
    prev: AtomicPtr<Mbuf<Neighbours>>,
}

/// Whether others share the cluster (`MCLISREFERENCED`).
///
/// # Safety
/// The mbuf is live.
#[inline]
unsafe fn is_shared(mbuf: Address<Ring>) -> bool {
    // SAFETY: so says the caller.
    unsafe { link(mbuf) }.next.load(Ordering::Acquire) != mbuf.as_ptr()
}

/// The link of a neighbour.
///
/// # Safety
/// It is the link of a live mbuf, which is not freed while the result is used.
#[inline]
unsafe fn neighbour<'a>(at: *mut Mbuf<Neighbours>) -> &'a Neighbours {
    // SAFETY: links hold addresses of mbufs.
    let mbuf = unsafe { NonNull::new_unchecked(at) };
    // SAFETY: so says the caller.
    unsafe { link(mbuf) }
}

/// Puts `new` behind `old`. Relaxed, but where the head of this file says more: the mutex orders the rest.
///
/// # Safety
/// The mutex is held, or `old` is alone and the caller's; the caller alone has `new`.
#[inline]
unsafe fn join(old: Address<Ring>, new: Address<Ring>) {
    // SAFETY: the caller has it.
    let old_link = unsafe { link(old) };
    let after = old_link.next.load(Ordering::Relaxed);
    let neighbours = Neighbours {
        next: AtomicPtr::new(after),
        prev: AtomicPtr::new(old.as_ptr()),
    };
    // SAFETY: no other code knows it yet.
    unsafe { set_link(new, neighbours) };
    old_link.next.store(new.as_ptr(), Ordering::Relaxed);
    // SAFETY: a member of the ring does not go while the mutex is held, or is `old` itself.
    let after = unsafe { neighbour(after) };
    after.prev.store(new.as_ptr(), Ordering::Relaxed);
}

impl Ring {
    /// Takes an mbuf out of its ring; false if it was alone (`m_extunref`).
    ///
    /// # Safety
    /// The caller has the mbuf, which is live.
    #[inline]
    unsafe fn leave(&self, mbuf: Address<Self>) -> bool {
        // SAFETY: so says the caller.
        if !unsafe { is_shared(mbuf) } {
            return false;
        }
        let _held = self.mutex.lock();
        // SAFETY: as above. The others may have left meanwhile.
        if !unsafe { is_shared(mbuf) } {
            return false;
        }
        // SAFETY: as above.
        let own = unsafe { link(mbuf) };
        let next = own.next.load(Ordering::Relaxed);
        let prev = own.prev.load(Ordering::Relaxed);
        // SAFETY: a member of the ring does not go while the mutex is held and it is not alone.
        let after = unsafe { neighbour(next) };
        after.prev.store(prev, Ordering::Relaxed);
        // SAFETY: as above.
        let before = unsafe { neighbour(prev) };
        // From this store on the neighbour may be alone and gone.
        before.next.store(next, Ordering::Release);
        true
    }
}

impl Protocol for Ring {
    const NAME: &'static str = "ring";

    type Link = Neighbours;

    fn new() -> Result<Self, Absent> {
        Ok(Self {
            mutex: SpinMutex::default(),
        })
    }

    #[inline]
    unsafe fn first(&self, _: &Zones, mbuf: Address<Self>, _: NonNull<u8>) -> Neighbours {
        Neighbours {
            next: AtomicPtr::new(mbuf.as_ptr()),
            prev: AtomicPtr::new(mbuf.as_ptr()),
        }
    }

    #[inline]
    unsafe fn share(&self, from: Address<Self>, to: Address<Self>) {
        // SAFETY: the caller has it. If it is alone it can be joined only by way of the caller.
        let _held = unsafe { is_shared(from) }.then(|| self.mutex.lock());
        // SAFETY: the mutex is held, or `from` is alone.
        unsafe { join(from, to) };
    }

    #[inline]
    unsafe fn release(&self, zones: &Zones, mbuf: Address<Self>) {
        // SAFETY: the caller has it.
        if !unsafe { self.leave(mbuf) } {
            // SAFETY: as above.
            let cluster = unsafe { cluster(mbuf) };
            // SAFETY: no other mbuf shares it.
            unsafe { zones.free_cluster(cluster) };
        }
        // SAFETY: out of its ring, no other code knows it.
        unsafe { zones.free_mbuf(mbuf) };
    }
}
