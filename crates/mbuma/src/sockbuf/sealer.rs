//! Records of a stream that are sealed at their first transmission, and the trait that seals them.
//!
//! A record occupies its length on the wire from the start, so sequence numbers, room and the FIN's place are known.
//! The first transmission seals it and puts the sealed bytes in its place. So a retransmission shares these bytes, and
//! no record is sealed twice.

use std::io;

use mbuf::{Chain, MapError, MbufPool, Mixed, NoBufs};

/// A record that was framed and not sealed.
#[derive(Debug)]
pub(crate) struct PlainRecord {
    /// The type of its content, in the numbers of its protocol.
    pub(crate) kind: u8,
    /// Its length in bytes once it is sealed.
    pub(crate) wire_len: usize,
    pub(crate) plain: PlainContent,
}

/// The content of such a record.
#[derive(Debug)]
pub(crate) enum PlainContent {
    /// A program's bytes.
    Data(Chain<Mixed>),
    /// A message of the protocol's own. It takes no buffer before it is sealed, so that it can be framed at any time.
    Message(Vec<u8>),
}

impl PlainContent {
    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Data(chain) => chain.len(),
            Self::Message(bytes) => bytes.len(),
        }
    }

    /// Bytes of the pool's memory that it keeps from being reused.
    pub(crate) fn pinned(&self) -> usize {
        match self {
            Self::Data(chain) => chain.pinned(),
            Self::Message(_) => 0,
        }
    }

    /// Whether its counts are true.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Data(chain) => chain.is_valid(),
            Self::Message(_) => true,
        }
    }
}

/// Seals records, in the order of the stream.
pub(crate) trait Sealer {
    /// Seals the record. The result has the announced length.
    ///
    /// # Errors
    /// [`SealError::NoBufs`]: nothing has changed, and the caller may try again. The other errors end the stream.
    fn seal(&mut self, pool: &MbufPool, record: &PlainRecord) -> Result<Chain, SealError>;
}

/// Why bytes that are ready can't be sent.
#[derive(Debug)]
pub(crate) enum SealError {
    /// No buffers: later.
    NoBufs,
    /// The pages can't be read.
    Read(#[expect(dead_code, reason = "for a test's output")] io::Error),
    /// There is no sealer.
    Failed,
}

impl From<NoBufs> for SealError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

impl From<MapError> for SealError {
    fn from(e: MapError) -> Self {
        match e {
            MapError::NoBufs => Self::NoBufs,
            MapError::Read(e) => Self::Read(e),
        }
    }
}
