//! The errors of TLS connections.

use std::io;

use mbuf::NoBufs;

use super::TlsAlert;
use crate::error::{SocketError, into_error};

/// Why a TLS connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// An error of the TCP connection. [`SocketError::WouldBlock`] is no failure.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// The peer ended the connection by an alert.
    #[error("the peer ended the TLS connection: {0}")]
    PeerAlert(TlsAlert),
    /// The peer broke the protocol; an alert was sent to it.
    #[error("the peer does not keep to TLS: {0}")]
    Protocol(TlsAlert),
    /// The peer's stream ended without close_notify: some of it may be missing.
    #[error("the peer's stream was cut off: no close_notify")]
    Truncated,
    /// The most records were sealed under the key, and TLS 1.2 has no way to change it: open a new connection.
    #[error("the key has sealed as many records as it may: open a new connection")]
    KeyWornOut,
    /// The handshake library gave no next key, or an AEAD refused to seal.
    #[error("no key to seal or open records with")]
    Keys,
    /// The handshake failed, on this side or the peer's; the program has the library's error.
    #[error("the TLS handshake failed")]
    Handshake,
}

impl TlsError {
    /// Whether a later attempt may succeed.
    pub fn is_would_block(self) -> bool {
        self == Self::Socket(SocketError::WouldBlock)
    }
}

impl From<NoBufs> for TlsError {
    fn from(_: NoBufs) -> Self {
        Self::Socket(SocketError::NoBufs)
    }
}

into_error!(TlsError);

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
