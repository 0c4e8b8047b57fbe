//! Ours, whole: a packet with a cluster of 2 KiB, as a device takes one to receive into, dropped after use.
//!
//! Beside the raw zone's row it shows the cost of the buffer on top of the memory: a packet header, and a cluster with
//! a count, in one pop (seed 004, section 5.4).

use crate::alloc::design::{Absent, Design, out_of_memory};
use mbuf::{ClusterSize, MbufPool, Packet, PoolConfig};
use std::ptr::NonNull;

/// A pool of packets.
pub(crate) struct Packets(MbufPool);

/// An empty packet.
pub(crate) struct Empty(Packet);

impl Design for Packets {
    type Item = Empty;

    fn new(size: usize) -> Result<Self, Absent> {
        if size != ClusterSize::K2.bytes() {
            return Err(Absent("packets of 2048 bytes only".to_owned()));
        }
        let pool = MbufPool::new(PoolConfig::default()).map_err(|e| Absent(e.to_string()))?;
        Ok(Self(pool))
    }

    #[inline(always)]
    fn alloc(&self) -> Empty {
        match Packet::with_cluster(&self.0, ClusterSize::K2, 0) {
            Ok(packet) => Empty(packet),
            Err(_) => out_of_memory("mbuma-packet"),
        }
    }

    #[inline(always)]
    unsafe fn free(&self, item: Empty) {
        drop(item);
    }

    /// The room, as a device is given it.
    #[inline(always)]
    fn bytes(item: &mut Empty) -> NonNull<u8> {
        NonNull::from(item.0.room_mut()).cast()
    }
}
