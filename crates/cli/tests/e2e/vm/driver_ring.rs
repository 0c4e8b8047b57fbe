//! A driver's half of a split virtqueue, each of whose descriptors has a buffer of its own.

use std::num::Wrapping;
use std::sync::atomic::{Ordering, fence};

use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VringConfigData};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Bytes from one ring's parts to the next one's.
const RING_LEN: u64 = 0x4000;
/// A descriptor's flag: the device writes.
const WRITE: u16 = 2;

/// Where the buffers of a ring are, and how long.
#[derive(Clone, Copy)]
pub(super) struct RingBuffers {
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) count: u16,
    /// The device writes them.
    pub(super) written: bool,
}

/// The ring.
pub(super) struct DriverRing {
    memory: GuestMemoryMmap,
    base: u64,
    buffers: RingBuffers,
    available: Wrapping<u16>,
    used: Wrapping<u16>,
    kick: EventFd,
    pub(super) call: EventFd,
}

impl DriverRing {
    /// Sets ring `index` up and starts it.
    pub(super) fn start(
        memory: &GuestMemoryMmap,
        index: usize,
        buffers: RingBuffers,
        front_end: &mut Frontend,
    ) -> DriverRing {
        let event = || EventFd::new(EFD_NONBLOCK).expect("descriptors");
        let ring = DriverRing {
            memory: memory.clone(),
            base: RING_LEN * (1 + index as u64),
            buffers,
            available: Wrapping(0),
            used: Wrapping(0),
            kick: event(),
            call: event(),
        };
        for n in 0..buffers.count {
            ring.describe(n, buffers.len);
        }
        let host = |at| memory.get_host_address(GuestAddress(at)).expect("ours") as u64;
        let place = VringConfigData {
            queue_max_size: buffers.count,
            queue_size: buffers.count,
            flags: 0,
            desc_table_addr: host(ring.base),
            avail_ring_addr: host(ring.base + 0x1000),
            used_ring_addr: host(ring.base + 0x2000),
            log_addr: None,
        };
        front_end
            .set_vring_num(index, buffers.count)
            .expect("taken");
        front_end.set_vring_base(index, 0).expect("taken");
        front_end.set_vring_addr(index, &place).expect("taken");
        front_end.set_vring_call(index, &ring.call).expect("taken");
        front_end.set_vring_err(index, &ring.call).expect("taken");
        front_end.set_vring_kick(index, &ring.kick).expect("taken");
        front_end.set_vring_enable(index, true).expect("taken");
        ring
    }

    fn describe(&self, n: u16, len: u32) {
        let flags = if self.buffers.written { WRITE } else { 0 };
        let at = self.base + 16 * u64::from(n);
        self.put(at, &self.buffer(n).to_le_bytes());
        self.put(at + 8, &len.to_le_bytes());
        self.put(at + 12, &flags.to_le_bytes());
    }

    /// Where buffer `n` is.
    pub(super) fn buffer(&self, n: u16) -> u64 {
        self.buffers.at + u64::from(n) * u64::from(self.buffers.len)
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let put = self.memory.write_slice(bytes, GuestAddress(at));
        put.expect("it is ours");
    }

    fn load(&self, at: u64) -> u16 {
        let loaded = self.memory.load(GuestAddress(at), Ordering::Acquire);
        loaded.expect("it is ours")
    }

    fn store(&self, at: u64, value: u16) {
        let stored = self
            .memory
            .store(value, GuestAddress(at), Ordering::Release);
        stored.expect("it is ours");
    }

    fn slot(&self, index: Wrapping<u16>) -> u64 {
        u64::from(index.0 % self.buffers.count)
    }

    /// Makes buffers available; kicks if the device asked for it.
    pub(super) fn offer(&mut self, buffers: impl IntoIterator<Item = u16>) {
        let old = self.available;
        for n in buffers {
            self.store(self.base + 0x1004 + 2 * self.slot(self.available), n);
            self.available += 1;
        }
        self.store(self.base + 0x1002, self.available.0);
        fence(Ordering::SeqCst);
        let event = Wrapping(self.load(self.base + 0x2004 + 8 * u64::from(self.buffers.count)));
        if self.available - event - Wrapping(1) < self.available - old {
            self.kick();
        }
    }

    /// Tells the device to look.
    pub(super) fn kick(&self) {
        self.kick.write(1).expect("it is ours");
    }

    /// The same with one buffer that is filled up to `len` bytes.
    pub(super) fn offer_filled(&mut self, n: u16, len: usize) {
        self.describe(n, len as u32);
        self.offer([n]);
    }

    /// The next buffer that the device gave back, and how much it wrote.
    pub(super) fn take(&mut self) -> Option<(u16, usize)> {
        if self.load(self.base + 0x2002) == self.used.0 {
            return None;
        }
        let mut element = [0; 8];
        let at = self.base + 0x2004 + 8 * self.slot(self.used);
        let read = self.memory.read_slice(&mut element, GuestAddress(at));
        read.expect("it is ours");
        self.used += 1;
        let [a, b, _, _, len @ ..] = element;
        let len = u32::from_le_bytes(len) as usize;
        Some((u16::from_le_bytes([a, b]), len))
    }

    /// Asks to be called at the next buffer. True if there is one already.
    pub(super) fn await_call(&mut self) -> bool {
        let _ = self.call.read();
        self.store(
            self.base + 0x1004 + 2 * u64::from(self.buffers.count),
            self.used.0,
        );
        fence(Ordering::SeqCst);
        self.load(self.base + 0x2002) != self.used.0
    }
}
