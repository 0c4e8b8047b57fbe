//! `Arc<[u8]>`, from Rust's standard library: the count lies before the bytes, a clone is a pointer and a length. No
//! mbuf, so there is less work: a share allocates no memory.

use crate::refs::design::{Absent, Design, Shape};
use std::array;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Clusters in `Arc`s.
pub(crate) struct Arcs<const CLUSTERS: usize> {
    cluster: usize,
}

impl<const CLUSTERS: usize> Design for Arcs<CLUSTERS> {
    type View = [Arc<[u8]>; CLUSTERS];

    fn new(shape: Shape) -> Result<Self, Absent> {
        assert_eq!(shape.clusters, CLUSTERS);
        Ok(Self {
            cluster: shape.cluster,
        })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> Self::View {
        let mut pieces = from.chunks(self.cluster);
        array::from_fn(|_| Arc::from(pieces.next().unwrap_or_default()))
    }

    #[inline]
    unsafe fn share(&self, view: &mut Self::View) -> Self::View {
        view.each_ref().map(Arc::clone)
    }

    #[inline]
    unsafe fn release(&self, view: Self::View) {
        drop(view);
    }

    #[inline(always)]
    unsafe fn release_here(&self, view: &mut ManuallyDrop<Self::View>) {
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::drop(view) };
    }

    #[inline]
    fn pieces(view: &Self::View) -> impl Iterator<Item = &[u8]> {
        view.iter().map(|piece| &**piece)
    }
}
