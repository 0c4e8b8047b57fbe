//! Ours, whole: a packet with a cluster of 2 KiB, as a device takes one to receive into, dropped after use.
//!
//! Called by: `catalog.rs`. Calls: mbuf. Beside the raw zone's row it says what the buffer costs on top of the memory:
//! a packet header, and a cluster with a count, in one pop (seed 004, section 5.4).

use crate::alloc::design::{Absent, Design, out_of_memory};
use mbuf::{ClusterSize, MbufPool, Packet, PoolConfig};
use std::ptr::NonNull;

/// A pool of packets.
pub(crate) struct Packets(MbufPool);

/// A packet that shows its cluster's beginning.
pub(crate) struct Shown(Packet);

/// What the cases write to and read: they expect a header's worth of bytes and 8 more.
const SHOWN: usize = 64;

impl Design for Packets {
    type Item = Shown;

    fn new(size: usize) -> Result<Self, Absent> {
        if size != ClusterSize::K2.bytes() {
            return Err(Absent("packets of 2048 bytes only".to_owned()));
        }
        let pool = MbufPool::new(PoolConfig::default()).map_err(|e| Absent(e.to_string()))?;
        Ok(Self(pool))
    }

    #[inline]
    fn alloc(&self) -> Shown {
        // The data at the end of the first 64 bytes, so that making them visible is a prepend in place.
        match Packet::with_cluster(&self.0, ClusterSize::K2, SHOWN) {
            Ok(packet) => Shown(packet),
            Err(_) => out_of_memory("mbuma-packet"),
        }
    }

    #[inline]
    unsafe fn free(&self, item: Shown) {
        drop(item);
    }

    #[inline]
    fn bytes(item: &mut Shown) -> NonNull<u8> {
        if item.0.front().is_empty() && item.0.prepend(SHOWN).is_err() {
            out_of_memory("mbuma-packet");
        }
        match item.0.front_mut() {
            Some(bytes) => NonNull::from(bytes).cast(),
            None => unreachable!("nobody shares it"),
        }
    }
}
