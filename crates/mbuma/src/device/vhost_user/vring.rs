//! A split virtqueue: the driver in the machine makes chains of buffers available, and the device gives them back as
//! used.
//!
//! ```text
//!   descriptors  | address, length, flags, next |  ...  one for each buffer; `next` makes chains of them
//!   available    | flags | index | heads of chains ...  | used event      written by the driver
//!   used         | flags | index | heads, lengths ...   | available event written by the device
//! ```
//!
//! All of it lies in memory that the driver writes at any time: each value is read once, into this process, and is
//! checked there. Why no crate: `virtio-queue` publishes each used buffer alone, so a driver on another CPU could see a
//! part of a frame that lies in several; and it does not distinguish the end of a chain from a broken one.
//!
//! | the driver | the effect |
//! |---|---|
//! | makes more chains available than there are descriptors, takes one back, names one that does not exist, places a ring outside of the memory | the ring is broken: [`RingBroken`] |
//! | makes a chain that loops, is longer than [`DESCRIPTORS_MAX`], has buffers of the wrong direction, a table in a table | [`BadChain`] |
//! | names an address outside of the memory | the copy fails: [`BadChain`] |
//!
//! Invariants: the size is a power of two, so that indexes wrap with it.
//! Locks: none. Sources: virtio 1.2 sections 2.7 and 2.7.13.

use std::sync::atomic::{Ordering, fence};

use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use super::buffers::{BadChain, GuestBuffer};

/// Descriptors of a ring at most: as in QEMU.
pub(super) const RING_SIZE_MAX: u32 = 1024;
/// Buffers of a chain at most, and of all the chains that one frame lies in: as in QEMU.
pub(super) const DESCRIPTORS_MAX: usize = 1024;

/// Bytes of a descriptor.
const DESCRIPTOR_LEN: u64 = 16;
/// Bytes before the elements of the available and of the used ring.
const RING_HEADER_LEN: u64 = 4;
/// Bytes of an element of the available ring.
const HEAD_LEN: u64 = 2;
/// Bytes of an element of the used ring.
const USED_LEN: u64 = 8;

/// Flags of a descriptor: the chain goes on; the device writes; the buffer is a table of descriptors.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// In the used ring: the driver need not kick.
const NO_NOTIFY: u16 = 1;
/// In the available ring: the device need not call.
const NO_INTERRUPT: u16 = 1;

/// The driver broke the ring: the device must not use it until it is set up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingBroken;

/// The addresses of a ring's parts in the machine's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingPlace {
    pub(super) descriptors: GuestAddress,
    pub(super) available: GuestAddress,
    pub(super) used: GuestAddress,
}

/// The use of a buffer of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The device reads it.
    Read,
    /// The device writes it.
    Write,
}

/// A ring that is set up.
#[derive(Debug)]
pub(super) struct Vring {
    place: RingPlace,
    size: u16,
    /// VIRTIO_F_EVENT_IDX.
    event_index: bool,
    /// The index of the next chain to take.
    next_available: u16,
    /// The index of the next chain to give back.
    next_used: u16,
    /// `next_used` at the last check whether the driver must be called.
    seen_used: Option<u16>,
    /// Whether kicks are suppressed. Unknown at first.
    is_quiet: Option<bool>,
}

/// A descriptor, read once.
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    buffer: GuestBuffer,
    flags: u16,
    next: u16,
}

/// A table of descriptors: the ring's, or an indirect one.
#[derive(Clone, Copy)]
struct DescriptorTable {
    at: GuestAddress,
    len: u32,
}

impl Vring {
    /// A ring of `size` descriptors, of which `next_available` is the next index.
    ///
    /// # Errors
    /// No ring can have this size, or there is no memory at its place.
    pub(super) fn new(
        memory: &GuestMemoryMmap,
        place: RingPlace,
        size: u32,
        next_available: u16,
        event_index: bool,
    ) -> Result<Self, RingBroken> {
        if !size.is_power_of_two() || size > RING_SIZE_MAX {
            return Err(RingBroken);
        }
        let mut ring = Self {
            place,
            size: size as u16,
            event_index,
            next_available,
            next_used: 0,
            seen_used: None,
            is_quiet: None,
        };
        ring.move_to(memory, place)?;
        ring.next_used = load(memory, place.used, 2)?;
        Ok(ring)
    }

    /// Moves the ring, with its state, to other addresses.
    pub(super) fn move_to(
        &mut self,
        memory: &GuestMemoryMmap,
        place: RingPlace,
    ) -> Result<(), RingBroken> {
        let size = u64::from(self.size);
        let parts = [
            (place.descriptors, 16, size * DESCRIPTOR_LEN),
            // Both end in an event.
            (place.available, 2, RING_HEADER_LEN + size * HEAD_LEN + 2),
            (place.used, 4, RING_HEADER_LEN + size * USED_LEN + 2),
        ];
        let is_there = |(at, align, len): (GuestAddress, u64, u64)| {
            let all = Permissions::ReadWrite;
            at.0.is_multiple_of(align) && GuestMemory::check_range(memory, at, len as usize, all)
        };
        self.place = place;
        parts
            .into_iter()
            .all(is_there)
            .then_some(())
            .ok_or(RingBroken)
    }

    /// The number of descriptors.
    pub(super) fn size(&self) -> u16 {
        self.size
    }

    /// The index of the next chain to be taken.
    pub(super) fn next_available(&self) -> u16 {
        self.next_available
    }

    /// The number of chains that are available.
    pub(super) fn available(&self, memory: &GuestMemoryMmap) -> Result<u16, RingBroken> {
        let index: u16 = load(memory, self.place.available, 2)?;
        let count = index.wrapping_sub(self.next_available);
        (count <= self.size).then_some(count).ok_or(RingBroken)
    }

    /// The head of an available chain; `ahead` of them are before it.
    pub(super) fn head(&self, memory: &GuestMemoryMmap, ahead: u16) -> Result<u16, RingBroken> {
        let slot = self.next_available.wrapping_add(ahead) % self.size;
        let offset = RING_HEADER_LEN + u64::from(slot) * HEAD_LEN;
        let head: u16 = load(memory, self.place.available, offset)?;
        (head < self.size).then_some(head).ok_or(RingBroken)
    }

    /// Appends the buffers of the chain at `head` to `out`. Returns their bytes.
    pub(super) fn chain(
        &self,
        memory: &GuestMemoryMmap,
        head: u16,
        purpose: Purpose,
        out: &mut Vec<GuestBuffer>,
    ) -> Result<usize, BadChain> {
        let mut table = DescriptorTable {
            at: self.place.descriptors,
            len: self.size.into(),
        };
        let (mut index, mut bytes, mut is_indirect) = (head, 0, false);
        while out.len() < DESCRIPTORS_MAX {
            let descriptor = table.descriptor(memory, index)?;
            if descriptor.flags & INDIRECT != 0 {
                if is_indirect || descriptor.flags & NEXT != 0 {
                    return Err(BadChain);
                }
                (table, index, is_indirect) = (descriptor.table(), 0, true);
                continue;
            }
            if descriptor.purpose() != purpose {
                return Err(BadChain);
            }
            bytes += descriptor.buffer.len;
            out.push(descriptor.buffer);
            if descriptor.flags & NEXT == 0 {
                return Ok(bytes);
            }
            index = descriptor.next;
        }
        Err(BadChain)
    }

    /// Writes that the chain at `head` was used, and how many bytes of it were written. `ahead` of them were not
    /// published yet.
    pub(super) fn put_used(
        &self,
        memory: &GuestMemoryMmap,
        ahead: u16,
        head: u16,
        written: u32,
    ) -> Result<(), RingBroken> {
        let slot = self.next_used.wrapping_add(ahead) % self.size;
        let offset = RING_HEADER_LEN + u64::from(slot) * USED_LEN;
        let at = at(self.place.used, offset)?;
        let element = u64::from(head) | u64::from(written) << 32;
        let put = memory.write_slice(&element.to_le_bytes(), at);
        put.map_err(|_| RingBroken)
    }

    /// Publishes that the first `count` chains were used. They are not available any more.
    pub(super) fn publish(
        &mut self,
        memory: &GuestMemoryMmap,
        count: u16,
    ) -> Result<(), RingBroken> {
        self.next_available = self.next_available.wrapping_add(count);
        self.next_used = self.next_used.wrapping_add(count);
        store(memory, self.place.used, 2, self.next_used)
    }

    /// Whether the driver has requested a call for the chains that were published since the last check.
    pub(super) fn wants_call(&mut self, memory: &GuestMemoryMmap) -> Result<bool, RingBroken> {
        let new = self.next_used;
        let old = self.seen_used.replace(new);
        if old == Some(new) {
            return Ok(false);
        }
        // The driver publishes its request and then reads the index; here the order is reversed.
        fence(Ordering::SeqCst);
        if !self.event_index {
            let flags: u16 = load(memory, self.place.available, 0)?;
            return Ok(flags & NO_INTERRUPT == 0);
        }
        let offset = RING_HEADER_LEN + u64::from(self.size) * HEAD_LEN;
        let event: u16 = load(memory, self.place.available, offset)?;
        let passed = |old| new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old);
        Ok(old.is_none_or(passed))
    }

    /// Requests a kick when the driver makes more chains available than the `seen` ones. Returns true if it has
    /// already.
    pub(super) fn await_kick(
        &mut self,
        memory: &GuestMemoryMmap,
        seen: u16,
    ) -> Result<bool, RingBroken> {
        if self.event_index {
            let offset = RING_HEADER_LEN + u64::from(self.size) * USED_LEN;
            let event = self.next_available.wrapping_add(seen);
            store(memory, self.place.used, offset, event)?;
        } else {
            self.set_quiet(memory, false)?;
        }
        fence(Ordering::SeqCst);
        let available = self.available(memory)?;
        // A driver that takes chains back could hold a caller that checks again for ever.
        (available >= seen)
            .then_some(available > seen)
            .ok_or(RingBroken)
    }

    /// Suppresses kicks: the device checks the ring by itself.
    pub(super) fn be_quiet(&mut self, memory: &GuestMemoryMmap) -> Result<(), RingBroken> {
        // With an event index no kick follows after the event.
        match self.event_index {
            true => Ok(()),
            false => self.set_quiet(memory, true),
        }
    }

    fn set_quiet(&mut self, memory: &GuestMemoryMmap, quiet: bool) -> Result<(), RingBroken> {
        if self.is_quiet.replace(quiet) == Some(quiet) {
            return Ok(());
        }
        let flags = if quiet { NO_NOTIFY } else { 0 };
        store(memory, self.place.used, 0, flags)
    }
}

impl Descriptor {
    fn purpose(&self) -> Purpose {
        match self.flags & WRITE {
            0 => Purpose::Read,
            _ => Purpose::Write,
        }
    }

    /// The table that its buffer is.
    fn table(&self) -> DescriptorTable {
        DescriptorTable {
            at: self.buffer.at,
            len: (self.buffer.len as u64 / DESCRIPTOR_LEN) as u32,
        }
    }
}

impl DescriptorTable {
    fn descriptor(self, memory: &GuestMemoryMmap, index: u16) -> Result<Descriptor, BadChain> {
        if u32::from(index) >= self.len {
            return Err(BadChain);
        }
        let at = at(self.at, u64::from(index) * DESCRIPTOR_LEN).map_err(|_| BadChain)?;
        let mut bytes = [0; DESCRIPTOR_LEN as usize];
        memory.read_slice(&mut bytes, at).map_err(|_| BadChain)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Ok(Descriptor {
            buffer: GuestBuffer {
                at: GuestAddress(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
                len: u32::from_le_bytes([i, j, k, l]) as usize,
            },
            flags: u16::from_le_bytes([m, n]),
            next: u16::from_le_bytes([o, p]),
        })
    }
}

fn at(base: GuestAddress, offset: u64) -> Result<GuestAddress, RingBroken> {
    let sum = base.0.checked_add(offset);
    sum.map(GuestAddress).ok_or(RingBroken)
}

/// Reads a number with Acquire: earlier writes of the driver are then visible.
fn load(memory: &GuestMemoryMmap, base: GuestAddress, offset: u64) -> Result<u16, RingBroken> {
    let loaded = memory.load(at(base, offset)?, Ordering::Acquire);
    loaded.map(u16::from_le).map_err(|_| RingBroken)
}

/// Writes a number with Release: it publishes all earlier writes.
fn store(
    memory: &GuestMemoryMmap,
    base: GuestAddress,
    offset: u64,
    value: u16,
) -> Result<(), RingBroken> {
    let stored = memory.store(value.to_le(), at(base, offset)?, Ordering::Release);
    stored.map_err(|_| RingBroken)
}
