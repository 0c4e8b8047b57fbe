//! The type of a record's content. Source: RFC 8446 5.1.

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ContentType {
    /// Of TLS 1.2, without a meaning in 1.3; after a handshake it must not come.
    ChangeCipherSpec = 20,
    Alert = 21,
    Handshake = 22,
    Data = 23,
}

impl ContentType {
    pub(super) fn parse(byte: u8) -> Option<Self> {
        Some(match byte {
            20 => Self::ChangeCipherSpec,
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::Data,
            _ => return None,
        })
    }
}
