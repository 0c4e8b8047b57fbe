//! DPDK's network buffers: `rte_pktmbuf_alloc` and `rte_pktmbuf_free`, on a pool with a cache of 512 a thread.
//!
//! Only on one thread, where the loops are in C as a DPDK program has them.

use super::{ITEMS, Shim, pool, shim};
use crate::alloc::design::{Absent, Block, Design, out_of_memory};
use std::ffi::{c_uint, c_void};
use std::ptr::NonNull;

/// A pool of packets with this much room.
pub(crate) struct Pktmbuf {
    pool: NonNull<c_void>,
    shim: &'static Shim,
}

// SAFETY: a pool is made for use by many threads.
unsafe impl Send for Pktmbuf {}
// SAFETY: as above.
unsafe impl Sync for Pktmbuf {}

impl Design for Pktmbuf {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let shim = shim()?;
        let pool = pool(shim.pkt_create, size)?;
        Ok(Self { pool, shim })
    }

    fn alloc(&self) -> Block {
        // SAFETY: the pool lives as long as this.
        match NonNull::new(unsafe { (self.shim.pkt_get)(self.pool.as_ptr()) }) {
            Some(packet) => Block(packet.cast()),
            None => out_of_memory("pktmbuf"),
        }
    }

    unsafe fn free(&self, packet: Block) {
        // SAFETY: the caller says that it came from this pool.
        unsafe { (self.shim.pkt_put)(packet.0.as_ptr().cast()) };
    }

    fn bytes(packet: &mut Block) -> NonNull<u8> {
        let Ok(shim) = shim() else {
            unreachable!("it gave the packet out")
        };
        // SAFETY: a packet that is out.
        let data = unsafe { (shim.pkt_data)(packet.0.as_ptr().cast()) };
        NonNull::new(data.cast()).unwrap_or(packet.0)
    }

    fn enter(&self) {
        // SAFETY: DPDK is set up. A thread that gets no number works without a cache.
        unsafe { (self.shim.enter)() };
    }

    fn leave(&self) {
        // SAFETY: a thread that is not registered may say so, too.
        unsafe { (self.shim.leave)() };
    }

    fn gets(&self, n: u64) {
        // SAFETY: the pool lives as long as this.
        if unsafe { (self.shim.pkt_gets)(self.pool.as_ptr(), n) } != 0 {
            out_of_memory("pktmbuf");
        }
    }

    fn pairs(&self, n: u64) {
        // SAFETY: the pool lives as long as this.
        if unsafe { (self.shim.pkt_pairs)(self.pool.as_ptr(), n) } != 0 {
            out_of_memory("pktmbuf");
        }
    }

    fn batches<const LIVE: usize>(&self, n: u64) {
        // SAFETY: the pool lives as long as this.
        if unsafe { (self.shim.pkt_batches)(self.pool.as_ptr(), n, LIVE as c_uint) } != 0 {
            out_of_memory("pktmbuf");
        }
    }
}

impl Drop for Pktmbuf {
    fn drop(&mut self) {
        // SAFETY: the pool is not used any more.
        let free = unsafe { (self.shim.free_count)(self.pool.as_ptr()) };
        debug_assert_eq!(free, ITEMS, "packets are missing from the pool");
        // SAFETY: as above.
        unsafe { (self.shim.destroy)(self.pool.as_ptr()) };
    }
}
