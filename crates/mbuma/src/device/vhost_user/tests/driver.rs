//! A driver's half of both rings, in memory that it shares.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::super::memory::{RegionPlace, SharedMemory};
use super::super::vring::{RingPlace, Vring};

/// Descriptors of each ring.
pub(super) const SIZE: u16 = 16;
/// Bytes of the memory.
pub(super) const MEMORY_LEN: u64 = 1 << 20;
/// Where buffers may lie.
pub(super) const DATA: u64 = 0x1_0000;
/// Where the memory is in the front-end's process.
pub(super) const USER: u64 = 0x7f00_0000_0000;

pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

/// A descriptor as a test wants it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestDescriptor {
    pub(super) at: u64,
    pub(super) len: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

/// The driver.
pub(super) struct Driver {
    file: File,
    pub(super) shared: SharedMemory,
    /// Chains made available, and given back, of each ring.
    available: [u16; 2],
    used: [u16; 2],
}

impl Driver {
    pub(super) fn new() -> Driver {
        let file = memory(MEMORY_LEN);
        let copy = file.try_clone().unwrap();
        Driver {
            shared: SharedMemory::map(&[region()], vec![copy]).unwrap(),
            file: File::from(file),
            available: [0; 2],
            used: [0; 2],
        }
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn memory(&self) -> &GuestMemoryMmap {
        self.shared.mapped()
    }

    /// The device's half of a ring.
    pub(super) fn ring(&self, ring: usize, event_index: bool) -> Vring {
        Vring::new(self.memory(), place(ring), SIZE.into(), 0, event_index).unwrap()
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        self.memory().write_slice(bytes, GuestAddress(at)).unwrap();
    }

    pub(super) fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory()
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        bytes
    }

    pub(super) fn read_u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at, 2).try_into().unwrap())
    }

    /// Writes a descriptor of a table.
    pub(super) fn describe(&self, table: u64, index: u16, descriptor: TestDescriptor) {
        let TestDescriptor {
            at,
            len,
            flags,
            next,
        } = descriptor;
        let at_table = table + u64::from(index) * 16;
        self.write(at_table, &at.to_le_bytes());
        self.write(at_table + 8, &len.to_le_bytes());
        self.write(at_table + 12, &flags.to_le_bytes());
        self.write(at_table + 14, &next.to_le_bytes());
    }

    /// Makes a chain of these buffers, whose descriptors begin at `head`, and makes it available.
    pub(super) fn offer(&mut self, ring: usize, head: u16, buffers: &[(u64, u32)], flags: u16) {
        let table = place(ring).descriptors.0;
        for (n, (at, len)) in buffers.iter().enumerate() {
            let is_last = n + 1 == buffers.len();
            let index = head + n as u16;
            let descriptor = TestDescriptor {
                at: *at,
                len: *len,
                flags: flags | if is_last { 0 } else { NEXT },
                next: index + 1,
            };
            self.describe(table, index, descriptor);
        }
        self.offer_head(ring, head);
    }

    /// Makes a chain available.
    pub(super) fn offer_head(&mut self, ring: usize, head: u16) {
        let slot = u64::from(self.available[ring] % SIZE);
        self.write(place(ring).available.0 + 4 + 2 * slot, &head.to_le_bytes());
        let index = self.available[ring].wrapping_add(1);
        self.set_available(ring, index);
    }

    pub(super) fn set_available(&mut self, ring: usize, index: u16) {
        self.available[ring] = index;
        self.write(place(ring).available.0 + 2, &index.to_le_bytes());
    }

    /// The chains that were given back: heads and bytes written.
    pub(super) fn take_used(&mut self, ring: usize) -> Vec<(u32, u32)> {
        let used = place(ring).used.0;
        let end = self.read_u16(used + 2);
        let mut all = Vec::new();
        while self.used[ring] != end {
            let slot = u64::from(self.used[ring] % SIZE);
            let element = self.read(used + 4 + 8 * slot, 8);
            let half = |n: usize| u32::from_le_bytes(element[4 * n..4 * n + 4].try_into().unwrap());
            all.push((half(0), half(1)));
            self.used[ring] = self.used[ring].wrapping_add(1);
        }
        all
    }
}

/// Memory of this length, without a name.
pub(super) fn memory(len: u64) -> OwnedFd {
    let file = memfd_create("machine", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    file
}

pub(super) fn region() -> RegionPlace {
    RegionPlace {
        guest: 0,
        len: MEMORY_LEN,
        user: USER,
        offset: 0,
    }
}

/// Where a ring lies.
pub(super) fn place(ring: usize) -> RingPlace {
    let base = 0x1000 + 0x4000 * ring as u64;
    RingPlace {
        descriptors: GuestAddress(base),
        available: GuestAddress(base + 0x1000),
        used: GuestAddress(base + 0x2000),
    }
}
