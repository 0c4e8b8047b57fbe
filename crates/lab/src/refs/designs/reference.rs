//! Our way of counting by itself: a reference is an address, a length and where the count is. No mbuf, as `Arc` has
//! none, so that the two protocols can be compared alone.
//!
//! Locks: none.

use super::counted::{one_less, one_more};
use super::mbufs::{built, zone};
use crate::refs::design::{Absent, Design, Live, Shape, out_of_memory};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{array, slice};
use uma::RawZone;

/// Clusters of a zone, in references.
pub(crate) struct References<const CLUSTERS: usize> {
    zone: RawZone,
    cluster: usize,
}

/// A reference to a cluster, whose first `len` bytes it shows.
pub(crate) struct Reference {
    count: NonNull<AtomicU32>,
    data: NonNull<u8>,
    len: usize,
}

// SAFETY: the storage that it refers to is counted atomically, and no code writes it once it is shown.
unsafe impl Send for Reference {}

const NAME: &str = "reference";

impl<const CLUSTERS: usize> References<CLUSTERS> {
    /// A cluster with a copy of these bytes.
    #[inline]
    fn filled(&self, from: &[u8]) -> Reference {
        assert!(from.len() <= self.cluster);
        let Ok(data) = self.zone.alloc() else {
            out_of_memory(NAME)
        };
        // SAFETY: it has room for them (asserted above), and no other code knows it.
        unsafe { data.copy_from_nonoverlapping(NonNull::from(from).cast(), from.len()) };
        // SAFETY: a live cluster of this zone, which was built with counts.
        let count = unsafe { self.zone.refcount(data) };
        // Relaxed: the hand-over of a reference to a thread synchronises.
        count.store(1, Ordering::Relaxed);
        Reference {
            count: NonNull::from(count),
            data,
            len: from.len(),
        }
    }
}

impl<const CLUSTERS: usize> Design for References<CLUSTERS> {
    type View = [Reference; CLUSTERS];

    fn new(shape: Shape) -> Result<Self, Absent> {
        assert_eq!(shape.clusters, CLUSTERS);
        Ok(Self {
            zone: built(zone("lab_cluster", shape.cluster)?.refcounts())?,
            cluster: shape.cluster,
        })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> Self::View {
        let mut pieces = from.chunks(self.cluster);
        array::from_fn(|_| self.filled(pieces.next().unwrap_or_default()))
    }

    #[inline]
    unsafe fn share(&self, view: &mut Self::View) -> Self::View {
        view.each_ref().map(|own| {
            // SAFETY: a count lives as long as its cluster, to which this is a reference.
            one_more(unsafe { own.count.as_ref() }, NAME);
            Reference { ..*own }
        })
    }

    #[inline]
    unsafe fn release(&self, view: Self::View) {
        for own in view {
            // SAFETY: as above, until the decrement.
            if one_less(unsafe { own.count.as_ref() }) {
                // SAFETY: the last reference goes here.
                unsafe { self.zone.free(own.data) };
            }
        }
    }

    #[inline]
    fn pieces(view: &Self::View) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the cluster stays as long as the reference does, and so do its bytes, which `filled` wrote.
        let bytes = |own: &Reference| unsafe { slice::from_raw_parts(own.data.as_ptr(), own.len) };
        view.iter().map(bytes)
    }

    fn live(&self) -> Live {
        Live {
            clusters: Some(self.zone.live()),
            ..Live::default()
        }
    }
}
