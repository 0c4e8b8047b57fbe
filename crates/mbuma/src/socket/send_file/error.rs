//! Why a file can't be sent, or not now.

use std::io;

use mbuf::NoBufs;

#[cfg(doc)]
use super::SendFile;
use crate::error::SocketError;
use crate::tls::TlsError;

/// The error of sending a file. [`SendFile::accepted`] has the number of bytes that were accepted before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendFileError {
    /// An error of the connection; [`SocketError::WouldBlock`] if it takes nothing now.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// TLS.
    #[error("{0}")]
    Tls(#[source] TlsError),
    /// The next bytes are on a disk, or may be: see [`SendFile::set_resident_only`].
    #[error("the file is not in memory: send it from a thread that may wait")]
    NotResident,
    /// The file can't be read, or is shorter than the range ([`io::ErrorKind::UnexpectedEof`]). The connection has
    /// ended, unless nothing of the job was accepted: then the program may still send something else.
    #[error("reading the file that is being sent: {0}")]
    Read(#[source] io::Error),
}

impl SendFileError {
    /// Whether the call may succeed later: wait for the waker.
    pub fn is_would_block(&self) -> bool {
        matches!(self, Self::Socket(SocketError::WouldBlock))
    }
}

impl From<NoBufs> for SendFileError {
    fn from(_: NoBufs) -> Self {
        Self::Socket(SocketError::NoBufs)
    }
}

impl From<TlsError> for SendFileError {
    fn from(e: TlsError) -> Self {
        match e {
            TlsError::Socket(e) => Self::Socket(e),
            e => Self::Tls(e),
        }
    }
}

impl From<SendFileError> for io::Error {
    fn from(e: SendFileError) -> Self {
        match e {
            SendFileError::Socket(e) => e.into(),
            SendFileError::Tls(e) => e.into(),
            SendFileError::NotResident => Self::new(io::ErrorKind::WouldBlock, e),
            SendFileError::Read(e) => e,
        }
    }
}
