//! The errors of TLS connections.

use std::fmt;
use std::io;

use mbuf::NoBufs;

use super::TlsAlert;
use crate::error::SocketError;

/// Why a TLS connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsError {
    /// An error of the TCP connection. [`SocketError::WouldBlock`] is no failure.
    Socket(SocketError),
    /// The peer ended the connection by an alert.
    PeerAlert(TlsAlert),
    /// The peer broke the protocol; an alert was sent to it.
    Protocol(TlsAlert),
    /// The peer's stream ended without close_notify: some of it may be missing.
    Truncated,
    /// The most records were sealed under the key, and TLS 1.2 has no way to change it: open a new connection.
    KeyWornOut,
    /// The handshake library gave no next key, or an AEAD refused to seal.
    Keys,
    /// The handshake failed, on this side or the peer's; the program has the library's error.
    Handshake,
}

impl TlsError {
    /// Whether a later attempt may succeed.
    pub fn is_would_block(self) -> bool {
        self == Self::Socket(SocketError::WouldBlock)
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(e) => e.fmt(f),
            Self::PeerAlert(alert) => write!(f, "the peer ended the TLS connection: {alert}"),
            Self::Protocol(alert) => write!(f, "the peer does not keep to TLS: {alert}"),
            Self::Truncated => f.write_str("the peer's stream was cut off: no close_notify"),
            Self::KeyWornOut => {
                f.write_str("the key has sealed as many records as it may: open a new connection")
            }
            Self::Keys => f.write_str("no key to seal or open records with"),
            Self::Handshake => f.write_str("the TLS handshake failed"),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket(e) => Some(e),
            _ => None,
        }
    }
}

impl From<SocketError> for TlsError {
    fn from(e: SocketError) -> Self {
        Self::Socket(e)
    }
}

impl From<NoBufs> for TlsError {
    fn from(_: NoBufs) -> Self {
        Self::Socket(SocketError::NoBufs)
    }
}

impl From<TlsError> for io::Error {
    fn from(e: TlsError) -> Self {
        let kind = match e {
            TlsError::Socket(e) => return e.into(),
            TlsError::Truncated => io::ErrorKind::UnexpectedEof,
            TlsError::PeerAlert(_) => io::ErrorKind::ConnectionAborted,
            TlsError::Protocol(_) | TlsError::Handshake => io::ErrorKind::InvalidData,
            TlsError::KeyWornOut | TlsError::Keys => io::ErrorKind::Other,
        };
        Self::new(kind, e)
    }
}
