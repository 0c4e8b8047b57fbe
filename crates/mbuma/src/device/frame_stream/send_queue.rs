//! Frames to the peer, which wait here while its socket has no room.
//!
//! Invariants: no frame waits without a peer.
//! Locks: none.

use std::io::IoSlice;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use mbuf::Mbufq;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::deframer::LENGTH_LEN;
use crate::device::frame_queue::FrameQueue;

/// Frames of a write at most.
const FRAMES_PER_WRITE: usize = 64;
/// Pieces of a write at most. A longer frame is written in parts.
const PIECES_MAX: usize = 256;

/// The sending half of a connection.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    peer: Option<Arc<UnixStream>>,
    queue: FrameQueue,
    /// Bytes of the first frame, behind its length, that were sent.
    sent: usize,
    /// Frames that lost their peer.
    unsent: u64,
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
        self.queue.take_done()
    }

    /// How many lost their peer since the last call.
    pub(super) fn take_unsent(&mut self) -> u64 {
        std::mem::take(&mut self.unsent)
    }

    /// Adds frames; those for which there is no room are left in `tx`, and all of them where there is no peer.
    pub(super) fn add(&mut self, tx: &mut Mbufq) {
        if self.peer.is_some() {
            self.queue.add(tx);
        }
    }

    /// Sends the bytes for which the peer's socket has room. Returns true if frames wait.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(peer) = &self.peer
            && !self.queue.frames().is_empty()
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
        for (length, frame) in lengths.iter_mut().zip(self.queue.frames()) {
            *length = (frame.len() as u32).to_be_bytes();
        }
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let frames = lengths.iter().zip(self.queue.frames());
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
        while let Some(first) = self.queue.take() {
            let len = LENGTH_LEN + first.len();
            if self.sent < len {
                return self.queue.put_back(first);
            }
            self.sent -= len;
            self.queue.finish(first);
        }
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn waiting(&self) -> usize {
        self.queue.frames().len()
    }

    fn clear(&mut self) {
        self.sent = 0;
        self.unsent += self.queue.clear() as u64;
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
