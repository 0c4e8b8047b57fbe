//! The ways a buffer operation can fail: one small type an operation.

/// A zone has no free item: the limit is reached or the system is out of memory.
///
/// The operation that returns it has made no change.
#[doc(alias = "ENOBUFS")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of network buffers: raise the pool's limits or free some first")]
pub struct NoBufs;

impl From<uma::AllocError> for NoBufs {
    fn from(_: uma::AllocError) -> Self {
        Self
    }
}

/// Why [`Packet::pullup`](crate::Packet::pullup) could not make the bytes contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PullupError {
    /// The packet has fewer bytes than the caller requested.
    #[error("the packet is shorter than the requested range")]
    TooShort,
    /// No buffer to gather them in.
    #[error("{}", NoBufs)]
    NoBufs,
}

impl From<NoBufs> for PullupError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

/// Why [`Packet::collapse`](crate::Packet::collapse) could not reduce the segments to the requested number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CollapseError {
    /// The requested number of the largest clusters does not hold the packet.
    #[error("the packet does not fit into so few segments")]
    TooManyBytes,
    /// No buffer to join segments in.
    #[error("{}", NoBufs)]
    NoBufs,
}

impl From<NoBufs> for CollapseError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

/// Why bytes could not be written in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The range reaches past the end of the data.
    #[error("the range reaches past the end of the data")]
    OutOfRange,
    /// Some of the storage is shared or read-only: unshare it first.
    #[error("the storage is shared or read-only")]
    Shared,
}
