//! Buffers that are cloned, as Rust programs have them. No mbuf, so there is less work.
//!
//! | type | a clone |
//! |---|---|
//! | `Arc<[u8]>`, of the standard library | a pointer and a length; the count lies before the bytes |
//! | `bytes::Bytes`, of asynchronous programs | four words. It is the seed's proxy: a buffer that was copied in has no count; its first clone allocates one, from the system's malloc, and later ones count it |

use crate::refs::design::{Absent, Design, Shape};
use bytes::Bytes;
use std::array;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

/// A buffer that is shared by cloning.
pub(crate) trait Buffer: Clone + Deref<Target = [u8]> + Send + 'static {
    fn copied(from: &[u8]) -> Self;
}

impl Buffer for Arc<[u8]> {
    #[inline]
    fn copied(from: &[u8]) -> Self {
        Self::from(from)
    }
}

impl Buffer for Bytes {
    #[inline]
    fn copied(from: &[u8]) -> Self {
        Self::copy_from_slice(from)
    }
}

/// Clusters in buffers of one type.
pub(crate) struct Cloned<B, const CLUSTERS: usize> {
    cluster: usize,
    buffer: PhantomData<fn() -> B>,
}

/// Clusters in `Arc`s.
pub(crate) type Arcs<const CLUSTERS: usize> = Cloned<Arc<[u8]>, CLUSTERS>;
/// Clusters in `Bytes`.
pub(crate) type Shares<const CLUSTERS: usize> = Cloned<Bytes, CLUSTERS>;

impl<B: Buffer, const CLUSTERS: usize> Design for Cloned<B, CLUSTERS> {
    type View = [B; CLUSTERS];

    fn new(shape: Shape) -> Result<Self, Absent> {
        assert_eq!(shape.clusters, CLUSTERS);
        Ok(Self {
            cluster: shape.cluster,
            buffer: PhantomData,
        })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> Self::View {
        let mut pieces = from.chunks(self.cluster);
        array::from_fn(|_| B::copied(pieces.next().unwrap_or_default()))
    }

    #[inline]
    unsafe fn share(&self, view: &mut Self::View) -> Self::View {
        view.each_ref().map(B::clone)
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
