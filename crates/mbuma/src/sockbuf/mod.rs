//! Socket buffers: data that waits between a socket's user and the protocol.
//!
//! | type | holds | used by |
//! |---|---|---|
//! | [`StreamBuf`] | bytes in order; a prefix of them is ready | TCP, both directions |
//! | [`RecordBuf`] | messages, each with its ancillary data; or, joined, a stream with marks in it | UNIX-domain sockets |
//! | [`RecvSide`] | a [`RecordBuf`] under a [`Guarded`](kern::Guarded) lock, with its waiting readers | UDP, ICMP |
//!
//! One rule defines how much of a buffer's limit data uses: [`charge`].
//!
//! Locks: a buffer has none; its owner locks it. [`RecvSide`] is such an owner.
//! Sources: the sockbuf of 4.4BSD; sbappend and M_NOTREADY of FreeBSD.

mod records;
mod recv_side;
mod sealer;
mod stream;

pub(crate) use records::{Ancillary, QueuedRecord, RecordBuf};
pub(crate) use recv_side::RecvSide;
pub(crate) use sealer::{PlainContent, PlainRecord, SealError, Sealer};
pub(crate) use stream::{BYTES_MAX, ClaimId, Flushed, StreamBuf};

/// The part of a buffer's limit that data uses: its length, or a fraction of the memory that it pins, whichever is
/// more.
///
/// Densely packed data is charged little more than its length. Small segments in large clusters are charged for the
/// clusters, so the buffer is full long before memory is short.
#[doc(alias = "sb_mbcnt")]
#[inline]
pub(crate) fn charge(len: usize, pinned: usize) -> usize {
    len.max(pinned / mbuf::PINNED_PER_BYTE_MAX)
}
