//! The ways a buffer operation can fail: one small type an operation.

use core::fmt;

/// A zone has no free item: the limit is reached or the system is out of memory.
///
/// The operation that returns it has made no change.
#[doc(alias = "ENOBUFS")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoBufs;

impl fmt::Display for NoBufs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of network buffers: raise the pool's limits or free some first")
    }
}

impl std::error::Error for NoBufs {}

impl From<uma::AllocError> for NoBufs {
    fn from(_: uma::AllocError) -> Self {
        Self
    }
}

/// Why [`Packet::pullup`](crate::Packet::pullup) or [`pulldown`](crate::Packet::pulldown) could not
/// make the bytes contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullupError {
    /// The packet has fewer bytes than the caller requested.
    TooShort,
    /// No buffer to gather them in.
    NoBufs,
}

impl fmt::Display for PullupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort => f.write_str("the packet is shorter than the requested range"),
            Self::NoBufs => NoBufs.fmt(f),
        }
    }
}

impl std::error::Error for PullupError {}

impl From<NoBufs> for PullupError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

/// Why [`Packet::collapse`](crate::Packet::collapse) could not reduce the segments to the requested number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollapseError {
    /// The requested number of the largest clusters does not hold the packet.
    TooManyBytes,
    /// No buffer to join segments in.
    NoBufs,
}

impl fmt::Display for CollapseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyBytes => f.write_str("the packet does not fit into so few segments"),
            Self::NoBufs => NoBufs.fmt(f),
        }
    }
}

impl std::error::Error for CollapseError {}

impl From<NoBufs> for CollapseError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

/// Why bytes could not be written in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteError {
    /// The range reaches past the end of the data.
    OutOfRange,
    /// Some of the storage is shared or read-only: unshare it first.
    Shared,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the range reaches past the end of the data",
            Self::Shared => "the storage is shared or read-only",
        })
    }
}

impl std::error::Error for WriteError {}
