//! The header of a record, and the bounds of its length.
//!
//! ```text
//!   | type | 3 | 3 | length, 2 |  explicit nonce (1.2, GCM)  |  text, in 1.3 with its type behind it  |  tag, 16 |
//!                               |<------------------------- length ------------------------------------------->|
//! ```
//!
//! Source: RFC 8446 5.1 and 5.2, RFC 5246 6.2.

use super::{ContentType, TlsAlert, TlsVersion};

/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 5;

/// Bytes of content in a record, at most.
pub(super) const CONTENT_MAX: usize = 1 << 14;

/// Bytes behind the header of a received record, at most.
fn length_max(version: TlsVersion) -> usize {
    match version {
        TlsVersion::Tls12 => CONTENT_MAX + 2048,
        TlsVersion::Tls13 => CONTENT_MAX + 256,
    }
}

/// A record's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(super) content: ContentType,
    len: u16,
}

impl RecordHeader {
    pub(super) fn new(content: ContentType, len: usize) -> Self {
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        Self { content, len }
    }

    /// A received header, if a record may begin with it after the handshake.
    pub(super) fn parse(bytes: [u8; HEADER_LEN], version: TlsVersion) -> Result<Self, TlsAlert> {
        let [content, major, minor, high, low] = bytes;
        let content = ContentType::parse(content).ok_or(TlsAlert::UNEXPECTED_MESSAGE)?;
        if (major, minor) != (3, 3) {
            return Err(TlsAlert::PROTOCOL_VERSION);
        }
        // A record of TLS 1.3 has the type of data; its real type is encrypted.
        if version == TlsVersion::Tls13 && content != ContentType::Data {
            return Err(TlsAlert::UNEXPECTED_MESSAGE);
        }
        let len = u16::from_be_bytes([high, low]);
        if usize::from(len) > length_max(version) {
            return Err(TlsAlert::RECORD_OVERFLOW);
        }
        Ok(Self { content, len })
    }

    /// Bytes behind the header.
    pub(crate) fn len(self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [high, low] = self.len.to_be_bytes();
        [self.content as u8, 3, 3, high, low]
    }

    /// TLS 1.2's associated data: number, type, version, bytes of content (RFC 5246 6.2.3.3).
    pub(super) fn aad12(self, seq: u64, content_len: usize) -> [u8; 13] {
        let mut aad = [0; 13];
        let len = u16::try_from(content_len).unwrap_or(u16::MAX);
        let fields = seq.to_be_bytes().into_iter();
        let fields = fields.chain([self.content as u8, 3, 3]);
        for (to, byte) in aad.iter_mut().zip(fields.chain(len.to_be_bytes())) {
            *to = byte;
        }
        aad
    }
}
