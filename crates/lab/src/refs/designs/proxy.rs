//! A counted record, allocated on the first share, that stands between the mbufs and the cluster.
//!
//! Source: seed 000: the code that its patch adds (`m_ext_refs`).
//!
//! ```text
//!   mbuf --.
//!   mbuf ---> record: count, whose the cluster is --> cluster
//! ```
//!
//! An mbuf that never shared has no record and no count. An mbuf that was shared once keeps its record, alone or not,
//! so that later shares are an atomic increment and decrement each. The hot path allocates: the objection of the
//! seed's reviewer.
//!
//! Invariant: all mbufs of a shared cluster have its record, whose count is their number. Locks: none.

use super::mbufs::{Address, Protocol, Zones, built, cluster, link, set_link, zone};
use crate::refs::design::{Absent, out_of_memory};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use uma::RawZone;

/// Where the records come from (`m_ext_refs_pool`).
pub(crate) struct Proxy {
    records: RawZone,
}

/// The record, if there is one. Read and written by the mbuf's holder only.
pub(crate) struct Link(Cell<Option<NonNull<Record>>>);

/// The record of the count. Besides the count, the field that it replaced in the mbuf: how to free the cluster.
#[repr(C)]
struct Record {
    arg: usize,
    free_fn: u32,
    zero: u32,
    count: AtomicU32,
}

/// `CACHELINESIZE`, on which the seed aligns its records.
const RECORD_BYTES: usize = 64;

const _: () = assert!(size_of::<Record>() <= RECORD_BYTES);

impl Proxy {
    #[inline]
    fn record(&self) -> NonNull<Record> {
        let Ok(item) = self.records.alloc() else {
            out_of_memory(Self::NAME)
        };
        let record = Record {
            arg: 0,
            free_fn: 0,
            zero: 0,
            count: AtomicU32::new(1),
        };
        // SAFETY: the zone's items are long and aligned enough, and this one is ours.
        unsafe { item.cast().write(record) };
        item.cast()
    }
}

impl Protocol for Proxy {
    const NAME: &'static str = "proxy";

    type Link = Link;

    fn new() -> Result<Self, Absent> {
        Ok(Self {
            records: built(zone("lab_ext_refs", RECORD_BYTES)?)?,
        })
    }

    #[inline]
    unsafe fn first(&self, _: &Zones, _: Address<Self>, _: NonNull<u8>) -> Link {
        Link(Cell::new(None))
    }

    #[inline]
    unsafe fn share(&self, from: Address<Self>, to: Address<Self>) {
        // SAFETY: the caller has it.
        let own = unsafe { link(from) };
        let record = match own.0.get() {
            Some(record) => record,
            None => {
                let record = self.record();
                own.0.set(Some(record));
                record
            }
        };
        // SAFETY: `from` counts, so the record stays.
        let count = unsafe { &record.as_ref().count };
        // Relaxed: we have a reference. Of 32 bits, as the seed's: each is an mbuf somewhere.
        count.fetch_add(1, Ordering::Relaxed);
        // SAFETY: no other code knows it yet.
        unsafe { set_link(to, Link(Cell::new(Some(record)))) };
    }

    #[inline]
    unsafe fn release(&self, zones: &Zones, mbuf: Address<Self>) {
        // SAFETY: the caller has it.
        let record = unsafe { link(mbuf) }.0.get();
        let is_last = match record {
            None => true,
            Some(record) => {
                // SAFETY: `mbuf` counts, so the record stays until the decrement.
                let count = unsafe { &(*record.as_ptr()).count };
                // Release: our reads come before; Acquire, below, for the thread that frees.
                let is_last = count.fetch_sub(1, Ordering::Release) == 1;
                if is_last {
                    fence(Ordering::Acquire);
                    // SAFETY: the last one is ours.
                    unsafe { self.records.free(record.cast()) };
                }
                is_last
            }
        };
        if is_last {
            // SAFETY: the caller has the mbuf.
            let cluster = unsafe { cluster(mbuf) };
            // SAFETY: the last reference goes here.
            unsafe { zones.free_cluster(cluster) };
        }
        // SAFETY: no other code knows it.
        unsafe { zones.free_mbuf(mbuf) };
    }

    fn records(&self) -> usize {
        self.records.live()
    }
}
