//! The errors of parsing a header.
//!
//! Invariants: one small `Copy` value, so that a caller maps it to a counted drop reason without formatting anything.
//! Locks: none.
//! Sources: the checks RFC 1122 section 3.2.1 and 4 ask of a host.

/// The first check that the received bytes did not pass (RFC 1122 sections 3.2.1 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// There are fewer bytes than the header, or than the header says it has.
    #[error("truncated")]
    Truncated,
    /// The version field names another protocol version.
    #[error("bad version")]
    BadVersion,
    /// The header length field is smaller than the smallest header.
    #[error("bad header length")]
    BadHeaderLen,
    /// A length field contradicts the header that holds it.
    #[error("bad length")]
    BadLength,
    /// Well formed, but of a kind that this stack does not support.
    #[error("unsupported")]
    Unsupported,
}
