//! Sends files: moves a range of a file, with a header and a trailer, into a send buffer.
//!
//! | source | how |
//! |---|---|
//! | [`SealedFile`], a memfd that can't change | its pages lie in the send buffer by reference: no copy in this process; TLS encrypts from them |
//! | a [`File`] | read into clusters, outside of every lock, as far as there is room; the kernel reads ahead. A thread that must not wait for a disk sends the bytes in memory, and another thread [reads the rest](SendFile::read_ahead) |
//!
//! Pages of other files are never lent: if a page changed between a transmission and its repetition, the stream would
//! have two versions, and truncating the file would send the program a signal. If a file is shorter than the range or
//! can't be read, and a part of the job was accepted, the connection ends: the stack never fills in missing bytes.
//!
//! A [`SendFile`] is a job that continues where it stopped: [`SendFile::accepted`] is the one count of bytes that are
//! in the send buffer or were sent, header and trailer included. A byte is in the send buffer if and only if it is
//! counted.
//!
//! Locks: none while a file is read. Source: sendfile of FreeBSD; its CVE-2013-5666, and opnsense/src#296, where
//! partial progress was counted twice.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mbuf::{Chain, MbufPool, Mixed};

use super::SocketError;
use super::attempt::{blocking, polled};
use super::tcp_stream::TcpStream;
use crate::state::StackState;
use crate::waiters::WaitBy;

mod cut;
mod error;
mod read_ahead;
mod sealed_file;

pub use error::SendFileError;
use read_ahead::ReadAhead;
pub use sealed_file::SealedFile;

/// Bytes that one turn moves at most: enough to keep turns rare, and few enough to be in the cache still when they are
/// sent.
const TURN_MAX: usize = 256 << 10;

/// Where the bytes are.
#[derive(Debug, Clone)]
enum FileSource {
    Sealed(Arc<SealedFile>),
    File(Arc<File>),
}

/// A job that moves a range of a file into a send buffer (sendfile(2) of FreeBSD).
#[derive(Debug)]
#[doc(alias = "sendfile")]
#[doc(alias = "sf_hdtr")]
pub struct SendFile {
    source: FileSource,
    range: Range<u64>,
    header: Vec<u8>,
    trailer: Vec<u8>,
    /// Bytes of header, range and trailer that were accepted.
    accepted: u64,
    /// The end of the range that the kernel was asked to read ahead.
    advised: u64,
    /// Bytes that another thread, which may wait for a disk, has read.
    ahead: Option<ReadAhead>,
    /// Bytes that one call moves at most.
    call_max: u64,
    resident_only: bool,
}

impl SendFile {
    /// A range of a file that is read as it is sent.
    pub fn new(file: Arc<File>, range: Range<u64>) -> Self {
        Self::of(FileSource::File(file), range)
    }

    /// A range of a sealed memfd, by reference.
    pub fn sealed(file: Arc<SealedFile>, range: Range<u64>) -> Self {
        Self::of(FileSource::Sealed(file), range)
    }

    fn of(source: FileSource, range: Range<u64>) -> Self {
        // No file is larger. The bound keeps the sum with header and trailer from overflowing.
        const FILE_MAX: u64 = i64::MAX as u64;
        let start = range.start.min(FILE_MAX);
        Self {
            advised: start,
            range: start..range.end.clamp(start, FILE_MAX),
            source,
            header: Vec::new(),
            trailer: Vec::new(),
            accepted: 0,
            ahead: None,
            call_max: u64::MAX,
            resident_only: false,
        }
    }

    /// Sends these bytes first; the beginning of the file follows in the same segment or record.
    #[must_use]
    pub fn with_header(mut self, header: impl Into<Vec<u8>>) -> Self {
        self.header = header.into();
        self
    }

    /// Sends these bytes last.
    #[must_use]
    pub fn with_trailer(mut self, trailer: impl Into<Vec<u8>>) -> Self {
        self.trailer = trailer.into();
        self
    }

    /// Moves at most `bytes` in each call, for a thread with other work. Blocking calls ignore this. Between two calls
    /// a segment that is not full waits for the next call, for at most 200 ms. While much data is in flight, a packet
    /// of several segments also waits until it is as large as the device takes.
    pub fn set_call_max(&mut self, bytes: u64) {
        self.call_max = bytes;
    }

    /// Reads only from the page cache, for a thread that must not wait for a disk. At the first byte that is not there,
    /// or if the file system can't tell, the call returns [`SendFileError::NotResident`]. Another thread may then [read
    /// ahead](SendFile::read_ahead).
    #[doc(alias = "SF_NODISKIO")]
    pub fn set_resident_only(&mut self, on: bool) {
        self.resident_only = on;
    }

    /// Bytes that were accepted so far, of header, file and trailer together.
    #[doc(alias = "sbytes")]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether the file's pages are lent instead of copied.
    pub fn is_by_reference(&self) -> bool {
        matches!(self.source, FileSource::Sealed(_))
    }

    /// Bytes that are still to be accepted.
    pub fn left(&self) -> u64 {
        let all = self.header.len() as u64 + self.file_len() + self.trailer.len() as u64;
        all - self.accepted
    }

    /// Whether all of it was accepted.
    pub fn is_done(&self) -> bool {
        self.left() == 0
    }

    fn file_len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// A stream that takes files.
pub(crate) trait FileSink {
    /// The buffers that files are read into.
    fn pool(&self) -> &MbufPool;

    /// The timeout of calls that give none.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// The stack, if its connection needs one that is driven.
    fn stack(&self) -> Option<&StackState> {
        None
    }

    /// Ends the connection with an error at its peer, because promised bytes can't be read.
    fn fail(&self);

    /// The room now and the length of a piece, if the room is worth a turn for `wanted` bytes. Otherwise `waiting` is
    /// woken when it is.
    fn room(&self, wanted: usize, waiting: Option<WaitBy<'_>>) -> Result<FileRoom, SendFileError>;

    /// Appends the pieces. If `more` follows at once, a segment that is not full waits for it.
    fn put(&self, pieces: Vec<Chain<Mixed>>, more: bool) -> Result<(), SendFileError>;
}

/// The room that a stream has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRoom {
    pub(crate) bytes: usize,
    /// Bytes of a piece, at most: of a record, or of a cluster.
    pub(crate) piece: usize,
}

/// Moves as much as there is room for, in whole pieces, and returns that number of bytes; it is less than all if the
/// job must wait.
pub(crate) fn send(
    sink: &impl FileSink,
    job: &mut SendFile,
    waiting: Option<WaitBy<'_>>,
) -> Result<u64, SendFileError> {
    let (begin, mut piece) = (job.accepted, 1);
    // A call ends with a whole piece: a short one is as much work.
    while !job.is_done() && job.call_max - (job.accepted - begin) >= piece {
        let max = job.call_max - (job.accepted - begin);
        match turn(sink, job, max, waiting) {
            Ok(of_sink) => piece = of_sink as u64,
            Err(e) if job.accepted > begin && !ends(&e) => break,
            Err(e) => {
                if let SendFileError::Read(_) = e
                    && job.accepted > 0
                {
                    sink.fail();
                }
                return Err(e);
            }
        }
    }
    Ok(job.accepted - begin)
}

/// Whether the error is final.
fn ends(e: &SendFileError) -> bool {
    !matches!(
        e,
        SendFileError::NotResident
            | SendFileError::Socket(SocketError::WouldBlock | SocketError::NoBufs)
    )
}

fn turn(
    sink: &impl FileSink,
    job: &mut SendFile,
    max: u64,
    waiting: Option<WaitBy<'_>>,
) -> Result<usize, SendFileError> {
    let wanted = usize::try_from(job.left().min(max))
        .unwrap_or(usize::MAX)
        .min(TURN_MAX);
    let room = sink.room(wanted, waiting)?;
    let all = job.left() <= wanted as u64;
    let max = match room.bytes.min(wanted) {
        max if max > room.piece && !(all && max == wanted) => max - max % room.piece.max(1),
        max => max,
    };
    let pieces = job.cut(sink.pool(), max, room.piece)?;
    let len: usize = pieces.iter().map(Chain::len).sum();
    // The rest follows as soon as there is room. If the buffer is smaller than a turn, it may be smaller than a
    // segment, which then must not wait until it is full.
    let left = job.left() - len as u64;
    let whole_turn = len == max && room.bytes >= wanted;
    let more = left > 0 && whole_turn && wanted.max(room.bytes - len) >= TURN_MAX;
    sink.put(pieces, more)?;
    job.accepted += len as u64;
    job.forget_sent();
    Ok(room.piece)
}

/// Moves all of it, waiting for room.
pub(crate) fn send_blocking(
    sink: &impl FileSink,
    job: &mut SendFile,
    timeout: Option<Duration>,
) -> Result<u64, SendFileError> {
    let begin = job.accepted;
    while !job.is_done() {
        let timeout = || timeout.or_else(|| sink.timeout());
        blocking(sink.stack(), timeout, |waiting| send(sink, job, waiting))?;
    }
    Ok(job.accepted - begin)
}

/// Moves as much of it as there is room for; the task is woken when there is room.
pub(crate) fn poll_send(
    sink: &impl FileSink,
    cx: &Context<'_>,
    job: &mut SendFile,
) -> Poll<Result<u64, SendFileError>> {
    polled(sink.stack(), cx, |waiting| send(sink, job, waiting))
}

/// The methods of a [`FileSink`] that programs call, with the documentation of the first.
macro_rules! sends_files {
    ($(#[$doc:meta])* $Stream:ident) => {
        impl $Stream {
            $(#[$doc])*
            pub fn send_file(
                &self,
                job: &mut $crate::socket::SendFile,
            ) -> Result<u64, $crate::socket::SendFileError> {
                $crate::socket::send_file::send(self, job, None)
            }

            /// Moves all of a file, waiting for room; each wait may take `timeout`. Returns the bytes of this call.
            ///
            /// # Errors
            /// As of [`send_file`](Self::send_file); [`SocketError::TimedOut`](crate::socket::SocketError::TimedOut)
            /// when the time is over.
            pub fn send_file_blocking(
                &self,
                job: &mut $crate::socket::SendFile,
                timeout: Option<std::time::Duration>,
            ) -> Result<u64, $crate::socket::SendFileError> {
                $crate::socket::send_file::send_blocking(self, job, timeout)
            }

            /// As [`send_file`](Self::send_file); the task is woken when there is room.
            pub fn poll_send_file(
                &self,
                cx: &mut std::task::Context<'_>,
                job: &mut $crate::socket::SendFile,
            ) -> std::task::Poll<Result<u64, $crate::socket::SendFileError>> {
                $crate::socket::send_file::poll_send(self, cx, job)
            }
        }
    };
}

pub(crate) use sends_files;

sends_files! {
    /// Moves as much of a file into the send buffer as it takes, and returns the number of bytes. The program must not
    /// send other data before the job is done, or that data comes in between.
    ///
    /// # Errors
    /// [`SendFileError::Socket`] with [`SocketError::WouldBlock`] if nothing is taken now: see
    /// [`TcpStream::set_waker`]. After [`SendFileError::Read`] the connection has ended, unless nothing of the job was
    /// accepted.
    #[doc(alias = "sendfile")]
    TcpStream
}

#[cfg(all(test, not(shuttle)))]
pub(crate) mod tests;
