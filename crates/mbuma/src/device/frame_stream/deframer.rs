//! Frames in a stream of bytes, each behind its length.
//!
//! Invariants: at most one frame is incomplete, and pins at most four times its bytes.
//! Locks: none.

use std::mem;

use mbuf::{Chain, MHLEN, MbufPool, NoBufs};
use wire::EtherHeader;

use crate::device::FRAME_MAX;

/// Bytes of a length.
pub(super) const LENGTH_LEN: usize = 4;

/// The state between two bytes of the stream.
#[derive(Debug)]
pub(super) enum Deframer {
    /// Inside of a length, of which this many bytes have arrived.
    Length([u8; LENGTH_LEN], usize),
    /// Inside of a frame of this many bytes, with those that have arrived.
    Frame(usize, Chain),
    /// Inside of a frame that is dropped, for this reason; this many bytes of it are still to come.
    Dropping(usize, Lost),
}

/// Why a frame is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// There was no buffer.
    NoBufs,
    /// It cannot hold an Ethernet header.
    BadLength,
}

/// The end of a frame.
#[derive(Debug)]
pub(super) enum FrameEnd {
    Whole(Chain),
    Lost(Lost),
    /// Its length is impossible: no later byte has a meaning.
    TooLong,
}

/// Bytes of the stream that were read.
pub(super) trait StreamBytes {
    fn len(&self) -> usize;
    /// Fills `out`, which must not be longer than the bytes.
    fn copy_front(&mut self, out: &mut [u8]);
    /// The first `n`, in buffers.
    fn take_front(&mut self, n: usize) -> Result<Chain, NoBufs>;
    fn skip(&mut self, n: usize);
    /// The longest frame; a longer one is an error.
    fn frame_max(&self) -> usize {
        FRAME_MAX
    }
}

impl StreamBytes for Chain {
    fn len(&self) -> usize {
        self.len()
    }

    fn copy_front(&mut self, out: &mut [u8]) {
        self.copy_to(0, out);
        self.trim_front(out.len());
    }

    fn take_front(&mut self, n: usize) -> Result<Chain, NoBufs> {
        self.take_front(n)
    }

    fn skip(&mut self, n: usize) {
        self.trim_front(n);
    }
}

/// Bytes that were read when there were no clusters: a short frame is copied into an mbuf.
pub(super) struct SpareBytes<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) pool: &'a MbufPool,
}

impl StreamBytes for SpareBytes<'_> {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn copy_front(&mut self, out: &mut [u8]) {
        let (front, rest) = self.bytes.split_at(out.len());
        out.copy_from_slice(front);
        self.bytes = rest;
    }

    fn take_front(&mut self, n: usize) -> Result<Chain, NoBufs> {
        let (front, rest) = self.bytes.split_at(n);
        let taken = match n {
            0..=MHLEN => Chain::from_slice(self.pool, front)?,
            _ => return Err(NoBufs),
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn skip(&mut self, n: usize) {
        self.bytes = self.bytes.split_at(n).1;
    }

    fn frame_max(&self) -> usize {
        MHLEN
    }
}

impl Default for Deframer {
    /// Before the first length.
    fn default() -> Self {
        Self::Length([0; LENGTH_LEN], 0)
    }
}

impl Deframer {
    /// Takes bytes of `from` up to the end of a frame. Returns `None` if they end before.
    pub(super) fn next(
        &mut self,
        from: &mut impl StreamBytes,
        pool: &MbufPool,
    ) -> Option<FrameEnd> {
        loop {
            if let Some(end) = self.end() {
                return Some(end);
            }
            if from.len() == 0 {
                return None;
            }
            match self {
                Self::Length(length, known) => {
                    let n = (LENGTH_LEN - *known).min(from.len());
                    from.copy_front(&mut length[*known..*known + n]);
                    *known += n;
                    if *known == LENGTH_LEN {
                        let len = u32::from_be_bytes(*length) as usize;
                        *self = Self::begin(len, from.frame_max());
                        if len > FRAME_MAX {
                            return Some(FrameEnd::TooLong);
                        }
                    }
                }
                Self::Frame(len, bytes) => {
                    let missing = *len - bytes.len();
                    let here = missing.min(from.len());
                    match from.take_front(here) {
                        Ok(last) if here == missing => bytes.append(last),
                        // The rest may never come, so few bytes must not keep a large cluster until then.
                        Ok(more) => bytes.append_compact(pool, more),
                        Err(NoBufs) => *self = Self::Dropping(missing, Lost::NoBufs),
                    }
                }
                Self::Dropping(missing, _) => {
                    let n = from.len().min(*missing);
                    from.skip(n);
                    *missing -= n;
                }
            }
        }
    }

    /// Behind a length.
    fn begin(len: usize, max: usize) -> Self {
        match len {
            ..EtherHeader::LEN => Self::Dropping(len, Lost::BadLength),
            _ if len > max => Self::Dropping(len, Lost::NoBufs),
            _ => Self::Frame(len, Chain::new()),
        }
    }

    /// The end of the frame, if all of it has arrived.
    fn end(&mut self) -> Option<FrameEnd> {
        let end = match self {
            Self::Frame(len, bytes) if bytes.len() == *len => FrameEnd::Whole(mem::take(bytes)),
            Self::Dropping(0, lost) => FrameEnd::Lost(*lost),
            _ => return None,
        };
        *self = Self::default();
        Some(end)
    }
}
