//! Frames from the peer: reads of its stream into clusters, and the frames in them.
//!
//! A read takes all bytes that have arrived, up to the longest frame. Frames beyond the caller's budget stay here.
//! Without clusters, a few frames are read into a spare buffer, because acknowledgements among them free clusters.
//!
//! Locks: none.

use std::io::{self, IoSliceMut, Read};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use mbuf::{Chain, MbufPool, Packet, Scatter};

use super::deframer::{Deframer, FrameEnd, LENGTH_LEN, Lost, SpareBytes};
use crate::device::FRAME_MAX;
use crate::device::peer_listener::has_ended;

/// Bytes of a read without clusters.
const SPARE_LEN: usize = 4096;

/// The receiving half of a connection, and the storage of reads.
#[derive(Debug)]
pub(super) struct FrameReader {
    pool: MbufPool,
    scatter: Scatter,
    spare: Vec<u8>,
    peer: Option<Arc<UnixStream>>,
    /// Bytes that were read, and whose frames the caller has not taken.
    unread: Chain,
    /// The same in the spare buffer, behind those.
    spare_unread: Range<usize>,
    deframer: Deframer,
    /// The last read did not fill its buffers.
    is_drained: bool,
}

/// The result of a search for a frame.
pub(super) enum NextFrame {
    Whole(Packet),
    /// It was dropped.
    NoBufs,
    /// It was dropped.
    BadLength,
    /// All bytes that had arrived were taken.
    Drained,
    /// Nothing was there.
    Idle,
    /// The connection with this peer has ended.
    End(Arc<UnixStream>),
    /// The same, because of a frame of an impossible length.
    TooLong(Arc<UnixStream>),
}

impl FrameReader {
    pub(super) fn new(pool: &MbufPool) -> Self {
        Self {
            pool: pool.clone(),
            scatter: Scatter::for_len(pool, FRAME_MAX + LENGTH_LEN),
            spare: Vec::new(),
            peer: None,
            unread: Chain::new(),
            spare_unread: 0..0,
            deframer: Deframer::default(),
            is_drained: false,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    /// Closes the connection of a peer that has ended, though its end was not read yet: the same machine, started
    /// again, may connect before that.
    pub(super) fn lose_ended_peer(&mut self) -> Option<Arc<UnixStream>> {
        let ended = self.peer.take_if(|peer| has_ended(peer));
        if ended.is_some() {
            self.forget();
        }
        ended
    }

    /// Reads from this peer from now on.
    pub(super) fn join(&mut self, peer: Arc<UnixStream>) {
        self.forget();
        self.peer = Some(peer);
    }

    /// Drops all data of the last connection.
    fn forget(&mut self) {
        self.unread = Chain::new();
        self.spare_unread = 0..0;
        self.deframer = Deframer::default();
        self.is_drained = false;
    }

    /// The next frame.
    pub(super) fn next_frame(&mut self) -> NextFrame {
        loop {
            if let Some(end) = self.deframe() {
                return self.ended(end);
            }
            let Some(peer) = self.peer.clone() else {
                return NextFrame::Idle;
            };
            if std::mem::take(&mut self.is_drained) {
                return NextFrame::Drained;
            }
            match self.fill(&peer) {
                Ok(0) => return self.part(NextFrame::End),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return NextFrame::Idle,
                Err(_) => return self.part(NextFrame::End),
            }
        }
    }

    /// The end of a frame in bytes that were read.
    fn deframe(&mut self) -> Option<FrameEnd> {
        if let Some(end) = self.deframer.next(&mut self.unread, &self.pool) {
            return Some(end);
        }
        let mut spare = SpareBytes {
            bytes: self.spare.get(self.spare_unread.clone())?,
            pool: &self.pool,
        };
        let end = self.deframer.next(&mut spare, &self.pool);
        self.spare_unread.start = self.spare_unread.end - spare.bytes.len();
        end
    }

    fn ended(&mut self, end: FrameEnd) -> NextFrame {
        match end {
            FrameEnd::Whole(bytes) => match bytes.into_packet(&self.pool) {
                Ok(packet) => NextFrame::Whole(packet),
                Err(_) => NextFrame::NoBufs,
            },
            FrameEnd::Lost(Lost::NoBufs) => NextFrame::NoBufs,
            FrameEnd::Lost(Lost::BadLength) => NextFrame::BadLength,
            FrameEnd::TooLong => self.part(NextFrame::TooLong),
        }
    }

    /// Closes the peer's connection.
    fn part(&mut self, end: fn(Arc<UnixStream>) -> NextFrame) -> NextFrame {
        self.forget();
        self.peer.take().map_or(NextFrame::Idle, end)
    }

    /// Reads. Returns the number of bytes.
    fn fill(&mut self, peer: &UnixStream) -> io::Result<usize> {
        let mut peer = peer;
        if self.scatter.refill().is_err() {
            self.spare.resize(SPARE_LEN, 0);
            let n = peer.read(&mut self.spare)?;
            self.spare_unread = 0..n;
            return Ok(n);
        }
        let read = |buffers: &mut [IoSliceMut<'_>]| peer.read_vectored(buffers);
        let n = self.scatter.read(&mut [], usize::MAX, read)?;
        self.is_drained = n < self.scatter.capacity();
        self.unread = self.scatter.take(n);
        Ok(n)
    }
}
