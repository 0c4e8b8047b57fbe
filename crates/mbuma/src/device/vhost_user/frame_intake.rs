//! Frames from the machine: copied once out of its memory, into clusters that stay their storage.
//!
//! Without clusters, a frame that fits into an mbuf is kept, because acknowledgements from the machine let the stack
//! free clusters. A longer one is dropped.
//!
//! Locks: none.

use mbuf::{MHLEN, MbufPool, NoBufs, Packet, Scatter};
use vm_memory::GuestMemoryMmap;
use wire::EtherHeader;

use super::buffers::{BadChain, BufferCursor, GuestBuffer};
use super::vring::{Purpose, RingBroken, Vring};
use crate::device::FRAME_MAX;
use crate::device::vnet::VnetHeader;
use crate::drops::DropReason;

/// Storage for the next frames, kept between them.
#[derive(Debug)]
pub(super) struct FrameIntake {
    pool: MbufPool,
    scatter: Scatter,
    buffers: Vec<GuestBuffer>,
}

/// The result of a search for a frame.
#[derive(Debug)]
pub(super) enum TakenFrame {
    Whole(Packet),
    /// A frame that had to be dropped.
    Dropped(DropReason),
    /// There is none.
    Nothing,
}

impl FrameIntake {
    pub(super) fn new(pool: &MbufPool) -> Self {
        Self {
            pool: pool.clone(),
            scatter: Scatter::for_len(pool, FRAME_MAX),
            buffers: Vec::new(),
        }
    }

    /// Takes the next frame, and gives its buffers back to the driver. `header_len`: bytes before the frame.
    ///
    /// # Errors
    /// The ring is broken.
    pub(super) fn take(
        &mut self,
        memory: &GuestMemoryMmap,
        ring: &mut Vring,
        header_len: usize,
    ) -> Result<TakenFrame, RingBroken> {
        if ring.available(memory)? == 0 {
            return Ok(TakenFrame::Nothing);
        }
        let head = ring.head(memory, 0)?;
        self.buffers.clear();
        let len = ring.chain(memory, head, Purpose::Read, &mut self.buffers);
        let copied = len.map_err(|BadChain| DropReason::BadDescriptors);
        let copied = copied.and_then(|len| self.copy(memory, len, header_len));
        ring.put_used(memory, 0, head, 0)?;
        ring.publish(memory, 1)?;
        Ok(match copied {
            Ok(packet) => TakenFrame::Whole(packet),
            Err(reason) => TakenFrame::Dropped(reason),
        })
    }

    /// Copies a frame out of its buffers, which have `len` bytes.
    fn copy(
        &mut self,
        memory: &GuestMemoryMmap,
        len: usize,
        header_len: usize,
    ) -> Result<Packet, DropReason> {
        let len = len.checked_sub(header_len);
        let is_frame = |len: &usize| (EtherHeader::LEN..=FRAME_MAX).contains(len);
        let len = len.filter(is_frame).ok_or(DropReason::BadFrameLength)?;
        let buffers = std::mem::take(&mut self.buffers);
        let mut cursor = BufferCursor::new(memory, &buffers);
        let mut header = [0; VnetHeader::LEN];
        let mut number = [0; 2];
        let read = cursor.read(&mut header);
        // The number of chains means nothing in this direction.
        let read = read.and_then(|()| cursor.read(&mut number[..header_len - VnetHeader::LEN]));
        let packet = match read {
            Ok(()) => self.frame(&mut cursor, len),
            Err(BadChain) => Err(DropReason::BadDescriptors),
        };
        self.buffers = buffers;
        let mut packet = packet?;
        let described = VnetHeader::from_bytes(header).describe(&mut packet);
        described.map_err(|_| DropReason::BadVnetHeader)?;
        Ok(packet)
    }

    fn frame(&mut self, from: &mut BufferCursor<'_>, len: usize) -> Result<Packet, DropReason> {
        if self.scatter.refill().is_err() {
            return self.short_frame(from, len);
        }
        let copied = self.scatter.read(&mut [], len, |buffers| {
            let mut buffers = buffers.iter_mut();
            buffers.try_for_each(|buffer| from.read(buffer))
        });
        copied.map_err(|BadChain| DropReason::BadDescriptors)?;
        let packet = self.scatter.take(len).into_packet(&self.pool);
        packet.map_err(|NoBufs| DropReason::NoBufs)
    }

    #[cold]
    fn short_frame(
        &mut self,
        from: &mut BufferCursor<'_>,
        len: usize,
    ) -> Result<Packet, DropReason> {
        let mut bytes = [0; MHLEN];
        let bytes = bytes.get_mut(..len).ok_or(DropReason::NoBufs)?;
        let copied = from.read(bytes);
        copied.map_err(|BadChain| DropReason::BadDescriptors)?;
        Packet::from_slice(&self.pool, bytes, 0).map_err(|NoBufs| DropReason::NoBufs)
    }
}
