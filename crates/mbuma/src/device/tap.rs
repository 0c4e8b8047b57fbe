//! A TAP device: Ethernet frames from and to the kernel, over a file descriptor.
//!
//! A program opens the descriptor and attaches this device. The vnet header ([`Offloads::vnet_hdr`]) is before each
//! frame; `readv` and `writev` move one frame a call.
//!
//! A frame is read straight into clusters that stay its storage, and written straight from
//! the mbufs it lies in:
//!
//! ```text
//!   readv   vnet header (10) | cluster 2 KiB | 16 KiB | 16 KiB | ...      allocated before the read
//!   writev  vnet header (10) | mbuf | mbuf | ...
//! ```
//!
//! With the vnet header, checksums and 64 KiB segments are left to the other side in both directions; with
//! [`Offloads::big_tcp`], segments of 272 KiB to the kernel. If the kernel refuses one of these, for want of memory in
//! one piece, pieces of 64 KiB take its place.
//! If there are no clusters, a frame is read into a spare buffer. A short one is copied into an mbuf, because it may be
//! an acknowledgement, by which the stack frees clusters. A longer one is dropped: left in the kernel it would keep the
//! descriptor readable for ever.
//!
//! Invariants: nothing is allocated from the heap for a frame, but for one of more than
//! 64 pieces. Locks: `rx` (IFQUEUE) during a read; the kernel lets one reader in at a time anyway.
//! Sources: linux/if_tun.h, linux/virtio_net.h.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{LockClass, Mutex, order};
use mbuf::{MHLEN, MbufPool, Mbufq, NoBufs, Packet, Scatter};
use wire::EtherHeader;

pub use kern::sys::tap::Offloads;
pub use open::OpenTap;

use super::jumbo_front::JumboFront;
use super::vnet::VnetHeader;
use super::{Budget, Capabilities, Device, FRAME_MAX, offload, take_counts};
use crate::drops::DropReason;

mod open;

static RX: LockClass = LockClass::new("tap receive buffers", order::IFQUEUE);

/// How a TAP descriptor is set up (linux/if_tun.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapOptions {
    /// Largest IP packet in one frame, in bytes.
    pub mtu: u16,
    /// The offloads that the kernel has agreed to. All of them need the header that [`Offloads::vnet_hdr`] is about.
    pub offloads: Offloads,
}

/// One queue of a TAP device (linux/if_tun.h, linux/virtio_net.h): of one that [`Tap::open`] opens, or of a descriptor
/// that the program got elsewhere.
#[derive(Debug)]
pub struct Tap {
    file: File,
    options: TapOptions,
    pool: MbufPool,
    rx: Mutex<Rx>,
    drops: RxDrops,
}

/// The storage of a read, kept between reads.
#[derive(Debug)]
struct Rx {
    scatter: Scatter,
    /// The storage of a frame for which there are no clusters. Zeroed once: only bytes that the kernel wrote are read.
    spare: Vec<u8>,
}

/// Frames read and dropped since they were last reported. Relaxed: numbers that order nothing.
#[derive(Debug, Default)]
struct RxDrops {
    no_bufs: AtomicU64,
    bad_vnet: AtomicU64,
}

/// The result of a read.
enum Frame {
    Whole(Packet),
    /// Something that had to be dropped.
    Dropped,
    /// Nothing is there now.
    None,
}

impl Tap {
    /// Takes over a descriptor of a TAP device, which must not block and must be set up as `options`
    /// say. Frames are read into clusters of `pool`.
    pub fn from_fd(fd: OwnedFd, options: TapOptions, pool: &MbufPool) -> Self {
        let rx = Rx {
            scatter: Scatter::for_len(pool, FRAME_MAX),
            spare: Vec::new(),
        };
        let rx = Mutex::new(&RX, rx);
        Self {
            file: File::from(fd),
            options,
            pool: pool.clone(),
            rx,
            drops: RxDrops::default(),
        }
    }

    /// Reads one frame into clusters.
    fn read_frame(&self, rx: &mut Rx) -> io::Result<Frame> {
        if rx.scatter.refill().is_err() {
            return self.read_spare(rx);
        }
        let mut header = [0; VnetHeader::LEN];
        let (before, _) = header.split_at_mut(self.vnet_len());
        let read = |buffers: &mut [IoSliceMut<'_>]| (&self.file).read_vectored(buffers);
        let read = rx.scatter.read(before, FRAME_MAX, read);
        let n = match nothing_is_none(read) {
            Ok(Some(n)) => n,
            Ok(None) => return Ok(Frame::None),
            Err(e) if ends_reading(&e) => return Err(e),
            Err(_) => return Ok(self.drops.bad_vnet()),
        };
        let Some(len) = n.checked_sub(self.vnet_len()) else {
            return Ok(self.drops.bad_vnet());
        };
        Ok(self.finished(rx.scatter.take(len).into_packet(&self.pool), header))
    }

    /// A frame without clusters: read, and kept if an mbuf can hold it.
    #[cold]
    fn read_spare(&self, rx: &mut Rx) -> io::Result<Frame> {
        rx.spare.resize(VnetHeader::LEN + FRAME_MAX, 0);
        let n = match nothing_is_none((&self.file).read(&mut rx.spare)) {
            Ok(Some(n)) => n,
            Ok(None) => return Ok(Frame::None),
            Err(e) if ends_reading(&e) => return Err(e),
            Err(_) => return Ok(self.drops.bad_vnet()),
        };
        let read = rx.spare.get(..n).and_then(|read| {
            let (header, frame) = read.split_at_checked(self.vnet_len())?;
            let mut copy = [0; VnetHeader::LEN];
            copy[..header.len()].copy_from_slice(header);
            Some((copy, frame))
        });
        let Some((header, frame)) = read else {
            return Ok(self.drops.bad_vnet());
        };
        let short = match frame.len() {
            0..=MHLEN => Packet::from_slice(&self.pool, frame, 0),
            _ => Err(NoBufs),
        };
        Ok(self.finished(short, header))
    }

    /// Notes the header before the frame, if there is one, in the packet.
    fn finished(&self, packet: Result<Packet, NoBufs>, header: [u8; VnetHeader::LEN]) -> Frame {
        let Ok(mut packet) = packet else {
            return self.drops.no_bufs();
        };
        let describe = |packet| VnetHeader::from_bytes(header).describe(packet);
        if self.options.offloads.vnet_hdr && describe(&mut packet).is_err() {
            return self.drops.bad_vnet();
        }
        Frame::Whole(packet)
    }

    /// Writes one frame, gathering its pieces. Most frames have few, and clearing a long list takes longer than filling
    /// a short one.
    fn write_frame(&self, packet: &mut Packet) -> io::Result<()> {
        match packet.segments().nth(IOV_FEW - HEADERS_MAX) {
            None => self.write_pieces::<IOV_FEW>(packet),
            Some(_) => self.write_pieces::<IOV_MAX>(packet),
        }
    }

    /// Writes a frame of `N` pieces at most.
    fn write_pieces<const N: usize>(&self, packet: &mut Packet) -> io::Result<()> {
        let mut header = VnetHeader::of(packet);
        let jumbo = self
            .options
            .offloads
            .jumbo_option
            .then(|| JumboFront::of(packet));
        let jumbo = jumbo.flatten();
        if jumbo.is_some() {
            header.csum_start += JumboFront::ADDED;
            header.hdr_len += JumboFront::ADDED;
        }
        let header = header.to_bytes();
        let mut slices = [IoSlice::new(&[]); N];
        let mut count = 0;
        let vnet = self.options.offloads.vnet_hdr.then_some(&header[..]);
        let mut pieces = vnet.into_iter().chain(JumboFront::pieces(&jumbo, packet));
        for (slot, piece) in slices.iter_mut().zip(&mut pieces) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        let is_long = count == N && pieces.next().is_some();
        drop(pieces);
        if is_long {
            return self.write_long(packet);
        }
        let (slices, _) = slices.split_at(count);
        (&self.file).write_vectored(slices).map(|_| ())
    }

    /// Puts pieces of 64 KiB in the place of a larger packet; returns how many packets were lost for want of buffers.
    #[cold]
    fn cut(&self, tx: &mut Mbufq, packet: Packet) -> usize {
        let caps = Capabilities {
            tso4_max: u16::MAX.into(),
            tso6_max: u16::MAX.into(),
            ..self.capabilities()
        };
        let mut pieces = Mbufq::new();
        let cut = offload::prepare(&self.pool, packet, caps, &mut pieces);
        pieces.append(tx);
        *tx = pieces;
        usize::from(cut.is_err())
    }

    /// Writes a frame of very many pieces: neighbours are joined first, which the pool counts as bytes copied.
    #[cold]
    fn write_long(&self, packet: &mut Packet) -> io::Result<()> {
        let most = IOV_MAX - 1 - usize::from(self.options.offloads.vnet_hdr);
        let joined = packet.collapse(&self.pool, most);
        joined.map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.write_frame(packet)
    }

    fn vnet_len(&self) -> usize {
        if self.options.offloads.vnet_hdr {
            VnetHeader::LEN
        } else {
            0
        }
    }
}

impl RxDrops {
    fn no_bufs(&self) -> Frame {
        self.no_bufs.fetch_add(1, Ordering::Relaxed);
        Frame::Dropped
    }

    fn bad_vnet(&self) -> Frame {
        self.bad_vnet.fetch_add(1, Ordering::Relaxed);
        Frame::Dropped
    }
}

impl Device for Tap {
    fn capabilities(&self) -> Capabilities {
        let offloads = self.options.offloads;
        let tx_checksum = offloads.vnet_hdr && offloads.csum;
        let max = |taken| if tx_checksum && taken { u16::MAX } else { 0 };
        let tso_max = |taken| match max(taken) {
            u16::MAX if offloads.big_tcp => BIG_TCP_MAX,
            max => max.into(),
        };
        Capabilities {
            mtu: self.options.mtu,
            tx_checksum,
            tso4_max: tso_max(offloads.tso4),
            tso6_max: tso_max(offloads.tso6),
            uso_max: max(offloads.uso),
        }
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut state = self.rx.lock();
        let mut bytes = 0;
        for _ in 0..budget.frames {
            if bytes >= budget.bytes {
                break;
            }
            match self.read_frame(&mut state) {
                Ok(Frame::Whole(packet)) => {
                    bytes += packet.len();
                    rx.enqueue(packet);
                }
                Ok(Frame::Dropped) => {}
                Ok(Frame::None) => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        take_counts([
            (DropReason::NoBufs, &self.drops.no_bufs),
            (DropReason::BadVnetHeader, &self.drops.bad_vnet),
        ])
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let mut refused = 0;
        while let Some(mut packet) = tx.dequeue() {
            match self.write_frame(&mut packet) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => put_back(tx, packet),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    put_back(tx, packet);
                    return Ok(refused);
                }
                Err(e) if is_gone(&e) => return Err(e),
                // The kernel may lack the memory for so many bytes at once.
                Err(_) if is_oversize(&packet) => refused += self.cut(tx, packet),
                Err(_) => refused += 1,
            }
        }
        Ok(refused)
    }
}

impl AsRawFd for Tap {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Distinguishes "no frame now" from an error. A descriptor at its end is no TAP device.
fn nothing_is_none(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(n) => Ok(Some(n)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether a read or a write failed because the device is gone. EIO is not such an error: it means that the interface
/// is down, which may change.
fn is_gone(error: &io::Error) -> bool {
    let gone = [
        libc::EBADF,
        libc::EBADFD,
        libc::ENODEV,
        libc::ENXIO,
        libc::EPIPE,
    ];
    error
        .raw_os_error()
        .is_some_and(|errno| gone.contains(&errno))
}

/// Whether a read failed for good, or was interrupted. Other errors cost the frame that was to be read: a process
/// that is root on the other side may set the device, by a queue of its own, to headers that do not fit ours
/// (TUNSETOFFLOAD, TUNSETVNETHDRSZ), and the kernel then answers EFAULT or EINVAL and drops the frame.
fn ends_reading(error: &io::Error) -> bool {
    let ends = [io::ErrorKind::Interrupted, io::ErrorKind::UnexpectedEof];
    ends.contains(&error.kind()) || is_gone(error)
}

/// Whether it is larger than a packet whose header says its length.
fn is_oversize(packet: &Packet) -> bool {
    packet.len() > EtherHeader::LEN + usize::from(u16::MAX)
}

fn put_back(tx: &mut Mbufq, packet: Packet) {
    let mut all = Mbufq::new();
    all.enqueue(packet);
    all.append(tx);
    *tx = all;
}

/// Bytes of a packet of TCP at most where the length in IP's header does not bound it: a turn of 256 KiB that sends a
/// file, and what goes with it. The kernel copies a frame to pieces of 32 KiB, of which it allows 17.
const BIG_TCP_MAX: u32 = 272 << 10;

/// Pieces of a frame that are written without a copy, the vnet header included.
const IOV_MAX: usize = 64;
/// The same of most frames: a segment of 64 KiB has six.
const IOV_FEW: usize = 12;
/// The pieces that come before those of a packet: the vnet header, and [`JumboFront`].
const HEADERS_MAX: usize = 2;

#[cfg(all(test, not(shuttle)))]
mod tests;
