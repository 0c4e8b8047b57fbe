//! A sequence of buffers in a machine's memory.
//!
//! Locks: none.

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// The chain of buffers is invalid: no frame can be read from it or written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadChain;

/// A buffer, as the driver describes it: its memory may not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct GuestBuffer {
    pub(super) at: GuestAddress,
    pub(super) len: usize,
}

/// A place in buffers.
pub(super) struct BufferCursor<'a> {
    memory: &'a GuestMemoryMmap,
    buffers: std::slice::Iter<'a, GuestBuffer>,
    /// The rest of the buffer before those.
    rest: GuestBuffer,
}

impl<'a> BufferCursor<'a> {
    /// At the first byte.
    pub(super) fn new(memory: &'a GuestMemoryMmap, buffers: &'a [GuestBuffer]) -> Self {
        let rest = GuestBuffer {
            at: GuestAddress(0),
            len: 0,
        };
        Self {
            memory,
            buffers: buffers.iter(),
            rest,
        }
    }

    /// Copies the next bytes out of them.
    ///
    /// # Errors
    /// The buffers end, or there is no memory.
    pub(super) fn read(&mut self, mut to: &mut [u8]) -> Result<(), BadChain> {
        while !to.is_empty() {
            let piece = self.piece(to.len())?;
            let (front, rest) = to.split_at_mut(piece.len);
            let copied = self.memory.read_slice(front, piece.at);
            copied.map_err(|_| BadChain)?;
            to = rest;
        }
        Ok(())
    }

    /// Copies bytes into them.
    ///
    /// # Errors
    /// As above.
    pub(super) fn write(&mut self, mut from: &[u8]) -> Result<(), BadChain> {
        while !from.is_empty() {
            let piece = self.piece(from.len())?;
            let (front, rest) = from.split_at(piece.len);
            let copied = self.memory.write_slice(front, piece.at);
            copied.map_err(|_| BadChain)?;
            from = rest;
        }
        Ok(())
    }

    /// The next piece, of `max` bytes at most, in one buffer.
    fn piece(&mut self, max: usize) -> Result<GuestBuffer, BadChain> {
        while self.rest.len == 0 {
            self.rest = *self.buffers.next().ok_or(BadChain)?;
        }
        let GuestBuffer { at, len } = self.rest;
        let piece = len.min(max);
        let behind = at.0.checked_add(piece as u64).ok_or(BadChain)?;
        self.rest = GuestBuffer {
            at: GuestAddress(behind),
            len: len - piece,
        };
        Ok(GuestBuffer { at, len: piece })
    }
}
