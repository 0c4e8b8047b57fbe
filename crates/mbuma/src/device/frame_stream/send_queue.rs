//! Frames to the peer, which wait here while its socket has no room.
//!
//! Invariants: at most [`QUEUE_FRAMES_MAX`] frames and one frame more than [`QUEUE_BYTES_MAX`] bytes wait; none without
//! a peer.
//! Locks: none.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use mbuf::{Mbufq, Packet};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::deframer::LENGTH_LEN;

/// Frames that wait at most: as many as wait in a kernel's interface.
pub const QUEUE_FRAMES_MAX: usize = 1000;
/// From this many bytes on no frame is added.
pub const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Frames of a write at most.
const FRAMES_PER_WRITE: usize = 64;
/// Pieces of a write at most. A longer frame is written in parts.
const PIECES_MAX: usize = 256;

/// The sending half of a connection.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    peer: Option<Arc<UnixStream>>,
    frames: VecDeque<Packet>,
    /// Bytes of all frames, without their lengths.
    bytes: usize,
    /// Bytes of the first frame, behind its length, that were sent.
    sent: usize,
    /// Frames that lost their peer.
    unsent: u64,
    /// Frames that are done, to be dropped when the lock is released.
    done: Mbufq,
}

impl SendQueue {
    /// Sends to this peer from now on.
    pub(super) fn join(&mut self, peer: Arc<UnixStream>) {
        self.clear();
        self.peer = Some(peer);
    }

    /// Stops sending to this peer.
    pub(super) fn part(&mut self, peer: &Arc<UnixStream>) {
        if self.peer.as_ref().is_some_and(|own| Arc::ptr_eq(own, peer)) {
            self.clear();
            self.peer = None;
        }
    }

    pub(super) fn peer(&self) -> Option<&Arc<UnixStream>> {
        self.peer.as_ref()
    }

    /// Frames that were sent, or lost their peer.
    pub(super) fn take_done(&mut self) -> Mbufq {
        self.done.take_all()
    }

    /// How many lost their peer since the last call.
    pub(super) fn take_unsent(&mut self) -> u64 {
        std::mem::take(&mut self.unsent)
    }

    /// Adds frames; those for which there is no room are left in `tx`, and all of them where there is no peer.
    pub(super) fn add(&mut self, tx: &mut Mbufq) {
        while self.has_room()
            && let Some(frame) = tx.dequeue()
        {
            self.bytes += frame.len();
            self.frames.push_back(frame);
        }
    }

    fn has_room(&self) -> bool {
        let room = self.frames.len() < QUEUE_FRAMES_MAX && self.bytes < QUEUE_BYTES_MAX;
        room && self.peer.is_some()
    }

    /// Sends the bytes for which the peer's socket has room. Returns true if frames wait.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(peer) = &self.peer
            && !self.frames.is_empty()
        {
            match self.write(peer) {
                Ok(n) => self.advance(n),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => {
                    self.clear();
                    self.peer = None;
                }
            }
        }
        false
    }

    /// Sends the first frames, or parts of them, in one call. Returns the number of bytes.
    fn write(&self, peer: &UnixStream) -> Result<usize, Errno> {
        let mut lengths = [[0; LENGTH_LEN]; FRAMES_PER_WRITE];
        for (length, frame) in lengths.iter_mut().zip(&self.frames) {
            *length = (frame.len() as u32).to_be_bytes();
        }
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let frames = lengths.iter().zip(&self.frames);
        let pieces =
            frames.flat_map(|(length, frame)| std::iter::once(&length[..]).chain(frame.segments()));
        for (slot, piece) in slices.iter_mut().zip(unsent(pieces, self.sent)) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(peer, &slices[..count], &mut nothing, flags)
    }

    /// Counts bytes that were sent.
    fn advance(&mut self, n: usize) {
        self.sent += n;
        while let Some(first) = self
            .frames
            .pop_front_if(|first| self.sent >= LENGTH_LEN + first.len())
        {
            self.sent -= LENGTH_LEN + first.len();
            self.bytes -= first.len();
            self.done.enqueue(first);
        }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.frames.len()
    }

    fn clear(&mut self) {
        (self.bytes, self.sent) = (0, 0);
        self.unsent += self.frames.len() as u64;
        self.frames
            .drain(..)
            .for_each(|frame| self.done.enqueue(frame));
    }
}

/// The pieces without the first `sent` bytes.
fn unsent<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    mut sent: usize,
) -> impl Iterator<Item = &'a [u8]> {
    let rest = pieces.map(move |piece| {
        let (front, rest) = piece.split_at(sent.min(piece.len()));
        sent -= front.len();
        rest
    });
    rest.filter(|piece| !piece.is_empty())
}
