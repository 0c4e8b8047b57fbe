//! Ours: chains of the mbuf crate, called as a user of the crate calls them.
//!
//! Called by: `catalog.rs`. Calls: mbuf. Beside the counting it is all that a chain is: its length, what it pins, where
//! the last share ended, mbufs that know their zones.

use crate::refs::design::{Absent, Design, Live, Shape, out_of_memory};
use mbuf::{Chain, MbufPool, PoolConfig};
use std::mem::ManuallyDrop;

/// A pool.
pub(crate) struct Mbuma {
    pool: MbufPool,
}

impl Design for Mbuma {
    type View = Chain;

    fn new(_: Shape) -> Result<Self, Absent> {
        let pool = MbufPool::new(PoolConfig::default()).map_err(|e| Absent(e.to_string()))?;
        Ok(Self { pool })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> Chain {
        match Chain::from_slice(&self.pool, from) {
            Ok(chain) => chain,
            Err(_) => out_of_memory("mbuma"),
        }
    }

    #[inline(always)]
    unsafe fn share(&self, view: &mut Chain) -> Chain {
        match view.share_all() {
            Ok(chain) => chain,
            Err(_) => out_of_memory("mbuma"),
        }
    }

    #[inline]
    unsafe fn release(&self, view: Chain) {
        drop(view);
    }

    #[inline(always)]
    unsafe fn release_here(&self, view: &mut ManuallyDrop<Self::View>) {
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::drop(view) };
    }

    #[inline]
    fn pieces(view: &Chain) -> impl Iterator<Item = &[u8]> {
        view.segments()
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
