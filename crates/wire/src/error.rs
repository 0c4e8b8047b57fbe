//! The errors of parsing a header.
//!
//! Invariants: one small `Copy` value, so that a caller maps it to a counted drop reason without formatting anything.
//! Locks: none.
//! Sources: the checks RFC 1122 section 3.2.1 and 4 ask of a host.

use core::fmt;

/// The first check that the received bytes did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// There are fewer bytes than the header, or than the header says it has.
    Truncated,
    /// The version field names another protocol version.
    BadVersion,
    /// The header length field is smaller than the smallest header.
    BadHeaderLen,
    /// A length field contradicts the header that holds it.
    BadLength,
    /// The checksum does not match.
    BadChecksum,
    /// Well formed, but of a kind that this stack does not support.
    Unsupported,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::Truncated => "truncated",
            ParseError::BadVersion => "bad version",
            ParseError::BadHeaderLen => "bad header length",
            ParseError::BadLength => "bad length",
            ParseError::BadChecksum => "bad checksum",
            ParseError::Unsupported => "unsupported",
        })
    }
}

impl core::error::Error for ParseError {}
