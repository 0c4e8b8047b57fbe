//! Records of a stream that are sealed when they are first sent, and the trait that seals them.
//!
//! The record's place in the stream has its length on the wire from the start, so sequence numbers, room and the FIN's place
//! are known; its bytes come at the first transmission, which replaces the record by them. So a retransmission shares bytes,
//! and nothing is ever sealed twice.

use std::io;

use mbuf::{Chain, MapError, MbufPool, Mixed, NoBufs};

/// A record that was framed and not sealed.
#[derive(Debug)]
pub(crate) struct PlainRecord {
    /// The type of its content, in the numbers of its protocol.
    pub(crate) kind: u8,
    /// Bytes that it will be.
    pub(crate) wire_len: usize,
    pub(crate) plain: Chain<Mixed>,
}

/// Seals records, in the order of the stream.
pub(crate) trait Sealer {
    /// The bytes of the record, as many as were said.
    ///
    /// # Errors
    /// [`SealError::NoBufs`], and nothing has changed; the other ones are the end of the stream.
    fn seal(&mut self, pool: &MbufPool, record: &PlainRecord) -> Result<Chain, SealError>;
}

/// Why bytes that are ready can't be sent.
#[derive(Debug)]
pub(crate) enum SealError {
    /// No buffers: later.
    NoBufs,
    /// The pages can't be read.
    Read(#[expect(dead_code, reason = "for a test's output")] io::Error),
    /// There is nothing to seal with.
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
