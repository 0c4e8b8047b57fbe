//! Ours: the mbuf crate, called as a user of the crate calls it.
//!
//! As chains: beside the counting, a chain keeps its length, the memory it pins, the end of the last share, and the
//! zones of its mbufs. As packets: a handle is an address, and the chain's fields are in the first mbuf: a share
//! writes one line more, and hands on five words fewer.

use crate::refs::design::{Absent, Design, Live, Shape, out_of_memory};
use mbuf::{Chain, MbufPool, NoBufs, Packet, PoolConfig};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

/// A pool, of which views are `V`s.
pub(crate) struct Mbuma<V> {
    pool: MbufPool,
    views: PhantomData<fn() -> V>,
}

/// A view of bytes of the pool's.
pub(crate) trait View: Sized + Send + 'static {
    /// A view of fresh clusters with a copy of these bytes.
    fn fresh(pool: &MbufPool, from: &[u8]) -> Result<Self, NoBufs>;
    /// One more view of all of them.
    fn again(&mut self) -> Result<Self, NoBufs>;
    /// The bytes that it shows.
    fn pieces(&self) -> impl Iterator<Item = &[u8]>;
}

impl View for Chain {
    #[inline]
    fn fresh(pool: &MbufPool, from: &[u8]) -> Result<Self, NoBufs> {
        Self::from_slice(pool, from)
    }

    #[inline(always)]
    fn again(&mut self) -> Result<Self, NoBufs> {
        self.share_all()
    }

    #[inline]
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.segments()
    }
}

impl View for Packet {
    #[inline]
    fn fresh(pool: &MbufPool, from: &[u8]) -> Result<Self, NoBufs> {
        Self::from_slice(pool, from, 0)
    }

    #[inline(always)]
    fn again(&mut self) -> Result<Self, NoBufs> {
        self.copy_packet()
    }

    #[inline]
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.segments()
    }
}

impl<V: View> Design for Mbuma<V> {
    type View = V;

    fn new(_: Shape) -> Result<Self, Absent> {
        let pool = MbufPool::new(PoolConfig::default()).map_err(|e| Absent(e.to_string()))?;
        let views = PhantomData;
        Ok(Self { pool, views })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> V {
        match V::fresh(&self.pool, from) {
            Ok(view) => view,
            Err(_) => out_of_memory("mbuma"),
        }
    }

    #[inline(always)]
    unsafe fn share(&self, view: &mut V) -> V {
        match view.again() {
            Ok(view) => view,
            Err(_) => out_of_memory("mbuma"),
        }
    }

    #[inline]
    unsafe fn release(&self, view: V) {
        drop(view);
    }

    #[inline(always)]
    unsafe fn release_here(&self, view: &mut ManuallyDrop<V>) {
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::drop(view) };
    }

    #[inline]
    fn pieces(view: &V) -> impl Iterator<Item = &[u8]> {
        view.pieces()
    }

    fn live(&self) -> Live {
        let live = self.pool.live();
        Live {
            mbufs: Some(live.mbufs),
            clusters: Some(live.clusters),
            records: 0,
        }
    }
}
