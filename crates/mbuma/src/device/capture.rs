//! A device that writes the frames that pass through it to a pcapng file, which Wireshark opens.
//!
//! It is attached instead of the device that it wraps, and writes to a file or pipe.
//!
//! Frames are written unchanged: a segment of 64 KiB appears as one frame, and a checksum that is left to the device
//! appears unfinished, as in tcpdump on a machine with offloads. A packet of IPv6 of more than 64 KiB has the option
//! that says its length.
//!
//! Invariants: frames of one direction of one queue are in order; a failing writer stops the capture, never
//! the traffic. Frames that could not be written are counted ([`Capture::lost`]).
//! Locks: the writer (STATS), and nothing is called under it but the writer.
//! Sources: the pcapng format (draft-ietf-opsawg-pcapng).

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use kern::{Clock, Counter, LockClass, Mutex, Time, order};
use mbuf::{Mbufq, Packet};
use wire::MacAddr;

use super::jumbo_front::JumboFront;
use super::{Budget, Capabilities, Device, Medium};
use crate::drops::DropReason;

mod pcapng;

static FILE: LockClass = LockClass::new("capture file", order::STATS);

/// Numbers of link types.
const LINKTYPE_ETHERNET: u16 = 1;
const LINKTYPE_RAW: u16 = 101;

/// A device around another that captures both directions (pcapng, draft-ietf-opsawg-pcapng).
pub struct Capture<D> {
    device: D,
    clock: Arc<dyn Clock>,
    /// The time of day when the clock read zero.
    epoch: Duration,
    book: Arc<Book>,
}

/// The file that the queues of a device share.
struct Book {
    file: Mutex<File>,
    lost: Counter,
}

struct File {
    /// None after an error.
    writer: Option<Writer>,
    /// A frame's block; kept for its storage.
    block: Vec<u8>,
}

type Writer = BufWriter<Box<dyn Write + Send>>;

/// The direction bits of `epb_flags`.
#[derive(Clone, Copy)]
enum CaptureDirection {
    Inward = 1,
    Outward = 2,
}

impl<D: Device> Capture<D> {
    /// Captures the frames that pass through `device`, an interface called `name`, into `writer`. `clock`
    /// stamps them; `epoch` is the time of day (since 1970) at which that clock read zero. The capture flushes the
    /// writer behind whole blocks only.
    ///
    /// # Errors
    /// The file's header could not be written.
    pub fn new(
        device: D,
        name: &str,
        writer: impl Write + Send + 'static,
        clock: Arc<dyn Clock>,
        epoch: Duration,
    ) -> io::Result<Self> {
        let mut writer: Writer = BufWriter::new(Box::new(writer));
        let mut block = Vec::new();
        let link_type = match device.medium() {
            Medium::Ethernet => LINKTYPE_ETHERNET,
            Medium::Ip => LINKTYPE_RAW,
        };
        pcapng::put_header(&mut block, link_type, name);
        writer.write_all(&block)?;
        writer.flush()?;
        let file = File {
            writer: Some(writer),
            block,
        };
        let file = Mutex::new(&FILE, file);
        Ok(Self {
            device,
            clock,
            epoch,
            book: Arc::new(Book {
                file,
                lost: Counter::new(),
            }),
        })
    }

    /// Captures another queue of the same device into the same file.
    #[must_use]
    pub fn with_queue(&self, device: D) -> Self {
        Self {
            device,
            clock: Arc::clone(&self.clock),
            epoch: self.epoch,
            book: Arc::clone(&self.book),
        }
    }

    /// Frames that passed but could not be written down, because the writer failed: all those of the batch in which it
    /// failed, and all later ones.
    pub fn lost(&self) -> u64 {
        self.book.lost.get()
    }

    /// Writes frames down, and out. An error ends the capture.
    fn record<'a>(&self, direction: CaptureDirection, frames: impl Iterator<Item = &'a Packet>) {
        let mut file = self.book.file.lock();
        // Read under the lock: stamps in the file do not go back, whichever queue a frame is of.
        let now = self.clock.now();
        let (mut buffered, mut lost) = (0, 0);
        for frame in frames {
            let stamp = self.epoch + (now - Time::ZERO);
            match file.write(frame, stamp, direction) {
                Ok(()) => buffered += 1,
                Err(_) => lost += 1,
            }
        }
        if buffered > 0 && !file.flush() {
            lost += buffered;
        }
        if lost > 0 {
            self.book.lost.add(lost);
        }
    }
}

impl File {
    fn write(
        &mut self,
        frame: &Packet,
        stamp: Duration,
        direction: CaptureDirection,
    ) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        self.block.clear();
        let front = JumboFront::of(frame);
        let pieces = JumboFront::pieces(&front, frame);
        pcapng::put_packet(&mut self.block, stamp, direction as u32, pieces);
        let written = writer.write_all(&self.block);
        if written.is_err() {
            self.writer = None;
        }
        written
    }

    /// Whether the frames since the last flush are in the file.
    fn flush(&mut self) -> bool {
        let mut writer = self.writer.take();
        self.writer = writer.take_if(|w| w.flush().is_ok());
        self.writer.is_some()
    }
}

/// That of the device.
impl<D: AsFd> AsFd for Capture<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl<D: Device> Device for Capture<D> {
    super::forward_to!(device => capabilities: Capabilities, medium: Medium, mac: Option<MacAddr>,
        take_drops: Vec<(DropReason, u64)>, detached: usize, next_deadline: Option<Time>);

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut arrived = Mbufq::new();
        let more = self.device.receive(&mut arrived, budget);
        let frames: Vec<Packet> = arrived.collect();
        self.record(CaptureDirection::Inward, frames.iter());
        frames.into_iter().for_each(|frame| rx.enqueue(frame));
        more
    }

    /// Frames are written down before they are sent; those that the device then refuses are in the
    /// file nevertheless.
    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let frames: Vec<Packet> = tx.take_all().collect();
        self.record(CaptureDirection::Outward, frames.iter());
        frames.into_iter().for_each(|frame| tx.enqueue(frame));
        self.device.transmit(tx)
    }
}

impl<D: fmt::Debug> fmt::Debug for Capture<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Capture");
        out.field("device", &self.device)
            .field("lost", &self.book.lost.get())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
