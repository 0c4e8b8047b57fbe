//! The ways in which making a page list can fail.

use core::fmt;
use std::error::Error;

use crate::error::NoBufs;
use crate::raw::{PAGES_MAX, RECORD_HEADER_MAX, RECORD_TRAILER_MAX};

/// Why pages could not be shown in one mbuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtPgsError {
    /// The bytes are in more pages than one mbuf lists.
    TooManyPages,
    /// The bytes are not those of the pages that were named.
    OutOfRange,
    /// No buffer.
    NoBufs,
}

impl fmt::Display for ExtPgsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyPages => write!(f, "an mbuf lists {PAGES_MAX} pages and no more"),
            Self::OutOfRange => f.write_str("the range is not one of the pages named"),
            Self::NoBufs => NoBufs.fmt(f),
        }
    }
}

impl Error for ExtPgsError {}

impl From<NoBufs> for ExtPgsError {
    fn from(_: NoBufs) -> Self {
        Self::NoBufs
    }
}

/// A record's header is longer than [`RECORD_HEADER_MAX`], or its trailer than
/// [`RECORD_TRAILER_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordTooLong;

impl fmt::Display for RecordTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a record in an mbuf has {RECORD_HEADER_MAX} bytes of header and \
             {RECORD_TRAILER_MAX} of trailer at most"
        )
    }
}

impl Error for RecordTooLong {}
