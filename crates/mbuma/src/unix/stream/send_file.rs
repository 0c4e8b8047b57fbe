//! Sends files on a stream: the peer's receive buffer has the role of TCP's send buffer.
//!
//! The peer gets references to the pages of a sealed file; other files are read into clusters, which move to the peer.
//! A turn puts all its bytes into the peer's buffer, or none.
//!
//! Locks: none while a file is read. Source: as of `SendFile`.

use mbuf::{Chain, ClusterSize, MapError, MbufPool, Mixed};

use super::UnixStream;
use crate::park::Wait;
use crate::socket::SocketError;
use crate::socket::send_file::{FileRoom, FileSink, SendFileError, sends_files};
use crate::unix::{Message, UnixError};
use crate::waiters::WaitBy;

sends_files! {
    /// Moves as much of a file to the peer as its buffer takes, and returns the number of bytes. The program must not
    /// send other data before the job is done, or that data comes in between.
    ///
    /// # Errors
    /// [`SendFileError::Socket`] with [`SocketError::WouldBlock`] if nothing is taken now: see
    /// [`UnixStream::set_waker`]; with [`SocketError::Reset`] if the peer reads no more. After [`SendFileError::Read`]
    /// this side sends no more and the peer gets [`UnixError::Reset`] after the data, unless nothing of the job was
    /// accepted.
    #[doc(alias = "sendfile")]
    UnixStream
}

impl FileSink for UnixStream {
    fn pool(&self) -> &MbufPool {
        &self.unix().pool
    }

    fn fail(&self) {
        self.connection().fail();
    }

    fn room(&self, wanted: usize, waiting: Option<WaitBy<'_>>) -> Result<FileRoom, SendFileError> {
        let bytes = self.connection().room(wanted, waiting).map_err(error_of)?;
        Ok(FileRoom {
            bytes,
            piece: ClusterSize::K16.bytes(),
        })
    }

    fn put(&self, pieces: Vec<Chain<Mixed>>, _more: bool) -> Result<(), SendFileError> {
        let mut data = Chain::new();
        for piece in pieces {
            data.append(mapped(&self.unix().pool, piece)?);
        }
        let message = Message::new(data);
        let sent = self.connection().send(self.unix(), message, Wait::No);
        sent.map_err(|(e, _)| error_of(e))
    }
}

/// The piece as the peer's program reads it: pages in memory are shared.
fn mapped(pool: &MbufPool, piece: Chain<Mixed>) -> Result<Chain, SendFileError> {
    piece.try_into_mapped().or_else(|mut pages| {
        pages.map(pool).map_err(|e| match e {
            MapError::NoBufs => SocketError::NoBufs.into(),
            MapError::Read(e) => SendFileError::Read(e),
        })
    })
}

fn error_of(e: UnixError) -> SendFileError {
    SendFileError::Socket(match e {
        UnixError::WouldBlock => SocketError::WouldBlock,
        UnixError::NoBufs => SocketError::NoBufs,
        UnixError::TimedOut => SocketError::TimedOut,
        _ => SocketError::Reset,
    })
}

#[cfg(all(test, not(shuttle)))]
mod tests;
