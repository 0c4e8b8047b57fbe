//! A virtual machine's side of vhost-user: the front-end of the crate `vhost`, and a driver that is a device of a
//! stack.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mbuf::{Csum, MbufPool, Mbufq, Packet, PktHdr};
use mbuma::device::{Budget, Capabilities, Device};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use vhost::vhost_user::message::VhostUserHeaderFlag;
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use vmm_sys_util::eventfd::EventFd;

use super::driver_ring::{DriverRing, RingBuffers};
use crate::common::wait_until;

/// Bytes of the machine's memory.
const MEMORY_LEN: u64 = 16 << 20;
/// Bytes before each frame.
const HEADER_LEN: usize = 12;
/// What every machine of these tests takes: mergeable buffers, event indexes, messages that turn rings on, version 1.
const ALWAYS: u64 = 1 << 15 | 1 << 29 | 1 << 30 | 1 << 32;
/// Checksums and large segments of TCP over IPv4, both ways.
const OFFLOADS: u64 = 1 | 1 << 1 | 1 << 7 | 1 << 9 | 1 << 11 | 1 << 13;

const FROM_DEVICE: RingBuffers = RingBuffers {
    at: 1 << 20,
    len: 2048,
    count: 256,
    written: true,
};
const TO_DEVICE: RingBuffers = RingBuffers {
    at: 2 << 20,
    len: 68 << 10,
    count: 128,
    written: false,
};

/// A front-end, with memory that it shares.
pub(super) struct SharingMachine {
    front_end: Frontend,
    memory: GuestMemoryMmap,
    pub(super) file: OwnedFd,
}

impl SharingMachine {
    /// Connects, agrees on features, and shares memory. See [`Wire::with_lease`](super::machine::Wire::with_lease) for
    /// why it may be refused at first.
    pub(super) fn connect(path: &Path, offloads: bool) -> SharingMachine {
        let mut connected = None;
        wait_until("a connection that is not refused", || {
            let front_end = Frontend::connect(path, 2).expect("it listens");
            let features = front_end.get_features().ok();
            connected = features.map(|features| (front_end, features));
            connected.is_some()
        });
        let (mut front_end, offered) = connected.expect("it was waited for");
        let taken = ALWAYS | if offloads { OFFLOADS } else { 0 };
        assert_eq!(offered & taken, taken);
        front_end.set_owner().expect("taken");
        let protocol = front_end.get_protocol_features().expect("told");
        assert_eq!(protocol, VhostUserProtocolFeatures::REPLY_ACK);
        front_end.set_protocol_features(protocol).expect("taken");
        // From now on each message is answered.
        front_end.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        front_end.set_features(taken).expect("taken");
        let file = memfd_create("machine", MemfdFlags::CLOEXEC).expect("memory");
        ftruncate(&file, MEMORY_LEN).expect("memory");
        let mapped = FileOffset::new(File::from(file.try_clone().expect("descriptors")), 0);
        let region =
            GuestRegionMmap::from_range(GuestAddress(0), MEMORY_LEN as usize, Some(mapped));
        let region = region.expect("address space");
        let table = [VhostUserMemoryRegionInfo::from_guest_region(&region).expect("a file")];
        front_end.set_mem_table(&table).expect("taken");
        SharingMachine {
            front_end,
            memory: GuestMemoryMmap::from_regions(vec![region]).expect("one"),
            file,
        }
    }

    /// Starts the ring that frames to the device go to.
    pub(super) fn ring_to_device(&mut self) -> DriverRing {
        DriverRing::start(&self.memory, 1, TO_DEVICE, &mut self.front_end)
    }

    /// Starts both rings; a driver takes it over.
    pub(super) fn driver(mut self, mtu: u16, offloads: bool, pool: &MbufPool) -> VirtioDriver {
        let from_device = DriverRing::start(&self.memory, 0, FROM_DEVICE, &mut self.front_end);
        let rings = DriverRings {
            from_device,
            to_device: self.ring_to_device(),
            free: (0..TO_DEVICE.count).collect(),
        };
        let call = copy(&rings.from_device.call);
        let set = epoll::create(CreateFlags::CLOEXEC).expect("descriptors");
        let added = epoll::add(&set, &call, EventData::new_u64(0), EventFlags::IN);
        added.expect("descriptors");
        let driver = VirtioDriver {
            mtu,
            offloads,
            set,
            _call: call,
            pool: pool.clone(),
            memory: self.memory,
            rings: Mutex::new(rings),
            _front_end: Mutex::new(self.front_end),
        };
        driver.rings().from_device.offer(0..FROM_DEVICE.count);
        driver
    }
}

/// Another descriptor of an eventfd.
fn copy(event: &EventFd) -> OwnedFd {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("descriptors");
    pidfd_getfd(own, event.as_raw_fd(), PidfdGetfdFlags::empty()).expect("it is open")
}

/// The driver. It ends with its front-end.
pub(super) struct VirtioDriver {
    mtu: u16,
    offloads: bool,
    /// An epoll set with the calls of the ring from the device in it.
    set: OwnedFd,
    _call: OwnedFd,
    pool: MbufPool,
    memory: GuestMemoryMmap,
    rings: Mutex<DriverRings>,
    _front_end: Mutex<Frontend>,
}

struct DriverRings {
    from_device: DriverRing,
    to_device: DriverRing,
    /// Buffers of `to_device` that hold nothing.
    free: Vec<u16>,
}

impl VirtioDriver {
    fn rings(&self) -> MutexGuard<'_, DriverRings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = self.memory.read_slice(&mut bytes, GuestAddress(at));
        read.expect("it is ours");
        bytes
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let written = self.memory.write_slice(bytes, GuestAddress(at));
        written.expect("it is ours");
    }

    /// The next frame, from as many buffers as it lies in.
    fn take_frame(&self, ring: &mut DriverRing) -> Option<Packet> {
        let (first, len) = ring.take()?;
        let mut bytes = self.read(ring.buffer(first), len);
        let mut buffers = vec![first];
        for _ in 1..u16::from_le_bytes([bytes[10], bytes[11]]) {
            let (next, len) = ring.take().expect("the device publishes a frame at once");
            bytes.extend(self.read(ring.buffer(next), len));
            buffers.push(next);
        }
        ring.offer(buffers);
        let (header, frame) = bytes.split_at(HEADER_LEN);
        assert!(self.offloads || header[..10] == [0; 10], "{header:?}");
        assert!(
            self.offloads || frame.len() <= usize::from(self.mtu) + 14,
            "a frame of {} bytes",
            frame.len()
        );
        let mut packet = Packet::from_slice(&self.pool, frame, 0).expect("buffers");
        let meta = packet.header_mut();
        meta.tso_segsz = u16::from_le_bytes([header[4], header[5]]);
        if header[0] & 1 != 0 {
            meta.csum |= Csum::L4_VALID;
        }
        Some(packet)
    }
}

/// The offloads of a frame that the device must finish.
fn undone(meta: &PktHdr) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let field: u8 = match meta.csum {
        csum if csum.contains(Csum::TCP) => 16,
        csum if csum.contains(Csum::UDP) => 6,
        _ => return header,
    };
    let l4 = meta.l2_len + meta.l3_len;
    (header[0], header[6], header[8]) = (1, l4, field);
    if meta.tso_segsz != 0 {
        (header[1], header[2]) = (1, l4 + meta.l4_len);
        header[4..6].copy_from_slice(&meta.tso_segsz.to_le_bytes());
    }
    header
}

impl Device for VirtioDriver {
    fn capabilities(&self) -> Capabilities {
        match self.offloads {
            true => Capabilities {
                tx_checksum: true,
                tso4_max: u32::from(u16::MAX),
                ..Capabilities::plain(self.mtu)
            },
            false => Capabilities::plain(self.mtu),
        }
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut rings = self.rings();
        for _ in 0..budget.frames {
            match self.take_frame(&mut rings.from_device) {
                Some(packet) => rx.enqueue(packet),
                None => return Ok(rings.from_device.await_call()),
            }
        }
        Ok(true)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let mut rings = self.rings();
        while let Some((buffer, _)) = rings.to_device.take() {
            rings.free.push(buffer);
        }
        while !tx.is_empty()
            && let Some(buffer) = rings.free.pop()
            && let Some(packet) = tx.dequeue()
        {
            let bytes = [&undone(packet.header())[..], &packet.to_vec()].concat();
            self.write(rings.to_device.buffer(buffer), &bytes);
            rings.to_device.offer_filled(buffer, bytes.len());
        }
        Ok(0)
    }
}

impl AsFd for VirtioDriver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

impl fmt::Debug for VirtioDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioDriver").finish_non_exhaustive()
    }
}
