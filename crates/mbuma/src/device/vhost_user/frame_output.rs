//! Frames to the machine, which wait here while its driver has no buffers for them, and are copied once into its
//! memory.
//!
//! Locks: none.

use mbuf::{Mbufq, Packet};
use vm_memory::GuestMemoryMmap;

use super::buffers::{BadChain, BufferCursor, GuestBuffer};
use super::features::FrameHeader;
use super::vring::{Purpose, RingBroken, Vring};
use crate::device::frame_queue::FrameQueue;
use crate::device::vnet::VnetHeader;

/// The queue, and storage kept between frames.
#[derive(Debug, Default)]
pub(super) struct FrameOutput {
    queue: FrameQueue,
    /// Frames for which the driver never has enough buffers.
    refused: usize,
    /// The chains that were found for the first frame, their buffers, and the bytes that they have room for.
    chains: Vec<UsableChain>,
    buffers: Vec<GuestBuffer>,
    room: usize,
}

/// A chain of the driver's that can be written.
#[derive(Debug, Clone, Copy)]
struct UsableChain {
    head: u16,
    len: usize,
}

/// The result of a search for buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BufferRoom {
    Enough,
    /// This many chains are available, and are too few.
    TooLittle(u16),
    /// The driver never has enough for this frame.
    Never,
}

impl FrameOutput {
    /// Adds frames; those for which there is no room are left in `tx`.
    pub(super) fn add(&mut self, tx: &mut Mbufq) {
        self.queue.add(tx);
    }

    /// Writes the frames for which the driver has buffers. It kicks when it has more, if frames wait.
    ///
    /// # Errors
    /// The ring is broken.
    pub(super) fn flush(
        &mut self,
        memory: &GuestMemoryMmap,
        ring: &mut Vring,
        header: FrameHeader,
    ) -> Result<(), RingBroken> {
        // The driver may have set its ring up again since the last search.
        self.forget_room();
        while let Some(frame) = self.queue.take() {
            match self.write(&frame, memory, ring, header) {
                Err(RingBroken) => {
                    self.queue.put_back(frame);
                    return Err(RingBroken);
                }
                Ok(BufferRoom::Enough) => self.finish(frame),
                Ok(BufferRoom::Never) => {
                    self.refused += 1;
                    self.finish(frame);
                }
                Ok(BufferRoom::TooLittle(seen)) => {
                    self.queue.put_back(frame);
                    // The chains that were found are kept, so that none is walked twice if a driver makes them
                    // available one by one.
                    if !ring.await_kick(memory, seen)? {
                        return Ok(());
                    }
                }
            }
        }
        ring.be_quiet(memory)
    }

    fn finish(&mut self, frame: Packet) {
        self.forget_room();
        self.queue.finish(frame);
    }

    /// Writes a header and a frame, and gives their chains back.
    fn write(
        &mut self,
        frame: &Packet,
        memory: &GuestMemoryMmap,
        ring: &mut Vring,
        header: FrameHeader,
    ) -> Result<BufferRoom, RingBroken> {
        let len = header.len + frame.len();
        match self.find_room(len, memory, ring, header.mergeable)? {
            BufferRoom::Enough => {}
            other => return Ok(other),
        }
        let count = self.chains.len() as u16;
        let mut bytes = [0; VnetHeader::LEN + 2];
        let (vnet, number) = bytes.split_at_mut(VnetHeader::LEN);
        vnet.copy_from_slice(&VnetHeader::of(frame).to_bytes());
        number.copy_from_slice(&count.to_le_bytes());
        let mut cursor = BufferCursor::new(memory, &self.buffers);
        let written = cursor.write(&bytes[..header.len]);
        let written = written.and_then(|()| frame.segments().try_for_each(|s| cursor.write(s)));
        written.map_err(|BadChain| RingBroken)?;
        let mut rest = len;
        for (ahead, chain) in self.chains.iter().enumerate() {
            let here = rest.min(chain.len);
            rest -= here;
            ring.put_used(memory, ahead as u16, chain.head, here as u32)?;
        }
        ring.publish(memory, count)?;
        Ok(BufferRoom::Enough)
    }

    fn forget_room(&mut self) {
        self.chains.clear();
        self.buffers.clear();
        self.room = 0;
    }

    /// Collects chains of `len` bytes, behind those that were found already. A chain that can't be written breaks the
    /// ring: frames behind it would never come.
    pub(super) fn find_room(
        &mut self,
        len: usize,
        memory: &GuestMemoryMmap,
        ring: &Vring,
        mergeable: bool,
    ) -> Result<BufferRoom, RingBroken> {
        let available = ring.available(memory)?;
        // The search is bounded, because a driver that takes chains back could otherwise hold the thread for ever.
        if usize::from(available) < self.chains.len() {
            return Err(RingBroken);
        }
        while self.room < len {
            let taken = self.chains.len() as u16;
            if taken == ring.size() || (taken > 0 && !mergeable) {
                return Ok(BufferRoom::Never);
            }
            if taken == available {
                return Ok(BufferRoom::TooLittle(available));
            }
            let head = ring.head(memory, taken)?;
            let chain = ring.chain(memory, head, Purpose::Write, &mut self.buffers);
            let len = chain.map_err(|BadChain| RingBroken)?;
            self.room += len;
            self.chains.push(UsableChain { head, len });
        }
        Ok(BufferRoom::Enough)
    }

    /// Drops all frames that wait, because the driver has left. Returns their number.
    pub(super) fn clear(&mut self) -> usize {
        self.queue.clear()
    }

    /// Frames that were sent, or lost their driver.
    pub(super) fn take_done(&mut self) -> Mbufq {
        self.queue.take_done()
    }

    /// How many were refused since the last call.
    pub(super) fn take_refused(&mut self) -> usize {
        std::mem::take(&mut self.refused)
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn waiting(&self) -> usize {
        self.queue.frames().len()
    }
}
