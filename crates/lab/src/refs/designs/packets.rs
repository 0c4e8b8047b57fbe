//! Ours, as packets of the mbuf crate: a handle is an address, and what a chain keeps beside its mbufs is in the first of
//! them. That is one line more to write for a share, and five words fewer to hand on.
//!
//! Called by: `catalog.rs`. Calls: mbuf.

use crate::refs::design::{Absent, Design, Live, Shape, out_of_memory};
use mbuf::{MbufPool, Packet, PoolConfig};
use std::mem::ManuallyDrop;

/// A pool.
pub(crate) struct Packets {
    pool: MbufPool,
}

impl Design for Packets {
    type View = Packet;

    fn new(_: Shape) -> Result<Self, Absent> {
        let pool = MbufPool::new(PoolConfig::default()).map_err(|e| Absent(e.to_string()))?;
        Ok(Self { pool })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> Packet {
        match Packet::from_slice(&self.pool, from, 0) {
            Ok(packet) => packet,
            Err(_) => out_of_memory("mbuma-packet"),
        }
    }

    #[inline(always)]
    unsafe fn share(&self, view: &mut Packet) -> Packet {
        match view.copy_packet() {
            Ok(packet) => packet,
            Err(_) => out_of_memory("mbuma-packet"),
        }
    }

    #[inline]
    unsafe fn release(&self, view: Packet) {
        drop(view);
    }

    #[inline(always)]
    unsafe fn release_here(&self, view: &mut ManuallyDrop<Self::View>) {
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::drop(view) };
    }

    #[inline]
    fn pieces(view: &Packet) -> impl Iterator<Item = &[u8]> {
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
