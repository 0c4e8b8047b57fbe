//! The ways in which making a page list can fail.

use crate::error::NoBufs;
use crate::raw::{PAGES_MAX, RECORD_HEADER_MAX, RECORD_TRAILER_MAX};

/// Why pages could not be shown in one mbuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExtPgsError {
    /// The bytes are in more pages than one mbuf lists.
    #[error("an mbuf lists {} pages and no more", PAGES_MAX)]
    TooManyPages,
    /// The bytes are not those of the pages that were named.
    #[error("the range is not one of the pages named")]
    OutOfRange,
    /// No buffer.
    #[error("{}", NoBufs)]
    NoBufs,
}

impl From<NoBufs> for ExtPgsError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

/// A record's header is longer than [`RECORD_HEADER_MAX`], or its trailer than
/// [`RECORD_TRAILER_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a record in an mbuf has {} bytes of header and {} of trailer at most",
    RECORD_HEADER_MAX,
    RECORD_TRAILER_MAX
)]
pub struct RecordTooLong;
