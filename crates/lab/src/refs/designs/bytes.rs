//! `bytes::Bytes`, the buffer type of Rust's asynchronous programs. No mbuf: a clone is four words.
//!
//! It is the seed's proxy: a buffer that was copied in has no count; its first clone allocates one, from the system's
//! malloc, and later ones count it.

use crate::refs::design::{Absent, Design, Shape};
use bytes::Bytes;
use std::array;
use std::mem::ManuallyDrop;

/// Clusters in `Bytes`.
pub(crate) struct Shares<const CLUSTERS: usize> {
    cluster: usize,
}

impl<const CLUSTERS: usize> Design for Shares<CLUSTERS> {
    type View = [Bytes; CLUSTERS];

    fn new(shape: Shape) -> Result<Self, Absent> {
        assert_eq!(shape.clusters, CLUSTERS);
        Ok(Self {
            cluster: shape.cluster,
        })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> Self::View {
        let mut pieces = from.chunks(self.cluster);
        array::from_fn(|_| Bytes::copy_from_slice(pieces.next().unwrap_or_default()))
    }

    #[inline]
    unsafe fn share(&self, view: &mut Self::View) -> Self::View {
        view.each_ref().map(Bytes::clone)
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
